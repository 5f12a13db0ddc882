//! Hooks: what an agent's own calls of a program say.
//!
//! Each agent has a [`HookMap`]: where its payloads have the session, and what each event says. One
//! function reads all of them. A hook says that a session has news, so that its records are read at
//! once, and it tells facts. Most facts stand in the agent's records, and from there they are
//! recorded; a hook's own account is recorded only of what the records do not tell
//! ([`HookMap::untold`]). So a journal made with hooks has the events of one made without, the same
//! to the last id, and some more.
//!
//! Not here: how a hook is called and what it prints (`cli`), how its call travels (`wire`).

mod payload; // what an agent hands to a hook
mod memory; // calls and questions that a later call is about
mod ingest_hook; // facts of hooks, recorded
mod place; // where agents look for hooks

use std::path::PathBuf;

use event::payload::{
    ApprovalRequested, ApprovalResolved, CAPTURED, CompactionStarted, Decision, ExternalInput,
    InputStatus, Outcome, StopReason, ToolCall, TurnCompleted,
};
use event::{Kind, Raw};
use serde::{Deserialize, Serialize};

pub use ingest_hook::{Heard, HookOnlyEvent, hook_only_events};
pub use memory::HookMemory;
pub use payload::Payload;
pub use place::{HookForm, HookPlace};

use crate::agent::AGENTS;
use crate::event_builder::questions;
use crate::signal::SignalKind;

/// What has to be known of an agent's hooks. A place is the name of a member, with dots between
/// those of members within members; of several the first that says something counts.
#[derive(Debug)]
pub struct HookMap {
    pub session: &'static [&'static str],
    /// The file the session is written to.
    pub transcript: &'static [&'static str],
    pub cwd: &'static [&'static str],
    /// Who is meant where a call comes from a subagent and does not say so by its session.
    pub subagent: Option<Subagent>,
    pub tool: &'static [&'static str],
    pub input: &'static [&'static str],
    pub call: &'static [&'static str],
    pub output: &'static [&'static str],
    /// The first row that fits counts. An event without a row says that there is news.
    pub rows: &'static [HookRow],
    /// What the agent's records do not tell, so that its hooks do.
    pub untold: &'static [Kind],
    /// Where the agent looks for hooks.
    pub place: HookPlace,
}

/// How the session of a subagent is found.
#[derive(Clone, Copy, Debug)]
pub struct Subagent {
    /// Where its id stands.
    pub id: &'static str,
    /// What stands before the id in the name of its session.
    pub prefix: &'static str,
    /// Its transcript lies here, in a folder called as that of the session it works for.
    pub folder: &'static str,
}

/// One event, and what it says.
#[derive(Debug)]
pub struct HookRow {
    pub event: &'static str,
    /// What texts of the payload have to be.
    pub when: &'static [(&'static str, &'static str)],
    pub says: Says,
}

/// What an event says, beside that there is news.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Says {
    /// Not even that: it comes too often, or too early.
    Nothing,
    News,
    Sign(SignalKind),
    /// The history is about to be compacted.
    Compacting,
    /// A call is about to be made.
    Calls,
    /// A call waits until somebody allows it.
    Asks,
    /// So does the one that began last, and what is shown of it stands here.
    AsksForLast(&'static str),
    /// A call begins that somebody may have been asked about: then it was allowed.
    Begins,
    /// The user is asked something, which stands here, and the call that began last waits for it.
    Inquires(&'static str),
    /// A call was made.
    Made(Outcome),
    /// Somebody has decided: about what, how, and which words say no.
    Decided {
        id: &'static str,
        reply: &'static str,
        denies: &'static [&'static str],
    },
    /// Somebody has stopped the agent.
    Interrupted,
}

/// What one call of a hook says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hooked {
    pub provider: &'static str,
    /// The provider's id of the session.
    pub session: String,
    pub transcript: Option<PathBuf>,
    pub cwd: Option<String>,
    pub sign: Option<SignalKind>,
    pub reason: Option<String>,
    /// What happened, as payloads of events.
    pub facts: Vec<(Kind, Raw)>,
    /// Some of it stands in no record of the agent.
    pub is_untold: bool,
}

/// A call that was made, as a hook tells it: a result with what it was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Made {
    call_id: String,
    tool: String,
    input: Raw,
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Raw>,
}

/// Reads one call. `None` if it says nothing, or names no session.
pub fn hooked(provider: &str, event: &str, payload: &Payload) -> Option<Hooked> {
    let agent = AGENTS.iter().find(|agent| agent.provider() == provider)?;
    agent.hooks()?.read(agent.provider(), event, payload)
}

impl HookMap {
    /// A map that has nothing but the names of common members; the rest is filled in.
    pub(crate) const CLAUDE_LIKE: HookMap = HookMap {
        session: &["session_id"],
        transcript: &["transcript_path"],
        cwd: &["cwd"],
        subagent: None,
        tool: &["tool_name"],
        input: &["tool_input"],
        call: &["tool_use_id"],
        output: &["tool_response"],
        rows: &[],
        untold: &[],
        place: HookPlace {
            folder: ("", "", ""),
            file: "",
            project_file: "",
            form: HookForm::Commands,
            has_comments: false,
            events: &[],
        },
    };

