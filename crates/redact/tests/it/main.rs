//! What the redactor removes, what it keeps, and at what cost.

mod given; // generated secrets and the texts around them
mod kinds; // one secret of each kind
mod names; // values beside names
mod harmless; // what only looks like a secret
mod shortened; // secrets that were cut off
mod marks; // equal marks for equal secrets
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
