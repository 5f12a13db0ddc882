//! The members of a JSON object that was checked before: found without checking it again.

use std::borrow::Cow;

use crate::Raw;
use crate::text::decode_string;
use crate::token::string_end;

/// A member of a JSON object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonField<'a> {
    pub name: Cow<'a, str>,
    /// The value as written.
    pub json: &'a str,
}

impl<'a> JsonField<'a> {
    /// The text of a JSON string with lone surrogates shown as U+FFFD, or `None` for anything
    /// else.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        decode_string(self.json)
    }
}

impl Raw {
    /// The members of an object in the order they stand, twice-named ones included; none for
    /// anything else. Values are passed over, not read, which is many times quicker.
    pub fn fields(&self) -> impl Iterator<Item = JsonField<'_>> {
        let mut fields = FieldScanner { json: self.get(), at: 0 };
        fields.pass_blanks();
        if fields.peek() == Some(b'{') {
            fields.at += 1;
        } else {
            fields.at = fields.json.len();
        }
        fields
    }

    /// The first member of an object with that name.
    pub fn field(&self, name: &str) -> Option<JsonField<'_>> {
        self.fields().find(|field| field.name == name)
    }
}

struct FieldScanner<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Iterator for FieldScanner<'a> {
    type Item = JsonField<'a>;

    fn next(&mut self) -> Option<JsonField<'a>> {
        while matches!(self.peek()?, b' ' | b'\t' | b'\n' | b'\r' | b',') {
            self.at += 1;
        }
        if self.peek() != Some(b'"') {
            return None;
        }
        let name = self.value();
        while matches!(self.peek()?, b' ' | b'\t' | b'\n' | b'\r' | b':') {
            self.at += 1;
        }
        Some(JsonField { name: decode_string(name)?, json: self.value() })
    }
}

impl<'a> FieldScanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn pass_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Passes over the value that begins here.
    fn value(&mut self) -> &'a str {
        let bytes = self.json.as_bytes();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.at = string_end(bytes, self.at + 1),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                // The end of a number, a literal, or the object itself.
                b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                break;
            }
        }
        &self.json[start..self.at]
    }
}
