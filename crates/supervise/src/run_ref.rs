//! The name of one run of one process.

use std::fmt;
use std::hash::{Hash, Hasher};

use bus::{FieldValue, Json};

/// Bytes of a name.
const REF_MAX: usize = 256;

/// How far ahead names are reserved. A crash skips at most so many milliseconds.
const RESERVED_MS: u64 = 10_000;

/// Names one run of one process: a text, or an integer, given back as it came.
///
/// It cannot be serialised, as a tree of values does not hold every one of them: messages take its
/// [`Ref::json`], files its `stored` form.
#[derive(Clone)]
pub struct Ref {
    /// As it was given.
    json: Json,
    /// Equal for equal ones, however they were spelled.
    spelling: String,
    text: String,
}

impl Ref {
    /// A text as a name; `None` if it is too long.
    pub fn text(text: impl Into<String>) -> Option<Ref> {
        let text = text.into();
        (text.len() <= REF_MAX).then(|| Ref::made(text))
    }

    /// Reads the name in a message: a text or an integer. `None` for anything else.
    pub(crate) fn read(field: FieldValue<'_>) -> Option<Ref> {
        let json = Json::from(field);
        let text = match field.text() {
            Some(text) => text.into_owned(),
            None if is_integer(json.as_str()) => json.as_str().to_owned(),
            None => return None,
        };
        (text.len() <= REF_MAX).then(|| Ref { spelling: json.spelling(), json, text })
    }

    /// The name as text: for file names and the environment.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name as it was given: for messages.
    pub fn json(&self) -> &Json {
        &self.json
    }

    fn made(text: String) -> Ref {
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

/// Names in our own files: as they are where a tree of values holds them, else as text in JSON.
pub(crate) mod stored {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{FieldValue, Json, Ref};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Text(String),
        Integer(i64),
        Odd { json: String },
    }

    pub(crate) fn serialize<S: Serializer>(refs: &[Ref], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(refs.iter().map(store))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ref>, D::Error> {
        let all = Vec::<Stored>::deserialize(from)?;
        let refs: Option<Vec<Ref>> = all.into_iter().map(restore).collect();
        refs.ok_or_else(|| serde::de::Error::custom("it names no run"))
    }

    fn store(reference: &Ref) -> Stored {
        let json = reference.json.as_str();
        match serde_json::from_str(json) {
            Ok(stored @ Stored::Text(_)) => stored,
            Ok(Stored::Integer(number)) if number.to_string() == json => Stored::Integer(number),
            _ => Stored::Odd { json: json.to_owned() },
        }
    }

    fn restore(stored: Stored) -> Option<Ref> {
        match stored {
            Stored::Text(text) => Ref::text(text),
            Stored::Integer(number) => Ref::read(FieldValue::from_json(&Json::from_value(number))),
            Stored::Odd { json } => Ref::read(FieldValue::from_json(&Json::parse(&json).ok()?)),
        }
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
