//! The ledger: everything recorded that is no event, such as positions of sources, sightings and
//! deleted sessions.
//!
//! Lines are only appended; the last one about a key counts. When most lines are outdated, the live
//! ones are written to a new file that replaces the old one (compaction).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use event::{SessionId, Time};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::event_line;
use super::line_scanner::{LineScanner, ScannedLine};
use crate::file::{self, TempFile};
use crate::store::{SessionRow, SightingRow};
use crate::{Damage, OpenError, StorageError, folder};

/// The ledger of one journal.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    open: Mutex<Arc<File>>,
    /// Its length after the last compaction.
    alive_bytes: AtomicU64,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LedgerEntry {
    /// How far a source was read.
    Source { source_id: String, position: String },
    /// How far a consumer has read.
    Consumer { name: String, position: u64 },
    /// Another sighting of a recorded event.
    Sighting(LedgerSighting),
    /// The row of a session that changed without an event.
    Session { session: Box<SessionRow> },
    /// A deleted session, and the newest position at that moment: positions are never given again.
    Deleted { session_id: SessionId, number: u32, at: Time, tail: u64 },
    /// Numbers given to consecutive lines without numbers, from the one at `offset` on: lines that
    /// a user wrote by hand, and lines that can no longer be read.
    Adopted { session_id: SessionId, offset: u64, from_seq: u64, to_seq: u64, position: u64 },
}

/// A sighting, with the id of its session: numbers of sessions change when a catalogue is rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerSighting {
    pub session_id: SessionId,
    pub seq: u64,
    source: String,
    observed_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_position: Option<String>,
    differs: bool,
}

impl LedgerSighting {
    pub(super) fn new(session_id: SessionId, row: SightingRow) -> LedgerSighting {
        let SightingRow { session: _, seq, source, observed_at, source_position, differs } = row;
        LedgerSighting { session_id, seq, source, observed_at, source_position, differs }
    }

    /// The row of the catalogue, with the number of the session.
    pub(super) fn into_row(self, session: u32) -> SightingRow {
        let LedgerSighting { session_id: _, seq, source, observed_at, source_position, differs } =
            self;
        SightingRow { session, seq, source, observed_at, source_position, differs }
    }
}

/// The member names of all kinds of entries.
const KINDS: [&str; 6] = ["source", "consumer", "sighting", "session", "deleted", "adopted"];

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct LedgerHeader {
    format: String,
    version: u32,
}

const FORMAT: &str = "hansard-ledger";
const VERSION: u32 = 1;

/// A ledger below this size is never compacted; above, when three of four bytes are outdated.
const REWRITE_BYTES_MIN: u64 = 1024 * 1024;
const GROWTH_MAX: u64 = 4;

impl Ledger {
    pub(super) const FILE_NAME: &str = "ledger.jsonl";

