//! Questions to a person that nobody has answered.
//!
//! A hook may ask without naming the call it asks for. Then the call is found by its tool and what
//! it is given, so that the result of another call does not pass for the answer.

use event::payload::{ApprovalRequested, ExternalInput};
use event::{Event, Raw};
use serde::{Deserialize, Serialize};

use super::work::{Doing, spoken};
use crate::event_ref::EventRef;
use crate::excerpt;
use crate::mark::Mark;
use crate::risk::Risk;

/// Characters of an id that are kept; longer ones are nobody's.
const ID_CHARS_MAX: usize = 400;

/// Something a person is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) id: String,
    pub(super) tool: String,
    /// The call it is about, once that is known.
    pub(super) call: Option<Mark>,
    /// What the call is given, if that was said.
    given: Option<Mark>,
    pub(super) asks: Asks,
    /// What might come of an answer.
    risk: Risk,
    pub(super) event: EventRef,
}

/// What is asked, not yet redacted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Asks {
    ToDo(Doing),
    Words(String),
}

/// A call whose result is not there yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct OpenCall {
    pub(super) id: Mark,
    tool: Mark,
    given: Mark,
    pub(super) doing: Doing,
    pub(super) event: EventRef,
}

impl Pending {
    pub(super) fn approval(event: &Event, asked: &ApprovalRequested) -> Pending {
        let nothing = Raw::null();
        let input = asked.input.as_ref();
        Pending {
            id: excerpt::head(&asked.approval_id, ID_CHARS_MAX).to_owned(),
            tool: excerpt::head(&asked.tool, ID_CHARS_MAX).to_owned(),
            call: asked.call_id.as_deref().filter(|id| !id.is_empty()).map(Mark::of),
            given: input.map(given),
            asks: Asks::ToDo(Doing::of(&asked.tool, input.unwrap_or(&nothing))),
            risk: Risk::of(&asked.tool, input.unwrap_or(&nothing)),
            event: EventRef::from_event(event),
        }
    }

    pub(super) fn question(event: &Event, asked: &ExternalInput) -> Pending {
        Pending {
            id: excerpt::head(&asked.request_id, ID_CHARS_MAX).to_owned(),
            tool: String::new(),
            // A question tool asks under the id of its call.
            call: Some(Mark::of(&asked.request_id)),
            given: None,
            asks: Asks::Words(spoken(&asked.prompt)),
            risk: Risk::Read,
            event: EventRef::from_event(event),
        }
    }

    /// Whether it asks for this call. A hook may call the tool by another name than the
    /// transcript and add words of its own; then what would be done is the same.
    pub(super) fn is_for(&self, call: &OpenCall) -> bool {
        match (self.call, self.given) {
            (Some(id), _) => id == call.id,
            (None, Some(given)) => {
                let is_same = Mark::of(&self.tool) == call.tool && given == call.given;
                is_same || matches!(&self.asks, Asks::ToDo(doing) if call.doing.is_same(doing))
            }
            (None, None) => Mark::of(&self.tool) == call.tool,
        }
    }

    /// Whether what is asked for cannot be taken back, or is seen by others.
    pub(super) fn is_risky(&self) -> bool {
        self.risk <= Risk::Secrets
    }

    /// Whether nothing at all is said of the call.
    pub(super) fn is_bare(&self) -> bool {
        self.call.is_none() && self.given.is_none() && self.tool.is_empty()
    }

    /// Whether it might be for this call, as far as the name of the tool tells.
    pub(super) fn may_be_for(&self, call: &OpenCall) -> bool {
        self.call.is_none() && Mark::of(&self.tool) == call.tool
    }
}

impl OpenCall {
    pub(super) fn new(event: &Event, call_id: &str, tool: &str, input: &Raw) -> OpenCall {
        OpenCall {
            id: Mark::of(call_id),
            tool: Mark::of(tool),
            given: given(input),
            doing: Doing::of(tool, input),
            event: EventRef::from_event(event),
        }
    }

    pub(super) fn is_same_tool(&self, other: &OpenCall) -> bool {
        self.tool == other.tool
    }
}

/// A stand-in for what a call is given, whatever the order of its arguments.
fn given(input: &Raw) -> Mark {
    let value: Option<serde_json::Value> = input.read().ok();
    Mark::of(&value.map_or_else(|| input.get().to_owned(), |value| value.to_string()))
}
