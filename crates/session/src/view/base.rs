//! The compactions and snapshots of a session, and the choice of the one that the history is
//! based on.

use event::payload::{Compaction, SavedEntry, Snapshot};
use event::{BadPayload, Event, EventId, Salvaged};
use serde::{Deserialize, Serialize};

use super::ViewError;
use super::entry::Why;
use super::files::FileLists;
use super::log::EventLog;
use super::path::{Path, Range};

/// What is remembered of a compaction or snapshot without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) seq: u64,
    pub(crate) kind: BaseKind,
    pub(crate) cutoff: Cutoff,
    pub(crate) has_entries: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BaseKind {
    Compaction,
    /// On top of a compaction; 0 for none. `adds_to` is set if it says nothing but "what this
    /// base shows, and everything behind it": then the history can be had without it.
    Snapshot {
        base_seq: u64,
        adds_to: Option<u64>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cutoff {
    At(u64),
    NotFound,
    /// The payload cannot be read at all.
    Unreadable,
}

/// All bases of a session, on any path, in log order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bases(Vec<Base>);

/// What the history stands on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) compaction: Option<BaseRoot>,
    pub(crate) snapshot: Option<BaseRoot>,
    /// The base to read entries from: the newest that is more than an addition.
    pub(crate) root: Option<BaseRoot>,
    /// Newer bases that could not be used; none for a reason means unreadable.
    pub(crate) skipped: Vec<(u64, Option<Why>)>,
}

/// A base that is used, and the last event it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BaseRoot {
    pub(crate) seq: u64,
    pub(crate) cutoff_seq: u64,
}

impl Chosen {
    pub(crate) fn newest(&self) -> Option<BaseRoot> {
        self.snapshot.or(self.compaction)
    }
}

impl Bases {
    pub(crate) fn new(bases: Vec<Base>) -> Bases {
        Bases(bases)
    }

    pub(crate) fn all(&self) -> &[Base] {
        &self.0
    }

    pub(crate) fn newest(&self) -> Option<&Base> {
        self.0.last()
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Base> {
        let at = self.0.binary_search_by_key(&seq, |base| base.seq).ok()?;
        Some(&self.0[at])
    }

    /// Adds a base newer than all before.
    pub(crate) fn push(&mut self, base: Base) {
        self.0.push(base);
    }

    /// Chooses the base of the path to `to_seq`: the newest usable compaction, and on top of it the
    /// newest usable snapshot.
    pub(crate) fn choose_base(&self, path: &Path, to_seq: u64) -> Chosen {
        let ranges = path.ranges_between(0, to_seq);
        let is_on_path = |seq| contains_seq(&ranges, seq);
        let mut chosen = Chosen::default();
        let back = || self.0.iter().rev().filter(|base| is_on_path(base.seq));
        for base in back().filter(|base| base.kind == BaseKind::Compaction) {
            match base.usable_root(&is_on_path) {
                Ok(root) => {
                    chosen.compaction = Some(root);
                    break;
                }
                Err(why) => chosen.skipped.push((base.seq, why)),
            }
        }
        // A snapshot counts only on top of the chosen compaction. One that was taken on another
        // base shows another history and is stale.
        chosen.root = chosen.compaction;
        let below = chosen.compaction.unwrap_or(BaseRoot { seq: 0, cutoff_seq: 0 });
        // Bases are in log order: behind the compaction, going back, there are only older ones.
        for base in back().take_while(|base| base.seq > below.seq) {
            let BaseKind::Snapshot { base_seq, adds_to } = base.kind else { continue };
            let usable = match base.cutoff {
                // Not for an unreadable snapshot: its `base_seq` is unknown, and unreadable is the
                // better reason.
                Cutoff::At(_) | Cutoff::NotFound if base_seq != below.seq => {
                    Err(Some(Why::StaleSnapshot))
                }
                _ => base.usable_root(&is_on_path),
            };
            match usable {
                Ok(root) if root.cutoff_seq >= below.cutoff_seq => {
                    chosen.snapshot = Some(root);
                    chosen.root = match adds_to {
                        // 0 stands for no base below. `get` finds none, and the history is read
                        // from the beginning.
                        Some(seq) => self.get(seq).and_then(Base::as_root),
                        None => Some(root),
                    };
                    break;
                }
                Ok(_) => chosen.skipped.push((base.seq, Some(Why::StaleSnapshot))),
                Err(why) => chosen.skipped.push((base.seq, why)),
            }
        }
        chosen
    }
}

impl Base {
    pub(crate) fn as_root(&self) -> Option<BaseRoot> {
        match self.cutoff {
            Cutoff::At(cutoff_seq) => Some(BaseRoot { seq: self.seq, cutoff_seq }),
            Cutoff::NotFound | Cutoff::Unreadable => None,
        }
    }

