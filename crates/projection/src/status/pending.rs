//! Questions to the user without an answer.
//!
//! A hook may ask without naming the call it asks for. Then the call is found by its tool and what
//! it is given, so that the result of another call does not pass for the answer.

use event::payload::{ApprovalRequested, ExternalInput};
use event::{Event, Raw};
use serde::{Deserialize, Serialize};

use super::running_command::kept_command;
use super::shell_edit::edits_files;
use super::work::{CallAction, cut_spoken};
use crate::agent_habits::is_escalated;
use crate::event_ref::EventRef;
use crate::excerpt;
use crate::id_hash::IdHash;
use crate::risk::Risk;
use crate::tool::whole_command;

/// Characters of an id that are kept; no agent writes longer ones.
const ID_CHARS_MAX: usize = 400;

/// Characters of a command in which an edit is looked for. One behind them is not seen.
const EDIT_CHARS_MAX: usize = 16 * 1024;

/// A question to the user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct PendingQuestion {
    pub(super) id: String,
    pub(super) tool: String,
    /// The call it is about, once that is known.
    pub(super) call: Option<IdHash>,
    /// What the call is given, if that was said.
    given: Option<IdHash>,
    pub(super) asks: QuestionText,
    /// What might come of an answer.
    risk: Risk,
    /// The command that it would run.
    pub(super) command: Option<String>,
    pub(super) event: EventRef,
}

/// What is asked, not yet redacted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuestionText {
    ToDo(CallAction),
    Words(String),
}

/// A call without a result so far.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct PendingCall {
    pub(super) id: IdHash,
    tool: IdHash,
    given: IdHash,
    pub(super) doing: CallAction,
    /// What might come of it.
    pub(super) risk: Risk,
    /// It says itself that it has to be allowed before it runs.
    pub(super) is_escalated: bool,
    /// The command that it runs.
    pub(super) command: Option<String>,
    /// Its command edits files itself.
    pub(super) edits_files: bool,
    pub(super) event: EventRef,
}

impl PendingQuestion {
    pub(super) fn approval(event: &Event, asked: &ApprovalRequested) -> PendingQuestion {
        let nothing = Raw::null();
        let input = asked.input.as_ref();
        PendingQuestion {
            id: excerpt::take_head(&asked.approval_id, ID_CHARS_MAX).to_owned(),
            tool: excerpt::take_head(&asked.tool, ID_CHARS_MAX).to_owned(),
            call: asked.call_id.as_deref().filter(|id| !id.is_empty()).map(IdHash::from_id),
            // Hashes and short forms only: an input may be megabytes long, and states are saved.
            given: input.map(hash_input),
            asks: QuestionText::ToDo(CallAction::from_call(&asked.tool, input.unwrap_or(&nothing))),
            risk: Risk::from_call(&asked.tool, input.unwrap_or(&nothing)),
            command: input.and_then(kept_command),
            event: EventRef::from_event(event),
        }
    }

    pub(super) fn question(event: &Event, asked: &ExternalInput) -> PendingQuestion {
        PendingQuestion {
            id: excerpt::take_head(&asked.request_id, ID_CHARS_MAX).to_owned(),
            tool: String::new(),
            // A question tool asks under the id of its call.
            call: Some(IdHash::from_id(&asked.request_id)),
            given: None,
            asks: QuestionText::Words(cut_spoken(&asked.prompt)),
            // An answer in words does nothing by itself.
            risk: Risk::Read,
            command: None,
            event: EventRef::from_event(event),
        }
    }

    /// Whether it asks for this call. A hook may call the tool by another name than the
    /// transcript and add words of its own; then what would be done is the same.
    pub(super) fn is_for_call(&self, call: &PendingCall) -> bool {
        match (self.call, self.given) {
            // From the surest evidence to the weakest: the id, the arguments, the name of the tool.
            (Some(id), _) => id == call.id,
            (None, Some(given)) => {
                let is_same = IdHash::from_id(&self.tool) == call.tool && given == call.given;
                is_same
                    || matches!(&self.asks, QuestionText::ToDo(doing) if call.doing.is_same(doing))
            }
            (None, None) => IdHash::from_id(&self.tool) == call.tool,
        }
    }

    /// Whether what is asked for cannot be taken back, or is seen by others.
    pub(super) fn is_risky(&self) -> bool {
        self.risk.is_grave()
    }

    /// Whether nothing at all is said of the call.
    pub(super) fn is_bare(&self) -> bool {
        self.call.is_none() && self.given.is_none() && self.tool.is_empty()
    }

    /// Whether it might be for this call, as far as the name of the tool tells.
    pub(super) fn may_be_for(&self, call: &PendingCall) -> bool {
        self.call.is_none() && IdHash::from_id(&self.tool) == call.tool
    }
}

impl PendingCall {
    pub(super) fn new(event: &Event, call_id: &str, tool: &str, input: &Raw) -> PendingCall {
        let is_escalated = is_escalated(&event.provider, input);
        let doing = CallAction::from_call(tool, input);
        let command = doing.is_command().then(|| whole_command(input)).flatten();
        let is_edit = |command: String| edits_files(excerpt::take_head(&command, EDIT_CHARS_MAX));
        PendingCall {
            id: IdHash::from_id(call_id),
            tool: IdHash::from_id(tool),
            given: hash_input(input),
            edits_files: command.is_some_and(is_edit),
            doing,
            risk: Risk::from_call(tool, input),
            is_escalated,
            command: kept_command(input),
            event: EventRef::from_event(event),
        }
    }

    /// A stand-in for the tool and what it is given.
    pub(super) fn hash(&self) -> IdHash {
        IdHash::from_id(&format!("{} {}", self.tool, self.given))
    }

    pub(super) fn is_risky(&self) -> bool {
        self.risk.is_grave()
    }

    pub(super) fn is_same_tool(&self, other: &PendingCall) -> bool {
        self.tool == other.tool
    }
}

/// A stand-in for what a call is given, whatever the order of its arguments.
fn hash_input(input: &Raw) -> IdHash {
    // A hook and a transcript may order the members differently. `Value` sorts them.
    let value: Option<serde_json::Value> = input.read().ok();
    IdHash::from_id(&value.map_or_else(|| input.get().to_owned(), |value| value.to_string()))
}
