//! The text of a query: parsed into terms, looked up in the index and found in a text.
//!
//! Words are joined by AND in any order, case and accents aside. A word of three or more
//! characters also matches as a prefix. Quotes make a phrase. A word with punctuation must stand
//! in the text as typed. Nothing else is syntax, so no text is a mistake.
//!
//! A term is looked up in the index and then, where the index does not say all, compared with the
//! text. Both give the same answer; the comparison is what defines it.

use std::collections::HashSet;
use std::ops::Range;

use crate::fold::fold;
use crate::query::MatchMode;
use crate::tokenizer::{
    CharClass, TERM_BYTES_EXACT, bigrams, char_class, char_runs, truncate_term,
};

/// Characters from which on a word also matches as a prefix.
const PREFIX_CHARS_MIN: usize = 3;

/// Terms of one query that are looked up in the index. More would not narrow the candidates any
/// further; the rest is compared with the text.
const LOOKUPS_MAX: usize = 32;

/// All that a query asks to stand in the texts of a document.
#[derive(Debug)]
pub struct TextQuery {
    pub(crate) terms: Vec<QueryTerm>,
    /// The terms as one phrase in the order typed; `None` for a single term.
    pub(crate) phrase: Option<QueryTerm>,
    /// What to ask the index.
    pub(crate) lookups: TermLookups,
}

/// One thing that must stand in a text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct QueryTerm {
    /// Folded pieces with white space between them: several only for a phrase.
    pieces: Vec<String>,
    /// May be followed by more of the same word.
    is_prefix: bool,
    /// May begin and end in the middle of a word.
    is_substring: bool,
}

/// One term as the index knows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TermLookup {
    pub(crate) term: String,
    pub(crate) extent: TermExtent,
}

/// How much of an indexed term a lookup must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TermExtent {
    Whole,
    /// All of it, or as second choice its prefix.
    WholeOrPrefix,
    Prefix,
}

/// What the index can say about a query.
#[derive(Debug)]
pub(crate) struct TermLookups {
    /// Empty where the index cannot help.
    pub(crate) terms: Vec<TermLookup>,
    /// Whether what the index finds needs no comparison with the text.
    pub(crate) are_exact: bool,
}

impl TextQuery {
    pub fn parse(text: &str, mode: MatchMode) -> TextQuery {
        let mut seen = HashSet::new();
        let terms: Vec<QueryTerm> = split_query(text)
            .into_iter()
            .map(|part| QueryTerm::new(part, mode))
            .filter(|term| !term.pieces.is_empty() && seen.insert(term.clone()))
            .collect();
        let phrase = (terms.len() > 1).then(|| QueryTerm {
            pieces: terms.iter().flat_map(|term| term.pieces.clone()).collect(),
            // As for a single word: the last one may be incomplete.
            is_prefix: true,
            is_substring: mode == MatchMode::Substring,
        });
        let lookups = TermLookups::for_terms(&terms);
        TextQuery { terms, phrase, lookups }
    }

    /// Whether nothing is asked for: such a query has no hits.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether every term stands in at least one of the folded texts of a document.
    pub(crate) fn matches(&self, folded: &[String]) -> bool {
        let stands = |term: &QueryTerm| folded.iter().any(|text| term.find(text, 0).is_some());
        self.terms.iter().all(stands)
    }

    /// Whether the texts hold each word of the query as a whole word, not only as a prefix.
    pub(crate) fn matches_whole_words(&self, folded: &[String]) -> bool {
        self.lookups
            .terms
            .iter()
            .filter(|lookup| lookup.extent == TermExtent::WholeOrPrefix)
            .all(|lookup| folded.iter().any(|text| lookup.is_whole_word_in(text)))
    }
}

impl QueryTerm {
    fn new(part: QueryPart<'_>, mode: MatchMode) -> QueryTerm {
        let (text, is_phrase) = match part {
            QueryPart::Word(text) => (text, false),
            QueryPart::Phrase(text) => (text, true),
        };
        let folded = fold(text);
        let pieces: Vec<String> = folded.split_whitespace().map(str::to_owned).collect();
        // `foo-b` ends in a word of one character, so it is no prefix of `foo-bar`.
        let is_in_word = |c: &char| char_class(*c) == CharClass::Spaced;
        let last_word_chars = folded.chars().rev().take_while(is_in_word).count();
        QueryTerm {
            pieces,
            is_prefix: !is_phrase && last_word_chars >= PREFIX_CHARS_MIN,
            is_substring: mode == MatchMode::Substring,
        }
    }

