//! Rebuilds the catalogue from the files and the ledger, or takes in what they have beyond it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use event::payload::{SessionMode, SessionStarted};
use event::{Cost, Draft, EventId, SessionId, Time};

use super::commit::{COMMIT, LEDGER_LENGTH, length_key};
use super::event_line::{self, EventLine};
use super::ledger::LedgerEntry;
use super::ledger_state::LedgerState;
use super::line_scanner::{LineScanner, LineSpan, line_number};
use super::pass::FileEnd;
use super::recover::packed;
use super::session_file::SessionHeader;
use super::{FilesStore, WriteTx, damage};
use crate::store::{
    ChangeSet, CheckFinding, CommitError, EventRow, ParentRow, RootWords, SessionRow, StoreReader,
};
use crate::{Damage, StorageError};

/// Collects rows inside a write transaction. The commit log is empty meanwhile.
pub(super) struct Reindexer<'v, 'a> {
    pub(super) store: &'a FilesStore,
    pub(super) ledger_state: LedgerState,
    tx: &'v WriteTx<'a>,
    /// Rows that are not yet written to the catalogue.
    staged: StagedRows,
    /// The newest position and session number given so far.
    tail: u64,
    last_number: u32,
    /// Numbers given to unnumbered lines and to sessions without one, for the ledger.
    given_numbers: Vec<LedgerEntry>,
}

#[derive(Default)]
struct StagedRows {
    events: Vec<EventRow>,
    spans: Vec<[u8; 16]>,
    seqs: HashSet<(u32, u64)>,
    ids: HashSet<EventId>,
    positions: HashSet<u64>,
}

/// Rows that are written to the catalogue together.
const STAGED_MAX: usize = 1_024;

impl<'v, 'a> Reindexer<'v, 'a> {
    pub(super) fn new(
        store: &'a FilesStore,
        tx: &'v WriteTx<'a>,
    ) -> Result<Reindexer<'v, 'a>, StorageError> {
        // The whole ledger, also to catch up: the numbers that hand-written lines got earlier, and
        // deletions, may stand anywhere in it.
        let ledger_state = LedgerState::read(&store.ledger, 0)?;
        let tail = tx.tail()?.max(ledger_state.tail);
        let last_number = tx.last_number()?;
        let (staged, given_numbers) = (StagedRows::default(), Vec::new());
        Ok(Reindexer { store, ledger_state, tx, staged, tail, last_number, given_numbers })
    }

    /// Rebuilds the catalogue from scratch.
    pub(super) fn rebuild(mut self) -> Result<(), CommitError> {
        // Deleted with the other meta values and put back at the end: without it the catalogue
        // would count as never built.
        let commit = self.tx.meta_value(COMMIT)?.unwrap_or(0);
        self.tx.delete_all_rows()?;
        self.staged = StagedRows::default();
        let mut sessions = self.sessions_of_files()?;
        let mut left = Vec::new();
        for (index, (row, file)) in sessions.iter_mut().enumerate() {
            let passed = self.pass(row, file, 0)?;
            self.fix_file_end(row, file, passed.end)?;
            if !passed.unnumbered.is_empty() {
                left.push((index, passed.unnumbered));
            }
        }
        // Only after all files: a number that one of them brings must not be given to another line.
        for (index, unnumbered) in left {
            let (row, file) = &mut sessions[index];
            self.number_lines(row, file, unnumbered)?;
        }
        self.flush()?;
        let mut rows: Vec<SessionRow> = sessions.into_iter().map(|(row, _)| row).collect();
        // After those with files, which bring the numbers that their rows have.
        rows.extend(self.sessions_without_files(&rows));
        self.tx.stage(&ChangeSet { sessions: rows, ..ChangeSet::default() }, |_| &[])?;
        self.stage_ledger_state()?;
        self.tx.set_meta(COMMIT, commit)?;
        self.finish()
    }

