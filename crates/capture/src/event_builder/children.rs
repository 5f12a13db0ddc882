//! Subagents and questions to the user that a tool call starts.

use event::payload::{
    ChildCanceled, ChildCompleted, ChildFailed, ChildRequested, ExternalInput, InputStatus,
    Outcome, ToolResult,
};
use event::{EventId, Time};

use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;

/// A subagent, as its parent's call names it.
pub struct ChildCall<'a> {
    /// The provider's id of its session.
    pub session: &'a str,
    pub agent: String,
    pub task: String,
    /// The call that asked for it, if it is known.
    pub call: Option<EventId>,
}

impl EventBuilder<'_> {
    pub fn child_requested(&mut self, at: Option<Time>, child: ChildCall<'_>) {
        let ChildCall { session, agent, task, call } = child;
        let requested = ChildRequested {
            child_id: session.to_owned(),
            child_session_id: self.session_of(session).to_string(),
            metadata: None,
            agent_id: agent,
            mode: None,
            task,
            parent_event_id: call,
            context: None,
            shared_prefix_key: None,
        };
        self.add_event(EventIdentity::in_session(&["child", session, "requested"]), at, &requested);
    }

    /// The call of a child got its result.
    pub fn child_ended(&mut self, at: Option<Time>, session: &str, result: &ToolResult) {
        let child_id = session.to_owned();
        let child_session_id = self.session_of(session).to_string();
        let said = result.output_text().or_else(|| result.error.clone());
        // One identity for every outcome: a child ends once, whatever the record says about how.
        let identity = EventIdentity::in_session(&["child", session, "ended"]);
        let metadata = None;
        match result.outcome {
            Outcome::Ok => {
                let completed = ChildCompleted {
                    child_id,
                    child_session_id,
                    metadata,
                    summary: said,
                    artifact_ids: Vec::new(),
                    episode_id: None,
                    usage: None,
                };
                self.add_event(identity, at, &completed);
            }
            Outcome::Canceled | Outcome::Rejected => {
                let reason = said;
                let canceled = ChildCanceled { child_id, child_session_id, metadata, reason };
                self.add_event(identity, at, &canceled);
            }
            _ => {
                let error = said.unwrap_or_default();
                let failed = ChildFailed { child_id, child_session_id, metadata, error };
                self.add_event(identity, at, &failed);
            }
        }
    }

    /// A call asks the user a question.
    pub fn open_question(&mut self, at: Option<Time>, call_id: &str, prompt: &str) {
        let status = InputStatus::Pending;
        let identity = EventIdentity::in_session(&["input", call_id, status.as_str()]);
        let (request_id, prompt) = (call_id.to_owned(), prompt.to_owned());
        self.add_event(identity, at, &ExternalInput { request_id, prompt, status, input: None });
    }

    /// The user answered, or did not.
    pub fn close_question(&mut self, at: Option<Time>, prompt: &str, result: &ToolResult) {
        let status = match result.outcome {
            Outcome::Ok => InputStatus::Received,
            _ => InputStatus::Canceled,
        };
        let request_id = result.call_id.clone();
        // An answer and a cancellation share the identity, because a question ends once.
        let identity = EventIdentity::in_session(&["input", &request_id, "ended"]);
        let (prompt, input) = (prompt.to_owned(), result.output.clone());
        self.add_event(identity, at, &ExternalInput { request_id, prompt, status, input });
    }
}
