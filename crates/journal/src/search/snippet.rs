//! The piece of a text that shows why it was found.

use std::ops::Range;

use super::fold::fold_mapped;
use super::terms::Terms;

/// Characters of a snippet.
const SNIPPET_CHARS_MAX: usize = 200;

/// Characters shown before the first match.
const LEAD_CHARS_MAX: usize = 50;

/// Matches looked at per text; a text with more has its snippet near the beginning.
const MATCHES_MAX: usize = 256;

/// A piece of a text, and where in it the matches are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Snippet {
    pub(super) text: String,
    pub(super) highlights: Vec<Range<usize>>,
}

/// A match of one of the terms in a text.
struct Place {
    range: Range<usize>,
    term: usize,
}

/// Cuts the piece that shows the most of the terms, the earliest of equals.
pub(super) fn snippet(texts: &[String], terms: &Terms) -> Snippet {
    let mut best: Option<(usize, Snippet)> = None;
    for text in texts {
        let places = places(text, terms);
        let Some((first, terms_shown)) = densest(text, &places) else { continue };
        if best.as_ref().is_none_or(|(most, _)| terms_shown > *most) {
            best = Some((terms_shown, cut(text, &places, first)));
        }
        if terms_shown == terms.terms.len() {
            break;
        }
    }
    best.map(|(_, snippet)| snippet).unwrap_or_default()
}

/// All matches in a text in order.
fn places(text: &str, terms: &Terms) -> Vec<Place> {
    let folded = fold_mapped(text);
    let mut places = Vec::new();
    for (index, term) in terms.terms.iter().enumerate() {
        let mut from = 0;
        while let Some(range) = term.find(&folded.text, from) {
            from = range.end.max(range.start + 1);
            places.push(Place { range: folded.source(range), term: index });
            if places.len() >= MATCHES_MAX * (index + 1) {
                break;
            }
        }
    }
    places.sort_by_key(|place| (place.range.start, place.range.end));
    places
}

/// The match from which on a snippet shows the most terms, and how many that are.
fn densest(text: &str, places: &[Place]) -> Option<(usize, usize)> {
    // Bytes for characters: enough to choose a place, and no text is shown beyond the real limit.
    let reach = SNIPPET_CHARS_MAX - LEAD_CHARS_MAX;
    let mut best = None;
    for (index, first) in places.iter().enumerate() {
        let mut shown: Vec<usize> = places[index..]
            .iter()
            .take_while(|place| place.range.end <= first.range.start + reach)
            .take(MATCHES_MAX)
            .map(|place| place.term)
            .chain([first.term])
            .collect();
        shown.sort_unstable();
        shown.dedup();
        if best.is_none_or(|(_, most)| shown.len() > most) {
            best = Some((index, shown.len()));
        }
    }
    debug_assert!(places.iter().all(|place| text.is_char_boundary(place.range.start)));
    best
}

fn cut(text: &str, places: &[Place], first: usize) -> Snippet {
    let at = places[first].range.start;
    let start = lead_start(text, at);
    let len = text[start..].char_indices().nth(SNIPPET_CHARS_MAX).map(|(len, _)| len);
    let end = len.map_or(text.len(), |len| start + len);
    let mut highlights: Vec<Range<usize>> = Vec::new();
    for place in places {
        let range = place.range.start.max(start)..place.range.end.min(end);
        if range.is_empty() {
            continue;
        }
        let range = range.start - start..range.end - start;
        match highlights.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => highlights.push(range),
        }
    }
    Snippet { text: text[start..end].to_owned(), highlights }
}

/// Where a snippet begins: a little before the match, at the beginning of a word or a line.
fn lead_start(text: &str, at: usize) -> usize {
    let lead: Vec<(usize, char)> = text[..at].char_indices().rev().take(LEAD_CHARS_MAX).collect();
    let Some((earliest, _)) = lead.last().copied() else { return at };
    if earliest == 0 {
        return 0;
    }
    let after = |(start, c): &(usize, char)| start + c.len_utf8();
    lead.iter().rev().find(|(_, c)| c.is_whitespace()).map_or(earliest, after)
}
