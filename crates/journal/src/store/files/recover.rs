//! Recovery after a crash: commits in the log that did not reach all files or the catalogue, and
//! files that are not as long as the catalogue says.
//!
//! The first process that opens the journal runs [`FilesStore::recover`] alone. A process that
//! dies while others have the journal open leaves less: the next commit of any of them runs
//! [`FilesStore::catch_up`].

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::SessionId;

use super::commit::{COMMIT, CommitLayout, LEDGER_LENGTH, LENGTH, LOG_END};
use super::commit_log::{CommitLog, CommitRecord, LogEntry};
use super::ledger::LedgerEntry;
use super::line_bodies::LineBodies;
use super::line_scanner::{LineScanner, LineSpan, line_number, read_up_to};
use super::reindex::Reindexer;
use super::session_file::{SessionHeader, file_name};
use super::{FilesStore, WriteTx, damage, event_line};
use crate::file::TempFile;
use crate::store::{
    ChangeSet, CheckFinding, CommitError, EventRow, PackedEvent, SourceRow, StoreReader,
    StoredPayload, for_each_session,
};
use crate::{AppendError, Damage, OpenError, StorageError};

/// What a replay of the log did.
#[derive(Default)]
struct ReplayResult {
    /// Sessions that its commits deleted.
    deleted: HashSet<SessionId>,
    /// Payloads that its commits wrote.
    payloads: HashSet<String>,
}

/// How the files differ from the catalogue.
#[derive(Default)]
pub(super) struct Differences {
    /// Files with more lines than the catalogue has.
    pub grown: Vec<SessionId>,
    /// Files with fewer lines than the catalogue has: its rows point to lines that are gone.
    pub shrunk: Vec<PathBuf>,
    pub findings: Vec<CheckFinding>,
}

impl FilesStore {
    /// Recovers as after a power cut. The caller is the only process that has the journal open.
    pub(super) fn recover(&self) -> Result<(), OpenError> {
        // Safe, because no other process is writing: these are left from a crash.
        TempFile::clean(&self.dir)?;
        TempFile::clean(self.payloads.dir())?;
        let tx = self.catalogue.write(LineBodies::new(self)).map_err(|error| match error {
            AppendError::Storage(error) => OpenError::Storage(error),
            other => StorageError::new("open", &self.dir, other).into(),
        })?;
        let recovered = self.recover_with(&tx).and_then(|()| tx.finish());
        recovered.map_err(|error| match error {
            CommitError::Storage(error) => error.into(),
            other => StorageError::new("recover", &self.dir, other).into(),
        })
    }

    fn recover_with(&self, tx: &WriteTx<'_>) -> Result<(), CommitError> {
        // No commit number: the catalogue was deleted, moved to the quarantine, or never made.
        let is_new = tx.meta_value(COMMIT)?.is_none();
        // A file that was written and not synced may have lost bytes with the power, so every
        // record of the log is written out again, known to the catalogue or not.
        let replayed = self.replay(tx, is_new)?;
        self.checkpoint_with(tx)?;
        // Compared after the replay: what still differs was changed by hand.
        let differences = self.differences(tx)?;
        // A file that shrank moved its lines, so every row behind the gap names wrong bytes. One
        // that grew only has lines that no row names.
        if is_new || !differences.shrunk.is_empty() {
            Reindexer::new(self, tx)?.rebuild()?;
        } else {
            let is_behind = self.ledger.length()? != tx.meta_value(LEDGER_LENGTH)?.unwrap_or(0);
            if is_behind || !differences.grown.is_empty() {
                Reindexer::new(self, tx)?.catch_up_with(&differences.grown)?;
            }
        }
        for path in &differences.shrunk {
            let damage = damage(path, None, "it has fewer lines than it had");
            let remedy = "the catalogue was rebuilt from what is there";
            self.lock_findings().push(CheckFinding { damage, remedy, repaired: true });
        }
        self.lock_findings().extend(differences.findings);
        let mut dropped = Vec::new();
        // The replay wrote every payload of the log again, also those of sessions that a later
        // commit deleted.
        for digest in replayed.payloads {
            let known = crate::name::digest_from_hex(&digest).map(|digest| tx.has_payload(&digest));
            if !known.transpose()?.unwrap_or(false) {
                dropped.push(digest);
            }
        }
        self.remove(replayed.deleted.iter(), &dropped);
        Ok(())
    }

