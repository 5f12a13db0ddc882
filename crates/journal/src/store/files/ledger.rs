//! What is recorded and is no event: positions of sources, second tellings, deleted sessions.
//!
//! Lines are only added; the last one about a thing counts. When most lines are outdated, the
//! living ones are written beside and take the old file's place.

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

use super::line;
use super::scan::{Scan, Scanned};
use crate::file::{self, Beside};
use crate::store::SessionRow;
use crate::{Damage, OpenError, StorageError, folder};

/// The ledger of one journal.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    open: Mutex<Arc<File>>,
    /// How long it was when all its lines were alive.
    alive_bytes: AtomicU64,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// How far a source was read.
    Source { source_id: String, position: String },
    /// How far a consumer has come.
    Consumer { name: String, position: u64 },
    /// A second telling of an event.
    Sighting {
        session_id: SessionId,
        seq: u64,
        source: String,
        observed_at: Time,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_position: Option<String>,
        differs: bool,
    },
    /// A session that changed without an event that says so, as it is afterwards.
    Session { session: Box<SessionRow> },
    /// A session that was removed, and the newest position of that moment: positions are never
    /// given again.
    Deleted { session_id: SessionId, number: u32, at: Time, tail: u64 },
    /// Numbers given to lines that somebody wrote by hand, from the one at `offset` on, and to
    /// lines that can no longer be read.
    Adopted { session_id: SessionId, offset: u64, from_seq: u64, to_seq: u64, position: u64 },
}

/// The names of all entries, as they begin their lines.
const KINDS: [&str; 6] = ["source", "consumer", "sighting", "session", "deleted", "adopted"];

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

const FORMAT: &str = "hansard-ledger";
const VERSION: u32 = 1;

/// A ledger below this is never rewritten; above, when three of four bytes are outdated.
const REWRITE_BYTES_MIN: u64 = 1024 * 1024;
const GROWTH_MAX: u64 = 4;

impl Ledger {
    pub(super) const FILE_NAME: &str = "ledger.jsonl";

    /// Opens the ledger of the journal in `dir`, and makes it if it is not there.
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
        let mut scan = Scan::from(&opened, 0);
        let first = scan.next().map_err(failed)?;
        let found: Option<Header> =
            first.and_then(|first| serde_json::from_slice(first.bytes.trim_ascii()).ok());
        if let Some(header) = found.filter(|header| header.version > VERSION) {
            return Err(OpenError::NewerFormat { path, found: header.version, supported: VERSION });
        }
        let open = Mutex::new(Arc::new(opened));
        Ok(Ledger { path, open, alive_bytes: AtomicU64::new(0) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it is now: another process may have rewritten it.
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

    /// Hands every entry behind `offset` to `take`, in order. Lines that are not entries are
    /// returned as damage; ones of a kind this program does not know are left alone.
    pub(super) fn read(
        &self,
        offset: u64,
        mut take: impl FnMut(Entry),
    ) -> Result<Vec<Damage>, StorageError> {
        let file = self.file()?;
        let mut scan = Scan::from(&file, offset);
        let mut damages = Vec::new();
        while let Some(scanned) = scan.next().map_err(self.failed("read"))? {
            match Entry::read(scanned.bytes) {
                Read::Entry(entry) => take(*entry),
                Read::Other => {}
                Read::Damaged => damages.push(Damage {
                    store: super::NAME,
                    file: self.path.clone(),
                    line: super::scan::line_number(&file, scanned.place.offset).ok(),
                    byte: Some(scanned.place.offset),
                    session_id: None,
                    seq: None,
                    why: "the line cannot be read".to_owned(),
                }),
            }
        }
        Ok(damages)
    }

    /// Writes the ledger anew if most of it is outdated; tells whether it did. Nothing in the
    /// commit log may refer to the old one.
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
        let Some(living) = Living::of(&file).map_err(&failed)? else {
            // Damaged lines are kept where they are, until somebody has looked at them.
            self.alive_bytes.store(self.length()?, Ordering::Relaxed);
            return Ok(false);
        };
        let dir = self.path.parent().expect("the ledger is in a folder");
        let mut beside = Beside::new(dir)?;
        let mut out = BufWriter::new(beside.file());
        let mut scan = Scan::from(&file, 0);
        let mut alive = 0;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            if living.has(&scanned) {
                out.write_all(scanned.bytes)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(&failed)?;
                alive += scanned.place.length + 1;
            }
        }
        out.flush().map_err(&failed)?;
        drop(out);
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

/// What a line of the ledger turns out to be.
enum Read {
    Entry(Box<Entry>),
    /// The first line, or an entry of a kind this program does not know.
    Other,
    Damaged,
}

impl Entry {
    /// Writes the entry as a line with its end.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        serde_json::to_writer(&mut *out, self).expect("rows always encode");
        out.pop();
        line::seal(out, start);
    }

    /// Reads a line; `None` if it is no entry that this program knows.
    pub(super) fn parse(bytes: &[u8]) -> Option<Entry> {
        match Entry::read(bytes) {
            Read::Entry(entry) => Some(*entry),
            Read::Other | Read::Damaged => None,
        }
    }

    fn read(bytes: &[u8]) -> Read {
        let text = bytes.trim_ascii();
        let text = match line::unseal(text) {
            Ok(Some(body)) => Cow::Owned([body, b"}"].concat()),
            Ok(None) => Cow::Borrowed(text),
            Err(_) => return Read::Damaged,
        };
        if let Ok(entry) = serde_json::from_slice(&text) {
            return Read::Entry(Box::new(entry));
        }
        match serde_json::from_slice::<HashMap<String, IgnoredAny>>(&text) {
            Ok(members) if !KINDS.iter().any(|kind| members.contains_key(*kind)) => Read::Other,
            _ => Read::Damaged,
        }
    }

    /// The session without which the entry means nothing.
    fn session_id(&self) -> Option<&SessionId> {
        match self {
            Entry::Session { session } => Some(&session.id),
            Entry::Sighting { session_id, .. } | Entry::Adopted { session_id, .. } => {
                Some(session_id)
            }
            Entry::Source { .. } | Entry::Consumer { .. } | Entry::Deleted { .. } => None,
        }
    }

    /// What the entry is about; a later one about the same takes its place. `None` for facts that
    /// stay.
    fn key(&self) -> Option<(u8, &str)> {
        match self {
            Entry::Source { source_id, .. } => Some((0, source_id)),
            Entry::Consumer { name, .. } => Some((1, name)),
            Entry::Session { session } => Some((2, session.id.as_str())),
            Entry::Sighting { .. } | Entry::Deleted { .. } | Entry::Adopted { .. } => None,
        }
    }
}

/// Which lines still count.
#[derive(Default)]
struct Living {
    /// The offset of the newest line about each thing.
    newest: HashMap<(u8, String), u64>,
    deleted: HashSet<SessionId>,
}

impl Living {
    /// Looks at the whole file; `None` if a line is damaged.
    fn of(file: &File) -> io::Result<Option<Living>> {
        let mut living = Living::default();
        let mut scan = Scan::from(file, 0);
        while let Some(scanned) = scan.next()? {
            match Entry::read(scanned.bytes) {
                Read::Entry(entry) => {
                    if let Entry::Deleted { session_id, .. } = &*entry {
                        living.deleted.insert(session_id.clone());
                    }
                    let key = entry.key().map(|(family, about)| (family, about.to_owned()));
                    living.newest.extend(key.map(|key| (key, scanned.place.offset)));
                }
                Read::Other => {}
                Read::Damaged => return Ok(None),
            }
        }
        Ok(Some(living))
    }

