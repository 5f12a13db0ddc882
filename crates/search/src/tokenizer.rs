//! Which terms a folded text has, in any script.
//!
//! A term is a run of letters, digits, marks and `_`. Scripts written without blanks have no such
//! runs; there every pair of neighbours is a term, and the last character alone, so that one and
//! two characters are enough to find a text and longer pieces narrow it down.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use crate::fold::is_symbol;

/// Bytes of a word the index keeps. Longer words are found by their beginning and then compared
/// in full with the text.
pub(crate) const TERM_BYTES_MAX: usize = 64;

/// Up to this length an indexed term is certainly a whole word: a longer one may be the beginning
/// of a word that was cut at a character boundary before [`TERM_BYTES_MAX`].
pub(crate) const TERM_BYTES_EXACT: usize = TERM_BYTES_MAX - 4;

/// How a character takes part in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CharClass {
    /// Part of a word that blanks or punctuation end.
    Spaced,
    /// Part of a script written without blanks.
    Unspaced,
    /// Between words.
    Separator,
}

pub(crate) fn char_class(c: char) -> CharClass {
    if c.is_ascii() {
        return ASCII_CLASSES[c as usize];
    }
    if is_symbol(c) || (!c.is_alphanumeric() && !is_combining_mark(c)) {
        return CharClass::Separator;
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
        | '\u{20000}'..='\u{3FFFF}' => CharClass::Unspaced,
        _ => CharClass::Spaced,
    }
}

/// The runs of one class in a folded text, separators left out.
pub(crate) fn char_runs(folded: &str) -> impl Iterator<Item = (Range<usize>, CharClass)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, run_class) = loop {
            let (class, len) = class_at(folded, at)?;
            at += len;
            if class != CharClass::Separator {
                break (at - len, class);
            }
        };
        while let Some((class, len)) = class_at(folded, at)
            && class == run_class
        {
            at += len;
        }
        Some((start..at, run_class))
    })
}

/// The class of the character at a byte index, and its length.
#[inline]
fn class_at(folded: &str, at: usize) -> Option<(CharClass, usize)> {
    match *folded.as_bytes().get(at)? {
        ascii @ ..0x80 => Some((ASCII_CLASSES[usize::from(ascii)], 1)),
        _ => folded[at..].chars().next().map(|c| (char_class(c), c.len_utf8())),
    }
}

/// The classes of ASCII, which most text is.
const ASCII_CLASSES: [CharClass; 128] = {
    let mut classes = [CharClass::Separator; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_' {
            classes[byte] = CharClass::Spaced;
        }
        byte += 1;
    }
    classes
};

/// Calls `emit` with every term of a folded text as the index keeps it.
///
/// Looks at 64 bytes at once: [`AsciiBlock`] says with one bit per byte where ASCII words are. A
/// word that such a block does not show whole, because it goes on behind the block or holds a
/// character beyond ASCII, is read character by character ([`emit_open_word`]). The result is the
/// same as that of [`char_runs`], but faster on source code and logs, which are mostly ASCII.
pub(crate) fn tokenize<'a>(folded: &'a str, mut emit: impl FnMut(&'a str)) {
    let bytes = folded.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let AsciiBlock { mut word_bits, ascii_len } = AsciiBlock::read(rest);
        let block_len = rest.len().min(AsciiBlock::LEN);
        // Up to here the block alone tells where words end.
        let mut next = at + ascii_len;
        let mut is_open = ascii_len < block_len;
        while word_bits != 0 {
            let start = word_bits.trailing_zeros() as usize;
            let end = start + (!(word_bits >> start)).trailing_zeros() as usize;
            if end >= ascii_len && at + end < bytes.len() {
                // The word touches the end of what the block shows. If it began within the block,
                // the next block begins with it and may show it whole. If it fills the block, or
                // stands before a character beyond ASCII, no block does.
                next = at + start;
                is_open = ascii_len < block_len || start == 0;
                break;
            }
            emit(truncate_term(&folded[at + start..at + end]));
            // Clears the bits up to the end of this word; `<<` by 64 would overflow.
            word_bits &= (!0u64).checked_shl(end as u32).unwrap_or(0);
        }
        at = if is_open { emit_open_word(folded, next, &mut emit) } else { next };
    }
}