    /// Whether the catalogue has every commit of the log.
    pub(super) fn is_current(&self, tx: &WriteTx<'_>) -> Result<bool, StorageError> {
        Ok(self.log.end()? == tx.meta_value(LOG_END)?.unwrap_or(CommitLog::START))
    }

    /// Finishes the commits of a process that died while others have the journal open. The system
    /// did not crash, so files that were written are whole.
    pub(super) fn catch_up(&self, tx: &WriteTx<'_>) -> Result<(), CommitError> {
        let commit = tx.meta_value(COMMIT)?.unwrap_or(0);
        let (mut deleted, mut dropped) = (Vec::new(), Vec::new());
        // Commits are numbered, so the ones that the catalogue has are recognised and not staged
        // twice.
        let end = self.each_record(|record| {
            if record.head.number > commit {
                self.write_files(&record)?;
                deleted.extend(deleted_by(&record).map(|(session_id, _)| session_id));
                dropped.extend(self.restage(tx, record)?);
            }
            Ok(())
        })?;
        tx.set_meta(LOG_END, end)?;
        // Committed before the files are removed, as in `apply`.
        tx.finish()?;
        self.remove(deleted.iter(), &dropped);
        Ok(())
    }

    /// Writes every commit of the log to its files, and to the catalogue unless that will be
    /// rebuilt.
    fn replay(&self, tx: &WriteTx<'_>, is_new: bool) -> Result<ReplayResult, CommitError> {
        let commit = tx.meta_value(COMMIT)?.unwrap_or(0);
        let mut replayed = ReplayResult::default();
        let end = self.each_record(|record| {
            self.write_files(&record)?;
            replayed.payloads.extend(record.head.payloads.iter().map(|chunk| chunk.digest.clone()));
            replayed.deleted.extend(deleted_by(&record).map(|(session_id, _)| session_id));
            if !is_new && record.head.number > commit {
                self.restage(tx, record)?;
            }
            Ok(())
        })?;
        // Opening a journal that is current writes nothing.
        if tx.meta_value(LOG_END)?.unwrap_or(CommitLog::START) != end {
            tx.set_meta(LOG_END, end)?;
        }
        Ok(replayed)
    }

    /// Writes a commit of the log to the catalogue. Returns the payloads that no event uses any
    /// more.
    fn restage(&self, tx: &WriteTx<'_>, record: CommitRecord) -> Result<Vec<String>, CommitError> {
        // The positions were given, even if the catalogue never had a row of the session.
        let used_up = deleted_by(&record).map(|(_, tail)| tail).max().unwrap_or(0);
        let dropped = self.stage(tx, &self.decode_record(tx, record)?)?;
        tx.reserve_positions(used_up)?;
        Ok(dropped)
    }

    /// Passes every commit of the log to `take`, cuts a torn end, and returns where the log ends.
    fn each_record(
        &self,
        mut take: impl FnMut(CommitRecord) -> Result<(), CommitError>,
    ) -> Result<u64, CommitError> {
        let mut at = CommitLog::START;
        loop {
            match self.log.read(at)? {
                LogEntry::Record(record, end) => {
                    take(record)?;
                    at = end;
                }
                // Records behind it are acknowledged commits with offsets of their own, and are
                // replayed.
                LogEntry::Damaged(damage, end) => {
                    let remedy = "its files were written before, as far as is known";
                    self.lock_findings().push(CheckFinding { damage, remedy, repaired: false });
                    at = end;
                }
                LogEntry::Torn => {
                    let why = "the last commit was cut off while it was written";
                    let damage = damage(self.log.path(), Some(at), why);
                    let remedy = "cut; it was never acknowledged";
                    self.log.cut(at)?;
                    self.lock_findings().push(CheckFinding { damage, remedy, repaired: true });
                    return Ok(at);
                }
                LogEntry::End => return Ok(at),
            }
        }
    }

