//! The artifacts that an event needs.

use std::borrow::Cow;

use crate::json::decode_string;
use crate::json::{Token, Tokenizer};
use crate::payload::ArtifactRecorded;
use crate::{Draft, Kind};

impl Draft {
    /// Returns the ids of the artifacts that this event needs: the artifact it records, those
    /// that hold the bytes of its parts, and the one that holds a payload too large for the log.
    pub fn artifact_ids(&self) -> Vec<String> {
        if self.kind == Kind::ArtifactRecorded {
            let recorded = self.readable::<ArtifactRecorded>();
            return recorded.map(|recorded| recorded.artifact.id).into_iter().collect();
        }
        // Most payloads name none, and a substring search is cheaper than tokenizing.
        match self.data.get() {
            json if json.contains("\"artifact\"") => named_artifacts(json),
            _ => Vec::new(),
        }
    }
}

/// Returns the value of every string member `artifact`, at any depth, in order.
fn named_artifacts(json: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut is_artifact = false;
    for token in Tokenizer::new(json) {
        match token {
            // An `artifact` that is an object is no id.
            Token::Open | Token::Close => is_artifact = false,
            Token::Name(name) => is_artifact = name == "\"artifact\"",
            Token::String(id) if is_artifact => {
                ids.extend(decode_string(id).map(Cow::into_owned));
                is_artifact = false;
            }
            Token::String(_) => {}
        }
    }
    ids
}
