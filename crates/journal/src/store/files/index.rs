//! From files to the catalogue: what it knows, read again from the lines and the ledger.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use event::payload::{SessionMode, SessionStarted};
use event::{Cost, Draft, EventId, SessionId, Time};

use super::commit::{COMMIT, LEDGER_LENGTH, length_note};
use super::ledger::Entry;
use super::line::{self, Line};
use super::pass::FileEnd;
use super::recover::packed;
use super::remembered::Remembered;
use super::scan::{Place, Scan, line_number};
use super::session_file::Header;
use super::{FilesStore, WriteView, damage};
use crate::store::{
    Changes, CommitError, EventRow, Finding, ParentRow, Reader, SessionRow, SightingRow,
};
use crate::{Damage, StorageError};

/// Rows in the making, inside the right to commit. Nothing in the commit log waits meanwhile.
pub(super) struct Index<'v, 'a> {
    pub(super) store: &'a FilesStore,
    pub(super) remembered: Remembered,
    view: &'v WriteView<'a>,
    /// Rows that are not yet in the catalogue.
    staged: Staged,
    /// The newest position and session number given so far.
    tail: u64,
    last_number: u32,
    /// Numbers given to strays and to sessions without one, for the ledger.
    adopted: Vec<Entry>,
}

#[derive(Default)]
struct Staged {
    events: Vec<EventRow>,
    places: Vec<[u8; 16]>,
    seqs: HashSet<(u32, u64)>,
    ids: HashSet<EventId>,
    positions: HashSet<u64>,
}

/// Rows given to the catalogue at once.
const STAGED_MAX: usize = 1_024;

impl<'v, 'a> Index<'v, 'a> {
    pub(super) fn new(
        store: &'a FilesStore,
        view: &'v WriteView<'a>,
    ) -> Result<Index<'v, 'a>, StorageError> {
        let remembered = Remembered::of(&store.ledger, 0)?;
        let tail = view.tail()?.max(remembered.tail);
        let last_number = view.last_number()?;
        let (staged, adopted) = (Staged::default(), Vec::new());
        Ok(Index { store, remembered, view, staged, tail, last_number, adopted })
    }

    /// Makes the catalogue anew.
    pub(super) fn rebuild(mut self) -> Result<(), CommitError> {
        let commit = self.view.noted(COMMIT)?.unwrap_or(0);
        self.view.forget_everything()?;
        self.staged = Staged::default();
        let mut sessions = self.sessions_of_files()?;
        let mut left = Vec::new();
        for (index, (row, file)) in sessions.iter_mut().enumerate() {
            let passed = self.pass(row, file, 0)?;
            self.mend(row, file, passed.end)?;
            if !passed.strays.is_empty() {
                left.push((index, passed.strays));
            }
        }
        for (index, strays) in left {
            let (row, file) = &mut sessions[index];
            self.take_strays(row, file, strays)?;
        }
        self.flush()?;
        let mut rows: Vec<SessionRow> = sessions.into_iter().map(|(row, _)| row).collect();
        rows.extend(self.sessions_without_files(&rows));
        self.view.stage(&Changes { sessions: rows, ..Changes::default() }, |_| &[])?;
        self.stage_remembered()?;
        self.view.note(COMMIT, commit)?;
        self.finish()
    }