    /// Opens the ledger of the journal in `dir`, and creates it if it is missing.
    pub(super) fn open(dir: &Path) -> Result<Ledger, OpenError> {
        let path = dir.join(Ledger::FILE_NAME);
        let opened = match file::open(&path)? {
            Some(opened) => opened,
            None => {
                file::write(&path, &header())?;
                let opened = file::open(&path)?;
                opened.ok_or_else(|| OpenError::JournalNotFound { path: path.clone() })?
            }
        };
        let failed = |error| StorageError::new("read", &path, error);
        let mut scan = LineScanner::new(&opened, 0);
        let first = scan.next().map_err(failed)?;
        // A header that cannot be read is damage of one line and no reason to refuse the ledger:
        // its entries are readable without it.
        let found: Option<LedgerHeader> =
            first.and_then(|first| serde_json::from_slice(first.bytes.trim_ascii()).ok());
        if let Some(header) = found.filter(|header| header.version > VERSION) {
            return Err(OpenError::NewerFormat { path, found: header.version, supported: VERSION });
        }
        let open = Mutex::new(Arc::new(opened));
        // 0: not known yet. The first checkpoint with a ledger above the minimum compacts it and
        // learns the live size.
        Ok(Ledger { path, open, alive_bytes: AtomicU64::new(0) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that has the name now: another process may have compacted the ledger.
    pub(super) fn file(&self) -> Result<Arc<File>, StorageError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !file::is_at(&open, &self.path).map_err(self.failed("look at"))? {
            let missing = || self.failed("open")(io::ErrorKind::NotFound.into());
            *open = Arc::new(file::open(&self.path)?.ok_or_else(missing)?);
        }
        Ok(Arc::clone(&open))
    }

    pub(super) fn length(&self) -> Result<u64, StorageError> {
        Ok(self.file()?.metadata().map_err(self.failed("look at"))?.len())
    }

    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.file()?.write_all_at(bytes, offset).map_err(self.failed("write"))
    }

    pub(super) fn cut(&self, length: u64) -> Result<(), StorageError> {
        self.file()?.set_len(length).map_err(self.failed("cut"))
    }

    pub(super) fn sync(&self) -> Result<(), StorageError> {
        self.file()?.sync_data().map_err(self.failed("sync"))
    }

    /// Passes every entry from `offset` on to `take`, in order. Returns damaged lines. Entries of a
    /// kind that this program does not know are skipped.
    pub(super) fn read(
        &self,
        offset: u64,
        mut take: impl FnMut(LedgerEntry),
    ) -> Result<Vec<Damage>, StorageError> {
        let file = self.file()?;
        let mut scan = LineScanner::new(&file, offset);
        let mut damages = Vec::new();
        while let Some(scanned) = scan.next().map_err(self.failed("read"))? {
            match LedgerEntry::read(scanned.bytes) {
                ParsedLine::LedgerEntry(entry) => take(*entry),
                ParsedLine::Other => {}
                ParsedLine::Damaged => damages.push(Damage {
                    store: super::NAME,
                    file: self.path.clone(),
                    line: super::line_scanner::line_number(&file, scanned.span.offset).ok(),
                    byte: Some(scanned.span.offset),
                    session_id: None,
                    seq: None,
                    why: "the line cannot be read".to_owned(),
                }),
            }
        }
        Ok(damages)
    }

    /// Compacts the ledger if most of it is outdated; returns whether it did. The commit log has to
    /// be empty: its records name offsets in the old file.
    pub(super) fn rewrite_if_outdated(&self) -> Result<bool, StorageError> {
        let alive = self.alive_bytes.load(Ordering::Relaxed);
        if self.length()? <= (alive * GROWTH_MAX).max(REWRITE_BYTES_MIN) {
            return Ok(false);
        }
        self.rewrite()
    }

    fn rewrite(&self) -> Result<bool, StorageError> {
        let file = self.file()?;
        let failed = self.failed("rewrite");
        let Some(living) = LiveEntries::scan(&file).map_err(&failed)? else {
            // A damaged line stays where it is for the user to look at. The next try comes when the
            // ledger has grown again.
            self.alive_bytes.store(self.length()?, Ordering::Relaxed);
            return Ok(false);
        };
        let dir = self.path.parent().expect("the ledger is in a folder");
        // Two scans instead of one: the first finds the newest line of each key, the second copies
        // lines as they are. So memory grows with the keys and not with the file.
        let mut beside = TempFile::new(dir)?;
        let mut out = BufWriter::new(beside.file());
        let mut scan = LineScanner::new(&file, 0);
        let mut alive = 0;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            if living.has(&scanned) {
                // Byte for byte: a line of a newer program keeps the members that this one does not
                // know.
                out.write_all(scanned.bytes)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(&failed)?;
                alive += scanned.span.length + 1;
            }
        }
        out.flush().map_err(&failed)?;
        drop(out);
        // Synced before it gets the name: a crash leaves the old ledger or the whole new one.
        beside.sync()?;
        beside.replace(&self.path)?;
        folder::sync(dir)?;
        self.alive_bytes.store(alive, Ordering::Relaxed);
        Ok(true)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> StorageError {
        move |error| StorageError::new(action, &self.path, error)
    }
}

/// What a line of the ledger was parsed as.
enum ParsedLine {
    LedgerEntry(Box<LedgerEntry>),
    /// The header, or an entry of a kind that this program does not know.
    Other,
    Damaged,
}

impl LedgerEntry {
    /// Appends the entry as a line to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        serde_json::to_writer(&mut *out, self).expect("rows always encode");
        // The closing brace goes; the seal brings its own.
        out.pop();
        event_line::seal(out, start);
    }

    /// Parses a line; `None` if it is no entry that this program knows.
    pub(super) fn parse(bytes: &[u8]) -> Option<LedgerEntry> {
        match LedgerEntry::read(bytes) {
            ParsedLine::LedgerEntry(entry) => Some(*entry),
            ParsedLine::Other | ParsedLine::Damaged => None,
        }
    }

    fn read(bytes: &[u8]) -> ParsedLine {
        let text = bytes.trim_ascii();
        // A line without a seal is accepted: a user may have written it by hand.
        let text = match event_line::unseal(text) {
            Ok(Some(body)) => Cow::Owned([body, b"}"].concat()),
            Ok(None) => Cow::Borrowed(text),
            Err(_) => return ParsedLine::Damaged,
        };
        if let Ok(entry) = serde_json::from_slice(&text) {
            return ParsedLine::LedgerEntry(Box::new(entry));
        }
        match serde_json::from_slice::<HashMap<String, IgnoredAny>>(&text) {
            // An object without any known kind is of a newer program. With a known kind it should
            // have parsed, so it is damaged.
            Ok(members) if !KINDS.iter().any(|kind| members.contains_key(*kind)) => {
                ParsedLine::Other
            }
            _ => ParsedLine::Damaged,
        }
    }

    /// The session that the entry belongs to: it goes when the session is deleted.
    fn session_id(&self) -> Option<&SessionId> {
        match self {
            LedgerEntry::Session { session } => Some(&session.id),
            LedgerEntry::Sighting(sighting) => Some(&sighting.session_id),
            LedgerEntry::Adopted { session_id, .. } => Some(session_id),
            LedgerEntry::Source { .. }
            | LedgerEntry::Consumer { .. }
            | LedgerEntry::Deleted { .. } => None,
        }
    }

