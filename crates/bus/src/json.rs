//! A JSON value as text: put into messages as it is, never taken apart.
//!
//! A tree cannot hold everything that is on the bus: half a surrogate pair, integers of thirty
//! digits. It cannot be serialised on purpose: only text can carry it, and what goes through a tree
//! of values would fail there.

use serde::Serialize;

use crate::dialect;
use crate::message::Field;
use crate::scan::{Fault, Scanner, Verdict};

/// A JSON value in the dialect of the bus, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Json(String);

impl Json {
    /// A value of our own.
    pub fn of(value: impl Serialize) -> Json {
        // A map with keys that are no texts is all that fails; there is nothing to say then.
        Json(serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()))
    }

    /// Checks a text; digits stay as they are.
    pub fn parse(text: &str) -> Result<Json, Fault> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let probe = format!("{{\"tract\":0,\"event\":0,\"value\":{text}}}");
        match Scanner::check(probe.as_bytes()) {
            // A value that ends the object early is none.
            Verdict::Good(_) if dialect::is_one_value(text.as_bytes()) => Ok(Json(text.to_owned())),
            Verdict::Bad(fault) => Err(fault),
            _ => Err(Fault::Malformed),
        }
    }

    pub fn list(values: impl IntoIterator<Item = Json>) -> Json {
        let values: Vec<String> = values.into_iter().map(|value| value.0).collect();
        Json(format!("[{}]", values.join(",")))
    }

    pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
        let fields =
            fields.into_iter().map(|(name, value)| format!("{}:{}", Json::of(name).0, value.0));
        Json(format!("{{{}}}", fields.collect::<Vec<String>>().join(",")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The one spelling that all spellings of a text share. Numbers stay as they are typed.
    pub fn spelling(&self) -> String {
        dialect::readable_line(self.0.as_bytes())
    }
}

impl From<Field<'_>> for Json {
    /// The value of a field as it was said.
    fn from(field: Field<'_>) -> Json {
        Json(String::from_utf8_lossy(field.raw()).into_owned())
    }
}
