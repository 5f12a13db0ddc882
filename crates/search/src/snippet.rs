//! The piece of a text that shows why it was found.

use std::ops::Range;

use crate::fold::fold_with_origins;
use crate::text_query::TextQuery;

/// Characters of a snippet.
const SNIPPET_CHARS_MAX: usize = 200;

/// Characters shown before the first match.
const LEAD_CHARS_MAX: usize = 50;

/// Matches looked at per term and text; a text with more has its snippet near the beginning.
const MATCHES_MAX: usize = 256;

/// A piece of a text, and where in it the matches are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snippet {
    /// Exactly as it stands in the text.
    pub text: String,
    /// The matches in `text`, as byte ranges.
    pub highlights: Vec<Range<usize>>,
}

/// A match of one of the terms in a text.
struct TermMatch {
    range: Range<usize>,
    /// Which term, as its place in the query.
    term: usize,
}

/// Cuts the piece that shows the most of the terms, the earliest of equals.
pub(crate) fn cut_snippet(texts: &[String], query: &TextQuery) -> Snippet {
    let mut best: Option<(usize, Snippet)> = None;
    for text in texts {
        let matches = find_matches(text, query);
        let Some((first, terms_shown)) = densest_match(text, &matches) else { continue };
        if best.as_ref().is_none_or(|(most, _)| terms_shown > *most) {
            best = Some((terms_shown, cut_around(text, &matches, first)));
        }
        // A later text cannot show more, and texts come most telling first.
        if terms_shown == query.terms.len() {
            break;
        }
    }
    best.map(|(_, snippet)| snippet).unwrap_or_default()
}

/// The matches in a text in order.
fn find_matches(text: &str, query: &TextQuery) -> Vec<TermMatch> {
    let folded = fold_with_origins(text);
    let mut matches = Vec::new();
    for (index, term) in query.terms.iter().enumerate() {
        let mut from = 0;
        while let Some(range) = term.find(&folded.text, from) {
            // A match is never empty, but this loop must end even if it were.
            from = range.end.max(range.start + 1);
            matches.push(TermMatch { range: folded.origin(range), term: index });
            // The bound grows with each term, so a frequent term leaves room for the ones after it.
            if matches.len() >= MATCHES_MAX * (index + 1) {
                break;
            }
        }
    }
    matches.sort_by_key(|found| (found.range.start, found.range.end));
    matches
}

/// The match from which on a snippet shows the most terms, and how many that are.
fn densest_match(text: &str, matches: &[TermMatch]) -> Option<(usize, usize)> {
    // Bytes stand for characters here: precise enough to choose a place, and `cut_around` counts
    // characters.
    let reach = SNIPPET_CHARS_MAX - LEAD_CHARS_MAX;
    let mut best = None;
    for (index, first) in matches.iter().enumerate() {
        let mut shown: Vec<usize> = matches[index..]
            .iter()
            .take_while(|other| other.range.end <= first.range.start + reach)
            .take(MATCHES_MAX)
            .map(|other| other.term)
            // A match that is longer than the reach is shown in part.
            .chain([first.term])
            .collect();
        shown.sort_unstable();
        shown.dedup();
        if best.is_none_or(|(_, most)| shown.len() > most) {
            best = Some((index, shown.len()));
        }
    }
    debug_assert!(matches.iter().all(|found| text.is_char_boundary(found.range.start)));
    best
}

fn cut_around(text: &str, matches: &[TermMatch], first: usize) -> Snippet {
    let start = lead_start(text, matches[first].range.start);
    let len = text[start..].char_indices().nth(SNIPPET_CHARS_MAX).map(|(len, _)| len);
    let end = len.map_or(text.len(), |len| start + len);
    let mut highlights: Vec<Range<usize>> = Vec::new();
    for found in matches {
        // A match at the edge is highlighted as far as it is shown.
        let range = found.range.start.max(start)..found.range.end.min(end);
        if range.is_empty() {
            continue;
        }
        let range = range.start - start..range.end - start;
        // Matches of different terms may overlap; highlights do not.
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
    // `lead` runs backwards from the match. The search begins at its far end, to show as much as
    // fits.
    lead.iter().rev().find(|(_, c)| c.is_whitespace()).map_or(earliest, after)
}
