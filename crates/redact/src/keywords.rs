//! Finds the keywords of all rules in one pass.
//!
//! A table of bits says which three bytes begin a keyword; a place whose bit is set is compared with
//! the few keywords that begin so. The look at one place does not wait for the look at the place
//! before it, as it would in an automaton, and the table fits into the fastest cache however many
//! keywords there are. `docs/decisions/redaction-marks.md` has the figures.

use std::collections::BTreeMap;
use std::ops::Range;

/// The bits of a class of bytes.
const CLASS_BITS: u32 = 6;

/// The number of classes. Bytes beyond share the last one: the table then lets more places through,
/// and the comparison sorts them out.
const CLASSES: usize = 1 << CLASS_BITS;

/// The number of bytes that are looked up.
const PREFIX_LEN: usize = 3;

const PREFIXES: usize = CLASSES * CLASSES * CLASSES;

/// The words of the table, of 64 bits each: 32 kB.
const WORDS: usize = PREFIXES / 64;

/// The keywords, by how they begin.
#[derive(Debug)]
pub(crate) struct Keywords {
    /// The class of each byte; 0 for bytes that no beginning of a keyword has. Capitals have the class of their
    /// small letter.
    class_by_byte: [u8; 256],
    /// One bit for each prefix.
    has_prefix: Box<[u64; WORDS]>,
    /// The number of bits that are set before each word. With the bits before a prefix in its word
    /// it is the prefix's place in `by_prefix`.
    set_before: Box<[u16; WORDS]>,
    by_prefix: Vec<PrefixKeywords>,
}

/// The keywords with one prefix.
#[derive(Debug, Default)]
struct PrefixKeywords {
    /// One bit for each class that the byte behind the prefix may have. It turns most places away
    /// that the prefix lets through.
    next_classes: u64,
    keywords: Vec<Keyword>,
}

#[derive(Clone, Debug)]
struct Keyword {
    /// In small letters.
    text: Box<[u8]>,
    /// The rules that are tried at this keyword.
    rules: Vec<usize>,
}

impl Keywords {
    /// Builds the index. Keywords have at least two bytes.
    pub(crate) fn new<'a>(keywords: impl Iterator<Item = (&'a str, usize)>) -> Keywords {
        let mut by_text: Vec<Keyword> = Vec::new();
        for (text, rule) in keywords {
            let text = text.to_ascii_lowercase().into_bytes().into_boxed_slice();
            match by_text.iter_mut().find(|known| known.text == text) {
                Some(known) => known.rules.push(rule),
                None => by_text.push(Keyword { text, rules: vec![rule] }),
            }
        }
        let class_by_byte = classes(&by_text);
        let mut by_prefix: BTreeMap<usize, PrefixKeywords> = BTreeMap::new();
        for keyword in by_text {
            let next = keyword.text.get(PREFIX_LEN).map(|&byte| class_by_byte[usize::from(byte)]);
            for prefix in prefixes(&class_by_byte, &keyword.text) {
                let candidates = by_prefix.entry(prefix).or_default();
                // Any byte may stand behind a keyword that is no longer than the prefix.
                candidates.next_classes |= next.map_or(u64::MAX, |class| 1 << class);
                candidates.keywords.push(keyword.clone());
            }
        }
        let mut has_prefix = Box::new([0u64; WORDS]);
        for prefix in by_prefix.keys() {
            has_prefix[prefix / 64] |= 1 << (prefix % 64);
        }
        let mut set_before = Box::new([0u16; WORDS]);
        for word in 1..WORDS {
            let set = has_prefix[word - 1].count_ones() as u16;
            set_before[word] = set_before[word - 1] + set;
        }
        let by_prefix = by_prefix.into_values().collect();
        Keywords { class_by_byte, has_prefix, set_before, by_prefix }
    }

    /// Calls `found` with every keyword that begins in the first `len` bytes of the text, and with
    /// its rules. Keywords may overlap: `access_token` does not hide `token`.
    pub(crate) fn search(
        &self,
        text: &[u8],
        len: usize,
        mut found: impl FnMut(Range<usize>, &[usize]),
    ) {
        let mut prefix = 0;
        for (at, &byte) in text.iter().enumerate() {
            let class = usize::from(self.class_by_byte[usize::from(byte)]);
            prefix = (prefix << CLASS_BITS | class) % PREFIXES;
            // The bit of most places is 0, and nothing else is done there.
            if self.has_keyword(prefix) {
                self.compare(text, at, prefix, len, &mut found);
            }
        }
        // A keyword of two bytes may end the text.
        let prefix = (prefix << CLASS_BITS) % PREFIXES;
        if self.has_keyword(prefix) {
            self.compare(text, text.len(), prefix, len, &mut found);
        }
    }

    #[inline]
    fn has_keyword(&self, prefix: usize) -> bool {
        self.has_prefix[prefix / 64] >> (prefix % 64) & 1 == 1
    }

    /// Compares the text with the keywords that have the prefix that ends with the byte at `at`.
    // Kept out of the loop over all bytes, which has to stay small.
    #[inline(never)]
    fn compare(
        &self,
        text: &[u8],
        at: usize,
        prefix: usize,
        len: usize,
        found: &mut impl FnMut(Range<usize>, &[usize]),
    ) {
        let Some(start) = (at + 1).checked_sub(PREFIX_LEN).filter(|&start| start < len) else {
            return;
        };
        let lower_bits = self.has_prefix[prefix / 64] & ((1 << (prefix % 64)) - 1);
        let place = usize::from(self.set_before[prefix / 64]) + lower_bits.count_ones() as usize;
        let candidates = &self.by_prefix[place];
        let next = self.class_by_byte[usize::from(text.get(at + 1).copied().unwrap_or(0))];
        if candidates.next_classes >> next & 1 == 0 {
            return;
        }
        for keyword in &candidates.keywords {
            let end = start + keyword.text.len();
            if text.get(start..end).is_some_and(|part| part.eq_ignore_ascii_case(&keyword.text)) {
                found(start..end, &keyword.rules);
            }
        }
    }
}

