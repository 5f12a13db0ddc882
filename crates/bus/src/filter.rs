//! Filters: which messages a subscriber wants.

use crate::dialect;
use crate::message::Message;
use crate::relay::NameSpans;
use crate::scan::{HeaderKey, LineVerdict, Scanner};

/// The names and fields that a message must have. An empty filter matches everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Wanted tracts; empty or `*` matches any.
    pub tracts: Vec<String>,
    /// Wanted events; empty or `*` matches any.
    pub events: Vec<String>,
    /// Values that fields must have, as JSON. Only the fields of [`HeaderKey`] can be filtered.
    pub fields: Vec<(HeaderKey, serde_json::Value)>,
}

impl Filter {
    pub fn is_everything(&self) -> bool {
        matches_any(&self.tracts) && matches_any(&self.events) && self.fields.is_empty()
    }

    /// Returns about how much memory the filter takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.tracts.iter().chain(&self.events);
        let values = self.fields.iter().filter_map(|(_, value)| value.as_str());
        let texts = names.map(String::as_str).chain(values).map(str::len).sum::<usize>();
        let count = self.tracts.len() + self.events.len() + self.fields.len();
        texts + count * size_of::<(HeaderKey, serde_json::Value)>()
    }

    /// Returns whether a message matches.
    pub fn matches(&self, message: &Message) -> bool {
        let layout = message.layout();
        let object = &message.line()[layout.object.range()];
        self.matches_line(object, &NameSpans::from_layout(layout))
    }

    /// Returns whether a message with these names can match, without a look at its fields.
    pub(crate) fn may_match(&self, tract: &str, event: &str) -> bool {
        let has =
            |names: &[String], name: &str| matches_any(names) || names.iter().any(|it| it == name);
        has(&self.tracts, tract) && has(&self.events, event)
    }

    /// Returns whether a line with its names at these places matches.
    pub(crate) fn matches_line(&self, line: &[u8], names: &NameSpans) -> bool {
        names_match(&self.tracts, &line[names.tract.range()])
            && names_match(&self.events, &line[names.event.range()])
            && (self.fields.is_empty() || self.has_fields(line))
    }

    fn has_fields(&self, line: &[u8]) -> bool {
        // The tape keeps the places of the two names only. The second scan for fields is paid for
        // by the subscriptions that filter by them.
        let LineVerdict::Good(layout) = Scanner::check(line.strip_suffix(b"\n").unwrap_or(line))
        else {
            return false;
        };
        self.fields.iter().all(|(key, wanted)| {
            layout.field(*key).is_some_and(|span| {
                let raw = &line[span.range()];
                match wanted {
                    serde_json::Value::String(wanted) => {
                        dialect::decode_text(raw).is_some_and(|text| text == *wanted)
                    }
                    wanted => serde_json::from_slice::<serde_json::Value>(raw)
                        .is_ok_and(|value| value == *wanted),
                }
            })
        })
    }
}

fn matches_any(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == "*")
}

fn names_match(names: &[String], raw: &[u8]) -> bool {
    matches_any(names)
        || dialect::decode_text(raw)
            .is_some_and(|text| names.iter().any(|name| name.as_str() == text))
}
