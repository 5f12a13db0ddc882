//! Folds events into the history, one at a time.
//!
//! A plain event can change only the last answer, its results and the context around them;
//! everything before is settled. For events that change more of the past, the fold keeps a few
//! marks that it can return to:
//!
//! ```text
//!   settled entries                          items
//!   ──┬───────────┬───────────┬──────────┬──────────────────────┐
//!     mark        mark        mark       the open answer, its results, context
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use event::Kind;

use super::answer::{AnswerBuilder, PlacedEvent};
use super::contribution::{Contribution, joins_answer};
use super::entry::{HistoryEntry, Repair, Role, Why};
use super::inline::InlineEntry;
use super::list::List;

/// The number of marks. Events since the oldest mark can be folded again without starting over.
/// Amendments and rewinds mostly concern the last few prompts and answers.
const MARKS_MAX: usize = 64;

/// The history up to the last applied event.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub(crate) base_prefix: List<Arc<HistoryEntry>>,
    pub(crate) prefix: List<Arc<HistoryEntry>>,
    pub(crate) settled: List<Arc<HistoryEntry>>,
    pub(crate) repairs: List<Repair>,
    /// Whether the next entries belong to the base, before the working set.
    pub(crate) in_base: bool,
    items: VecDeque<FoldItem>,
    /// The number of settled items before the first of `items`.
    settled_items: usize,
    /// The item of each unsettled answer, by message id.
    answers: HashMap<String, usize>,
    settled_answers: SettledAnswers,
    open: Option<OpenEntry>,
    /// Oldest first.
    marks: VecDeque<RewindPoint>,
    /// Earlier events are settled. False while a whole range is folded, which is settled only at
    /// its end.
    is_settled: bool,
}

/// The first event of each settled answer, by the hash of its message id. Hashes keep the memory
/// small; a collision only costs a needless replay.
#[derive(Debug, Default)]
struct SettledAnswers {
    places: HashMap<u64, u64>,
    /// The hashes in the order they came.
    hashes: Vec<u64>,
}

/// A mark: the lengths of the lists before the event at `place`, when everything was settled.
#[derive(Debug)]
struct RewindPoint {
    place: u64,
    prefix: usize,
    settled: usize,
    repairs: usize,
    answers: usize,
}

#[derive(Debug)]
enum FoldItem {
    Entry(Arc<HistoryEntry>),
    Answer(Box<AnswerBuilder>),
}

/// The answer that receives results and further parts.
#[derive(Debug)]
struct OpenEntry {
    item: usize,
    has_result: bool,
    /// Other talk came in between, and a later part came back to this answer.
    is_late: bool,
    /// Context since its first part that was not moved yet.
    contexts: Vec<u64>,
}

/// The error for a part of a settled answer: all events since the answer began must be folded
/// again to put the part in its place.
#[derive(Debug)]
pub(crate) struct LatePart {
    pub(crate) place: u64,
}

impl Fold {
    /// Applies one event.
    pub(crate) fn apply(&mut self, spoken: PlacedEvent<'_>) -> Result<(), LatePart> {
        let event = spoken.event;
        match Contribution::from_event(event) {
            Contribution::Prompt(content) => {
                let entry = HistoryEntry::from_speech(event, spoken.place, Role::User, content);
                // Closed first: the mark has to stand before the prompt, so that a return to it
                // drops the prompt.
                self.close_answer(spoken.place);
                self.add_entry(entry.with_replaced(spoken.replaced), event.seq);
            }
            Contribution::Context(context) => {
                let entry = HistoryEntry::from_context(event, spoken.place, context);
                self.add_context(entry.with_replaced(spoken.replaced), event.seq);
            }
            Contribution::Started(started) => {
                // A start without an open answer belongs to talk that is over and fills no gap.
                if let Some((answer, _)) = self.open_answer() {
                    answer.note_start(started, spoken.place);
                }
            }
            Contribution::Result(result) => {
                let given = match self.open_answer() {
                    Some((answer, open)) => {
                        // Even a result without a call ends a run of parts without ids; see
                        // `joins_answer`.
                        open.has_result = true;
                        answer.add_result(result, spoken)
                    }
                    None => Err(Why::NoCall),
                };
                match given {
                    Ok(()) => self.move_contexts(),
                    // The base covers it. What is missing there is not missing in the history.
                    Err(_) if spoken.is_dormant => {}
                    Err(why) => self.add_repair(event.seq, why),
                }
            }
            Contribution::Unreadable(error) => {
                // The user did speak, so the answer before is over although the words cannot be
                // read.
                if event.kind == Kind::UserPrompt {
                    self.close_answer(spoken.place);
                }
                self.add_repair(event.seq, Why::Unreadable(error));
            }
            Contribution::Unknown => self.add_repair(event.seq, Why::UnknownRecord),
            Contribution::Nothing => {}
            said @ (Contribution::Message(_)
            | Contribution::Thinking(_)
            | Contribution::Call(_)) => {
                self.add_part(said, spoken)?;
            }
        }
        Ok(())
    }

