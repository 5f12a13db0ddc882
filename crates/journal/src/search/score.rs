//! How much of a text is about the words of a query.

use event::Kind;

use super::terms::{Term, Terms};

/// Matches of one term that count: beyond this, more of the same says nothing new.
const MATCHES_MAX: usize = 8;

/// Bytes of a text of middling length.
const MIDDLING_LEN: f64 = 1_000.0;

/// How quickly more matches stop to matter, and how much the length of the text weighs: the usual
/// values of the BM25 formula, whose shape this has. What the rest of the log contains plays no
/// part, so the score of an event never changes and pages fit together while the log grows.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// The share of the score that goes to texts in which the terms stand together as typed.
const TOGETHER_SHARE: f64 = 0.3;

/// What the words of people and agents count more than output of tools and machines: more than
/// any difference in the text.
const SAID_BONUS: f64 = 1.0;

/// The score of an event by its folded texts, from 0 to 2.
pub(super) fn score(kind: &Kind, folded: &[String], terms: &Terms) -> f64 {
    let bonus = if is_said(kind) { SAID_BONUS } else { 0.0 };
    bonus + share(folded, terms)
}

/// Whether somebody said this.
fn is_said(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::UserPrompt
            | Kind::AssistantMessage
            | Kind::Note
            | Kind::SessionStarted
            | Kind::SettingsChanged
    )
}

/// How much of the texts is about the terms, from 0 to 1.
fn share(folded: &[String], terms: &Terms) -> f64 {
    let len: usize = folded.iter().map(String::len).sum();
    let damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * len as f64 / MIDDLING_LEN);
    let of_term = |term: &Term| {
        let matches = count(folded, term) as f64;
        matches / (matches + damping)
    };
    let mean = terms.terms.iter().map(of_term).sum::<f64>() / terms.terms.len().max(1) as f64;
    match &terms.together {
        None => mean,
        Some(together) => {
            let is_together = folded.iter().any(|text| together.find(text, 0).is_some());
            mean * (1.0 - TOGETHER_SHARE) + f64::from(is_together) * TOGETHER_SHARE
        }
    }
}

fn count(folded: &[String], term: &Term) -> usize {
    let mut matches = 0;
    for text in folded {
        let mut from = 0;
        while matches < MATCHES_MAX
            && let Some(range) = term.find(text, from)
        {
            matches += 1;
            from = range.end;
        }
    }
    matches
}