    /// Takes in what files and ledger have beyond what the catalogue knows of them.
    pub(super) fn catch_up_with(mut self, grown: &[SessionId]) -> Result<(), CommitError> {
        let ledger_length = self.view.noted(LEDGER_LENGTH)?.unwrap_or(0);
        for session_id in grown {
            let Some(file) = self.store.sessions.get(session_id)? else { continue };
            let known = self.view.session(session_id)?;
            let noted = match &known {
                Some(row) => self.view.noted(&length_note(row.number))?.unwrap_or(0),
                None => 0,
            };
            let failed = self.store.sessions.failed("look at", session_id);
            if file.metadata().map_err(failed)?.len() < noted {
                // Lines that were there are gone: nothing the catalogue says of them holds.
                return self.rebuild();
            }
            let mut row = match known {
                Some(row) => row,
                None => {
                    let mut row = self.identity(session_id, &file)?;
                    let is_taken = self.view.session_numbered(row.number)?.is_some();
                    self.number(&mut row, |_| is_taken);
                    row
                }
            };
            let passed = self.pass(&mut row, &file, noted)?;
            self.take_strays(&mut row, &file, passed.strays)?;
            self.mend(&row, &file, passed.end)?;
            self.view.stage(&Changes { sessions: vec![row], ..Changes::default() }, |_| &[])?;
        }
        self.flush()?;
        if self.store.ledger.length()? > ledger_length {
            self.remembered = Remembered::of(&self.store.ledger, ledger_length)?;
            let sessions: Vec<_> = self.remembered.sessions.values().cloned().collect();
            for row in sessions {
                self.change_ancestry(row)?;
            }
            self.stage_remembered()?;
        }
        self.finish()
    }

    /// Whether a position is given to an event that is there.
    pub(super) fn is_given(&self, position: u64) -> Result<bool, StorageError> {
        Ok(position == 0
            || self.staged.positions.contains(&position)
            || self.view.has_position(position)?)
    }

    /// Whether there is an event at this place, or the same event at another one.
    pub(super) fn is_taken(
        &self,
        session: u32,
        seq: u64,
        line: Option<&Line>,
    ) -> Result<bool, StorageError> {
        if self.staged.seqs.contains(&(session, seq)) || self.view.has_event(session, seq)? {
            return Ok(true);
        }
        let Some(id) = line.map(|line| line.draft.id) else { return Ok(false) };
        Ok(self.staged.ids.contains(&id) || self.view.locate(&id)?.is_some())
    }

    pub(super) fn next_position(&mut self) -> u64 {
        self.tail += 1;
        self.tail
    }

    /// Adds a row.
    pub(super) fn push(
        &mut self,
        session: u32,
        draft: Draft,
        payload: Option<[u8; 32]>,
        (seq, position): (u64, u64),
        place: Place,
    ) -> Result<(), CommitError> {
        self.tail = self.tail.max(position);
        self.staged.seqs.insert((session, seq));
        self.staged.ids.insert(draft.id);
        self.staged.positions.insert(position);
        self.staged.places.push(place.encode());
        let (draft, packed) = (Arc::new(draft), packed(payload));
        self.staged.events.push(EventRow { position, session, seq, draft, packed });
        if self.staged.events.len() >= STAGED_MAX { self.flush() } else { Ok(()) }
    }

    /// Gives the rows so far to the catalogue.
    pub(super) fn flush(&mut self) -> Result<(), CommitError> {
        let staged = std::mem::take(&mut self.staged);
        let changes = Changes { events: staged.events, ..Changes::default() };
        self.view.stage(&changes, |index| &staged.places[index])
    }

    /// Remembers the numbers a stray has got.
    pub(super) fn adopt(
        &mut self,
        row: &SessionRow,
        place: Place,
        (seq, position): (u64, u64),
        follows: bool,
    ) {
        if let Some(Entry::Adopted { session_id, from_seq, to_seq, position: first, .. }) =
            self.adopted.last_mut()
            && follows
            && *session_id == row.id
            && *to_seq + 1 == seq
            && *first + (seq - *from_seq) == position
        {
            *to_seq = seq;
            return;
        }
        self.adopted.push(Entry::Adopted {
            session_id: row.id.clone(),
            offset: place.offset,
            from_seq: seq,
            to_seq: seq,
            position,
        });
    }

    /// Tells of a line that becomes no row.
    pub(super) fn refuse(&self, row: &SessionRow, place: Place, why: &str) {
        let path = self.store.sessions.path(&row.id);
        let file = self.store.sessions.get(&row.id).ok().flatten();
        let line = file.and_then(|file| line_number(&file, place.offset).ok());
        let session_id = Some(row.id.clone());
        let damage = Damage { line, session_id, ..damage(&path, Some(place.offset), why) };
        let remedy = "left where it is, and not shown";
        self.store.found_so_far().push(Finding { damage, remedy, repaired: false });
    }

