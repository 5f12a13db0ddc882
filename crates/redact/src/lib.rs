//! Secrets out of text.
//!
//! A [`Redactor`] replaces keys, tokens and passwords by marks such as `[redacted:github_token]`:
//! the same secret by the same mark, different ones of a kind by different marks, for as long as
//! the redactor lives. Redacting a second time changes nothing. Text in pieces ([`Stream`]) gives
//! what the whole would have given, wherever it was cut, and the work grows with the text alone.
//!
//! What a secret looks like is data: `rules.json` beside this crate, and whatever a user adds in
//! the same shape. A place is looked at only if it has a word some rule knows. No rule sees
//! further than a window around that word, so a decision depends on nothing outside of it.
//!
//! Not here: what has to be redacted, and when. There is no promise to find a secret that looks
//! like nothing and stands beside no name.

mod redactor; // text in, text without secrets out
mod stream; // the same, piece by piece
mod scan; // findings in order, merged, as kept text and marks
mod mark; // the same secret, the same mark
mod rule; // what rules look like, as data
mod rules; // rules made ready to search with
mod assignment; // a value beside a name that says secret
mod value; // what is a secret, and what only looks like one
mod word; // where a word begins
mod tail; // secrets longer than a window
mod cut; // secrets that somebody has cut off
mod error;

pub use error::BadRule;
pub use redactor::Redactor;
pub use rule::{Begins, Check, Continues, Rule};
pub use rules::Rules;
pub use stream::Stream;
