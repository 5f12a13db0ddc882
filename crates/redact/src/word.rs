//! Word boundaries.
//!
//! A word begins not only after a blank: text inside JSON has its line breaks as `\n`, and text
//! from a terminal has colour codes.

use crate::mark::last_mark;
use crate::rules::LEAD_MAX;

/// The bytes before a slash or a plus sign that tell base64 from a path.
const BASE64_MIN: usize = 16;

/// Whether a word can begin at `at`. None begins directly after a mark: the text there is the
/// rest of a redacted one.
pub(crate) fn begins_word(text: &[u8], at: usize) -> bool {
    let before = before(text, at);
    match before.last() {
        None => true,
        Some(b']') => !ends_with_mark(before),
        Some(b'/' | b'+') => !ends_with_base64(before),
        Some(&byte) => !is_word_byte(byte) || ends_escape(before),
    }
}

/// Whether the text ends in the middle of base64, where any prefix of a token stands by chance. A
/// path has no such mix of digits and both cases.
fn ends_with_base64(text: &[u8]) -> bool {
    let Some(end) = text.len().checked_sub(BASE64_MIN) else { return false };
    let run = &text[end..];
    run.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+'))
        && run.iter().any(u8::is_ascii_digit)
        && run.iter().any(u8::is_ascii_uppercase)
        && run.iter().any(u8::is_ascii_lowercase)
}

/// Whether the text ends with a mark. Only its last [`LEAD_MAX`] bytes are examined.
pub(crate) fn ends_with_mark(text: &[u8]) -> bool {
    let before = before(text, text.len());
    before.last() == Some(&b']') && last_mark(before).is_some()
}

/// Whether `at` lies inside a mark.
pub(crate) fn is_in_mark(text: &[u8], at: usize) -> bool {
    let before = before(text, at);
    before.last() != Some(&b']') && last_mark(before).is_some()
}

/// Whether the text ends with an escape that looks like a letter of a word at its end: `\n` as
/// JSON writes it, `ESC [ 3 2 m` as a terminal receives it.
pub(crate) fn ends_escape(text: &[u8]) -> bool {
    if let [.., b'\\', b'n' | b'r' | b't'] = text {
        return true;
    }
    let Some((b'A'..=b'Z' | b'a'..=b'z', rest)) = text.split_last() else { return false };
    let numbers = rest.iter().rev().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
    let rest = &rest[..rest.len() - numbers];
    rest.strip_suffix(b"[").is_some_and(|rest| {
        let escapes: [&[u8]; 5] = [b"\x1b", b"\\u001b", b"\\u001B", b"\\x1b", b"\\033"];
        escapes.iter().any(|escape| rest.ends_with(escape))
    })
}

pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the bytes that a rule sees before `at`. The limit makes them the same in every piece
/// of a stream.
pub(crate) fn before(text: &[u8], at: usize) -> &[u8] {
    &text[at.saturating_sub(LEAD_MAX)..at]
}