    /// Applies an entry that a base gives in full.
    pub(crate) fn apply_inline(&mut self, inline: &InlineEntry) {
        let base_seq = inline.base_seq;
        if let Some(why) = inline.repair() {
            self.add_repair(base_seq, why);
        }
        match inline.history_entry() {
            Some(Ok(entry)) if entry.context_kind.is_some() => self.add_context(entry, base_seq),
            Some(Ok(entry)) => {
                // An entry in full has no events, so there is no place to set a mark at.
                self.open = None;
                self.add_entry(entry, base_seq);
            }
            Some(Err(why)) => self.add_repair(base_seq, why),
            None => self.open = None,
        }
    }

    pub(crate) fn add_repair(&mut self, seq: u64, why: Why) {
        self.repairs.push(Repair { seq, why });
    }

    /// Settles everything before the open answer.
    pub(crate) fn settle_before_open(&mut self) {
        let end = self.settled_items + self.items.len();
        // Items are counted over the whole history, so that an index stays valid when earlier ones
        // settle.
        let until = self.open.as_ref().map_or(end, |open| open.item);
        let settled_answers = &mut self.settled_answers;
        let (entries, repairs) =
            render_items(self.items.drain(..until - self.settled_items), |answer| {
                // Answers without an id are not in the map and cannot get late parts.
                if self.answers.remove(&answer.message_id).is_some() {
                    settled_answers.insert_answer(hash(&answer.message_id), answer.place());
                }
            });
        self.settled.extend(entries);
        self.repairs.extend(repairs);
        self.settled_items = until;
        self.is_settled = true;
    }

    /// Drops everything from the newest mark that `fits` on and returns its place, from which the
    /// caller must fold again. `None` if no mark fits; then the fold is unchanged.
    pub(crate) fn return_to(&mut self, fits: impl Fn(u64) -> bool) -> Option<u64> {
        let at = self.marks.iter().rposition(|mark| fits(mark.place))?;
        // The mark itself stays: the history before its place is still the same.
        self.marks.truncate(at + 1);
        let mark = self.marks.back()?;
        self.prefix.truncate(mark.prefix);
        self.settled.truncate(mark.settled);
        self.repairs.truncate(mark.repairs);
        self.settled_answers.truncate(mark.answers);
        self.items.clear();
        self.answers.clear();
        self.open = None;
        // The caller folds a range now; it is settled as a whole at its end.
        self.is_settled = false;
        Some(mark.place)
    }

    /// Returns the entries that are not settled and their repairs.
    pub(crate) fn unsettled(&mut self) -> (Vec<Arc<HistoryEntry>>, Vec<Repair>) {
        let (mut entries, mut repairs) = (Vec::new(), Vec::new());
        for item in &mut self.items {
            item.render_into(&mut entries, &mut repairs);
        }
        (entries, repairs)
    }

    /// Takes out the entries before the first answer that is open or that `is_awaited` says gets
    /// parts later, with their repairs. The fold forgets them: a part that comes all the same begins
    /// an answer of its own.
    pub(crate) fn take_finished(
        &mut self,
        is_awaited: impl Fn(&str) -> bool,
    ) -> (Vec<Arc<HistoryEntry>>, Vec<Repair>) {
        let until = self.open.as_ref().map_or(usize::MAX, |open| open.item - self.settled_items);
        let items = self.items.iter().take(until);
        let finished = items.take_while(|item| !item.is_answer(&is_awaited)).count();
        self.settled_items += finished;
        render_items(self.items.drain(..finished), |answer| {
            self.answers.remove(&answer.message_id);
        })
    }

    /// Takes out all entries that are left, with their repairs.
    pub(crate) fn take_rest(&mut self) -> (Vec<Arc<HistoryEntry>>, Vec<Repair>) {
        self.open = None;
        self.take_finished(|_| false)
    }

    fn add_part(&mut self, said: Contribution, spoken: PlacedEvent<'_>) -> Result<(), LatePart> {
        let id = said.message_id().unwrap_or_default().to_owned();
        let is_same = self
            .open_answer()
            .is_some_and(|(answer, open)| joins_answer(&answer.message_id, open.has_result, &id));
        if !is_same {
            self.enter_answer(&id, spoken.place)?;
        }
        // Context since the last part now stands between two parts of one answer, and moves behind
        // it.
        self.move_contexts();
        let mut is_late = false;
        if let Some((answer, open)) = self.open_answer() {
            is_late = open.is_late;
            answer.add_part(said, spoken);
        }
        if is_late && !spoken.is_dormant {
            self.add_repair(spoken.event.seq, Why::LatePart);
        }
        Ok(())
    }

