//! What the redactor removes, what it keeps, and at what cost.

mod given; // generated secrets and the texts around them
mod kinds; // one secret of each kind
mod names; // values beside names
mod forms; // hundreds of forms, and how many are missed
mod harmless; // what only looks like a secret
mod clean_text; // megabytes without a secret
mod shortened; // secrets that were cut off
mod marks; // marks derived from secrets
mod pieces; // independence of the split
mod growth; // linear work
mod user_rules; // rules that a user adds
mod hostile; // arbitrary text

use redact::Redactor;

/// The text after one redaction.
fn redacted(text: &str) -> String {
    Redactor::new().redact(text).into_owned()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redacted(text), expected, "from {text:?}");
}

#[track_caller]
fn check_unchanged(text: &str) {
    check(text, text);
}

/// Compares the redacted text, with marks that name their kind only.
#[track_caller]
fn check_kinds(text: &str, expected: &str) {
    let redacted = redacted(text);
    let mut kinds = String::new();
    let mut rest = redacted.as_str();
    while let Some((before, behind)) = rest.split_once("[redacted:") {
        let (mark, behind) = behind.split_once(']').expect("a mark is closed");
        let kind = mark.split(':').next().unwrap_or(mark);
        kinds.push_str(&format!("{before}[redacted:{kind}]"));
        rest = behind;
    }
    kinds.push_str(rest);
    assert_eq!(kinds, expected, "from {text:?}");
}
