//! Events in, history out, one at a time.
//!
//! What can still change by a plain event is the last answer, with its results and the context
//! around them; everything before is settled. For what reaches further back there are a few
//! marks to return to.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use event::payload::SavedEntry;
use event::{EventId, Kind};

use super::answer::{AnswerBuilder, PlacedEvent};
use super::contribution::{Contribution, joins};
use super::entry::{HistoryEntry, Repair, Role, Why, inline_entry};
use super::list::List;

/// Marks that are kept: what happened since the oldest can be heard anew without starting over.
/// Second accounts and rewinds mostly concern the last few prompts and answers.
const MARKS_MAX: usize = 64;

/// A history as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub(crate) base_prefix: List<Arc<HistoryEntry>>,
    pub(crate) prefix: List<Arc<HistoryEntry>>,
    pub(crate) settled: List<Arc<HistoryEntry>>,
    pub(crate) repairs: List<Repair>,
    /// Whether what comes now belongs to what the working set stands behind.
    pub(crate) in_base: bool,
    items: Vec<FoldItem>,
    /// How many items were settled before the first of `items`.
    settled_items: usize,
    /// By message id, which item an unsettled answer is.
    answers: HashMap<String, usize>,
    settled_answers: SettledAnswers,
    open: Option<OpenEntry>,
    /// Oldest first.
    marks: VecDeque<RewindPoint>,
    /// Nothing was heard since everything was settled but the open answer.
    is_settled: bool,
}

/// Where each settled answer begins, by the hash of its message id.
#[derive(Debug, Default)]
struct SettledAnswers {
    places: HashMap<u64, u64>,
    /// The hashes in the order they came.
    hashes: Vec<u64>,
}

/// A moment when everything was settled: how long the lists were before `place` was heard.
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

/// The answer that results and further parts go to.
#[derive(Debug)]
struct OpenEntry {
    item: usize,
    has_result: bool,
    /// The talk had moved on and came back to it.
    is_late: bool,
    /// Context since its first part that nothing has moved yet.
    contexts: Vec<u64>,
}

/// A part of an answer that is settled: to put it in its place, everything since the answer
/// began has to be heard anew.
#[derive(Debug)]
pub(crate) struct LatePart {
    pub(crate) place: u64,
}

impl Fold {
    /// Takes what one event says.
    pub(crate) fn apply(&mut self, spoken: PlacedEvent<'_>) -> Result<(), LatePart> {
        let event = spoken.event;
        match Contribution::from_event(event) {
            Contribution::Prompt(content) => {
                let entry = HistoryEntry::said_by(event, spoken.place, Role::User, content);
                self.close(spoken.place);
                self.entry(entry.replace(spoken.replaced));
            }
            Contribution::Context(context) => {
                let entry = HistoryEntry::context(event, spoken.place, context);
                self.context(entry.replace(spoken.replaced));
            }
            Contribution::Started(started) => {
                if let Some((answer, _)) = self.open_answer() {
                    answer.start(started, spoken.place);
                }
            }
            Contribution::Result(result) => {
                let given = match self.open_answer() {
                    Some((answer, open)) => {
                        open.has_result = true;
                        answer.result(result, spoken)
                    }
                    None => Err(Why::NoCall),
                };
                match given {
                    Ok(()) => self.move_contexts(),
                    Err(_) if spoken.is_dormant => {}
                    Err(why) => self.repair(event.seq, why),
                }
            }
            Contribution::Unreadable(error) => {
                if event.kind == Kind::UserPrompt {
                    self.close(spoken.place);
                }
                self.repair(event.seq, Why::Unreadable(error));
            }
            Contribution::Unknown => self.repair(event.seq, Why::UnknownRecord),
            Contribution::Nothing => {}
            said @ (Contribution::Message(_)
            | Contribution::Thinking(_)
            | Contribution::Call(_)) => {
                self.part(said, spoken)?;
            }
        }
        Ok(())
    }

    /// Takes what a base says in full.
    pub(crate) fn apply_inline(&mut self, saved: &SavedEntry, base_seq: u64, base_id: EventId) {
        match inline_entry(saved, base_seq, base_id) {
            Ok(entry) if entry.context_kind.is_some() => self.context(entry),
            Ok(entry) => {
                self.open = None;
                self.entry(entry);
            }
            Err(why) => self.repair(base_seq, why),
        }
    }

    pub(crate) fn repair(&mut self, seq: u64, why: Why) {
        self.repairs.push(Repair { seq, why });
    }

