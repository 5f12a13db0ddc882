//! Hooks: what an agent's own calls of our program say.
//!
//! Each agent has a [`HookMap`]: where its payloads name the session, and what each event means.
//! [`read_hook`] reads the payloads of all agents into one form, the `HookMessage`. A call always
//! says that a session has news, so its transcript is read at once; it may also tell facts. Most
//! facts stand in the transcript and are recorded from there; of a hook only those are recorded
//! that the transcript lacks ([`HookMap::hook_only`]). So a journal made with hooks has the events
//! of one made without, with the same ids, and some more.
//!
//! [`AnswerableCall`] is a call that the agent lets a hook decide about.
//!
//! Not here: how a hook is called and what is decided (`cli`), how its message travels (`wire`).

mod payload; // the JSON object an agent gives to a hook
mod memory; // tool calls and questions that a later message refers to
mod ingest_hook; // messages, recorded
mod answer; // what an agent takes as an answer
mod place; // where agents look for hooks

use std::path::PathBuf;

use event::payload::{
    ApprovalRequested, ApprovalResolved, CAPTURED, CompactionStarted, Decision, ExternalInput,
    InputStatus, Outcome, StopReason, ToolCall, TurnCompleted,
};
use event::{HookFact, HookMessage, Kind, Raw, SignalKind, Time};
use serde::{Deserialize, Serialize};

pub use answer::{AnswerForm, AnswerMoment, AnswerRow, AnswerableCall, CalledTool, HookAnswer};
pub use ingest_hook::{HookOnlyEvent, hook_only_events};
pub use memory::HookMemory;
pub use payload::Payload;
pub use place::{HookForm, HookPlace};

use crate::agent::AGENTS;
use crate::event_builder::questions;

/// How to read the hooks of one agent.
///
/// A place is the name of a member, with dots between nested names. Of several places the first
/// that has a value counts.
#[derive(Debug)]
pub struct HookMap {
    pub session: &'static [&'static str],
    /// The file the session is written to.
    pub transcript: &'static [&'static str],
    pub cwd: &'static [&'static str],
    /// Set if calls of a subagent carry the session of their parent.
    pub subagent: Option<Subagent>,
    pub tool: &'static [&'static str],
    pub input: &'static [&'static str],
    pub call: &'static [&'static str],
    pub output: &'static [&'static str],
    /// The first row that matches counts. An event without a row means [`HookMeaning::News`].
    pub rows: &'static [HookRow],
    /// The kinds of events that the agent's transcript lacks, so that they are recorded from hooks.
    pub hook_only: &'static [Kind],
    /// The events that may be answered. Every other call is told nothing.
    pub answers: &'static [AnswerRow],
    /// The agent tells nothing when it asks its user because a hook wanted it to, so the answer of
    /// our own hook is the sign of it.
    pub asks_untold: bool,
    /// The tools that ask the user a question. They are never answered by a rule.
    pub user_questions: &'static [&'static str],
    /// Events about one tool that they do not name: the event, the tool, the members of its input.
    pub events_of_one_tool: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// The event that names a tool of an MCP server as if it were the agent's own.
    pub bare_mcp_event: Option<&'static str>,
    /// Tools that have an event of their own for calls, and the event that leaves them to it: a
    /// refusal there would come before the better answer here. A tool is known by its beginning.
    pub left_to_others: (&'static str, &'static [&'static str]),
    /// Where the agent looks for hooks.
    pub place: HookPlace,
}

/// How the session of a subagent is found.
#[derive(Clone, Copy, Debug)]
pub struct Subagent {
    /// The place of its id.
    pub id: &'static str,
    /// The prefix of the id in the name of its session.
    pub prefix: &'static str,
    /// The folder of its transcript, within one named after the parent session.
    pub folder: &'static str,
}

/// One event of an agent, and what it means.
#[derive(Debug)]
pub struct HookRow {
    pub event: &'static str,
    /// Places, and the texts that have to stand there.
    pub when: &'static [(&'static str, &'static str)],
    pub meaning: HookMeaning,
}

/// What an event means, beside that the session has news.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookMeaning {
    /// Not even news: the event comes too often, or too early.
    Ignored,
    News,
    Signal(SignalKind),
    /// The history is about to be compacted.
    Compacting,
    /// A tool call is about to be made.
    ToolCall,
    /// A tool call waits for the user's approval.
    Approval,
    /// The last tool call waits for the user's approval. The agent shows the user what stands at
    /// this place.
    ApprovalOfLast(&'static str),
    /// A tool call starts. If the user was asked about it, the answer was yes.
    ToolStarted,
    /// The last tool call asks the user the question at this place.
    Question(&'static str),
    /// A tool call was made.
    ToolResult(Outcome),
    /// The user has decided: the places of the approval and the reply, and the words for no.
    Decided {
        id: &'static str,
        reply: &'static str,
        denies: &'static [&'static str],
    },
    /// The user has stopped the agent.
    Interrupted,
    /// The agent is ready for a prompt. A turn that is still open then was stopped by the user: its
    /// end was told by no other event.
    Ready,
}

/// The data of a `tool.result` or `tool.started` fact of a hook. It has the input as well, because
/// the input is what connects it with an earlier question.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToolReport {
    call_id: String,
    tool: String,
    input: Raw,
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Raw>,
}

