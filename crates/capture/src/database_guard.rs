//! What a query of an agent's database may cost, and which databases wait because one cost more.
//!
//! A database is foreign input that SQLite runs: a generated column, a damaged tree or a lock can
//! make one query last for ever. Each query has a limit, and a database that exceeds it is left alone for
//! a while, so that the other sources are read meanwhile.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::Time;

use crate::agent::SourceForm;
use crate::error::{Warning, WarningKind};
use crate::limit::{
    DATABASE_WAIT_FIRST_MILLIS, DATABASE_WAIT_MAX_MILLIS, LOCK_ASKS_MAX, QUERY_MILLIS_MAX,
    QUERY_STEPS_MAX, RECORD_BYTES_MAX,
};
use crate::source::Source;
use crate::stop_flag::StopFlag;

/// What one query may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryLimit {
    /// Steps of SQLite's virtual machine.
    pub steps_max: u64,
    pub time_max: Duration,
    /// Bytes of one row.
    pub row_bytes_max: usize,
    /// How often a locked database is asked.
    pub lock_asks_max: u32,
}

impl Default for QueryLimit {
    fn default() -> QueryLimit {
        QueryLimit {
            steps_max: QUERY_STEPS_MAX,
            time_max: Duration::from_millis(QUERY_MILLIS_MAX),
            row_bytes_max: RECORD_BYTES_MAX,
            lock_asks_max: LOCK_ASKS_MAX,
        }
    }
}

/// The limit, and the databases that exceeded it. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DatabaseGuard {
    limit: QueryLimit,
    waits: Arc<Mutex<BTreeMap<PathBuf, DatabaseWait>>>,
}

#[derive(Debug)]
struct DatabaseWait {
    warning: Warning,
    until: Time,
    tries: u32,
}

impl DatabaseGuard {
    pub fn new(limit: QueryLimit) -> DatabaseGuard {
        DatabaseGuard { limit, waits: Arc::default() }
    }

    /// The databases that are tried later, each with the reason.
    pub fn waiting(&self) -> Vec<Warning> {
        self.lock().values().map(|wait| wait.warning.clone()).collect()
    }

    /// Why a database is not looked at now; `None` if it may be.
    pub(crate) fn reason_to_wait(&self, path: &Path, now: Time) -> Option<Warning> {
        let waits = self.lock();
        waits.get(path).filter(|wait| now < wait.until).map(|wait| wait.warning.clone())
    }

    /// Whether a database failed, and was not read since.
    pub(crate) fn is_waiting(&self, path: &Path) -> bool {
        self.lock().contains_key(path)
    }

    /// Lets a database wait, the longer the more often it failed. Returns the warning to give.
    pub(crate) fn note_failure(
        &self,
        provider: &'static str,
        path: &Path,
        error: &io::Error,
        now: Time,
    ) -> Warning {
        let mut waits = self.lock();
        let tries = waits.get(path).map_or(0, |wait| wait.tries + 1);
        // From this power on the longest wait is reached anyway.
        let millis = DATABASE_WAIT_FIRST_MILLIS << tries.min(16);
        let millis = millis.min(DATABASE_WAIT_MAX_MILLIS);
        let until = Time::from_nanos(now.nanos() + i128::from(millis) * 1_000_000);
        // Without the time of the next try: a warning is given once as long as its words stay.
        let message = format!("{error}; it is tried again later, and other sources are read");
        let warning = Warning::new(WarningKind::Unreadable, provider, path, message);
        waits.insert(path.to_owned(), DatabaseWait { warning: warning.clone(), until, tries });
        warning
    }

    /// Forgets databases whose wait was over at `begun` and that did not fail since. Returns them.
    pub(crate) fn forget_cured(
        &self,
        begun: Time,
        is_tried: impl Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let mut waits = self.lock();
        let is_cured =
            |path: &PathBuf, wait: &mut DatabaseWait| wait.until <= begun && is_tried(path);
        waits.extract_if(.., is_cured).map(|(path, _)| path).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, DatabaseWait>> {
        // The map is whole between any two statements above.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One look at databases: under which guard, what may end it, and when.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub guard: &'a DatabaseGuard,
    pub stop: &'a StopFlag,
    pub now: Time,
}

impl Look<'_> {
    pub(crate) fn limit(&self) -> QueryLimit {
        self.guard.limit
    }

    /// Why a source is not looked at now; `None` if it may be.
    pub(crate) fn reason_to_wait(&self, source: &Source) -> Option<Warning> {
        let may_be_costly = matches!(source.form, SourceForm::Rows | SourceForm::PackedLines);
        may_be_costly.then(|| self.guard.reason_to_wait(&source.path, self.now)).flatten()
    }
}

/// Why a look at a database ended early. It travels inside an [`io::Error`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum LookError {
    #[error("it was asked to stop")]
    Stopped,
    #[error("reading it took too long and was stopped")]
    Overran,
    #[error("it is locked by another program")]
    Locked,
    #[error("`{name}` in it is a {kind}, and only tables are read")]
    NotATable { name: String, kind: String },
    #[error("its list of sessions is longer than any may be")]
    ListTooLong,
    #[error("it unpacks to far more than a transcript would")]
    Unpacked,
}

impl LookError {
    /// The reason inside an error, if a look ended early.
    pub(crate) fn find_in(error: &io::Error) -> Option<&LookError> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<LookError> for io::Error {
    fn from(error: LookError) -> io::Error {
        io::Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let guard = DatabaseGuard::default();
        let path = Path::new("/home/dev/agent.db");
        let mut now = Time::EPOCH;
        let mut waits = Vec::new();
        for _ in 0..9 {
            guard.note_failure("parrot", path, &LookError::Overran.into(), now);
            let until = guard.lock()[path].until;
            assert!(guard.reason_to_wait(path, now).is_some());
            assert_eq!(guard.reason_to_wait(path, until), None);
            waits.push((until.nanos() - now.nanos()) / 1_000_000_000);
            now = until;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!(guard.forget_cured(now, |_| true), [path]);
        assert_eq!(guard.waiting(), []);
    }
}