    /// The key of the entry: a later entry with the same key replaces it. `None` for entries that
    /// stay.
    fn key(&self) -> Option<(u8, &str)> {
        match self {
            LedgerEntry::Source { source_id, .. } => Some((0, source_id)),
            LedgerEntry::Consumer { name, .. } => Some((1, name)),
            LedgerEntry::Session { session } => Some((2, session.id.as_str())),
            LedgerEntry::Sighting(_)
            | LedgerEntry::Deleted { .. }
            | LedgerEntry::Adopted { .. } => None,
        }
    }
}

/// Which lines survive a compaction.
#[derive(Default)]
struct LiveEntries {
    /// The offset of the newest line of each key.
    newest: HashMap<(u8, String), u64>,
    deleted: HashSet<SessionId>,
}

impl LiveEntries {
    /// Scans the whole file; `None` if a line is damaged.
    fn scan(file: &File) -> io::Result<Option<LiveEntries>> {
        let mut living = LiveEntries::default();
        let mut scan = LineScanner::new(file, 0);
        while let Some(scanned) = scan.next()? {
            match LedgerEntry::read(scanned.bytes) {
                ParsedLine::LedgerEntry(entry) => {
                    if let LedgerEntry::Deleted { session_id, .. } = &*entry {
                        living.deleted.insert(session_id.clone());
                    }
                    let key = entry.key().map(|(family, about)| (family, about.to_owned()));
                    living.newest.extend(key.map(|key| (key, scanned.span.offset)));
                }
                ParsedLine::Other => {}
                ParsedLine::Damaged => return Ok(None),
            }
        }
        Ok(Some(living))
    }

    fn has(&self, scanned: &ScannedLine<'_>) -> bool {
        // The header, and entries of a newer program, which may mean anything.
        let Some(entry) = LedgerEntry::parse(scanned.bytes) else { return true };
        // Entries about a deleted session go, except the deletion itself, which has no session
        // here.
        if entry.session_id().is_some_and(|session_id| self.deleted.contains(session_id)) {
            return false;
        }
        let key = entry.key().map(|(family, about)| (family, about.to_owned()));
        key.is_none_or(|key| self.newest.get(&key) == Some(&scanned.span.offset))
    }
}

fn header() -> Vec<u8> {
    let header = LedgerHeader { format: FORMAT.to_owned(), version: VERSION };
    let mut out = serde_json::to_vec(&header).expect("strings and numbers always encode");
    out.pop();
    event_line::seal(&mut out, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(position: u64) -> LedgerEntry {
        LedgerEntry::Source { source_id: "file".to_owned(), position: position.to_string() }
    }

    fn append(ledger: &Ledger, entry: &LedgerEntry) {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        ledger.write_at(ledger.length().unwrap(), &bytes).unwrap();
    }

    fn entries(ledger: &Ledger) -> (Vec<LedgerEntry>, usize) {
        let mut entries = Vec::new();
        let damages = ledger.read(0, |entry| entries.push(entry)).unwrap();
        (entries, damages.len())
    }

    #[test]
    fn compaction_keeps_the_live_entries() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let other = Ledger::open(dir.path()).unwrap();
        let deleted = LedgerEntry::Deleted {
            session_id: SessionId::new("gone").unwrap(),
            number: 3,
            at: Time::EPOCH,
            tail: 9,
        };
        let sighting = |session: &str| {
            LedgerEntry::Sighting(LedgerSighting {
                session_id: SessionId::new(session).unwrap(),
                seq: 1,
                source: "hook".to_owned(),
                observed_at: Time::EPOCH,
                source_position: None,
                differs: false,
            })
        };
        append(&ledger, &sighting("gone"));
        append(&ledger, &sighting("kept"));
        append(&ledger, &deleted);
        for position in 0..100 {
            append(&ledger, &source(position));
        }
        let unknown = b"{\"of_tomorrow\":{\"x\":1}}\n";
        ledger.write_at(ledger.length().unwrap(), unknown).unwrap();
        assert!(ledger.rewrite().unwrap());
        assert_eq!(entries(&ledger), (vec![sighting("kept"), deleted, source(99)], 0));
        // Another process that had the ledger open goes on with the new file.
        append(&other, &source(100));
        assert_eq!(entries(&ledger).0.last(), Some(&source(100)));
        let text = std::fs::read(ledger.path()).unwrap();
        assert!(text.windows(unknown.len()).any(|window| window == unknown));
    }

    #[test]
    fn damaged_line_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        append(&ledger, &source(1));
        let start = ledger.length().unwrap();
        append(&ledger, &source(2));
        append(&ledger, &source(3));
        ledger.write_at(start + 20, b"#").unwrap();
        assert_eq!(entries(&ledger), (vec![source(1), source(3)], 1));
        assert!(!ledger.rewrite().unwrap());
        assert_eq!(entries(&ledger).1, 1);
    }

    #[test]
    fn newer_ledger_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Ledger::FILE_NAME);
        std::fs::write(&path, "{\"format\":\"hansard-ledger\",\"version\":2}\n").unwrap();
        let error = Ledger::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::NewerFormat { found: 2, supported: 1, .. }));
    }
}
