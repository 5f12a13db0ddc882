//! Text as search compares it: case, accents, invisible characters and colour codes aside.
//!
//! Documents and queries go through the same folding, so they agree on what is the same.
//! Letters of scripts in which a mark makes another letter (kana, Thai, the Indic vowel signs)
//! keep their marks.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, is_nfkd_quick};

/// Folded text that knows where in the original each piece stood.
pub(crate) struct FoldedText {
    pub(crate) text: String,
    /// For each folded byte where its original begins; `None` when nothing moved.
    origins: Option<Vec<usize>>,
    original_len: usize,
}

/// Folds a text. White space beyond ASCII becomes blanks.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::new();
    fold_into(text, &mut folded);
    folded
}

/// Folds a text into `folded`, in place of what was there.
pub(crate) fn fold_into(text: &str, folded: &mut String) {
    folded.clear();
    folded.reserve(text.len());
    // Most text is ASCII, and then no table of Unicode is needed.
    if text.is_ascii() {
        push_ascii(text, folded);
    } else {
        fold_runs(text, folded, |_, _| {});
    }
}

/// Splits a text into pieces of at least `bytes_min` bytes (one or more) that can be folded one by
/// one with the same result: all but the first begin with a line break, which no word, combining
/// mark or colour code crosses.
pub(crate) fn split_at_lines(text: &str, bytes_min: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let behind = rest.as_bytes().get(bytes_min..).unwrap_or_default();
        let line_break = behind.iter().position(|byte| *byte == b'\n');
        let (piece, next) = rest.split_at(line_break.map_or(rest.len(), |at| bytes_min + at));
        rest = next;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Folds a text and remembers where each piece of the result came from.
pub(crate) fn fold_with_origins(text: &str) -> FoldedText {
    let mut folded = String::with_capacity(text.len());
    if text.is_ascii() {
        push_ascii(text, &mut folded);
        return FoldedText { text: folded, origins: None, original_len: text.len() };
    }
    let mut origins = Vec::with_capacity(text.len());
    fold_runs(text, &mut folded, |piece, folded_len| match piece {
        // ASCII folds byte for byte; every byte of a cluster points at the beginning of the
        // cluster.
        OriginalRun::Ascii(range) => origins.extend(range),
        OriginalRun::Cluster(range) => origins.resize(folded_len, range.start),
    });
    FoldedText { text: folded, origins: Some(origins), original_len: text.len() }
}

impl FoldedText {
    /// The part of the original that a part of the folded text stands for: whole characters with
    /// their marks.
    pub(crate) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let Some(origins) = &self.origins else { return range };
        let start = origins.get(range.start).copied().unwrap_or(self.original_len);
        let Some(last) = range.end.checked_sub(1).and_then(|last| origins.get(last)) else {
            return start..start;
        };
        // One original character may fold to several bytes, which all have the same origin: the
        // original ends where the next different origin begins.
        let end = origins[range.end..].iter().find(|origin| *origin > last);
        start..end.copied().unwrap_or(self.original_len)
    }
}

enum OriginalRun {
    Ascii(Range<usize>),
    /// A character with the marks that follow it.
    Cluster(Range<usize>),
}

/// Folds a text run by run and tells `pushed` each run with the length of the result so far.
fn fold_runs(text: &str, folded: &mut String, mut pushed: impl FnMut(OriginalRun, usize)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let mut ascii_end = at + ascii_len(&bytes[at..]);
        if ascii_end > at {
            let next = text[ascii_end..].chars().next();
            // A letter before a combining mark folds together with it.
            if next.is_some_and(joins_previous) {
                ascii_end -= 1;
            }
            push_ascii(&text[at..ascii_end], folded);
            pushed(OriginalRun::Ascii(at..ascii_end), folded.len());
            at = ascii_end;
            if at == bytes.len() {
                break;
            }
        }
        // A character and all marks behind it: they are decomposed and put in order together.
        let mut chars = text[at..].char_indices();
        chars.next();
        let len = chars.find(|(_, c)| !joins_previous(*c)).map_or(text.len() - at, |(len, _)| len);
        push_cluster(&text[at..at + len], folded);
        pushed(OriginalRun::Cluster(at..at + len), folded.len());
        at += len;
    }
}

/// How many bytes there are before the first that is no ASCII.
fn ascii_len(bytes: &[u8]) -> usize {
    let (chunks, _) = bytes.as_chunks::<16>();
    let whole = 16 * chunks.iter().take_while(|chunk| chunk.is_ascii()).count();
    whole + bytes[whole..].iter().take_while(|byte| byte.is_ascii()).count()
}

