//! What a caller stamps on every event it appends, without touching what the event says itself.

use event::payload::ChildRequested;
use event::{Draft, Metadata, Raw};

/// Metadata and a turn that events get where they have none of their own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    metadata: Metadata,
    turn_id: Option<String>,
}

/// The metadata key that tells which agent wrote an event.
const AGENT_ID: &str = "agent_id";

impl Scope {
    pub fn new(metadata: Metadata) -> Scope {
        Scope { metadata, turn_id: None }
    }

    /// The scope of a child: its agent and the metadata of its request.
    pub fn of_child(request: &ChildRequested) -> Scope {
        let requested = request.metadata.as_ref().and_then(Raw::members).unwrap_or_default();
        let mut metadata: Metadata = requested.into_iter().collect();
        let agent_id = Raw::from_value(&request.agent_id).expect("a string always encodes as JSON");
        metadata.insert(AGENT_ID.to_owned(), agent_id);
        Scope::new(metadata)
    }

    /// The same scope within a turn.
    pub fn in_turn(mut self, turn_id: impl Into<String>) -> Scope {
        self.turn_id = Some(turn_id.into()).filter(|turn_id| !turn_id.is_empty());
        self
    }

    /// A scope inside this one: where both have a key, the inner one wins.
    pub fn nest(&self, inner: &Scope) -> Scope {
        let mut metadata = self.metadata.clone();
        metadata.extend(inner.metadata.clone());
        Scope { metadata, turn_id: inner.turn_id.clone().or_else(|| self.turn_id.clone()) }
    }

    /// Whether it changes no event.
    pub fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.turn_id.is_none()
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }

    /// The draft with this scope; its own keys and its own turn win.
    pub fn stamp(&self, mut draft: Draft) -> Draft {
        for (key, value) in &self.metadata {
            draft.metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if draft.turn_id.as_deref().is_none_or(str::is_empty) {
            draft.turn_id = self.turn_id.clone();
        }
        draft
    }
}
