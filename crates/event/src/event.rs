//! The envelope of an event.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Deserialize;

use crate::error::excerpt;
use crate::json::{replace_lone_surrogates, without_nul};
use crate::payload::Payload;
use crate::{BadPayload, Confidence, Cost, EventId, Kind, Raw, SessionId, Source, Time};

/// The provider of what users keep beside their sessions, such as rules. These records are sessions
/// of the log, named `user:` and what they hold; lists and counts of sessions leave them out.
pub const USER_RECORDS: &str = "user";

/// Free annotations. Keys are written in sorted order, values as they were read.
pub type Metadata = BTreeMap<String, Raw>;

/// An event before it has a sequence number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    pub id: EventId,
    pub session_id: SessionId,
    pub kind: Kind,
    /// When it happened, according to the provider.
    pub created_at: Time,
    /// When this program observed it.
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
    /// Absent means unknown; zero means known to be free.
    pub cost: Option<Cost>,
    /// Envelope fields that this program does not know, in their original order.
    pub extra: Vec<(String, Raw)>,
}

/// An immutable fact: a [`Draft`] and its sequence number in the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// 1, 2, 3 … within the session.
    pub seq: u64,
    pub draft: Draft,
}

/// The session and event where an inherited event of a fork was first recorded.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, Deserialize)]
pub struct ForkOrigin {
    pub session_id: SessionId,
    pub event_id: EventId,
}

/// The metadata key under which inherited events of a fork carry their [`ForkOrigin`].
pub const FORK_ORIGIN: &str = "fork_origin";

/// The metadata key of an event that replaces an earlier, less complete one, and names it.
pub const AMENDS: &str = "amends";

/// The metadata key of an event that replaces an `unknown` one. Its value is the agent's name for
/// that type of record.
pub const UNDERSTOOD: &str = "understood";

impl Draft {
    /// Creates a draft of a hosted session; the caller may set every other field afterwards.
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

    /// Creates a draft of any kind, known or not, from a payload in JSON.
    pub fn with_data(id: EventId, session_id: SessionId, at: Time, kind: Kind, data: Raw) -> Draft {
        Draft {
            id,
            session_id,
            kind,
            created_at: at,
            // A hosted session is observed while it happens. Capture sets its own time afterwards.
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

    /// Turns the draft into the event with number `seq`.
    pub fn with_seq(self, seq: u64) -> Event {
        Event { seq, draft: self }
    }

    /// Decodes the payload as `P`.
    ///
    /// Returns `None` for an event of another kind and fails for an event of this kind if its
    /// shape does not fit. Lone surrogates in its texts are read as U+FFFD.
    pub fn payload<P: Payload>(&self) -> Result<Option<P>, BadPayload> {
        if self.kind != P::KIND {
            return Ok(None);
        }
        if let Ok(payload) = self.data.read() {
            return Ok(Some(payload));
        }
        // The decoder that reports the path of an error is slower, and `serde_json` refuses lone
        // surrogates. Both costs are paid only for a payload that has failed once.
        let json = replace_lone_surrogates(self.data.get());
        let mut json = serde_json::Deserializer::from_str(&json);
        serde_path_to_error::deserialize(&mut json).map(Some).map_err(|error| BadPayload {
            kind: self.kind.clone(),
            event_id: self.id,
            // Both may repeat names and values of a foreign payload of any length.
            path: excerpt(&error.path().to_string()),
            why: excerpt(&error.inner().to_string()),
        })
    }

    /// Returns where an inherited event of a fork was first recorded.
    pub fn fork_origin(&self) -> Option<ForkOrigin> {
        self.metadata.get(FORK_ORIGIN)?.read().ok()
    }

    /// Returns the event that this one replaces with a more complete account.
    pub fn amends(&self) -> Option<EventId> {
        self.metadata.get(AMENDS)?.read().ok()
    }

    /// Marks this event as the more complete account of event `id`.
    pub fn amend(&mut self, id: EventId) {
        self.metadata.insert(AMENDS.to_owned(), Raw::from_value(&id).expect("an id encodes"));
    }

    /// Returns the agent's name for the record type, if this event replaces an `unknown` one.
    pub fn understood(&self) -> Option<String> {
        self.metadata.get(UNDERSTOOD)?.read().ok()
    }

    /// Whether both drafts agree in everything but the observation: its time, source and
    /// confidence.
    pub fn has_same_content(&self, other: &Draft) -> bool {
        // Destructured without `..`, so that a new field must be placed on one side or the other.
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
        // Texts are compared in their written form: an event that was read back from the journal
        // equals the draft it was written from.
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

/// Returns an optional text as the envelope writes it: an empty text is absent.
pub(crate) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Deref for Event {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.draft
    }
}
