//! Marks that replace secrets: equal marks for equal secrets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// The number of secrets that get their own mark. Further ones share the plain mark of their kind
/// and are not remembered: a reader cannot tell ten thousand secrets apart, and the memory must
/// be bounded.
const SECRETS_MAX: usize = 10_000;

const OPEN: &[u8] = b"[redacted:";

const KIND_MAX: usize = 40;

/// The marks given so far, by the hash of the secret. The secrets themselves are not kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    by_secret: HashMap<u64, Box<str>>,
    count_by_kind: HashMap<Box<str>, usize>,
}

/// A hash (FNV-1a) of a text that comes in pieces, so that an endless secret needs no memory.
#[derive(Clone, Debug)]
pub(crate) struct Hash(u64);

impl Marks {
    /// Returns the mark of the secret: its earlier one, else the next one of its kind.
    pub(crate) fn mark_for(&mut self, secret: &Hash, kind: &str) -> Cow<'_, str> {
        // Asked before `entry`, which borrows the map.
        let is_full = self.by_secret.len() >= SECRETS_MAX;
        match self.by_secret.entry(secret.0) {
            Entry::Occupied(known) => Cow::Borrowed(known.into_mut()),
            Entry::Vacant(_) if is_full => Cow::Owned(format!("[redacted:{kind}]")),
            Entry::Vacant(fresh) => {
                let count = self.count_by_kind.entry(kind.into()).or_default();
                *count += 1;
                let mark = match *count {
                    1 => format!("[redacted:{kind}]"),
                    number => format!("[redacted:{kind}:{number}]"),
                };
                Cow::Borrowed(fresh.insert(mark.into()))
            }
        }
    }
}

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Whether a text can be the kind in a mark.
pub(crate) fn is_valid_kind(kind: &str) -> bool {
    (1..=KIND_MAX).contains(&kind.len())
        && kind.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Whether a mark begins in the range or directly after it. Such a place was redacted before.
pub(crate) fn touches_mark(text: &[u8], range: &Range<usize>) -> bool {
    // A mark that begins at the very end of the range reaches `OPEN.len()` bytes beyond it.
    let reach = &text[range.start..(range.end + OPEN.len()).min(text.len())];
    reach.windows(OPEN.len()).any(|part| part == OPEN)
}

/// Returns the beginning of a mark at the end of `text`, whether it is closed or not.
pub(crate) fn last_mark(text: &[u8]) -> Option<usize> {
    let inside = text.strip_suffix(b"]").unwrap_or(text);
    let is_inside = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':');
    let len = inside.iter().rev().take_while(|byte| is_inside(byte)).count();
    let start = (inside.len() - len).checked_sub(1)?;
    text[start..].starts_with(OPEN).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_secrets_are_bounded() {
        let mut marks = Marks::default();
        for number in 0..SECRETS_MAX as u64 + 2 {
            marks.mark_for(&Hash(number), "token");
        }
        assert_eq!(marks.by_secret.len(), SECRETS_MAX);
        assert_eq!(marks.mark_for(&Hash(1), "token"), "[redacted:token:2]");
    }
}
