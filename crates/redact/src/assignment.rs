//! A value beside a name that says secret.
//!
//! `NAME=value`, `name: value`, `"name": "value"` (also inside another string), `name := 'value'`,
//! `name: &str = "value"`, `--name value`, `<name>value</name>`. What follows is read by hand
//! and not by a pattern: where a value ends depends on how it begins.

use std::ops::Range;

use crate::Check;
use crate::value::{self, is_secret};
use crate::word::{before, ends_escape, ends_with_mark};

/// Blanks on either side of what stands between a name and its value.
const BLANKS_MAX: usize = 8;

/// What may stand behind the telling part of a name, `_PROD` or `ForTests`.
const REST_MAX: usize = 40;

/// The longest type between a name and its value.
const TYPE_MAX: usize = 40;

/// Ends of names whose value tells something about a secret, and is none.
const ABOUT: &str = "\
    age algorithm arn at attempts budget cache checksum class column config count counts \
    digest dir enabled endpoint env error expires expiration expiry field file filename \
    fingerprint format hash header help hint id ids in index input kind label len length \
    lifetime limit location max md5 message min mode name names output param path pattern \
    placeholder policy position prefix prompt provider ref regex required reset rotation \
    rules sha sha1 sha256 size source state status store strength suffix title ttl type uri \
    url usage used validator var variable version window";

/// What stands before `token` where it is no secret: a place in a list, a piece of text.
const NO_SECRET_BEFORE: &str = "\
    bos cancel cancellation cls continuation eos mask next pad page resume sep special start \
    stop sync unk";

/// What stands between the name and the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    /// `=`, with nothing around it.
    TightEqual,
    /// `=`, `:=`, `=>`, `==`.
    Equal,
    Colon,
    /// The end of a tag: the value ends where the next one begins.
    Tag,
    /// Blanks behind an option of a command.
    Blank,
}

/// The value that belongs to the name that `keyword` is a part of, if it is a secret. `text` ends
/// where the window does.
pub(crate) fn value(text: &[u8], keyword: &Range<usize>, check: Check) -> Option<Range<usize>> {
    let name = name(text, keyword)?;
    let (between, from) = between(text, &name)?;
    let is_variable = between == Between::TightEqual && is_upper(&text[name.clone()]);
    if let Some(quoted) = quoted(text, from) {
        return is_secret(&text[quoted.clone()], check).then_some(quoted);
    }
    if between == Between::Colon
        && let Some(quoted) = behind_type(text, from).and_then(|at| quoted(text, at))
    {
        return is_secret(&text[quoted.clone()], check).then_some(quoted);
    }
    let bare = bare(text, from, between, is_variable);
    let bytes = &text[bare.clone()];
    let is_plain = is_variable || matches!(between, Between::Tag | Between::Blank);
    let is_found = is_secret(bytes, check)
        && (is_plain || !value::is_code(bytes, &text[keyword.clone()]))
        && text.get(bare.end) != Some(&b'(');
    is_found.then_some(bare)
}

/// The whole name around the keyword, unless it names something else.
fn name(text: &[u8], keyword: &Range<usize>) -> Option<Range<usize>> {
    let rest = text[keyword.end..].iter().take_while(|&&byte| is_name_byte(byte)).count();
    if rest > REST_MAX || !is_about_itself(text, keyword.end, rest) {
        return None;
    }
    let before = before(text, keyword.start);
    let mut front = before.iter().rev().take_while(|&&byte| is_name_byte(byte)).count();
    // The first letter may belong to an escape: `\nTOKEN=`.
    if front > 0 && ends_escape(&before[..before.len() - front + 1]) {
        front -= 1;
    }
    let front = &before[before.len() - front..];
    let last_word = front.trim_ascii_end_with(|byte| matches!(byte, b'_' | b'-'));
    let is_token = text[keyword.clone()].eq_ignore_ascii_case(b"token");
    let ends_with = |word: &str| {
        let at = last_word.len().checked_sub(word.len());
        at.is_some_and(|at| last_word[at..].eq_ignore_ascii_case(word.as_bytes()))
    };
    if is_token && NO_SECRET_BEFORE.split(' ').any(ends_with) {
        return None;
    }
    let name = keyword.start - front.len()..keyword.end + rest;
    // Behind a mark it is the rest of a name.
    (!ends_with_mark(&text[..name.start])).then_some(name)
}

/// Whether the rest of a name begins a new word, and the last one is not about the secret only.
fn is_about_itself(text: &[u8], end: usize, rest_len: usize) -> bool {
    let rest = &text[end..end + rest_len];
    let Some(&first) = rest.first() else { return true };
    let is_new_word = !first.is_ascii_alphabetic()
        || (first.is_ascii_uppercase() && text[end - 1].is_ascii_lowercase());
    let begins_last = |&at: &usize| {
        !rest[at].is_ascii_alphanumeric()
            || (rest[at].is_ascii_uppercase() && (at == 0 || rest[at - 1].is_ascii_lowercase()))
    };
    let last = (0..rest.len()).rev().find(begins_last).unwrap_or(0);
    let last = &rest[last..];
    let last = if last[0].is_ascii_alphanumeric() { last } else { &last[1..] };
    is_new_word && !ABOUT.split(' ').any(|word| last.eq_ignore_ascii_case(word.as_bytes()))
}

