//! Patterns with `*` and `?` over one text, and over paths with `**`.
//!
//! Nothing is compiled: a pattern is a list of tokens, and matching takes time in proportion to
//! the two lengths multiplied, whatever the pattern is.

/// One place of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GlobToken {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
}

/// Characters of a text that are compared with a pattern that has wildcards. A longer text matches
/// only a lone `*`.
const TEXT_CHARS_MAX: usize = 1 << 16;

/// Tokens of two patterns that are compared with each other. Longer ones are taken to overlap,
/// because only restricting rules ask.
const OVERLAP_TOKENS_MAX: usize = 1 << 10;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Glob {
    tokens: Vec<GlobToken>,
}

/// Whether letters in different cases are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    Exact,
    Any,
}

impl Case {
    pub(crate) fn is_equal(self, a: char, b: char) -> bool {
        a == b || (self == Case::Any && fold(a) == fold(b))
    }

    pub(crate) fn is_equal_text(self, a: &str, b: &str) -> bool {
        match self {
            Case::Exact => a == b,
            Case::Any => a.chars().map(fold).eq(b.chars().map(fold)),
        }
    }
}

fn fold(c: char) -> char {
    if c.is_ascii() { c.to_ascii_lowercase() } else { c.to_lowercase().next().unwrap_or(c) }
}

impl Glob {
    pub(crate) fn from_tokens(tokens: Vec<GlobToken>) -> Glob {
        Glob { tokens }
    }

    pub(crate) fn parse(text: &str) -> Glob {
        let token = |c| match c {
            '*' => GlobToken::Many,
            '?' => GlobToken::One,
            c => GlobToken::Char(c),
        };
        Glob { tokens: text.chars().map(token).collect() }
    }

    /// The text, if it has no wildcard.
    pub(crate) fn as_literal(&self) -> Option<String> {
        let character = |token: &GlobToken| match token {
            GlobToken::Char(c) => Some(*c),
            GlobToken::One | GlobToken::Many => None,
        };
        self.tokens.iter().map(character).collect()
    }

    pub(crate) fn is_lone_star(&self) -> bool {
        self.tokens == [GlobToken::Many]
    }

    /// The pattern behind the last place of a character.
    pub(crate) fn behind_last(&self, wanted: char) -> Glob {
        let place = self.tokens.iter().rposition(|token| *token == GlobToken::Char(wanted));
        Glob { tokens: self.tokens[place.map_or(0, |place| place + 1)..].to_vec() }
    }

    pub(crate) fn matches(&self, text: &str, case: Case) -> bool {
        if self.is_lone_star() {
            return true;
        }
        if let Some(literal) = self.as_literal() {
            return case.is_equal_text(&literal, text);
        }
        let text: Vec<char> = text.chars().take(TEXT_CHARS_MAX + 1).collect();
        text.len() <= TEXT_CHARS_MAX && matches_chars(&self.tokens, &text, case)
    }

    /// Whether some text matches both patterns.
    pub(crate) fn overlaps(&self, other: &Glob, case: Case) -> bool {
        if self.tokens.len().max(other.tokens.len()) > OVERLAP_TOKENS_MAX {
            return true;
        }
        // One row of the table of all pairs of places at a time: `reachable[j]` says whether the
        // first `i` tokens here and the first `j` there can stand for the same text.
        let there = &other.tokens;
        let mut reachable = vec![false; there.len() + 1];
        reachable[0] = true;
        close_row(&mut reachable, there);
        for token in &self.tokens {
            let mut next = vec![false; there.len() + 1];
            for j in 0..=there.len() {
                if !reachable[j] {
                    continue;
                }
                if *token == GlobToken::Many {
                    next[j..].fill(true);
                    break;
                }
                match there.get(j) {
                    Some(GlobToken::Many) => next[j] = true,
                    Some(other) => next[j + 1] |= can_be_equal(*token, *other, case),
                    None => {}
                }
            }
            close_row(&mut next, there);
            reachable = next;
        }
        reachable[there.len()]
    }
}

/// A `*` may stand for nothing.
fn close_row(row: &mut [bool], tokens: &[GlobToken]) {
    for (j, token) in tokens.iter().enumerate() {
        if row[j] && *token == GlobToken::Many {
            row[j + 1] = true;
        }
    }
}

fn can_be_equal(a: GlobToken, b: GlobToken, case: Case) -> bool {
    match (a, b) {
        (GlobToken::Char(a), GlobToken::Char(b)) => case.is_equal(a, b),
        _ => true,
    }
}

/// The usual match with one place to come back to: the last `*`.
fn matches_chars(tokens: &[GlobToken], text: &[char], case: Case) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match tokens.get(token) {
            Some(GlobToken::Many) => {
                star = Some((token, at));
                token += 1;
                continue;
            }
            Some(GlobToken::One) => {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            Some(GlobToken::Char(c)) if case.is_equal(*c, text[at]) => {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            Some(GlobToken::Char(_)) | None => {}
        }
        let Some((star_token, star_at)) = star else { return false };
        star = Some((star_token, star_at + 1));
        (token, at) = (star_token + 1, star_at + 1);
    }
    tokens[token..].iter().all(|token| *token == GlobToken::Many)
}
