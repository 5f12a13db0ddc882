//! JSON as Python writes it, read without a tree. Everything here takes bytes that have passed
//! the check.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::scan::{Scanner, Verdict};

/// Text of a JSON string, quotes and all; `None` if it is no string. Half a surrogate pair reads
/// as U+FFFD.
pub(crate) fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        // Almost all of it is text, which is quicker to see than to mend.
        let whole = std::str::from_utf8(inner).map(Cow::Borrowed);
        return Some(whole.unwrap_or_else(|_| String::from_utf8_lossy(inner)));
    }
    Some(Cow::Owned(String::from_utf16_lossy(&units(raw)?)))
}

/// The units of a JSON string; half a surrogate pair is one of them.
fn units(raw: &[u8]) -> Option<Vec<u16>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut units = Vec::with_capacity(inner.len());
    let letters = String::from_utf8_lossy(inner);
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => units.push(unescaped(&mut letters)?),
            letter => units.extend_from_slice(letter.encode_utf16(&mut [0; 2])),
        }
    }
    Some(units)
}

fn unescaped(letters: &mut std::str::Chars<'_>) -> Option<u16> {
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
        letter => letter as u16,
    })
}

/// A token of checked JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token<'a> {
    /// A bracket, a comma or a colon.
    Mark(u8),
    Text(&'a [u8]),
    /// A number or a word.
    Bare(&'a [u8]),
}

/// The tokens of checked JSON, blanks left out.
pub(crate) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(json: &'a [u8]) -> Tokens<'a> {
        Tokens { rest: json }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
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
            b'"' => Token::Text(token),
            first if !is_bare(&first) => Token::Mark(first),
            _ => Token::Bare(token),
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
        at += 2;
    }
    json.len()
}

/// The raw value of a field at the top of an object: the last one of that name.
pub(crate) fn field<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let mut depth = 0_usize;
    let mut start = None;
    let mut is_key = false;
    let mut tokens = Tokens::of(object);
    while let Some(token) = tokens.next() {
        let end = object.len() - tokens.rest.len();
        match token {
            Token::Mark(b'{' | b'[') => {
                depth += 1;
                is_key = depth == 1;
            }
            Token::Mark(mark @ (b'}' | b']')) => {
                depth -= 1;
                if depth == 0
                    && mark == b'}'
                    && let Some(start) = start.take()
                {
                    found = Some(object[start..end - 1].trim_ascii());
                }
            }
            Token::Mark(b',') if depth == 1 => {
                if let Some(start) = start.take() {
                    found = Some(object[start..end - 1].trim_ascii());
                }
                is_key = true;
            }
            Token::Text(raw) if depth == 1 && is_key => {
                is_key = false;
                if text(raw).is_some_and(|key| key == name) {
                    start = Some(end);
                }
            }
            _ => {}
        }
    }
    // What was noted begins with the colon.
    found.map(|value| value.strip_prefix(b":").unwrap_or(value).trim_ascii())
}

/// The value as a tree, without recursion: it may be nested deeper than a stack goes. What JSON
/// does not know becomes `null`, half a surrogate pair U+FFFD.
pub(crate) fn value(json: &[u8]) -> Value {
    let mut open: Vec<Container> = Vec::new();
    for token in Tokens::of(json) {
        let done = match token {
            Token::Mark(b'{') => {
                open.push(Container::Object(Map::new(), None));
                continue;
            }
            Token::Mark(b'[') => {
                open.push(Container::List(Vec::new()));
                continue;
            }
            Token::Mark(b'}' | b']') => match open.pop() {
                Some(container) => container.close(),
                None => return Value::Null,
            },
            Token::Mark(_) => continue,
            Token::Text(raw) => Value::String(text(raw).unwrap_or_default().into_owned()),
            // `NaN`, infinities, a number that no float holds.
            Token::Bare(raw) => serde_json::from_slice(raw).unwrap_or(Value::Null),
        };
        match open.last_mut() {
            None => return done,
            Some(Container::List(list)) => list.push(done),
            Some(Container::Object(_, key @ None)) => *key = done.as_str().map(str::to_owned),
            Some(Container::Object(map, key)) => {
                map.insert(key.take().unwrap_or_default(), done);
            }
        }
    }
    Value::Null
}

/// A list or an object that has begun, with the key whose value comes next.
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

/// The same value on one line. Numbers stay as they are typed; letters are readable, but for half
/// surrogate pairs.
pub(crate) fn readable_line(json: &[u8]) -> String {
    let mut out = String::with_capacity(json.len());
    for token in Tokens::of(json) {
        match token {
            Token::Mark(mark) => out.push(mark as char),
            Token::Text(raw) => readable(raw, |_| false, &mut out),
            Token::Bare(raw) => out.push_str(&String::from_utf8_lossy(raw)),
        }
    }
    out
}

/// The value indented by two. Numbers stay as they are typed; letters are readable, but for those
/// that `hides` names and half surrogate pairs.
pub(crate) fn pretty(json: &[u8], hides: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut tokens = Tokens::of(json).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark(open @ (b'{' | b'[')) => {
                out.push(open as char);
                if let Some(Token::Mark(close @ (b'}' | b']'))) = tokens.peek() {
                    out.push(*close as char);
                    tokens.next();
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            Token::Mark(close @ (b'}' | b']')) => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(close as char);
            }
            Token::Mark(b',') => {
                out.push(',');
                new_line(&mut out, depth);
            }
            Token::Mark(_) => out.push_str(": "),
            Token::Text(raw) => readable(raw, hides, &mut out),
            Token::Bare(raw) => out.push_str(&String::from_utf8_lossy(raw)),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn readable(raw: &[u8], hides: fn(char) -> bool, out: &mut String) {
    let units = units(raw).unwrap_or_default();
    out.push('"');
    for letter in char::decode_utf16(units) {
        match letter {
            Ok('"') => out.push_str("\\\""),
            Ok('\\') => out.push_str("\\\\"),
            Ok('\n') => out.push_str("\\n"),
            Ok('\t') => out.push_str("\\t"),
            Ok(letter) if hides(letter) || letter.is_control() => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            Ok(letter) => out.push(letter),
            Err(half) => out.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
        }
    }
    out.push('"');
}

/// Whether these bytes are one JSON value in the dialect and nothing else.
pub(crate) fn is_one_value(json: &[u8]) -> bool {
    let mut depth = 0_i64;
    let mut ended = false;
    for token in Tokens::of(json) {
        if ended {
            return false;
        }
        match token {
            Token::Mark(b'{' | b'[') => depth += 1,
            Token::Mark(b'}' | b']') => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
        ended = depth == 0;
    }
    ended && !matches!(Scanner::check(json), Verdict::Blank)
}
