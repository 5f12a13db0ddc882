//! What all projections have in common, so that one cache can hold, continue and save any of them.

use event::{Draft, Event};

/// A value folded from the events of one session, in order.
///
/// Folding is deterministic: a state that was saved at a `seq`, loaded and continued equals one
/// that was folded from the first event. So a saved state may be late, lost or deleted; the log
/// has the rest.
pub trait Projection: Default {
    /// The name under which states are saved beside the log. It is part of the stored format.
    const NAME: &'static str;

    /// How many of the newest events the state depends on, if not on all of them. A state that is
    /// further behind is not continued; folding the newest events from the default gives the same.
    const WINDOW: Option<u64> = None;

    /// Whether the state holds text that is shown to others, so that the events must be redacted
    /// before they are applied.
    const IS_REDACTED: bool = false;

    /// How many events a reader folds before it saves the state for the next one. Saving waits for
    /// the right to write, so fewer events are cheaper to fold again. `None` for a projection that
    /// is never saved.
    const SAVE_AFTER: Option<u64> = None;

    /// How many events a reader folds into this state before it saves the result. More than
    /// `SAVE_AFTER` for a state that grows with its session, so that all saves together write so
    /// many bytes per event at any length.
    fn save_after(&self) -> Option<u64> {
        Self::SAVE_AFTER
    }

    /// The `seq` of the last event that was applied; 0 before the first.
    fn seq(&self) -> u64;

    /// Takes the next event. An event that was applied before changes nothing.
    fn apply(&mut self, event: &Event);

    /// Takes an event that was just committed, from the parts that the recorder holds.
    fn apply_committed(&mut self, seq: u64, draft: &Draft) {
        self.apply(&draft.clone().with_seq(seq));
    }

    /// The state as bytes for [`Projection::load`], or `None` for a projection that is never saved
    /// because folding its window again is cheap.
    fn save(&self) -> Option<Vec<u8>>;

    /// Continues from saved bytes. A projection that is saved has a `VERSION` of its shape and of
    /// the rules behind it; bytes of another version give `None`, and the log is folded from its
    /// beginning.
    fn load(saved: &[u8]) -> Option<Self>;
}
