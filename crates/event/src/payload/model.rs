//! What a model wrote about a part of a session.
//!
//! It cannot be computed again from the log, so it is stored as an event: a `note`.

use serde::{Deserialize, Serialize};

use super::Note;
use crate::{Draft, Kind, Raw};

/// A model's title, facts and tags for the events of one range.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelWords {
    /// The name of the epoch the events belong to.
    pub tag: String,
    pub from_seq: u64,
    pub to_seq: u64,
    /// The name of the model.
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<ModelFact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// `low`, `normal` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// The most recent work, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<String>,
}

/// One fact that the model found worth keeping.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFact {
    pub topic: String,
    pub text: String,
    /// The names of the facts, found without a model, that this one replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
}

/// The `about` of such a note.
#[derive(Serialize, Deserialize)]
struct ModelNote {
    model: ModelWords,
}

impl ModelWords {
    /// Reads the words from an event, if it is the note of a model.
    pub fn from_event(event: &Draft) -> Option<ModelWords> {
        if event.kind != Kind::Note {
            return None;
        }
        let note = event.readable::<Note>()?;
        // A note of a person, or of another program, has another `about`.
        let about: ModelNote = note.about?.read().ok()?;
        Some(about.model)
    }

    /// Converts the words to the note that stores them. Its text is for people and search.
    pub fn into_note(self) -> Note {
        let said = self.title.iter().chain(&self.recent);
        let lines = said.cloned().chain(self.facts.iter().map(|fact| fact.text.clone()));
        let text = lines.collect::<Vec<_>>().join("\n");
        let about =
            Raw::from_value(&ModelNote { model: self }).expect("texts and numbers always encode");
        Note { text, about: Some(about) }
    }
}
