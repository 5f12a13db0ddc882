//! Secrets longer than a window.
//!
//! A tail is followed byte by byte. So it needs no memory, and it can be interrupted and resumed
//! at any byte: the end of a long secret does not depend on how the text was split.

use crate::key::{end_marker, is_key_byte, next_line};

/// How a secret continues after its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    Token,
    KeyBlock,
}

impl Tail {
    /// Returns the offset up to which the secret continues from `at`, or `None` at its end.
    /// Looks at most about 400 bytes ahead, less than a window.
    pub(crate) fn step(self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let is_next = |is_part: fn(u8) -> bool| rest.first().is_some_and(|&byte| is_part(byte));
        match self {
            Tail::Token => is_next(is_token_byte).then_some(at + 1),
            Tail::KeyBlock if is_next(is_key_byte) => Some(at + 1),
            // The next line is tried first: `end_marker` would skip over it to the marker.
            Tail::KeyBlock => next_line(rest).or_else(|| end_marker(rest)).map(|len| at + len),
        }
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(&byte)
}
