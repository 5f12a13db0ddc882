//! The beginning of a secret that was cut off with `…`.
//!
//! Lists cut a text at some length and end it with `…`. A cut secret no longer matches its rule,
//! and all but its last characters would stay visible. So the characters before the sign are
//! redacted unless they read like words; of a long run, the part without words is redacted.

use std::ops::Range;

use crate::rules::LEAD_MAX;

/// The kind in the mark.
pub(crate) const KIND: &str = "cut";

/// The sign at the end of a cut text.
pub(crate) const SIGN: &[u8] = "…".as_bytes();

/// The shortest part that reveals anything of a secret.
const PART_MIN: usize = 5;

/// The longest part that counts as a word.
const WORD_MAX: usize = 24;

/// The longest run that is examined: longer than any list shows. The beginning of a longer secret
/// stays visible.
const RUN_MAX: usize = 4 * 1024;

/// Returns the possible beginning of a secret before the sign at `at`.
pub(crate) fn secret_before(text: &[u8], at: usize) -> Option<Range<usize>> {
    let run = &text[run_start(text, at)..at];
    let near = &run[run.len().saturating_sub(LEAD_MAX)..];
    let has_secret = parts(near).any(|part| !is_word(part));
    // At least the near part goes as a whole: a word in it may be a part of the secret.
    has_secret.then(|| at - near.len().max(wordless_len(run))..at)
}

/// Returns where the run of token characters that ends at `at` begins.
pub(crate) fn run_start(text: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(byte);
    let before = &text[at.saturating_sub(RUN_MAX)..at];
    at - before.iter().rev().take_while(|byte| is_part(byte)).count()
}

/// Returns the length of the last part of a run that has no word in it.
fn wordless_len(run: &[u8]) -> usize {
    let is_chance = |part: &&[u8]| part.len() < PART_MIN || !is_word(part);
    let lens = parts(run).take_while(is_chance).map(|part| part.len() + 1);
    lens.sum::<usize>().saturating_sub(1)
}

/// Splits a run at its punctuation, the last part first.
fn parts(run: &[u8]) -> impl Iterator<Item = &[u8]> {
    run.rsplit(|byte| !byte.is_ascii_alphanumeric())
}

/// Whether the part reads like a word of prose or a part of a name or path.
fn is_word(part: &[u8]) -> bool {
    let is_small = |part: &[u8]| part.iter().all(u8::is_ascii_lowercase);
    part.len() < PART_MIN
        || part.len() <= WORD_MAX
            && part.split_first().is_some_and(|(_, rest)| is_small(rest))
            && part[0].is_ascii_alphabetic()
}
