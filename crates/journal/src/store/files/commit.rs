//! A commit: laid out, made durable in the log, then carried to its files and the catalogue.
//!
//! ```text
//! catalogue (not yet committed) → commit log, synced → files → catalogue committed
//! ```
//!
//! Whoever reads sees it with the last step. If a step before fails, those already made are taken
//! back; after a crash the log decides.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use event::SessionId;

use super::commit_log::{
    Chunk, CommitLog, Found, Head, LedgerChunk, PayloadChunk, Record, refused,
};
use super::index::Index;
use super::ledger::Entry;
use super::lines::Lines;
use super::recover::packed;
use super::scan::Place;
use super::session_file::Header;
use super::{FilesStore, WriteView, line};
use crate::name::hex;
use crate::store::catalogue::{View, Writing};
use crate::store::{Changes, Commit, CommitError, EventRow, Payload, Reader, SessionRow};
use crate::{StorageError, folder};

/// The number of the last commit the catalogue has.
pub(super) const COMMIT: &str = "commit";
/// How far the commit log is in the catalogue.
pub(super) const LOG_END: &str = "log_end";
/// How far the ledger is in the catalogue.
pub(super) const LEDGER_LENGTH: &str = "ledger_length";
/// How far a session's file is in the catalogue, followed by the session's number.
pub(super) const LENGTH: &str = "length/";

/// The log is cut when it is longer: seldom enough to sync each busy file once for many commits,
/// early enough for opening after a crash to stay quick.
pub(super) const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Threads that sync files. A disk that is asked for several at once answers them together.
const SYNCING_MAX: usize = 8;

/// A commit on its way.
pub(super) struct Layout {
    pub record: Record,
    /// The changes as the catalogue keeps them, without texts.
    pub changes: Changes,
    /// Where each event of the changes will stand.
    pub places: Vec<[u8; 16]>,
}

/// Where the next lines go.
#[derive(Default)]
pub(super) struct Ends {
    /// The lengths of the files by session; 0 for one that is not there yet.
    lengths: HashMap<u32, u64>,
    /// Files that are not as long as the catalogue says: somebody else wrote to them.
    moved: Vec<SessionId>,
}

impl Commit for View<'_, Writing<'_>, Lines<'_>> {
    fn apply(self: Box<Self>, changes: &Changes) -> Result<(), CommitError> {
        let store = self.bodies().store;
        store.apply(*self, changes)
    }
}

impl FilesStore {
    fn apply(&self, view: WriteView<'_>, changes: &Changes) -> Result<(), CommitError> {
        let ends = self.ends(&view, changes)?;
        if !ends.moved.is_empty() {
            // The batch was numbered without what these files say by now. It is numbered again
            // when that is known, as for an id that turns out to be taken.
            self.settle_with(&view)?;
            Index::new(self, &view)?.catch_up_with(&ends.moved)?;
            view.finish()?;
            return Err(CommitError::IdTaken);
        }
        let layout = self.lay_out(&view, changes, &ends)?;
        let dropped = self.stage(&view, &layout)?;
        let (at, frame) = (self.log.end()?, layout.record.frame());
        let end = at + frame.len() as u64;
        view.note(LOG_END, end)?;
        self.log.append(at, &frame)?;
        drop(frame);
        self.has_news.store(true, Ordering::Relaxed);
        let carried = self.carry(&layout.record).map_err(refused);
        match carried.and_then(|()| view.finish()) {
            // A commit of which nobody knows stays in the log, which knows.
            Err(CommitError::NotDurable(why)) => return Err(CommitError::NotDurable(why)),
            Err(error) => return Err(self.take_back(at, &layout.record, error)),
            Ok(()) => {}
        }
        self.remove(changes.deleted.iter().map(|(row, _)| &row.id), &dropped);
        drop(view);
        if end > LOG_BYTES_MAX {
            // The commit is recorded. What goes wrong here is tried again with the next one.
            let _ = self.settle();
        }
        Ok(())
    }

    /// Works out what goes where.
    pub(super) fn lay_out(
        &self,
        view: &WriteView<'_>,
        changes: &Changes,
        ends: &Ends,
    ) -> Result<Layout, StorageError> {
        let rows: HashMap<u32, &SessionRow> =
            changes.sessions.iter().map(|row| (row.number, row)).collect();
        let mut chunks: Vec<(Chunk, Vec<u8>)> = Vec::new();
        let mut by_session: HashMap<u32, usize> = HashMap::new();
        let mut places = Vec::with_capacity(changes.events.len());
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
            line::write(bytes, event);
            let offset = chunk.offset + start as u64;
            let length = (bytes.len() - start - 1) as u64;
            places.push(Place { offset, length }.encode());
        }
        let entries = self.entries(view, changes)?;
        let payloads = self.new_payloads(view, changes)?;
        let mut head = Head {
            number: view.noted(COMMIT)?.unwrap_or(0) + 1,
            chunks: Vec::with_capacity(chunks.len()),
            ledger: None,
            payloads: Vec::with_capacity(payloads.len()),
            sessions: changes.sessions.clone(),
        };
        let mut bytes = Vec::new();
        for (chunk, lines) in chunks {
            head.chunks.push(Chunk { length: lines.len(), ..chunk });
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
        let changes = Changes {
            events: changes.events.iter().map(without_text).collect(),
            sessions: changes.sessions.clone(),
            sources: changes.sources.clone(),
            sightings: changes.sightings.clone(),
            consumers: changes.consumers.clone(),
            deleted: changes.deleted.clone(),
        };
        Ok(Layout { record: Record { head, bytes }, changes, places })
    }