/// Pushes lower case, with blanks for colour codes: exactly as many bytes as came in, so that
/// origins need no table.
fn push_ascii(text: &str, folded: &mut String) {
    let start = folded.len();
    let mut plain_and_coloured = text.split('\u{1B}');
    folded.push_str(plain_and_coloured.next().unwrap_or_default());
    for coloured in plain_and_coloured {
        let code_len = colour_code_len(coloured.as_bytes());
        folded.extend(std::iter::repeat_n(' ', 1 + code_len));
        folded.push_str(&coloured[code_len..]);
    }
    folded[start..].make_ascii_lowercase();
}

/// Bytes of the terminal code after an escape: without this, coloured words would begin with `31m`.
fn colour_code_len(after_escape: &[u8]) -> usize {
    // Only codes of the form `ESC [ parameters final`; they are the ones that colour.
    if after_escape.first() != Some(&b'[') {
        return 0;
    }
    let is_final = |byte: &u8| (0x40..=0x7E).contains(byte);
    let parameters = after_escape[1..].iter().take_while(|byte| (0x20..=0x3F).contains(*byte));
    let end = 1 + parameters.count();
    if after_escape.get(end).is_some_and(is_final) { end + 1 } else { 0 }
}

fn push_cluster(cluster: &str, folded: &mut String) {
    let mut chars = cluster.chars();
    // The branches for a single character are shortcuts with the same result as `push_decomposed`.
    let (Some(first), None) = (chars.next(), chars.next()) else {
        return push_decomposed(cluster, folded);
    };
    if is_unchanged_letter(first) || is_symbol(first) {
        folded.push(first);
    } else if first.is_whitespace() {
        folded.push(' ');
    } else if !is_ignored(first)
        && is_nfkd_quick(std::iter::once(first)) == IsNormalized::Yes
        && canonical_combining_class(first) == 0
    {
        push_lower(first, folded);
    } else {
        push_decomposed(cluster, folded);
    }
}

fn push_decomposed(cluster: &str, folded: &mut String) {
    let bare = cluster
        .chars()
        .flat_map(char::to_lowercase)
        .nfkd()
        .filter(|c| !is_accent(*c) && !is_ignored(*c))
        .nfc();
    for c in bare {
        if c.is_whitespace() {
            folded.push(' ');
        } else {
            push_lower(c, folded);
        }
    }
}

fn push_lower(c: char, folded: &mut String) {
    // The two small sigmas are one letter in two places.
    folded.extend(c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c }));
}

/// Whether a character belongs to the one before it and is folded with it.
fn joins_previous(c: char) -> bool {
    !c.is_ascii()
        && !is_symbol(c)
        && (canonical_combining_class(c) != 0
            || is_ignored(c)
            // The vowels and endings of a Hangul syllable written in parts, and the half-width
            // voicing marks of kana.
            || matches!(c, '\u{1160}'..='\u{11FF}' | '\u{FF9E}' | '\u{FF9F}'))
}

/// Marks over, under and through letters that people leave out when they type: the overlays,
/// nuktas, Hebrew points, Arabic harakat and the accents proper, by combining class.
fn is_accent(c: char) -> bool {
    matches!(canonical_combining_class(c), 1 | 7 | 10..=36 | 200..=255)
}

/// Invisible characters: soft hyphens, joiners, direction marks, variation selectors.
fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Dashes, quotes, bullets, arrows and box drawing: no letters, and no folding changes them. Tools
/// print one on every line, so recognising them early saves the general path.
pub(crate) fn is_symbol(c: char) -> bool {
    matches!(c,
        '\u{2012}'..='\u{2016}' | '\u{2018}'..='\u{2023}' | '\u{2190}'..='\u{2199}'
        | '\u{2500}'..='\u{2767}')
}

/// Ideographs, kana and Hangul syllables, which no folding changes.
fn is_unchanged_letter(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_leaves_symbols_alone() {
        for symbol in ('\u{80}'..'\u{3000}').filter(|c| is_symbol(*c)) {
            let mut folded = String::new();
            push_decomposed(symbol.encode_utf8(&mut [0; 4]), &mut folded);
            assert_eq!(folded, symbol.to_string());
            assert_eq!(canonical_combining_class(symbol), 0, "{symbol:?}");
            assert!(!symbol.is_alphanumeric() && !is_ignored(symbol), "{symbol:?}");
            assert!(!unicode_normalization::char::is_combining_mark(symbol), "{symbol:?}");
        }
    }

    #[test]
    fn ascii_run_ends_before_other_characters() {
        for len in 0..40 {
            let text = "a".repeat(len);
            assert_eq!(ascii_len(text.as_bytes()), len);
            assert_eq!(ascii_len(format!("{text}é{text}").as_bytes()), len);
        }
    }
}
