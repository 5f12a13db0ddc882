//! Removal of secrets from text.
//!
//! A [`Redactor`] replaces keys, tokens and passwords by marks such as
//! `[redacted:github_token:9f3c1a]`. A mark is derived from the secret: equal texts give equal
//! results in every run, and two marks with the same tag stand for the same secret. Redacting a
//! second time changes nothing. A text in pieces ([`Stream`]) gives the same result as the whole
//! text, wherever it was split. The work is linear in the length of the text.
//!
//! The rules are data: `rules.json` of this crate, and rules of the same form that a user adds.
//! One pass finds the keywords of all rules, and a rule is tried only at its keywords. No rule sees
//! further than a window around the keyword, so a decision depends on nothing outside of the
//! window. This is what makes the result independent of the split.
//!
//! Not here: what has to be redacted, and when. The redactor does not promise to find a secret
//! that has no known form and no telling name beside it.

mod redactor; // text in, text without secrets out
mod stream; // a text that comes in pieces
mod scan; // findings sorted, merged and written as text and marks
mod mark; // marks derived from secrets
mod rule; // the form of rules as data
mod rules; // compiled rules and the search for findings
mod keywords; // the keywords of all rules in one pass
mod assignment; // the value of a name such as `password`
mod settings; // lines of settings files
mod value; // which values are secrets and which only look like one
mod word; // word boundaries
mod tail; // secrets longer than a window
mod key; // the lines of a private key
mod cut; // secrets that were cut off with `…`
mod error;

pub use error::BadRule;
pub use redactor::Redactor;
pub use rule::{Begins, Check, Continues, Rule};
pub use rules::Rules;
pub use stream::Stream;
