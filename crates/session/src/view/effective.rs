//! The effective history as callers get it.

use std::fmt;
use std::sync::Arc;

use event::Kind;
use event::payload::{AssistantThinking, Content, ToolCall};

use super::ViewError;
use super::entry::{HistoryEntry, Repair, Role, Why};
use super::files::FileLists;
use super::list::List;

/// The entries that a model would be shown after an event, in order, and the repairs behind them.
///
/// A copy shares its content with the original and costs the same at any length.
#[derive(Clone)]
pub struct EffectiveView {
    pub(crate) base_seq: Option<u64>,
    pub(crate) up_to_seq: u64,
    /// Prefix context of the base, before the working set.
    pub(crate) base_prefix: List<Arc<HistoryEntry>>,
    pub(crate) working_set: Option<Arc<HistoryEntry>>,
    /// Prefix context that came later.
    pub(crate) prefix: List<Arc<HistoryEntry>>,
    /// All other entries that no plain event can change.
    pub(crate) settled: List<Arc<HistoryEntry>>,
    /// The last answer, its results, and the context after them.
    pub(crate) tail: Arc<[Arc<HistoryEntry>]>,
    pub(crate) base_repairs: Arc<[Repair]>,
    pub(crate) settled_repairs: List<Repair>,
    pub(crate) tail_repairs: Arc<[Repair]>,
    pub(crate) files: Arc<FileLists>,
}

/// An entry without its origin, as a model gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryMessage {
    pub role: Role,
    pub content: Arc<Content>,
    pub thinking: Vec<Arc<AssistantThinking>>,
    pub calls: Vec<Arc<ToolCall>>,
    /// The call that a result belongs to.
    pub call_id: Option<String>,
}

impl EffectiveView {
    /// The entries in the order a model is shown them.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Arc<HistoryEntry>> {
        self.base_prefix
            .iter()
            .chain(&self.working_set)
            .chain(self.prefix.iter())
            .chain(self.settled.iter())
            .chain(self.tail.iter())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        let prefix =
            self.base_prefix.len() + usize::from(self.working_set.is_some()) + self.prefix.len();
        prefix + self.settled.len() + self.tail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest entry that is not prefix context.
    pub fn last(&self) -> Option<&Arc<HistoryEntry>> {
        self.tail.last().or_else(|| self.settled.get(self.settled.len().checked_sub(1)?))
    }

    /// The entries without their origin.
    pub fn messages(&self) -> impl Iterator<Item = HistoryMessage> {
        self.entries().map(|entry| HistoryMessage {
            role: entry.role,
            content: Arc::clone(&entry.content),
            thinking: entry.thinking.clone(),
            calls: entry.calls.clone(),
            call_id: entry.note.as_ref().map(|note| note.call_id.clone()),
        })
    }

    /// Iterates over the repairs: what was left out, moved or replaced.
    pub fn repairs(&self) -> impl Iterator<Item = &Repair> {
        self.base_repairs.iter().chain(self.settled_repairs.iter()).chain(self.tail_repairs.iter())
    }

    /// Returns the compaction or snapshot that the history is based on.
    pub fn base_seq(&self) -> Option<u64> {
        self.base_seq
    }

    /// The newest event that was considered.
    pub fn up_to_seq(&self) -> u64 {
        self.up_to_seq
    }

    /// The file lists of the base.
    pub fn files(&self) -> &FileLists {
        &self.files
    }

    /// Fails if a repair is fatal for a strict reader.
    ///
    /// The error names the newest bad base, else the oldest bad event: a bad base is the cause of
    /// the repairs that follow from it.
    pub fn strict(&self) -> Result<(), ViewError> {
        let fatal = self.repairs().filter_map(|repair| Some((repair, repair.strict_error()?)));
        let worst = fatal.min_by_key(|(repair, _)| {
            // Bases sort before events, and newer bases before older ones.
            if is_about_base(repair) { (0, u64::MAX - repair.seq) } else { (1, repair.seq) }
        });
        worst.map_or(Ok(()), |(_, error)| Err(error))
    }
}

fn is_about_base(repair: &Repair) -> bool {
    match &repair.why {
        Why::Unreadable(error) => matches!(error.kind, Kind::Compaction | Kind::Snapshot),
        why => matches!(why, Why::CutoffNotFound | Why::EntryNotFound | Why::NoRole),
    }
}

impl fmt::Debug for EffectiveView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectiveView")
            .field("base_seq", &self.base_seq)
            .field("up_to_seq", &self.up_to_seq)
            .field("entries", &self.entries().collect::<Vec<_>>())
            .field("repairs", &self.repairs().collect::<Vec<_>>())
            .finish()
    }
}
