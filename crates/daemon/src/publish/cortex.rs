//! Turns events into messages on tract `cortex`: one for each event, in the journal's order. Pure; it
//! asks a `SessionHistory` for what came before the first event it sees of a session.
//!
//! A prompt starts a run, and every start has one end. Where an agent records no end of a turn, a
//! later event or the status service shows that the run is over. Such an end has no position of its
//! own. A replay has only the ends that events show: each just before the message of that event.
//!
//! Which runs are open on the bus is not in the events alone, because the status service ends some.
//! So a live `Cortex` holds the sessions of open runs, and takes them over from the daemon before.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use bus::{Draft, Message};
use event::payload::{SessionStarted, SettingsChanged, ToolCall, ToolResult};
use event::{Event, Kind, SessionId, Time};
use journal::{Recorded, SessionInfo};
use projection::PriceTable;
use projection::status::Status;
use serde::Serialize;

use super::run::{AgentRun, OwnMessage, RunEnd, StatusEffect};
use super::words::{self, compact};
use crate::status::AssessedStatus;

/// The version of this program, in every message.
pub(crate) const REV: &str = env!("CARGO_PKG_VERSION");

/// Sessions held in memory. With more, those without an open run are dropped first, then open runs
/// that no status has called over; a dropped session is looked up again at its next event, and an open
/// run also in its turn.
const SESSIONS_MAX: usize = 1_024;

/// Open runs that are looked up at once. The others have their turn later.
const RESUME_MAX: usize = SESSIONS_MAX / 2;

/// Tries to look up an open run. A run whose events cannot be read ends then: no status could end it.
const RESUME_TRIES: u32 = 12;

/// Calls whose tool is remembered. The oldest are forgotten first; their tool is then looked up.
const CALLS_MAX: usize = 4_096;

/// A run that the status service does not list any more is over when nothing was observed of it for
/// this long.
const UNLISTED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a status has to stand before it ends a run that no event ends: the last records of a
/// killed agent may be read after its process is gone.
const SETTLE: Duration = Duration::from_secs(2);

/// Looks up what happened before the events that are published.
pub(crate) trait SessionHistory {
    /// What was known of a session, and its run, just before one of its events.
    fn look_back(&self, session: &SessionId, seq: u64) -> (SessionAbout, AgentRun);

    /// The tool of the last call with this id before an event.
    fn tool(&self, session: &SessionId, call_id: &str, seq: u64) -> Option<String>;

    /// A session as a whole; `None` if it cannot be read.
    fn info(&self, session: &SessionId) -> Option<SessionInfo>;

    fn is_deleted(&self, session: &SessionId) -> bool;

    /// The prices with which the cost of a run is estimated where its agent names none.
    fn prices(&self) -> PriceTable;
}

/// What messages say of a session besides its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SessionAbout {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub project: Option<String>,
}

/// Turns events into messages. By default it is a replay, which knows the events alone.
#[derive(Default)]
pub(crate) struct Cortex {
    sessions: HashMap<SessionId, TrackedRun>,
    calls: RecentCalls,
    /// Read at the first event.
    prices: Option<PriceTable>,
    /// The sessions with a published start and without an end; `None` in a replay.
    open_runs: Option<BTreeSet<SessionId>>,
    /// The open run that was looked up last; the next one is behind it.
    resumed_last: Option<SessionId>,
    /// How often an open run could not be looked up.
    resume_tries: HashMap<SessionId, u32>,
}

/// What came of looking up open runs.
#[derive(Debug, Default)]
pub(crate) struct ResumedRuns {
    /// Runs that are held again. Statuses of the time between have to be applied to them.
    pub count: usize,
    /// The ends of runs that cannot be read.
    pub ends: Vec<StatusMessage>,
}

struct TrackedRun {
    about: SessionAbout,
    provider: String,
    run: AgentRun,
    /// The status service says since this time that the run is over, without an event that shows
    /// it.
    over_since: Option<(Time, AssessedStatus)>,
    /// A status that takes events into account which are not published yet.
    early: Option<AssessedStatus>,
}

