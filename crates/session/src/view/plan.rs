//! The entries that a base puts in place of the beginning: texts of the base and ranges of the log,
//! in order, each event once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use event::payload::SavedEntry;
use event::{EventId, Kind};

use super::ViewError;
use super::amends::Amends;
use super::answer_span::AnswerSpan;
use super::base::{BasePayload, BaseRoot, Bases, Chosen, contains_seq};
use super::entry::{Repair, Replaced, Why};
use super::files::FileLists;
use super::inline::{BaseEntry, InlineEntry, pair_inline};
use super::log::EventLog;
use super::path::{Path, Range};

/// The beginning of a history, before its events are read.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<PlanStep>,
    /// The number of steps before the working set.
    pub(crate) in_base: usize,
    /// Replacement texts, by the place of the event.
    pub(crate) replaced: HashMap<u64, Replaced>,
    pub(crate) files: FileLists,
    pub(crate) repairs: Vec<Repair>,
}

#[derive(Debug)]
pub(crate) enum PlanStep {
    /// An entry that the base gives in full.
    Inline(Box<InlineEntry>),
    /// Events of the log.
    Events(Range),
    /// Events that the base covers, kept for results that may come later.
    Dormant(Range),
}

/// The log behind a base, as far as planning needs it.
pub(crate) struct PlanInput<'a> {
    pub(crate) path: &'a Path,
    pub(crate) amends: &'a Amends,
    pub(crate) bases: &'a Bases,
    pub(crate) log: &'a dyn EventLog,
    pub(crate) up_to_seq: u64,
}

impl Plan {
    /// Plans the entries of the chosen base and of those it refers to.
    pub(crate) fn build_plan(chosen: &Chosen, ground: &PlanInput<'_>) -> Result<Plan, ViewError> {
        let mut planning = Planning {
            ground,
            on_path: ground.path.ranges_between(0, ground.up_to_seq),
            placed: Seqs::default(),
            files: BTreeMap::new(),
            plan: Plan::default(),
        };
        planning.plan_base(chosen)?;
        Ok(planning.plan)
    }
}

struct Planning<'a> {
    ground: &'a PlanInput<'a>,
    on_path: Vec<Range>,
    placed: Seqs,
    /// Bases that count, and the files they name.
    files: BTreeMap<u64, FileLists>,
    plan: Plan,
}

/// A base in the middle of being taken up, entry by entry.
struct PlanFrame {
    root: BaseRoot,
    id: EventId,
    is_snapshot: bool,
    entries: std::vec::IntoIter<BaseEntry>,
    /// No entry was taken yet.
    is_untouched: bool,
}

