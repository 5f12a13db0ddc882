//! What a model said of a part of a session.
//!
//! It cannot be found again by reading, so it is a fact of its own: a `note` that is about it.

use serde::{Deserialize, Serialize};

use super::Note;
use crate::{Draft, Kind, Raw};

/// The words of a model about the events of one range.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelWords {
    /// The name of the epoch the events belong to.
    pub tag: String,
    pub from_seq: u64,
    pub to_seq: u64,
    /// Which model it was.
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
    /// What was done lately, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<String>,
}

/// One thing a model found worth keeping.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFact {
    pub topic: String,
    pub text: String,
    /// The names of what was found without a model and is said better here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
}

/// What the note is about, as it is written.
#[derive(Serialize, Deserialize)]
struct ModelNote {
    model: ModelWords,
}

impl ModelWords {
    /// What an event says that is the note of a model.
    pub fn from_event(event: &Draft) -> Option<ModelWords> {
        if event.kind != Kind::Note {
            return None;
        }
        let note = event.readable::<Note>()?;
        let about: ModelNote = note.about?.read().ok()?;
        Some(about.model)
    }

    /// The note that keeps them. People and search read its text.
    pub fn into_note(self) -> Note {
        let said = self.title.iter().chain(&self.recent);
        let lines = said.cloned().chain(self.facts.iter().map(|fact| fact.text.clone()));
        let text = lines.collect::<Vec<_>>().join("\n");
        let about =
            Raw::from_value(&ModelNote { model: self }).expect("texts and numbers always encode");
        Note { text, about: Some(about) }
    }
}
