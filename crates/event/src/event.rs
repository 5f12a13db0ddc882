//! One fact in a session.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Deserialize;

use crate::error::excerpt;
use crate::payload::Payload;
use crate::text::{replace_lone_surrogates, without_nul};
use crate::{BadPayload, Confidence, Cost, EventId, Kind, Raw, SessionId, Source, Time};

/// Free annotations; written with sorted keys, values as they came.
pub type Metadata = BTreeMap<String, Raw>;

/// A fact before it has its place in a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    pub id: EventId,
    pub session_id: SessionId,
    pub kind: Kind,
    /// When it happened, according to the provider.
    pub created_at: Time,
    /// When we saw it.
    pub observed_at: Time,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub source: Source,
    pub confidence: Confidence,
    pub turn_id: Option<String>,
    pub parent_id: Option<EventId>,
    /// Compact text for people and search.
    pub text: Option<String>,
    /// The payload of the kind, byte for byte.
    pub data: Raw,
    pub metadata: Metadata,
    /// Absent is unknown; zero is known to be free.
    pub cost: Option<Cost>,
    /// Envelope fields this program does not know, in the order they came.
    pub extra: Vec<(String, Raw)>,
}

/// A fact at its place: an immutable [`Draft`] and its number in the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// 1, 2, 3 … within the session.
    pub seq: u64,
    pub draft: Draft,
}

/// Where an event that a fork shows was first recorded.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, Deserialize)]
pub struct ForkOrigin {
    pub session_id: SessionId,
    pub event_id: EventId,
}

/// The metadata key a fork's inherited events carry their [`ForkOrigin`] under.
pub const FORK_ORIGIN: &str = "fork_origin";

/// The metadata key of a fuller account, naming the event it stands in for.
pub const AMENDS: &str = "amends";

/// Where an event that stands in for a record nobody had understood says what the agent calls it.
pub const UNDERSTOOD: &str = "understood";

impl Draft {
    /// A fact of a session we host; every other field can be set afterwards.
    pub fn new<P: Payload>(
        id: EventId,
        session_id: SessionId,
        at: Time,
        payload: &P,
    ) -> Result<Draft, BadPayload> {
        let data = Raw::from_value(payload).map_err(|error| BadPayload {
            kind: P::KIND,
            event_id: id,
            path: ".".to_owned(),
            why: error.to_string(),
        })?;
        Ok(Draft::with_data(id, session_id, at, P::KIND, data))
    }

    /// A fact of any kind, known or not.
    pub fn with_data(id: EventId, session_id: SessionId, at: Time, kind: Kind, data: Raw) -> Draft {
        Draft {
            id,
            session_id,
            kind,
            created_at: at,
            observed_at: at,
            provider: "hansard".to_owned(),
            provider_session_id: None,
            source: Source::Native,
            confidence: Confidence::High,
            turn_id: None,
            parent_id: None,
            text: None,
            data,
            metadata: Metadata::new(),
            cost: None,
            extra: Vec::new(),
        }
    }

    /// The event this becomes at `seq`.
    pub fn with_seq(self, seq: u64) -> Event {
        Event { seq, draft: self }
    }

    /// The payload as `P`: `None` for an event of another kind, an error for one of this kind
    /// whose shape does not fit. Lone surrogates in its texts are read as U+FFFD.
    pub fn payload<P: Payload>(&self) -> Result<Option<P>, BadPayload> {
        if self.kind != P::KIND {
            return Ok(None);
        }
        if let Ok(payload) = self.data.read() {
            return Ok(Some(payload));
        }
        // The way that tells where it fails is slower, so it is taken only then.
        let json = replace_lone_surrogates(self.data.get());
        let mut json = serde_json::Deserializer::from_str(&json);
        serde_path_to_error::deserialize(&mut json).map(Some).map_err(|error| BadPayload {
            kind: self.kind.clone(),
            event_id: self.id,
            path: excerpt(&error.path().to_string()),
            why: excerpt(&error.inner().to_string()),
        })
    }

    /// Where a fork's inherited event was first recorded.
    pub fn fork_origin(&self) -> Option<ForkOrigin> {
        self.metadata.get(FORK_ORIGIN)?.read().ok()
    }

    /// The event this one is a fuller account of.
    pub fn amends(&self) -> Option<EventId> {
        self.metadata.get(AMENDS)?.read().ok()
    }

    /// Makes it a fuller account of another event.
    pub fn amend(&mut self, id: EventId) {
        self.metadata.insert(AMENDS.to_owned(), Raw::from_value(&id).expect("an id encodes"));
    }

    /// The kind of record this one makes sense of, which nobody had understood before.
    pub fn understood(&self) -> Option<String> {
        self.metadata.get(UNDERSTOOD)?.read().ok()
    }

    /// Whether both tell the same: everything but who saw it when, and how surely.
    pub fn has_same_content(&self, other: &Draft) -> bool {
        let Draft {
            id,
            session_id,
            kind,
            created_at,
            observed_at: _,
            provider,
            provider_session_id,
            source: _,
            confidence: _,
            turn_id,
            parent_id,
            text,
            data,
            metadata,
            cost,
            extra,
        } = self;
        // Texts as they are written: what has been through the journal lost nothing.
        let written = |text| non_empty(text).map(without_nul);
        *id == other.id
            && *session_id == other.session_id
            && *kind == other.kind
            && *created_at == other.created_at
            && *provider == other.provider
            && non_empty(provider_session_id) == non_empty(&other.provider_session_id)
            && non_empty(turn_id) == non_empty(&other.turn_id)
            && *parent_id == other.parent_id
            && written(text) == written(&other.text)
            && *data == other.data
            && *metadata == other.metadata
            && *cost == other.cost
            && *extra == other.extra
    }
}

/// An optional text as the envelope writes it: empty is absent.
pub(crate) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Deref for Event {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.draft
    }
}
