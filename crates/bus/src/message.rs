//! Messages: reading and building them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::dialect;
use crate::json::Json;
use crate::relay::{self, LINE_MAX};
use crate::scan::{HeaderKey, LineFault, LineLayout, LineVerdict, Scanner};

/// A checked message as it is on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    line: Arc<[u8]>,
    layout: Arc<LineLayout>,
}

/// The raw value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldValue<'a>(&'a [u8]);

impl Message {
    /// Checks a line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Message, LineFault> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > LINE_MAX {
            return Err(LineFault::TooLong);
        }
        Message::relayed(line)
    }

    /// Checks a relayed line. A timestamp and escapes may have made it longer than `LINE_MAX`.
    pub(crate) fn relayed(line: &[u8]) -> Result<Message, LineFault> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match Scanner::check(line) {
            LineVerdict::Good(layout) => Ok(Message::checked(line.into(), layout)),
            LineVerdict::Bad(fault) => Err(fault),
            LineVerdict::Blank => Err(LineFault::NotObject),
        }
    }

    /// Wraps a line that the scanner has accepted.
    pub(crate) fn checked(line: Arc<[u8]>, layout: LineLayout) -> Message {
        Message { line, layout: Arc::new(layout) }
    }

    /// Returns the line as received, without its newline.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    pub(crate) fn layout(&self) -> &LineLayout {
        &self.layout
    }

    /// Returns the topic if it is a string.
    pub fn tract(&self) -> Option<Cow<'_, str>> {
        self.key(HeaderKey::Tract)?.text()
    }

    /// Returns what happened if it is a string.
    pub fn event(&self) -> Option<Cow<'_, str>> {
        self.key(HeaderKey::Event)?.text()
    }

    /// Returns whether the message has these two names.
    pub fn is_event(&self, tract: &str, event: &str) -> bool {
        self.tract().is_some_and(|is| is == tract) && self.event().is_some_and(|is| is == event)
    }

    /// Returns a top-level field. Of doubled keys the last one counts.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        match HeaderKey::from_name(name) {
            // The scanner has noted where these are. All others are searched for.
            Some(key) => self.key(key),
            None => {
                dialect::find_field(&self.line[self.layout.object.range()], name).map(FieldValue)
            }
        }
    }

    fn key(&self, key: HeaderKey) -> Option<FieldValue<'_>> {
        self.layout.field(key).map(|span| FieldValue(&self.line[span.range()]))
    }

    /// Returns the line with everything above ASCII escaped, as our server sends it.
    pub fn ascii_line(&self) -> String {
        let mut line = Vec::with_capacity(self.line.len());
        relay::escape(&self.line[self.layout.object.range()], &mut line);
        String::from_utf8(line).expect("all of it is ASCII")
    }

    /// Returns the line with unescaped characters; all else keeps its spelling.
    pub fn readable_line(&self) -> String {
        dialect::readable_line(&self.line[self.layout.object.range()])
    }

    /// Returns the message indented, with unescaped characters except those that `hides` selects.
    pub fn pretty(&self, hides: fn(char) -> bool) -> String {
        dialect::pretty(&self.line[self.layout.object.range()], hides)
    }

    /// Returns the message as a tree. Values that JSON does not have become `null` (`NaN`,
    /// infinities) or U+FFFD (half a surrogate pair).
    pub fn to_json(&self) -> serde_json::Value {
        FieldValue(&self.line[self.layout.object.range()]).json()
    }
}

impl<'a> FieldValue<'a> {
    /// Views a value that is not part of a message.
    pub fn from_json(value: &'a Json) -> FieldValue<'a> {
        FieldValue(value.as_str().as_bytes())
    }

    /// Returns the bytes of the value.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    pub fn text(self) -> Option<Cow<'a, str>> {
        dialect::decode_text(self.0)
    }

    pub fn integer(self) -> Option<i64> {
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// Returns the value as a tree. Values that JSON does not have become `null` or U+FFFD.
    pub fn json(self) -> serde_json::Value {
        dialect::decode_value(self.0)
    }
}

/// Builds a message: the names first, then fields in the order they are added.
#[derive(Clone, Debug)]
pub struct Draft {
    line: String,
}

/// Why a message cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DraftError {
    #[error("a message may have at most {LINE_MAX} bytes; this one has {len}")]
    TooLong { len: usize },
    #[error("field `{name}`: {fault}")]
    BadValue { name: String, fault: LineFault },
}

impl Draft {
    pub fn new(tract: &str, event: &str) -> Draft {
        let mut draft = Draft { line: String::from("{") };
        draft.push("tract", &quoted(tract));
        draft.push("event", &quoted(event));
        draft
    }

    /// Adds a field.
    #[must_use]
    pub fn with(self, name: &str, value: impl Serialize) -> Draft {
        self.with_json(name, &Json::from_value(value))
    }

    /// Adds a field with a value that is JSON already.
    #[must_use]
    pub fn with_json(mut self, name: &str, value: &Json) -> Draft {
        self.push(name, value.as_str());
        self
    }

    /// Adds a field with JSON text as its value, which is checked; digits keep their spelling.
    pub fn with_raw(self, name: &str, value: &str) -> Result<Draft, DraftError> {
        match Json::parse(value) {
            Ok(value) => Ok(self.with_json(name, &value)),
            Err(fault) => Err(DraftError::BadValue { name: name.to_owned(), fault }),
        }
    }

    pub fn build(mut self) -> Result<Message, DraftError> {
        self.line.push('}');
        let len = self.line.len();
        match Message::parse(self.line.as_bytes()) {
            Ok(message) => Ok(message),
            Err(LineFault::TooLong) => Err(DraftError::TooLong { len }),
            Err(fault) => Err(DraftError::BadValue { name: String::new(), fault }),
        }
    }

    fn push(&mut self, name: &str, value: &str) {
        if self.line.len() > 1 {
            self.line.push(',');
        }
        self.line.push_str(&quoted(name));
        self.line.push(':');
        self.line.push_str(value);
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text always encodes")
}
