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
        let rest = &bytes[at..];
        let Block { mut in_words, plain_len } = Block::of(rest);
        let block_len = rest.len().min(Block::LEN);
        // Where the words end that can be told from this block alone.
        let mut next = at + plain_len;
        let mut is_open = plain_len < block_len;
        while in_words != 0 {
            let start = in_words.trailing_zeros() as usize;
            let end = start + (!(in_words >> start)).trailing_zeros() as usize;
            if end >= plain_len && at + end < bytes.len() {
                // It may go on behind what was looked at.
                next = at + start;
                is_open = plain_len < block_len || start == 0;
                break;
            }
            keep(cut(&folded[at + start..at + end]));
            in_words &= (!0u64).checked_shl(end as u32).unwrap_or(0);
        }
        at = if is_open { open_word(folded, next, &mut keep) } else { next };
    }
}

/// What stands in the next bytes of a text: a bit for each that plain words consist of.
struct Block {
    in_words: u64,
    /// Bytes before the first that is no ASCII, at most those of a block.
    plain_len: usize,
}

impl Block {
    const LEN: usize = u64::BITS as usize;

    #[inline]
    fn of(bytes: &[u8]) -> Block {
        match bytes.first_chunk() {
            Some(block) => Block::of_whole(block),
            None => {
                let mut block = [0; Block::LEN];
                block[..bytes.len()].copy_from_slice(bytes);
                let Block { in_words, plain_len } = Block::of_whole(&block);
                Block { in_words, plain_len: plain_len.min(bytes.len()) }
            }
        }
    }

    /// Without a branch, so that the compiler does many bytes at once.
    #[inline]
    fn of_whole(block: &[u8; Block::LEN]) -> Block {
        let in_words = bits(block, is_in_plain_word);
        let foreign = if block.is_ascii() { 0 } else { bits(block, |byte| byte >= 0x80) };
        let plain_len = foreign.trailing_zeros() as usize;
        let in_words = in_words & 1u64.checked_shl(plain_len as u32).map_or(!0, |bit| bit - 1);
        Block { in_words, plain_len }
    }
}

/// Whether words of plain letters consist of that byte; without a branch.
#[inline]
fn is_in_plain_word(byte: u8) -> bool {
    (byte.wrapping_sub(b'a') < 26)
        | (byte.wrapping_sub(b'A') < 26)
        | (byte.wrapping_sub(b'0') < 10)
        | (byte == b'_')
}

/// A bit for each byte: whether it is one of those.
#[inline]
fn bits(block: &[u8; Block::LEN], is_it: impl Fn(u8) -> bool) -> u64 {
    /// Multiplied by it, the lowest bits of eight bytes come to stand beside each other, on top.
    const BESIDE: u64 = 0x0102_0408_1020_4080;
    let mut ones = [0u8; Block::LEN];
    for (one, byte) in ones.iter_mut().zip(block) {
        *one = u8::from(is_it(*byte));
    }
    let (eights, _) = ones.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |bits, eight| bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(BESIDE) >> 56)
}

/// Keeps the one word, or the run of another script, that begins at `start` or stands behind a
/// sign there; where to go on.
fn open_word<'a>(folded: &'a str, start: usize, keep: &mut impl FnMut(&'a str)) -> usize {
    let bytes = folded.as_bytes();
    let mut at = start;
    while bytes.get(at).is_some_and(|byte| is_in_plain_word(*byte)) {
        at += 1;
    }
    let end = match class_at(folded, at) {
        // A sign of another script ends a word just as well.
        Some((Class::Other, len)) => Some(at + len),
        None => Some(at),
        Some(_) => None,
    };
    if let Some(end) = end {
        if at > start {
            keep(cut(&folded[start..at]));
        }
        return end;
    }
    let Some((run, class)) = runs(&folded[start..]).next() else { return bytes.len() };
    at = start + run.end;
    let run = &folded[start + run.start..at];
    if class == Class::Spaced {
        keep(cut(run));
    } else {
        pairs(run).for_each(keep);
    }
    at
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
