//! The members of a JSON object that was checked before, found without decoding the values.

use std::borrow::Cow;

use super::string::decode_string;
use super::token::string_end;
use crate::Raw;

/// A member of a JSON object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonField<'a> {
    pub name: Cow<'a, str>,
    /// The value as written.
    pub json: &'a str,
}

impl<'a> JsonField<'a> {
    /// Returns the text of a JSON string, with U+FFFD for lone surrogates, or `None` for any
    /// other JSON.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        decode_string(self.json)
    }
}

impl Raw {
    /// Iterates over the members of an object in their original order, duplicate names included;
    /// empty for any other JSON. Values are skipped, not decoded, which is many times faster.
    pub fn fields(&self) -> impl Iterator<Item = JsonField<'_>> {
        let mut fields = FieldScanner { json: self.get(), at: 0 };
        fields.skip_blanks();
        if fields.peek() == Some(b'{') {
            fields.at += 1;
        } else {
            // Not an object: the iterator begins at the end and gives nothing.
            fields.at = fields.json.len();
        }
        fields
    }

    /// Returns the first member of an object with that name.
    pub fn field(&self, name: &str) -> Option<JsonField<'_>> {
        self.fields().find(|field| field.name == name)
    }
}

/// Scans one object; `at` is inside it, at depth one.
struct FieldScanner<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Iterator for FieldScanner<'a> {
    type Item = JsonField<'a>;

    fn next(&mut self) -> Option<JsonField<'a>> {
        // Commas and colons are skipped like blanks: the JSON was checked, so they can only stand
        // where they belong.
        while matches!(self.peek()?, b' ' | b'\t' | b'\n' | b'\r' | b',') {
            self.at += 1;
        }
        if self.peek() != Some(b'"') {
            return None;
        }
        let name = self.skip_value();
        while matches!(self.peek()?, b' ' | b'\t' | b'\n' | b'\r' | b':') {
            self.at += 1;
        }
        Some(JsonField { name: decode_string(name)?, json: self.skip_value() })
    }
}

impl<'a> FieldScanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Skips the value that begins here and returns its JSON.
    fn skip_value(&mut self) -> &'a str {
        let bytes = self.json.as_bytes();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                // Strings are jumped over, because a bracket inside one is no bracket.
                b'"' => self.at = string_end(bytes, self.at + 1),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                // The end of a number or literal, or the end of the object itself.
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
