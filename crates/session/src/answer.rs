//! The events of one answer, told from each other and from those of other answers.

use event::Draft;
use event::payload::{AssistantMessage, AssistantThinking, ToolCall};

/// One event of an answer.
pub(crate) struct AnswerPart {
    /// What the events of one answer share; blank in logs that do not tell.
    pub(crate) message_id: String,
    /// Whether anything but white space is in it.
    pub(crate) has_substance: bool,
    pub(crate) call: Option<ToolCall>,
}

impl AnswerPart {
    /// `None` if the event is no part of an answer, or cannot be read.
    pub(crate) fn from_draft(draft: &Draft) -> Option<AnswerPart> {
        if let Some(message) = draft.readable::<AssistantMessage>() {
            let has_substance = message.content.has_substance();
            return Some(AnswerPart { message_id: message.message_id, has_substance, call: None });
        }
        if let Some(thinking) = draft.readable::<AssistantThinking>() {
            let has_substance = thinking.has_substance();
            return Some(AnswerPart { message_id: thinking.message_id, has_substance, call: None });
        }
        let call = draft.readable::<ToolCall>()?;
        let message_id = call.message_id.clone();
        Some(AnswerPart { message_id, has_substance: true, call: Some(call) })
    }

    /// Whether this is part of the answer with `message_id`.
    ///
    /// A blank id names nothing, so parts without one belong together only as long as no result
    /// has come between them.
    pub(crate) fn continues(&self, message_id: &str, has_result: bool) -> bool {
        self.message_id == message_id && (!message_id.is_empty() || !has_result)
    }
}
