//! Reading JSON text without building a tree: the one place where its bytes are looked at.
//!
//! Agents write large records of which an event needs a few members, so values are skipped rather
//! than decoded, and long strings are decoded no further than needed. All of it works on text that
//! is JSON; on other text the results are wrong, but nothing panics or loops.

mod cut; // truncation of long strings
mod field; // the members of an object, without decoding values
mod head; // members near the start of a text that may be cut off
mod nesting; // the brackets of a text that arrives in pieces
mod prefix; // the first characters of a string
mod string; // decoding of strings, lone surrogates included
mod token; // a tokenizer: brackets, names and strings

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use cut::cut_strings;
pub use field::JsonField;
pub use head::{number_member, string_after, string_member};
pub use nesting::Nesting;
pub use prefix::string_prefix;
pub use string::replace_lone_surrogates;
pub(crate) use string::{JsonString, decode_string, nul_replaced, without_nul};
pub use token::string_end;
pub(crate) use token::{Token, Tokenizer};

/// Decodes JSON as `T`. Lone surrogates, which JavaScript writes, are read as U+FFFD.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).or_else(|error| match replace_lone_surrogates(json) {
        Cow::Owned(json) => serde_json::from_str(&json),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Returns the text of a JSON string, or `None` for any other JSON.
pub fn text(json: &RawValue) -> Option<String> {
    decode_string(json.get()).map(Cow::into_owned)
}