    /// The first match at or after `from` in a folded text.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let first = self.pieces.first()?;
        let mut from = from;
        loop {
            let start = from + text.get(from..)?.find(first.as_str())?;
            if let Some(end) = self.match_end(text, start)
                && self.is_bounded(text, start..end)
            {
                return Some(start..end);
            }
            // One character on, not behind the piece: matches may overlap failed ones.
            from = start + first.chars().next().map_or(1, char::len_utf8);
        }
    }

    /// The end of all pieces, one after the other, from `start` on. Any amount of white space
    /// between two pieces is the same.
    fn match_end(&self, text: &str, start: usize) -> Option<usize> {
        let (first, others) = self.pieces.split_first()?;
        let mut end = start + first.len();
        for piece in others {
            let rest = text[end..].trim_start();
            // At least one blank: `foo bar` is not `foobar`.
            let blanks = text.len() - end - rest.len();
            if blanks == 0 || !rest.starts_with(piece.as_str()) {
                return None;
            }
            end += blanks + piece.len();
        }
        Some(end)
    }

    /// Whether a match begins and ends at word boundaries, as far as the term demands it. Scripts
    /// without blanks have no boundaries to respect.
    fn is_bounded(&self, text: &str, range: Range<usize>) -> bool {
        let is_spaced = |c: Option<char>| c.is_some_and(|c| char_class(c) == CharClass::Spaced);
        let (before, rest) = text.split_at(range.start);
        let (inside, after) = rest.split_at(range.len());
        // A boundary is cut if letters stand on both sides of it.
        let cuts_start = is_spaced(before.chars().next_back()) && is_spaced(inside.chars().next());
        let cuts_end = is_spaced(inside.chars().next_back()) && is_spaced(after.chars().next());
        self.is_substring || (!cuts_start && (self.is_prefix || !cuts_end))
    }

    /// The terms that a document with a match must have in the index.
    fn lookups(&self) -> Vec<TermLookup> {
        // The index cannot find the middle of a word.
        if self.is_substring {
            return Vec::new();
        }
        let mut lookups = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let is_last_piece = index + 1 == self.pieces.len();
            for (range, class) in char_runs(piece) {
                let is_last = is_last_piece && range.end == piece.len();
                let run = &piece[range];
                match class {
                    CharClass::Spaced => lookups.push(TermLookup {
                        term: truncate_term(run).to_owned(),
                        extent: if is_last && self.is_prefix {
                            TermExtent::WholeOrPrefix
                        } else {
                            TermExtent::Whole
                        },
                    }),
                    // A single character is the first of an indexed pair, or the last one of a
                    // run, which is indexed alone.
                    _ if run.chars().count() == 1 => lookups
                        .push(TermLookup { term: run.to_owned(), extent: TermExtent::Prefix }),
                    // Only whole pairs: the run may go on in the text, so that its last character
                    // is not the last one there.
                    _ => {
                        let pairs = bigrams(run).filter(|pair| pair.chars().count() == 2);
                        lookups.extend(pairs.map(|pair| TermLookup {
                            term: pair.to_owned(),
                            extent: TermExtent::Whole,
                        }));
                    }
                }
            }
        }
        lookups
    }

    /// Whether the term is one word that the index keeps uncut, and nothing else.
    fn is_exact(&self, lookups: &[TermLookup]) -> bool {
        match (self.pieces.as_slice(), lookups) {
            ([piece], [lookup]) => *piece == lookup.term && piece.len() <= TERM_BYTES_EXACT,
            _ => false,
        }
    }
}

impl TermLookups {
    fn for_terms(query_terms: &[QueryTerm]) -> TermLookups {
        let mut terms = Vec::new();
        let mut are_exact = true;
        for query_term in query_terms {
            let own = query_term.lookups();
            are_exact &= query_term.is_exact(&own);
            terms.extend(own);
        }
        // A word that is typed twice, or shared by two phrases, is looked up once.
        terms.sort();
        terms.dedup();
        if terms.len() > LOOKUPS_MAX {
            // Long words are the rarer ones.
            terms.sort_by_key(|lookup| std::cmp::Reverse(lookup.term.len()));
            terms.truncate(LOOKUPS_MAX);
            are_exact = false;
        }
        TermLookups { terms, are_exact }
    }

    /// Whether a term may also be a prefix.
    pub(crate) fn have_prefixes(&self) -> bool {
        self.terms.iter().any(|lookup| lookup.extent == TermExtent::WholeOrPrefix)
    }
}

impl TermLookup {
    /// Whether the index has the whole term for this text.
    fn is_whole_word_in(&self, text: &str) -> bool {
        let mut from = 0;
        while let Some(start) = text[from..].find(&self.term).map(|at| from + at) {
            // The comparison has to agree with the tokenizer: a word that the index cuts counts as
            // whole by its beginning.
            let is_start = text[..start]
                .chars()
                .next_back()
                .is_none_or(|c| char_class(c) != CharClass::Spaced);
            let rest = &text[start..];
            let word_len = rest.find(|c| char_class(c) != CharClass::Spaced).unwrap_or(rest.len());
            if is_start && truncate_term(&rest[..word_len]) == self.term {
                return true;
            }
            from = start + self.term.chars().next().map_or(1, char::len_utf8);
        }
        false
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueryPart<'a> {
    Word(&'a str),
    Phrase(&'a str),
}

/// Cuts the query at white space and leaves quoted phrases whole.
fn split_query(text: &str) -> Vec<QueryPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    // If one quote does not close, no later one does. Remembering that keeps a query of many
    // open quotes linear.
    let mut quotes_close = true;
    while !rest.is_empty() {
        let phrase_len = if quotes_close && rest.starts_with('"') {
            let len = phrase_len(rest);
            quotes_close = len.is_some();
            len
        } else {
            None
        };
        let len =
            phrase_len.unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        parts.push(match phrase_len {
            Some(len) => QueryPart::Phrase(&rest[1..len - 1]),
            None => QueryPart::Word(&rest[..len]),
        });
        rest = rest[len..].trim_start();
    }
    parts
}

/// Bytes of the quoted phrase a text begins with, both quotes included.
///
/// A quote opens before a word and closes behind one, as people write them, so quotes inside a
/// phrase nest. A quote that never closes is a character like any other.
fn phrase_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('"')?;
    let (mut depth, mut last_close) = (1, None);
    let mut before = ' ';
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map_or(' ', |(_, c)| *c);
        if c == '"' {
            let closes = after.is_whitespace() && at > 0;
            let opens = before.is_whitespace() && !after.is_whitespace() && at > 0;
            if closes {
                depth -= 1;
                // Behind the opening quote, which `inner` lacks, and behind this one.
                last_close = Some(at + 2);
            } else if opens {
                depth += 1;
            }
            if depth == 0 {
                break;
            }
        }
        before = c;
    }
    last_close
}
