//! A commit: laid out, made durable in the log, then written to its files and the catalogue.
//!
//! ```text
//! catalogue staged → commit log written and synced → files written → catalogue committed
//!                    durable from here                              visible from here
//! ```
//!
//! If a step fails, the steps before it are rolled back. After a crash the log decides: what is in
//! it is done again.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use event::SessionId;

use super::commit_log::{
    CommitHead, CommitLog, CommitRecord, LedgerChunk, LogEntry, PayloadChunk, SessionChunk, refused,
};
use super::ledger::{LedgerEntry, LedgerSighting};
use super::line_bodies::LineBodies;
use super::line_scanner::LineSpan;
use super::recover::packed;
use super::reindex::Reindexer;
use super::session_file::SessionHeader;
use super::{FilesStore, WriteTx, event_line};
use crate::name::hex;
use crate::store::catalogue::{CatalogueTx, WriteConnection};
use crate::store::{
    ChangeSet, CommitError, EventRow, SessionRow, StoreReader, StoreWriter, StoredPayload,
};
use crate::{StorageError, folder};

/// The number of the last commit the catalogue has.
pub(super) const COMMIT: &str = "commit";
/// Up to which byte the catalogue has the commit log.
pub(super) const LOG_END: &str = "log_end";
/// Up to which byte the catalogue has the ledger.
pub(super) const LEDGER_LENGTH: &str = "ledger_length";
/// Up to which byte the catalogue has a session's file; followed by the session's number.
pub(super) const LENGTH: &str = "length/";

/// A longer log is checkpointed: seldom enough to sync each busy file once for many commits, early
/// enough for opening after a crash to stay quick.
pub(super) const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Threads that sync files. A disk answers several syncs that are requested at once together.
const SYNCING_MAX: usize = 8;

/// A commit, laid out for log, files and catalogue.
pub(super) struct CommitLayout {
    pub record: CommitRecord,
    /// The changes for the catalogue, without texts.
    pub changes: ChangeSet,
    /// The encoded [`LineSpan`] of each event in `changes`.
    pub spans: Vec<[u8; 16]>,
}

/// The ends of the files that a commit appends to.
#[derive(Default)]
pub(super) struct FileEnds {
    /// Lengths by session number; 0 for a file that does not exist yet.
    lengths: HashMap<u32, u64>,
    /// Sessions with a file that is not as long as the catalogue says: it was edited by hand.
    moved: Vec<SessionId>,
}

impl StoreWriter for CatalogueTx<'_, WriteConnection<'_>, LineBodies<'_>> {
    fn apply(self: Box<Self>, changes: &ChangeSet) -> Result<(), CommitError> {
        let store = self.bodies().store;
        store.apply(*self, changes)
    }
}

impl FilesStore {
    fn apply(&self, tx: WriteTx<'_>, changes: &ChangeSet) -> Result<(), CommitError> {
        let ends = self.ends(&tx, changes)?;
        if !ends.moved.is_empty() {
            // The batch was numbered without the lines that were added by hand. The catalogue
            // takes those in, and the writer plans again, as for an id that is taken.
            self.checkpoint_with(&tx)?;
            Reindexer::new(self, &tx)?.catch_up_with(&ends.moved)?;
            tx.finish()?;
            return Err(CommitError::IdTaken);
        }
        let layout = self.lay_out(&tx, changes, &ends)?;
        // Staged before the log is written: a constraint that fails here costs no rollback.
        let dropped = self.stage(&tx, &layout)?;
        // Known before the write, so that the catalogue commits the same end that the log will
        // have. A later process compares the two to see whether a commit is missing: see
        // `is_current`.
        let (at, frame) = (self.log.end()?, layout.record.frame());
        let end = at + frame.len() as u64;
        tx.set_meta(LOG_END, end)?;
        self.log.append(at, &frame)?;
        // The record holds the same bytes, and an import may have gigabytes.
        drop(frame);
        self.has_commits.store(true, Ordering::Relaxed);
        let written = self.write_files(&layout.record).map_err(refused);
        match written.and_then(|()| tx.finish()) {
            // The outcome in the catalogue is unknown. The record stays in the log, and recovery
            // compares the two.
            Err(CommitError::NotDurable(why)) => return Err(CommitError::NotDurable(why)),
            Err(error) => return Err(self.roll_back(at, &layout.record, error)),
            Ok(()) => {}
        }
        // After the catalogue: a crash before it leaves the files, and replaying the log removes
        // them.
        self.remove(changes.deleted.iter().map(|(row, _)| &row.id), &dropped);
        // The checkpoint takes the writers' lock itself.
        drop(tx);
        if end > LOG_BYTES_MAX {
            // The commit is durable. A checkpoint that fails is tried again with the next one.
            let _ = self.run_checkpoint();
        }
        Ok(())
    }

