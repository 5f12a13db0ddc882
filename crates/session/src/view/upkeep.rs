//! Applies events to a view and reads its entries from the log.
//!
//! There are three ways, from cheap to expensive. [`View::apply_plain`] adds one event to the
//! fold. [`View::replay_from_mark`] returns to a recent mark and folds the events since again.
//! [`View::read_back`] reads the history from its base on; it runs only when the history is
//! requested, so several expensive changes in a row cost one read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use event::{Event, Kind};

use super::answer::PlacedEvent;
use super::answer_span::for_each_account;
use super::base::{Base, BaseKind, BasePayload, Cutoff};
use super::entry::{HistoryEntry, Repair, Replaced, Why};
use super::files::FileLists;
use super::fold::{Fold, LatePart};
use super::path::{Range, Rewind};
use super::plan::{Plan, PlanInput, PlanStep};
use super::{EffectiveView, EventLog, View, ViewError};

/// The entries of a view, as long as they are in memory.
#[derive(Debug)]
pub(super) struct Loaded {
    fold: Fold,
    base_repairs: Arc<[Repair]>,
    files: Arc<FileLists>,
    working_set: Option<Arc<HistoryEntry>>,
    /// The last result of [`View::effective`], until the next event.
    pub(super) effective: Option<EffectiveView>,
}

/// How a history is read from its base on.
pub(super) struct Reading {
    /// In the order of the history.
    pub(super) steps: VecDeque<ReadingStep>,
    /// Replacement texts, by the place of the event.
    pub(super) replaced: HashMap<u64, Replaced>,
    pub(super) repairs: Vec<Repair>,
    pub(super) working_set: Option<Arc<HistoryEntry>>,
    pub(super) files: FileLists,
}

pub(super) struct ReadingStep {
    pub(super) step: PlanStep,
    /// Whether it stands before the working set.
    pub(super) in_base: bool,
}

impl ReadingStep {
    fn later(step: PlanStep) -> ReadingStep {
        ReadingStep { step, in_base: false }
    }
}

impl View {
    /// Moves to the path that continues after `parent_seq` with this prompt.
    pub(super) fn continue_after(&mut self, parent_seq: u64, prompt: &Event, log: &dyn EventLog) {
        let prompt_seq = prompt.seq;
        if parent_seq + 1 < prompt_seq {
            // A parent directly before the prompt is the usual order and no rewind.
            self.path.add_rewind(Rewind { prompt_seq, parent_seq });
        }
        // Agents name the last message as the parent. Facts after it are left behind all the time,
        // which does not change the history: this is the fast path for ordinary prompts.
        if self.mattering_seq <= parent_seq {
            return self.apply_plain(prompt, log);
        }
        // The rewind may have left a compaction behind, or returned to one.
        let chosen = self.bases.choose_base(&self.path, prompt_seq);
        if chosen != self.chosen {
            self.chosen = chosen;
            self.loaded = None;
        }
        // A rewind to before a mark drops the mark. So every mark at or before the parent is on
        // the path that leads to the parent.
        self.replay_from_mark(|mark| mark <= parent_seq, parent_seq, Some(prompt), log);
    }

    /// Adds one event at the end of the path.
    pub(super) fn apply_plain(&mut self, event: &Event, log: &dyn EventLog) {
        let Some(loaded) = &mut self.loaded else { return };
        loaded.effective = None;
        match loaded.fold.apply(PlacedEvent::in_place(event)) {
            Ok(()) => loaded.fold.settle_before_open(),
            Err(LatePart { place }) => {
                self.replay_from_mark(|mark| mark <= place, self.up_to_seq, Some(event), log);
            }
        }
    }

