//! How a view reaches back into the log it is a view of.

use event::{Event, EventId};
use journal::ReadError;

/// Random access to the events of one session: all that a view has taken, the one it is taking
/// now, perhaps more.
pub trait EventLog {
    /// Calls `each` with the events from `from_seq` to `to_seq`, both included, in order.
    fn read(
        &self,
        from_seq: u64,
        to_seq: u64,
        each: &mut dyn FnMut(&Event),
    ) -> Result<(), ReadError>;

    /// The number of an event, if the session has it.
    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError>;
}

impl<L: EventLog + ?Sized> EventLog for &L {
    fn read(
        &self,
        from_seq: u64,
        to_seq: u64,
        each: &mut dyn FnMut(&Event),
    ) -> Result<(), ReadError> {
        (**self).read(from_seq, to_seq, each)
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        (**self).seq_of(id)
    }
}

impl dyn EventLog + '_ {
    /// One event, or none where the log ends before it.
    pub(crate) fn event(&self, seq: u64) -> Result<Option<Event>, ReadError> {
        let mut found = None;
        self.read(seq, seq, &mut |event| found = Some(event.clone()))?;
        Ok(found)
    }
}