    /// Takes in what the files and the ledger have beyond the catalogue.
    pub(super) fn catch_up_with(mut self, grown: &[SessionId]) -> Result<(), CommitError> {
        let ledger_length = self.tx.meta_value(LEDGER_LENGTH)?.unwrap_or(0);
        for session_id in grown {
            let Some(file) = self.store.sessions.get(session_id)? else { continue };
            let known = self.tx.session(session_id)?;
            let noted = match &known {
                Some(row) => self.tx.meta_value(&length_key(row.number))?.unwrap_or(0),
                None => 0,
            };
            let failed = self.store.sessions.failed("look at", session_id);
            if file.metadata().map_err(failed)?.len() < noted {
                // Lines are gone, so rows point to the wrong bytes.
                return self.rebuild();
            }
            let mut row = match known {
                Some(row) => row,
                None => {
                    let mut row = self.initial_row(session_id, &file)?;
                    let is_taken = self.tx.session_numbered(row.number)?.is_some();
                    self.assign_number(&mut row, |_| is_taken);
                    row
                }
            };
            let passed = self.pass(&mut row, &file, noted)?;
            self.number_lines(&mut row, &file, passed.unnumbered)?;
            self.fix_file_end(&row, &file, passed.end)?;
            self.tx.stage(&ChangeSet { sessions: vec![row], ..ChangeSet::default() }, |_| &[])?;
        }
        self.flush()?;
        if self.store.ledger.length()? > ledger_length {
            self.ledger_state = LedgerState::read(&self.store.ledger, ledger_length)?;
            let sessions: Vec<_> = self.ledger_state.sessions.values().cloned().collect();
            // Only new entries count here: an older one would undo what commits changed since.
            for row in sessions {
                self.change_ancestry(row)?;
            }
            self.stage_ledger_state()?;
        }
        self.finish()
    }

    /// Whether an event has this position.
    pub(super) fn has_position(&self, position: u64) -> Result<bool, StorageError> {
        Ok(position == 0
            || self.staged.positions.contains(&position)
            || self.tx.has_position(position)?)
    }

    /// Whether the session has an event with this `seq`, or any session has the event of the line.
    pub(super) fn is_taken(
        &self,
        session: u32,
        seq: u64,
        line: Option<&EventLine>,
    ) -> Result<bool, StorageError> {
        if self.staged.seqs.contains(&(session, seq)) || self.tx.has_event(session, seq)? {
            return Ok(true);
        }
        let Some(id) = line.map(|line| line.draft.id) else { return Ok(false) };
        Ok(self.staged.ids.contains(&id) || self.tx.locate(&id)?.is_some())
    }

    pub(super) fn next_position(&mut self) -> u64 {
        self.tail += 1;
        self.tail
    }

    /// Adds a row, and writes all rows when there are enough.
    pub(super) fn push_row(
        &mut self,
        session: u32,
        draft: Draft,
        payload: Option<[u8; 32]>,
        (seq, position): (u64, u64),
        span: LineSpan,
    ) -> Result<(), CommitError> {
        // Files are read one after the other, so positions come in no order.
        self.tail = self.tail.max(position);
        self.staged.seqs.insert((session, seq));
        self.staged.ids.insert(draft.id);
        self.staged.positions.insert(position);
        self.staged.spans.push(span.encode());
        let (draft, packed) = (Arc::new(draft), packed(payload));
        self.staged.events.push(EventRow { position, session, seq, draft, packed });
        // Bounds memory: a rebuild goes over every event of the journal.
        if self.staged.events.len() >= STAGED_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes the collected rows to the catalogue.
    pub(super) fn flush(&mut self) -> Result<(), CommitError> {
        // The sets go with the rows: from here on the catalogue answers what is taken.
        let staged = std::mem::take(&mut self.staged);
        let changes = ChangeSet { events: staged.events, ..ChangeSet::default() };
        self.tx.stage(&changes, |index| &staged.spans[index])
    }

    /// Notes the numbers that a line got. Consecutive ones extend the last entry.
    pub(super) fn note_numbers(
        &mut self,
        row: &SessionRow,
        span: LineSpan,
        (seq, position): (u64, u64),
        follows: bool,
    ) {
        if let Some(LedgerEntry::Adopted { session_id, from_seq, to_seq, position: first, .. }) =
            self.given_numbers.last_mut()
            && follows
            && *session_id == row.id
            && *to_seq + 1 == seq
            // Both numbers have to continue, because `NumberRun::next` counts both up together.
            && *first + (seq - *from_seq) == position
        {
            *to_seq = seq;
            return;
        }
        self.given_numbers.push(LedgerEntry::Adopted {
            session_id: row.id.clone(),
            offset: span.offset,
            from_seq: seq,
            to_seq: seq,
            position,
        });
    }

    /// Reports a line that gets no row.
    pub(super) fn report_skipped(&self, row: &SessionRow, span: LineSpan, why: &str) {
        let path = self.store.sessions.path(&row.id);
        let file = self.store.sessions.get(&row.id).ok().flatten();
        let line = file.and_then(|file| line_number(&file, span.offset).ok());
        let session_id = Some(row.id.clone());
        let damage = Damage { line, session_id, ..damage(&path, Some(span.offset), why) };
        let remedy = "left where it is, and not shown";
        self.store.lock_findings().push(CheckFinding { damage, remedy, repaired: false });
    }

    /// Lists the sessions that have a file, as they were before their first event.
    fn sessions_of_files(&mut self) -> Result<Vec<(SessionRow, Arc<File>)>, StorageError> {
        let mut ids = Vec::new();
        for (path, _) in self.store.sessions.list()? {
            match self.store.identify(&path)? {
                Ok(id) if !self.ledger_state.deleted.contains_key(&id) => ids.push(id),
                // `FilesStore::differences` reports these.
                _ => {}
            }
        }
        // The folder lists its files in no order. Sorted, two rebuilds of the same files give
        // sessions the same new numbers.
        ids.sort();
        let mut sessions: Vec<(SessionRow, Arc<File>)> = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(file) = self.store.sessions.get(&id)? else { continue };
            sessions.push((self.initial_row(&id, &file)?, file));
        }
        // Sessions with a number keep it, so they are numbered first.
        sessions.sort_by_key(|(row, _)| (row.number == 0, row.number));
        let mut taken = HashSet::new();
        for (row, _) in &mut sessions {
            self.assign_number(row, |number| !taken.insert(number));
        }
        Ok(sessions)
    }

