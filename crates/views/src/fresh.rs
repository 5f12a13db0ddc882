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

/// The states of sessions that are being recorded. `None` marks a session whose saved state ends
/// before the events that are committed now, so that the log has to fill the gap.
pub struct FreshViews<P>(HashMap<SessionId, Option<P>>);

impl<P> Default for FreshViews<P> {
    fn default() -> FreshViews<P> {
        FreshViews(HashMap::new())
    }
}

impl<P: Projection + Clone> FreshViews<P> {
    /// Takes an event that was just committed.
    pub fn apply(&mut self, journal: &Journal, seq: u64, event: &Draft) {
        let session = &event.session_id;
        if !self.0.contains_key(session) {
            // A saved state that cannot be read now must not stop the recording.
            let saved = if seq > 1 { load_saved(journal, session).ok().flatten() } else { None };
            self.0.insert(session.clone(), Some(saved.unwrap_or_default()));
        }
        let entry = self.0.get_mut(session).expect("the entry was just inserted");
        let Some(state) = entry else { return };
        if state.seq() + 1 == seq {
            state.apply_committed(seq, event);
        } else if state.seq() < seq {
            // Folding the gap here would let the agent's next line wait for a long log. The state
            // is given up, and the next save continues from the one that is saved.
            *entry = None;
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

    /// Forgets all states if there are too many, without saving them.
    pub fn forget_excess(&mut self) {
        if self.0.len() > SESSIONS_MAX {
            self.0.clear();
        }
    }

    /// Copies the states of these sessions, as far as they were folded, and forgets all others.
    pub fn snapshot(&mut self, sessions: &BTreeSet<SessionId>) -> Vec<(SessionId, Option<P>)> {
        let state = |session: &SessionId| self.0.get(session).cloned().flatten();
        let copies = sessions.iter().map(|session| (session.clone(), state(session))).collect();
        // A session with a gap is loaded again with its next event: by then it may be saved.
        self.0.retain(|session, state| state.is_some() && sessions.contains(session));
        copies
    }

    /// Brings the states of these sessions up to date, saves and forgets them.
    pub fn save<'a>(
        &mut self,
        journal: &Journal,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<(), ReadError> {
        let mut take = |session: &SessionId| self.0.remove(session).flatten();
        let states = sessions.into_iter().map(|session| (session.clone(), take(session)));
        save_current(journal, states, |_| true)
    }
}

/// Brings the states of wanted sessions up to date and saves those that are not saved yet. Sessions
/// that were deleted meanwhile are left out.
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
        let (state, saved_seq) = match state {
            Some(state) => (Some(state), None),
            None => {
                let saved: Option<P> = load_saved(journal, &session)?;
                let saved_seq = saved.as_ref().map(P::seq);
                (saved, saved_seq)
            }
        };
        let state = catch_up(journal, &info, state)?;
        // Saved already, when there were too many at once, and nothing was recorded since.
        if saved_seq == Some(state.seq()) {
            continue;
        }
        current.push((session, state));
        if current.len() == SAVED_AT_ONCE {
            save_all(journal, current.drain(..))?;
        }
    }
    save_all(journal, current)
}
