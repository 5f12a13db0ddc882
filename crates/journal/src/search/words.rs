//! What a word is, in any script, and which words of an event the index keeps.
//!
//! A word is a run of letters, digits, marks and `_`. Scripts written without blanks have no such
//! runs; there every pair of neighbours is kept, and the last character alone, so that one and
//! two characters are enough to find a text and longer pieces narrow it down.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use super::fold::is_symbol;

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
    if is_symbol(c) || (!c.is_alphanumeric() && !is_combining_mark(c)) {
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
    let bytes = folded.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while bytes.get(at).is_some_and(|byte| IN_ASCII_WORD[usize::from(*byte)]) {
            at += 1;
        }
        if bytes.get(at).is_none_or(u8::is_ascii) {
            if at > start {
                keep(cut(&folded[start..at]));
            }
            // What ends a word, or stands between two, begins none.
            at += 1;
            continue;
        }
        // A sign of another script ends a word just as well.
        if let Some((Class::Other, len)) = class_at(folded, at) {
            if at > start {
                keep(cut(&folded[start..at]));
            }
            at += len;
            continue;
        }
        let Some((run, class)) = runs(&folded[start..]).next() else { return };
        at = start + run.end;
        let run = &folded[start + run.start..at];
        if class == Class::Spaced {
            keep(cut(run));
        } else {
            pairs(run).for_each(&mut keep);
        }
    }
}

/// The bytes that a word of plain letters consists of.
const IN_ASCII_WORD: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        bytes[byte] = matches!(ASCII_CLASSES[byte], Class::Spaced);
        byte += 1;
    }
    bytes
};

/// A word at the length the index keeps.
pub(super) fn cut(word: &str) -> &str {
    if word.len() <= WORD_LEN_MAX { word } else { &word[..word.floor_char_boundary(WORD_LEN_MAX)] }
}

/// Each character with the one after it; the last one stands alone.
pub(super) fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, _)| at).skip(2).chain([run.len(), run.len()]);
    run.char_indices().map(|(at, _)| at).zip(ends).map(|(start, end)| &run[start..end])
}
