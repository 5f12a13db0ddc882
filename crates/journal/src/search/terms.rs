//! The words of a query: how they are read, looked up and found in a text.
//!
//! A term is looked up in the index by its words and then, where these do not say all, compared
//! with the text. Both give the same answer; the comparison is what defines it.

use std::collections::HashSet;
use std::ops::Range;

use super::fold::fold;
use super::query::Match;
use super::words::{Class, WORD_LEN_SURE, class, cut, pairs, runs};

/// Characters from which on a word also matches as a beginning.
const BEGINNING_LEN_MIN: usize = 3;

/// Words of one query that are looked up in the index. More would not narrow the candidates any
/// further; the rest is compared with the text.
const LOOKUPS_MAX: usize = 32;

/// All that a query asks to stand in the text of an event.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) terms: Vec<Term>,
    /// The terms as one phrase in the order typed; `None` for a single term.
    pub(super) together: Option<Term>,
    /// What to ask the index.
    pub(super) lookups: Lookups,
}

/// One thing that must stand in a text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Term {
    /// Folded pieces with white space between them.
    pieces: Vec<String>,
    /// May be followed by more of the same word.
    begins: bool,
    /// May begin and end in the middle of a word.
    anywhere: bool,
}

/// One word as the index knows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Lookup {
    pub(super) word: String,
    pub(super) extent: Extent,
}

/// How much of an indexed word a lookup must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Extent {
    Whole,
    /// All of it, or its beginning: the second choice.
    WholeOrBeginning,
    /// Its beginning.
    Beginning,
}

/// What the index can say about a query.
#[derive(Debug)]
pub(super) struct Lookups {
    /// Empty where the index cannot help.
    pub(super) words: Vec<Lookup>,
    /// Whether what the index finds needs no comparison with the text.
    pub(super) are_sure: bool,
}

impl Terms {
    pub(super) fn read(text: &str, mode: Match) -> Terms {
        let mut seen = HashSet::new();
        let terms: Vec<Term> = parts(text)
            .into_iter()
            .map(|part| Term::new(part, mode))
            .filter(|term| !term.pieces.is_empty() && seen.insert(term.clone()))
            .collect();
        let together = (terms.len() > 1).then(|| Term {
            pieces: terms.iter().flat_map(|term| term.pieces.clone()).collect(),
            begins: true,
            anywhere: mode == Match::Substring,
        });
        let lookups = Lookups::of(&terms);
        Terms { terms, together, lookups }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether every term stands somewhere in the folded texts of one event.
    pub(super) fn stand_in(&self, folded: &[String]) -> bool {
        let stands = |term: &Term| folded.iter().any(|text| term.find(text, 0).is_some());
        self.terms.iter().all(stands)
    }

    /// Whether the texts hold each word of the query as a whole word, not only as a beginning.
    pub(super) fn are_whole_in(&self, folded: &[String]) -> bool {
        self.lookups
            .words
            .iter()
            .filter(|lookup| lookup.extent == Extent::WholeOrBeginning)
            .all(|lookup| folded.iter().any(|text| lookup.is_whole_in(text)))
    }
}

impl Term {
    fn new(part: Part<'_>, mode: Match) -> Term {
        let (text, is_phrase) = match part {
            Part::Word(text) => (text, false),
            Part::Phrase(text) => (text, true),
        };
        let folded = fold(text);
        let pieces: Vec<String> = folded.split_whitespace().map(str::to_owned).collect();
        let last_word_len = folded.chars().rev().take_while(|c| class(*c) == Class::Spaced).count();
        Term {
            pieces,
            begins: !is_phrase && last_word_len >= BEGINNING_LEN_MIN,
            anywhere: mode == Match::Substring,
        }
    }

    /// The first place at or after `from` where this stands in a folded text.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let first = self.pieces.first()?;
        let mut from = from;
        loop {
            let start = from + text.get(from..)?.find(first.as_str())?;
            if let Some(end) = self.end_of_match(text, start)
                && self.is_bounded(text, start..end)
            {
                return Some(start..end);
            }
            from = start + first.chars().next().map_or(1, char::len_utf8);
        }
    }

