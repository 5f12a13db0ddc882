//! The ref: names one run of one process.

use std::fmt;
use std::hash::{Hash, Hasher};

use bus::{FieldValue, Json};

/// Bytes of a ref.
const REF_MAX: usize = 256;

/// How far ahead refs are reserved on disk. A crash skips at most this many milliseconds.
const RESERVED_MS: u64 = 10_000;

/// Names one run of one process: a text or an integer, echoed as it was given.
///
/// It has no `Serialize`, because a tree of values cannot hold every ref. Messages use
/// [`Ref::json`], files the `stored` module.
#[derive(Clone)]
pub struct Ref {
    /// The ref as given.
    json: Json,
    /// A normal form: equal for equal refs, however they were spelled.
    spelling: String,
    text: String,
}

impl Ref {
    /// Makes a ref from a text; `None` if it is too long.
    pub fn text(text: impl Into<String>) -> Option<Ref> {
        let text = text.into();
        (text.len() <= REF_MAX).then(|| Ref::from_text(text))
    }

    /// Reads the ref of a message; `None` unless it is a text or an integer.
    pub(crate) fn read(field: FieldValue<'_>) -> Option<Ref> {
        let json = Json::from(field);
        let text = match field.text() {
            Some(text) => text.into_owned(),
            None if is_integer(json.as_str()) => json.as_str().to_owned(),
            None => return None,
        };
        (text.len() <= REF_MAX).then(|| Ref { spelling: json.spelling(), json, text })
    }

    /// Returns the ref as text, for file names and the environment.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the ref as given, for messages.
    pub fn json(&self) -> &Json {
        &self.json
    }

    fn from_text(text: String) -> Ref {
        let json = Json::from_value(&text);
        Ref { spelling: json.spelling(), json, text }
    }
}

fn is_integer(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl PartialEq for Ref {
    fn eq(&self, other: &Ref) -> bool {
        self.spelling == other.spelling
    }
}

impl Eq for Ref {}

impl Hash for Ref {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spelling.hash(state);
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json.as_str())
    }
}

/// Refs in our own files: plain where a tree of values can hold them, else as JSON text.
pub(crate) mod stored {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{FieldValue, Json, Ref};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum StoredRef {
        Text(String),
        Integer(i64),
        Odd { json: String },
    }

    pub(crate) fn serialize<S: Serializer>(refs: &[Ref], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(refs.iter().map(store))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ref>, D::Error> {
        let all = Vec::<StoredRef>::deserialize(from)?;
        let refs: Option<Vec<Ref>> = all.into_iter().map(restore).collect();
        refs.ok_or_else(|| serde::de::Error::custom("it names no run"))
    }

    fn store(reference: &Ref) -> StoredRef {
        let json = reference.json.as_str();
        match serde_json::from_str(json) {
            Ok(stored @ StoredRef::Text(_)) => stored,
            // `-0` would come back as `0`, and a client compares the answer with what it sent.
            Ok(StoredRef::Integer(number)) if number.to_string() == json => {
                StoredRef::Integer(number)
            }
            _ => StoredRef::Odd { json: json.to_owned() },
        }
    }

    fn restore(stored: StoredRef) -> Option<Ref> {
        match stored {
            StoredRef::Text(text) => Ref::text(text),
            StoredRef::Integer(number) => {
                Ref::read(FieldValue::from_json(&Json::from_value(number)))
            }
            StoredRef::Odd { json } => Ref::read(FieldValue::from_json(&Json::parse(&json).ok()?)),
        }
    }
}

/// Generates refs: milliseconds since 1970 as text. Each is above all earlier ones, also after a
/// restart or when the clock goes back.
#[derive(Debug)]
pub(crate) struct RefGenerator {
    last: u64,
    /// Refs below this bound may be in use. A new bound is saved before refs pass it.
    bound: u64,
}

impl RefGenerator {
    /// Continues above the range that was reserved before.
    pub(crate) fn above(reserved: u64) -> RefGenerator {
        RefGenerator { last: reserved, bound: reserved }
    }

    /// Returns the next ref, and a bound that must be saved before the ref is used.
    pub(crate) fn next(&mut self, now_ms: u64) -> (Ref, Option<u64>) {
        // Above the last one even if the clock stands still or goes back.
        self.last = now_ms.max(self.last.saturating_add(1));
        let has_passed = self.last >= self.bound;
        if has_passed {
            self.bound = self.last.saturating_add(RESERVED_MS);
        }
        (Ref::from_text(self.last.to_string()), has_passed.then_some(self.bound))
    }

    /// Returns the last generated ref, which an orderly stop saves.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_refs_rise_under_any_clock() {
        let mut refs = RefGenerator::above(0);
        let names: Vec<u64> = [1_000, 1_000, 1_000, 500, 0, 2_000]
            .map(|now| refs.next(now).0.as_str().parse().unwrap())
            .to_vec();
        assert_eq!(names, [1_000, 1_001, 1_002, 1_003, 1_004, 2_000]);
    }

    #[test]
    fn generated_refs_are_unique_after_crash() {
        let mut refs = RefGenerator::above(0);
        let mut on_disk = 0;
        let mut writes = 0;
        let mut last = String::new();
        for now in 1_000..60_000 {
            let (name, bound) = refs.next(now);
            if let Some(bound) = bound {
                on_disk = bound;
                writes += 1;
            }
            last = name.as_str().to_owned();
        }
        assert!(writes < 10, "not every name is written down: {writes}");
        // The clock has gone back meanwhile.
        let (next, _) = RefGenerator::above(on_disk).next(0);
        assert!(next.as_str().parse::<u64>().unwrap() > last.parse().unwrap());
    }
}
