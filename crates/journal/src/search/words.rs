//! What a word is, in any script, and which words of an event the index keeps.
//!
//! A word is a run of letters, digits, marks and `_`. Scripts written without blanks have no such
//! runs; there every pair of neighbours is kept, and the last character alone, so that one and
//! two characters are enough to find a text and longer pieces narrow it down.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// Bytes of a word the index keeps. Longer ones are found by their beginning and then compared
/// in full with the text.
pub(super) const WORD_LEN_MAX: usize = 64;

/// A word of this length may be the beginning of a longer one that was cut.
pub(super) const WORD_LEN_SURE: usize = WORD_LEN_MAX - 4;

/// How a character takes part in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Part of a word that blanks or punctuation end.
    Spaced,
    /// Part of a script written without blanks.
    Unspaced,
    /// Between words.
    Other,
}

pub(super) fn class(c: char) -> Class {
    if c.is_ascii() {
        return ASCII_CLASSES[c as usize];
    }
    if !c.is_alphanumeric() && !is_combining_mark(c) {
        return Class::Other;
    }
    match c {
        // Thai, Lao, Myanmar, Hangul in parts, Khmer.
        '\u{0E00}'..='\u{0EFF}'
        | '\u{1000}'..='\u{109F}'
        | '\u{1100}'..='\u{11FF}'
        | '\u{1780}'..='\u{17FF}'
        // Radicals, kana, bopomofo, ideographs, Yi.
        | '\u{2E80}'..='\u{9FFF}'
        | '\u{A000}'..='\u{A4CF}'
        // Hangul.
        | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}'
        // Rarer ideographs.
        | '\u{F900}'..='\u{FAFF}'
        | '\u{1B000}'..='\u{1B16F}'
        | '\u{20000}'..='\u{3FFFF}' => Class::Unspaced,
        _ => Class::Spaced,
    }
}

/// The stretches of one class in a folded text, what lies between words left out.
pub(super) fn runs(folded: &str) -> impl Iterator<Item = (Range<usize>, Class)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut run: Option<(usize, Class)> = None;
        while let Some(byte) = folded.as_bytes().get(at) {
            let (class, len) = match byte {
                ..0x80 => (ASCII_CLASSES[usize::from(*byte)], 1),
                _ => folded[at..]
                    .chars()
                    .next()
                    .map_or((Class::Other, 1), |c| (class(c), c.len_utf8())),
            };
            match run {
                None if class != Class::Other => run = Some((at, class)),
                Some((start, of)) if class != of => return Some((start..at, of)),
                _ => {}
            }
            at += len;
        }
        run.map(|(start, of)| (start..at, of))
    })
}

/// The classes of ASCII, which most text is.
const ASCII_CLASSES: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_' {
            classes[byte] = Class::Spaced;
        }
        byte += 1;
    }
    classes
};

/// Calls `keep` with every word of a folded text as the index keeps it.
pub(super) fn index_words<'a>(folded: &'a str, mut keep: impl FnMut(&'a str)) {
    for (range, class) in runs(folded) {
        let run = &folded[range];
        if class == Class::Spaced {
            keep(cut(run));
        } else {
            pairs(run).for_each(&mut keep);
        }
    }
}

/// The distinct words of folded texts, a blank after each.
pub(super) fn distinct_words(folded: &[String]) -> String {
    let len: usize = folded.iter().map(String::len).sum();
    let mut seen: HashSet<&str, BuildHasherDefault<WordHasher>> =
        HashSet::with_capacity_and_hasher(len / 32, BuildHasherDefault::default());
    let mut words = String::with_capacity(len / 2);
    for text in folded {
        index_words(text, |word| {
            if seen.insert(word) {
                words.push_str(word);
                words.push(' ');
            }
        });
    }
    words
}

/// Hashes words eight bytes at a time. Who writes words that all hash alike makes the indexing of
/// his own text slow, and of nobody else's.
#[derive(Default)]
struct WordHasher(u64);

impl WordHasher {
    fn mix(&mut self, bytes: u64) {
        self.0 = (self.0.rotate_left(5) ^ bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.mix(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        // The table looks at the upper bits and at the lower ones.
        self.0 ^ self.0 >> 32
    }
}

/// A word at the length the index keeps.
pub(super) fn cut(word: &str) -> &str {
    if word.len() <= WORD_LEN_MAX { word } else { &word[..word.floor_char_boundary(WORD_LEN_MAX)] }
}

/// Each character with the one after it; the last one stands alone.
pub(super) fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, _)| at).skip(2).chain([run.len(), run.len()]);
    run.char_indices().map(|(at, _)| at).zip(ends).map(|(start, end)| &run[start..end])
}