    /// Returns to the newest mark that `fits`, folds the path from there to `to_seq` again, and
    /// then applies `event`.
    ///
    /// If that fails, the entries are dropped and the next request reads the history from its
    /// base. An error of the log is not lost: that read meets it again and returns it.
    pub(super) fn replay_from_mark(
        &mut self,
        fits: impl Fn(u64) -> bool,
        to_seq: u64,
        event: Option<&Event>,
        log: &dyn EventLog,
    ) {
        // Taken out first: every early return below leaves the view without entries.
        let Some(mut loaded) = self.loaded.take() else { return };
        loaded.effective = None;
        let Some(mark) = loaded.fold.return_to(fits) else { return };
        let none = HashMap::new();
        // Marks stand before an event and begin at 1, so the subtraction cannot underflow.
        for range in self.path.ranges_between(mark - 1, to_seq) {
            let read = self.read_range(range, &none, false, &mut loaded.fold, log);
            if !matches!(read, Ok(true)) {
                return;
            }
        }
        if let Some(event) = event
            && loaded.fold.apply(PlacedEvent::in_place(event)).is_err()
        {
            return;
        }
        // Settled only after the new event: it may be a late part of an answer in the range.
        loaded.fold.settle_before_open();
        self.loaded = Some(loaded);
    }

    /// Reads a compaction or snapshot. One that cannot be read is a base too: it is skipped with
    /// a repair when a base is chosen.
    pub(super) fn read_base(&self, event: &Event, log: &dyn EventLog) -> Result<Base, ViewError> {
        let is_snapshot = event.kind == Kind::Snapshot;
        let unreadable =
            |kind| Base { seq: event.seq, kind, cutoff: Cutoff::Unreadable, has_entries: false };
        let Ok(payload) = BasePayload::from_event(event) else {
            return Ok(unreadable(match is_snapshot {
                // Its base is unknown. `choose_base` reports such a base as unreadable before it
                // looks at `base_seq`.
                true => BaseKind::Snapshot { base_seq: 0, adds_to: None },
                false => BaseKind::Compaction,
            }));
        };
        let cutoff = payload.resolve_cutoff(event.seq, log)?;
        if payload.is_unreadable(cutoff != Cutoff::NotFound) {
            return Ok(unreadable(BaseKind::Compaction));
        }
        let kind = match is_snapshot {
            true => BaseKind::Snapshot {
                base_seq: payload.base_seq.unwrap_or(0),
                adds_to: self.extended_base(&payload, cutoff),
            },
            false => BaseKind::Compaction,
        };
        Ok(Base { seq: event.seq, kind, cutoff, has_entries: !payload.entries.is_empty() })
    }

    /// Returns the base that a snapshot merely extends: all its entries are references to what
    /// that base shows and to the events after it. The history can then be read without the
    /// snapshot, and adopting it does not drop the loaded entries.
    fn extended_base(&self, payload: &BasePayload, cutoff: Cutoff) -> Option<u64> {
        let Cutoff::At(cutoff_seq) = cutoff else { return None };
        let is_plain = self.is_on_path(cutoff_seq)
            && payload.base_seq.unwrap_or(0) == self.compaction_seq().unwrap_or(0)
            // Files of its own would make the working set differ with and without the snapshot.
            && payload.files == FileLists::default()
            && cutoff_seq >= self.chosen.root.map_or(0, |root| root.cutoff_seq)
            && payload.entries == self.references(cutoff_seq);
        is_plain.then(|| self.chosen.root.map_or(0, |root| root.seq))
    }

    /// Adds a base at the end of the log. `up_to_seq` is still the event before it.
    pub(super) fn adopt_base(&mut self, base: Base) {
        self.bases.push(base);
        let chosen = self.bases.choose_base(&self.path, base.seq);
        // Only a new root changes the entries. A snapshot that merely extends the root does not.
        if chosen.root != self.chosen.root || chosen.skipped != self.chosen.skipped {
            self.loaded = None;
        }
        self.chosen = chosen;
        if let Some(loaded) = &mut self.loaded {
            loaded.effective = None;
        }
    }

    /// Reads the history from its base on.
    pub(super) fn read_back(&self, log: &dyn EventLog) -> Result<Loaded, ViewError> {
        let reading = self.plan_reading(log)?;
        let mut fold = Fold::default();
        for step in &reading.steps {
            self.fold_step(step, &reading.replaced, &mut fold, log)?;
        }
        fold.settle_before_open();
        Ok(Loaded {
            fold,
            base_repairs: reading.repairs.into(),
            working_set: reading.working_set,
            files: Arc::new(reading.files),
            effective: None,
        })
    }

