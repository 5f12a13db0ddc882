//! How much of a text is about the terms of a query.

use crate::text_query::{QueryTerm, TextQuery};

/// Matches of one term that count: beyond this, more of the same says nothing new.
const MATCHES_MAX: usize = 8;

/// Bytes of a text of average length.
const AVERAGE_LEN: f64 = 1_000.0;

/// `k1` and `b` of BM25, at their usual values: how quickly further matches stop to matter, and
/// how much the length of the text weighs.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// The share of the score that goes to texts in which the terms stand together as typed.
const PHRASE_SHARE: f64 = 0.3;

/// The score of folded texts, from 0 to 1.
///
/// The shape is that of BM25 without the inverse document frequency: what other documents contain
/// plays no part, so the score of a document never changes and pages fit together while documents
/// are added.
pub(crate) fn score_texts(folded: &[String], query: &TextQuery) -> f64 {
    let len: usize = folded.iter().map(String::len).sum();
    // A long text collects matches by its length alone, so it needs more of them for the same
    // score.
    let damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * len as f64 / AVERAGE_LEN);
    let score_term = |term: &QueryTerm| {
        let matches = count_matches(folded, term) as f64;
        matches / (matches + damping)
    };
    // The mean over the terms: a query of many words scores in the same range as one of one.
    let mean = query.terms.iter().map(score_term).sum::<f64>() / query.terms.len().max(1) as f64;
    match &query.phrase {
        None => mean,
        Some(phrase) => {
            let is_phrase = folded.iter().any(|text| phrase.find(text, 0).is_some());
            mean * (1.0 - PHRASE_SHARE) + f64::from(is_phrase) * PHRASE_SHARE
        }
    }
}

fn count_matches(folded: &[String], term: &QueryTerm) -> usize {
    let mut matches = 0;
    for text in folded {
        let mut from = 0;
        while matches < MATCHES_MAX
            && let Some(range) = term.find(text, from)
        {
            matches += 1;
            // Behind the match: overlapping ones would count the same characters twice.
            from = range.end;
        }
    }
    matches
}
