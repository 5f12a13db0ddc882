//! What is taken out of a text, what stays, and at what cost.

mod given; // secrets and the texts they stand in, made up
mod kinds; // one secret of each kind
mod names; // values beside names
mod harmless; // what only looks like a secret
mod shortened; // what somebody has cut off
mod marks; // the same secret, the same mark
mod pieces; // any split gives what the whole gives
mod growth; // work that grows with the text alone
mod user_rules; // rules a user adds
mod hostile; // whatever text comes in

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
