//! The effective history: what a model would see of a session, maintained event by event.
//!
//! A plain event costs its own entry at any length of the session. An event that changes the
//! recent past (a rewind, an amendment) costs the events since. An event that changes the
//! beginning (a compaction) costs nothing until the history is requested; then it is read from
//! its base on.
//!
//! Not here: appending and the clock. [`ViewBuilder`](crate::builder::ViewBuilder) builds the
//! same history from the whole log and is the oracle in tests.

mod entry; // entries of the history and their repairs
mod effective; // the history as callers get it
mod contribution; // what one event contributes
mod answer; // parts, calls and results of one answer
mod fold; // events in, history out
mod path; // rewinds and the active path
mod amends; // events that replace earlier ones
mod base; // compactions and snapshots, and which of them is used
mod inline; // the entries that a base gives in full
mod plan; // the entries that a base puts in place of the beginning
mod answer_span; // the open answer at a given event
mod files; // the working set of files
mod upkeep; // applying events to a view, and reading its entries
mod late_answers; // answers with parts that come late
mod stream; // the history entry by entry, without holding it
mod saved; // the view beside the log
mod list; // a list that is cheap to copy
mod log; // access of a view to the log
mod error;

pub use effective::{EffectiveView, HistoryMessage};
pub use entry::{HistoryEntry, Repair, Replaced, Role, ToolNote, Why};
pub use error::ViewError;
pub use files::{FILES_MAX, FileLists, FileTools, Touch};
pub use log::EventLog;
pub use saved::SavedView;
pub use stream::EffectiveStream;

pub(crate) use answer_span::AnswerSpan;
pub(crate) use base::BasePayload;
pub(crate) use contribution::{Contribution, joins_answer};
pub(crate) use entry::{result_content, with_text};
pub(crate) use inline::{BaseEntry, InlineEntry, pair_inline};
pub(crate) use list::List;

use event::payload::SavedEntry;
use event::{Event, EventId, Kind, Time};

use amends::Amends;
use base::{Bases, Chosen, additions};
use contribution::affects_history;
use path::Path;
use upkeep::Loaded;

/// How a view is rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ViewOptions {
    /// Files of each list in the working set; 0 means the default.
    pub files_max: usize,
}

/// The maintained effective history of a session.
#[derive(Debug)]
pub struct View {
    options: ViewOptions,
    up_to_seq: u64,
    last_id: Option<EventId>,
    path: Path,
    amends: Amends,
    bases: Bases,
    chosen: Chosen,
    /// The newest event on the path that can change a history.
    mattering_seq: u64,
    /// The newest talk or context on the path; 0 if there was none.
    shown_seq: u64,
    /// The time of the first event after the newest base.
    uncovered_at: Option<Time>,
    /// The entries; `None` if they must be read from the log at the next request.
    loaded: Option<Loaded>,
}

impl View {
    /// The view of a session without events.
    pub fn new(options: ViewOptions) -> View {
        View {
            options,
            up_to_seq: 0,
            last_id: None,
            path: Path::default(),
            amends: Amends::default(),
            bases: Bases::default(),
            chosen: Chosen::default(),
            mattering_seq: 0,
            shown_seq: 0,
            uncovered_at: None,
            loaded: Some(Loaded::empty()),
        }
    }

    /// Applies the next event. If it fails, the view is unchanged.
    pub fn apply(&mut self, event: &Event, log: &dyn EventLog) -> Result<(), ViewError> {
        let expected = self.up_to_seq + 1;
        // The path and the marks are numbers of the log. A gap would let them point at wrong
        // events.
        if event.seq != expected {
            let (found, event_id) = (event.seq, event.id);
            return Err(ViewError::OutOfOrder { expected, found, event_id });
        }
        let is_base = matches!(event.kind, Kind::Compaction | Kind::Snapshot);
        if is_base {
            // Everything that can fail comes before the first change, so that an error changes
            // nothing.
            let base = self.read_base(event, log)?;
            self.adopt_base(base);
        } else if let Some(target) = earlier_seq(event.amends(), event.seq, log)?
            // Bases count as they are and are not amended; the oracle reads them the same way.
            && self.bases.get(target).is_none()
        {
            self.amends.add_amend(event.seq, target);
            let place = self.amends.place_of(target);
            // `<` and not `<=`: a mark at this place exists because the old event closed the
            // answer before it. The amended event may not close it.
            self.replay_from_mark(|mark| mark < place, self.up_to_seq, None, log);
        } else {
            let parent_seq = match event.kind {
                // Only prompts rewind. Every other event continues after the one before it.
                Kind::UserPrompt => earlier_seq(event.parent_id, event.seq, log)?,
                _ => None,
            };
            match parent_seq {
                Some(parent_seq) => self.continue_after(parent_seq, event, log),
                None => self.apply_plain(event, log),
            }
        }
        if affects_history(&event.kind) {
            // Set after the event was applied: `continue_after` compares with the state before it.
            self.mattering_seq = event.seq;
        }
        if event.kind.is_shown() {
            self.shown_seq = event.seq;
        }
        self.up_to_seq = event.seq;
        self.last_id = Some(event.id);
        if is_base {
            self.uncovered_at = None;
        } else {
            // Only the first event counts: the age of a snapshot's news is that of its oldest
            // event.
            self.uncovered_at.get_or_insert(event.created_at);
        }
        Ok(())
    }

