//! One projection of one session as of now: loaded from what is saved beside the log, continued
//! with the events recorded since, and saved again where folding took long.
//!
//! A saved state may be late or missing. The log has the rest, so a state is never wrong, only more
//! or less expensive to bring up to date.

use std::collections::HashMap;

use event::SessionId;
use journal::{Journal, ReadError, Selection, SessionInfo, View};
use projection::{Projection, redacted};
use redact::Redactor;

/// States that are saved in one transaction.
pub(crate) const SAVED_AT_ONCE: usize = 256;

/// Events that are folded while others wait for a lock. A state that is further behind is brought
/// up to date before the lock is taken: see [`prepare_state`].
const NEAR_EVENTS: u64 = 2_000;

/// The state of a session as of now, saved again if the projection asks for it.
pub fn load_current<P: Projection>(
    journal: &Journal,
    session: &SessionInfo,
) -> Result<P, ReadError> {
    let saved: Option<P> = load_saved(journal, &session.id)?;
    continue_and_save(journal, session, saved)
}

/// The state of a session that may be deleted, before or meanwhile: then `None`.
pub fn current_if_exists<P: Projection>(
    journal: &Journal,
    session: &SessionId,
) -> Result<Option<P>, ReadError> {
    match journal.stat(session).and_then(|session| load_current(journal, &session)) {
        Err(ReadError::SessionNotFound(_)) => Ok(None),
        state => state.map(Some),
    }
}

/// Continues a state up to the last event of its session; `None` starts from the first event.
pub fn catch_up<P: Projection>(
    journal: &Journal,
    session: &SessionInfo,
    state: Option<P>,
) -> Result<P, ReadError> {
    let state = discard_ahead(journal, session, state)?;
    // Events before the window change nothing, so a state that ends before it is not continued.
    let window_starts_after = P::WINDOW.map_or(0, |events| session.tail_seq.saturating_sub(events));
    let mut state = state.filter(|state| state.seq() >= window_starts_after).unwrap_or_default();
    if state.seq() >= session.tail_seq {
        return Ok(state);
    }
    let after = state.seq().max(window_starts_after);
    let mut redactor = P::IS_REDACTED.then(Redactor::new);
    for event in journal.events(&session.id, Selection::after(after))? {
        match &mut redactor {
            Some(redactor) => state.apply(&redacted(&event?, &mut |text| redactor.redact(text))),
            None => state.apply(&event?),
        }
    }
    Ok(state)
}

/// Whether a state that was folded up to `seq` is current, or so nearly that continuing it is
/// quick.
pub fn is_nearly_current(session: &SessionInfo, seq: u64) -> bool {
    // A state that is ahead may have to be folded from the first event.
    seq <= session.tail_seq && session.tail_seq - seq <= NEAR_EVENTS
}

/// Folds and saves the state of a session that is far behind, so that a caller which continues it
/// under a lock does not hold the lock while a long log is read.
pub fn prepare_state<P: Projection>(
    journal: &Journal,
    session: &SessionInfo,
) -> Result<(), ReadError> {
    let saved: Option<P> = load_saved(journal, &session.id)?;
    if is_nearly_current(session, saved.as_ref().map_or(0, P::seq)) {
        return Ok(());
    }
    continue_and_save(journal, session, saved).map(drop)
}

/// The saved state of a session, however far it is behind.
pub fn load_saved<P: Projection>(
    journal: &Journal,
    session: &SessionId,
) -> Result<Option<P>, ReadError> {
    Ok(journal.saved_view(session, P::NAME)?.and_then(|(_, bytes)| P::load(&bytes)))
}

/// Saves states, each up to where it was folded.
pub fn save_all<P: Projection>(
    journal: &Journal,
    states: impl IntoIterator<Item = (SessionId, P)>,
) -> Result<(), ReadError> {
    let mut encoded: Vec<(SessionId, u64, Vec<u8>)> = Vec::new();
    for (session, state) in states {
        // `None` for a projection that is never saved.
        encoded.extend(state.save().map(|bytes| (session, state.seq(), bytes)));
        if encoded.len() == SAVED_AT_ONCE {
            save_encoded::<P>(journal, &encoded)?;
            encoded.clear();
        }
    }
    save_encoded::<P>(journal, &encoded)
}

/// All saved states of one projection, loaded at once and continued where they are asked for.
pub struct SavedViews<P>(HashMap<SessionId, P>);

impl<P: Projection> SavedViews<P> {
    pub fn load(journal: &Journal) -> Result<SavedViews<P>, ReadError> {
        let saved = journal.saved_views(P::NAME)?.into_iter();
        // A state of another version does not load, and is then folded anew from the log.
        let states = saved.filter_map(|(session, _, bytes)| Some((session, P::load(&bytes)?)));
        Ok(SavedViews(states.collect()))
    }

    /// Takes the state of a session out and brings it up to date, saved again if the projection
    /// asks for it.
    pub fn take(&mut self, journal: &Journal, session: &SessionInfo) -> Result<P, ReadError> {
        continue_and_save(journal, session, self.0.remove(&session.id))
    }
}

/// Continues a state, and saves it if so many events were folded that the next reader should not
/// fold them again.
pub(crate) fn continue_and_save<P: Projection>(
    journal: &Journal,
    session: &SessionInfo,
    state: Option<P>,
) -> Result<P, ReadError> {
    // First, so that a state that is given up counts as nothing and is replaced on disk.
    let state = discard_ahead(journal, session, state)?;
    let before = state.as_ref().map_or(0, P::seq);
    let save_after = state.as_ref().map_or(P::SAVE_AFTER, P::save_after);
    let state: P = catch_up(journal, session, state)?;
    // Saturating: a state that was ahead of a replaced log is folded anew and may end before it.
    let folded = state.seq() - before;
    if save_after.is_some_and(|events| folded >= events)
        && let Some(bytes) = state.save()
    {
        // A journal that is only read refuses; the next reader then folds the events again.
        let _ = journal.save_view(&session.id, P::NAME, state.seq(), &bytes);
    }
    Ok(state)
}

/// Gives up a state that is ahead of its log: an older copy of the journal was put in place. A state
/// that is only ahead of what the caller knew of the session stays.
fn discard_ahead<P: Projection>(
    journal: &Journal,
    session: &SessionInfo,
    state: Option<P>,
) -> Result<Option<P>, ReadError> {
    let Some(state) = state else { return Ok(None) };
    let is_ahead =
        state.seq() > session.tail_seq && state.seq() > journal.stat(&session.id)?.tail_seq;
    Ok((!is_ahead).then_some(state))
}

fn save_encoded<P: Projection>(
    journal: &Journal,
    encoded: &[(SessionId, u64, Vec<u8>)],
) -> Result<(), ReadError> {
    // Writing nothing would still wait for the write lock.
    if encoded.is_empty() {
        return Ok(());
    }
    let views: Vec<View<'_>> = encoded
        .iter()
        .map(|(session_id, up_to_seq, bytes)| View { session_id, up_to_seq: *up_to_seq, bytes })
        .collect();
    journal.save_views(P::NAME, &views)
}
