//! The most frequent events: messages, tools and notes, each with its text for people.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContextAdded, ContextKind, ErrorRaised, Note,
    ToolCall, ToolResult, UserPrompt,
};
use event::{Draft, Raw, Time};

use crate::event_builder::{EventBuilder, call_line, preview_text, shown_json};
use crate::identity::EventIdentity;

impl EventBuilder<'_> {
    /// What a person asked.
    pub fn add_prompt(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        content: Content,
    ) -> &mut Draft {
        let text = content.joined_text();
        let draft = self.add_event(identity, at, &UserPrompt::new(content));
        draft.text = Some(text);
        draft
    }

    /// What the agent put in front of the model by itself.
    pub fn add_context(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        kind: Option<ContextKind>,
        text: String,
    ) -> &mut Draft {
        let shown = preview_text(&text);
        let content = Content::text(text);
        let added = ContextAdded { kind, placement: None, content, covers: None };
        let draft = self.add_event(identity, at, &added);
        draft.text = Some(shown);
        draft
    }

    /// The words of an answer.
    pub fn add_message(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        message: &AssistantMessage,
    ) -> &mut Draft {
        let draft = self.add_event(identity, at, message);
        draft.text = Some(message.content.joined_text());
        draft
    }

    pub fn thinking(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        thinking: &AssistantThinking,
    ) -> &mut Draft {
        let draft = self.add_event(identity, at, thinking);
        draft.text = Some(thinking.thinking.clone());
        draft
    }

    pub fn add_call(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        call: &ToolCall,
    ) -> &mut Draft {
        let draft = self.add_event(identity, at, call);
        draft.text = Some(call_line(&call.tool, &call.input));
        draft
    }

    pub fn add_result(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        result: &ToolResult,
    ) -> &mut Draft {
        let draft = self.add_event(identity, at, result);
        // An output of `null` shows nothing; a call that failed has its error instead.
        let output = result.output.as_ref().filter(|output| !output.is_null());
        let error = || result.error.as_deref().map(preview_text);
        draft.text = output.map(shown_json).or_else(error);
        draft
    }

    /// Adds a note: information for the user that is no message.
    pub fn add_note(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        about: &str,
        text: String,
    ) -> &mut Draft {
        let about = Some(Raw::from_value(about).expect("a text encodes"));
        let note = Note { text, about };
        let draft = self.add_event(identity, at, &note);
        draft.text = Some(note.text);
        draft
    }

    pub fn add_error(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        error: &ErrorRaised,
    ) -> &mut Draft {
        let draft = self.add_event(identity, at, error);
        draft.text = Some(error.message.clone());
        draft
    }
}