    fn has(&self, scanned: &Scanned<'_>) -> bool {
        let Some(entry) = Entry::parse(scanned.bytes) else { return true };
        if entry.session_id().is_some_and(|session_id| self.deleted.contains(session_id)) {
            return false;
        }
        let key = entry.key().map(|(family, about)| (family, about.to_owned()));
        key.is_none_or(|key| self.newest.get(&key) == Some(&scanned.place.offset))
    }
}

fn header() -> Vec<u8> {
    let header = Header { format: FORMAT.to_owned(), version: VERSION };
    let mut out = serde_json::to_vec(&header).expect("strings and numbers always encode");
    out.pop();
    line::seal(&mut out, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(position: u64) -> Entry {
        Entry::Source { source_id: "file".to_owned(), position: position.to_string() }
    }

    fn append(ledger: &Ledger, entry: &Entry) {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        ledger.write_at(ledger.length().unwrap(), &bytes).unwrap();
    }

    fn entries(ledger: &Ledger) -> (Vec<Entry>, usize) {
        let mut entries = Vec::new();
        let damages = ledger.read(0, |entry| entries.push(entry)).unwrap();
        (entries, damages.len())
    }

    #[test]
    fn a_rewritten_ledger_says_the_same_in_fewer_lines() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let other = Ledger::open(dir.path()).unwrap();
        let deleted = Entry::Deleted {
            session_id: SessionId::new("gone").unwrap(),
            number: 3,
            at: Time::EPOCH,
            tail: 9,
        };
        let sighting = |session: &str| Entry::Sighting {
            session_id: SessionId::new(session).unwrap(),
            seq: 1,
            source: "hook".to_owned(),
            observed_at: Time::EPOCH,
            source_position: None,
            differs: false,
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
        // A process that had it open goes on with the new file.
        append(&other, &source(100));
        assert_eq!(entries(&ledger).0.last(), Some(&source(100)));
        let text = std::fs::read(ledger.path()).unwrap();
        assert!(text.windows(unknown.len()).any(|window| window == unknown));
    }

    #[test]
    fn a_damaged_line_costs_itself_and_is_kept() {
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
    fn a_newer_ledger_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Ledger::FILE_NAME);
        std::fs::write(&path, "{\"format\":\"hansard-ledger\",\"version\":2}\n").unwrap();
        let error = Ledger::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::NewerFormat { found: 2, supported: 1, .. }));
    }
}
