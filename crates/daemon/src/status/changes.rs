//! Which statuses have changed, for readers that follow them one by one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::{Confidence, SessionId};
use journal::SubscriptionWaker;
use projection::Projection;
use projection::status::{Reason, Status};

use super::tracker::SessionStatus;

/// The last status of each session, with the order in which they changed.
#[derive(Default)]
pub(crate) struct StatusChanges {
    state: Mutex<ChangesState>,
    waker: SubscriptionWaker,
}

/// The status of a session after one of its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AssessedStatus {
    pub session: SessionId,
    /// The last event that the status takes into account. A reader that has seen a later event must
    /// not act on it.
    pub seq: u64,
    pub status: Status,
    pub reason: Reason,
    pub confidence: Confidence,
    /// The strongest evidence: the source that stated it, and what it stated.
    pub source: String,
    pub what: String,
}

/// How far a reader has followed the changes.
#[derive(Default)]
pub(crate) struct ChangesCursor(u64);

#[derive(Default)]
struct ChangesState {
    version: u64,
    sessions: BTreeMap<SessionId, (u64, AssessedStatus)>,
}

impl StatusChanges {
    /// Ends the waits of the one reader whenever a status has changed.
    pub(crate) fn waker(&self) -> &SubscriptionWaker {
        &self.waker
    }

    /// The statuses that have changed since the cursor's last call, in the order of their changes.
    pub(crate) fn since(&self, cursor: &mut ChangesCursor) -> Vec<AssessedStatus> {
        let state = self.lock();
        // Asked with each published event, so the usual case has to be cheap.
        if state.version == cursor.0 {
            return Vec::new();
        }
        let changed = state.sessions.values().filter(|(version, _)| *version > cursor.0);
        let mut changed: Vec<&(u64, AssessedStatus)> = changed.collect();
        changed.sort_by_key(|(version, _)| *version);
        cursor.0 = state.version;
        changed.into_iter().map(|(_, assessed)| assessed.clone()).collect()
    }

    pub(super) fn add(&self, statuses: &[SessionStatus]) {
        let mut state = self.lock();
        let before = state.version;
        for assessed in statuses.iter().map(AssessedStatus::from_status) {
            let known = state.sessions.get(&assessed.session);
            if known.is_none_or(|(_, known)| *known != assessed) {
                state.version += 1;
                let version = state.version;
                state.sessions.insert(assessed.session.clone(), (version, assessed));
            }
        }
        let has_changed = state.version != before;
        drop(state);
        if has_changed {
            self.waker.wake();
        }
    }

    /// Forgets all statuses: nothing keeps them current any more. Versions go on, so that a cursor
    /// stays valid.
    pub(super) fn clear(&self) {
        self.lock().sessions.clear();
    }

    fn lock(&self) -> MutexGuard<'_, ChangesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AssessedStatus {
    fn from_status(status: &SessionStatus) -> AssessedStatus {
        let SessionStatus { info, verdict, state, .. } = status;
        let evidence = verdict.evidence.first();
        AssessedStatus {
            session: info.id.clone(),
            seq: state.seq(),
            status: verdict.status,
            reason: verdict.reason,
            confidence: verdict.confidence.clone(),
            source: evidence.map(|evidence| evidence.source.clone()).unwrap_or_default(),
            what: evidence.map(|evidence| evidence.what.clone()).unwrap_or_default(),
        }
    }
}
