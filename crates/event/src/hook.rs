//! One call of an agent's hook, as a message.
//!
//! `capture` makes the message from what the agent writes to the hook. The same message travels to
//! the daemon (`wire`), waits on disk (`hooks`, `ingest`) and is ingested (`capture` again). The
//! JSON field names are a stored format: a file of an older version stays readable.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, ProcessIdentity, Raw, Source, Time};

/// The version of the JSON form. A message of another version is left alone.
const VERSION: u32 = 1;

/// One call of a hook: which session it is about, and what happened there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookMessage {
    #[serde(rename = "v")]
    pub version: u32,
    /// The unique name of the call. Ids of events derive from it, so a message that is ingested
    /// twice adds nothing.
    pub name: String,
    pub provider: String,
    /// The agent's own name of the hook event.
    pub event: String,
    /// The provider's id of the session. It is never part of a path.
    pub session: String,
    pub at: Time,
    /// `hook`, or `telemetry` for a fact that the agent exported.
    #[serde(default = "hook_source", skip_serializing_if = "is_hook_source")]
    pub source: Source,
    /// The file the agent writes the session to. `capture` believes it only within the agent's
    /// folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The process of the agent that called the hook.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "ProcessIdentity::read_known"
    )]
    pub process: Option<ProcessIdentity>,
    #[serde(
        rename = "sign",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "known_signal"
    )]
    pub signal: Option<SignalKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<HookFact>,
}

/// A fact of a call: the kind and the payload of an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookFact {
    pub kind: Kind,
    pub data: Raw,
}

/// What a call announces about its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalKind {
    /// One turn is over.
    TurnEnd,
    /// The history is about to be compacted.
    Compact,
    /// The history was cleared.
    Clear,
    /// The session has ended.
    Stop,
}

impl HookMessage {
    /// The most bytes of an encoded message. A longer line is not a message.
    pub const BYTES_MAX: usize = 16 * 1024 * 1024;

    /// A message of a hook that announces nothing and has no facts yet.
    pub fn new(name: String, provider: &str, session: &str, at: Time) -> HookMessage {
        HookMessage {
            version: VERSION,
            name,
            provider: provider.to_owned(),
            event: String::new(),
            session: session.to_owned(),
            at,
            source: Source::Hook,
            transcript: None,
            cwd: None,
            process: None,
            signal: None,
            reason: None,
            facts: Vec::new(),
        }
    }

    /// A name that sorts by time. `dice` tells calls of the same instant apart.
    pub fn name_for(at: Time, dice: [u8; 4]) -> String {
        // 19 digits hold every time up to the year 2286, so the texts sort as the numbers do. A
        // clock before 1970 counts as 0: a minus sign would sort wrongly.
        format!("{:019}-{:08x}", at.nanos().max(0), u32::from_be_bytes(dice))
    }

    /// The message as one line with a line end.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("names, texts and numbers always encode");
        line.push(b'\n');
        line
    }

    /// Parses a line; `None` if it is not a message, or one of another version.
    pub fn parse(line: &[u8]) -> Option<HookMessage> {
        // The line may be torn by a crash of the hook, or come from another program.
        let message: HookMessage = serde_json::from_slice(line).ok()?;
        (message.version == VERSION).then_some(message)
    }

    pub fn is_of_session(&self, other: &HookMessage) -> bool {
        self.session == other.session && self.provider == other.provider
    }

    /// Whether the call ends the history of its session. What an earlier call announced is decided
    /// before that.
    pub fn ends_history(&self) -> bool {
        matches!(self.signal, Some(SignalKind::Clear | SignalKind::Stop))
    }
}

impl SignalKind {
    const ALL: [SignalKind; 4] =
        [SignalKind::TurnEnd, SignalKind::Compact, SignalKind::Clear, SignalKind::Stop];

    /// The word for it in a message and in a signal file.
    pub fn as_str(self) -> &'static str {
        match self {
            SignalKind::TurnEnd => "turn_end",
            SignalKind::Compact => "compact",
            SignalKind::Clear => "clear",
            SignalKind::Stop => "stop",
        }
    }

    /// The kind with this word.
    pub fn parse(word: &str) -> Option<SignalKind> {
        SignalKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Serialize for SignalKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn hook_source() -> Source {
    Source::Hook
}

fn is_hook_source(source: &Source) -> bool {
    *source == Source::Hook
}

/// An unknown word counts as no signal: the facts beside it are still worth recording.
fn known_signal<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SignalKind>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    Ok(word.as_deref().and_then(SignalKind::parse))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = concat!(
        r#"{"v":1,"name":"1800000000000000000-00000001","provider":"claude","event":"PreCompact","#,
        r#""session":"s1","at":"2027-01-15T08:00:00Z","transcript":"/t.jsonl","cwd":"/app","#,
        r#""sign":"compact","reason":"auto","facts":[{"kind":"compaction.started","data":{}}]}"#,
        "\n"
    );

    #[test]
    fn stored_form_stays_the_same() {
        let message = HookMessage::parse(STORED.as_bytes()).unwrap();
        assert_eq!(message.signal, Some(SignalKind::Compact));
        assert_eq!(message.facts.len(), 1);
        assert_eq!(String::from_utf8(message.encode()).unwrap(), STORED);
    }

    #[test]
    fn unknown_signal_keeps_the_facts() {
        let message = HookMessage::parse(STORED.replace("\"compact\"", "\"nap\"").as_bytes());
        let message = message.unwrap();
        assert_eq!((message.signal, message.facts.len()), (None, 1));
    }

    #[test]
    fn process_of_a_newer_form_is_left_out() {
        let known =
            r#""process":{"pid":7,"start":{"ticks":5},"started_at":"2027-01-15T08:00:00Z"},"#;
        let with = |process: &str| {
            let line = STORED.replace(r#""sign""#, &format!(r#"{process}"sign""#));
            let message = HookMessage::parse(line.as_bytes()).unwrap();
            (message.process.map(|process| process.pid), message.encode() == line.as_bytes())
        };
        assert_eq!(with(known), (Some(7), true));
        assert_eq!(with(&known.replace("ticks", "epochs")), (None, false));
    }

    #[test]
    fn other_versions_are_left_alone() {
        assert_eq!(HookMessage::parse(STORED.replace("\"v\":1", "\"v\":2").as_bytes()), None);
    }
}