    /// Computes which bytes go to which file at which offset.
    pub(super) fn lay_out(
        &self,
        tx: &WriteTx<'_>,
        changes: &ChangeSet,
        ends: &FileEnds,
    ) -> Result<CommitLayout, StorageError> {
        let rows: HashMap<u32, &SessionRow> =
            changes.sessions.iter().map(|row| (row.number, row)).collect();
        // The events come by position, with sessions mixed. In the record each session has one
        // chunk, so that each file is written once.
        let mut chunks: Vec<(SessionChunk, Vec<u8>)> = Vec::new();
        let mut by_session: HashMap<u32, usize> = HashMap::new();
        let mut spans = Vec::with_capacity(changes.events.len());
        for event in &changes.events {
            let index = match by_session.get(&event.session) {
                Some(index) => *index,
                None => {
                    let row = rows.get(&event.session).copied();
                    chunks.push(begin_chunk(event, row, ends));
                    by_session.insert(event.session, chunks.len() - 1);
                    chunks.len() - 1
                }
            };
            let (chunk, bytes) = &mut chunks[index];
            let start = bytes.len();
            event_line::write(bytes, event);
            let offset = chunk.offset + start as u64;
            // Without the line break.
            let length = (bytes.len() - start - 1) as u64;
            spans.push(LineSpan { offset, length }.encode());
        }
        let entries = self.entries(tx, changes)?;
        let payloads = self.new_payloads(tx, changes)?;
        let mut head = CommitHead {
            number: tx.meta_value(COMMIT)?.unwrap_or(0) + 1,
            chunks: Vec::with_capacity(chunks.len()),
            ledger: None,
            payloads: Vec::with_capacity(payloads.len()),
            sessions: changes.sessions.clone(),
        };
        // The order is that of the head: chunks, ledger, payloads. `CommitRecord` finds the parts
        // by adding up their lengths.
        let mut bytes = Vec::new();
        for (chunk, lines) in chunks {
            head.chunks.push(SessionChunk { length: lines.len(), ..chunk });
            bytes.extend_from_slice(&lines);
        }
        if !entries.is_empty() {
            head.ledger =
                Some(LedgerChunk { offset: self.ledger.length()?, length: entries.len() });
            bytes.extend_from_slice(&entries);
        }
        for payload in payloads {
            let digest = hex(&payload.digest);
            head.payloads.push(PayloadChunk { digest, length: payload.bytes.len() });
            bytes.extend_from_slice(&payload.bytes);
        }
        let changes = ChangeSet {
            events: changes.events.iter().map(without_text).collect(),
            sessions: changes.sessions.clone(),
            sources: changes.sources.clone(),
            sightings: changes.sightings.clone(),
            consumers: changes.consumers.clone(),
            deleted: changes.deleted.clone(),
        };
        Ok(CommitLayout { record: CommitRecord { head, bytes }, changes, spans })
    }

