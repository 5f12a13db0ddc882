//! Whether a tool may run: what the log says about a call and its earlier tries.

use event::payload::{Effect, Outcome, ToolCall, ToolDelta, ToolResult, ToolStarted};
use event::{Event, EventKey, ForkOrigin, KeyFamily, Kind, Raw};
use journal::ReadError;
use sha2::{Digest, Sha256};

use crate::EventLookup;

/// A call, its start and its result, as far as they are recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ToolExecution {
    pub call: Option<Event>,
    /// The newest start: a tool that is safe to run again may have several.
    pub started: Option<Event>,
    /// The first result after the call.
    pub result: Option<Event>,
}

/// What to do with a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallAction {
    Run,
    /// It ran before: this is what came out, an error included.
    Return(Box<Event>),
    /// It was started and its end is unknown; the host can find out.
    AskHost,
    /// It was begun and must not be begun again; the model is told so with [`lost_result`].
    Refuse,
}

/// The key of a call: the same for the same call however often it is tried, and independent of the
/// id the provider gave it.
///
/// `answer` is where the answer's first event was first recorded, possibly in an ancestor.
pub fn idempotency_key(answer: &ForkOrigin, tool: &str, index: u32, input_digest: &str) -> String {
    format!("{}:{}:{tool}:{index}:{input_digest}", answer.session_id, answer.event_id)
}

/// SHA-256 of the input as the provider sent it, hex.
pub fn input_digest(input: &Raw) -> String {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(input.get().as_bytes()) {
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
    }
    hex
}

/// What is recorded under an idempotency key, of its newest occurrence.
pub fn find_execution(
    past: &dyn EventLookup,
    key: &str,
) -> Result<Option<ToolExecution>, ReadError> {
    // A blank key names no call; all calls without a key would share it.
    if key.trim().is_empty() {
        return Ok(None);
    }
    let keyed = past.find_by_key(&EventKey::new(KeyFamily::Execution, key))?;
    let Some(mut execution) = ToolExecution::newest_of(&keyed) else { return Ok(None) };
    let ToolExecution { call, started, result } = &execution;
    if call.is_some() && result.is_some() {
        return Ok(Some(execution));
    }
    // Call and result need not carry the key; then their id leads to them.
    let known = started.as_ref().or(result.as_ref()).or(call.as_ref());
    let known = known.expect("an execution has at least one event");
    let call_id = known.keys().into_iter().find(|key| key.family == KeyFamily::Call);
    let Some(call_id) = call_id else { return Ok(Some(execution)) };
    let seq = known.seq;
    let same_id = past.find_by_key(&call_id)?;
    if execution.call.is_none() {
        // Providers reuse call ids, so the nearest call before the start is meant.
        execution.call =
            same_id.iter().rfind(|event| is_of_call(event) && event.seq < seq).cloned();
    }
    if execution.result.is_none() {
        let later = same_id.into_iter().skip_while(|event| event.seq <= seq);
        // Up to the next call of this id. A result with a key of its own belongs to another try.
        execution.result = later.take_while(|event| !is_of_call(event)).find(is_keyless);
    }
    Ok(Some(execution))
}

impl ToolExecution {
    /// The newest occurrence among events of one key, oldest first.
    pub fn newest_of(events: &[Event]) -> Option<ToolExecution> {
        let mut execution = ToolExecution::default();
        for event in events {
            match event.kind {
                Kind::ToolCall => {
                    execution =
                        // A new call under the same key begins a new occurrence.
                        ToolExecution { call: Some(event.clone()), ..ToolExecution::default() };
                }
                Kind::ToolStarted => {
                    execution.started = Some(event.clone());
                    // The tool was started again behind this result, so its end is open again.
                    execution.result = None;
                }
                Kind::ToolResult if execution.result.is_none() => {
                    execution.result = Some(event.clone());
                }
                _ => {}
            }
        }
        (execution != ToolExecution::default()).then_some(execution)
    }
}

/// What to do before running a tool. Where the start recorded another effect than the tool claims
/// now, the more careful one counts.
pub fn decide_call(execution: Option<&ToolExecution>, effect: &Effect) -> CallAction {
    let Some(execution) = execution else { return CallAction::Run };
    if let Some(result) = &execution.result {
        return CallAction::Return(Box::new(result.clone()));
    }
    // Called but never started: nothing has happened yet.
    let Some(started) = &execution.started else { return CallAction::Run };
    let recorded = started.readable::<ToolStarted>().map(|started| started.effect);
    match recorded.iter().map(care_level).fold(care_level(effect), Ord::max) {
        Care::RunAgain => CallAction::Run,
        Care::Ask => CallAction::AskHost,
        Care::Never => CallAction::Refuse,
    }
}

/// Builds the result of a call that was started and has no known end, with its partial output.
pub fn lost_result(
    call_id: &str,
    tool: &str,
    key: Option<String>,
    partial_output: Option<&str>,
) -> ToolResult {
    ToolResult {
        call_id: call_id.to_owned(),
        tool: Some(tool.to_owned()).filter(|tool| !tool.is_empty()),
        idempotency_key: key,
        outcome: Outcome::Lost,
        output: partial_output
            .map(|output| Raw::from_value(&output).expect("a string always encodes as JSON")),
        parts: Vec::new(),
        error: Some(
            "the call was interrupted; what it did is not known and it was not run again"
                .to_owned(),
        ),
        ..ToolResult::default()
    }
}

/// The output of a call as far as it was stored before the result, of its newest occurrence.
pub fn partial_output(past: &dyn EventLookup, call_id: &str) -> Result<Option<String>, ReadError> {
    let events = past.find_by_key(&EventKey::new(KeyFamily::Call, call_id))?;
    // Output before the newest call of this id belongs to an earlier call.
    let begin = events.iter().rposition(is_of_call).unwrap_or(0);
    let deltas = events[begin..].iter().filter_map(|event| event.readable::<ToolDelta>());
    Ok(deltas.fold(None, |output: Option<String>, delta| match output {
        Some(output) if !delta.replaces => Some(output + &delta.text),
        _ => Some(delta.text),
    }))
}

/// A result that does not say which try it is of.
fn is_keyless(event: &Event) -> bool {
    event.readable::<ToolResult>().is_some_and(|result| result.idempotency_key.is_none())
}

fn is_of_call(event: &Event) -> bool {
    event.readable::<ToolCall>().is_some()
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Care {
    RunAgain,
    Ask,
    Never,
}

/// An effect this program does not know is treated as the worst.
fn care_level(effect: &Effect) -> Care {
    match effect {
        Effect::ReplaySafe => Care::RunAgain,
        Effect::Reconcile => Care::Ask,
        Effect::NeverReplay | Effect::Other(_) => Care::Never,
    }
}
