//! The ids of events and sessions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::Time;
use crate::error::excerpt;
use crate::json::JsonString;

/// The id of an event: a ULID of 48 bits of milliseconds and an 80-bit tail.
///
/// It is written as 26 characters of Crockford's base 32 in upper case and read in either case.
/// Bytes and texts sort alike, so ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId([u8; 16]);

/// The id of a session: 1 to 255 opaque bytes. Slashes and dots are legal, so a store must not
/// use an id as a file name unescaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// The text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    #[error("`{id}` is not an event id: {why}")]
    Event { id: String, why: &'static str },
    #[error("`{id}` is not a session id: {why}")]
    Session { id: String, why: &'static str },
}

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TEXT_LEN: usize = 26;

/// The value of each byte as a digit, in either case, or [`NO_DIGIT`].
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        let letter = ALPHABET[digit];
        digits[letter as usize] = digit as u8;
        digits[letter.to_ascii_lowercase() as usize] = digit as u8;
        digit += 1;
    }
    digits
};
const NO_DIGIT: u8 = 0xFF;

impl EventId {
    /// Builds the id of an event that happened at `at`; `tail` is random or a hash of its content.
    pub fn new(at: Time, tail: [u8; 10]) -> EventId {
        let mut bytes = [0; 16];
        // The low 48 bits of the milliseconds. Big-endian, so that ids sort by time.
        bytes[..6].copy_from_slice(&at.id_millis().to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&tail);
        EventId::avoid_zero(bytes)
    }

    /// Derives the id of a captured event: the same facts give the same id on every reading.
    ///
    /// `identity` distinguishes the event from the others of its provider's session: its message
    /// id and block, else its byte offset, else its content.
    pub fn derived(
        at: Time,
        provider: &str,
        provider_session_id: &str,
        identity: &[u8],
    ) -> EventId {
        let mut hash = Sha256::new();
        // The time is no part of the hash: two sources date one fact differently.
        for part in [provider.as_bytes(), provider_session_id.as_bytes(), identity] {
            // Each part is prefixed with its length: `("ab", "c")` and `("a", "bc")` must differ.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut tail = [0; 10];
        tail.copy_from_slice(&hash.finalize()[..10]);
        EventId::new(at, tail)
    }

    /// Returns the binary form that stores keep.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The reverse of [`EventId::bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> Result<EventId, BadId> {
        // Reserved for "no id", which `avoid_zero` keeps out of new ids.
        if bytes == [0; 16] {
            return Err(BadId::Event { id: "0".repeat(TEXT_LEN), why: "all zero" });
        }
        Ok(EventId(bytes))
    }

    /// Returns the part without the time. It is equal for one fact that two sources date
    /// differently.
    pub fn tail(&self) -> [u8; 10] {
        let mut tail = [0; 10];
        tail.copy_from_slice(&self.0[6..]);
        tail
    }

    /// Returns an id of the same instant with another tail.
    pub fn with_tail(&self, tail: [u8; 10]) -> EventId {
        let mut bytes = self.0;
        bytes[6..].copy_from_slice(&tail);
        EventId::avoid_zero(bytes)
    }

    /// Replaces the all-zero id, which is reserved for "no id".
    fn avoid_zero(mut bytes: [u8; 16]) -> EventId {
        if bytes == [0; 16] {
            bytes[15] = 1;
        }
        EventId(bytes)
    }
}

impl BadId {
    /// The error for an event without an id.
    pub(crate) fn missing_event_id() -> BadId {
        BadId::Event { id: String::new(), why: "it is missing" }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = u128::from_be_bytes(self.0);
        let mut text = [0; TEXT_LEN];
        for (place, slot) in text.iter_mut().enumerate() {
            // 26 digits of 5 bits hold 130 bits: the first digit has only 3 of the 128.
            let shift = 5 * (TEXT_LEN - 1 - place);
            *slot = ALPHABET[(number >> shift) as usize & 31];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EventId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<EventId, BadId> {
        let bad = |why| BadId::Event { id: excerpt(text), why };
        if text.len() != TEXT_LEN {
            return Err(bad("it must have 26 characters"));
        }
        let mut number = 0u128;
        for (place, byte) in text.bytes().enumerate() {
            let digit = DIGITS[usize::from(byte)];
            if digit == NO_DIGIT {
                return Err(bad("only Crockford's base 32 is allowed"));
            }
            // The first digit holds 3 bits; a larger one would shift bits out unseen.
            if place == 0 && digit > 7 {
                return Err(bad("it is larger than any id"));
            }
            number = number << 5 | u128::from(digit);
        }
        if number == 0 {
            return Err(bad("all zero"));
        }
        Ok(EventId(number.to_be_bytes()))
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventId, D::Error> {
        let text = JsonString::deserialize(deserializer)?;
        text.0.parse().map_err(serde::de::Error::custom)
    }
}

impl SessionId {
    /// The maximum length of a session id in bytes.
    pub const LEN_MAX: usize = 255;

    /// Checks that the text can be an id: not blank, not too long, no control characters.
    pub fn new(text: impl AsRef<str>) -> Result<SessionId, BadId> {
        let text = text.as_ref();
        let bad = |why| Err(BadId::Session { id: excerpt(text), why });
        // Providers use paths, numbers and any script as session ids, so only three things are
        // refused.
        if text.trim().is_empty() {
            return bad("it is blank");
        }
        if text.len() > SessionId::LEN_MAX {
            return bad("it is longer than 255 bytes");
        }
        // Ids are printed in terminals and stand in lines of logs, where an escape sequence or a
        // line break could forge output.
        if text.chars().any(char::is_control) {
            return bad("it has control characters");
        }
        Ok(SessionId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for SessionId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<SessionId, BadId> {
        SessionId::new(text)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        let text = JsonString::deserialize(deserializer)?;
        SessionId::new(text.0).map_err(serde::de::Error::custom)
    }
}
