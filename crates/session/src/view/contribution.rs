//! What one event contributes to the history. Each payload is decoded here, once.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContextAdded, Payload, ToolCall, ToolResult,
    ToolStarted, UserPrompt,
};
use event::{BadPayload, Event, Kind};

/// The contribution of an event.
#[derive(Debug)]
pub(crate) enum Contribution {
    Prompt(Content),
    Message(AssistantMessage),
    Thinking(AssistantThinking),
    Call(ToolCall),
    Started(ToolStarted),
    Result(ToolResult),
    Context(ContextAdded),
    /// Talk or context with a payload that does not fit.
    Unreadable(Box<BadPayload>),
    /// A record of unknown form.
    Unknown,
    /// A fact the model is not shown.
    Nothing,
}

impl Contribution {
    pub(crate) fn from_event(event: &Event) -> Contribution {
        match event.kind {
            Kind::UserPrompt => {
                read_payload(event, |prompt: UserPrompt| Contribution::Prompt(prompt.content))
            }
            Kind::AssistantMessage => read_payload(event, Contribution::Message),
            Kind::AssistantThinking => read_payload(event, Contribution::Thinking),
            Kind::ToolCall => read_payload(event, Contribution::Call),
            Kind::ToolResult => read_payload(event, Contribution::Result),
            Kind::ContextAdded => read_payload(event, Contribution::Context),
            // A start only fills gaps; one that cannot be read fills none.
            Kind::ToolStarted => {
                event.readable().map_or(Contribution::Nothing, Contribution::Started)
            }
            Kind::Unknown => Contribution::Unknown,
            _ => Contribution::Nothing,
        }
    }

    /// The answer this is a part of.
    pub(crate) fn message_id(&self) -> Option<&str> {
        match self {
            Contribution::Message(message) => Some(&message.message_id),
            Contribution::Thinking(thinking) => Some(&thinking.message_id),
            Contribution::Call(call) => Some(&call.message_id),
            _ => None,
        }
    }
}

/// Whether an event of this kind can change the history.
pub(crate) fn affects_history(kind: &Kind) -> bool {
    kind.is_shown()
        || matches!(kind, Kind::ToolStarted | Kind::Unknown | Kind::Compaction | Kind::Snapshot)
}

/// Whether a part of answer `next` belongs to the open answer `open`.
///
/// A blank id names nothing, so parts without one belong together only as long as no result
/// has come between them.
pub(crate) fn joins_answer(open: &str, open_has_result: bool, next: &str) -> bool {
    open == next && (!next.is_empty() || !open_has_result)
}

fn read_payload<P: Payload>(event: &Event, said: impl FnOnce(P) -> Contribution) -> Contribution {
    match event.payload::<P>() {
        Ok(Some(payload)) => said(payload),
        Ok(None) => Contribution::Nothing,
        Err(error) => Contribution::Unreadable(Box::new(error)),
    }
}
