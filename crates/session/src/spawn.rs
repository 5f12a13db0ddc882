//! What passes between a session and its child: the task going down, waiting and work coming up.
//!
//! Not here: starting a process. The host runs the child.

use event::payload::{ArtifactRecorded, ChildBlocked, ChildMode, ChildRequested};
use event::{Event, Raw, SessionId};

use crate::{OpenChild, OpenWork};

/// What a child says it waits for when it has no wait of its own.
const WAITING: &str = "waiting";

/// Returns the first prompt of a child. Only a handoff gets one: a fork has the history, and a
/// fresh child starts with none. Messages of the caller take precedence.
pub fn first_prompt(request: &ChildRequested) -> Option<String> {
    if !matches!(request.mode, None | Some(ChildMode::Handoff)) {
        return None;
    }
    let mut prompt = format!("Task: {}", request.task);
    let context = request.context.as_ref().filter(|context| !context.is_null());
    if let Some(context) = context.map(plain_text).filter(|context| !context.trim().is_empty()) {
        prompt.push_str("\nContext: ");
        prompt.push_str(&context);
    }
    Some(prompt)
}

/// What to record in the parent when a child has stopped to wait; `None` if it does not wait.
pub fn blocked_by_wait(child: &OpenChild, own: &OpenWork) -> Option<ChildBlocked> {
    if !own.is_waiting() {
        return None;
    }
    // In the open work, only waits carry a reason.
    let newest = own.waits().values().max_by_key(|wait| wait.opened.seq);
    let reason = newest.and_then(|wait| wait.reason.clone());
    Some(ChildBlocked {
        child_id: child.child_id.clone(),
        child_session_id: child.child_session_id.clone(),
        metadata: None,
        reason: reason.unwrap_or_else(|| WAITING.to_owned()),
        external_id: newest.and_then(|wait| wait.external_id.clone()),
    })
}

/// The artifacts of a child as its parent records them, before the outcome: under the child's ids,
/// without mere pointers at files of the workspace.
pub fn left_behind(
    child_id: &str,
    session_id: &SessionId,
    events: &[Event],
) -> Vec<ArtifactRecorded> {
    let recorded = events.iter().filter(|event| event.fork_origin().is_none());
    recorded
        .filter_map(|event| event.readable::<ArtifactRecorded>())
        .filter(|recorded| !recorded.artifact.is_file_ref())
        .map(|recorded| {
            let mut artifact = recorded.artifact;
            // Recorded in the parent's log, the artifact would otherwise look like the parent's.
            artifact.producer_session_id.get_or_insert_with(|| session_id.clone());
            ArtifactRecorded {
                artifact,
                child_id: Some(child_id.to_owned()),
                session_id: Some(session_id.clone()),
            }
        })
        .collect()
}

/// A string as it is, anything else as JSON.
fn plain_text(value: &Raw) -> String {
    value.text().unwrap_or_else(|| value.get().to_owned())
}
