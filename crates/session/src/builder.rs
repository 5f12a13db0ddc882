//! The effective history built from nothing, over the whole log, one step after the other.
//!
//! This is the oracle for the maintained view: it is written for being read, keeps nothing, and
//! shares only the leaves with it (how a payload is read, how an entry is worded).

mod base; // what a compaction or snapshot puts in place of the beginning
mod pair; // answers put together, calls and results brought together

use std::collections::HashMap;
use std::sync::Arc;

use event::{Event, EventId, Kind};

use crate::view::{EffectiveView, FileLists, InlineEntry, List, Repair, Replaced, ViewError, Why};

/// How to read what a log should not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Fails and names the event.
    Strict,
    /// Works around it and says so in a repair.
    #[default]
    Salvage,
}

/// Builds the effective history of a whole log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ViewBuilder {
    /// Files of each list in the working set; 0 means the default.
    pub files_max: usize,
    pub mode: Mode,
}

impl ViewBuilder {
    /// Builds the history that a model would be shown after the last of `events`.
    ///
    /// The events are those of one session from its first one on.
    pub fn build<'a>(
        &self,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<EffectiveView, ViewError> {
        let session = IndexedLog::new(events.into_iter().collect())?;
        let mut repairs = Vec::new();
        let base = session.choose_base(&mut repairs);
        let (stream, files) = session.collect_pieces(&base, &mut repairs);
        let arranged = pair::arrange_stream(&stream, &mut repairs);

        let view = EffectiveView {
            base_seq: base.seq(),
            up_to_seq: session.events.len() as u64,
            base_prefix: list_from_vec(arranged.base_prefix),
            working_set: files.working_set(self.files_max).map(Arc::new),
            prefix: list_from_vec(arranged.prefix),
            // The oracle does not know which entries are still open; only the order of all entries
            // counts.
            settled: list_from_vec(arranged.rest),
            tail: Arc::new([]),
            base_repairs: repairs.into(),
            settled_repairs: List::default(),
            tail_repairs: Arc::new([]),
            files: Arc::new(files),
        };
        if self.mode == Mode::Strict {
            view.strict()?;
        }
        Ok(view)
    }
}

fn list_from_vec<T: Clone>(elements: Vec<T>) -> List<T> {
    let mut list = List::default();
    list.extend(elements);
    list
}

/// The log, indexed.
struct IndexedLog<'a> {
    events: Vec<&'a Event>,
    seq_of: HashMap<EventId, u64>,
    /// Whether event `seq` is on the active path, at `seq - 1`.
    on_path: Vec<bool>,
    /// By amending event, the place it belongs to.
    place_of: HashMap<u64, u64>,
    /// By place, the newest event that amends what stands there.
    amended_by: HashMap<u64, u64>,
}

/// An event, or a text of a base, at its place in the history.
struct HistoryPiece<'a> {
    /// The event that speaks; for a text of a base, the base.
    event: &'a Event,
    /// The place it stands at in the log.
    place: u64,
    body: PieceBody,
    /// Covered by a base, and here only because it was open when the base was made.
    dormant: bool,
    /// Belongs to what the working set stands behind.
    in_base: bool,
}

enum PieceBody {
    /// Says what its event says, perhaps in other words.
    Event(Option<Replaced>),
    /// Says what the base gives in full.
    Inline(Box<InlineEntry>),
}

impl<'a> IndexedLog<'a> {
    fn new(events: Vec<&'a Event>) -> Result<IndexedLog<'a>, ViewError> {
        let mut session = IndexedLog {
            seq_of: HashMap::new(),
            on_path: vec![false; events.len()],
            place_of: HashMap::new(),
            amended_by: HashMap::new(),
            events,
        };
        // Events are found by `seq - 1` below, which holds only for a log without gaps.
        for (event, expected) in session.events.iter().zip(1..) {
            if event.seq != expected {
                let (found, event_id) = (event.seq, event.id);
                return Err(ViewError::OutOfOrder { expected, found, event_id });
            }
            if let Some(target) = session.amended_seq(event) {
                // An amendment of an amendment stands where the first event of the chain stands.
                let place = session.place_of.get(&target).copied().unwrap_or(target);
                session.place_of.insert(event.seq, place);
                session.amended_by.insert(place, event.seq);
            }
            // Noted only now: an event can amend and continue earlier events, never itself.
            session.seq_of.insert(event.id, event.seq);
        }
        session.walk_path();
        Ok(session)
    }

    /// The earlier event that this one amends. Bases count as they are: they amend
    /// nothing and are not amended.
    fn amended_seq(&self, event: &Event) -> Option<u64> {
        let is_base = |event: &Event| matches!(event.kind, Kind::Compaction | Kind::Snapshot);
        let target = event.amends().and_then(|id| self.seq_of.get(&id).copied())?;
        (!is_base(event) && !is_base(self.event_at(target))).then_some(target)
    }

    /// From the last event back to the first: a prompt continues after its parent, everything
    /// else after the event before it.
    fn walk_path(&mut self) {
        let mut seq = self.events.len() as u64;
        while seq > 0 {
            self.on_path[seq as usize - 1] = true;
            let event = self.event_at(seq);
            let parent = event
                .parent_id
                // A prompt that amends another one is a better account of it and no rewind.
                .filter(|_| event.kind == Kind::UserPrompt && !self.place_of.contains_key(&seq))
                .and_then(|id| self.seq_of.get(&id).copied())
                // A parent must come earlier, or the walk would not end.
                .filter(|parent| *parent < seq);
            seq = parent.unwrap_or(seq - 1);
        }
    }

    fn event_at(&self, seq: u64) -> &'a Event {
        self.events[seq as usize - 1]
    }

    fn is_on_path(&self, seq: u64) -> bool {
        seq > 0 && self.on_path.get(seq as usize - 1).copied().unwrap_or(false)
    }

    /// The event that speaks at a place: the one that stands there, or its fullest account.
    fn speaker_at(&self, place: u64) -> &'a Event {
        self.event_at(self.amended_by.get(&place).copied().unwrap_or(place))
    }

    /// The places of the path after one event and up to another, in order.
    fn path_places(&self, after_seq: u64, to_seq: u64) -> impl Iterator<Item = u64> {
        (after_seq + 1..=to_seq.min(self.events.len() as u64))
            .filter(|seq| self.is_on_path(*seq) && !self.place_of.contains_key(seq))
    }

    /// The entries of the base, then everything behind its cutoff; and the files of the base.
    fn collect_pieces(
        &self,
        base: &base::Chosen,
        repairs: &mut Vec<Repair>,
    ) -> (Vec<HistoryPiece<'a>>, FileLists) {
        let (mut stream, files) = self.expand_base(base, repairs);
        let end = self.events.len() as u64;
        stream.extend(self.path_places(base.cutoff_seq(), end).map(|place| HistoryPiece {
            event: self.speaker_at(place),
            place,
            body: PieceBody::Event(None),
            dormant: false,
            in_base: false,
        }));
        // A dormant piece may never be shown, so its amendment is no change of the history.
        for piece in stream.iter().filter(|piece| !piece.dormant) {
            let is_amended = matches!(piece.body, PieceBody::Event(_));
            if is_amended && piece.event.seq != piece.place && piece.event.kind.is_shown() {
                repairs.push(Repair { seq: piece.place, why: Why::Amended });
            }
        }
        (stream, files)
    }
}
