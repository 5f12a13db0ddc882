//! The state of the committed log, maintained event by event.
//!
//! Not here: queued events that are not committed yet (`append`).

use std::sync::{Arc, Mutex, PoisonError, Weak};

use event::{Event, SessionId};
use journal::{ReadError, Selection};

use crate::reader::SessionReader;
use crate::saved::{self, LastSave, LoadedState};
use crate::view::{View, ViewOptions};
use crate::{LiveState, Reduced, Reducer, SessionError};

/// The folded state of a session.
pub(crate) struct FoldedState {
    pub(crate) live: LiveState,
    pub(crate) view: View,
    /// The last event that is known to be recorded, whether it is folded or not.
    pub(crate) known_tail: u64,
    reducers: Vec<Weak<Mutex<dyn Fold>>>,
    /// The last save, also one that failed.
    last_save: LastSave,
}

/// A state of the caller that is maintained with a session.
pub struct Reduction<R: Reducer> {
    reduced: Arc<Mutex<Reduced<R>>>,
}

impl FoldedState {
    /// The state of an empty session.
    pub(crate) fn new(id: SessionId) -> FoldedState {
        FoldedState {
            live: LiveState::new(id),
            view: View::new(ViewOptions::default()),
            known_tail: 0,
            reducers: Vec::new(),
            last_save: LastSave::default(),
        }
    }

    /// Starts with the saved state, if it can be used.
    pub(crate) fn load(&mut self, reader: &SessionReader) -> Result<(), SessionError> {
        if let Some(LoadedState { live, view, save }) = saved::load_state(reader)? {
            self.last_save = save;
            // The saved state is at the recorded events already; the caller catches up with later
            // ones.
            self.known_tail = live.up_to_seq();
            self.live = live;
            self.view = view;
        }
        Ok(())
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.live.up_to_seq() < self.known_tail
    }

    /// Folds committed events in order and reads those that are missing in between.
    pub(crate) fn fold_all(
        &mut self,
        events: &[Event],
        reader: &SessionReader,
    ) -> Result<(), SessionError> {
        for event in events {
            // Another thread may have folded some of them. With a gap before them, all are read
            // below.
            if event.seq == self.live.up_to_seq() + 1 {
                self.fold_event(event, reader)?;
            }
        }
        if self.is_behind() { self.catch_up(reader) } else { Ok(()) }
    }

    /// Reads and folds all events since the last one, of any writer.
    pub(crate) fn catch_up(&mut self, reader: &SessionReader) -> Result<(), SessionError> {
        let after = self.live.up_to_seq();
        let events = match reader.events(Selection::after(after)) {
            Ok(events) => events,
            // The session is empty, so the journal does not know it.
            Err(ReadError::SessionNotFound(_)) if after == 0 => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            self.fold_event(&event?, reader)?;
        }
        self.known_tail = self.known_tail.max(self.live.up_to_seq());
        Ok(())
    }

    fn fold_event(&mut self, event: &Event, reader: &SessionReader) -> Result<(), SessionError> {
        let instead_of = match event.amends() {
            // The amendment replaces a cost that was counted before. The lookup is paid only by
            // amendments.
            Some(first) => reader.cost_before(first, event.seq)?,
            None => None,
        };
        // The view can fail and goes first, so that all states stop at the same event.
        self.view.apply(event, reader)?;
        self.live.apply(event, instead_of);
        self.reducers.retain(|reducer| {
            // The caller has dropped its `Reduction`: nothing reads this state any more.
            let Some(reducer) = reducer.upgrade() else { return false };
            reducer.lock().unwrap_or_else(PoisonError::into_inner).fold(event);
            true
        });
        Ok(())
    }

    /// Saves the state if there are enough new events.
    ///
    /// A failure is ignored, because the saved state only makes opening faster. The next try
    /// comes after as many new events again.
    pub(crate) fn save_if_due(&mut self, reader: &SessionReader) {
        let up_to_seq = self.live.up_to_seq();
        if self.last_save.is_due_again(up_to_seq) {
            let saved = saved::save_state(reader, &self.live, &self.view);
            // Also after a failure, so that a full disk is not tried again with every append.
            self.last_save = LastSave { up_to_seq, bytes: saved.unwrap_or(0) };
        }
    }

    /// Folds all events so far into a state of the caller, and every later one when it comes.
    pub(crate) fn reduce<R>(
        &mut self,
        reducer: R,
        events: impl Iterator<Item = Result<Event, ReadError>>,
    ) -> Result<Reduction<R>, SessionError>
    where
        R: Reducer + Send + 'static,
        R::State: Send,
    {
        let mut reduced = Reduced::new(reducer);
        for event in events {
            reduced.apply(&event?);
        }
        let reduced = Arc::new(Mutex::new(reduced));
        let folded: Arc<Mutex<dyn Fold>> = reduced.clone();
        // Weak: the session must not keep the state of a caller that has gone.
        self.reducers.push(Arc::downgrade(&folded));
        Ok(Reduction { reduced })
    }
}

impl<R: Reducer> Reduction<R> {
    /// Reads the state as it is now.
    pub fn read<T>(&self, read: impl FnOnce(&R::State) -> T) -> T {
        read(self.reduced.lock().unwrap_or_else(PoisonError::into_inner).state())
    }
}

/// A [`Reduced`] of any reducer.
trait Fold: Send {
    fn fold(&mut self, event: &Event);
}

impl<R> Fold for Reduced<R>
where
    R: Reducer + Send,
    R::State: Send,
{
    fn fold(&mut self, event: &Event) {
        self.apply(event);
    }
}
