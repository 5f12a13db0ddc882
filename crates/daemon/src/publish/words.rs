//! The fields of a message about an event that neither starts nor ends a run.

use bus::Draft;
use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, AssistantThinking, Handoff, Outcome,
    StatusChanged, ToolCall, ToolResult, WaitResolved, WaitStarted,
};
use event::{Event, Kind, Raw};
use projection::status::Status;
use serde_json::{Value, json};

/// Characters of any text in a message: the journal has the rest.
const CHARS_MAX: usize = 2_000;

/// The name of the message.
pub(super) fn message_name(event: &Event) -> &'static str {
    match event.kind {
        Kind::AssistantThinking => "thinking",
        Kind::ToolCall => "tool_start",
        Kind::ToolResult => "tool_end",
        Kind::StatusChanged
        | Kind::ApprovalRequested
        | Kind::ApprovalResolved
        | Kind::ApprovalCanceled
        | Kind::WaitStarted
        | Kind::WaitResolved
        | Kind::SettingsChanged
        | Kind::Handoff => "agent_updated",
        _ => "info",
    }
}

/// The status that the message of an event reports, if it reports one. `told` is the status of the
/// session by all its events: an answer may arrive after the turn that asked is over.
pub(super) fn reported_status(event: &Event, told: Status) -> Option<String> {
    match event.kind {
        Kind::StatusChanged => event.readable::<StatusChanged>().map(|changed| changed.status),
        Kind::ApprovalRequested | Kind::ApprovalResolved | Kind::ApprovalCanceled => {
            (told != Status::Unknown).then(|| told.as_str().to_owned())
        }
        Kind::WaitStarted => Some(Status::Waiting.as_str().to_owned()),
        Kind::WaitResolved => Some(Status::Running.as_str().to_owned()),
        _ => None,
    }
}

/// Adds the fields of an event. A payload that cannot be read leaves only the event's text.
pub(super) fn add_fields(
    draft: Draft,
    event: &Event,
    tool: Option<&str>,
    status: Option<&str>,
) -> Draft {
    match event.kind {
        Kind::AssistantThinking => {
            let thinking = event.readable::<AssistantThinking>().unwrap_or_default();
            draft.with("summary", compact(&thinking.thinking))
        }
        Kind::ToolCall => {
            let call = event.readable::<ToolCall>().unwrap_or_default();
            draft
                .with("tool", compact(&call.tool))
                .with("args", compact_json(&call.input))
                .with("call_id", compact(&call.call_id))
        }
        Kind::ToolResult => {
            let result = event.readable::<ToolResult>().unwrap_or_default();
            let said = result.output_text().or_else(|| result.error.clone());
            draft
                .with("tool", tool.map(compact))
                .with("call_id", compact(&result.call_id))
                .with("result", said.map(|said| compact(&said)))
                .with("ok", result.outcome == Outcome::Ok)
        }
        _ if message_name(event) == "agent_updated" => add_update(draft, event, status),
        _ => {
            let draft = draft.with("kind", compact(event.kind.as_str()));
            let draft = draft.with("message", short_text(event).map(|text| compact(&text)));
            match event.kind {
                Kind::Error => draft.with("severity", "error"),
                Kind::Unknown | Kind::Retry => draft.with("severity", "warning"),
                _ => draft,
            }
        }
    }
}

/// Cuts a text to `CHARS_MAX` characters.
pub(crate) fn compact(text: &str) -> String {
    // The index of a character, not of a byte: a cut inside one would panic.
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value as it is if it is short, else the beginning of its text.
fn compact_json(raw: &Raw) -> Value {
    // Bytes as a cheap bound of characters: a short text has at most as many.
    let is_short = raw.get().len() <= CHARS_MAX;
    let value = || serde_json::from_str(raw.get()).ok();
    is_short.then(value).flatten().unwrap_or_else(|| {
        // Valid JSON cannot be cut in the middle, so a long value becomes a text.
        let text = raw.text().unwrap_or_else(|| raw.get().to_owned());
        Value::String(compact(&text))
    })
}

/// A change of an agent's state: the new status, its reason, and the approval it waits for.
fn add_update(draft: Draft, event: &Event, status: Option<&str>) -> Draft {
    let reason = update_reason(event);
    let draft = draft
        .with("agent", event.session_id.as_str())
        .with("status", status.map(compact))
        .with("from", compact(event.source.as_str()))
        .with("reason", reason.map(|reason| compact(&reason)))
        .with("confidence", compact(event.confidence.as_str()));
    let draft = match approval(event) {
        Some(approval) => draft.with("approval", approval),
        None => draft,
    };
    match event.kind {
        Kind::SettingsChanged => draft.with("settings", compact_json(&event.data)),
        _ => draft,
    }
}

fn update_reason(event: &Event) -> Option<String> {
    match event.kind {
        Kind::StatusChanged => event.readable::<StatusChanged>().map(|changed| changed.reason),
        Kind::ApprovalRequested => {
            let asked = event.readable::<ApprovalRequested>().unwrap_or_default();
            Some(format!("{} asks for approval", asked.tool))
        }
        Kind::ApprovalResolved => {
            event.readable::<ApprovalResolved>().map(|resolved| resolved.decision.to_string())
        }
        Kind::ApprovalCanceled => {
            event.readable::<ApprovalCanceled>().map(|canceled| canceled.reason)
        }
        Kind::WaitStarted => event.readable::<WaitStarted>().and_then(|wait| wait.reason),
        Kind::WaitResolved => event.readable::<WaitResolved>().and_then(|wait| wait.reason),
        Kind::Handoff => {
            let to = event.readable::<Handoff>();
            to.map(|to| format!("handed over to {}", to.target_agent_id))
        }
        _ => event.text.clone(),
    }
}

fn approval(event: &Event) -> Option<Value> {
    match event.kind {
        Kind::ApprovalRequested => {
            let asked = event.readable::<ApprovalRequested>()?;
            let action = asked.operation.or(event.text.clone());
            let action = action.map(|action| compact(&action));
            let (id, tool) = (compact(&asked.approval_id), compact(&asked.tool));
            Some(json!({"id": id, "tool": tool, "action": action}))
        }
        Kind::ApprovalResolved => {
            let resolved = event.readable::<ApprovalResolved>()?;
            let (id, decision) =
                (compact(&resolved.approval_id), compact(resolved.decision.as_str()));
            Some(json!({"id": id, "tool": null, "action": decision}))
        }
        Kind::ApprovalCanceled => {
            let canceled = event.readable::<ApprovalCanceled>()?;
            let (id, tool) =
                (compact(&canceled.approval_id), canceled.tool.as_deref().map(compact));
            Some(json!({"id": id, "tool": tool, "action": "canceled"}))
        }
        _ => None,
    }
}

/// A short text of an event.
fn short_text(event: &Event) -> Option<String> {
    event.text.clone().or_else(|| event.search_texts().into_iter().next())
}
