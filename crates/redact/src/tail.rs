//! Secrets longer than a window.
//!
//! A tail is followed byte by byte. So it needs no memory, and it can be interrupted and resumed
//! at any byte: the end of a long secret does not depend on how the text was split.

/// The largest gap between two lines of a key: a line break, an indent, a line number.
const KEY_GAP_MAX: usize = 40;

/// The shortest line of a key, unless the end of the key follows.
const KEY_LINE_MIN: usize = 16;

/// The largest distance from the last whole line of a key to its end marker.
const KEY_END_MAX: usize = 120;

const KEY_END: &[u8] = b"-----END";

/// How a secret continues after its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    Token,
    KeyBlock,
}

impl Tail {
    /// Returns the offset up to which the secret continues from `at`, or `None` at its end.
    /// Looks at most about 200 bytes ahead.
    pub(crate) fn step(self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let is_next = |is_part: fn(u8) -> bool| rest.first().is_some_and(|&byte| is_part(byte));
        match self {
            Tail::Token => is_next(is_token_byte).then_some(at + 1),
            Tail::KeyBlock if is_next(is_key_byte) => Some(at + 1),
            // The next line is tried first: `key_end` would skip over it to the end marker.
            Tail::KeyBlock => next_key_line(rest).or_else(|| key_end(rest)).map(|len| at + len),
        }
    }
}

/// Returns the number of bytes before the next line of a key.
fn next_key_line(rest: &[u8]) -> Option<usize> {
    let mut line_len = 0;
    for (at, &byte) in rest.iter().enumerate().take(KEY_GAP_MAX + KEY_LINE_MIN) {
        // A dash begins the end marker; no line of a key has one.
        if byte == b'-' {
            return None;
        }
        // A line number or an indent is shorter than a line of a key and starts the count anew.
        line_len = if is_key_byte(byte) { line_len + 1 } else { 0 };
        if line_len == KEY_LINE_MIN {
            return Some(at + 1 - line_len);
        }
    }
    None
}

/// Returns the number of bytes up to and including `-----END … -----`.
fn key_end(rest: &[u8]) -> Option<usize> {
    let near = &rest[..rest.len().min(KEY_END_MAX)];
    let end = near.windows(KEY_END.len()).position(|part| part == KEY_END)?;
    let words = end + KEY_END.len();
    let behind = &rest[words..rest.len().min(words + KEY_GAP_MAX)];
    // The marker may be cut off. Then the secret ends with what is there.
    let dashes = behind.iter().position(|&byte| byte == b'-').unwrap_or(behind.len());
    let len = behind[dashes..].iter().take(5).take_while(|&&byte| byte == b'-').count();
    Some(words + dashes + len)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(&byte)
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}
