//! Marks that replace secrets.
//!
//! A mark depends on the secret and its kind alone, never on what was redacted before. So the same
//! text redacts to the same bytes in every run, in whole or in part.

use std::ops::Range;

const OPEN: &[u8] = b"[redacted:";

const KIND_MAX: usize = 40;

/// The length from which a random secret gets a tag. A tag of [`TAG_BITS`] helps to guess a secret
/// only if few values are possible: 20 random characters leave more than enough, a PIN does not.
const TAGGED_MIN: usize = 20;

/// The bits of a tag: enough to tell a thousand secrets of a session apart, too few to find one.
const TAG_BITS: u32 = 24;

/// A hash (FNV-1a) and the length of a text that comes in pieces, so that an endless secret needs
/// no memory.
#[derive(Clone, Debug)]
pub(crate) struct Hash {
    state: u64,
    len: usize,
}

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash { state: 0xcbf2_9ce4_8422_2325, len: 0 }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state = (self.state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.len += bytes.len();
    }

    /// Returns the bits that stand in a mark, folded from all bits of the hash.
    fn tag(&self) -> u64 {
        let folded = self.state ^ (self.state >> TAG_BITS) ^ (self.state >> (2 * TAG_BITS));
        folded & ((1 << TAG_BITS) - 1)
    }
}

/// Returns the mark of a secret: `[redacted:github_token:9f3c1a]`. Equal tags tell a reader that
/// two marks stand for the same secret.
///
/// A secret that a person may have chosen (`is_random` is false) or that is short gets a mark
/// without a tag: a list of likely passwords would soon lead from the tag to the password.
pub(crate) fn mark(kind: &str, secret: &Hash, is_random: bool) -> String {
    match is_random && secret.len >= TAGGED_MIN {
        true => format!("[redacted:{kind}:{:06x}]", secret.tag()),
        false => format!("[redacted:{kind}]"),
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
