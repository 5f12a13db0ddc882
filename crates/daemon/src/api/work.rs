//! Statistics of the work over sessions: turns, waiting, test-and-fix loops, faults.
//!
//! The numbers of a session are cached until it gets new events. The lock is not held while a session
//! is read, so two requests at once may both read the same session.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{SessionId, Time};
use journal::{Journal, ReadError, Selection, SessionFilter, SessionInfo};
use projection::{Day, Quality, SessionFault, Turn, TurnOutcome, Turns};
use redact::Redactor;
use segments::Zone;
use wire::{Effort, FaultKind, WorkGroup, WorkReport};

use super::facets::project_of;

/// Sessions in a report, those with the newest activity; the report says when it is cut.
const SESSIONS_MAX: usize = 300;

/// Sessions in the cache. With more it is emptied, and they are read again.
const HELD_MAX: usize = 1_000;

/// The cached numbers of sessions, each up to its event with this number.
#[derive(Default)]
pub(crate) struct WorkStats(Mutex<HashMap<SessionId, (u64, Arc<SessionWork>)>>);

/// The numbers of one session.
#[derive(Default)]
struct SessionWork {
    turns: Vec<TurnWork>,
    loops: Vec<Time>,
    faults: Vec<SessionFault>,
}

struct TurnWork {
    began: Time,
    seconds: Option<f64>,
    outcome: &'static str,
    calls: u64,
    failures: u64,
    approvals: u64,
    waited: f64,
}

impl WorkStats {
    pub(crate) fn report(
        &self,
        journal: &Journal,
        filter: &SessionFilter,
        zone: &Zone,
    ) -> Result<WorkReport, ReadError> {
        let page = journal.sessions(filter, None, SESSIONS_MAX)?;
        let mut sums = WorkTotals::default();
        for session in &page.items {
            let session_work = self.load_session(journal, session)?;
            sums.add(session, &session_work, filter, zone);
        }
        Ok(sums.finish(page.next.is_some()))
    }

    fn load_session(
        &self,
        journal: &Journal,
        session: &SessionInfo,
    ) -> Result<Arc<SessionWork>, ReadError> {
        if let Some((seq, session_work)) = self.lock_cache().get(&session.id)
            && *seq == session.tail_seq
        {
            return Ok(Arc::clone(session_work));
        }
        let mut quality = Quality::default();
        // The inherited events of a fork are the work of its origin.
        let own = Selection::after(session.inherited_seq);
        // One pass over the events feeds both projections. The stream of turns reports an error.
        let events = journal.events(&session.id, own)?.inspect(|event| {
            if let Ok(event) = event {
                quality.apply(event);
            }
        });
        let turns = Turns::stream(events).map(|turn| turn.map(|turn| TurnWork::from_turn(&turn)));
        let turns = turns.collect::<Result<_, ReadError>>()?;
        let faults = quality.faults().cloned().collect();
        let session_work = Arc::new(SessionWork { turns, loops: quality.loops().to_vec(), faults });
        // Not held while the session was read: another request may have stored it meanwhile, with
        // the same result.
        let mut held = self.lock_cache();
        if held.len() >= HELD_MAX {
            held.clear();
        }
        held.insert(session.id.clone(), (session.tail_seq, Arc::clone(&session_work)));
        Ok(session_work)
    }

    fn lock_cache(&self) -> MutexGuard<'_, HashMap<SessionId, (u64, Arc<SessionWork>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnWork {
    fn from_turn(turn: &Turn) -> TurnWork {
        let seconds = |from: Time, to: Time| (to.nanos() - from.nanos()) as f64 / 1e9;
        TurnWork {
            began: turn.started_at,
            // Clocks may run backwards between two events.
            seconds: turn.completed_at.map(|end| seconds(turn.started_at, end).max(0.0)),
            outcome: turn.outcome.map_or("open", TurnOutcome::as_str),
            calls: turn.tools.values().map(|tool| tool.calls).sum(),
            failures: turn.tools.values().map(|tool| tool.failures).sum(),
            approvals: turn.approval_count,
            waited: turn.waited_ms as f64 / 1e3,
        }
    }
}

