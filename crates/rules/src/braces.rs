//! Braces: `{a,b}` and `{1..3}`.

use crate::shell::{Piece, Word};

/// Words that one word with braces may become. Some twenty pairs of braces in a row would make a
/// million; a word that exceeds the limit is not expanded.
const WORDS_MAX: usize = 256;

/// Characters of a word with braces. Each word that it becomes is a copy; a longer one is not
/// expanded.
const UNITS_MAX: usize = 4_096;

/// The words that a word with braces becomes; one without becomes itself. None if they are too
/// many.
pub(crate) fn expand(word: &Word) -> Option<Vec<Word>> {
    let is_candidate = |piece: &Piece| matches!(piece, Piece::Text { text, is_quoted: false } if text.contains('{'));
    if !word.pieces.iter().any(is_candidate) {
        return Some(vec![word.clone()]);
    }
    let mut done = Vec::new();
    let mut todo = vec![units(word)];
    if todo[0].len() > UNITS_MAX {
        return None;
    }
    while let Some(next) = todo.pop() {
        if done.len() + todo.len() > WORDS_MAX {
            return None;
        }
        match expand_first(&next) {
            // The first alternative is taken next.
            Some(alternatives) => todo.extend(alternatives.into_iter().rev()),
            None => done.push(joined(&next)),
        }
    }
    Some(done)
}

/// A character of a word, or a piece that is no text.
#[derive(Clone)]
enum Unit {
    Bare(char),
    Quoted(char),
    /// Keeps an empty pair of quotes.
    Empty,
    Piece(Piece),
}

fn units(word: &Word) -> Vec<Unit> {
    let mut units = Vec::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { text, is_quoted: true } if text.is_empty() => units.push(Unit::Empty),
            Piece::Text { text, is_quoted: true } => units.extend(text.chars().map(Unit::Quoted)),
            Piece::Text { text, is_quoted: false } => units.extend(text.chars().map(Unit::Bare)),
            piece => units.push(Unit::Piece(piece.clone())),
        }
    }
    units
}

fn joined(units: &[Unit]) -> Word {
    let mut word = Word::default();
    for unit in units {
        match unit {
            Unit::Bare(c) => word.push_char(*c, false),
            Unit::Quoted(c) => word.push_char(*c, true),
            Unit::Empty => {
                word.pieces.push(Piece::Text { text: String::new(), is_quoted: true });
            }
            Unit::Piece(piece) => word.pieces.push(piece.clone()),
        }
    }
    word
}

/// The words that the first braces make, each with the rest of the word around it.
fn expand_first(units: &[Unit]) -> Option<Vec<Vec<Unit>>> {
    let mut begin = 0;
    loop {
        begin += units[begin..].iter().position(|unit| matches!(unit, Unit::Bare('{')))?;
        if let Some((end, commas)) = closing_brace(&units[begin..]) {
            let inside = &units[begin + 1..begin + end];
            let alternatives = match commas.is_empty() {
                true => sequence(inside),
                false => Some(split(inside, &commas)),
            };
            if let Some(alternatives) = alternatives {
                let around = |inner: Vec<Unit>| {
                    let mut whole = units[..begin].to_vec();
                    whole.extend(inner);
                    whole.extend_from_slice(&units[begin + end + 1..]);
                    whole
                };
                return Some(alternatives.into_iter().map(around).collect());
            }
        }
        begin += 1;
    }
}

/// The brace that closes the first one, and the commas between them, counted behind the first one.
fn closing_brace(units: &[Unit]) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        match unit {
            Unit::Bare('{') => depth += 1,
            Unit::Bare('}') if depth == 1 => return Some((at, commas)),
            Unit::Bare('}') => depth -= 1,
            Unit::Bare(',') if depth == 1 => commas.push(at - 1),
            _ => {}
        }
    }
    None
}

fn split(inside: &[Unit], commas: &[usize]) -> Vec<Vec<Unit>> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for comma in commas {
        parts.push(inside[begin..*comma].to_vec());
        begin = comma + 1;
    }
    parts.push(inside[begin..].to_vec());
    parts
}

/// `1..3` or `a..c`.
fn sequence(inside: &[Unit]) -> Option<Vec<Vec<Unit>>> {
    let characters = inside.iter().map(|unit| match unit {
        Unit::Bare(c) => Some(*c),
        _ => None,
    });
    let text: String = characters.collect::<Option<_>>()?;
    let (first, last) = text.split_once("..")?;
    let words: Vec<String> = match (first.parse::<i32>(), last.parse::<i32>()) {
        (Ok(first), Ok(last)) => {
            let (low, high) = (first.min(last), first.max(last));
            (low..=high).take(WORDS_MAX + 1).map(|number| number.to_string()).collect()
        }
        _ => {
            let [first, last] = [first, last].map(|text| text.parse::<char>().ok());
            let (first, last) = (first?, last?);
            (first.min(last)..=first.max(last)).take(WORDS_MAX + 1).map(String::from).collect()
        }
    };
    Some(words.into_iter().map(|word| word.chars().map(Unit::Bare).collect()).collect())
}
