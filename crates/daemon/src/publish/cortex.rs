//! Turns events into messages on tract `cortex`: one for each event, in the journal's order. Pure; it
//! asks a `SessionHistory` for what came before the first event it sees of a session.
//!
//! A prompt starts a run, and every start has one end. Where an agent records no end of a turn, a
//! later event or the status service shows that the run is over. Such an end has no position of its
//! own. A replay has only the ends that events show: each just before the message of that event.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bus::{Draft, Message};
use event::payload::{ToolCall, ToolResult};
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

/// Sessions held in memory. With more, those without an open run are dropped, then all; a dropped
/// session is looked up again at its next event.
const SESSIONS_MAX: usize = 1_024;

/// Calls with a tool that is remembered until their result comes; the oldest are forgotten first.
const CALLS_MAX: usize = 4_096;

/// How long a status has to stand before it ends a run that no event ends: the last records of a
/// killed agent may be read after its process is gone.
const SETTLE: Duration = Duration::from_secs(2);

/// Looks up what happened before the events that are published.
pub(crate) trait SessionHistory {
    fn about(&self, session: &SessionId) -> SessionAbout;

    /// The run of a session just before one of its events.
    fn run(&self, session: &SessionId, seq: u64) -> AgentRun;

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

/// Turns events into messages.
#[derive(Default)]
pub(crate) struct Cortex {
    sessions: HashMap<SessionId, TrackedRun>,
    calls: PendingCalls,
    /// Read at the first event.
    prices: Option<PriceTable>,
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

/// An agent with an open run.
#[derive(Default, Serialize)]
pub(crate) struct RunningAgent {
    agent_id: String,
    name: String,
    provider: String,
    status: String,
    elapsed_seconds: i128,
}

impl Cortex {
    /// The messages of the next event; the last of them is its own.
    pub(crate) fn make_messages(
        &mut self,
        recorded: &Recorded,
        before: &dyn SessionHistory,
    ) -> Vec<Message> {
        let Recorded { position, event } = recorded;
        // Most results name only their call, and the call names the tool.
        let tool = self.calls.tool_of(event);
        let prices = self.prices.get_or_insert_with(|| before.prices());
        let known = tracked_run(&mut self.sessions, event, before);
        known.over_since = None;
        known.run.note_published();
        let change = known.run.apply(event, prices);
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
        self.calls.tool_of(event);
        // A session that is not held is looked up when its next event is published.
        if let Some(known) = self.sessions.get_mut(&event.session_id) {
            let prices = self.prices.get_or_insert_with(|| before.prices());
            known.run.apply(event, prices);
        }
    }

    /// The messages that follow from the status service's word on a session: its new status, and
    /// the end of a run that is over.
    pub(crate) fn apply_status(&mut self, assessed: &AssessedStatus, now: Time) -> Vec<Message> {
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
            build_message(draft, now)
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
    pub(crate) fn apply_early_statuses(&mut self, now: Time) -> Vec<Message> {
        let due = self.sessions.values_mut().filter_map(|known| {
            let seq = known.run.seq();
            known.early.take_if(|early| early.seq <= seq)
        });
        let due: Vec<AssessedStatus> = due.collect();
        due.iter().flat_map(|assessed| self.apply_status(assessed, now)).collect()
    }

    /// The ends of runs that the status service has called over for a while.
    pub(crate) fn end_settled_runs(&mut self, now: Time) -> Vec<Message> {
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

    /// The agents with an open run, as their statuses were reported last.
    pub(crate) fn running_agents(&self, now: Time) -> Vec<RunningAgent> {
        let open = self.sessions.iter().filter_map(|(session, known)| {
            let (since, status) = known.run.open_since()?;
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

    /// Looks up the run of a session that the former daemon left open.
    pub(crate) fn resume_run(&mut self, info: &SessionInfo, before: &dyn SessionHistory) {
        self.prices.get_or_insert_with(|| before.prices());
        let run = before.run(&info.id, info.tail_seq + 1);
        let (about, provider) = (before.about(&info.id), info.provider.clone());
        let known = TrackedRun { about, provider, run, over_since: None, early: None };
        self.sessions.insert(info.id.clone(), known);
    }

    /// The sessions with a published start and without an end.
    pub(crate) fn open_sessions(&self) -> BTreeSet<SessionId> {
        let open = self.sessions.iter().filter(|(_, known)| known.run.was_told());
        open.map(|(session, _)| session.clone()).collect()
    }

    /// Whether changes of any session's status are published.
    pub(crate) fn follows_statuses(&self) -> bool {
        self.sessions.values().any(|known| known.run.is_followed())
    }

    /// The run of the session just before this event.
    pub(crate) fn run_before(&mut self, event: &Event, before: &dyn SessionHistory) -> &AgentRun {
        &tracked_run(&mut self.sessions, event, before).run
    }

    /// The current run of a session, if it is held.
    pub(crate) fn run_of(&self, session: &SessionId) -> Option<&AgentRun> {
        self.sessions.get(session).map(|known| &known.run)
    }

    /// Ends a run that the status service calls over.
    fn end_run(&mut self, session: &SessionId, now: Time) -> Option<Message> {
        let known = self.sessions.get_mut(session)?;
        let (_, assessed) = known.over_since.take()?;
        let end = known.run.end_by_status(&assessed, self.prices.as_ref()?)?;
        let draft = known.head(end.name(), session, end.turn_id.as_deref());
        Some(build_message(with_end(draft, &end), now))
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

/// The tracked run of an event's session, looked up in the past if the session is new here.
fn tracked_run<'a>(
    sessions: &'a mut HashMap<SessionId, TrackedRun>,
    event: &Event,
    before: &dyn SessionHistory,
) -> &'a mut TrackedRun {
    let id = &event.session_id;
    if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(id) {
        // Open runs stay: their end has to be published.
        sessions.retain(|_, known| known.run.was_told());
        if sessions.len() >= SESSIONS_MAX {
            sessions.clear();
        }
    }
    let known = sessions.entry(id.clone()).or_insert_with(|| TrackedRun {
        about: before.about(id),
        provider: event.provider.clone(),
        // The first event of a session has nothing before it to read.
        run: if event.seq > 1 { before.run(id, event.seq) } else { AgentRun::default() },
        over_since: None,
        early: None,
    });
    // These two events change the agent, the model or the project.
    if matches!(event.kind, Kind::SessionStarted | Kind::SettingsChanged) {
        known.about = before.about(id);
    }
    known
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
    let draft = draft.with("outcome", end.outcome.as_str());
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

/// The tools of calls that have no result yet.
#[derive(Default)]
struct PendingCalls(VecDeque<(SessionId, String, String)>);

impl PendingCalls {
    /// The tool of a call or of its result.
    fn tool_of(&mut self, event: &Event) -> Option<String> {
        match event.kind {
            Kind::ToolCall => {
                let ToolCall { call_id, tool, .. } = event.readable()?;
                // Calls without a result, as of killed agents, would pile up otherwise.
                if self.0.len() >= CALLS_MAX {
                    self.0.pop_front();
                }
                self.0.push_back((event.session_id.clone(), call_id, tool.clone()));
                Some(tool)
            }
            Kind::ToolResult => {
                let ToolResult { call_id, tool, .. } = event.readable()?;
                let is_it = |(session, call, _): &(SessionId, String, String)| {
                    *call == call_id && *session == event.session_id
                };
                // From the end: an id that an agent uses twice means the latest call.
                let called = self.0.iter().rposition(is_it).and_then(|at| self.0.remove(at));
                tool.or(called.map(|(_, _, tool)| tool))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