impl Planning<'_> {
    /// Plans the base and the bases that it refers to. It uses a stack instead of recursion,
    /// because a log may nest bases to any depth.
    ///
    /// The working set comes after the prefix context of `leader`: the base itself, or the base
    /// below a snapshot that begins with it and only adds later events.
    fn plan_base(&mut self, chosen: &Chosen) -> Result<(), ViewError> {
        let mut frames: Vec<PlanFrame> = Vec::new();
        let mut leader = 0;
        if let Some(root) = chosen.root {
            leader = root.seq;
            frames.extend(self.open_base(root)?);
        }
        while let Some(frame) = frames.last_mut() {
            let (root, id) = (frame.root, frame.id);
            // Only the first entry of a snapshot can hand the lead down.
            let can_lead = root.seq == leader && frame.is_untouched && frame.is_snapshot;
            frame.is_untouched = false;
            if let Some(entry) = frame.entries.next() {
                if let Some(below) = self.take_entry(entry, root, id)? {
                    leader = if can_lead { below.root.seq } else { leader };
                    frames.push(below);
                }
                continue;
            }
            // After all entries: only now is it known whether the base shows a part of the open
            // answer.
            self.reenter_answer(root.cutoff_seq)?;
            if root.seq == leader {
                self.plan.in_base = self.plan.steps.len();
            }
            frames.pop();
        }
        // A base that is chosen but not the root, because a snapshot merely extends it, still
        // contributes its files.
        for base in [chosen.compaction, chosen.snapshot].into_iter().flatten() {
            self.open_base(base)?;
        }
        let oldest_first = self.files.values();
        self.plan.files =
            oldest_first.fold(FileLists::default(), |all, files| all.merge_with(files));
        Ok(())
    }

    /// Reads a base and notes its files; `None` if it was read before.
    fn open_base(&mut self, root: BaseRoot) -> Result<Option<PlanFrame>, ViewError> {
        // The guard also ends cycles of bases that refer to each other.
        if self.files.contains_key(&root.seq) {
            return Ok(None);
        }
        let Some(event) = self.ground.log.event(root.seq)? else { return Ok(None) };
        let Ok(payload) = BasePayload::from_event(&event) else { return Ok(None) };
        if let Some(fault) = payload.fault {
            self.add_repair(root.seq, Why::Unreadable(fault));
        }
        self.files.insert(root.seq, payload.files);
        Ok(Some(PlanFrame {
            root,
            id: event.id,
            is_snapshot: event.kind == Kind::Snapshot,
            entries: pair_inline(payload.entries).into_iter(),
            is_untouched: true,
        }))
    }

    /// Plans one entry. Returns the base that the entry refers to, if it refers to one.
    fn take_entry(
        &mut self,
        entry: BaseEntry,
        base: BaseRoot,
        base_id: EventId,
    ) -> Result<Option<PlanFrame>, ViewError> {
        let saved = &entry.saved;
        if let (Some(from_seq), Some(to_seq)) = (saved.seq, saved.to_seq) {
            if from_seq > to_seq {
                self.add_repair(base.seq, Why::EntryNotFound);
            }
            if to_seq > base.cutoff_seq {
                self.add_repair(base.seq, Why::EntryBeyondCutoff);
            }
            self.place_range(
                Range { from_seq, to_seq: to_seq.min(base.cutoff_seq) },
                PlanStep::Events,
            );
            return Ok(None);
        }
        let named = match (saved.seq, saved.event_id) {
            // A number needs no lookup, and most entries have one.
            (None, Some(id)) => self.ground.log.seq_of(id)?,
            (seq, _) => seq,
        };
        if saved.is_in_full() {
            // A later event may get the id that a damaged base names. The entry cannot come from it.
            let named = named.filter(|seq| *seq < base.seq);
            if named.is_some_and(|seq| seq > base.cutoff_seq) {
                self.add_repair(base.seq, Why::EntryBeyondCutoff);
            } else {
                let inline = InlineEntry::new(entry, named, base.seq, base_id);
                self.plan.steps.push(PlanStep::Inline(Box::new(inline)));
            }
            return Ok(None);
        }
        self.take_reference(named.unwrap_or(0), entry.saved, base)
    }

    fn take_reference(
        &mut self,
        seq: u64,
        entry: SavedEntry,
        base: BaseRoot,
    ) -> Result<Option<PlanFrame>, ViewError> {
        let place = self.ground.amends.place_of(seq);
        // A damaged payload may refer forward, to itself, or to a path that was left.
        if seq >= base.seq || !contains_seq(&self.on_path, place) {
            self.add_repair(base.seq, Why::EntryNotFound);
        } else if let Some(below) = self.ground.bases.get(place) {
            match below.as_root().filter(|below| contains_seq(&self.on_path, below.cutoff_seq)) {
                None => self.add_repair(base.seq, Why::EntryNotFound),
                // The base below would bring in events that this base does not cover; they would
                // come twice.
                Some(below) if below.cutoff_seq > base.cutoff_seq => {
                    self.add_repair(base.seq, Why::EntryBeyondCutoff);
                }
                Some(below) => return self.open_base(below),
            }
        } else if place > base.cutoff_seq {
            self.add_repair(base.seq, Why::EntryBeyondCutoff);
        } else {
            self.place_range(Range { from_seq: place, to_seq: place }, PlanStep::Events);
            if let Some(text) = entry.shown {
                let replaced = Replaced { seq: place, text, artifact: entry.artifact };
                self.plan.replaced.insert(place, replaced);
            }
        }
        Ok(None)
    }

    /// Appends the events of the range that are on the path and not placed yet.
    fn place_range(&mut self, range: Range, step: fn(Range) -> PlanStep) {
        // An entry may name a million events; only the ranges of the path cost anything.
        let first = self.on_path.partition_point(|known| known.to_seq < range.from_seq);
        for known in &self.on_path[first..] {
            let from_seq = known.from_seq.max(range.from_seq);
            let to_seq = known.to_seq.min(range.to_seq);
            if from_seq > to_seq {
                break;
            }
            self.plan.steps.extend(self.placed.add_range(Range { from_seq, to_seq }).map(step));
        }
    }

    /// Appends an answer that was open at the cutoff as dormant, for its later results, unless the
    /// base shows a part of it.
    fn reenter_answer(&mut self, cutoff_seq: u64) -> Result<(), ViewError> {
        let PlanInput { path, amends, log, .. } = *self.ground;
        let Some(span) = AnswerSpan::ending_at(cutoff_seq, path, amends, log)?.if_open() else {
            return Ok(());
        };
        // A base that shows a part of the answer has decided what is left of it.
        if !span.parts.iter().any(|place| self.placed.contains(*place)) {
            for place in span.places {
                self.place_range(Range { from_seq: place, to_seq: place }, PlanStep::Dormant);
            }
        }
        Ok(())
    }

    fn add_repair(&mut self, seq: u64, why: Why) {
        let repair = Repair { seq, why };
        // One fault of a base is told once, however many entries have it.
        if !self.plan.repairs.contains(&repair) {
            self.plan.repairs.push(repair);
        }
    }
}

/// A set of numbers as disjoint ranges: the first number of each range and its last.
#[derive(Default)]
struct Seqs(BTreeMap<u64, u64>);

impl Seqs {
    fn contains(&self, seq: u64) -> bool {
        self.0.range(..=seq).next_back().is_some_and(|(_, to_seq)| seq <= *to_seq)
    }

    /// Adds the range and returns the parts of it that are new.
    fn add_range(&mut self, range: Range) -> impl Iterator<Item = Range> + use<> {
        let mut new = Vec::new();
        let mut next = range.from_seq;
        let before = self.0.range(..=range.from_seq).next_back().map(|(from, to)| (*from, *to));
        let inside = (Bound::Excluded(range.from_seq), Bound::Included(range.to_seq));
        let inside = self.0.range(inside).map(|(from, to)| (*from, *to));
        // The known ranges are disjoint and ascending: the gaps between them are new.
        for (from_seq, to_seq) in before.into_iter().chain(inside) {
            if next < from_seq {
                new.push(Range { from_seq: next, to_seq: from_seq - 1 });
            }
            // `before` may end before the new range begins.
            next = next.max(to_seq + 1);
        }
        if next <= range.to_seq {
            new.push(Range { from_seq: next, to_seq: range.to_seq });
        }
        self.0.extend(new.iter().map(|range| (range.from_seq, range.to_seq)));
        new.into_iter()
    }
}