    /// Lists the sessions of the ledger that have no event yet, only an ancestry.
    fn sessions_without_files(&mut self, rows: &[SessionRow]) -> Vec<SessionRow> {
        let known: HashSet<&SessionId> = rows.iter().map(|row| &row.id).collect();
        let ledger_state = self.ledger_state.sessions.values();
        let without: Vec<_> =
            ledger_state.filter(|row| !known.contains(&row.id)).cloned().collect();
        let mut taken: HashSet<u32> = rows.iter().map(|row| row.number).collect();
        let number = |mut row: SessionRow| {
            self.assign_number(&mut row, |number| !taken.insert(number));
            row
        };
        without.into_iter().map(number).collect()
    }

    /// Makes the row of a session as it was before its first event, from its file and the ledger.
    /// A session without a number gets 0.
    fn initial_row(&self, id: &SessionId, file: &File) -> Result<SessionRow, StorageError> {
        let mut scan = LineScanner::new(file, 0);
        let failed = self.store.sessions.failed("read", id);
        let (mut header, mut first) = (None, None);
        while let Some(scanned) = scan.next().map_err(&failed)? {
            // Up to the first event that can be read: it follows the header, and damaged lines may
            // stand between.
            header = header.or_else(|| SessionHeader::read(scanned.bytes));
            first = event_line::read(scanned.bytes).ok();
            if first.is_some() {
                break;
            }
        }
        let told = header.and_then(|header| header.session).filter(|row| row.id == *id);
        let ledger_state = self.ledger_state.sessions.get(id).cloned();
        // The header was written with the first commit; the ledger may have a later state.
        let row = match (told, ledger_state) {
            (Some(told), Some(ledger_state)) if ledger_state.tail_seq >= told.tail_seq => {
                ledger_state
            }
            (Some(told), _) => told,
            (None, Some(ledger_state)) => ledger_state,
            (None, None) => self.guess_session(id, first.as_ref())?,
        };
        // The row has the counters of a later state. The pass over the lines counts anew.
        Ok(SessionRow {
            tail_seq: row.base_seq,
            last_position: 0,
            events: 0,
            bytes: 0,
            cost: Cost::ZERO,
            ..row
        })
    }

    /// Makes the row of a session without a header: its first event may name a parent.
    fn guess_session(
        &self,
        id: &SessionId,
        first: Option<&EventLine>,
    ) -> Result<SessionRow, StorageError> {
        let at = first.map_or(Time::EPOCH, |first| first.draft.created_at);
        let mut row = SessionRow::new(0, id, at);
        let Some(first) = first else { return Ok(row) };
        let started = first.draft.readable::<SessionStarted>().unwrap_or_default();
        let Some(parent) = started.parent else {
            row.root = RootWords { label: started.label, reason: started.reason };
            return Ok(row);
        };
        let known = self.tx.session(&parent.session_id)?;
        let mode = started.mode.unwrap_or(SessionMode::Fork);
        let is_fork = mode == SessionMode::Fork;
        let depth = known.and_then(|known| known.parent).map_or(0, |link| link.depth) + 1;
        row.parent = Some(ParentRow {
            session_id: parent.session_id,
            mode,
            seq: parent.seq,
            event_id: parent.event_id,
            label: started.label,
            reason: started.reason,
            depth,
        });
        // The first `seq` says whether the fork inherits: an imported copy begins with 1.
        if is_fork && first.seq.is_none_or(|seq| seq == parent.seq + 1) {
            row.base_seq = parent.seq;
        }
        Ok(row)
    }

