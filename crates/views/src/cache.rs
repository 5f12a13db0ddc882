//! States that were asked for, held in memory: a second look costs only the events recorded since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::SessionId;
use journal::{Journal, ReadError, SessionInfo};
use projection::Projection;

use crate::saved::{continue_and_save, load_saved};

/// Entries that are compared when one has to make room. The oldest of a small sample is a good
/// enough choice, takes the same time for any capacity, and, unlike the oldest of all, keeps a part
/// of the entries when callers walk through more sessions than fit.
const EVICTION_SAMPLE: usize = 8;

/// The newest state of up to `capacity` sessions, shared between threads.
pub struct ViewCache<P> {
    capacity: usize,
    entries: Mutex<Entries<P>>,
}

struct Entries<P> {
    by_session: HashMap<SessionId, Entry<P>>,
    /// Counts every use, so that entries can be ordered by their last one.
    uses: u64,
}

struct Entry<P> {
    state: Arc<P>,
    used_at: u64,
}

impl<P: Projection + Clone> ViewCache<P> {
    pub fn with_capacity(capacity: usize) -> ViewCache<P> {
        let entries = Entries { by_session: HashMap::new(), uses: 0 };
        ViewCache { capacity, entries: Mutex::new(entries) }
    }

    /// The state of a session as of now.
    pub fn get(&self, journal: &Journal, session: &SessionInfo) -> Result<Arc<P>, ReadError> {
        // Taken out and not copied: a state may be large, and a single owner can continue it in
        // place.
        let held = {
            let mut entries = self.entries();
            // A hit stays in place: a second caller must not find a hole and fold again.
            if let Some(state) = entries.get_current(session) {
                return Ok(state);
            }
            entries.take(&session.id)
        };
        // The lock is not held while a log is read. The entry was taken out, so the state is
        // continued in place unless another caller still uses it.
        let known = match held {
            Some(state) => Some(Arc::unwrap_or_clone(state)),
            None => load_saved(journal, &session.id)?,
        };
        let state = Arc::new(continue_and_save(journal, session, known)?);
        self.put(session, Arc::clone(&state));
        Ok(state)
    }

    fn put(&self, session: &SessionInfo, state: Arc<P>) {
        let mut entries = self.entries();
        // Of two callers that folded the same session at once, the one that saw more is right.
        let is_older = |entry: &Entry<P>| {
            entry.state.seq() > state.seq() && entry.state.seq() <= session.tail_seq
        };
        if entries.by_session.get(&session.id).is_some_and(is_older) {
            return;
        }
        if entries.by_session.len() >= self.capacity
            && !entries.by_session.contains_key(&session.id)
        {
            entries.evict();
        }
        entries.uses += 1;
        let used_at = entries.uses;
        entries.by_session.insert(session.id.clone(), Entry { state, used_at });
    }

    fn entries(&self) -> MutexGuard<'_, Entries<P>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Projection> Entries<P> {
    /// The state of a session, if it is current.
    fn get_current(&mut self, session: &SessionInfo) -> Option<Arc<P>> {
        let entry = self.by_session.get_mut(&session.id)?;
        if entry.state.seq() != session.tail_seq {
            return None;
        }
        self.uses += 1;
        entry.used_at = self.uses;
        Some(Arc::clone(&entry.state))
    }

    fn take(&mut self, session: &SessionId) -> Option<Arc<P>> {
        self.by_session.remove(session).map(|entry| entry.state)
    }

    fn evict(&mut self) {
        // The order of a hash map is arbitrary, so its first entries are a sample.
        let sample = self.by_session.iter().take(EVICTION_SAMPLE);
        let oldest = sample.min_by_key(|(_, entry)| entry.used_at);
        if let Some(session) = oldest.map(|(session, _)| session.clone()) {
            self.by_session.remove(&session);
        }
    }
}
