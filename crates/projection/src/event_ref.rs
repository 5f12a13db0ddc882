//! A reference to an event, with what a verdict needs to know of it.

use event::{Confidence, Event, EventId, Source, Time};
use serde::{Deserialize, Serialize};

/// An event that a verdict stands on: the start of a turn, its end, a question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventRef {
    pub event_id: EventId,
    /// When it happened, for ages: never later than it was observed, so that an agent's clock that
    /// is ahead does not make its events younger than they are.
    pub at: Time,
    /// When it happened by the agent's own clock, for the order of events.
    pub created_at: Time,
    pub source: Source,
    pub confidence: Confidence,
}

impl EventRef {
    pub(crate) fn from_event(event: &Event) -> EventRef {
        EventRef {
            event_id: event.id,
            at: event.created_at.min(event.observed_at),
            created_at: event.created_at,
            source: event.source.clone(),
            confidence: event.confidence.clone(),
        }
    }

    /// The same reference with less confidence, for a conclusion that the event does not state.
    pub(crate) fn at_most_medium(self) -> EventRef {
        EventRef { confidence: at_most_medium(self.confidence), ..self }
    }
}

/// The confidence of what is only concluded.
pub(crate) fn at_most_medium(confidence: Confidence) -> Confidence {
    match confidence {
        Confidence::High => Confidence::Medium,
        lower => lower,
    }
}