/// What stands in the next 64 bytes of a text.
struct AsciiBlock {
    /// A bit for each byte that ASCII words consist of; the first byte has the lowest bit.
    word_bits: u64,
    /// Bytes before the first that is not ASCII, at most those of a block.
    ascii_len: usize,
}

impl AsciiBlock {
    const LEN: usize = u64::BITS as usize;

    #[inline]
    fn read(bytes: &[u8]) -> AsciiBlock {
        match bytes.first_chunk() {
            Some(block) => AsciiBlock::read_whole(block),
            None => {
                // The zeros behind the end of the text are no letters.
                let mut block = [0; AsciiBlock::LEN];
                block[..bytes.len()].copy_from_slice(bytes);
                let AsciiBlock { word_bits, ascii_len } = AsciiBlock::read_whole(&block);
                AsciiBlock { word_bits, ascii_len: ascii_len.min(bytes.len()) }
            }
        }
    }

    /// Without a branch per byte, so that the compiler uses vector instructions.
    #[inline]
    fn read_whole(block: &[u8; AsciiBlock::LEN]) -> AsciiBlock {
        let word_bits = bit_per_byte(block, is_ascii_word_byte);
        // `trailing_zeros` of 0 is 64, the length of a block that is all ASCII.
        let foreign = if block.is_ascii() { 0 } else { bit_per_byte(block, |byte| byte >= 0x80) };
        let ascii_len = foreign.trailing_zeros() as usize;
        let shown = 1u64.checked_shl(ascii_len as u32).map_or(!0, |bit| bit - 1);
        AsciiBlock { word_bits: word_bits & shown, ascii_len }
    }
}

/// Whether ASCII words consist of that byte. `|` and not `||`: no branch.
#[inline]
fn is_ascii_word_byte(byte: u8) -> bool {
    (byte.wrapping_sub(b'a') < 26)
        | (byte.wrapping_sub(b'A') < 26)
        | (byte.wrapping_sub(b'0') < 10)
        | (byte == b'_')
}

/// A bit for each byte: whether the predicate holds.
#[inline]
fn bit_per_byte(block: &[u8; AsciiBlock::LEN], holds: impl Fn(u8) -> bool) -> u64 {
    /// Multiplied by it, the lowest bits of eight bytes come to stand beside each other in the
    /// top byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut ones = [0u8; AsciiBlock::LEN];
    for (one, byte) in ones.iter_mut().zip(block) {
        *one = u8::from(holds(*byte));
    }
    let (eights, _) = ones.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |bits, eight| bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56)
}

/// Emits the one word, or the run of another script, that begins at `start` or behind a separator
/// there; returns where to go on.
fn emit_open_word<'a>(folded: &'a str, start: usize, emit: &mut impl FnMut(&'a str)) -> usize {
    let bytes = folded.as_bytes();
    let mut at = start;
    while bytes.get(at).is_some_and(|byte| is_ascii_word_byte(*byte)) {
        at += 1;
    }
    let end = match class_at(folded, at) {
        // A separator beyond ASCII ends a word just as well.
        Some((CharClass::Separator, len)) => Some(at + len),
        None => Some(at),
        Some(_) => None,
    };
    if let Some(end) = end {
        if at > start {
            emit(truncate_term(&folded[start..at]));
        }
        return end;
    }
    let Some((run, class)) = char_runs(&folded[start..]).next() else { return bytes.len() };
    at = start + run.end;
    let run = &folded[start + run.start..at];
    if class == CharClass::Spaced {
        emit(truncate_term(run));
    } else {
        bigrams(run).for_each(emit);
    }
    at
}

/// A word at the length the index keeps.
pub(crate) fn truncate_term(word: &str) -> &str {
    if word.len() <= TERM_BYTES_MAX {
        word
    } else {
        &word[..word.floor_char_boundary(TERM_BYTES_MAX)]
    }
}

/// Each character with the one after it; the last one stands alone.
pub(crate) fn bigrams(run: &str) -> impl Iterator<Item = &str> {
    // Each pair ends where the character after the next begins. The end of the run stands twice,
    // for the last pair and the last character.
    let ends = run.char_indices().map(|(at, _)| at).skip(2).chain([run.len(), run.len()]);
    run.char_indices().map(|(at, _)| at).zip(ends).map(|(start, end)| &run[start..end])
}
