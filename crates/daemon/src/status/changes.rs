//! Which statuses have changed, for readers that follow them one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// What has changed since a reader's last call.
#[derive(Default)]
pub(crate) struct StatusNews {
    /// In the order of their changes.
    pub assessed: Vec<AssessedStatus>,
    /// All sessions that were listed, if they were listed anew.
    pub listed: Option<Arc<BTreeSet<SessionId>>>,
}

#[derive(Default)]
struct ChangesState {
    version: u64,
    sessions: BTreeMap<SessionId, (u64, AssessedStatus)>,
    /// The last list of all sessions, and its version.
    listed: Option<(u64, Arc<BTreeSet<SessionId>>)>,
}

impl StatusChanges {
    /// Ends the waits of the one reader whenever a status has changed.
    pub(crate) fn waker(&self) -> &SubscriptionWaker {
        &self.waker
    }

    /// What has changed since the cursor's last call.
    pub(crate) fn since(&self, cursor: &mut ChangesCursor) -> StatusNews {
        let state = self.lock();
        // Asked with each published event, so the usual case has to be cheap.
        if state.version == cursor.0 {
            return StatusNews::default();
        }
        let changed = state.sessions.values().filter(|(version, _)| *version > cursor.0);
        let mut changed: Vec<&(u64, AssessedStatus)> = changed.collect();
        changed.sort_by_key(|(version, _)| *version);
        let listed = state.listed.as_ref().filter(|(version, _)| *version > cursor.0);
        let listed = listed.map(|(_, listed)| Arc::clone(listed));
        cursor.0 = state.version;
        let assessed = changed.into_iter().map(|(_, assessed)| assessed.clone()).collect();
        StatusNews { assessed, listed }
    }

    /// Takes over the statuses of some sessions.
    pub(super) fn add(&self, statuses: &[SessionStatus]) {
        let mut state = self.lock();
        let before = state.version;
        state.add(statuses);
        let has_changed = state.version != before;
        drop(state);
        if has_changed {
            self.waker.wake();
        }
    }

    /// Takes over the statuses of all sessions, and forgets those that are not listed any more.
    pub(super) fn replace_all(&self, statuses: &[SessionStatus]) {
        let listed: BTreeSet<SessionId> =
            statuses.iter().map(|status| status.info.id.clone()).collect();
        let mut state = self.lock();
        state.add(statuses);
        state.sessions.retain(|session, _| listed.contains(session));
        state.version += 1;
        state.listed = Some((state.version, Arc::new(listed)));
        drop(state);
        self.waker.wake();
    }

    /// Forgets all statuses: nothing keeps them current any more. Versions go on, so that a cursor
    /// stays valid.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        state.sessions.clear();
        state.listed = None;
    }

    fn lock(&self) -> MutexGuard<'_, ChangesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangesState {
    fn add(&mut self, statuses: &[SessionStatus]) {
        for assessed in statuses.iter().map(AssessedStatus::from_status) {
            let known = self.sessions.get(&assessed.session);
            if known.is_none_or(|(_, known)| *known != assessed) {
                self.version += 1;
                self.sessions.insert(assessed.session.clone(), (self.version, assessed));
            }
        }
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