    /// Looks the ends of the files up that the changes append to.
    pub(super) fn ends(
        &self,
        tx: &WriteTx<'_>,
        changes: &ChangeSet,
    ) -> Result<FileEnds, StorageError> {
        let mut ends = FileEnds::default();
        for event in &changes.events {
            if ends.lengths.contains_key(&event.session) {
                continue;
            }
            let session_id = &event.draft.session_id;
            // The length notices an editor that added lines. Without this look those lines would
            // have no rows, and the batch might take their numbers.
            let noted = tx.meta_value(&length_key(event.session))?;
            let length = match self.sessions.get(session_id)? {
                Some(file) => {
                    let failed = self.sessions.failed("look at", session_id);
                    file.metadata().map_err(failed)?.len()
                }
                // A file that was removed by hand begins anew.
                None => 0,
            };
            if length > 0 && noted != Some(length) {
                ends.moved.push(session_id.clone());
            }
            ends.lengths.insert(event.session, length);
        }
        Ok(ends)
    }

    /// Encodes the ledger lines of the changes: everything that the events do not say.
    fn entries(&self, tx: &WriteTx<'_>, changes: &ChangeSet) -> Result<Vec<u8>, StorageError> {
        let mut lines = Vec::new();
        let told: HashSet<u32> = changes.events.iter().map(|event| event.session).collect();
        for row in &changes.sessions {
            // The header line of its file has the parent of a session, and its events have the
            // rest. Only a change without such a line needs an entry.
            let is_told = told.contains(&row.number)
                && tx.session_numbered(row.number)?.is_none_or(|before| {
                    (before.base_seq, &before.parent) == (row.base_seq, &row.parent)
                });
            if !is_told {
                LedgerEntry::Session { session: Box::new(row.clone()) }.write(&mut lines);
            }
        }
        for row in &changes.sources {
            let (source_id, position) = (row.source_id.clone(), row.position.clone());
            LedgerEntry::Source { source_id, position }.write(&mut lines);
        }
        for (name, position) in &changes.consumers {
            LedgerEntry::Consumer { name: name.clone(), position: *position }.write(&mut lines);
        }
        for row in &changes.sightings {
            // A session that begins with this commit is not in the catalogue yet.
            let staged = changes.sessions.iter().find(|session| session.number == row.session);
            let session_id = match staged {
                Some(session) => Some(session.id.clone()),
                None => tx.session_numbered(row.session)?.map(|session| session.id),
            };
            let Some(session_id) = session_id else { continue };
            let sighting = LedgerSighting::new(session_id, row.clone());
            LedgerEntry::Sighting(sighting).write(&mut lines);
        }
        let newest = changes.events.last().map_or(0, |event| event.position);
        // With the events of this commit: a rebuild must not give any of these positions again.
        let tail = tx.tail()?.max(newest);
        for (row, at) in &changes.deleted {
            let (session_id, number) = (row.id.clone(), row.number);
            LedgerEntry::Deleted { session_id, number, at: *at, tail }.write(&mut lines);
        }
        Ok(lines)
    }

