//! Which messages somebody asked for.

use crate::dialect;
use crate::message::Message;
use crate::relay::Names;
use crate::scan::{Key, Scanner, Verdict};

/// Names and fields that a message must have. Nothing asked for is everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Tracts; none or `*` is any.
    pub tracts: Vec<String>,
    /// Events; none or `*` is any.
    pub events: Vec<String>,
    /// Values that fields must have, as JSON. The bus looks at those that [`Key`] names.
    pub fields: Vec<(Key, serde_json::Value)>,
}

impl Filter {
    pub fn is_everything(&self) -> bool {
        any(&self.tracts) && any(&self.events) && self.fields.is_empty()
    }

    /// The memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.tracts.iter().chain(&self.events);
        let values = self.fields.iter().filter_map(|(_, value)| value.as_str());
        let texts = names.map(String::as_str).chain(values).map(str::len).sum::<usize>();
        let count = self.tracts.len() + self.events.len() + self.fields.len();
        texts + count * size_of::<(Key, serde_json::Value)>()
    }

    /// Whether a message passes.
    pub fn takes(&self, message: &Message) -> bool {
        let shape = message.shape();
        let object = &message.line()[shape.object.range()];
        self.passes(object, &Names::of(shape))
    }

    /// Whether a message of these names may pass, whatever its fields.
    pub(crate) fn may_take(&self, tract: &str, event: &str) -> bool {
        let has = |names: &[String], name: &str| any(names) || names.iter().any(|it| it == name);
        has(&self.tracts, tract) && has(&self.events, event)
    }

    /// Whether a line passes, its names being where they are said to be.
    pub(crate) fn passes(&self, line: &[u8], names: &Names) -> bool {
        one_of(&self.tracts, &line[names.tract.range()])
            && one_of(&self.events, &line[names.event.range()])
            && (self.fields.is_empty() || self.has_fields(line))
    }

    fn has_fields(&self, line: &[u8]) -> bool {
        let Verdict::Good(shape) = Scanner::check(line.strip_suffix(b"\n").unwrap_or(line)) else {
            return false;
        };
        self.fields.iter().all(|(key, wanted)| {
            shape.field(*key).is_some_and(|span| {
                let raw = &line[span.range()];
                match wanted {
                    serde_json::Value::String(wanted) => {
                        dialect::text(raw).is_some_and(|text| text == *wanted)
                    }
                    wanted => serde_json::from_slice::<serde_json::Value>(raw)
                        .is_ok_and(|value| value == *wanted),
                }
            })
        })
    }
}

fn any(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == "*")
}

fn one_of(names: &[String], raw: &[u8]) -> bool {
    any(names)
        || dialect::text(raw).is_some_and(|text| names.iter().any(|name| name.as_str() == text))
}
