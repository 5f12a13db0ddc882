//! Keyword terms: values that are looked up whole, beside the words of texts.
//!
//! Each begins with a character that no word can contain, so that words and keywords share one
//! term dictionary and every filter is one more list of postings to intersect. Names are kept as
//! short hashes. A document that is found is compared with the filter itself, so two names with
//! the same hash do no harm.

use crate::postings_builder::hash_term;

/// A private-use character and no letter: the tokenizer never lets it through.
const MARK: char = '\u{E000}';

/// The term that every document has. [`IndexWriter`] adds it.
///
/// [`IndexWriter`]: crate::IndexWriter
pub const EVERY_DOCUMENT: &str = "\u{E000}";

/// The keyword term of a value in a field. A value may have several parts; their order counts.
pub fn keyword_term(field: char, parts: &[&str]) -> String {
    /// Hexadecimal digits of the hash: 48 bits tell the names of any journal apart, give or take
    /// one.
    const DIGITS: u32 = 12;
    // Rotated in between, so that the order of the parts counts.
    let hash =
        parts.iter().fold(0u64, |all, part| all.rotate_left(13) ^ hash_term(part.as_bytes()));
    let mut term = String::with_capacity(MARK.len_utf8() + 1 + DIGITS as usize);
    term.extend([MARK, field]);
    // The lowest digit first: stored indexes have it so.
    term.extend(
        (0..DIGITS).filter_map(|digit| char::from_digit((hash >> (4 * digit)) as u32 & 15, 16)),
    );
    term
}

/// The keyword term of a value that is short enough to stand there as it is, for instance a number.
pub fn keyword_number(field: char, number: impl std::fmt::Display) -> String {
    format!("{MARK}{field}{number}")
}
