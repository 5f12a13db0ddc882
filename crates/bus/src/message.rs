//! A message, to be read and to be made.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::dialect;
use crate::json::Json;
use crate::relay::{self, LINE_MAX};
use crate::scan::{Fault, Key, Scanner, Shape, Verdict};

/// A message as it is on the wire, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    line: Arc<[u8]>,
    shape: Arc<Shape>,
}

/// The value of a field, as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a>(&'a [u8]);

impl Message {
    /// Checks a line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Message, Fault> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > LINE_MAX {
            return Err(Fault::TooLong);
        }
        Message::relayed(line)
    }

    /// Checks a line as it goes out: a time and escapes may have made it longer than it was sent.
    pub(crate) fn relayed(line: &[u8]) -> Result<Message, Fault> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match Scanner::check(line) {
            Verdict::Good(shape) => Ok(Message::checked(line.into(), shape)),
            Verdict::Bad(fault) => Err(fault),
            Verdict::Blank => Err(Fault::NotObject),
        }
    }

    /// A line that has passed the check.
    pub(crate) fn checked(line: Arc<[u8]>, shape: Shape) -> Message {
        Message { line, shape: Arc::new(shape) }
    }

    /// The line as it came, without its newline.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The topic, if it is a text.
    pub fn tract(&self) -> Option<Cow<'_, str>> {
        self.key(Key::Tract)?.text()
    }

    /// What happened, if it is a text.
    pub fn event(&self) -> Option<Cow<'_, str>> {
        self.key(Key::Event)?.text()
    }

    /// When it was sent, in milliseconds, if it says so.
    pub fn ts(&self) -> Option<i64> {
        self.key(Key::Ts)?.integer()
    }

    /// Whether it has these names.
    pub fn is(&self, tract: &str, event: &str) -> bool {
        self.tract().is_some_and(|is| is == tract) && self.event().is_some_and(|is| is == event)
    }

    /// The value of a field at the top: the last one, if it is there several times.
    pub fn field(&self, name: &str) -> Option<Field<'_>> {
        match Key::of(name) {
            Some(key) => self.key(key),
            None => dialect::field(&self.line[self.shape.object.range()], name).map(Field),
        }
    }

    fn key(&self, key: Key) -> Option<Field<'_>> {
        self.shape.field(key).map(|span| Field(&self.line[span.range()]))
    }

    /// The line with everything above ASCII escaped, as our server sends it.
    pub fn ascii_line(&self) -> String {
        let mut line = Vec::with_capacity(self.line.len());
        relay::escape(&self.line[self.shape.object.range()], &mut line);
        String::from_utf8(line).expect("all of it is ASCII")
    }

    /// The line with its letters readable; everything else as it was said.
    pub fn readable_line(&self) -> String {
        dialect::readable_line(&self.line[self.shape.object.range()])
    }

    /// The message indented, for people: letters readable, what `hides` names escaped.
    pub fn pretty(&self, hides: fn(char) -> bool) -> String {
        dialect::pretty(&self.line[self.shape.object.range()], hides)
    }

    /// All of it. What JSON does not know becomes `null` (`NaN`, infinities) or U+FFFD (half a
    /// surrogate pair).
    pub fn to_json(&self) -> serde_json::Value {
        Field(&self.line[self.shape.object.range()]).json()
    }
}

impl<'a> Field<'a> {
    /// A value that is in no message.
    pub fn of(value: &'a Json) -> Field<'a> {
        Field(value.as_str().as_bytes())
    }

    /// The bytes of the value.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    pub fn text(self) -> Option<Cow<'a, str>> {
        dialect::text(self.0)
    }

    pub fn integer(self) -> Option<i64> {
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// The value. What JSON does not know becomes `null` or U+FFFD.
    pub fn json(self) -> serde_json::Value {
        dialect::value(self.0)
    }
}

/// A message in the making: names first, then fields in the order they are given.
#[derive(Clone, Debug)]
pub struct Draft {
    line: String,
}

/// Why a message cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DraftError {
    #[error("a message has at most {LINE_MAX} bytes, this one {len}")]
    TooLong { len: usize },
    #[error("field `{name}`: {fault}")]
    BadValue { name: String, fault: Fault },
}

impl Draft {
    pub fn new(tract: &str, event: &str) -> Draft {
        let mut draft = Draft { line: String::from("{") };
        draft.push("tract", &quoted(tract));
        draft.push("event", &quoted(event));
        draft
    }

    /// The same with a field.
    #[must_use]
    pub fn with(self, name: &str, value: impl Serialize) -> Draft {
        self.with_json(name, &Json::of(value))
    }

    /// The same with a field whose value is JSON already.
    #[must_use]
    pub fn with_json(mut self, name: &str, value: &Json) -> Draft {
        self.push(name, value.as_str());
        self
    }

    /// The same with a field whose value somebody wrote in JSON; digits stay as they are.
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
            Err(Fault::TooLong) => Err(DraftError::TooLong { len }),
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
