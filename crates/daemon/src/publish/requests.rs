//! Answers requests for an agent on the bus. This program runs no agent, so each request ends at once
//! instead of leaving its sender waiting.
//!
//! The protocol's own client sends its request over one connection, then opens another to wait, and
//! looks for the agent's file before it waits. An answer is therefore given twice: as a file at once,
//! and as a message a little later, when such a client listens.
//!
//! Not here: models, and conversations with them.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bus::{Draft, FieldValue, Filter, Handle, Json, Listener, Message, PublishError};
use event::Time;

use super::cortex::REV;
use crate::log::part;

/// The longest single wait for a message.
const PAUSE: Duration = Duration::from_secs(3_600);

/// How long after its file an answer is published. A client that looked for the file too early has
/// connected by then.
const PUBLISH_AFTER: Duration = Duration::from_millis(250);

/// Answers that wait to be published. Beyond that the oldest goes out early.
const PENDING_MAX: usize = 1_024;

/// How long to wait for room on the bus. After that the answer is dropped: the bus is overloaded.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Bytes of an agent's id.
const ID_MAX: usize = 256;

/// Ids that are remembered. A second request with an older id is answered again, which does no harm.
const KNOWN_MAX: usize = 1_024;

/// The folder of the files with answers, below the journal's. Clients look for `agents/*/ID.jsonl`.
const FOLDER: [&str; 2] = ["agents", "requests"];

/// Files with answers. Beyond that the oldest is removed; its waiter is gone long since.
const FILES_MAX: usize = 1_024;