    /// Settles everything before the open answer.
    pub(crate) fn settle(&mut self) {
        let end = self.settled_items + self.items.len();
        let until = self.open.as_ref().map_or(end, |open| open.item);
        let (mut entries, mut repairs) = (Vec::new(), Vec::new());
        for item in self.items.drain(..until - self.settled_items) {
            match item {
                FoldItem::Entry(entry) => entries.push(entry),
                FoldItem::Answer(mut answer) => {
                    answer.render(&mut entries, &mut repairs);
                    if self.answers.remove(&answer.message_id).is_some() {
                        self.settled_answers.insert(hash(&answer.message_id), answer.place());
                    }
                }
            }
        }
        self.settled.extend(entries);
        self.repairs.extend(repairs);
        self.settled_items = until;
        self.is_settled = true;
    }

    /// Forgets everything from the newest fitting mark on and answers with its place: that is
    /// where to hear on. None if no mark fits; then nothing has changed.
    pub(crate) fn return_to(&mut self, fits: impl Fn(u64) -> bool) -> Option<u64> {
        let at = self.marks.iter().rposition(|mark| fits(mark.place))?;
        self.marks.truncate(at + 1);
        let mark = self.marks.back()?;
        self.prefix.truncate(mark.prefix);
        self.settled.truncate(mark.settled);
        self.repairs.truncate(mark.repairs);
        self.settled_answers.truncate(mark.answers);
        self.items.clear();
        self.answers.clear();
        self.open = None;
        self.is_settled = false;
        Some(mark.place)
    }

    /// The entries that are not settled, and what was left out of them.
    pub(crate) fn tail(&mut self) -> (Vec<Arc<HistoryEntry>>, Vec<Repair>) {
        let (mut entries, mut repairs) = (Vec::new(), Vec::new());
        for item in &mut self.items {
            match item {
                FoldItem::Entry(entry) => entries.push(Arc::clone(entry)),
                FoldItem::Answer(answer) => answer.render(&mut entries, &mut repairs),
            }
        }
        (entries, repairs)
    }

    fn part(&mut self, said: Contribution, spoken: PlacedEvent<'_>) -> Result<(), LatePart> {
        let id = said.message_id().unwrap_or_default().to_owned();
        let is_same = self
            .open_answer()
            .is_some_and(|(answer, open)| joins(&answer.message_id, open.has_result, &id));
        if !is_same {
            self.open(&id, spoken.place)?;
        }
        self.move_contexts();
        let mut is_late = false;
        if let Some((answer, open)) = self.open_answer() {
            is_late = open.is_late;
            answer.add(said, spoken);
        }
        if is_late && !spoken.is_dormant {
            self.repair(spoken.event.seq, Why::LatePart);
        }
        Ok(())
    }

    /// Opens the answer of that id, a new one unless it is known.
    fn open(&mut self, id: &str, place: u64) -> Result<(), LatePart> {
        let known = self.answers.get(id).copied();
        if known.is_none() {
            if let Some(place) = self.settled_answers.places.get(&hash(id)).copied() {
                return Err(LatePart { place });
            }
            self.close(place);
        }
        let item = known.unwrap_or(self.settled_items + self.items.len());
        self.open = Some(OpenEntry {
            item,
            has_result: false,
            is_late: known.is_some(),
            contexts: Vec::new(),
        });
        if known.is_none() {
            self.items.push(FoldItem::Answer(Box::new(AnswerBuilder::new(id))));
            if !id.is_empty() {
                self.answers.insert(id.to_owned(), item);
            }
        } else if let Some((answer, _)) = self.open_answer() {
            answer.reopen();
        }
        Ok(())
    }

    /// Closes what is open; if that settles everything before `place`, it is marked.
    fn close(&mut self, place: u64) {
        self.open = None;
        if !self.is_settled {
            return;
        }
        self.settle();
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

    fn context(&mut self, entry: HistoryEntry) {
        let is_between = entry.content.has_substance() && !entry.is_prefix();
        if let (true, Some(open), Some(seq)) = (is_between, &mut self.open, entry.seq) {
            open.contexts.push(seq);
        }
        self.entry(entry);
    }

    /// What stood between the open answer and something that goes to it stands behind it now.
    fn move_contexts(&mut self) {
        let Some(open) = &mut self.open else { return };
        for seq in std::mem::take(&mut open.contexts) {
            self.repair(seq, Why::Moved);
        }
    }

    fn entry(&mut self, entry: HistoryEntry) {
        if !entry.content.has_substance() {
            self.repair(entry.seq.unwrap_or_default(), Why::Empty);
            return;
        }
        let entry = Arc::new(entry);
        match (entry.is_prefix(), self.in_base) {
            (true, true) => self.base_prefix.push(entry),
            (true, false) => self.prefix.push(entry),
            (false, _) => self.items.push(FoldItem::Entry(entry)),
        }
    }
}

impl SettledAnswers {
    fn insert(&mut self, hash: u64, place: u64) {
        self.places.insert(hash, place);
        self.hashes.push(hash);
    }

    fn truncate(&mut self, len: usize) {
        for hash in self.hashes.drain(len..) {
            self.places.remove(&hash);
        }
    }
}

fn hash(message_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message_id.hash(&mut hasher);
    hasher.finish()
}
