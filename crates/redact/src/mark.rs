//! The same secret, the same mark.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Secrets told apart. The ones beyond share the plain mark of their kind and are not remembered:
/// whoever reads of ten thousand secrets does not tell them apart either.
const SECRETS_MAX: usize = 10_000;

const OPEN: &[u8] = b"[redacted:";

const KIND_MAX: usize = 40;

/// The marks that were given, by a hash of the secret: the secrets themselves are not kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    of_secret: HashMap<u64, Box<str>>,
    of_kind: HashMap<Box<str>, usize>,
}

/// A hash of text that comes in pieces (FNV-1a).
#[derive(Clone, Debug)]
pub(crate) struct Hash(u64);

impl Marks {
    /// The mark of the secret: the one it had before, else the next one of its kind.
    pub(crate) fn of(&mut self, secret: &Hash, kind: &str) -> Cow<'_, str> {
        let is_full = self.of_secret.len() >= SECRETS_MAX;
        match self.of_secret.entry(secret.0) {
            Entry::Occupied(known) => Cow::Borrowed(known.into_mut()),
            Entry::Vacant(_) if is_full => Cow::Owned(format!("[redacted:{kind}]")),
            Entry::Vacant(fresh) => {
                let count = self.of_kind.entry(kind.into()).or_default();
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

pub(crate) fn is_kind(kind: &str) -> bool {
    (1..=KIND_MAX).contains(&kind.len())
        && kind.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Whether the range or the byte behind it has to do with a mark. Such a place was redacted
/// already.
pub(crate) fn touches_mark(text: &[u8], range: &Range<usize>) -> bool {
    let reach = &text[range.start..(range.end + OPEN.len()).min(text.len())];
    reach.windows(OPEN.len()).any(|part| part == OPEN)
}

/// Where the mark begins that `text` ends in or with, closed or not.
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
    fn no_more_secrets_are_remembered_than_are_told_apart() {
        let mut marks = Marks::default();
        for number in 0..SECRETS_MAX as u64 + 2 {
            marks.of(&Hash(number), "token");
        }
        assert_eq!(marks.of_secret.len(), SECRETS_MAX);
        assert_eq!(marks.of(&Hash(1), "token"), "[redacted:token:2]");
    }
}