    /// Decodes a record of the log into the changes for the catalogue.
    fn decode_record(
        &self,
        tx: &WriteTx<'_>,
        record: CommitRecord,
    ) -> Result<CommitLayout, CommitError> {
        let mut rows: Vec<(EventRow, [u8; 16])> = Vec::new();
        for (chunk, bytes) in record.chunks() {
            let mut offset = chunk.offset;
            // The lines of the record are those of the file, so the catalogue is rebuilt from the
            // same bytes.
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let length = (text.len() - usize::from(text.ends_with(b"\n"))) as u64;
                let span = LineSpan { offset, length };
                offset += text.len() as u64;
                // The header line of a file is no event.
                let Ok(line) = event_line::read(text) else { continue };
                let (Some(seq), Some(position)) = (line.seq, line.position) else { continue };
                let row = EventRow {
                    position,
                    session: chunk.session,
                    seq,
                    draft: Arc::new(line.draft),
                    packed: packed(line.payload),
                };
                rows.push((row, span.encode()));
            }
        }
        // The record is ordered by session, a change set by position.
        rows.sort_by_key(|(row, _)| row.position);
        let (events, spans) = rows.into_iter().unzip();
        let mut changes =
            ChangeSet { events, sessions: record.head.sessions.clone(), ..ChangeSet::default() };
        for entry in entries(&record) {
            self.decode_entry(tx, entry, &mut changes)?;
        }
        Ok(CommitLayout { record, changes, spans })
    }

    fn decode_entry(
        &self,
        tx: &WriteTx<'_>,
        entry: LedgerEntry,
        changes: &mut ChangeSet,
    ) -> Result<(), StorageError> {
        match entry {
            LedgerEntry::Source { source_id, position } => {
                changes.sources.push(SourceRow { source_id, position });
            }
            LedgerEntry::Consumer { name, position } => changes.consumers.push((name, position)),
            LedgerEntry::Sighting(sighting) => {
                let staged = changes.sessions.iter().find(|row| row.id == sighting.session_id);
                let session = match staged {
                    Some(row) => Some(row.number),
                    None => tx.session(&sighting.session_id)?.map(|row| row.number),
                };
                changes.sightings.extend(session.map(|session| sighting.into_row(session)));
            }
            LedgerEntry::Deleted { session_id, at, .. } => {
                changes.deleted.extend(tx.session(&session_id)?.map(|row| (row, at)));
            }
            // The head of the record has the sessions. Numbers of lines written by hand never go
            // through the log.
            LedgerEntry::Session { .. } | LedgerEntry::Adopted { .. } => {}
        }
        Ok(())
    }

    /// Compares the lengths of the files with those in the catalogue.
    pub(super) fn differences(&self, tx: &WriteTx<'_>) -> Result<Differences, StorageError> {
        let mut differences = Differences::default();
        let lengths = tx.meta_with_prefix(LENGTH)?;
        let mut lengths: HashMap<u32, u64> = lengths
            .into_iter()
            .filter_map(|(number, length)| Some((number.parse().ok()?, length)))
            .collect();
        // Each session takes its file out; what is left belongs to no session that is known.
        let mut files: HashMap<PathBuf, u64> = self.sessions.list()?.into_iter().collect();
        for_each_session(tx, |row| -> Result<(), StorageError> {
            let path = self.sessions.path(&row.id);
            let known = lengths.remove(&row.number);
            match (known, files.remove(&path)) {
                (Some(known), Some(length)) if length == known => {}
                // A fork without events of its own has no file.
                (None, None) => {}
                (Some(known), Some(length)) if length < known => differences.shrunk.push(path),
                // Longer than known, or a file that appeared for a session without one.
                (_, Some(_)) => differences.grown.push(row.id),
                (Some(_), None) => differences.findings.push(CheckFinding {
                    damage: damage(&path, None, "the file of a session is missing"),
                    remedy: "restore it from a backup",
                    repaired: false,
                }),
            }
            Ok(())
        })?;
        for path in files.into_keys() {
            match self.identify(&path)? {
                // A file that came back, for instance from a backup. Deleting was the user's wish,
                // so it is reported and not taken in.
                Ok(session_id) if tx.tombstone(&session_id)?.is_some() => {
                    let damage = damage(&path, None, "its session was deleted");
                    let remedy = "move it elsewhere";
                    differences.findings.push(CheckFinding { damage, remedy, repaired: false });
                }
                Ok(session_id) => differences.grown.push(session_id),
                Err(finding) => differences.findings.push(finding),
            }
        }
        // A ledger that was cut lost entries that the catalogue has taken in.
        if self.ledger.length()? < tx.meta_value(LEDGER_LENGTH)?.unwrap_or(0) {
            differences.shrunk.push(self.ledger.path().to_owned());
        }
        Ok(differences)
    }

    /// Moves a torn line from the end of a file to the quarantine.
    pub(super) fn cut_torn(
        &self,
        path: &Path,
        file: &File,
        span: LineSpan,
    ) -> Result<(), StorageError> {
        let failed = |error| StorageError::new("cut", path, error);
        let length = file.metadata().map_err(failed)?.len() - span.offset;
        let mut bytes = vec![0; length as usize];
        let read = read_up_to(file, &mut bytes, span.offset).map_err(failed)?;
        // Kept and synced before the file is cut.
        self.quarantine.keep(path, &bytes[..read])?;
        file.set_len(span.offset).and_then(|()| file.sync_all()).map_err(failed)?;
        let why = "the last line was torn";
        let line = line_number(file, span.offset).ok();
        let damage = Damage { line, ..damage(path, Some(span.offset), why) };
        let remedy = "moved to the quarantine";
        self.lock_findings().push(CheckFinding { damage, remedy, repaired: true });
        Ok(())
    }

    /// Repairs the end of the ledger so that lines can be appended.
    pub(super) fn fix_ledger_end(&self) -> Result<(), StorageError> {
        let file = self.ledger.file()?;
        let failed = |error| StorageError::new("read", self.ledger.path(), error);
        let mut scan = LineScanner::new(&file, 0);
        let mut last = None;
        while let Some(scanned) = scan.next().map_err(failed)? {
            // A whole entry without its break only needs the break.
            let is_torn = !scanned.is_ended && LedgerEntry::parse(scanned.bytes).is_none();
            last = Some((scanned.span, scanned.is_ended, is_torn));
        }
        match last {
            Some((span, _, true)) => self.cut_torn(self.ledger.path(), &file, span),
            Some((span, false, false)) => self.ledger.write_at(span.offset + span.length, b"\n"),
            _ => Ok(()),
        }
    }

    /// Returns the session that a file belongs to, or why the file cannot be taken in.
    pub(super) fn identify(
        &self,
        path: &Path,
    ) -> Result<Result<SessionId, CheckFinding>, StorageError> {
        let refused = |why: &str, remedy| {
            Ok(Err(CheckFinding { damage: damage(path, None, why), remedy, repaired: false }))
        };
        if path.extension().is_none_or(|end| end != "jsonl") || !path.is_file() {
            return refused("it is no file of a session", "move it elsewhere");
        }
        let file = match crate::file::open(path) {
            Ok(Some(file)) => file,
            _ => return refused("it cannot be opened", "move it elsewhere"),
        };
        let mut scan = LineScanner::new(&file, 0);
        let mut session_id = None;
        let failed = |error| StorageError::new("read", path, error);
        while let Some(scanned) = scan.next().map_err(failed)? {
            let header = SessionHeader::read(scanned.bytes).map(|header| header.session_id);
            let of_event =
                || event_line::read(scanned.bytes).ok().map(|line| line.draft.session_id);
            session_id = header.or_else(of_event);
            if session_id.is_some() {
                break;
            }
        }
        let Some(session_id) = session_id else {
            return refused("no line of it can be read", "move it elsewhere");
        };
        // A copy under another name would give the same events to the session twice.
        if path.file_name().and_then(|name| name.to_str()) != Some(&file_name(&session_id)) {
            return refused("its name is not that of its session", "rename it");
        }
        Ok(Ok(session_id))
    }
}

/// Makes the packed form of an event with its text in a file: the digest only.
pub(super) fn packed(payload: Option<[u8; 32]>) -> PackedEvent {
    let payload = payload.map(|digest| StoredPayload { digest, bytes: Arc::default() });
    PackedEvent { rest: Vec::new(), payload }
}

/// Lists the sessions that a commit deleted, each with the newest position at that moment.
fn deleted_by(record: &CommitRecord) -> impl Iterator<Item = (SessionId, u64)> {
    entries(record).filter_map(|entry| match entry {
        LedgerEntry::Deleted { session_id, tail, .. } => Some((session_id, tail)),
        _ => None,
    })
}

fn entries(record: &CommitRecord) -> impl Iterator<Item = LedgerEntry> {
    let lines = record.ledger().map_or(&[][..], |(_, bytes)| bytes);
    lines.split(|byte| *byte == b'\n').filter_map(LedgerEntry::parse)
}