    /// Plans how the history is read from its base on.
    pub(super) fn plan_reading(&self, log: &dyn EventLog) -> Result<Reading, ViewError> {
        let ground = PlanInput {
            path: &self.path,
            amends: &self.amends,
            bases: &self.bases,
            log,
            up_to_seq: self.up_to_seq,
        };
        let plan = Plan::build_plan(&self.chosen, &ground)?;
        let mut repairs = self.skipped_bases(log)?;
        repairs.extend(plan.repairs);

        let planned = plan.steps.into_iter().enumerate();
        let mut steps: VecDeque<ReadingStep> =
            planned.map(|(at, step)| ReadingStep { step, in_base: at < plan.in_base }).collect();
        let after_seq = self.chosen.root.map_or(0, |root| root.cutoff_seq);
        let later = self.path.ranges_between(after_seq, self.up_to_seq).into_iter();
        // The working set stands between the base and what came later.
        steps.extend(later.map(|range| ReadingStep::later(PlanStep::Events(range))));
        Ok(Reading {
            steps,
            replaced: plan.replaced,
            repairs,
            working_set: plan.files.working_set(self.options.files_max).map(Arc::new),
            files: plan.files,
        })
    }

    /// Folds what one step of the reading leads to.
    pub(super) fn fold_step(
        &self,
        step: &ReadingStep,
        replaced: &HashMap<u64, Replaced>,
        fold: &mut Fold,
        log: &dyn EventLog,
    ) -> Result<(), ViewError> {
        fold.in_base = step.in_base;
        match &step.step {
            PlanStep::Inline(inline) => fold.apply_inline(inline),
            PlanStep::Events(range) => {
                self.read_range(*range, replaced, false, fold, log)?;
            }
            // Covered by the base, but a later result may bring its answer back.
            PlanStep::Dormant(range) => {
                self.read_range(*range, replaced, true, fold, log)?;
            }
        }
        Ok(())
    }

    /// Folds the events of a range, amended ones in their latest form. Returns `false` if a part
    /// came too late for its answer and the fold is incomplete.
    fn read_range(
        &self,
        range: Range,
        replaced: &HashMap<u64, Replaced>,
        is_dormant: bool,
        fold: &mut Fold,
        log: &dyn EventLog,
    ) -> Result<bool, ViewError> {
        let mut is_whole = true;
        for_each_account(range, &self.amends, log, &mut |place, event| {
            // The repair is told where the amendment is shown, and not for facts the model never
            // sees.
            if event.seq != place && event.kind.is_shown() && !is_dormant {
                fold.add_repair(place, Why::Amended);
            }
            let replaced = replaced.get(&place);
            is_whole &= fold.apply(PlacedEvent { event, place, replaced, is_dormant }).is_ok();
        })?;
        Ok(is_whole)
    }

    /// Returns the bases that could not be used as repairs.
    fn skipped_bases(&self, log: &dyn EventLog) -> Result<Vec<Repair>, ViewError> {
        let mut repairs = Vec::new();
        for (seq, why) in &self.chosen.skipped {
            let why = match why {
                Some(why) => Some(why.clone()),
                // The reason is an error of the payload and not kept in memory; it is read again.
                None => log
                    .event(*seq)?
                    .and_then(|event| match BasePayload::from_event(&event) {
                        Ok(payload) => payload.fault,
                        Err(error) => Some(Box::new(error)),
                    })
                    .map(Why::Unreadable),
            };
            repairs.extend(why.map(|why| Repair { seq: *seq, why }));
        }
        Ok(repairs)
    }

    pub(super) fn render_view(&self, loaded: &mut Loaded) -> EffectiveView {
        let (tail, tail_repairs) = loaded.fold.unsettled();
        let fold = &loaded.fold;
        EffectiveView {
            base_seq: self.base_seq(),
            up_to_seq: self.up_to_seq,
            base_prefix: fold.base_prefix.clone(),
            working_set: loaded.working_set.clone(),
            prefix: fold.prefix.clone(),
            settled: fold.settled.clone(),
            tail: tail.into(),
            base_repairs: Arc::clone(&loaded.base_repairs),
            settled_repairs: fold.repairs.clone(),
            tail_repairs: tail_repairs.into(),
            files: Arc::clone(&loaded.files),
        }
    }
}

impl Loaded {
    pub(super) fn empty() -> Loaded {
        Loaded {
            fold: Fold::default(),
            base_repairs: Arc::new([]),
            files: Arc::default(),
            working_set: None,
            effective: None,
        }
    }
}