/// Returns the prefixes at which a keyword is looked up. One of two bytes has a prefix for each
/// class that may follow.
fn prefixes(class_by_byte: &[u8; 256], text: &[u8]) -> Vec<usize> {
    let class = |at: usize| usize::from(class_by_byte[usize::from(text[at])]);
    let two = class(0) * CLASSES + class(1);
    match text.len() {
        2 => (0..CLASSES).map(|class| two * CLASSES + class).collect(),
        _ => vec![two * CLASSES + class(2)],
    }
}

/// Gives every byte among the first ones of a keyword a class.
fn classes(keywords: &[Keyword]) -> [u8; 256] {
    let mut class_by_byte = [0; 256];
    let mut count = 0;
    for &byte in keywords.iter().flat_map(|keyword| keyword.text.iter().take(PREFIX_LEN + 1)) {
        if class_by_byte[usize::from(byte)] == 0 {
            count = (count + 1).min(CLASSES as u8 - 1);
            class_by_byte[usize::from(byte)] = count;
            class_by_byte[usize::from(byte.to_ascii_uppercase())] = count;
        }
    }
    class_by_byte
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keywords: &[&str], text: &str, expected: &[(Range<usize>, usize)]) {
        let index = Keywords::new(keywords.iter().copied().zip(0..));
        let mut found = Vec::new();
        index.search(text.as_bytes(), text.len(), |range, rules| {
            found.extend(rules.iter().map(|&rule| (range.clone(), rule)));
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn keywords_may_overlap() {
        check(&["access_token", "token"], "Access_TOKEN", &[(0..12, 0), (7..12, 1)]);
    }

    #[test]
    fn two_bytes_are_found_at_the_end() {
        check(&["-u"], "-u -u", &[(0..2, 0), (3..5, 0)]);
    }

    #[test]
    fn equal_keywords_share_their_place() {
        check(&["echo ", "ECHO "], "echo x", &[(0..5, 0), (0..5, 1)]);
    }

    #[test]
    fn more_bytes_than_classes_are_found() {
        let keywords: Vec<String> = (b'!'..=b'~').map(|byte| char::from(byte).into()).collect();
        let keywords: Vec<String> = keywords.iter().map(|sign| sign.repeat(3)).collect();
        let keywords: Vec<&str> = keywords.iter().map(String::as_str).collect();
        check(&keywords, "~~~ {{{", &[(0..3, 93), (4..7, 90)]);
    }
}