/// What follows the name, and where the value begins.
fn between(text: &[u8], name: &Range<usize>) -> Option<(Between, usize)> {
    let before = text[..name.start].last();
    let mut at = name.end;
    if before == Some(&b'<') && text.get(at) == Some(&b'>') {
        return Some((Between::Tag, at + 1));
    }
    if let Some(quote) = quote(text, at) {
        at = quote.end;
    }
    if text.get(at) == Some(&b']') {
        at += 1;
    }
    let sign = skip_blanks(text, at);
    let is_blank_before = sign > at;
    let rest = &text[sign..];
    let (between, len) = match rest {
        [b':', b':', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => (Between::Equal, 2),
        [b'=', b'=', b'=', ..] => (Between::Equal, 3),
        [b'=', b'=', ..] => (Between::Equal, 2),
        [b'=', ..] => (Between::Equal, 1),
        [b':', ..] => (Between::Colon, 1),
        _ if is_blank_before && text[name.clone()].starts_with(b"--") => (Between::Blank, 0),
        _ => return None,
    };
    let from = skip_blanks(text, sign + len);
    let is_tight = rest.first() == Some(&b'=') && len == 1 && sign == name.end && from == sign + 1;
    Some((if is_tight { Between::TightEqual } else { between }, from))
}

/// Where a value begins that has its type before it: `password: &str = "…"`.
fn behind_type(text: &[u8], from: usize) -> Option<usize> {
    let rest = &text[from..text.len().min(from + TYPE_MAX)];
    let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"&'<>[]_ |?.:".contains(&byte);
    let len = rest.iter().take_while(|&&byte| is_type(byte)).count();
    (rest.get(len) == Some(&b'=')).then(|| skip_blanks(text, from + len + 1))
}

/// The value between quotes that begin at `at`.
fn quoted(text: &[u8], at: usize) -> Option<Range<usize>> {
    // Some languages mark a string with a letter: `b"…"`.
    let is_marked = matches!(text.get(at), Some(b'b' | b'r' | b'u' | b'f' | b'$'));
    let opening = quote(text, at).or_else(|| quote(text, at + usize::from(is_marked)))?;
    let (mark, escapes) = (text[opening.end - 1], opening.len() - 1);
    let mut backslashes = 0;
    for (at, &byte) in text.iter().enumerate().skip(opening.end) {
        match byte {
            b'\\' => backslashes += 1,
            b'\n' | b'\r' => return Some(opening.end..at),
            // A quote inside has more backslashes than the one that closes, and a backslash at
            // the end of the value doubles them all.
            _ if byte == mark
                && (backslashes < escapes || backslashes % (2 * (escapes + 1)) == escapes) =>
            {
                return Some(opening.end..at - backslashes.min(escapes));
            }
            _ => backslashes = 0,
        }
    }
    Some(opening.end..text.len())
}

/// A quote, with the backslashes it has inside of another string.
fn quote(text: &[u8], at: usize) -> Option<Range<usize>> {
    const BACKSLASHES_MAX: usize = 7;
    let rest = text.get(at..)?;
    let escapes = rest.iter().take(BACKSLASHES_MAX).take_while(|&&byte| byte == b'\\').count();
    matches!(rest.get(escapes), Some(b'"' | b'\'' | b'`')).then(|| at..at + escapes + 1)
}

/// The value without quotes that begins at `from`.
fn bare(text: &[u8], from: usize, between: Between, is_variable: bool) -> Range<usize> {
    let is_end = |byte: u8| match between {
        Between::Tag => matches!(byte, b'<' | b'\r' | b'\n'),
        _ if byte == b' ' || byte.is_ascii_control() || b"\"'`\\".contains(&byte) => true,
        // What a shell or a file of settings takes for a part of the value.
        _ if is_variable => false,
        _ => b",;)}]>&|<".contains(&byte),
    };
    let rest = &text[from..];
    let len = rest.iter().take_while(|&&byte| !is_end(byte)).count();
    let value = rest[..len].trim_ascii_end_with(|byte| b",;)]}.".contains(&byte));
    from..from + value.len()
}

fn skip_blanks(text: &[u8], from: usize) -> usize {
    let blanks = text[from.min(text.len())..].iter().take(BLANKS_MAX);
    from + blanks.take_while(|&&byte| matches!(byte, b' ' | b'\t')).count()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_upper(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase)
}

/// Bytes cut at the end.
trait TrimEnd {
    fn trim_ascii_end_with(&self, is_cut: impl Fn(u8) -> bool) -> &[u8];
}

impl TrimEnd for [u8] {
    fn trim_ascii_end_with(&self, is_cut: impl Fn(u8) -> bool) -> &[u8] {
        let kept = self.iter().rposition(|&byte| !is_cut(byte)).map_or(0, |last| last + 1);
        &self[..kept]
    }
}
