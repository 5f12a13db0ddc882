//! Answers requests for an agent on the bus. This program runs no agent, so each request ends at once
//! instead of leaving its sender waiting.
//!
//! Not here: models, and conversations with them.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bus::{Draft, FieldValue, Filter, Handle, Json, Listener, Message, PublishError};

use super::cortex::REV;

/// The longest single wait for a message.
const PAUSE: Duration = Duration::from_secs(3_600);

/// How long to wait for room on the bus. After that the answer is dropped: the bus is overloaded.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Bytes of an agent's id.
const ID_MAX: usize = 256;

/// Ids that are remembered. A second request with an older id is answered again, which does no harm.
const KNOWN_MAX: usize = 1_024;

/// Why requests cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    #[error(transparent)]
    Bus(#[from] PublishError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// Answers every `cortex.request`, on a thread that ends with the bus.
pub(crate) fn answer_all(bus: Handle) -> Result<(), RequestsError> {
    let (tracts, events) = (vec!["cortex".to_owned()], vec!["request".to_owned()]);
    // Listens before the thread runs: a request sent right after the start finds its listener.
    let listener = bus.listen(Filter { tracts, events, ..Filter::default() })?;
    let thread = std::thread::Builder::new().name("requests".to_owned());
    thread.spawn(move || run(&listener, &bus)).map(drop).map_err(RequestsError::Thread)
}

fn run(listener: &Listener, bus: &Handle) {
    let mut claims = Claims::default();
    // The wait is long but ends with the bus, so no signal to stop is needed.
    while listener.is_open() {
        let Some(request) = listener.next(PAUSE) else { continue };
        let Some(answer) = claims.answer(&request) else { continue };
        if let Ok(answer) = answer.build() {
            // Without room the answer is dropped, like other messages at this moment.
            let _ = bus.publish_within(answer, ROOM_WITHIN);
        }
    }
}

/// The ids of accepted requests, the oldest first.
#[derive(Default)]
struct Claims(VecDeque<String>);

impl Claims {
    /// The answer to a request; `None` if one with its id was accepted before. A refused request may
    /// be corrected and sent again under the same id.
    fn answer(&mut self, request: &Message) -> Option<Draft> {
        // Only a valid request claims its id.
        if fault(request).is_none() {
            let id = text(request, "agent_id").unwrap_or_default();
            if self.0.contains(&id) {
                return None;
            }
            self.0.push_back(id);
            // Bounded, as senders choose the ids.
            if self.0.len() > KNOWN_MAX {
                self.0.pop_front();
            }
        }
        Some(answer(request))
    }
}

/// The answer: an error if the request is invalid, else a finish without a result.
fn answer(request: &Message) -> Draft {
    let fault = fault(request);
    let event = if fault.is_some() { "error" } else { "finish" };
    // Any JSON is given back as the id, also a number, so that the sender recognises its own
    // request.
    let id = request.field("agent_id").map_or_else(|| Json::from_value(()), Json::from);
    let mut draft = Draft::new("cortex", event).with("rev", REV).with_json("agent_id", &id);
    let name = text(request, "name").unwrap_or_else(|| "default".to_owned());
    draft = draft.with("name", name).with("hosted", true);
    // Only texts are echoed; other values would break the schema of the answer.
    for field in ["session_id", "provider", "facet"] {
        if let Some(text) = text(request, field) {
            draft = draft.with(field, text);
        }
    }
    match fault {
        Some(fault) => draft.with("error", fault).with("outcome", "failed"),
        None => draft.with("result", "").with("outcome", "done").with("skipped", "no_model"),
    }
}

/// What is wrong with a request.
fn fault(request: &Message) -> Option<&'static str> {
    let is_id = |id: &String| !id.is_empty() && id.len() <= ID_MAX;
    if text(request, "agent_id").filter(is_id).is_none() {
        return Some("`agent_id` is no id");
    }
    if text(request, "prompt").is_none_or(|prompt| prompt.trim().is_empty()) {
        return Some("`prompt` is missing");
    }
    // `null` means the same as an absent provider.
    let provider = request.field("provider").filter(|field| field.raw() != b"null");
    match provider.map(FieldValue::text) {
        Some(None) => Some("`provider` is no name"),
        Some(Some(name)) if !is_provider(&name) => Some("`provider` is nobody we know"),
        _ => None,
    }
}

/// Whether the name is that of a known agent, or ours.
fn is_provider(name: &str) -> bool {
    name == "hansard" || capture::AGENTS.iter().any(|agent| agent.provider() == name)
}

fn text(request: &Message, name: &str) -> Option<String> {
    Some(request.field(name).and_then(FieldValue::text)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: &str) {
        let request = format!(r#"{{"tract":"cortex","event":"request"{fields}}}"#);
        let answer = answer(&Message::parse(request.as_bytes()).unwrap()).build().unwrap();
        let told = answer.to_json();
        if told["agent_id"].is_string() {
            assert_eq!(bus::registry::fault(&told), None);
        }
        let told: Vec<String> = ["event", "agent_id", "name", "outcome", "skipped", "error"]
            .iter()
            .filter_map(|name| Some(format!("{name}={}", told.get(*name)?)))
            .collect();
        assert_eq!(told.join(" ").replace('"', ""), expected);
    }

    #[test]
    fn accepted_id_is_answered_once() {
        let mut claims = Claims::default();
        let mut event = |id: &str, prompt: &str| {
            let request = format!(
                r#"{{"tract":"cortex","event":"request","agent_id":"{id}","prompt":"{prompt}"}}"#
            );
            let answer = claims.answer(&Message::parse(request.as_bytes()).unwrap())?;
            Some(answer.build().unwrap().event().unwrap().into_owned())
        };
        assert_eq!(event("a", "").as_deref(), Some("error"));
        assert_eq!(event("a", "Hello").as_deref(), Some("finish"));
        assert_eq!(event("a", "Hello"), None);
        assert_eq!(event("b", "Hello").as_deref(), Some("finish"));
        for number in 0..KNOWN_MAX {
            assert_eq!(event(&number.to_string(), "Hello").as_deref(), Some("finish"));
        }
        assert_eq!(event("a", "Hello").as_deref(), Some("finish"), "long ago");
    }

    #[test]
    fn request_is_finished_or_refused() {
        check(
            r#","agent_id":"a1","prompt":"Hello""#,
            "event=finish agent_id=a1 name=default outcome=done skipped=no_model",
        );
        check(
            r#","agent_id":"a1","prompt":"Hello","name":"n","provider":"claude","session_id":"s""#,
            "event=finish agent_id=a1 name=n outcome=done skipped=no_model",
        );
        for (fields, id, error) in [
            (r#","agent_id":"a1""#, "a1", "`prompt` is missing"),
            (r#","agent_id":"a1","prompt":"  ""#, "a1", "`prompt` is missing"),
            (r#","agent_id":7,"prompt":"Hello""#, "7", "`agent_id` is no id"),
            (r#","prompt":"Hello""#, "null", "`agent_id` is no id"),
            (r#","agent_id":"a1","prompt":"x","provider":[]"#, "a1", "`provider` is no name"),
            (
                r#","agent_id":"a1","prompt":"x","provider":"nobody""#,
                "a1",
                "`provider` is nobody we know",
            ),
        ] {
            check(
                fields,
                &format!("event=error agent_id={id} name=default outcome=failed error={error}"),
            );
        }
    }
}
