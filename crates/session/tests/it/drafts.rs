//! Logs written down line by line.
//!
//! A line is a kind and what it carries; the line's number is the event's: its id is `id(n)`, it
//! happened `n` seconds after noon. In front of it, in brackets, stands what the envelope has
//! beyond that: `[cost=0.05 turn=t1 parent=2 amends=2 origin=p/2 role=system at=90]`.
//!
//! ```text
//! prompt hello
//! think m1 hm
//! say m1 on it
//! call m1 c1 bash ls
//! started c1 bash never_replay
//! result c1 ok done
//! approval.requested {"approval_id": "a1", "tool": "bash"}
//! ```

use event::{Cost, Draft, Event, EventId, EventKey, Kind, Metadata, Raw, SessionId, Time};
use journal::ReadError;
use session::EventLookup;

/// 2026-01-01T12:00:00Z, in seconds.
const NOON: i64 = 1_767_268_800;

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// `seconds` after noon.
pub(crate) fn at(seconds: i64) -> Time {
    Time::from_millis((NOON + seconds) * 1_000)
}

/// The id of the event in line `n` of a log.
pub(crate) fn id(n: u64) -> EventId {
    let mut tail = [0; 10];
    tail[2..].copy_from_slice(&n.to_be_bytes());
    EventId::new(Time::from_millis(NOON * 1_000), tail)
}

/// The events of session `s`.
pub(crate) fn log(text: &str) -> Vec<Event> {
    log_of("s", text)
}

pub(crate) fn log_of(session: &str, text: &str) -> Vec<Event> {
    drafts_of(session, 1, text)
        .into_iter()
        .zip(1..)
        .map(|(draft, seq)| draft.with_seq(seq))
        .collect()
}

/// Drafts for session `s` that are numbered from `first`.
pub(crate) fn drafts(first: u64, text: &str) -> Vec<Draft> {
    drafts_of("s", first, text)
}

pub(crate) fn drafts_of(session: &str, first: u64, text: &str) -> Vec<Draft> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.zip(first..).map(|(line, n)| draft(session, n, line)).collect()
}

fn draft(session: &str, n: u64, line: &str) -> Draft {
    let (envelope, line) = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("] ").unwrap(),
        None => ("", line),
    };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (kind, data) = payload(word, rest);
    let data = Raw::parse(data).unwrap();
    let mut draft =
        Draft::with_data(id(n), session_id(session), at(n as i64), Kind::from(kind), data);
    for field in envelope.split_whitespace() {
        let (name, value) = field.split_once('=').unwrap();
        set(&mut draft, name, value);
    }
    draft
}

fn payload<'a>(word: &'a str, rest: &str) -> (&'a str, String) {
    let words = |count: usize| {
        let mut words = rest.splitn(count, ' ').map(str::to_owned);
        move || words.next().unwrap_or_default()
    };
    let json = |text: String| serde_json::to_string(&text).unwrap();
    match word {
        "prompt" => ("user.prompt", format!(r#"{{"content":{}}}"#, json(rest.to_owned()))),
        "context" => {
            let mut next = words(2);
            let data = format!(r#"{{"kind":"{}","content":{}}}"#, next(), json(next()));
            ("context.added", data)
        }
        "think" | "say" => {
            let mut next = words(2);
            let message_id = next();
            let (kind, field) = match word {
                "think" => ("assistant.thinking", "thinking"),
                _ => ("assistant.message", "content"),
            };
            let text = json(next());
            let block = if word == "think" { 0 } else { 1 };
            (kind, format!(r#"{{"message_id":"{message_id}","block":{block},"{field}":{text}}}"#))
        }
        "call" => {
            let mut next = words(4);
            let data = format!(
                r#"{{"message_id":"{}","block":2,"call_id":"{}","tool":"{}","input":{}}}"#,
                next(),
                next(),
                next(),
                json(next())
            );
            ("tool.call", data)
        }
        "started" => {
            let mut next = words(3);
            let (call_id, tool, effect) = (next(), next(), next());
            let data = format!(
                r#"{{"call_id":"{call_id}","tool":"{tool}","idempotency_key":"key-{call_id}","effect":"{effect}"}}"#
            );
            ("tool.started", data)
        }
        "result" => {
            let mut next = words(3);
            let data = format!(
                r#"{{"call_id":"{}","outcome":"{}","output":{}}}"#,
                next(),
                next(),
                json(next())
            );
            ("tool.result", data)
        }
        kind => (kind, if rest.is_empty() { "{}".to_owned() } else { rest.to_owned() }),
    }
}

fn set(draft: &mut Draft, name: &str, value: &str) {
    let text = |value: &str| Raw::from_value(&value).unwrap();
    match name {
        "cost" => draft.cost = Some(value.parse::<Cost>().unwrap()),
        "turn" => draft.turn_id = Some(value.to_owned()),
        "parent" => draft.parent_id = Some(id(value.parse().unwrap())),
        "at" => draft.created_at = at(value.parse().unwrap()),
        "id" => draft.id = id(value.parse().unwrap()),
        "session" => draft.session_id = session_id(value),
        "role" => drop(draft.metadata.insert("original_role".to_owned(), text(value))),
        "amends" => {
            let amended = id(value.parse().unwrap()).to_string();
            draft.metadata.insert("amends".to_owned(), text(&amended));
        }
        "origin" => {
            let (session, n) = value.split_once('/').unwrap();
            let event_id = id(n.parse().unwrap());
            let origin = format!(r#"{{"session_id":"{session}","event_id":"{event_id}"}}"#);
            draft.metadata.insert("fork_origin".to_owned(), Raw::parse(origin).unwrap());
        }
        other => panic!("no such field: {other}"),
    }
}

pub(crate) fn metadata(json: &str) -> Metadata {
    Raw::parse(json).unwrap().read().unwrap()
}

/// The ids of a text as line numbers: `#3`.
pub(crate) fn numbered(text: &str) -> String {
    (1..=99).fold(text.to_owned(), |text, n| text.replace(&id(n).to_string(), &format!("#{n}")))
}

/// A whole log that can be asked.
pub(crate) struct Recorded<'a>(pub(crate) &'a [Event]);

impl EventLookup for Recorded<'_> {
    fn find_by_key(&self, key: &EventKey) -> Result<Vec<Event>, ReadError> {
        Ok(self.0.iter().filter(|event| event.keys().contains(key)).cloned().collect())
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        Ok(self.0.iter().find(|event| event.id == id).map(|event| event.seq))
    }
}