/// A message that no event stands for.
#[derive(Debug)]
pub(crate) struct StatusMessage {
    /// The session whose run it ends. Such a message must not be lost: no replay has it.
    pub ends: Option<SessionId>,
    pub message: Message,
}

/// An agent at work.
#[derive(Default, Serialize)]
pub(crate) struct RunningAgent {
    agent_id: String,
    name: String,
    provider: String,
    status: String,
    elapsed_seconds: i128,
}

impl SessionAbout {
    /// Takes over what an event says, by the rules of the journal's list of sessions.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event.kind {
            Kind::SessionStarted => {
                let started = event.readable::<SessionStarted>().unwrap_or_default();
                // A session that is resumed starts again, perhaps with fewer details.
                self.agent = started.agent.or(self.agent.take());
                self.model = started.model.or(self.model.take());
                self.project = started.project.or(self.project.take());
            }
            Kind::SettingsChanged => {
                let changed = event.readable::<SettingsChanged>().unwrap_or_default();
                self.model = changed.model.or(self.model.take());
                // A session is listed under the project it began in.
                self.project = self.project.take().or(changed.project);
            }
            _ => {}
        }
    }
}

impl Cortex {
    /// Continues live with the runs that the former daemon left open.
    pub(crate) fn live(open_runs: BTreeSet<SessionId>) -> Cortex {
        Cortex { open_runs: Some(open_runs), ..Cortex::default() }
    }

    /// The messages of the next event; the last of them is its own.
    pub(crate) fn make_messages(
        &mut self,
        recorded: &Recorded,
        before: &dyn SessionHistory,
    ) -> Vec<Message> {
        let Recorded { position, event } = recorded;
        // Most results name only their call, and the call names the tool.
        let tool = self.calls.tool_of(event, before);
        let prices = self.prices.get_or_insert_with(|| before.prices());
        let known = tracked_run(&mut self.sessions, &self.open_runs, event, before);
        known.about.apply(event);
        known.over_since = None;
        known.run.note_published();
        let change = known.run.apply(event, prices);
        if matches!(change.own, OwnMessage::Start { .. }) && self.open_runs.is_some() {
            known.run.note_start_told();
        }
        note_open(&mut self.open_runs, &event.session_id, &known.run);
        let status = words::reported_status(event, known.run.event_status());
        if let Some(status) = &status {
            known.run.note_status(status);
        }
        let own_turn = event.turn_id.as_deref();
        let about = &known.about;
        let head = |name: &str, turn_id: Option<&str>| {
            message_head(name, &event.session_id, &event.provider, turn_id, about)
                .with("event_id", event.id.to_string())
                .with("seq", event.seq)
        };
        // The end of the former run carries that run's turn, not the one of this event.
        let ended = change.closes.map(|end| {
            let draft = head(end.name(), end.turn_id.as_deref());
            with_end(draft, &end)
        });
        let own = match &change.own {
            OwnMessage::Start { prompt } => head("start", own_turn)
                .with("run_id", event.id.to_string())
                .with("prompt", prompt)
                .with("model", about.model.as_deref().map(compact)),
            OwnMessage::End(end) => with_end(head(end.name(), own_turn), end),
            OwnMessage::Other => words::add_fields(
                head(words::message_name(event), own_turn),
                event,
                tool.as_deref(),
                status.as_deref(),
            ),
        };
        // Only the last message has the position: a subscriber that has it has all of the event.
        let own = own.with("position", position);
        let drafts = ended.into_iter().chain([own]);
        drafts.map(|draft| build_message(draft, event.observed_at)).collect()
    }

    /// Applies an event that is not published, if messages depend on its session.
    pub(crate) fn skip_event(&mut self, event: &Event, before: &dyn SessionHistory) {
        self.calls.note_call(event);
        // A session that is not held is looked up when its next event is published.
        if let Some(known) = self.sessions.get_mut(&event.session_id) {
            let prices = self.prices.get_or_insert_with(|| before.prices());
            known.about.apply(event);
            known.run.apply(event, prices);
            note_open(&mut self.open_runs, &event.session_id, &known.run);
        }
    }

