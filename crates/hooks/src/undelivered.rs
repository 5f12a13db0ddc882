//! Messages that no daemon took, on disk: each in one place, the spool or the folder of signals.

use std::io;
use std::path::Path;

use event::HookMessage;

use crate::signals::Signals;
use crate::spool::Spool;

/// The two folders for messages that no daemon took.
#[derive(Debug)]
pub struct Undelivered {
    pub spool: Spool,
    pub signals: Signals,
}

/// Why a message could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the spool is full")]
    SpoolFull,
    #[error("the spool could not be written")]
    Spool(#[source] io::Error),
    #[error("the signal could not be written")]
    Signal(#[source] io::Error),
}

impl Undelivered {
    /// The folders of the journal in this folder.
    pub fn in_journal(journal: &Path) -> Undelivered {
        let (spool, signals) = (Spool::in_journal(journal), Signals::in_journal(journal));
        Undelivered { spool, signals }
    }

    /// Creates both folders.
    pub fn create(&self) -> io::Result<()> {
        self.signals.create().and_then(|()| self.spool.create())
    }

    /// Stores the whole message in the spool. A spool that takes no more still leaves the signal,
    /// which needs no room there.
    pub fn store_message(&self, message: &HookMessage) -> Result<(), StoreError> {
        let error = match self.spool.add(message) {
            Ok(true) => return Ok(()),
            Ok(false) => StoreError::SpoolFull,
            Err(error) => StoreError::Spool(error),
        };
        // The signal fits a few bytes and tells at least that the turn or session has ended.
        self.store_signal(message)?;
        Err(error)
    }

    /// Stores the signal of a message, if it has one, in the folder of signals.
    pub fn store_signal(&self, message: &HookMessage) -> Result<(), StoreError> {
        self.signals.add(message).map_err(StoreError::Signal)
    }
}