/// Reads one call into a message with this name and time.
///
/// `None` if the agent is unknown, or the event is ignored or names no session.
pub fn read_hook(
    provider: &str,
    event: &str,
    payload: &Payload,
    name: String,
    at: Time,
) -> Option<HookMessage> {
    let map = hook_map(provider)?;
    let meaning = map.find_meaning(event, payload);
    if meaning == HookMeaning::Ignored {
        return None;
    }
    let session = payload.find_text(map.session).filter(|session| !session.is_empty())?;
    let transcript = payload.find_text(map.transcript).map(PathBuf::from);
    let (session, transcript) = match &map.subagent {
        Some(subagent) => subagent.find_subagent(payload, session, transcript),
        None => (session, transcript),
    };
    let signal = match meaning {
        HookMeaning::Signal(kind) => Some(kind),
        HookMeaning::Compacting => Some(SignalKind::Compact),
        HookMeaning::Ready => Some(SignalKind::TurnEnd),
        _ => None,
    };
    Some(HookMessage {
        event: event.to_owned(),
        transcript,
        cwd: payload.find_text(map.cwd),
        signal,
        // Each agent has its own word for it.
        reason: payload.find_text(&["reason", "status", "trigger", "stopReason"]),
        facts: map.read_fact(&meaning, payload).into_iter().collect(),
        ..HookMessage::new(name, provider, &session, at)
    })
}

/// Whether a message has a fact that the agent's transcript lacks.
pub fn has_hook_only_facts(message: &HookMessage) -> bool {
    hook_map(&message.provider)
        .is_some_and(|map| message.facts.iter().any(|fact| map.is_hook_only(&fact.kind)))
}

fn hook_map(provider: &str) -> Option<&'static HookMap> {
    AGENTS.iter().find(|agent| agent.provider() == provider)?.hook_map()
}