    /// The messages that follow from the status service's word on a session: its new status, and
    /// the end of a run that is over.
    pub(crate) fn apply_status(
        &mut self,
        assessed: &AssessedStatus,
        now: Time,
    ) -> Vec<StatusMessage> {
        let Some(known) = self.sessions.get_mut(&assessed.session) else { return Vec::new() };
        // The service may be ahead of the publisher: the status counts when its last event is out.
        known.early = (assessed.seq > known.run.seq()).then(|| assessed.clone());
        let Some(effect) = known.run.status_effect(assessed) else { return Vec::new() };
        let status = assessed.status.as_str();
        let updated = known.run.note_status(status).then(|| {
            let draft = known.head("agent_updated", &assessed.session, None);
            let draft = draft
                .with("agent", assessed.session.as_str())
                .with("status", status)
                .with("from", compact(&assessed.source))
                .with("reason", assessed.reason.as_str())
                .with("confidence", assessed.confidence.as_str());
            StatusMessage { ends: None, message: build_message(draft, now) }
        });
        known.over_since = match effect {
            StatusEffect::GoesOn => None,
            // The first word counts: a later one with other evidence does not begin the wait anew.
            StatusEffect::Over | StatusEffect::OverSoon => {
                let since = known.over_since.take().map_or(now, |(since, _)| since);
                Some((since, assessed.clone()))
            }
        };
        let ended = match effect {
            StatusEffect::Over => self.end_run(&assessed.session, now),
            StatusEffect::GoesOn | StatusEffect::OverSoon => None,
        };
        updated.into_iter().chain(ended).collect()
    }

    /// The messages of statuses that were ahead of the events published then.
    pub(crate) fn apply_early_statuses(&mut self, now: Time) -> Vec<StatusMessage> {
        let due = self.sessions.values_mut().filter_map(|known| {
            let seq = known.run.seq();
            known.early.take_if(|early| early.seq <= seq)
        });
        let due: Vec<AssessedStatus> = due.collect();
        due.iter().flat_map(|assessed| self.apply_status(assessed, now)).collect()
    }

    /// The ends of runs that the status service has called over for a while.
    pub(crate) fn end_settled_runs(&mut self, now: Time) -> Vec<StatusMessage> {
        let is_settled = |known: &TrackedRun| {
            let over_since = known.over_since.as_ref();
            over_since.is_some_and(|(since, _)| settles_at(*since) <= now)
        };
        let settled = self.sessions.iter().filter(|(_, known)| is_settled(known));
        let settled: Vec<SessionId> = settled.map(|(session, _)| session.clone()).collect();
        settled.iter().filter_map(|session| self.end_run(session, now)).collect()
    }

    /// When the next run ends, unless an event shows that it goes on.
    pub(crate) fn next_settled(&self) -> Option<Time> {
        let over = self.sessions.values().filter_map(|known| known.over_since.as_ref());
        over.map(|(since, _)| settles_at(*since)).min()
    }

    /// The ends of runs that the status service does not list any more: of deleted sessions, and of
    /// those that were silent for a day and that no process has open.
    pub(crate) fn end_unlisted_runs(
        &mut self,
        listed: &BTreeSet<SessionId>,
        now: Time,
        before: &dyn SessionHistory,
    ) -> Vec<StatusMessage> {
        let followed = self.sessions.iter().filter(|(_, known)| known.run.is_followed());
        let followed = followed.map(|(session, _)| session);
        let unlisted: BTreeSet<SessionId> = followed
            .chain(self.open_runs.iter().flatten())
            .filter(|session| !listed.contains(*session))
            .cloned()
            .collect();
        unlisted.iter().filter_map(|session| self.end_unlisted(session, now, before)).collect()
    }

