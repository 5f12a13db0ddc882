//! The bodies beside the log that an event names.

use std::borrow::Cow;

use crate::payload::ArtifactRecorded;
use crate::text::decode_string;
use crate::token::{Token, Tokenizer};
use crate::{Draft, Kind};

impl Draft {
    /// The ids of the artifacts this event stands on: the one it records, those its parts hold
    /// their bytes in, and the one that holds a payload too large for the log.
    pub fn artifact_ids(&self) -> Vec<String> {
        if self.kind == Kind::ArtifactRecorded {
            let recorded = self.readable::<ArtifactRecorded>();
            return recorded.map(|recorded| recorded.artifact.id).into_iter().collect();
        }
        // Most payloads have none, and a look at the text is cheaper than taking it apart.
        match self.data.get() {
            json if json.contains("\"artifact\"") => named_artifacts(json),
            _ => Vec::new(),
        }
    }
}

/// Every text that is called `artifact`, at any depth, in order.
fn named_artifacts(json: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut is_artifact = false;
    for token in Tokenizer::new(json) {
        match token {
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
