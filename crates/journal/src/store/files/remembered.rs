//! What the ledger says, all of it at once: for making the catalogue anew.

use std::collections::HashMap;

use event::{SessionId, Time};

use super::ledger::{Entry, Ledger};
use crate::store::{SessionRow, SourceRow};
use crate::{Damage, StorageError};

/// The ledger in memory. The last word about a thing counts.
#[derive(Default)]
pub(super) struct Remembered {
    pub sources: HashMap<String, String>,
    pub consumers: HashMap<String, u64>,
    /// Entries that are sightings.
    pub sightings: Vec<Entry>,
    pub sessions: HashMap<SessionId, SessionRow>,
    pub deleted: HashMap<SessionId, Time>,
    /// The newest position that was given when a session was deleted.
    pub tail: u64,
    /// Numbers that strays have got, by session and the offset of the first of them.
    pub runs: HashMap<(SessionId, u64), Run>,
    pub damages: Vec<Damage>,
}

/// Numbers that follow each other, for lines that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub seq: u64,
    pub to_seq: u64,
    pub position: u64,
}

impl Remembered {
    /// Reads the ledger from `offset` on.
    pub(super) fn of(ledger: &Ledger, offset: u64) -> Result<Remembered, StorageError> {
        let mut remembered = Remembered::default();
        remembered.damages = ledger.read(offset, |entry| remembered.take(entry))?;
        Ok(remembered)
    }

    /// The numbers given to the line of a session at `offset`, and to those behind it.
    pub(super) fn run_at(&self, session_id: &SessionId, offset: u64) -> Option<Run> {
        self.runs.get(&(session_id.clone(), offset)).copied()
    }

    pub(super) fn source_rows(&self) -> Vec<SourceRow> {
        let row = |(source_id, position): (&String, &String)| SourceRow {
            source_id: source_id.clone(),
            position: position.clone(),
        };
        self.sources.iter().map(row).collect()
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Source { source_id, position } => {
                self.sources.insert(source_id, position);
            }
            Entry::Consumer { name, position } => {
                self.consumers.insert(name, position);
            }
            Entry::Sighting { .. } => self.sightings.push(entry),
            Entry::Session { session } => {
                self.sessions.insert(session.id.clone(), *session);
            }
            Entry::Deleted { session_id, at, tail, .. } => {
                self.sessions.remove(&session_id);
                self.deleted.insert(session_id, at);
                self.tail = self.tail.max(tail);
            }
            Entry::Adopted { session_id, offset, from_seq, to_seq, position } => {
                self.runs.insert((session_id, offset), Run { seq: from_seq, to_seq, position });
            }
        }
    }
}

impl Run {
    /// The numbers of the next line; `None` when the run is over.
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        let numbers = (self.seq, self.position);
        if self.seq > self.to_seq {
            return None;
        }
        self.seq += 1;
        self.position += 1;
        Some(numbers)
    }
}
