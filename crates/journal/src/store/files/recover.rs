//! What is left to do after a crash: commits in the log that did not get everywhere, and files
//! that are not as long as the catalogue says.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::SessionId;

use super::commit::{COMMIT, LEDGER_LENGTH, LENGTH, LOG_END, Layout};
use super::commit_log::{CommitLog, Found, Record};
use super::index::Index;
use super::ledger::Entry;
use super::lines::Lines;
use super::scan::{Place, Scan, line_number, read_up_to};
use super::session_file::{Header, file_name};
use super::{FilesStore, WriteView, damage, line};
use crate::file::Beside;
use crate::store::{
    Changes, CommitError, EventRow, Finding, Packed, Payload, Reader, SessionCursor, SightingRow,
    SourceRow,
};
use crate::{AppendError, Damage, OpenError, StorageError};

/// What the log still has to say.
#[derive(Default)]
struct Replayed {
    /// Sessions that were deleted.
    deleted: HashSet<SessionId>,
    /// Payloads that were written.
    payloads: HashSet<String>,
}

/// How the files differ from what the catalogue says.
#[derive(Default)]
pub(super) struct Differences {
    /// Files with more lines than it knows.
    pub grown: Vec<SessionId>,
    /// Files with fewer lines than it knows, so what it says cannot be believed.
    pub shrunk: Vec<PathBuf>,
    pub findings: Vec<Finding>,
}

/// Sessions looked at at once.
const PAGE: usize = 1_000;

impl FilesStore {
    /// Looks at everything, as after a power cut. The caller is alone with the journal.
    pub(super) fn recover(&self) -> Result<(), OpenError> {
        Beside::clean(&self.dir)?;
        Beside::clean(self.payloads.dir())?;
        let view = self.catalogue.write(Lines::of(self)).map_err(|error| match error {
            AppendError::Storage(error) => OpenError::Storage(error),
            other => StorageError::new("open", &self.dir, other).into(),
        })?;
        let recovered = self.recover_with(&view).and_then(|()| view.finish());
        recovered.map_err(|error| match error {
            CommitError::Storage(error) => error.into(),
            other => StorageError::new("recover", &self.dir, other).into(),
        })
    }

    fn recover_with(&self, view: &WriteView<'_>) -> Result<(), CommitError> {
        let is_new = view.noted(COMMIT)?.is_none();
        // What was written to a file may have been lost with the power, so all of it is written
        // again.
        let replayed = self.replay(view, is_new)?;
        self.settle_with(view)?;
        let differences = self.differences(view)?;
        if is_new || !differences.shrunk.is_empty() {
            Index::new(self, view)?.rebuild()?;
        } else {
            let is_behind = self.ledger.length()? != view.noted(LEDGER_LENGTH)?.unwrap_or(0);
            if is_behind || !differences.grown.is_empty() {
                Index::new(self, view)?.catch_up_with(&differences.grown)?;
            }
        }
        for path in &differences.shrunk {
            let damage = damage(path, None, "it has fewer lines than it had");
            let remedy = "the catalogue was made anew from what is there";
            self.found_so_far().push(Finding { damage, remedy, repaired: true });
        }
        self.found_so_far().extend(differences.findings);
        let mut dropped = Vec::new();
        for digest in replayed.payloads {
            let known =
                crate::name::digest_from_hex(&digest).map(|digest| view.has_payload(&digest));
            if !known.transpose()?.unwrap_or(false) {
                dropped.push(digest);
            }
        }
        self.remove(replayed.deleted.iter(), &dropped);
        Ok(())
    }

    /// Whether the catalogue has everything that is in the log.
    pub(super) fn is_current(&self, view: &WriteView<'_>) -> Result<bool, StorageError> {
        Ok(self.log.end()? == view.noted(LOG_END)?.unwrap_or(CommitLog::START))
    }

    /// Finishes what a process left undone that died while others have the journal open.
    pub(super) fn catch_up(&self, view: &WriteView<'_>) -> Result<(), CommitError> {
        let commit = view.noted(COMMIT)?.unwrap_or(0);
        let (mut deleted, mut dropped) = (Vec::new(), Vec::new());
        let end = self.each_record(|record| {
            if record.head.number > commit {
                self.carry(&record)?;
                deleted.extend(deleted_by(&record).map(|(session_id, _)| session_id));
                dropped.extend(self.stage_again(view, record)?);
            }
            Ok(())
        })?;
        view.note(LOG_END, end)?;
        view.finish()?;
        self.remove(deleted.iter(), &dropped);
        Ok(())
    }

    /// Carries every commit of the log to its files, and to the catalogue unless that is made
    /// anew.
    fn replay(&self, view: &WriteView<'_>, is_new: bool) -> Result<Replayed, CommitError> {
        let commit = view.noted(COMMIT)?.unwrap_or(0);
        let mut replayed = Replayed::default();
        let end = self.each_record(|record| {
            self.carry(&record)?;
            replayed.payloads.extend(record.head.payloads.iter().map(|chunk| chunk.digest.clone()));
            replayed.deleted.extend(deleted_by(&record).map(|(session_id, _)| session_id));
            if !is_new && record.head.number > commit {
                self.stage_again(view, record)?;
            }
            Ok(())
        })?;
        // An opening that finds nothing to do writes nothing.
        if view.noted(LOG_END)?.unwrap_or(CommitLog::START) != end {
            view.note(LOG_END, end)?;
        }
        Ok(replayed)
    }