    /// What the event says.
    pub fn says(&self, event: &str, payload: &Payload) -> Says {
        let fits = |row: &&HookRow| {
            let is_so =
                |(place, text): &(&str, &str)| payload.text(&[place]).as_deref() == Some(*text);
            row.event == event && row.when.iter().all(is_so)
        };
        self.rows.iter().find(fits).map_or(Says::News, |row| row.says.clone())
    }

    fn read(&self, provider: &'static str, event: &str, payload: &Payload) -> Option<Hooked> {
        let says = self.says(event, payload);
        if says == Says::Nothing {
            return None;
        }
        let session = payload.text(self.session).filter(|session| !session.is_empty())?;
        let sign = match says {
            Says::Sign(kind) => Some(kind),
            Says::Compacting => Some(SignalKind::Compact),
            _ => None,
        };
        let facts: Vec<(Kind, Raw)> = self.fact(&says, payload).into_iter().collect();
        let is_untold = facts.iter().any(|(kind, _)| match kind {
            Kind::ToolCall => self.untold.contains(&Kind::ToolStarted),
            kind => self.untold.contains(kind),
        });
        let transcript = payload.text(self.transcript).map(PathBuf::from);
        let (session, transcript) = match &self.subagent {
            Some(subagent) => subagent.find(payload, session, transcript),
            None => (session, transcript),
        };
        let cwd = payload.text(self.cwd);
        let reason = payload.text(&["reason", "status", "trigger", "stopReason"]);
        Some(Hooked { provider, session, transcript, cwd, sign, reason, facts, is_untold })
    }

    /// The one fact an event tells, if it tells any.
    fn fact(&self, says: &Says, payload: &Payload) -> Option<(Kind, Raw)> {
        let tool = || payload.text(self.tool).unwrap_or_default();
        let input = || payload.json(self.input).unwrap_or_default();
        let call_id = || payload.text(self.call).unwrap_or_default();
        let fact = match says {
            Says::Nothing | Says::News | Says::Sign(_) => return None,
            Says::Compacting => {
                let strategy = CAPTURED.to_owned();
                let started = CompactionStarted { strategy, ..CompactionStarted::default() };
                (Kind::CompactionStarted, Raw::from_value(&started))
            }
            Says::Calls => {
                let call = ToolCall {
                    call_id: call_id(),
                    tool: tool(),
                    input: input(),
                    ..ToolCall::default()
                };
                (Kind::ToolCall, Raw::from_value(&call))
            }
            Says::Asks => {
                let asked = ApprovalRequested {
                    approval_id: payload.text(&["properties.id"]).unwrap_or_default(),
                    tool: tool(),
                    input: Some(input()),
                    call_id: Some(call_id()).filter(|id| !id.is_empty()),
                    ..ApprovalRequested::default()
                };
                (Kind::ApprovalRequested, Raw::from_value(&asked))
            }
            Says::AsksForLast(shown) => {
                let input = payload.json(&[shown]);
                let asked = ApprovalRequested { input, ..ApprovalRequested::default() };
                (Kind::ApprovalRequested, Raw::from_value(&asked))
            }
            Says::Begins => {
                let (tool, input, outcome) = (tool(), input(), Outcome::Ok);
                let begun = Made { call_id: String::new(), tool, input, outcome, output: None };
                (Kind::ToolStarted, Raw::from_value(&begun))
            }
            Says::Inquires(shown) => {
                let input = payload.json(&[shown]);
                let asked = ExternalInput {
                    request_id: String::new(),
                    prompt: input.as_ref().map(questions).unwrap_or_default(),
                    status: InputStatus::Pending,
                    input,
                };
                (Kind::ExternalInput, Raw::from_value(&asked))
            }
            Says::Made(outcome) => {
                // Where its records have the output, a second copy has no use.
                let is_untold = self.untold.contains(&Kind::ToolResult);
                let output = is_untold.then(|| payload.json(self.output)).flatten();
                let outcome = outcome.clone();
                let (call_id, tool, input) = (call_id(), tool(), input());
                (Kind::ToolResult, Raw::from_value(&Made { call_id, tool, input, outcome, output }))
            }
            Says::Decided { id, reply, denies } => {
                let reply = payload.text(&[reply])?;
                let decision = match denies.contains(&reply.as_str()) {
                    true => Decision::Deny,
                    false => Decision::Allow,
                };
                let resolved = ApprovalResolved {
                    approval_id: payload.text(&[id])?,
                    decision,
                    reason: Some(reply),
                    by: Some("person".to_owned()),
                    automated: false,
                };
                (Kind::ApprovalResolved, Raw::from_value(&resolved))
            }
            Says::Interrupted => {
                let stop_reason = Some(StopReason::Interrupted);
                let ended = TurnCompleted { stop_reason, ..TurnCompleted::default() };
                (Kind::TurnCompleted, Raw::from_value(&ended))
            }
        };
        Some((fact.0, fact.1.expect("payloads always encode")))
    }
}

impl Subagent {
    /// The session and the transcript that are really meant.
    fn find(
        &self,
        payload: &Payload,
        session: String,
        transcript: Option<PathBuf>,
    ) -> (String, Option<PathBuf>) {
        let Some(id) = payload.text(&[self.id]).filter(|id| !id.is_empty()) else {
            return (session, transcript);
        };
        let name = format!("{}{id}", self.prefix);
        let transcript = transcript
            .map(|path| path.with_extension("").join(self.folder).join(format!("{name}.jsonl")));
        (name, transcript)
    }
}