    /// Gives a session its own number, or the next free one if that is taken.
    fn assign_number(&mut self, row: &mut SessionRow, mut is_taken: impl FnMut(u32) -> bool) {
        if row.number == 0 || is_taken(row.number) {
            // `last_number` covers deleted sessions too, so no number is given twice.
            row.number = self.last_number + 1;
            // Told to the caller, so that the next session does not get the same.
            is_taken(row.number);
            self.given_numbers.push(LedgerEntry::Session { session: Box::new(row.clone()) });
        }
        self.last_number = self.last_number.max(row.number);
    }

    /// Takes over the parent of a session from the ledger.
    fn change_ancestry(&mut self, row: SessionRow) -> Result<(), CommitError> {
        let row = match self.tx.session(&row.id)? {
            // The ledger has the row as it was when the parent changed. The counters in the
            // catalogue are newer.
            Some(known) => SessionRow { parent: row.parent, base_seq: row.base_seq, ..known },
            None => {
                let mut row = row;
                let is_taken = self.tx.session_numbered(row.number)?.is_some();
                self.assign_number(&mut row, |_| is_taken);
                row
            }
        };
        self.tx.stage(&ChangeSet { sessions: vec![row], ..ChangeSet::default() }, |_| &[])
    }

    /// Writes everything of the ledger but sessions to the catalogue.
    fn stage_ledger_state(&mut self) -> Result<(), CommitError> {
        // Taken, because the rows are moved out of it. No pass follows that would need it.
        let ledger_state = std::mem::take(&mut self.ledger_state);
        let mut numbers: HashMap<SessionId, Option<u32>> = HashMap::new();
        let mut sightings = Vec::new();
        for sighting in ledger_state.sightings.iter().cloned() {
            let session = match numbers.get(&sighting.session_id) {
                Some(number) => *number,
                None => {
                    let number = self.tx.session(&sighting.session_id)?.map(|row| row.number);
                    numbers.insert(sighting.session_id.clone(), number);
                    number
                }
            };
            let Some(session) = session else { continue };
            // A sighting refers to its event by a foreign key, and a user may have removed the
            // line.
            if self.tx.has_event(session, sighting.seq)? {
                sightings.push(sighting.into_row(session));
            }
        }
        let mut deleted = Vec::new();
        for (id, at) in &ledger_state.deleted {
            let known = self.tx.session(id)?;
            // A session that is gone from the catalogue still needs its tombstone: reading its
            // source again must not bring it back.
            deleted.push((known.unwrap_or_else(|| SessionRow::new(0, id, *at)), *at));
        }
        let changes = ChangeSet {
            sources: ledger_state.source_rows(),
            consumers: ledger_state.consumers.into_iter().collect(),
            sightings,
            deleted,
            ..ChangeSet::default()
        };
        self.tx.stage(&changes, |_| &[])?;
        // After a rebuild no event has the positions of deleted ones.
        self.tx.reserve_positions(ledger_state.tail)?;
        for damage in ledger_state.damages {
            let remedy = "left where it is";
            self.store.lock_findings().push(CheckFinding { damage, remedy, repaired: false });
        }
        Ok(())
    }

    /// Repairs the end of a file so that lines can be appended, and stores its length.
    fn fix_file_end(
        &mut self,
        row: &SessionRow,
        file: &File,
        end: FileEnd,
    ) -> Result<(), CommitError> {
        let path = self.store.sessions.path(&row.id);
        let failed = self.store.sessions.failed("write", &row.id);
        let length = match end {
            FileEnd::Whole(length) => {
                // Blank lines at the end stay; the next event goes behind them.
                file.metadata().map_err(&failed)?.len().max(length)
            }
            // An editor left the last line without its break; the next commit would continue it.
            FileEnd::Unended(length) => {
                file.write_all_at(b"\n", length).map_err(&failed)?;
                length + 1
            }
            FileEnd::Torn(span) => {
                self.store.cut_torn(&path, file, span)?;
                span.offset
            }
        };
        Ok(self.tx.set_meta(&length_key(row.number), length)?)
    }

    /// Writes the given numbers to the ledger and syncs it, before the catalogue commits them: a
    /// later rebuild must find the same numbers.
    fn finish(mut self) -> Result<(), CommitError> {
        self.flush()?;
        let ledger = &self.store.ledger;
        self.store.fix_ledger_end()?;
        if !self.given_numbers.is_empty() {
            let mut lines = Vec::new();
            for entry in &self.given_numbers {
                entry.write(&mut lines);
            }
            ledger.write_at(ledger.length()?, &lines)?;
            ledger.sync()?;
        }
        Ok(self.tx.set_meta(LEDGER_LENGTH, ledger.length()?)?)
    }
}
