//! The beginning of a secret that somebody has cut off.
//!
//! What is shown in lists is cut at some length and ends in `…`. A secret that stood there is no
//! longer one by its looks, and all but its last characters would stay. So what stands before the
//! sign goes, unless it reads like words; and of what is long, all that does not.

use std::ops::Range;

use crate::rules::LEAD_MAX;

/// What it is called in a mark.
pub(crate) const KIND: &str = "cut";

/// How whoever cuts a text says so.
pub(crate) const SIGN: &[u8] = "…".as_bytes();

/// Fewer characters than this say nothing about a secret.
const PART_MIN: usize = 5;

/// Longer than any word people write.
const WORD_MAX: usize = 24;

/// Longer than what is shown of anything before it is cut. Of a longer secret the beginning stays.
const RUN_MAX: usize = 4 * 1024;

/// What may be the beginning of a secret before the sign at `at`.
pub(crate) fn begun_before(text: &[u8], at: usize) -> Option<Range<usize>> {
    let run = &text[run_start(text, at)..at];
    let near = &run[run.len().saturating_sub(LEAD_MAX)..];
    let has_secret = parts(near).any(|part| !is_word(part));
    has_secret.then(|| at - near.len().max(stretch(run))..at)
}

/// Where the characters begin that go up to `at` and may be those of one secret.
pub(crate) fn run_start(text: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(byte);
    let before = &text[at.saturating_sub(RUN_MAX)..at];
    at - before.iter().rev().take_while(|byte| is_part(byte)).count()
}

/// The length of the end of a run that has no word in it.
fn stretch(run: &[u8]) -> usize {
    let is_chance = |part: &&[u8]| part.len() < PART_MIN || !is_word(part);
    let lens = parts(run).take_while(is_chance).map(|part| part.len() + 1);
    lens.sum::<usize>().saturating_sub(1)
}

/// What people would call words, the last one first.
fn parts(run: &[u8]) -> impl Iterator<Item = &[u8]> {
    run.rsplit(|byte| !byte.is_ascii_alphanumeric())
}

/// Whether people write it so, in prose, or as a part of a name or a path.
fn is_word(part: &[u8]) -> bool {
    let is_small = |part: &[u8]| part.iter().all(u8::is_ascii_lowercase);
    part.len() < PART_MIN
        || part.len() <= WORD_MAX
            && part.split_first().is_some_and(|(_, rest)| is_small(rest))
            && part[0].is_ascii_alphabetic()
}