    fn end_unlisted(
        &mut self,
        session: &SessionId,
        now: Time,
        before: &dyn SessionHistory,
    ) -> Option<StatusMessage> {
        let is_deleted = before.is_deleted(session);
        let observed_at = self.run_of(session).and_then(AgentRun::observed_at);
        let is_old = |at: Time| now.nanos() - at.nanos() >= UNLISTED_AFTER.as_nanos() as i128;
        // An agent whose clock is wrong is not listed either, and may be at work.
        if !is_deleted && !observed_at.is_some_and(is_old) {
            return None;
        }
        let was_open = self.open_runs.as_mut().is_some_and(|open| open.remove(session));
        // Forgotten: the next event of the session, if there is one, looks it up again.
        let known = self.sessions.remove(session);
        let why = match is_deleted {
            true => "the session was deleted",
            false => "no activity for a day",
        };
        let prices = self.prices.get_or_insert_with(|| before.prices());
        let (end, draft) = match known {
            Some(mut known) => {
                let end = known.run.end_untracked(why, prices)?;
                let draft = known.head(end.name(), session, end.turn_id.as_deref());
                (end, draft)
            }
            None => {
                return was_open.then(|| unrecorded_end(session, &RunEnd::unrecorded(why), now));
            }
        };
        let message = build_message(with_end(draft, &end), now);
        Some(StatusMessage { ends: Some(session.clone()), message })
    }

    /// The agents at work, as their statuses were reported last.
    pub(crate) fn running_agents(&self, now: Time) -> Vec<RunningAgent> {
        let open = self.sessions.iter().filter_map(|(session, known)| {
            let (since, status) = known.run.work_since()?;
            // An agent of which nothing is known for an hour is not called running.
            (status != Status::Unknown.as_str()).then(|| RunningAgent {
                agent_id: session.to_string(),
                name: compact(known.about.agent.as_ref().unwrap_or(&known.provider)),
                provider: compact(&known.provider),
                status: status.to_owned(),
                // The clock of a recording may be ahead.
                elapsed_seconds: ((now.nanos() - since.nanos()) / 1_000_000_000).max(0),
            })
        });
        let mut agents: Vec<RunningAgent> = open.collect();
        agents.sort_by(|one, other| one.agent_id.cmp(&other.agent_id));
        agents
    }

    /// Whether an open run is not held, so that no status reaches it.
    pub(crate) fn has_absent_runs(&self) -> bool {
        self.open_runs().iter().any(|session| !self.sessions.contains_key(session))
    }

    /// Looks up open runs that no event has brought back: their agents may have ended since, without
    /// an event. With many, some of them, in turn.
    pub(crate) fn resume_runs(&mut self, now: Time, before: &dyn SessionHistory) -> ResumedRuns {
        self.prices.get_or_insert_with(|| before.prices());
        if let Some(open) = &self.open_runs {
            self.resume_tries.retain(|session, _| open.contains(session));
        }
        let open = self.open_runs();
        let (behind, in_front) = match &self.resumed_last {
            Some(last) => (
                open.range::<SessionId, _>((Bound::Excluded(last), Bound::Unbounded)),
                open.range::<SessionId, _>((Bound::Unbounded, Bound::Included(last))),
            ),
            None => (open.range::<SessionId, _>(..), Default::default()),
        };
        let absent = behind.chain(in_front).filter(|id| !self.sessions.contains_key(*id));
        let absent: Vec<SessionId> = absent.take(RESUME_MAX).cloned().collect();
        let mut resumed = ResumedRuns::default();
        for session in absent {
            self.resumed_last = Some(session.clone());
            // A deleted session is not in the next list of the status service.
            if before.is_deleted(&session) {
                continue;
            }
            match look_up_open(&session, before) {
                Some(known) => {
                    make_room(&mut self.sessions);
                    self.resume_tries.remove(&session);
                    self.sessions.insert(session, known);
                    resumed.count += 1;
                }
                None => resumed.ends.extend(self.count_failure(&session, now)),
            }
        }
        resumed
    }

