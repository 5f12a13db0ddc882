//! The ledger folded into memory, for rebuilding the catalogue.

use std::collections::HashMap;

use event::{SessionId, Time};

use super::ledger::{Ledger, LedgerEntry, LedgerSighting};
use crate::store::{SessionRow, SourceRow};
use crate::{Damage, StorageError};

/// The state after all entries; the last entry of a key counts.
#[derive(Default)]
pub(super) struct LedgerState {
    pub sources: HashMap<String, String>,
    pub consumers: HashMap<String, u64>,
    /// Entries of the kind `Sighting`.
    pub sightings: Vec<LedgerSighting>,
    pub sessions: HashMap<SessionId, SessionRow>,
    pub deleted: HashMap<SessionId, Time>,
    /// The newest position that was given when a session was deleted.
    pub tail: u64,
    /// Numbers that were given to lines without numbers, by session and the offset of the first.
    pub runs: HashMap<(SessionId, u64), NumberRun>,
    pub damages: Vec<Damage>,
}

/// Consecutive numbers for consecutive lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberRun {
    pub seq: u64,
    pub to_seq: u64,
    pub position: u64,
}

impl LedgerState {
    /// Reads the ledger from `offset` on.
    pub(super) fn read(ledger: &Ledger, offset: u64) -> Result<LedgerState, StorageError> {
        let mut ledger_state = LedgerState::default();
        ledger_state.damages = ledger.read(offset, |entry| ledger_state.take(entry))?;
        Ok(ledger_state)
    }

    /// Returns the run of numbers that begins with the line at `offset`.
    pub(super) fn run_at(&self, session_id: &SessionId, offset: u64) -> Option<NumberRun> {
        self.runs.get(&(session_id.clone(), offset)).copied()
    }

    pub(super) fn source_rows(&self) -> Vec<SourceRow> {
        let row = |(source_id, position): (&String, &String)| SourceRow {
            source_id: source_id.clone(),
            position: position.clone(),
        };
        self.sources.iter().map(row).collect()
    }

    fn take(&mut self, entry: LedgerEntry) {
        match entry {
            LedgerEntry::Source { source_id, position } => {
                self.sources.insert(source_id, position);
            }
            LedgerEntry::Consumer { name, position } => {
                self.consumers.insert(name, position);
            }
            LedgerEntry::Sighting(sighting) => self.sightings.push(sighting),
            LedgerEntry::Session { session } => {
                self.sessions.insert(session.id.clone(), *session);
            }
            LedgerEntry::Deleted { session_id, at, tail, .. } => {
                // The rows of a deleted session must not come back. Its sightings stay in the list:
                // staging skips them, or deletes them with the events of the session.
                self.sessions.remove(&session_id);
                self.deleted.insert(session_id, at);
                // The events with these positions are gone from the files, so only this entry keeps
                // the positions from being given again.
                self.tail = self.tail.max(tail);
            }
            LedgerEntry::Adopted { session_id, offset, from_seq, to_seq, position } => {
                self.runs
                    .insert((session_id, offset), NumberRun { seq: from_seq, to_seq, position });
            }
        }
    }
}

impl NumberRun {
    /// Returns `seq` and position of the next line; `None` when the run is over.
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        // Both rise by one per line: a run is written only while they do.
        let numbers = (self.seq, self.position);
        if self.seq > self.to_seq {
            return None;
        }
        self.seq += 1;
        self.position += 1;
        Some(numbers)
    }
}
