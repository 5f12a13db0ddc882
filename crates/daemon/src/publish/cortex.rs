//! What agents do, as messages on tract `cortex`: one for each stored event, in the journal's
//! order. Pure; what lies before the first event of a session that is told is asked for.
//!
//! A prompt starts a run, and every start has one end. Where an agent does not say that a turn is
//! over, its last words, the next prompt or the end of the session do; an end that no event tells
//! goes out just before the message of the event that shows it, and has no position of its own.

use std::collections::{HashMap, VecDeque};

use bus::{Draft, Message};
use event::payload::{ToolCall, ToolResult};
use event::{Event, Kind, SessionId};
use journal::Recorded;

use super::run::{AgentRun, OwnMessage, RunEnd};
use super::words::{self, compact};

/// Every message of ours says which build sent it.
pub(crate) const REV: &str = env!("CARGO_PKG_VERSION");

/// Sessions whose state is held. With more, those without a run are forgotten and asked for again
/// when they go on, then all.
const SESSIONS_MAX: usize = 16_384;

/// Calls whose tool is remembered until their result comes; the oldest are forgotten first.
const CALLS_MAX: usize = 4_096;

/// What lies before what is told.
pub(crate) trait SessionHistory {
    fn about(&self, session: &SessionId) -> SessionAbout;

    /// The run of a session just before one of its events.
    fn run(&self, session: &SessionId, seq: u64) -> AgentRun;
}

/// What messages say of a session beside its events.
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
    pub(crate) fn tell(
        &mut self,
        recorded: &Recorded,
        before: &dyn SessionHistory,
    ) -> Vec<Message> {
        let Recorded { position, event } = recorded;
        let tool = self.calls.tool_of(event);
        let known = self.known(event, before);
        let turned = known.run.take(event);
        let own_turn = event.turn_id.as_deref();
        let about = &known.about;
        let head = |name: &str, turn_id: Option<&str>| head(name, event, turn_id, about);
        let ended = turned.closes.map(|end| {
            let draft = head(end.name(), end.turn_id.as_deref());
            with_end(draft, &end)
        });
        let own = match &turned.own {
            OwnMessage::Start { prompt } => head("start", own_turn)
                .with("prompt", prompt)
                .with("model", about.model.as_deref().map(compact)),
            OwnMessage::RunEnd(end) => with_end(head(end.name(), own_turn), end),
            OwnMessage::Other => {
                words::add(head(words::name(event), own_turn), event, tool.as_deref())
            }
        };
        let own = own.with("position", position);
        ended.into_iter().chain([own]).map(|draft| built(draft, event)).collect()
    }

    /// Takes an event that is not told: what follows depends on it.
    pub(crate) fn pass(&mut self, event: &Event, before: &dyn SessionHistory) {
        self.calls.tool_of(event);
        self.known(event, before).run.take(event);
    }

    /// The run of the session just before this event.
    pub(crate) fn run_before(&mut self, event: &Event, before: &dyn SessionHistory) -> &AgentRun {
        &self.known(event, before).run
    }

    /// The run of a session as it is now, if it was told of.
    pub(crate) fn run_of(&self, session: &SessionId) -> Option<&AgentRun> {
        self.sessions.get(session).map(|known| &known.run)
    }

    fn known(&mut self, event: &Event, before: &dyn SessionHistory) -> &mut TrackedRun {
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.retain(|_, known| known.run.is_open());
        }
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.clear();
        }
        let id = &event.session_id;
        let known = self.sessions.entry(id.clone()).or_insert_with(|| TrackedRun {
            about: before.about(id),
            run: if event.seq > 1 { before.run(id, event.seq) } else { AgentRun::default() },
        });
        if matches!(event.kind, Kind::SessionStarted | Kind::SettingsChanged) {
            known.about = before.about(id);
        }
        known
    }
}

/// What all messages of a session have. Whatever a transcript says is cut: it may say anything.
fn head(name: &str, event: &Event, turn_id: Option<&str>, about: &SessionAbout) -> Draft {
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

/// A message has the time of its event, so that it is the same whenever it is told.
fn built(draft: Draft, event: &Event) -> Message {
    let ts = event.observed_at.nanos() / 1_000_000;
    let draft = draft.with("ts", i64::try_from(ts).unwrap_or(0)).with("rev", REV);
    draft.build().expect("every text in it was cut")
}

/// The tools of calls whose results have not come.
#[derive(Default)]
struct PendingCalls(VecDeque<(SessionId, String, String)>);

impl PendingCalls {
    /// The tool of a call or of its result.
    fn tool_of(&mut self, event: &Event) -> Option<String> {
        match event.kind {
            Kind::ToolCall => {
                let ToolCall { call_id, tool, .. } = event.readable()?;
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
                let called = self.0.iter().rposition(is_it).and_then(|at| self.0.remove(at));
                tool.or(called.map(|(_, _, tool)| tool))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