#[derive(Default)]
struct WorkTotals {
    per_session: Vec<f64>,
    all: GroupTotal,
    days: BTreeMap<Day, GroupTotal>,
    projects: BTreeMap<Option<String>, GroupTotal>,
    faults: BTreeMap<&'static str, FaultKind>,
}

#[derive(Default)]
struct GroupTotal {
    effort: Effort,
    seconds: Vec<f64>,
}

impl WorkTotals {
    fn add(
        &mut self,
        session: &SessionInfo,
        session_work: &SessionWork,
        filter: &SessionFilter,
        zone: &Zone,
    ) {
        let is_in = |at: Time| {
            filter.active_since.is_none_or(|since| at >= since)
                && filter.active_until.is_none_or(|until| at <= until)
        };
        let project = self.projects.entry(project_of(session)).or_default();
        let turns: Vec<&TurnWork> =
            session_work.turns.iter().filter(|turn| is_in(turn.began)).collect();
        // A session without a turn in the span would lower the median.
        if !turns.is_empty() {
            self.per_session.push(turns.len() as f64);
        }
        for turn in turns {
            let day = self.days.entry(zone.usage_day(turn.began)).or_default();
            for sum in [&mut self.all, day, &mut *project] {
                sum.add(turn);
            }
        }
        for at in session_work.loops.iter().filter(|at| is_in(**at)) {
            let day = self.days.entry(zone.usage_day(*at)).or_default();
            for sum in [&mut self.all, day, &mut *project] {
                sum.effort.test_fix_loops += 1;
            }
        }
        for fault in session_work.faults.iter().filter(|fault| is_in(fault.at)) {
            let known = self.faults.entry(fault.kind).or_insert_with(|| FaultKind {
                kind: fault.kind,
                count: 0,
                first_at: fault.at,
                last_at: fault.at,
                // The example is the latest fault, so the user finds it in a recent session.
                example: fault.line.clone(),
                session_id: session.id.clone(),
                seq: fault.seq,
            });
            known.count += 1;
            known.first_at = known.first_at.min(fault.at);
            if fault.at > known.last_at {
                known.last_at = fault.at;
                known.example = fault.line.clone();
                known.session_id = session.id.clone();
                known.seq = fault.seq;
            }
        }
    }

    fn finish(self, is_cut: bool) -> WorkReport {
        let WorkTotals { mut per_session, all, days, projects, faults } = self;
        let group = |key: Option<String>, sum: GroupTotal| WorkGroup { key, effort: sum.finish() };
        let days = days.into_iter().map(|(day, sum)| group(Some(day.to_string()), sum));
        // A project may have sessions in the span and no turn.
        let projects = projects.into_iter().filter(|(_, sum)| sum.effort.turns > 0);
        let mut projects: Vec<_> = projects.map(|(key, sum)| group(key, sum)).collect();
        projects.sort_by_key(|group| std::cmp::Reverse(group.effort.turns));
        let mut redactor = Redactor::new();
        let mut faults: Vec<FaultKind> = faults.into_values().collect();
        for fault in &mut faults {
            // Redacted only here: of each kind one example is shown.
            fault.example = redactor.redact(&fault.example).into_owned();
        }
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.count));
        WorkReport {
            sessions: per_session.len() as u64,
            is_cut,
            turns_per_session: median(&mut per_session),
            all: all.finish(),
            days: days.collect(),
            projects,
            faults,
        }
    }
}

impl GroupTotal {
    fn add(&mut self, turn: &TurnWork) {
        let effort = &mut self.effort;
        effort.turns += 1;
        *effort.outcomes.entry(turn.outcome).or_default() += 1;
        effort.tool_calls += turn.calls;
        effort.tool_failures += turn.failures;
        effort.approvals += turn.approvals;
        effort.waited_seconds += turn.waited;
        self.seconds.extend(turn.seconds);
    }

    fn finish(mut self) -> Effort {
        Effort { turn_seconds: median(&mut self.seconds), ..self.effort }
    }
}

/// The median.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