    /// Where the next lines of each session of the changes go.
    pub(super) fn ends(
        &self,
        view: &WriteView<'_>,
        changes: &Changes,
    ) -> Result<Ends, StorageError> {
        let mut ends = Ends::default();
        for event in &changes.events {
            if ends.lengths.contains_key(&event.session) {
                continue;
            }
            let session_id = &event.draft.session_id;
            let noted = view.noted(&length_note(event.session))?;
            let length = match self.sessions.get(session_id)? {
                Some(file) => {
                    let failed = self.sessions.failed("look at", session_id);
                    file.metadata().map_err(failed)?.len()
                }
                // One that somebody removed begins anew.
                None => 0,
            };
            if length > 0 && noted != Some(length) {
                ends.moved.push(session_id.clone());
            }
            ends.lengths.insert(event.session, length);
        }
        Ok(ends)
    }

    /// Lines for the ledger: what the events do not tell.
    fn entries(&self, view: &WriteView<'_>, changes: &Changes) -> Result<Vec<u8>, StorageError> {
        let mut lines = Vec::new();
        let told: HashSet<u32> = changes.events.iter().map(|event| event.session).collect();
        for row in &changes.sessions {
            // The first line of its file tells where a session comes from, and the others the
            // rest. What changes without a line is told here.
            let is_told = told.contains(&row.number)
                && view.session_numbered(row.number)?.is_none_or(|before| {
                    (before.base_seq, &before.parent) == (row.base_seq, &row.parent)
                });
            if !is_told {
                Entry::Session { session: Box::new(row.clone()) }.write(&mut lines);
            }
        }
        for row in &changes.sources {
            let (source_id, position) = (row.source_id.clone(), row.position.clone());
            Entry::Source { source_id, position }.write(&mut lines);
        }
        for (name, position) in &changes.consumers {
            Entry::Consumer { name: name.clone(), position: *position }.write(&mut lines);
        }
        for row in &changes.sightings {
            let staged = changes.sessions.iter().find(|session| session.number == row.session);
            let session_id = match staged {
                Some(session) => Some(session.id.clone()),
                None => view.session_numbered(row.session)?.map(|session| session.id),
            };
            let Some(session_id) = session_id else { continue };
            Entry::Sighting {
                session_id,
                seq: row.seq,
                source: row.source.clone(),
                observed_at: row.observed_at,
                source_position: row.source_position.clone(),
                differs: row.differs,
            }
            .write(&mut lines);
        }
        let newest = changes.events.last().map_or(0, |event| event.position);
        let tail = view.tail()?.max(newest);
        for (row, at) in &changes.deleted {
            let (session_id, number) = (row.id.clone(), row.number);
            Entry::Deleted { session_id, number, at: *at, tail }.write(&mut lines);
        }
        Ok(lines)
    }

