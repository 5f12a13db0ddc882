//! The effective history entry by entry, for readers that show it and keep nothing.
//!
//! The log is read twice. The first time finds what stands elsewhere than the log has it: context
//! that goes to the front, and answers with parts that come late. The second time folds as
//! [`View::effective`] does, and hands each entry on as soon as nothing can change it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use event::Kind;

use super::answer::PlacedEvent;
use super::answer_span::for_each_account;
use super::contribution::Contribution;
use super::entry::{HistoryEntry, Repair, Replaced};
use super::fold::Fold;
use super::late_answers::{LateAnswerFinder, LateAnswers};
use super::path::Range;
use super::plan::PlanStep;
use super::upkeep::{Reading, ReadingStep};
use super::{EventLog, View, ViewError};

/// Events that are folded before finished entries are handed on: one page of a read. More would
/// only be held longer.
const PIECE_EVENTS: u64 = 64;

/// The entries of a history, in the order a model is shown them. It ends after an error.
///
/// It holds the entries of one piece, the answers that wait for late parts with what stands behind
/// them, and the repairs.
pub struct EffectiveStream<L> {
    view: View,
    log: L,
    /// What is still to be read, in pieces.
    reading: Reading,
    /// The number of the last piece that was read.
    piece: usize,
    fold: Fold,
    late: LateAnswers,
    /// The next entries.
    finished: VecDeque<Arc<HistoryEntry>>,
    /// The repairs of answers that were handed on.
    repairs: Vec<Repair>,
}

impl View {
    /// Returns the history after the last event, to be read entry by entry.
    pub fn into_stream<L: EventLog>(self, log: L) -> Result<EffectiveStream<L>, ViewError> {
        // Entries in memory would be held beside the ones that are read.
        let view = View { loaded: None, ..self };
        let mut reading = view.plan_reading(&log)?;
        reading.steps = reading.steps.into_iter().flat_map(into_pieces).collect();
        let mut survey = Survey::default();
        for (piece, step) in (1..).zip(&reading.steps) {
            survey.read_piece(piece, step, &view, &reading.replaced, &log)?;
        }
        let mut finished: VecDeque<_> = survey.front.base_prefix.iter().cloned().collect();
        finished.extend(reading.working_set.take());
        finished.extend(survey.front.prefix.iter().cloned());
        Ok(EffectiveStream {
            view,
            log,
            reading,
            piece: 0,
            fold: Fold::default(),
            late: survey.late.finish(),
            finished,
            repairs: Vec::new(),
        })
    }
}

impl<L: EventLog> EffectiveStream<L> {
    /// Returns the repairs, those of bases first, then in the order of the events they are about.
    /// All are known when the last entry was read.
    pub fn repairs(&self) -> Vec<&Repair> {
        let mut repairs: Vec<&Repair> = self.fold.repairs.iter().chain(&self.repairs).collect();
        repairs.sort_by_key(|repair| repair.seq);
        self.reading.repairs.iter().chain(repairs).collect()
    }

    /// Returns the compaction or snapshot that the history is based on.
    pub fn base_seq(&self) -> Option<u64> {
        self.view.base_seq()
    }

    /// Folds the next piece. Returns `false` at the end of the history.
    fn read_piece(&mut self) -> Result<bool, ViewError> {
        let step = self.reading.steps.pop_front();
        let is_end = step.is_none();
        let (entries, repairs) = match step {
            Some(step) => {
                self.piece += 1;
                self.view.fold_step(&step, &self.reading.replaced, &mut self.fold, &self.log)?;
                // The survey found them, and they were handed on first.
                self.fold.base_prefix.truncate(0);
                self.fold.prefix.truncate(0);
                let (late, piece) = (&self.late, self.piece);
                self.fold.take_finished(|id| late.is_awaited(id, piece))
            }
            None => self.fold.take_rest(),
        };
        self.finished.extend(entries);
        self.repairs.extend(repairs);
        Ok(!is_end)
    }
}

impl<L: EventLog> Iterator for EffectiveStream<L> {
    type Item = Result<Arc<HistoryEntry>, ViewError>;

    fn next(&mut self) -> Option<Result<Arc<HistoryEntry>, ViewError>> {
        loop {
            if let Some(entry) = self.finished.pop_front() {
                return Some(Ok(entry));
            }
            match self.read_piece() {
                Ok(false) if self.finished.is_empty() => return None,
                Ok(_) => {}
                Err(error) => {
                    // What was folded so far is not the history, so nothing more is handed on.
                    self.reading.steps.clear();
                    self.fold = Fold::default();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The first reading.
#[derive(Default)]
struct Survey {
    late: LateAnswerFinder,
    /// Has the prefix context and nothing else.
    front: Fold,
}

impl Survey {
    fn read_piece(
        &mut self,
        piece: usize,
        step: &ReadingStep,
        view: &View,
        replaced: &HashMap<u64, Replaced>,
        log: &dyn EventLog,
    ) -> Result<(), ViewError> {
        self.front.in_base = step.in_base;
        match &step.step {
            PlanStep::Inline(inline) => {
                self.late.end_talk();
                self.front.apply_inline(inline);
            }
            PlanStep::Events(range) | PlanStep::Dormant(range) => {
                for_each_account(*range, &view.amends, log, &mut |place, event| {
                    if event.kind == Kind::ContextAdded {
                        let replaced = replaced.get(&place);
                        let context = PlacedEvent { event, place, replaced, is_dormant: false };
                        // Only a part of an answer can come too late, and this is none.
                        let _ = self.front.apply(context);
                    } else {
                        self.late.add_event(piece, &Contribution::from_event(event));
                    }
                })?;
            }
        }
        // All but the prefix is found again by the second reading.
        self.front.take_rest();
        self.front.repairs.truncate(0);
        Ok(())
    }
}

/// Cuts a long range of events into pieces.
fn into_pieces(step: ReadingStep) -> Vec<ReadingStep> {
    let in_base = step.in_base;
    let (range, piece): (Range, fn(Range) -> PlanStep) = match step.step {
        PlanStep::Events(range) => (range, PlanStep::Events),
        PlanStep::Dormant(range) => (range, PlanStep::Dormant),
        inline @ PlanStep::Inline(_) => return vec![ReadingStep { step: inline, in_base }],
    };
    let starts = (range.from_seq..=range.to_seq).step_by(PIECE_EVENTS as usize);
    starts
        .map(|from_seq| {
            let to_seq = range.to_seq.min(from_seq + (PIECE_EVENTS - 1));
            ReadingStep { step: piece(Range { from_seq, to_seq }), in_base }
        })
        .collect()
}