    fn usable_root(&self, is_on_path: &dyn Fn(u64) -> bool) -> Result<BaseRoot, Option<Why>> {
        match self.cutoff {
            Cutoff::Unreadable => Err(None),
            Cutoff::NotFound => Err(Some(Why::CutoffNotFound)),
            Cutoff::At(cutoff_seq) if !is_on_path(cutoff_seq) => Err(Some(Why::CutoffOffPath)),
            Cutoff::At(_) if !self.has_entries => Err(Some(Why::NoEntries)),
            Cutoff::At(cutoff_seq) => Ok(BaseRoot { seq: self.seq, cutoff_seq }),
        }
    }
}

/// Whether one of the ascending ranges holds `seq`.
pub(crate) fn contains_seq(ranges: &[Range], seq: u64) -> bool {
    let at = ranges.partition_point(|range| range.to_seq < seq);
    ranges.get(at).is_some_and(|range| range.from_seq <= seq)
}

/// The payload of either kind of base.
#[derive(Debug)]
pub(crate) struct BasePayload {
    pub(crate) base_seq: Option<u64>,
    pub(crate) cutoff_seq: u64,
    pub(crate) cutoff_event_id: Option<EventId>,
    pub(crate) entries: Vec<SavedEntry>,
    pub(crate) files: FileLists,
    /// A field that could not be read and that the history depends on.
    pub(crate) fault: Option<Box<BadPayload>>,
}

/// Fields of a compaction that only inform people.
const INFORMING: [&str; 3] = ["max_tokens", "threshold_pct", "current_tokens"];

impl BasePayload {
    /// The payload of a compaction or snapshot; empty for any other kind.
    ///
    /// A field of a compaction that cannot be read is left out. A snapshot is read whole or not at
    /// all, because the history is the same without it.
    pub(crate) fn from_event(event: &Event) -> Result<BasePayload, BadPayload> {
        let (compaction, fault) = match event.payload::<Compaction>() {
            Ok(compaction) => (compaction, None),
            Err(error) => {
                let Salvaged { payload, faults } = event.salvage().ok_or_else(|| error.clone())?;
                let counts = |fault: &BadPayload| !INFORMING.contains(&fault.path.as_str());
                (Some(payload), faults.into_iter().find(counts).map(Box::new))
            }
        };
        if let Some(compaction) = compaction {
            return Ok(BasePayload {
                fault,
                base_seq: None,
                cutoff_seq: compaction.cutoff_seq_at(event.seq),
                cutoff_event_id: compaction.cutoff_event_id,
                entries: match compaction.entries.is_empty() {
                    // Older producers wrote bare messages instead of entries.
                    true => compaction.messages,
                    false => compaction.entries,
                },
                files: FileLists {
                    read: compaction.read_files,
                    modified: compaction.modified_files,
                },
            });
        }
        let snapshot = event.payload::<Snapshot>()?.unwrap_or_default();
        Ok(BasePayload {
            fault: None,
            base_seq: snapshot.base_seq,
            cutoff_seq: snapshot.cutoff_seq,
            cutoff_event_id: snapshot.cutoff_event_id,
            entries: snapshot.entries,
            files: FileLists { read: snapshot.read_files, modified: snapshot.modified_files },
        })
    }

    /// Whether there is nothing left to base a history on.
    pub(crate) fn is_unreadable(&self, has_cutoff: bool) -> bool {
        self.fault.is_some() && (self.entries.is_empty() || !has_cutoff)
    }

    /// The last event it covers, by number and by id, which may not contradict each other, and
    /// which lies before the base.
    pub(crate) fn resolve_cutoff(&self, seq: u64, log: &dyn EventLog) -> Result<Cutoff, ViewError> {
        let found = match self.cutoff_event_id {
            // An id that is not in the log is no cutoff, whatever the number says.
            Some(id) => log.seq_of(id)?.unwrap_or(0),
            None => self.cutoff_seq,
        };
        let is_said_twice = self.cutoff_seq == 0 || self.cutoff_seq == found;
        let is_found = found > 0 && found < seq && is_said_twice;
        Ok(if is_found { Cutoff::At(found) } else { Cutoff::NotFound })
    }
}

/// The entries that say: what `root` shows, and everything behind it up to `to_seq`.
pub(crate) fn additions(root: Option<BaseRoot>, path: &Path, to_seq: u64) -> Vec<SavedEntry> {
    let mut entries = Vec::new();
    if let Some(root) = root {
        entries.push(SavedEntry { seq: Some(root.seq), ..SavedEntry::default() });
    }
    let after_seq = root.map_or(0, |root| root.cutoff_seq);
    entries.extend(path.ranges_between(after_seq, to_seq).into_iter().map(|range| SavedEntry {
        seq: Some(range.from_seq),
        to_seq: Some(range.to_seq),
        ..SavedEntry::default()
    }));
    entries
}