    /// Lists the payloads that have no file yet, or that lost it.
    fn new_payloads<'c>(
        &self,
        tx: &WriteTx<'_>,
        changes: &'c ChangeSet,
    ) -> Result<Vec<&'c StoredPayload>, StorageError> {
        let mut seen = HashSet::new();
        let mut new = Vec::new();
        for payload in changes.events.iter().filter_map(|event| event.packed.payload.as_ref()) {
            let is_kept = || -> Result<bool, StorageError> {
                let path = self.payloads.path(&hex(&payload.digest));
                // A file alone is no proof: it may be the unsynced leftover of a commit that was
                // rolled back.
                Ok(path.is_file() && tx.has_payload(&payload.digest)?)
            };
            if seen.insert(payload.digest) && !is_kept()? {
                new.push(payload);
            }
        }
        Ok(new)
    }

    /// Writes a commit into the catalogue's transaction. Returns the payloads that no event uses
    /// any more.
    pub(super) fn stage(
        &self,
        tx: &WriteTx<'_>,
        layout: &CommitLayout,
    ) -> Result<Vec<String>, CommitError> {
        let mut leaving = HashSet::new();
        for (row, _) in &layout.changes.deleted {
            // Asked before staging deletes the events that name them.
            leaving.extend(tx.payloads_of(row.number)?);
        }
        tx.stage(&layout.changes, |index| &layout.spans[index])?;
        for chunk in &layout.record.head.chunks {
            tx.set_meta(&length_key(chunk.session), chunk.offset + chunk.length as u64)?;
        }
        for (row, _) in &layout.changes.deleted {
            tx.remove_meta(&length_key(row.number))?;
        }
        if let Some(ledger) = layout.record.head.ledger {
            tx.set_meta(LEDGER_LENGTH, ledger.offset + ledger.length as u64)?;
        }
        tx.set_meta(COMMIT, layout.record.head.number)?;
        let mut dropped = Vec::new();
        // Asked after staging: another session, or a fork that got copies, may still use them.
        for digest in leaving {
            if !tx.has_payload(&digest)? {
                dropped.push(hex(&digest));
            }
        }
        Ok(dropped)
    }

    /// Writes a record of the log to its files. Idempotent: the record names offsets.
    pub(super) fn write_files(&self, record: &CommitRecord) -> Result<(), StorageError> {
        // Payloads first: a tool that follows the file of a session finds what its lines name.
        for (payload, bytes) in record.payloads() {
            self.payloads.write(&payload.digest, bytes)?;
        }
        for (chunk, bytes) in record.chunks() {
            let file = self.sessions.get_or_create(&chunk.session_id)?;
            let failed = self.sessions.failed("write", &chunk.session_id);
            file.write_all_at(bytes, chunk.offset).map_err(failed)?;
        }
        match record.ledger() {
            Some((offset, bytes)) => self.ledger.write_at(offset, bytes),
            None => Ok(()),
        }
    }

    /// Rolls back a commit that could not be written to its files.
    ///
    /// The log is cut first. A crash after that leaves at most lines behind the known end of a
    /// file, which recovery handles; a crash before it leaves the whole commit.
    pub(super) fn roll_back(
        &self,
        at: u64,
        record: &CommitRecord,
        error: CommitError,
    ) -> CommitError {
        let undo = || -> Result<(), StorageError> {
            self.log.cut(at)?;
            for chunk in &record.head.chunks {
                // A file that cannot be opened was not written to either.
                let Ok(Some(file)) = self.sessions.get(&chunk.session_id) else { continue };
                // The commit began the file.
                if chunk.offset == 0 {
                    self.sessions.remove(&chunk.session_id)?;
                } else {
                    let failed = self.sessions.failed("cut", &chunk.session_id);
                    file.set_len(chunk.offset).map_err(failed)?;
                }
            }
            if let Some(ledger) = record.head.ledger {
                self.ledger.cut(ledger.offset)?;
            }
            for payload in &record.head.payloads {
                self.payloads.remove(&payload.digest)?;
            }
            Ok(())
        };
        match undo() {
            Ok(()) => error,
            Err(undo) => CommitError::NotDurable(format!("{error}; {undo}")),
        }
    }

    /// Removes the files of deleted sessions and payloads. The catalogue does not know them any
    /// more, so errors are ignored: a check reports a file that stays.
    pub(super) fn remove<'s>(
        &self,
        sessions: impl Iterator<Item = &'s SessionId>,
        payloads: &[String],
    ) {
        for session_id in sessions {
            let _ = self.sessions.remove(session_id);
        }
        for digest in payloads {
            let _ = self.payloads.remove(digest);
        }
    }

    /// Checkpoint: syncs the files that the log's commits were written to, then cuts the log.
    pub(super) fn run_checkpoint(&self) -> Result<(), StorageError> {
        let tx = self.write().map_err(|error| StorageError::new("settle", &self.dir, error))?;
        self.checkpoint_with(&tx)?;
        tx.finish().map_err(|error| StorageError::new("settle", &self.dir, error))?;
        self.has_commits.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The same inside a write transaction.
    pub(super) fn checkpoint_with(&self, tx: &WriteTx<'_>) -> Result<(), StorageError> {
        // An empty log means that the files were synced with the last checkpoint.
        if self.log.end()? == CommitLog::START {
            return Ok(());
        }
        let synced = self.sync_files();
        // Linux reports a failed write-back once and may then treat the pages as clean. A second
        // sync would succeed without the bytes, so they are written again first.
        self.needs_rewrite.store(synced.is_err(), Ordering::Relaxed);
        synced?;
        // The number commits with the transaction, after the log is cut. A crash in between leaves
        // an empty log, which means that everything is in the files, and `catch_up` sets the number.
        tx.set_meta(LOG_END, CommitLog::START)?;
        self.log.cut(CommitLog::START)?;
        if self.ledger.rewrite_if_outdated()? {
            tx.set_meta(LEDGER_LENGTH, self.ledger.length()?)?;
        }
        Ok(())
    }

    fn sync_files(&self) -> Result<(), StorageError> {
        let (mut sessions, mut payloads) = (HashSet::new(), HashSet::new());
        let mut at = CommitLog::START;
        loop {
            match self.log.read(at)? {
                LogEntry::Record(record, end) => {
                    if self.needs_rewrite.load(Ordering::Relaxed) {
                        self.write_files(&record)?;
                    }
                    sessions.extend(record.head.chunks.into_iter().map(|chunk| chunk.session_id));
                    payloads.extend(record.head.payloads.into_iter().map(|chunk| chunk.digest));
                    at = end;
                }
                // The record names files that cannot be known any more. Recovery reports it.
                LogEntry::Damaged(_, end) => at = end,
                LogEntry::Torn | LogEntry::End => break,
            }
        }
        let sessions: Vec<SessionId> = sessions.into_iter().collect();
        in_parallel(&sessions, |session_id| {
            // A file that was deleted since has nothing to sync.
            let Some(file) = self.sessions.get(session_id)? else { return Ok(()) };
            file.sync_data().map_err(self.sessions.failed("sync", session_id))
        })?;
        let payloads: Vec<String> = payloads.into_iter().collect();
        in_parallel(&payloads, |digest| self.payloads.sync(digest))?;
        self.ledger.sync()?;
        // New files also need their names on the disk, or a power cut loses them with the log cut.
        folder::sync(self.payloads.dir())?;
        folder::sync(self.sessions.dir())?;
        self.catalogue.sync()
    }
}

