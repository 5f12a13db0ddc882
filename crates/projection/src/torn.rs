//! Records that were read while their end was missing, and may be read completely later.

use event::{Draft, EventId, Kind};
use serde::{Deserialize, Serialize};

use crate::ring_buffer::RingBuffer;

/// What the parser calls a record without its end.
const TORN: &str = "torn";

/// Torn records that are remembered. The complete account of an older one counts as an amendment,
/// and is not applied.
const TORN_MAX: usize = 8;

/// The torn records of a session, so that their complete accounts are applied as new events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TornRecords(RingBuffer<EventId, TORN_MAX>);

/// How an event relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventNovelty {
    /// No event before it is about the same record.
    First,
    /// It is the content of a record that was torn, or that no adapter had understood.
    Mended(EventId),
    /// It amends an event that was understood: the same fact in more detail.
    Again,
}

impl TornRecords {
    /// Looks at every event in order.
    pub(crate) fn inspect_event(&mut self, event: &Draft) -> EventNovelty {
        if is_torn(event) {
            self.0.push(event.id);
        }
        let Some(amended) = event.amends() else { return EventNovelty::First };
        // A newer adapter read an old record again. Such records are not remembered: the amendment
        // itself says what it mends.
        if event.understood().is_some() {
            return EventNovelty::Mended(amended);
        }
        self.0.take(|torn| *torn == amended).map_or(EventNovelty::Again, EventNovelty::Mended)
    }
}

pub(crate) fn is_torn(event: &Draft) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct UnknownEventHead {
        error: Option<String>,
    }
    event.kind == Kind::Unknown
        && event
            .data
            .read::<UnknownEventHead>()
            .is_ok_and(|head| head.error.as_deref() == Some(TORN))
}
