//! What a word is, in any script, and which words of an event the index keeps.
//!
//! A word is a run of letters, digits, marks and `_`. Scripts written without blanks have no such
//! runs; there every pair of neighbours is kept, and the last character alone, so that one and
//! two characters are enough to find a text and longer pieces narrow it down.

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
        let (start, of) = loop {
            let (class, len) = class_at(folded, at)?;
            at += len;
            if class != Class::Other {
                break (at - len, class);
            }
        };
        while let Some((class, len)) = class_at(folded, at)
            && class == of
        {
            at += len;
        }
        Some((start..at, of))
    })
}

/// The class of the character at a place, and its length.
#[inline]
fn class_at(folded: &str, at: usize) -> Option<(Class, usize)> {
    match *folded.as_bytes().get(at)? {
        ascii @ ..0x80 => Some((ASCII_CLASSES[usize::from(ascii)], 1)),
        _ => folded[at..].chars().next().map(|c| (class(c), c.len_utf8())),
    }
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

/// Gathers the distinct words of one text after another.
///
/// A word is known again by a hash of 64 bits. That two words of one event share one is less
/// likely than a fault of the memory, and then the rarer way to find that event is gone, nothing
/// else.
#[derive(Default)]
pub(super) struct DistinctWords {
    /// A table with open addressing, at most half full; 0 is an empty place.
    seen: Vec<u64>,
    len: usize,
}

impl DistinctWords {
    /// The distinct words of folded texts, a blank after each.
    pub(super) fn of(&mut self, folded: &[String]) -> String {
        const PLACES_MIN: usize = 64;
        let bytes: usize = folded.iter().map(String::len).sum();
        self.seen.clear();
        self.seen.resize((bytes / 16).next_power_of_two().max(PLACES_MIN), 0);
        self.len = 0;
        let mut words = String::with_capacity(bytes / 2);
        for text in folded {
            index_words(text, |word| {
                if self.insert(hash(word.as_bytes())) {
                    words.push_str(word);
                    words.push(' ');
                }
            });
        }
        words
    }

    /// Whether it was not there before.
    fn insert(&mut self, hash: u64) -> bool {
        if 2 * self.len >= self.seen.len() {
            self.grow();
        }
        let place = self.place(hash);
        let is_new = self.seen[place] == 0;
        if is_new {
            self.seen[place] = hash;
            self.len += 1;
        }
        is_new
    }

    fn grow(&mut self) {
        let room = vec![0; 4 * self.seen.len()];
        let seen = std::mem::replace(&mut self.seen, room);
        for hash in seen.into_iter().filter(|hash| *hash != 0) {
            let place = self.place(hash);
            self.seen[place] = hash;
        }
    }

    /// Where it stands, or would.
    fn place(&self, hash: u64) -> usize {
        let mask = self.seen.len() - 1;
        let mut place = hash as usize & mask;
        while self.seen[place] != 0 && self.seen[place] != hash {
            place = (place + 1) & mask;
        }
        place
    }
}

/// A hash of a word, eight bytes at a time; never 0.
fn hash(word: &[u8]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let (chunks, rest) = word.as_chunks::<8>();
    let mut hash = word.len() as u64;
    let mut mix = |bytes: u64| {
        hash = (hash ^ bytes).wrapping_mul(MIX);
        hash ^= hash >> 32;
    };
    chunks.iter().for_each(|chunk| mix(u64::from_le_bytes(*chunk)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    hash.max(1)
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
