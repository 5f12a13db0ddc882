//! Turns events into messages on tract `cortex`: one for each event, in the journal's order. Pure; it
//! asks a `SessionHistory` for what came before the first event it sees of a session.
//!
//! A prompt starts a run, and every start has one end. Where an agent records no end of a turn, its
//! last answer, the next prompt or the exit of the session ends the run. Such an end goes out just
//! before the message of the event that shows it, and has no position of its own.

use std::collections::{HashMap, VecDeque};

use bus::{Draft, Message};
use event::payload::{ToolCall, ToolResult};
use event::{Event, Kind, SessionId};
use journal::Recorded;

use super::run::{AgentRun, OwnMessage, RunEnd};
use super::words::{self, compact};

/// The version of this program, in every message.
pub(crate) const REV: &str = env!("CARGO_PKG_VERSION");

/// Sessions held in memory. With more, those without an open run are dropped, then all; a dropped
/// session is looked up again at its next event.
const SESSIONS_MAX: usize = 16_384;

/// Calls with a tool that is remembered until their result comes; the oldest are forgotten first.
const CALLS_MAX: usize = 4_096;

/// Looks up what happened before the events that are published.
pub(crate) trait SessionHistory {
    fn about(&self, session: &SessionId) -> SessionAbout;

    /// The run of a session just before one of its events.
    fn run(&self, session: &SessionId, seq: u64) -> AgentRun;
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
}

struct TrackedRun {
    about: SessionAbout,
    run: AgentRun,
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
        let known = self.tracked_run(event, before);
        let change = known.run.apply(event);
        let own_turn = event.turn_id.as_deref();
        let about = &known.about;
        let head = |name: &str, turn_id: Option<&str>| message_head(name, event, turn_id, about);
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
            ),
        };
        // Only the last message has the position: a subscriber that has it has all of the event.
        let own = own.with("position", position);
        ended.into_iter().chain([own]).map(|draft| build_message(draft, event)).collect()
    }

    /// Applies an event that is not published: later messages depend on it.
    pub(crate) fn skip_event(&mut self, event: &Event, before: &dyn SessionHistory) {
        self.calls.tool_of(event);
        self.tracked_run(event, before).run.apply(event);
    }

    /// The run of the session just before this event.
    pub(crate) fn run_before(&mut self, event: &Event, before: &dyn SessionHistory) -> &AgentRun {
        &self.tracked_run(event, before).run
    }

    /// The current run of a session, if it is held.
    pub(crate) fn run_of(&self, session: &SessionId) -> Option<&AgentRun> {
        self.sessions.get(session).map(|known| &known.run)
    }

    fn tracked_run(&mut self, event: &Event, before: &dyn SessionHistory) -> &mut TrackedRun {
        if self.sessions.len() >= SESSIONS_MAX {
            // Open runs stay: their end has to be published.
            self.sessions.retain(|_, known| known.run.is_open());
        }
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.clear();
        }
        let id = &event.session_id;
        let known = self.sessions.entry(id.clone()).or_insert_with(|| TrackedRun {
            about: before.about(id),
            // The first event of a session has nothing before it to read.
            run: if event.seq > 1 { before.run(id, event.seq) } else { AgentRun::default() },
        });
        // These two events change the agent, the model or the project.
        if matches!(event.kind, Kind::SessionStarted | Kind::SettingsChanged) {
            known.about = before.about(id);
        }
        known
    }
}

/// The fields of every message. Texts from a transcript are cut, since they have any length.
fn message_head(name: &str, event: &Event, turn_id: Option<&str>, about: &SessionAbout) -> Draft {
    Draft::new("cortex", name)
        .with("agent_id", event.session_id.as_str())
        .with("session_id", event.session_id.as_str())
        .with("provider", compact(&event.provider))
        .with("name", compact(about.agent.as_ref().unwrap_or(&event.provider)))
        .with("facet", about.project.as_deref().map(compact))
        .with("hosted", event.provider == "hansard")
        .with("turn_id", turn_id.map(compact))
        .with("event_id", event.id.to_string())
        .with("seq", event.seq)
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
fn build_message(draft: Draft, event: &Event) -> Message {
    let ts = event.observed_at.nanos() / 1_000_000;
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
