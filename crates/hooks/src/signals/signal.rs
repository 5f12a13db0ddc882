//! One signal, as it is written: JSON of a few fields, at most 4 KiB.
//!
//! Others leave `{"type", "ts", "tool"}` under the name of a session; that is read, too.

use std::path::PathBuf;

use capture::{SessionSignal, SignalKind};
use event::Time;
use serde::{Deserialize, Serialize};

use crate::spool_dir::Rejection;

/// The longest signal. A longer one is none.
pub(super) const BYTES_MAX: u64 = 4 * 1024;

/// What a signal without a provider is from.
const PROVIDER_UNTOLD: &str = "claude";

const VERSION: u32 = 1;

/// Says that something happened to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    pub kind: SignalKind,
    pub provider: String,
    /// The provider's id of the session. It is never part of a path.
    pub session: String,
    pub at: Time,
    pub cwd: Option<String>,
    pub transcript: Option<PathBuf>,
    pub reason: Option<String>,
    /// The hook that left it.
    pub hook: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Shape {
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing)]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Seconds since 1970.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transcript_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<String>,
}

impl Signal {
    pub(super) fn encode(&self) -> String {
        let shape = Shape {
            v: Some(VERSION),
            r#type: word(self.kind).to_owned(),
            provider: Some(self.provider.clone()),
            tool: None,
            session_id: Some(self.session.clone()),
            ts: (self.at.nanos() / 1_000_000) as f64 / 1_000.0,
            cwd: self.cwd.clone(),
            transcript_path: self.transcript.clone(),
            reason: self.reason.clone(),
            hook: self.hook.clone(),
        };
        serde_json::to_string(&shape).expect("texts and numbers always encode")
    }

    /// Reads a signal. What it does not say itself, the name of its file may.
    pub(super) fn parse(name: &str, text: &[u8]) -> Result<Signal, Rejection> {
        let shape: Shape =
            serde_json::from_slice(text).map_err(|_| Rejection("it is no signal in JSON"))?;
        if shape.v.is_some_and(|version| version != VERSION) {
            return Err(Rejection("it is of a version nobody knows"));
        }
        let kind = kind(&shape.r#type).ok_or(Rejection("it is of a type nobody knows"))?;
        let session = shape.session_id.as_deref().or_else(|| session_in(name));
        let session = session.filter(|session| !session.is_empty());
        let session = session.ok_or(Rejection("it names no session"))?.to_owned();
        let millis = shape.ts * 1_000.0;
        if !(millis > 0.0 && millis < i64::MAX as f64 / 1e6) {
            return Err(Rejection("it has no time"));
        }
        let provider = shape.provider.or(shape.tool);
        Ok(Signal {
            kind,
            provider: provider.unwrap_or_else(|| PROVIDER_UNTOLD.to_owned()),
            session,
            at: Time::from_millis(millis.round() as i64),
            cwd: shape.cwd,
            transcript: shape.transcript_path,
            reason: shape.reason,
            hook: shape.hook,
        })
    }

    pub fn sign<'a>(&'a self, name: &'a str) -> SessionSignal<'a> {
        SessionSignal {
            name: name.trim_end_matches(".json"),
            kind: self.kind,
            provider: &self.provider,
            session: &self.session,
            transcript: self.transcript.as_deref(),
            at: self.at,
            reason: self.reason.as_deref(),
            is_followed: false,
        }
    }

    pub(super) fn is_of_session(&self, other: &Signal) -> bool {
        self.session == other.session && self.provider == other.provider
    }
}

const KINDS: &[(&str, SignalKind)] = &[
    ("turn_end", SignalKind::TurnEnd),
    ("compact", SignalKind::Compact),
    ("clear", SignalKind::Clear),
    ("stop", SignalKind::Stop),
];

/// What a kind of signal is called.
pub fn word(kind: SignalKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| word)
}

/// The kind of signal that is called this.
pub fn kind(word: &str) -> Option<SignalKind> {
    KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
}

/// Whether a file has a name of ours: `<19 digits>-<8 hex digits>.json`, with what it was called
/// before in the middle if it is somebody else's.
pub(super) fn is_name(name: &str) -> bool {
    let Some((stamp, rest)) = name.split_at_checked(28) else { return false };
    let (nanos, dice) = stamp.split_at(19);
    nanos.bytes().all(|byte| byte.is_ascii_digit())
        && dice.starts_with('-')
        && dice[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
        && rest.starts_with('.')
        && rest.ends_with(".json")
}

/// The session that somebody else's file was named after.
fn session_in(name: &str) -> Option<&str> {
    name.get(28..)?.strip_prefix('.')?.strip_suffix(".json")
}
