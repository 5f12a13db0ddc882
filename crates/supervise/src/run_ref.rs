//! The name of one run of one process.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Bytes of a name.
const REF_MAX: usize = 256;

/// How far ahead names are reserved. A crash skips at most so many milliseconds.
const RESERVED_MS: u64 = 10_000;

/// Names one run of one process: a text, or an integer, given back as it came.
#[derive(Clone)]
pub struct Ref {
    /// As it was written in JSON.
    raw: String,
    text: String,
    is_text: bool,
}

impl Ref {
    /// A text as a name; `None` if it is too long.
    pub fn text(text: impl Into<String>) -> Option<Ref> {
        let text = text.into();
        (text.len() <= REF_MAX).then(|| Ref::made(text))
    }

    /// Reads the name in a message: a text or an integer. `None` for anything else.
    pub(crate) fn read(field: bus::Field<'_>) -> Option<Ref> {
        let raw = std::str::from_utf8(field.raw()).ok()?.to_owned();
        if let Some(text) = field.text() {
            return (text.len() <= REF_MAX).then(|| Ref {
                raw,
                text: text.into_owned(),
                is_text: true,
            });
        }
        let digits = raw.strip_prefix('-').unwrap_or(&raw);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_integer && raw.len() <= REF_MAX).then(|| Ref { text: raw.clone(), raw, is_text: false })
    }

    /// The name as text: for file names and the environment.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn made(text: String) -> Ref {
        let raw = serde_json::to_string(&text).expect("a text always encodes");
        Ref { raw, text, is_text: true }
    }
}

impl PartialEq for Ref {
    fn eq(&self, other: &Ref) -> bool {
        self.is_text == other.is_text && self.text == other.text
    }
}

impl Eq for Ref {}

impl Hash for Ref {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

impl Serialize for Ref {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A text with half a surrogate pair goes out as it came in.
        match RawValue::from_string(self.raw.clone()) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_str(&self.text),
        }
    }
}

impl<'de> Deserialize<'de> for Ref {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ref, D::Error> {
        use serde::de::Error;
        let value = serde_json::Value::deserialize(deserializer)?;
        match value {
            serde_json::Value::String(text) => Ref::text(text),
            serde_json::Value::Number(number) => {
                let raw = number.to_string();
                Some(Ref { text: raw.clone(), raw, is_text: false })
            }
            _ => None,
        }
        .ok_or_else(|| D::Error::custom("it names no run"))
    }
}

/// Makes names up: milliseconds since 1970 as text, each above all before it, also over restarts
/// and clocks that go back.
#[derive(Debug)]
pub(crate) struct RefSource {
    last: u64,
    /// Names below it may be in use; written down before it is passed.
    bound: u64,
}

impl RefSource {
    /// Goes on above what was reserved before.
    pub(crate) fn above(reserved: u64) -> RefSource {
        RefSource { last: reserved, bound: reserved }
    }

    /// The next name; and a bound that has to be written down before the name is used.
    pub(crate) fn next(&mut self, now_ms: u64) -> (Ref, Option<u64>) {
        self.last = now_ms.max(self.last.saturating_add(1));
        let has_passed = self.last >= self.bound;
        if has_passed {
            self.bound = self.last.saturating_add(RESERVED_MS);
        }
        (Ref::made(self.last.to_string()), has_passed.then_some(self.bound))
    }

    /// The last name made up: what an orderly end writes down.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_rise_whatever_the_clock_does() {
        let mut refs = RefSource::above(0);
        let names: Vec<u64> = [1_000, 1_000, 1_000, 500, 0, 2_000]
            .map(|now| refs.next(now).0.as_str().parse().unwrap())
            .to_vec();
        assert_eq!(names, [1_000, 1_001, 1_002, 1_003, 1_004, 2_000]);
    }

    #[test]
    fn after_a_crash_no_name_is_made_up_again() {
        let mut refs = RefSource::above(0);
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
        let (next, _) = RefSource::above(on_disk).next(0);
        assert!(next.as_str().parse::<u64>().unwrap() > last.parse().unwrap());
    }
}
