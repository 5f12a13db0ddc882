//! States that are folded while events are recorded, from the committed events themselves, so that
//! nothing that was just written is read back to count it.

use std::collections::{BTreeSet, HashMap};

use event::{Draft, SessionId};
use journal::{Journal, ReadError, SessionInfo};
use projection::Projection;

use crate::saved::{SAVED_AT_ONCE, catch_up, load_saved, save_all};

/// Sessions that have their states held while events are recorded. With more, all are saved and
/// forgotten; a session that goes on is loaded again.
const SESSIONS_MAX: usize = 512;

/// The states of sessions that are being recorded.
pub struct FreshViews<P>(HashMap<SessionId, P>);

impl<P> Default for FreshViews<P> {
    fn default() -> FreshViews<P> {
        FreshViews(HashMap::new())
    }
}

impl<P: Projection + Clone> FreshViews<P> {
    /// Takes an event that was just committed. A state that the event does not follow upon stays as
    /// it is, and is continued from the log when it is saved.
    pub fn apply(&mut self, journal: &Journal, seq: u64, event: &Draft) {
        let session = &event.session_id;
        if !self.0.contains_key(session) {
            // A saved state that cannot be read now must not stop the recording.
            let saved = if seq > 1 { load_saved(journal, session).ok().flatten() } else { None };
            self.0.insert(session.clone(), saved.unwrap_or_default());
        }
        let state = self.0.get_mut(session).expect("the state was just inserted");
        // A gap means that another process recorded in between, or that the saved state was late.
        // Reading the gap here would slow the recording down.
        if state.seq() + 1 == seq {
            state.apply_committed(seq, event);
        }
    }

    /// Saves and forgets all states if there are too many.
    pub fn save_excess(&mut self, journal: &Journal) -> Result<(), ReadError> {
        if self.0.len() <= SESSIONS_MAX {
            return Ok(());
        }
        let sessions: Vec<SessionId> = self.0.keys().cloned().collect();
        self.save(journal, &sessions)
    }

    /// Copies the states of these sessions, as far as they were folded, and forgets all others.
    pub fn snapshot(&mut self, sessions: &BTreeSet<SessionId>) -> Vec<(SessionId, Option<P>)> {
        self.0.retain(|session, _| sessions.contains(session));
        sessions.iter().map(|session| (session.clone(), self.0.get(session).cloned())).collect()
    }

    /// Brings the states of these sessions up to date, saves and forgets them.
    pub fn save<'a>(
        &mut self,
        journal: &Journal,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<(), ReadError> {
        let states = sessions.into_iter().map(|session| (session.clone(), self.0.remove(session)));
        save_current(journal, states, |_| true)
    }
}

/// Brings the states of wanted sessions up to date and saves them. Sessions that were deleted
/// meanwhile are left out.
pub fn save_current<P: Projection>(
    journal: &Journal,
    states: impl IntoIterator<Item = (SessionId, Option<P>)>,
    is_wanted: impl Fn(&SessionInfo) -> bool,
) -> Result<(), ReadError> {
    let mut current = Vec::new();
    for (session, state) in states {
        // Asked before the state is used: a view of a deleted session must not be written back.
        let info = match journal.stat(&session) {
            // Deleted meanwhile, or nothing of it was ever recorded as an event.
            Err(ReadError::SessionNotFound(_)) => continue,
            info => info?,
        };
        if !is_wanted(&info) {
            continue;
        }
        let state = match state {
            Some(state) => Some(state),
            None => load_saved(journal, &session)?,
        };
        current.push((session, catch_up(journal, &info, state)?));
        if current.len() == SAVED_AT_ONCE {
            save_all(journal, current.drain(..))?;
        }
    }
    save_all(journal, current)
}
