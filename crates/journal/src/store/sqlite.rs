//! A journal in one SQLite file: the default, good for years of one person's history.
//!
//! The text of an event stands compressed in its row, or in a block with those it was recorded
//! with; `data` that is large stands once for all events that carry it. Blocks and such `data` are
//! payloads, rows of their own. Everything else is the catalogue's.

mod block; // events that were recorded together, packed together
mod wal; // is the log whole that a crash left behind

use std::path::{Path, PathBuf};

use event::{Draft, Raw, SessionId};
use sha2::{Digest, Sha256};

use super::catalogue::{
    Bodies, Catalogue, EventRecord, Flush, Tools, Unreadable, View, Writing, remove_unfinished,
    tell_found_again,
};
use super::pack;
use super::quarantine::Quarantine;
use super::{Capabilities, Changes, Commit, CommitError, Finding, Packed, Payload, Reader, Store};
use crate::limit::INLINE_DATA_MAX;
use crate::lock::{Lock, Presence};
use crate::options::Durability;
use crate::{AppendError, Damage, OpenError, StorageError, folder};

const CAPABILITIES: Capabilities =
    Capabilities { name: "sqlite", durable: true, shared: true, indexed: true };

const FILE_NAME: &str = "journal.db";

/// A folder with a SQLite database.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    dir: PathBuf,
    catalogue: Catalogue,
    _presence: Presence,
    /// What opening found, for a check and for whoever opened it to tell.
    found: Vec<Finding>,
}

impl SqliteStore {
    /// Opens the journal in `dir`, and makes one if there is none.
    pub(crate) fn open_or_create(
        dir: &Path,
        durability: Durability,
    ) -> Result<SqliteStore, OpenError> {
        folder::create_private(dir)?;
        folder::require_private(dir)?;
        let flush = match durability {
            Durability::Full => Flush::Every,
            Durability::Relaxed => Flush::Checkpoints,
        };
        let lock = Lock::open(dir)?;
        let presence = Presence::enter(dir)?;
        let file = dir.join(FILE_NAME);
        let mut found = Vec::new();
        if presence.is_first {
            found = keep_damaged_log(dir)?;
            remove_unfinished(&file)?;
        }
        let catalogue = Catalogue::open(&file, CAPABILITIES.name, lock, flush)?;
        presence.share()?;
        Ok(SqliteStore { dir: dir.to_owned(), catalogue, _presence: presence, found })
    }

    /// Whether there is a journal of this store in `dir`.
    pub(crate) fn is_at(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn pack(&self, draft: &Draft) -> Packed {
        let text = draft.data.get();
        if text.len() <= INLINE_DATA_MAX {
            return Packed { rest: pack::pack(&draft.encode_rest()), payload: None };
        }
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let payload = Payload { digest, bytes: pack::pack(text).into() };
        let rest = pack::pack(&draft.encode_rest_without_data());
        Packed { rest, payload: Some(payload) }
    }

    fn pack_all(&self, drafts: &[&Draft]) -> Vec<Packed> {
        block::pack_all(drafts, |draft| self.pack(draft))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, StorageError> {
        Ok(Box::new(self.catalogue.read(PackedText)?))
    }

    fn begin(&self) -> Result<Box<dyn Commit + '_>, AppendError> {
        Ok(Box::new(self.catalogue.write(PackedText)?))
    }

    fn tail(&self) -> Result<u64, StorageError> {
        self.catalogue.tail()
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>, StorageError> {
        let mut findings = self.catalogue.read(PackedText)?.examine()?;
        if repair && findings.is_empty() {
            self.catalogue.tidy()?;
        }
        if !repair || findings.is_empty() {
            findings.extend(self.found.clone());
            return Ok(findings);
        }
        let quarantine = Quarantine::new(self.dir.join(Quarantine::FOLDER));
        let tools = Tools {
            quarantine: &quarantine,
            pack_all: &|drafts| self.pack_all(drafts),
            proves: &is_named_after,
        };
        let gone = self.catalogue.rebuild(PackedText, &tools)?;
        tell_found_again(&mut findings, &gone);
        let left = self.catalogue.read(PackedText)?.examine()?;
        for finding in &mut findings {
            finding.repaired = !left.iter().any(|left| left.damage == finding.damage);
        }
        let is_new = |left: &Finding| !findings.contains(left);
        let new: Vec<Finding> = left.into_iter().filter(is_new).collect();
        findings.extend(new);
        findings.extend(self.found.clone());
        Ok(findings)
    }

    fn found(&self) -> Vec<Finding> {
        self.found.clone()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        self.catalogue.checkpoint()
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}

/// Looks at the write-ahead log before SQLite does, which keeps only what stands before damage
/// and says nothing of the rest. What it will drop is copied aside first.
fn keep_damaged_log(dir: &Path) -> Result<Vec<Finding>, StorageError> {
    let log = dir.join(format!("{FILE_NAME}-wal"));
    let lost = wal::lost(&log).map_err(|cause| StorageError::new("read", &log, cause))?;
    let Some(lost) = lost else { return Ok(Vec::new()) };
    Quarantine::new(dir.join(Quarantine::FOLDER)).copy_here(&log)?;
    let damage = Damage {
        store: CAPABILITIES.name,
        file: log,
        line: None,
        byte: Some(lost.byte),
        session_id: None,
        seq: None,
        why: format!("the newest {} commits stand behind damage and are lost", lost.commits),
    };
    Ok(vec![Finding { damage, remedy: "a copy of the log is in `quarantine`", repaired: true }])
}

impl Commit for View<'_, Writing<'_>, PackedText> {
    fn apply(self: Box<Self>, changes: &Changes) -> Result<(), CommitError> {
        self.commit(changes, |index| &changes.events[index].packed.rest)
    }
}

/// Bodies that are the text of the event itself, compressed, or a place in a block of such texts.
#[derive(Clone, Copy)]
pub(crate) struct PackedText;

impl Bodies for PackedText {
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        payload: Option<&[u8]>,
    ) -> Result<Draft, Unreadable> {
        let head = record.head(session_id).map_err(unreadable)?;
        if let Some(place) = pack::place_in_block(record.body) {
            let block = record.payload.as_ref().zip(payload);
            let (name, block) = block.ok_or_else(|| unreadable("it names no block"))?;
            return pack::unpack_block(name, block, |texts| {
                let rest = texts.get(place).ok_or_else(|| unreadable("its block is too short"))?;
                Draft::decode_rest(head, rest).map_err(unreadable)
            })
            .map_err(unreadable)?;
        }
        let mut draft = pack::unpack(record.body, |rest| Draft::decode_rest(head, rest))
            .map_err(unreadable)?
            .map_err(unreadable)?;
        if let Some(payload) = payload {
            draft.data = pack::unpack(payload, |text| Raw::parse(text))
                .map_err(unreadable)?
                .map_err(unreadable)?;
        }
        Ok(draft)
    }
}

/// Whether a payload got its name from these bytes: a block from what is packed, behind the id of
/// its first event, and `data` from its text.
fn is_named_after(name: &[u8; 32], bytes: &[u8]) -> bool {
    const ID_LEN: usize = 16;
    Sha256::digest(bytes)[ID_LEN..] == name[ID_LEN..]
        || pack::unpack(bytes, |text| Sha256::digest(text)[..] == name[..]).unwrap_or(false)
}

fn unreadable(why: impl ToString) -> Unreadable {
    Unreadable { why: why.to_string(), place: None }
}

#[cfg(test)]
mod tests;