    /// Every session that has a file, as it was before its first event, with the file.
    fn sessions_of_files(&mut self) -> Result<Vec<(SessionRow, Arc<File>)>, StorageError> {
        let mut ids = Vec::new();
        for (path, _) in self.store.sessions.list()? {
            match self.store.identify(&path)? {
                Ok(id) if !self.remembered.deleted.contains_key(&id) => ids.push(id),
                // Whoever compares the files tells of these.
                _ => {}
            }
        }
        ids.sort();
        let mut sessions: Vec<(SessionRow, Arc<File>)> = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(file) = self.store.sessions.get(&id)? else { continue };
            sessions.push((self.identity(&id, &file)?, file));
        }
        // Those that have a number keep it, so they come first.
        sessions.sort_by_key(|(row, _)| (row.number == 0, row.number));
        let mut taken = HashSet::new();
        for (row, _) in &mut sessions {
            self.number(row, |number| !taken.insert(number));
        }
        Ok(sessions)
    }

    /// Sessions that have an ancestry and no event yet.
    fn sessions_without_files(&mut self, rows: &[SessionRow]) -> Vec<SessionRow> {
        let known: HashSet<&SessionId> = rows.iter().map(|row| &row.id).collect();
        let remembered = self.remembered.sessions.values();
        let without: Vec<_> = remembered.filter(|row| !known.contains(&row.id)).cloned().collect();
        let mut taken: HashSet<u32> = rows.iter().map(|row| row.number).collect();
        let number = |mut row: SessionRow| {
            self.number(&mut row, |number| !taken.insert(number));
            row
        };
        without.into_iter().map(number).collect()
    }

    /// A session as it was before its first event, from what its file and the ledger say of it.
    /// One that nobody numbered has the number 0.
    fn identity(&self, id: &SessionId, file: &File) -> Result<SessionRow, StorageError> {
        let mut scan = Scan::from(file, 0);
        let failed = self.store.sessions.failed("read", id);
        let (mut header, mut first) = (None, None);
        while let Some(scanned) = scan.next().map_err(&failed)? {
            header = header.or_else(|| Header::read(scanned.bytes));
            first = line::read(scanned.bytes).ok();
            if first.is_some() {
                break;
            }
        }
        let told = header.and_then(|header| header.session).filter(|row| row.id == *id);
        let remembered = self.remembered.sessions.get(id).cloned();
        let row = match (told, remembered) {
            (Some(told), Some(remembered)) if remembered.tail_seq >= told.tail_seq => remembered,
            (Some(told), _) => told,
            (None, Some(remembered)) => remembered,
            (None, None) => self.unheard_of(id, first.as_ref())?,
        };
        Ok(SessionRow {
            tail_seq: row.base_seq,
            last_position: 0,
            events: 0,
            bytes: 0,
            cost: Cost::ZERO,
            ..row
        })
    }

    /// A session nobody wrote down where it comes from: its first event may tell.
    fn unheard_of(&self, id: &SessionId, first: Option<&Line>) -> Result<SessionRow, StorageError> {
        let at = first.map_or(Time::EPOCH, |first| first.draft.created_at);
        let mut row = SessionRow::new(0, id, at);
        let Some(first) = first else { return Ok(row) };
        let started = first.draft.readable::<SessionStarted>().unwrap_or_default();
        let Some(parent) = started.parent else { return Ok(row) };
        let known = self.view.session(&parent.session_id)?;
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
        // The first number tells whether it inherits: an imported copy begins with 1.
        if is_fork && first.seq.is_none_or(|seq| seq == parent.seq + 1) {
            row.base_seq = parent.seq;
        }
        Ok(row)
    }

    /// Gives a session the number it wants, or the next one if that is taken.
    fn number(&mut self, row: &mut SessionRow, mut is_taken: impl FnMut(u32) -> bool) {
        if row.number == 0 || is_taken(row.number) {
            row.number = self.last_number + 1;
            is_taken(row.number);
            self.adopted.push(Entry::Session { session: Box::new(row.clone()) });
        }
        self.last_number = self.last_number.max(row.number);
    }

    /// Takes over where a session comes from, which the ledger changed.
    fn change_ancestry(&mut self, row: SessionRow) -> Result<(), CommitError> {
        let row = match self.view.session(&row.id)? {
            Some(known) => SessionRow { parent: row.parent, base_seq: row.base_seq, ..known },
            None => {
                let mut row = row;
                let is_taken = self.view.session_numbered(row.number)?.is_some();
                self.number(&mut row, |_| is_taken);
                row
            }
        };
        self.view.stage(&Changes { sessions: vec![row], ..Changes::default() }, |_| &[])
    }

    /// Gives to the catalogue what the ledger says beside sessions.
    fn stage_remembered(&mut self) -> Result<(), CommitError> {
        let remembered = std::mem::take(&mut self.remembered);
        let mut numbers: HashMap<SessionId, Option<u32>> = HashMap::new();
        let mut sightings = Vec::new();
        for entry in remembered.sightings.iter().cloned() {
            let Entry::Sighting { session_id, seq, source, observed_at, source_position, differs } =
                entry
            else {
                continue;
            };
            let session = match numbers.get(&session_id) {
                Some(number) => *number,
                None => {
                    let number = self.view.session(&session_id)?.map(|row| row.number);
                    numbers.insert(session_id, number);
                    number
                }
            };
            let Some(session) = session else { continue };
            if self.view.has_event(session, seq)? {
                sightings.push(SightingRow {
                    session,
                    seq,
                    source,
                    observed_at,
                    source_position,
                    differs,
                });
            }
        }
        let mut deleted = Vec::new();
        for (id, at) in &remembered.deleted {
            let known = self.view.session(id)?;
            deleted.push((known.unwrap_or_else(|| SessionRow::new(0, id, *at)), *at));
        }
        let changes = Changes {
            sources: remembered.source_rows(),
            consumers: remembered.consumers.into_iter().collect(),
            sightings,
            deleted,
            ..Changes::default()
        };
        self.view.stage(&changes, |_| &[])?;
        self.view.use_up_positions(remembered.tail)?;
        for damage in remembered.damages {
            let remedy = "left where it is";
            self.store.found_so_far().push(Finding { damage, remedy, repaired: false });
        }
        Ok(())
    }

    /// Makes the end of a file one that can be appended to, and notes its length.
    fn mend(&mut self, row: &SessionRow, file: &File, end: FileEnd) -> Result<(), CommitError> {
        let path = self.store.sessions.path(&row.id);
        let failed = self.store.sessions.failed("write", &row.id);
        let length = match end {
            FileEnd::Whole(length) => {
                // Blank lines behind the last one stay; the next goes behind them.
                file.metadata().map_err(&failed)?.len().max(length)
            }
            FileEnd::Unended(length) => {
                file.write_all_at(b"\n", length).map_err(&failed)?;
                length + 1
            }
            FileEnd::Torn(place) => {
                self.store.cut_torn(&path, file, place)?;
                place.offset
            }
        };
        Ok(self.view.note(&length_note(row.number), length)?)
    }

    /// Writes to the ledger what was decided, before the catalogue has it.
    fn finish(mut self) -> Result<(), CommitError> {
        self.flush()?;
        let ledger = &self.store.ledger;
        self.store.mend_ledger()?;
        if !self.adopted.is_empty() {
            let mut lines = Vec::new();
            for entry in &self.adopted {
                entry.write(&mut lines);
            }
            ledger.write_at(ledger.length()?, &lines)?;
            ledger.sync()?;
        }
        Ok(self.view.note(LEDGER_LENGTH, ledger.length()?)?)
    }
}
