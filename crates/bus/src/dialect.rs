//! Reads JSON as Python writes it, without building a tree. All functions expect bytes that the
//! scanner has accepted.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::scan::{LineVerdict, Scanner};

/// Decodes a JSON string with its quotes; `None` if the value is not a string. Half a surrogate
/// pair becomes U+FFFD.
pub(crate) fn decode_text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        // Strict decoding borrows the bytes; nearly all strings are valid UTF-8, so the lossy copy is
        // rare.
        let whole = std::str::from_utf8(inner).map(Cow::Borrowed);
        return Some(whole.unwrap_or_else(|_| String::from_utf8_lossy(inner)));
    }
    // Escapes are UTF-16 units: a character beyond U+FFFF comes as two, which only decoding them
    // together can join.
    Some(Cow::Owned(String::from_utf16_lossy(&utf16_units(raw)?)))
}

/// Returns the UTF-16 units of a JSON string; half a surrogate pair is one of them.
fn utf16_units(raw: &[u8]) -> Option<Vec<u16>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut units = Vec::with_capacity(inner.len());
    let letters = String::from_utf8_lossy(inner);
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => units.push(unescape_unit(&mut letters)?),
            letter => units.extend_from_slice(letter.encode_utf16(&mut [0; 2])),
        }
    }
    Some(units)
}

fn unescape_unit(letters: &mut std::str::Chars<'_>) -> Option<u16> {
    Some(match letters.next()? {
        'b' => 0x08,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'u' => {
            let mut digit = || letters.next()?.to_digit(16);
            let mut unit = 0;
            for _ in 0..4 {
                unit = unit << 4 | digit()?;
            }
            unit as u16
        }
        // The quote, the backslash and the slash stand for themselves.
        letter => letter as u16,
    })
}

/// A token of scanned JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonToken<'a> {
    /// A bracket, a comma or a colon.
    Mark(u8),
    Text(&'a [u8]),
    /// A number or a literal such as `true`.
    Bare(&'a [u8]),
}

/// Iterates over the tokens of scanned JSON, without whitespace.
pub(crate) struct JsonTokens<'a> {
    rest: &'a [u8],
}

impl<'a> JsonTokens<'a> {
    pub(crate) fn new(json: &'a [u8]) -> JsonTokens<'a> {
        JsonTokens { rest: json }
    }
}

impl<'a> Iterator for JsonTokens<'a> {
    type Item = JsonToken<'a>;

    fn next(&mut self) -> Option<JsonToken<'a>> {
        self.rest = self.rest.trim_ascii_start();
        let first = *self.rest.first()?;
        let is_bare = |byte: &u8| !b"[]{},:\" \t\r\n".contains(byte);
        let len = match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => text_len(self.rest),
            _ => self.rest.iter().position(|byte| !is_bare(byte)).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(match first {
            b'"' => JsonToken::Text(token),
            first if !is_bare(&first) => JsonToken::Mark(first),
            _ => JsonToken::Bare(token),
        })
    }
}

fn text_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        // The byte behind a backslash never ends the string.
        at += 2;
    }
    json.len()
}

/// Returns the raw value of a top-level field. Of doubled keys the last one counts.
pub(crate) fn find_field<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let mut depth = 0_usize;
    let mut start = None;
    let mut is_key = false;
    let mut tokens = JsonTokens::new(object);
    while let Some(token) = tokens.next() {
        let end = object.len() - tokens.rest.len();
        match token {
            JsonToken::Mark(b'{' | b'[') => {
                depth += 1;
                is_key = depth == 1;
            }
            JsonToken::Mark(mark @ (b'}' | b']')) => {
                depth -= 1;
                if depth == 0
                    && mark == b'}'
                    && let Some(start) = start.take()
                {
                    found = Some(object[start..end - 1].trim_ascii());
                }
            }
            // A value ends at the comma or the brace behind it. Each end overwrites `found`, so
            // that the last of doubled keys wins.
            JsonToken::Mark(b',') if depth == 1 => {
                if let Some(start) = start.take() {
                    found = Some(object[start..end - 1].trim_ascii());
                }
                is_key = true;
            }
            JsonToken::Text(raw) if depth == 1 && is_key => {
                is_key = false;
                if decode_text(raw).is_some_and(|key| key == name) {
                    start = Some(end);
                }
            }
            _ => {}
        }
    }
    // The noted range begins right after the key, with the colon.
    found.map(|value| value.strip_prefix(b":").unwrap_or(value).trim_ascii())
}

