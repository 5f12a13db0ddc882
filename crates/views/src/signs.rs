//! The state a status is derived from, for each session, saved beside the log.

use std::collections::HashMap;

use event::{SessionId, Time};
use journal::{Journal, ReadError, Selection, SessionInfo, View};
use projection::Projection;
use projection::status::StatusState;

/// A session that was last active longer ago is not saved again.
const LATELY_NANOS: i128 = 24 * 60 * 60 * 1_000_000_000;

/// Sessions whose signs are held in memory while they go on. With more all are forgotten, and those
/// that go on are loaded again.
const FRESH_MAX: usize = 512;

/// The signs of sessions that go on, kept beside the log so that a look costs only what is new.
#[derive(Default)]
pub struct FreshStatuses(HashMap<SessionId, StatusState>);

impl FreshStatuses {
    /// Brings the signs of these sessions up to date and keeps them; not of those that have long
    /// been over.
    pub fn keep<'a>(
        &mut self,
        journal: &Journal,
        sessions: impl IntoIterator<Item = &'a SessionId>,
        now: Time,
    ) -> Result<(), ReadError> {
        if self.0.len() > FRESH_MAX {
            self.0.clear();
        }
        let mut saved = Vec::new();
        for id in sessions {
            let info = match journal.stat(id) {
                // Deleted meanwhile, or never more than a sighting.
                Err(ReadError::SessionNotFound(_)) => continue,
                info => info?,
            };
            if now.nanos() - info.last_event_at.nanos() > LATELY_NANOS {
                continue;
            }
            let known = match self.0.remove(id) {
                Some(signs) => signs,
                None => kept_signs(journal, id)?.unwrap_or_default(),
            };
            let signs = fold_signs(journal, &info, known)?;
            saved.extend(signs.save().map(|saved| (id, signs.seq(), saved)));
            self.0.insert(id.clone(), signs);
        }
        let views: Vec<View<'_>> = saved
            .iter()
            .map(|(session_id, up_to_seq, bytes)| View { session_id, up_to_seq: *up_to_seq, bytes })
            .collect();
        journal.save_views(StatusState::NAME, &views)
    }
}

/// Events that are folded while others wait. With more, they are folded before.
const FAR: u64 = 2_000;

/// Folds and keeps the signs of a session whose log is long and was not folded up to here, so that
/// whoever holds [`Statuses`] for it does not do so while the whole log is read.
pub fn prepare_signs(journal: &Journal, info: &SessionInfo) -> Result<(), ReadError> {
    let known = kept_signs(journal, &info.id)?.unwrap_or_default();
    if info.tail_seq.saturating_sub(known.seq()) <= FAR {
        return Ok(());
    }
    let signs = fold_signs(journal, info, known)?;
    let Some(bytes) = signs.save() else { return Ok(()) };
    let view = View { session_id: &info.id, up_to_seq: signs.seq(), bytes: &bytes };
    journal.save_views(StatusState::NAME, &[view])
}

pub fn kept_signs(journal: &Journal, id: &SessionId) -> Result<Option<StatusState>, ReadError> {
    let saved = journal.saved_view(id, StatusState::NAME)?;
    Ok(saved.and_then(|(_, bytes)| StatusState::load(&bytes)))
}

pub fn fold_signs(
    journal: &Journal,
    info: &SessionInfo,
    kept: StatusState,
) -> Result<StatusState, ReadError> {
    // StatusState that are ahead belong to a log that was put back.
    let mut signs = if kept.seq() <= info.tail_seq { kept } else { StatusState::default() };
    if signs.seq() < info.tail_seq {
        for event in journal.events(&info.id, Selection::after(signs.seq()))? {
            signs.apply(&event?);
        }
    }
    Ok(signs)
}

/// Whether a state that was folded up to `seq` is current, or nearly so.
pub fn is_near(info: &SessionInfo, seq: u64) -> bool {
    info.tail_seq.saturating_sub(seq) <= FAR
}
