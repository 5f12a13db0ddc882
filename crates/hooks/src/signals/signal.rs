//! The form of a signal file: JSON of a few fields, at most 4 KiB.
//!
//! Other programs write `{"type", "ts", "tool"}` under the name of a session; that is read, too.

use std::path::PathBuf;

use event::{HookMessage, SignalKind, Time};
use serde::{Deserialize, Serialize};

use crate::spool_dir::Rejection;

/// The most bytes of a file. A longer one is rejected.
pub(super) const SIGNAL_BYTES_MAX: u64 = 4 * 1024;

/// The provider of a signal that names none.
const PROVIDER_DEFAULT: &str = "claude";

const VERSION: u32 = 1;

/// A signal as JSON.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SignalJson {
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

/// The signal of a message as JSON; `None` for a message without one.
pub(super) fn encode_signal(message: &HookMessage) -> Option<String> {
    let signal = SignalJson {
        v: Some(VERSION),
        r#type: message.signal?.as_str().to_owned(),
        provider: Some(message.provider.clone()),
        tool: None,
        session_id: Some(message.session.clone()),
        // Seconds with milliseconds, as other programs write them.
        ts: (message.at.nanos() / 1_000_000) as f64 / 1_000.0,
        cwd: message.cwd.clone(),
        transcript_path: message.transcript.clone(),
        reason: message.reason.clone(),
        hook: Some(message.event.clone()).filter(|event| !event.is_empty()),
    };
    Some(serde_json::to_string(&signal).expect("texts and numbers always encode"))
}

/// Parses a file into a message without facts. The file name gives the name of the message, and the
/// session if the JSON has none.
pub(super) fn parse_signal(file_name: &str, text: &[u8]) -> Result<HookMessage, Rejection> {
    let signal: SignalJson =
        serde_json::from_slice(text).map_err(|_| Rejection("it is no signal in JSON"))?;
    // A signal without a version is one of another program.
    if signal.v.is_some_and(|version| version != VERSION) {
        return Err(Rejection("its version is unknown"));
    }
    let kind = SignalKind::parse(&signal.r#type).ok_or(Rejection("its type is unknown"))?;
    let session = signal.session_id.as_deref().or_else(|| session_in_name(file_name));
    let session = session.filter(|session| !session.is_empty());
    let session = session.ok_or(Rejection("it names no session"))?;
    let millis = signal.ts * 1_000.0;
    // Beyond the upper bound the time in nanoseconds does not fit 64 bits.
    if !(millis > 0.0 && millis < i64::MAX as f64 / 1e6) {
        return Err(Rejection("it has no time"));
    }
    // Other programs name the agent in `tool`.
    let provider = signal.provider.or(signal.tool);
    let provider = provider.as_deref().unwrap_or(PROVIDER_DEFAULT);
    let name = file_name.trim_end_matches(".json").to_owned();
    Ok(HookMessage {
        event: signal.hook.unwrap_or_default(),
        cwd: signal.cwd,
        transcript: signal.transcript_path,
        signal: Some(kind),
        reason: signal.reason,
        ..HookMessage::new(name, provider, session, Time::from_millis(millis.round() as i64))
    })
}

/// Whether a file has a name of ours: `<19 digits>-<8 hex digits>.json`. The name that another
/// program gave it may stand before `.json`.
pub(super) fn has_own_name(name: &str) -> bool {
    //     1800000000123456789-0a1b2c3d.json     ours
    //     1800000000123456789-0a1b2c3d.s1.json  of another program, renamed
    //     |-- 19 digits ----| |8 hex |          28 bytes with the hyphen
    let Some((prefix, rest)) = name.split_at_checked(28) else { return false };
    let Some((nanos, dice)) = prefix.split_at_checked(19) else { return false };
    nanos.bytes().all(|byte| byte.is_ascii_digit())
        && dice.starts_with('-')
        // `dice` begins with the one-byte hyphen, so the slice starts at a character.
        && dice[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
        && rest.starts_with('.')
        && rest.ends_with(".json")
}

/// The session in the name that another program gave a file.
fn session_in_name(name: &str) -> Option<&str> {
    name.get(28..)?.strip_prefix('.')?.strip_suffix(".json")
}
