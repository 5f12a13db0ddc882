//! The beginning of a secret that somebody has cut off.
//!
//! What is shown in lists is cut at some length and ends in `…`. A secret that stood there is no
//! longer one by its looks, and all but its last characters would stay. So what stands before the
//! sign goes, unless it reads like words.

use std::ops::Range;

use crate::word::before;

/// What it is called in a mark.
pub(crate) const KIND: &str = "cut";

/// How whoever cuts a text says so.
pub(crate) const SIGN: &[u8] = "…".as_bytes();

/// Fewer characters than this say nothing about a secret.
const PART_MIN: usize = 5;

/// Longer than any word people write.
const WORD_MAX: usize = 24;

/// What may be the beginning of a secret before the sign at `at`.
pub(crate) fn begun_before(text: &[u8], at: usize) -> Option<Range<usize>> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(byte);
    let len = before(text, at).iter().rev().take_while(|byte| is_part(byte)).count();
    let begun = at - len..at;
    let mut parts = text[begun.clone()].split(|byte| !byte.is_ascii_alphanumeric());
    parts.any(|part| !is_word(part)).then_some(begun)
}

/// Whether people write it so, in prose, or as a part of a name or a path.
fn is_word(part: &[u8]) -> bool {
    let is_small = |part: &[u8]| part.iter().all(u8::is_ascii_lowercase);
    part.len() < PART_MIN
        || part.len() <= WORD_MAX
            && part.split_first().is_some_and(|(_, rest)| is_small(rest))
            && part[0].is_ascii_alphabetic()
}