    /// Payloads that no event has yet, and ones that got lost.
    fn new_payloads<'c>(
        &self,
        view: &WriteView<'_>,
        changes: &'c Changes,
    ) -> Result<Vec<&'c Payload>, StorageError> {
        let mut seen = HashSet::new();
        let mut new = Vec::new();
        for payload in changes.events.iter().filter_map(|event| event.packed.payload.as_ref()) {
            let is_kept = || -> Result<bool, StorageError> {
                let path = self.payloads.path(&hex(&payload.digest));
                Ok(path.is_file() && view.has_payload(&payload.digest)?)
            };
            if seen.insert(payload.digest) && !is_kept()? {
                new.push(payload);
            }
        }
        Ok(new)
    }

    /// Writes a commit to the catalogue, to be seen when the view is finished. Returns the
    /// payloads that no event has any more.
    pub(super) fn stage(
        &self,
        view: &WriteView<'_>,
        layout: &Layout,
    ) -> Result<Vec<String>, CommitError> {
        let mut leaving = HashSet::new();
        for (row, _) in &layout.changes.deleted {
            leaving.extend(view.payloads_of(row.number)?);
        }
        view.stage(&layout.changes, |index| &layout.places[index])?;
        for chunk in &layout.record.head.chunks {
            view.note(&length_note(chunk.session), chunk.offset + chunk.length as u64)?;
        }
        for (row, _) in &layout.changes.deleted {
            view.forget_note(&length_note(row.number))?;
        }
        if let Some(ledger) = layout.record.head.ledger {
            view.note(LEDGER_LENGTH, ledger.offset + ledger.length as u64)?;
        }
        view.note(COMMIT, layout.record.head.number)?;
        let mut dropped = Vec::new();
        for digest in leaving {
            if !view.has_payload(&digest)? {
                dropped.push(hex(&digest));
            }
        }
        Ok(dropped)
    }

    /// Writes a commit of the log to its files. Doing so again changes nothing.
    pub(super) fn carry(&self, record: &Record) -> Result<(), StorageError> {
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

    /// Undoes a commit that did not get to its files. The log comes first: from then on a crash
    /// leaves at most lines behind the end, which the next who opens removes.
    pub(super) fn take_back(&self, at: u64, record: &Record, error: CommitError) -> CommitError {
        let undo = || -> Result<(), StorageError> {
            self.log.cut(at)?;
            for chunk in &record.head.chunks {
                // What is no file of ours was not written to either.
                let Ok(Some(file)) = self.sessions.get(&chunk.session_id) else { continue };
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

    /// Removes the files of deleted sessions. They are unknown by now, so one that stays is only
    /// in the way of a check.
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

    /// Syncs the files that commits went to, then cuts the log.
    pub(super) fn settle(&self) -> Result<(), StorageError> {
        let view = self.write().map_err(|error| StorageError::new("settle", &self.dir, error))?;
        self.settle_with(&view)?;
        view.finish().map_err(|error| StorageError::new("settle", &self.dir, error))?;
        self.has_news.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The same for whoever has the right to commit.
    pub(super) fn settle_with(&self, view: &WriteView<'_>) -> Result<(), StorageError> {
        if self.log.end()? == CommitLog::START {
            return Ok(());
        }
        let synced = self.sync_files();
        self.is_in_doubt.store(synced.is_err(), Ordering::Relaxed);
        synced?;
        view.note(LOG_END, CommitLog::START)?;
        self.log.cut(CommitLog::START)?;
        if self.ledger.rewrite_if_outdated()? {
            view.note(LEDGER_LENGTH, self.ledger.length()?)?;
        }
        Ok(())
    }

    fn sync_files(&self) -> Result<(), StorageError> {
        let (mut sessions, mut payloads) = (HashSet::new(), HashSet::new());
        let mut at = CommitLog::START;
        loop {
            match self.log.read(at)? {
                Found::Record(record, end) => {
                    if self.is_in_doubt.load(Ordering::Relaxed) {
                        self.carry(&record)?;
                    }
                    sessions.extend(record.head.chunks.into_iter().map(|chunk| chunk.session_id));
                    payloads.extend(record.head.payloads.into_iter().map(|chunk| chunk.digest));
                    at = end;
                }
                Found::Damaged(_, end) => at = end,
                Found::Torn | Found::End => break,
            }
        }
        let sessions: Vec<SessionId> = sessions.into_iter().collect();
        at_once(&sessions, |session_id| {
            // One that was deleted since has nothing to sync.
            let Some(file) = self.sessions.get(session_id)? else { return Ok(()) };
            file.sync_data().map_err(self.sessions.failed("sync", session_id))
        })?;
        let payloads: Vec<String> = payloads.into_iter().collect();
        at_once(&payloads, |digest| self.payloads.sync(digest))?;
        self.ledger.sync()?;
        folder::sync(self.payloads.dir())?;
        folder::sync(self.sessions.dir())?;
        self.catalogue.sync()
    }
}

/// Does the same with all of them, several at once.
fn at_once<T: Sync>(
    items: &[T],
    act: impl Fn(&T) -> Result<(), StorageError> + Sync,
) -> Result<(), StorageError> {
    if items.len() <= 1 {
        return items.iter().try_for_each(act);
    }
    std::thread::scope(|scope| {
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

/// The name a file's length is noted under.
pub(super) fn length_note(session: u32) -> String {
    format!("{LENGTH}{session}")
}

/// An empty chunk at the end of a session's file, or the first line of a new one.
fn begin_chunk(event: &EventRow, row: Option<&SessionRow>, ends: &Ends) -> (Chunk, Vec<u8>) {
    let offset = ends.lengths.get(&event.session).copied().unwrap_or(0);
    let bytes = match row {
        Some(row) if offset == 0 => Header::line(row),
        _ => Vec::new(),
    };
    let session_id = event.draft.session_id.clone();
    (Chunk { session_id, session: event.session, offset, length: 0 }, bytes)
}

/// The row as the catalogue needs it.
fn without_text(row: &EventRow) -> EventRow {
    let EventRow { position, session, seq, .. } = *row;
    let payload = row.packed.payload.as_ref().map(|payload| payload.digest);
    EventRow { position, session, seq, draft: Arc::clone(&row.draft), packed: packed(payload) }
}