    /// Writes a commit of the log to the catalogue. Returns the payloads that no event has any
    /// more.
    fn stage_again(
        &self,
        view: &WriteView<'_>,
        record: Record,
    ) -> Result<Vec<String>, CommitError> {
        let used_up = deleted_by(&record).map(|(_, tail)| tail).max().unwrap_or(0);
        let dropped = self.stage(view, &self.recall(view, record)?)?;
        view.use_up_positions(used_up)?;
        Ok(dropped)
    }

    /// Hands every commit of the log to `take`, cuts what is torn, and returns where it ends.
    fn each_record(
        &self,
        mut take: impl FnMut(Record) -> Result<(), CommitError>,
    ) -> Result<u64, CommitError> {
        let mut at = CommitLog::START;
        loop {
            match self.log.read(at)? {
                Found::Record(record, end) => {
                    take(record)?;
                    at = end;
                }
                Found::Damaged(damage, end) => {
                    let remedy = "its files were written before, as far as is known";
                    self.found_so_far().push(Finding { damage, remedy, repaired: false });
                    at = end;
                }
                Found::Torn => {
                    let why = "a commit was being written when it stopped";
                    let damage = damage(self.log.path(), Some(at), why);
                    let remedy = "cut; nobody was told that it is recorded";
                    self.log.cut(at)?;
                    self.found_so_far().push(Finding { damage, remedy, repaired: true });
                    return Ok(at);
                }
                Found::End => return Ok(at),
            }
        }
    }