    /// Returns the history after the last event. A second call without new events costs nothing.
    pub fn effective(&mut self, log: &dyn EventLog) -> Result<&EffectiveView, ViewError> {
        let mut loaded = match self.loaded.take() {
            // Taken out and put back, because reading and rendering need the rest of the view by
            // reference. A failed read leaves `None`, and the next request tries again.
            Some(loaded) => loaded,
            None => self.read_back(log)?,
        };
        if loaded.effective.is_none() {
            loaded.effective = Some(self.render_view(&mut loaded));
        }
        let loaded = self.loaded.insert(loaded);
        Ok(loaded.effective.as_ref().expect("rendered above"))
    }

    /// Drops the entries; the next request reads them again.
    pub fn unload(&mut self) {
        self.loaded = None;
    }

    /// Whether the entries are in memory.
    pub fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Returns the newest applied event; 0 if there is none.
    pub fn up_to_seq(&self) -> u64 {
        self.up_to_seq
    }

    /// Returns the compaction or snapshot that the history is based on.
    pub fn base_seq(&self) -> Option<u64> {
        self.chosen.newest().map(|base| base.seq)
    }

    /// Returns the compaction that the history is based on, below any snapshot.
    pub fn compaction_seq(&self) -> Option<u64> {
        self.chosen.compaction.map(|base| base.seq)
    }

    /// Whether an event is on the active path.
    pub fn is_on_path(&self, seq: u64) -> bool {
        self.path.contains(seq, self.up_to_seq)
    }

    /// Returns the last event that the base covers; 0 without a base.
    pub(crate) fn cutoff_seq(&self) -> u64 {
        self.chosen.newest().map_or(0, |base| base.cutoff_seq)
    }

    /// Whether an event is a compaction or snapshot.
    pub(crate) fn is_base(&self, seq: u64) -> bool {
        self.bases.get(seq).is_some()
    }

    /// Whether the path has no talk and no context.
    pub(crate) fn is_silent(&self) -> bool {
        self.shown_seq == 0 && self.chosen.newest().is_none()
    }

    /// Returns the newest compaction or snapshot of the log, used or not, and its cutoff.
    pub(crate) fn newest_base(&self) -> Option<(u64, u64)> {
        let base = self.bases.newest()?;
        Some((base.seq, base.as_root().map_or(0, |root| root.cutoff_seq)))
    }

    /// Returns the time of the first event after the newest base.
    pub(crate) fn uncovered_at(&self) -> Option<Time> {
        self.uncovered_at
    }

    /// Returns the last event that a base can cover without separating an answer from its
    /// results: the last event, or the one before an answer that waits for results. `None` at the
    /// beginning of the path.
    pub(crate) fn coverable(&self, log: &dyn EventLog) -> Result<Option<Covered>, ViewError> {
        let open = self.open_answer_at(self.up_to_seq, log)?;
        let seq = match open.and_then(|stretch| stretch.parts.first().copied()) {
            // Before the answer on its path, which need not be the number before it.
            Some(first) => self.path.seq_before(first),
            None => self.up_to_seq,
        };
        if seq == 0 {
            return Ok(None);
        }
        Ok(log.event(seq)?.map(|event| Covered { seq, event_id: event.id }))
    }

    /// Returns the answer at the end of the path to `seq`, if it waits for results there.
    pub(crate) fn open_answer_at(
        &self,
        seq: u64,
        log: &dyn EventLog,
    ) -> Result<Option<AnswerSpan>, ViewError> {
        Ok(AnswerSpan::ending_at(seq, &self.path, &self.amends, log)?.if_open())
    }

    /// Returns the place where event `seq` is shown: that of the event it amends, if any.
    pub(crate) fn place_of(&self, seq: u64) -> u64 {
        self.amends.place_of(seq)
    }

    /// Returns entries that reproduce the view up to `to_seq`, all by reference.
    pub(crate) fn references(&self, to_seq: u64) -> Vec<SavedEntry> {
        additions(self.chosen.root, &self.path, to_seq)
    }
}

/// The last event that a new base covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Covered {
    pub(crate) seq: u64,
    pub(crate) event_id: EventId,
}

/// Returns the number of an event if it is before `seq`.
fn earlier_seq(
    id: Option<EventId>,
    seq: u64,
    log: &dyn EventLog,
) -> Result<Option<u64>, ViewError> {
    let Some(id) = id else { return Ok(None) };
    Ok(log.seq_of(id)?.filter(|found| *found < seq))
}