/// Why requests cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    #[error(transparent)]
    Bus(#[from] PublishError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// Answers every `cortex.request`, on a thread that ends with the bus.
pub(crate) fn answer_all(
    bus: Handle,
    journal: &Path,
    clock: fn() -> Time,
) -> Result<(), RequestsError> {
    let (tracts, events) = (vec!["cortex".to_owned()], vec!["request".to_owned()]);
    // Listens before the thread runs: a request sent right after the start finds its listener.
    let listener = bus.listen(Filter { tracts, events, ..Filter::default() })?;
    let files = AnswerFiles::new(journal);
    let responder = RequestResponder { bus, files, clock, claims: Claims::default() };
    let thread = std::thread::Builder::new().name("requests".to_owned());
    thread.spawn(move || responder.run(&listener)).map(drop).map_err(RequestsError::Thread)
}

/// What the thread needs to answer.
struct RequestResponder {
    bus: Handle,
    files: AnswerFiles,
    clock: fn() -> Time,
    claims: Claims,
}

impl RequestResponder {
    fn run(mut self, listener: &Listener) {
        // Each with the time at which it is due. The delay is the same for all, so they stand in order.
        let mut pending: VecDeque<(Instant, Message)> = VecDeque::new();
        // The wait is long but ends with the bus, so no signal to stop is needed.
        while listener.is_open() {
            let due = pending.front().map(|(due, _)| *due);
            let wait = due.map_or(PAUSE, |due| due.saturating_duration_since(Instant::now()));
            if let Some(request) = listener.next(wait)
                && let Some(answer) = self.answer(&request)
            {
                pending.push_back((Instant::now() + PUBLISH_AFTER, answer));
            }
            let now = Instant::now();
            while pending.len() > PENDING_MAX || pending.front().is_some_and(|(due, _)| *due <= now)
            {
                let Some((_, answer)) = pending.pop_front() else { break };
                // Without room the answer is dropped, like other messages at this moment.
                let _ = self.bus.publish_within(answer, ROOM_WITHIN);
            }
        }
    }

    /// Writes the file of the answer and returns the message.
    fn answer(&mut self, request: &Message) -> Option<Message> {
        let now_ms = (self.clock)().nanos() / 1_000_000;
        let answer = self.claims.answer(request)?.with("ts", now_ms).build().ok()?;
        if let Some(id) = agent_id(request)
            && let Err(error) = self.files.write(&id, request, &answer)
        {
            tracing::warn!(
                target: part::BUS,
                "cannot write the answer to the request for an agent `{id}`: {error}"
            );
        }
        Some(answer)
    }
}

/// Answers as files, where the protocol's client looks for the log of an agent.
struct AnswerFiles {
    journal: PathBuf,
    /// The names of the files, the oldest first; `None` until the folder was read.
    names: Option<VecDeque<String>>,
}

impl AnswerFiles {
    fn new(journal: &Path) -> AnswerFiles {
        AnswerFiles { journal: journal.to_owned(), names: None }
    }

    /// Writes a file with the request, without its prompt, and the answer to it.
    fn write(&mut self, id: &str, request: &Message, answer: &Message) -> io::Result<()> {
        let name = format!("{}.jsonl", supervise::safe_form(id));
        // Made with the first request: most journals never need it.
        supervise::folder_below(&self.journal, &FOLDER)?;
        let folder = FOLDER.iter().fold(self.journal.clone(), |folder, name| folder.join(name));
        let names = match &mut self.names {
            Some(names) => names,
            None => self.names.insert(read_names(&folder)?),
        };
        let mut lines = Vec::new();
        for message in [&request_line(request), answer] {
            lines.extend_from_slice(message.line());
            lines.push(b'\n');
        }
        // Written beside and renamed, because a waiter may look at any moment.
        let beside = folder.join(format!(".{name}"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&lines)?;
        fs::rename(&beside, folder.join(&name))?;
        names.retain(|known| *known != name);
        names.push_back(name);
        while names.len() > FILES_MAX {
            let Some(oldest) = names.pop_front() else { break };
            // The user may have removed it.
            let _ = fs::remove_file(folder.join(oldest));
        }
        Ok(())
    }
}

/// Returns the names of the files in a folder, the oldest first.
fn read_names(folder: &Path) -> io::Result<VecDeque<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") && !name.starts_with('.') {
            found.push((entry.metadata()?.modified()?, name));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Returns the first line of an agent's file: the sender and the wish. The prompt is the sender's, so it
/// is not stored.
fn request_line(request: &Message) -> Message {
    let mut draft = Draft::new("cortex", "request");
    for field in ["agent_id", "name", "provider", "facet", "ts"] {
        if let Some(value) = request.field(field) {
            draft = draft.with_json(field, &Json::from(value));
        }
    }
    draft.build().expect("these fields were part of a message")
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
            let id = agent_id(request).unwrap_or_default();
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
    if agent_id(request).is_none() {
        return Some("`agent_id` is no id");
    }
    if text(request, "prompt").is_none_or(|prompt| prompt.trim().is_empty()) {
        return Some("`prompt` is missing");
    }
    // `null` means the same as an absent provider.
    let provider = request.field("provider").filter(|field| field.raw() != b"null");
    match provider.map(FieldValue::text) {
        Some(None) => Some("`provider` is no name"),
        Some(Some(name)) if !is_provider(&name) => Some("`provider` is not a known agent"),
        _ => None,
    }
}

/// The id of a request, if it has a usable one.
fn agent_id(request: &Message) -> Option<String> {
    text(request, "agent_id").filter(|id| !id.is_empty() && id.len() <= ID_MAX)
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

    fn request(id: &str) -> Message {
        let line = format!(
            r#"{{"tract":"cortex","event":"request","agent_id":"{id}","name":"n","prompt":"Hello"}}"#
        );
        Message::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn answer_is_where_the_client_looks() {
        let journal = tempfile::tempdir().unwrap();
        let mut files = AnswerFiles::new(journal.path());
        let answer = answer(&request("17")).build().unwrap();
        files.write("17", &request("17"), &answer).unwrap();
        let text = fs::read_to_string(journal.path().join("agents/requests/17.jsonl")).unwrap();
        let events: Vec<String> = text
            .lines()
            .map(|line| Message::parse(line.as_bytes()).unwrap().event().unwrap().into_owned())
            .collect();
        assert_eq!(events, ["request", "finish"]);
        assert!(!text.contains("Hello"), "{text}");
    }

    #[test]
    fn answer_files_are_bounded() {
        let journal = tempfile::tempdir().unwrap();
        let answer = answer(&request("x")).build().unwrap();
        // A new store counts what an earlier one left.
        for first in [0, FILES_MAX] {
            let mut files = AnswerFiles::new(journal.path());
            for number in first..first + FILES_MAX {
                files.write(&number.to_string(), &request("x"), &answer).unwrap();
            }
        }
        let names = read_names(&journal.path().join("agents/requests")).unwrap();
        assert_eq!(names.len(), FILES_MAX);
        assert!(names.iter().all(|name| name.len() >= "1024.jsonl".len()), "the newest stay");
        assert!(!journal.path().join("agents/requests/1023.jsonl").exists());
    }

    #[test]
    fn ids_stay_in_the_folder() {
        let journal = tempfile::tempdir().unwrap();
        let answer = answer(&request("x")).build().unwrap();
        AnswerFiles::new(journal.path()).write("../../x", &request("x"), &answer).unwrap();
        assert_eq!(read_names(&journal.path().join("agents/requests")).unwrap().len(), 1);
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
                "`provider` is not a known agent",
            ),
        ] {
            check(
                fields,
                &format!("event=error agent_id={id} name=default outcome=failed error={error}"),
            );
        }
    }
}