    /// The changes a record of the log was made from, as far as the catalogue needs them.
    fn recall(&self, view: &WriteView<'_>, record: Record) -> Result<Layout, CommitError> {
        let mut rows: Vec<(EventRow, [u8; 16])> = Vec::new();
        for (chunk, bytes) in record.chunks() {
            let mut offset = chunk.offset;
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let length = (text.len() - usize::from(text.ends_with(b"\n"))) as u64;
                let place = Place { offset, length };
                offset += text.len() as u64;
                // The first line of a file is no event.
                let Ok(line) = line::read(text) else { continue };
                let (Some(seq), Some(position)) = (line.seq, line.position) else { continue };
                let row = EventRow {
                    position,
                    session: chunk.session,
                    seq,
                    draft: Arc::new(line.draft),
                    packed: packed(line.payload),
                };
                rows.push((row, place.encode()));
            }
        }
        rows.sort_by_key(|(row, _)| row.position);
        let (events, places) = rows.into_iter().unzip();
        let mut changes =
            Changes { events, sessions: record.head.sessions.clone(), ..Changes::default() };
        for entry in entries(&record) {
            self.recall_entry(view, entry, &mut changes)?;
        }
        Ok(Layout { record, changes, places })
    }

    fn recall_entry(
        &self,
        view: &WriteView<'_>,
        entry: Entry,
        changes: &mut Changes,
    ) -> Result<(), StorageError> {
        match entry {
            Entry::Source { source_id, position } => {
                changes.sources.push(SourceRow { source_id, position });
            }
            Entry::Consumer { name, position } => changes.consumers.push((name, position)),
            Entry::Sighting { session_id, seq, source, observed_at, source_position, differs } => {
                let staged = changes.sessions.iter().find(|row| row.id == session_id);
                let session = match staged {
                    Some(row) => Some(row.number),
                    None => view.session(&session_id)?.map(|row| row.number),
                };
                changes.sightings.extend(session.map(|session| SightingRow {
                    session,
                    seq,
                    source,
                    observed_at,
                    source_position,
                    differs,
                }));
            }
            Entry::Deleted { session_id, at, .. } => {
                changes.deleted.extend(view.session(&session_id)?.map(|row| (row, at)));
            }
            // Sessions are in the head of the record.
            Entry::Session { .. } | Entry::Adopted { .. } => {}
        }
        Ok(())
    }

    /// Compares the files with what the catalogue says, by their lengths.
    pub(super) fn differences(&self, view: &WriteView<'_>) -> Result<Differences, StorageError> {
        let mut differences = Differences::default();
        let lengths = view.noted_under(LENGTH)?;
        let mut lengths: HashMap<u32, u64> = lengths
            .into_iter()
            .filter_map(|(number, length)| Some((number.parse().ok()?, length)))
            .collect();
        let mut files: HashMap<PathBuf, u64> = self.sessions.list()?.into_iter().collect();
        let mut after = None;
        loop {
            let page = view.sessions(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(SessionCursor { last_at: last.last_at, number: last.number });
            for row in page {
                let path = self.sessions.path(&row.id);
                let known = lengths.remove(&row.number);
                match (known, files.remove(&path)) {
                    (Some(known), Some(length)) if length == known => {}
                    (None, None) => {}
                    (Some(known), Some(length)) if length < known => {
                        differences.shrunk.push(path);
                    }
                    (_, Some(_)) => differences.grown.push(row.id),
                    (Some(_), None) => differences.findings.push(Finding {
                        damage: damage(&path, None, "the file of a session is missing"),
                        remedy: "restore it from a backup",
                        repaired: false,
                    }),
                }
            }
        }
        for path in files.into_keys() {
            match self.identify(&path)? {
                Ok(session_id) if view.tombstone(&session_id)?.is_some() => {
                    let damage = damage(&path, None, "its session was deleted");
                    let remedy = "move it elsewhere";
                    differences.findings.push(Finding { damage, remedy, repaired: false });
                }
                Ok(session_id) => differences.grown.push(session_id),
                Err(finding) => differences.findings.push(finding),
            }
        }
        if self.ledger.length()? < view.noted(LEDGER_LENGTH)?.unwrap_or(0) {
            differences.shrunk.push(self.ledger.path().to_owned());
        }
        Ok(differences)
    }

    /// Moves a piece of a line from the end of a file to the quarantine.
    pub(super) fn cut_torn(
        &self,
        path: &Path,
        file: &File,
        place: Place,
    ) -> Result<(), StorageError> {
        let failed = |error| StorageError::new("cut", path, error);
        let length = file.metadata().map_err(failed)?.len() - place.offset;
        let mut bytes = vec![0; length as usize];
        let read = read_up_to(file, &mut bytes, place.offset).map_err(failed)?;
        self.quarantine.keep(path, &bytes[..read])?;
        file.set_len(place.offset).and_then(|()| file.sync_all()).map_err(failed)?;
        let why = "the last line was torn";
        let line = line_number(file, place.offset).ok();
        let damage = Damage { line, ..damage(path, Some(place.offset), why) };
        let remedy = "moved to the quarantine";
        self.found_so_far().push(Finding { damage, remedy, repaired: true });
        Ok(())
    }

    /// Makes the end of the ledger one that can be appended to.
    pub(super) fn mend_ledger(&self) -> Result<(), StorageError> {
        let file = self.ledger.file()?;
        let failed = |error| StorageError::new("read", self.ledger.path(), error);
        let mut scan = Scan::from(&file, 0);
        let mut last = None;
        while let Some(scanned) = scan.next().map_err(failed)? {
            let is_torn = !scanned.is_ended && Entry::parse(scanned.bytes).is_none();
            last = Some((scanned.place, scanned.is_ended, is_torn));
        }
        match last {
            Some((place, _, true)) => self.cut_torn(self.ledger.path(), &file, place),
            Some((place, false, false)) => self.ledger.write_at(place.offset + place.length, b"\n"),
            _ => Ok(()),
        }
    }

    /// Whose file it is, if it is one we can take in.
    pub(super) fn identify(&self, path: &Path) -> Result<Result<SessionId, Finding>, StorageError> {
        let refused = |why: &str, remedy| {
            Ok(Err(Finding { damage: damage(path, None, why), remedy, repaired: false }))
        };
        if path.extension().is_none_or(|end| end != "jsonl") || !path.is_file() {
            return refused("it is no file of a session", "move it elsewhere");
        }
        let file = match crate::file::open(path) {
            Ok(Some(file)) => file,
            _ => return refused("it cannot be opened", "move it elsewhere"),
        };
        let mut scan = Scan::from(&file, 0);
        let mut session_id = None;
        let failed = |error| StorageError::new("read", path, error);
        while let Some(scanned) = scan.next().map_err(failed)? {
            let header = Header::read(scanned.bytes).map(|header| header.session_id);
            let of_event = || line::read(scanned.bytes).ok().map(|line| line.draft.session_id);
            session_id = header.or_else(of_event);
            if session_id.is_some() {
                break;
            }
        }
        let Some(session_id) = session_id else {
            return refused("no line of it can be read", "move it elsewhere");
        };
        if path.file_name().and_then(|name| name.to_str()) != Some(&file_name(&session_id)) {
            return refused("its name is not that of its session", "rename it");
        }
        Ok(Ok(session_id))
    }
}

/// What a row of the catalogue has to know of a text that stands elsewhere.
pub(super) fn packed(payload: Option<[u8; 32]>) -> Packed {
    let payload = payload.map(|digest| Payload { digest, bytes: Arc::default() });
    Packed { rest: Vec::new(), payload }
}

/// Sessions that a commit deleted, each with the newest position of that moment.
fn deleted_by(record: &Record) -> impl Iterator<Item = (SessionId, u64)> {
    entries(record).filter_map(|entry| match entry {
        Entry::Deleted { session_id, tail, .. } => Some((session_id, tail)),
        _ => None,
    })
}

fn entries(record: &Record) -> impl Iterator<Item = Entry> {
    let lines = record.ledger().map_or(&[][..], |(_, bytes)| bytes);
    lines.split(|byte| *byte == b'\n').filter_map(Entry::parse)
}