    /// Counts that an open run could not be looked up; its end, if that was the last try.
    fn count_failure(&mut self, session: &SessionId, now: Time) -> Option<StatusMessage> {
        let tries = self.resume_tries.entry(session.clone()).or_default();
        *tries += 1;
        if *tries < RESUME_TRIES {
            return None;
        }
        self.resume_tries.remove(session);
        self.open_runs.as_mut()?.remove(session);
        let end = RunEnd::unrecorded("its events cannot be read");
        Some(unrecorded_end(session, &end, now))
    }

    /// The sessions with a published start and without an end.
    pub(crate) fn open_runs(&self) -> &BTreeSet<SessionId> {
        static NONE: BTreeSet<SessionId> = BTreeSet::new();
        self.open_runs.as_ref().unwrap_or(&NONE)
    }

    /// Whether changes of any session's status are published.
    pub(crate) fn follows_statuses(&self) -> bool {
        let is_followed = |known: &TrackedRun| known.run.is_followed();
        !self.open_runs().is_empty() || self.sessions.values().any(is_followed)
    }

    /// The current run of a session, if it is held.
    fn run_of(&self, session: &SessionId) -> Option<&AgentRun> {
        self.sessions.get(session).map(|known| &known.run)
    }

    /// Ends a run that the status service calls over.
    fn end_run(&mut self, session: &SessionId, now: Time) -> Option<StatusMessage> {
        let known = self.sessions.get_mut(session)?;
        let (_, assessed) = known.over_since.take()?;
        let end = known.run.end_by_status(&assessed, self.prices.as_ref()?)?;
        note_open(&mut self.open_runs, session, &known.run);
        let draft = known.head(end.name(), session, end.turn_id.as_deref());
        let message = build_message(with_end(draft, &end), now);
        Some(StatusMessage { ends: Some(session.clone()), message })
    }
}

impl TrackedRun {
    /// The head of a message that no event stands for.
    fn head(&self, name: &str, session: &SessionId, turn_id: Option<&str>) -> Draft {
        message_head(name, session, &self.provider, turn_id, &self.about)
    }
}

fn settles_at(over_since: Time) -> Time {
    Time::from_nanos(over_since.nanos() + SETTLE.as_nanos() as i128)
}

/// Notes whether the run of a session is open on the bus.
fn note_open(open_runs: &mut Option<BTreeSet<SessionId>>, session: &SessionId, run: &AgentRun) {
    let Some(open_runs) = open_runs else { return };
    if !run.was_told() {
        open_runs.remove(session);
    } else if !open_runs.contains(session) {
        open_runs.insert(session.clone());
    }
}

/// Makes room for one more session.
fn make_room(sessions: &mut HashMap<SessionId, TrackedRun>) {
    if sessions.len() < SESSIONS_MAX {
        return;
    }
    // Open runs stay: their end has to be published.
    sessions.retain(|_, known| known.run.was_told());
    if sessions.len() < SESSIONS_MAX {
        return;
    }
    // A run that is called over ends within seconds, and only while it is held.
    let is_over = |known: &TrackedRun| known.over_since.is_some() || known.early.is_some();
    let goes_on = sessions.iter().find(|(_, known)| !is_over(known)).map(|(id, _)| id.clone());
    match goes_on {
        Some(session) => _ = sessions.remove(&session),
        None => sessions.clear(),
    }
}

/// An open run as the journal has it; `None` if its events cannot be read or show no open run.
fn look_up_open(session: &SessionId, before: &dyn SessionHistory) -> Option<TrackedRun> {
    let info = before.info(session)?;
    let (about, mut run) = before.look_back(session, info.tail_seq + 1);
    run.take_over(true);
    let known = TrackedRun { about, provider: info.provider, run, over_since: None, early: None };
    known.run.was_told().then_some(known)
}

/// The message of an end of which the journal tells nothing more.
fn unrecorded_end(session: &SessionId, end: &RunEnd, now: Time) -> StatusMessage {
    let provider = session.as_str().split(':').next().unwrap_or_default();
    let draft = message_head(end.name(), session, provider, None, &SessionAbout::default());
    let message = build_message(with_end(draft, end), now);
    StatusMessage { ends: Some(session.clone()), message }
}