    /// The end of all pieces, one after the other, from `start` on.
    fn end_of_match(&self, text: &str, start: usize) -> Option<usize> {
        let (first, others) = self.pieces.split_first()?;
        let mut end = start + first.len();
        for piece in others {
            let rest = text[end..].trim_start();
            let blanks = text.len() - end - rest.len();
            if blanks == 0 || !rest.starts_with(piece.as_str()) {
                return None;
            }
            end += blanks + piece.len();
        }
        Some(end)
    }

    /// Whether a match does not cut a word where it may not.
    fn is_bounded(&self, text: &str, range: Range<usize>) -> bool {
        let is_spaced = |c: Option<char>| c.is_some_and(|c| class(c) == Class::Spaced);
        let (before, rest) = text.split_at(range.start);
        let (inside, after) = rest.split_at(range.len());
        let cuts_start = is_spaced(before.chars().next_back()) && is_spaced(inside.chars().next());
        let cuts_end = is_spaced(inside.chars().next_back()) && is_spaced(after.chars().next());
        self.anywhere || (!cuts_start && (self.begins || !cuts_end))
    }

    fn lookups(&self) -> Vec<Lookup> {
        if self.anywhere {
            return Vec::new();
        }
        let mut lookups = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let is_last_piece = index + 1 == self.pieces.len();
            for (range, class) in runs(piece) {
                let is_last = is_last_piece && range.end == piece.len();
                let run = &piece[range];
                match class {
                    Class::Spaced => lookups.push(Lookup {
                        word: cut(run).to_owned(),
                        extent: if is_last && self.begins {
                            Extent::WholeOrBeginning
                        } else {
                            Extent::Whole
                        },
                    }),
                    _ if run.chars().count() == 1 => {
                        lookups.push(Lookup { word: run.to_owned(), extent: Extent::Beginning })
                    }
                    _ => {
                        let inner = pairs(run).filter(|pair| pair.chars().count() == 2);
                        lookups.extend(
                            inner.map(|pair| Lookup {
                                word: pair.to_owned(),
                                extent: Extent::Whole,
                            }),
                        );
                    }
                }
            }
        }
        lookups
    }

    /// Whether the term is one uncut word and nothing else.
    fn is_sure(&self, lookups: &[Lookup]) -> bool {
        match (self.pieces.as_slice(), lookups) {
            ([piece], [lookup]) => *piece == lookup.word && piece.len() <= WORD_LEN_SURE,
            _ => false,
        }
    }
}

impl Lookups {
    fn of(terms: &[Term]) -> Lookups {
        let mut words = Vec::new();
        let mut are_sure = true;
        for term in terms {
            let own = term.lookups();
            are_sure &= term.is_sure(&own);
            words.extend(own);
        }
        words.sort();
        words.dedup();
        if words.len() > LOOKUPS_MAX {
            // Long words are the rarer ones.
            words.sort_by_key(|lookup| std::cmp::Reverse(lookup.word.len()));
            words.truncate(LOOKUPS_MAX);
            are_sure = false;
        }
        Lookups { words, are_sure }
    }

    /// Whether some word may also be a beginning.
    pub(super) fn have_beginnings(&self) -> bool {
        self.words.iter().any(|lookup| lookup.extent == Extent::WholeOrBeginning)
    }
}

impl Lookup {
    /// Whether the index has the whole word for this text.
    fn is_whole_in(&self, text: &str) -> bool {
        let mut from = 0;
        while let Some(start) = text[from..].find(&self.word).map(|at| from + at) {
            let is_start =
                text[..start].chars().next_back().is_none_or(|c| class(c) != Class::Spaced);
            let rest = &text[start..];
            let word_len = rest.find(|c| class(c) != Class::Spaced).unwrap_or(rest.len());
            if is_start && cut(&rest[..word_len]) == self.word {
                return true;
            }
            from = start + self.word.chars().next().map_or(1, char::len_utf8);
        }
        false
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part<'a> {
    Word(&'a str),
    Phrase(&'a str),
}

/// The query cut at white space, quoted phrases left whole.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    // A quote that does not close tells that no later one does, so nothing is looked at twice.
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
            Some(len) => Part::Phrase(&rest[1..len - 1]),
            None => Part::Word(&rest[..len]),
        });
        rest = rest[len..].trim_start();
    }
    parts
}

/// Bytes of the quoted phrase a text begins with, both quotes included.
///
/// A quote opens before something and closes after something, as people write them, so quotes
/// inside a phrase nest. One that never closes is a character like any other.
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
