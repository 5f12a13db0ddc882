//! A JSON value kept as text: it is put into messages unchanged and never parsed into a tree.
//!
//! A tree cannot hold everything that the bus carries, such as half a surrogate pair or integers
//! of thirty digits. `Json` deliberately does not implement `Serialize`: serializers that go
//! through a tree would fail on such values.

use serde::Serialize;

use crate::dialect;
use crate::message::FieldValue;
use crate::scan::{LineFault, LineVerdict, Scanner};

/// A checked JSON value in the dialect of the bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Json(String);

impl Json {
    /// Serializes a Rust value.
    pub fn from_value(value: impl Serialize) -> Json {
        // Only a map with keys that are not strings fails; it has no JSON form.
        Json(serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()))
    }

    /// Checks a text and keeps its spelling, digits included.
    pub fn parse(text: &str) -> Result<Json, LineFault> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let probe = format!("{{\"tract\":0,\"event\":0,\"value\":{text}}}");
        match Scanner::check(probe.as_bytes()) {
            // Text such as `1},{` closes the probe's object early and is not one value.
            LineVerdict::Good(_) if dialect::is_one_value(text.as_bytes()) => {
                Ok(Json(text.to_owned()))
            }
            LineVerdict::Bad(fault) => Err(fault),
            _ => Err(LineFault::Malformed),
        }
    }

    pub fn list(values: impl IntoIterator<Item = Json>) -> Json {
        let values: Vec<String> = values.into_iter().map(|value| value.0).collect();
        Json(format!("[{}]", values.join(",")))
    }

    pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
        let fields = fields
            .into_iter()
            .map(|(name, value)| format!("{}:{}", Json::from_value(name).0, value.0));
        Json(format!("{{{}}}", fields.collect::<Vec<String>>().join(",")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a normal form: equal strings have one spelling. Numbers keep theirs.
    pub fn spelling(&self) -> String {
        dialect::readable_line(self.0.as_bytes())
    }
}

impl From<FieldValue<'_>> for Json {
    /// Takes the value with the spelling of the message.
    fn from(field: FieldValue<'_>) -> Json {
        Json(String::from_utf8_lossy(field.raw()).into_owned())
    }
}