/// The tracked run of an event's session, looked up in the past if the session is new here.
fn tracked_run<'a>(
    sessions: &'a mut HashMap<SessionId, TrackedRun>,
    open_runs: &Option<BTreeSet<SessionId>>,
    event: &Event,
    before: &dyn SessionHistory,
) -> &'a mut TrackedRun {
    let id = &event.session_id;
    if !sessions.contains_key(id) {
        make_room(sessions);
    }
    // A run that was resumed may be ahead: events that it takes into account are published only now.
    if sessions.get(id).is_some_and(|known| known.run.seq() >= event.seq) {
        sessions.remove(id);
    }
    sessions.entry(id.clone()).or_insert_with(|| {
        // The first event of a session has nothing before it to read.
        let (about, mut run) = match event.seq > 1 {
            true => before.look_back(id, event.seq),
            false => Default::default(),
        };
        if let Some(open_runs) = open_runs {
            run.take_over(open_runs.contains(id));
        }
        let provider = event.provider.clone();
        TrackedRun { about, provider, run, over_since: None, early: None }
    })
}

/// The fields of every message. Texts from a transcript are cut, since they have any length.
fn message_head(
    name: &str,
    session: &SessionId,
    provider: &str,
    turn_id: Option<&str>,
    about: &SessionAbout,
) -> Draft {
    Draft::new("cortex", name)
        .with("agent_id", session.as_str())
        .with("session_id", session.as_str())
        .with("provider", compact(provider))
        .with("name", compact(about.agent.as_deref().unwrap_or(provider)))
        .with("facet", about.project.as_deref().map(compact))
        .with("hosted", provider == "hansard")
        .with("turn_id", turn_id.map(compact))
}

fn with_end(draft: Draft, end: &RunEnd) -> Draft {
    let draft = draft
        .with("run_id", end.run_id.map(|run_id| run_id.to_string()))
        .with("outcome", end.outcome.as_str());
    let draft = match end.name() {
        // A failed run has no result; what it said until then is only a part.
        "error" => draft.with("error", &end.error).with("partial_text_tail", &end.result),
        _ => draft.with("result", &end.result),
    };
    let draft = match &end.usage {
        Some(usage) => draft.with("usage", usage),
        None => draft,
    };
    match end.cost {
        Some(cost) => draft.with("cost", cost),
        None => draft,
    }
}

/// Builds the message with the time of its event, so that a replay gives the same message.
fn build_message(draft: Draft, at: Time) -> Message {
    let ts = at.nanos() / 1_000_000;
    let draft = draft.with("ts", i64::try_from(ts).unwrap_or(0)).with("rev", REV);
    draft.build().expect("every text in it was cut")
}

/// The tools of the latest calls.
#[derive(Default)]
struct RecentCalls(VecDeque<(SessionId, String, String)>);

impl RecentCalls {
    /// The tool of a call or of its result.
    fn tool_of(&mut self, event: &Event, before: &dyn SessionHistory) -> Option<String> {
        if event.kind != Kind::ToolResult {
            return self.note_call(event);
        }
        let ToolResult { call_id, tool, .. } = event.readable()?;
        let session = &event.session_id;
        // From the end: an id that an agent uses twice means the latest call.
        let called = self.0.iter().rev().find(|(of, id, _)| *id == call_id && of == session);
        tool.or_else(|| called.map(|(_, _, tool)| tool.clone()))
            .or_else(|| before.tool(session, &call_id, event.seq))
    }

    /// Remembers a call and returns its tool.
    fn note_call(&mut self, event: &Event) -> Option<String> {
        if event.kind != Kind::ToolCall {
            return None;
        }
        let ToolCall { call_id, tool, .. } = event.readable()?;
        if self.0.len() >= CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((event.session_id.clone(), call_id, tool.clone()));
        Some(tool)
    }
}

#[cfg(test)]
mod tests;