/// Builds a tree without recursion, because nesting may exceed what a call stack holds. Values
/// that JSON does not have become `null`, half a surrogate pair U+FFFD.
pub(crate) fn decode_value(json: &[u8]) -> Value {
    let mut open: Vec<Container> = Vec::new();
    for token in JsonTokens::new(json) {
        let done = match token {
            JsonToken::Mark(b'{') => {
                open.push(Container::Object(Map::new(), None));
                continue;
            }
            JsonToken::Mark(b'[') => {
                open.push(Container::List(Vec::new()));
                continue;
            }
            JsonToken::Mark(b'}' | b']') => match open.pop() {
                Some(container) => container.close(),
                None => return Value::Null,
            },
            // Commas and colons: the order of the tokens says the same.
            JsonToken::Mark(_) => continue,
            JsonToken::Text(raw) => {
                Value::String(decode_text(raw).unwrap_or_default().into_owned())
            }
            // `NaN`, infinities and numbers beyond a float have no JSON value.
            JsonToken::Bare(raw) => serde_json::from_slice(raw).unwrap_or(Value::Null),
        };
        match open.last_mut() {
            None => return done,
            Some(Container::List(list)) => list.push(done),
            // In an object every second value is a key.
            Some(Container::Object(_, key @ None)) => *key = done.as_str().map(str::to_owned),
            Some(Container::Object(map, key)) => {
                map.insert(key.take().unwrap_or_default(), done);
            }
        }
    }
    Value::Null
}

/// An open list or object, with the key of the value that comes next.
enum Container {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

impl Container {
    fn close(self) -> Value {
        match self {
            Container::List(list) => Value::Array(list),
            Container::Object(map, _) => Value::Object(map),
        }
    }
}

/// Returns the value on one line with unescaped characters, except half surrogate pairs. Numbers
/// keep their spelling.
pub(crate) fn readable_line(json: &[u8]) -> String {
    let mut out = String::with_capacity(json.len());
    for token in JsonTokens::new(json) {
        match token {
            JsonToken::Mark(mark) => out.push(mark as char),
            JsonToken::Text(raw) => push_readable(raw, |_| false, &mut out),
            JsonToken::Bare(raw) => out.push_str(&String::from_utf8_lossy(raw)),
        }
    }
    out
}

/// Returns the value indented by two spaces with unescaped characters, except those that `hides`
/// selects and half surrogate pairs. Numbers keep their spelling.
pub(crate) fn pretty(json: &[u8], hides: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut tokens = JsonTokens::new(json).peekable();
    while let Some(token) = tokens.next() {
        match token {
            JsonToken::Mark(open @ (b'{' | b'[')) => {
                out.push(open as char);
                if let Some(JsonToken::Mark(close @ (b'}' | b']'))) = tokens.peek() {
                    out.push(*close as char);
                    tokens.next();
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            JsonToken::Mark(close @ (b'}' | b']')) => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(close as char);
            }
            JsonToken::Mark(b',') => {
                out.push(',');
                new_line(&mut out, depth);
            }
            JsonToken::Mark(_) => out.push_str(": "),
            JsonToken::Text(raw) => push_readable(raw, hides, &mut out),
            JsonToken::Bare(raw) => out.push_str(&String::from_utf8_lossy(raw)),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn push_readable(raw: &[u8], hides: fn(char) -> bool, out: &mut String) {
    let units = utf16_units(raw).unwrap_or_default();
    out.push('"');
    for letter in char::decode_utf16(units) {
        match letter {
            Ok('"') => out.push_str("\\\""),
            Ok('\\') => out.push_str("\\\\"),
            Ok('\n') => out.push_str("\\n"),
            Ok('\t') => out.push_str("\\t"),
            // A hostile message could steer the terminal that shows it with control characters.
            Ok(letter) if hides(letter) || letter.is_control() => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            Ok(letter) => out.push(letter),
            // Half a pair is no character. Its escape is the only way to write it.
            Err(half) => out.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
        }
    }
    out.push('"');
}

/// Returns whether these bytes are exactly one JSON value in the dialect.
pub(crate) fn is_one_value(json: &[u8]) -> bool {
    let mut depth = 0_i64;
    let mut ended = false;
    for token in JsonTokens::new(json) {
        // A token behind the end, as in `1 2`.
        if ended {
            return false;
        }
        match token {
            JsonToken::Mark(b'{' | b'[') => depth += 1,
            JsonToken::Mark(b'}' | b']') => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
        ended = depth == 0;
    }
    ended && !matches!(Scanner::check(json), LineVerdict::Blank)
}