/// Runs `act` on all items, on several threads.
fn in_parallel<T: Sync>(
    items: &[T],
    act: impl Fn(&T) -> Result<(), StorageError> + Sync,
) -> Result<(), StorageError> {
    if items.len() <= 1 {
        return items.iter().try_for_each(act);
    }
    std::thread::scope(|scope| {
        // `chunks` makes at most `SYNCING_MAX` shares of this size.
        let share = items.len().div_ceil(SYNCING_MAX);
        let act = &act;
        let threads: Vec<_> = items
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().try_for_each(act)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("syncing a file does not panic"))
    })
}

/// The name of the meta value with a file's length.
pub(super) fn length_key(session: u32) -> String {
    format!("{LENGTH}{session}")
}

/// Begins a chunk at the end of a session's file; a new file begins with its header line.
fn begin_chunk(
    event: &EventRow,
    row: Option<&SessionRow>,
    ends: &FileEnds,
) -> (SessionChunk, Vec<u8>) {
    let offset = ends.lengths.get(&event.session).copied().unwrap_or(0);
    let bytes = match row {
        Some(row) if offset == 0 => SessionHeader::line(row),
        _ => Vec::new(),
    };
    let session_id = event.draft.session_id.clone();
    (SessionChunk { session_id, session: event.session, offset, length: 0 }, bytes)
}

/// Copies the row without its text, which the catalogue does not keep.
fn without_text(row: &EventRow) -> EventRow {
    let EventRow { position, session, seq, .. } = *row;
    let payload = row.packed.payload.as_ref().map(|payload| payload.digest);
    EventRow { position, session, seq, draft: Arc::clone(&row.draft), packed: packed(payload) }
}