    /// Opens the answer with this id, or a new one.
    fn enter_answer(&mut self, id: &str, place: u64) -> Result<(), LatePart> {
        let known = self.answers.get(id).copied();
        if known.is_none() {
            if let Some(place) = self.settled_answers.places.get(&hash(id)).copied() {
                // Settled entries cannot be changed in place. The caller folds again from before
                // the answer.
                return Err(LatePart { place });
            }
            self.close_answer(place);
        }
        let item = known.unwrap_or(self.settled_items + self.items.len());
        self.open = Some(OpenEntry {
            item,
            has_result: false,
            // A known answer that is not open any more has seen other talk in between.
            is_late: known.is_some(),
            contexts: Vec::new(),
        });
        if known.is_none() {
            self.items.push_back(FoldItem::Answer(Box::new(AnswerBuilder::new(id))));
            if !id.is_empty() {
                self.answers.insert(id.to_owned(), item);
            }
        } else if let Some((answer, _)) = self.open_answer() {
            answer.forget_calls();
        }
        Ok(())
    }

    /// Closes the open answer. If everything before `place` is settled then, adds a mark.
    fn close_answer(&mut self, place: u64) {
        self.open = None;
        // While a range is folded, its events are not settled yet, and a mark needs settled lists.
        if !self.is_settled {
            return;
        }
        self.settle_before_open();
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(RewindPoint {
            place,
            prefix: self.prefix.len(),
            settled: self.settled.len(),
            repairs: self.repairs.len(),
            answers: self.settled_answers.hashes.len(),
        });
    }

    fn open_answer(&mut self) -> Option<(&mut AnswerBuilder, &mut OpenEntry)> {
        let open = self.open.as_mut()?;
        match self.items.get_mut(open.item - self.settled_items)? {
            FoldItem::Answer(answer) => Some((answer, open)),
            FoldItem::Entry(_) => None,
        }
    }

    /// Adds context that event `seq` gives.
    fn add_context(&mut self, entry: HistoryEntry, seq: u64) {
        let is_between = entry.content.has_substance() && !entry.is_prefix();
        // Prefix context stands at the beginning anyway, and empty context is not shown: neither
        // moves.
        if let (true, Some(open)) = (is_between, &mut self.open) {
            open.contexts.push(seq);
        }
        self.add_entry(entry, seq);
    }

    /// Reports the context between the open answer and a new part or result as moved: it is shown
    /// after the answer.
    fn move_contexts(&mut self) {
        let Some(open) = &mut self.open else { return };
        for seq in std::mem::take(&mut open.contexts) {
            self.add_repair(seq, Why::Moved);
        }
    }

    /// Adds an entry that event `seq` gives.
    fn add_entry(&mut self, entry: HistoryEntry, seq: u64) {
        if !entry.has_substance() {
            self.add_repair(seq, Why::Empty);
            return;
        }
        let entry = Arc::new(entry);
        match (entry.is_prefix(), self.in_base) {
            (true, true) => self.base_prefix.push(entry),
            (true, false) => self.prefix.push(entry),
            (false, _) => self.items.push_back(FoldItem::Entry(entry)),
        }
    }
}

impl FoldItem {
    fn is_answer(&self, is_asked: impl Fn(&str) -> bool) -> bool {
        matches!(self, FoldItem::Answer(answer) if is_asked(&answer.message_id))
    }

    fn render_into(&mut self, entries: &mut Vec<Arc<HistoryEntry>>, repairs: &mut Vec<Repair>) {
        match self {
            FoldItem::Entry(entry) => entries.push(Arc::clone(entry)),
            FoldItem::Answer(answer) => answer.render_into(entries, repairs),
        }
    }
}

/// Returns the entries of items that change no more, and their repairs. Calls `forget` with each
/// answer.
fn render_items(
    items: impl Iterator<Item = FoldItem>,
    mut forget: impl FnMut(&AnswerBuilder),
) -> (Vec<Arc<HistoryEntry>>, Vec<Repair>) {
    let (mut entries, mut repairs) = (Vec::new(), Vec::new());
    for mut item in items {
        item.render_into(&mut entries, &mut repairs);
        if let FoldItem::Answer(answer) = &item {
            forget(answer);
        }
    }
    (entries, repairs)
}

impl SettledAnswers {
    fn insert_answer(&mut self, hash: u64, place: u64) {
        self.places.insert(hash, place);
        self.hashes.push(hash);
    }

    fn truncate(&mut self, len: usize) {
        for hash in self.hashes.drain(len..) {
            self.places.remove(&hash);
        }
    }
}

pub(crate) fn hash(message_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message_id.hash(&mut hasher);
    hasher.finish()
}