impl HookMap {
    /// The member names that most agents share with Claude Code, and nothing else.
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
        hook_only: &[],
        answers: &[],
        asks_untold: false,
        user_questions: &[],
        events_of_one_tool: &[],
        bare_mcp_event: None,
        left_to_others: ("", &[]),
        place: HookPlace {
            folder: ("", "", ""),
            file: "",
            project_file: "",
            form: HookForm::Commands,
            has_comments: false,
            events: &[],
            narrowed: &[],
        },
    };

    /// What an event means, by the first row that matches.
    pub fn find_meaning(&self, event: &str, payload: &Payload) -> HookMeaning {
        let matches = |row: &&HookRow| {
            let is_equal = |(place, text): &(&str, &str)| {
                payload.find_text(&[place]).as_deref() == Some(*text)
            };
            row.event == event && row.when.iter().all(is_equal)
        };
        self.rows.iter().find(matches).map_or(HookMeaning::News, |row| row.meaning.clone())
    }

    /// Whether facts of this kind come to events that only hooks tell.
    fn is_hook_only(&self, kind: &Kind) -> bool {
        match kind {
            // A hook tells the call before it runs, so its fact is recorded as the start.
            Kind::ToolCall => self.hook_only.contains(&Kind::ToolStarted),
            kind => self.is_recorded(kind),
        }
    }

    /// Whether events of this kind are recorded from hooks.
    fn is_recorded(&self, kind: &Kind) -> bool {
        // No agent writes down what our rules said of its call.
        *kind == Kind::RuleMatched || self.hook_only.contains(kind)
    }

    /// The fact an event tells. No event tells more than one.
    fn read_fact(&self, meaning: &HookMeaning, payload: &Payload) -> Option<HookFact> {
        // Closures, so that a long input is copied only for the meanings that need it.
        let tool = || payload.find_text(self.tool).unwrap_or_default();
        let input = || payload.find_json(self.input).unwrap_or_default();
        let call_id = || payload.find_text(self.call).unwrap_or_default();
        let (kind, data) = match meaning {
            HookMeaning::Ignored | HookMeaning::News | HookMeaning::Signal(_) => return None,
            HookMeaning::Compacting => {
                let strategy = CAPTURED.to_owned();
                let started = CompactionStarted { strategy, ..CompactionStarted::default() };
                (Kind::CompactionStarted, Raw::from_value(&started))
            }
            HookMeaning::ToolCall => {
                let call = ToolCall {
                    call_id: call_id(),
                    tool: tool(),
                    input: input(),
                    ..ToolCall::default()
                };
                (Kind::ToolCall, Raw::from_value(&call))
            }
            HookMeaning::Approval => {
                let asked = ApprovalRequested {
                    // Only payloads of OpenCode have this member. Any other approval gets its id
                    // when it is recorded.
                    approval_id: payload.find_text(&["properties.id"]).unwrap_or_default(),
                    tool: tool(),
                    input: Some(input()),
                    call_id: Some(call_id()).filter(|id| !id.is_empty()),
                    ..ApprovalRequested::default()
                };
                (Kind::ApprovalRequested, Raw::from_value(&asked))
            }
            HookMeaning::ApprovalOfLast(shown) => {
                let input = payload.find_json(&[shown]);
                let asked = ApprovalRequested { input, ..ApprovalRequested::default() };
                (Kind::ApprovalRequested, Raw::from_value(&asked))
            }
            HookMeaning::ToolStarted => {
                // The outcome is not known yet; no reader of this fact looks at it.
                let (tool, input, outcome) = (tool(), input(), Outcome::Ok);
                let started =
                    ToolReport { call_id: String::new(), tool, input, outcome, output: None };
                (Kind::ToolStarted, Raw::from_value(&started))
            }
            HookMeaning::Question(shown) => {
                let input = payload.find_json(&[shown]);
                let asked = ExternalInput {
                    request_id: String::new(),
                    prompt: input.as_ref().map(questions).unwrap_or_default(),
                    status: InputStatus::Pending,
                    input,
                };
                (Kind::ExternalInput, Raw::from_value(&asked))
            }
            HookMeaning::ToolResult(outcome) => {
                // Outputs can be large: a copy of what the transcript has would only cost.
                let is_needed = self.hook_only.contains(&Kind::ToolResult);
                let output = is_needed.then(|| payload.find_json(self.output)).flatten();
                let outcome = outcome.clone();
                let (call_id, tool, input) = (call_id(), tool(), input());
                let report = ToolReport { call_id, tool, input, outcome, output };
                (Kind::ToolResult, Raw::from_value(&report))
            }
            HookMeaning::Decided { id, reply, denies } => {
                let reply = payload.find_text(&[reply])?;
                // Every other reply allows: `once` and `always` differ only in the next question.
                let decision = match denies.contains(&reply.as_str()) {
                    true => Decision::Deny,
                    false => Decision::Allow,
                };
                let resolved = ApprovalResolved {
                    approval_id: payload.find_text(&[id])?,
                    decision,
                    reason: Some(reply),
                    by: Some("person".to_owned()),
                    automated: false,
                };
                (Kind::ApprovalResolved, Raw::from_value(&resolved))
            }
            HookMeaning::Interrupted | HookMeaning::Ready => {
                let stop_reason = Some(StopReason::Interrupted);
                let ended = TurnCompleted { stop_reason, ..TurnCompleted::default() };
                (Kind::TurnCompleted, Raw::from_value(&ended))
            }
        };
        Some(HookFact { kind, data: data.expect("payloads always encode") })
    }
}

impl Subagent {
    /// The session and the transcript of the subagent, if the call comes from one.
    fn find_subagent(
        &self,
        payload: &Payload,
        session: String,
        transcript: Option<PathBuf>,
    ) -> (String, Option<PathBuf>) {
        let Some(id) = payload.find_text(&[self.id]).filter(|id| !id.is_empty()) else {
            return (session, transcript);
        };
        // The payload names the transcript of the parent, so that of the subagent is derived:
        // `…/SESSION.jsonl` becomes `…/SESSION/FOLDER/NAME.jsonl`.
        let name = format!("{}{id}", self.prefix);
        let transcript = transcript
            .map(|path| path.with_extension("").join(self.folder).join(format!("{name}.jsonl")));
        (name, transcript)
    }
}
