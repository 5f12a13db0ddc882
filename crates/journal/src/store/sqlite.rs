//! A journal in one SQLite file: the default, good for years of one person's history.
//!
//! The text of an event is compressed in its row, or in a block with the events of the same commit.
//! A large `data` is stored once for all events that carry it. Blocks and large `data` are payloads,
//! rows of their own. Everything else is the catalogue's.

mod block; // texts that were committed together, packed together
mod wal; // verifies the write-ahead log that a crash left

use std::path::{Path, PathBuf};

use event::{Draft, Raw, SessionId};
use sha2::{Digest, Sha256};

use super::catalogue::{
    BodyDecoder, BodyError, Catalogue, CatalogueTx, EventRecord, RepairTools, Synchronous,
    WriteConnection, mark_recovered, remove_unfinished_copies,
};
use super::pack;
use super::quarantine::Quarantine;
use super::{
    Capabilities, ChangeSet, CheckFinding, CommitError, PackedEvent, Store, StoreReader,
    StoreWriter, StoredPayload,
};
use crate::limit::INLINE_DATA_MAX;
use crate::lock::{PresenceLock, WriterLock};
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
    _presence: PresenceLock,
    /// What opening found, for the next check and for the user.
    found: Vec<CheckFinding>,
}

impl SqliteStore {
    /// Opens the journal in `dir`, and creates it if there is none.
    pub(crate) fn open_or_create(
        dir: &Path,
        durability: Durability,
    ) -> Result<SqliteStore, OpenError> {
        folder::create_private(dir)?;
        folder::require_private(dir)?;
        let synchronous = match durability {
            Durability::Full => Synchronous::Full,
            Durability::Relaxed => Synchronous::Normal,
        };
        let lock = WriterLock::open(dir)?;
        // Joined before the database is opened: only the first process may look at the WAL and at
        // leftovers, because a later one would meet files that are in use.
        let presence = PresenceLock::join(dir)?;
        let file = dir.join(FILE_NAME);
        let mut found = Vec::new();
        // Alone until `share`: no other process has the WAL open while it is verified.
        if presence.is_first {
            found = quarantine_damaged_wal(dir)?;
            remove_unfinished_copies(&file)?;
        }
        let catalogue = Catalogue::open(&file, CAPABILITIES.name, lock, synchronous)?;
        presence.share()?;
        Ok(SqliteStore { dir: dir.to_owned(), catalogue, _presence: presence, found })
    }

    /// Whether `dir` holds a journal of this store.
    pub(crate) fn is_at(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn pack(&self, draft: &Draft) -> PackedEvent {
        let text = draft.data.get();
        if text.len() <= INLINE_DATA_MAX {
            return PackedEvent { rest: pack::pack(&draft.encode_rest()), payload: None };
        }
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let payload = StoredPayload { digest, bytes: pack::pack(text).into() };
        let rest = pack::pack(&draft.encode_rest_without_data());
        PackedEvent { rest, payload: Some(payload) }
    }

    fn pack_all(&self, drafts: &[&Draft]) -> Vec<PackedEvent> {
        block::pack_all(drafts, |draft| self.pack(draft))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader + '_>, StorageError> {
        Ok(Box::new(self.catalogue.read(PackedBodies)?))
    }

    fn begin(&self) -> Result<Box<dyn StoreWriter + '_>, AppendError> {
        Ok(Box::new(self.catalogue.write(PackedBodies)?))
    }

    fn tail(&self) -> Result<u64, StorageError> {
        self.catalogue.tail()
    }

    fn check(&self, repair: bool) -> Result<Vec<CheckFinding>, StorageError> {
        let mut findings = self.catalogue.read(PackedBodies)?.examine()?;
        // Without damage no rebuild runs, which would remove the copy that a killed repair left.
        if repair && findings.is_empty() {
            self.catalogue.remove_leftovers()?;
        }
        if !repair || findings.is_empty() {
            findings.extend(self.found.clone());
            return Ok(findings);
        }
        let quarantine = Quarantine::new(self.dir.join(Quarantine::FOLDER));
        let tools = RepairTools {
            quarantine: &quarantine,
            pack_all: &|drafts| self.pack_all(drafts),
            proves: &proves_name,
        };
        let gone = self.catalogue.rebuild(PackedBodies, &tools)?;
        mark_recovered(&mut findings, &gone);
        // The repair is judged by a second examination, not by what it believes it did.
        let left = self.catalogue.read(PackedBodies)?.examine()?;
        for finding in &mut findings {
            finding.repaired = !left.iter().any(|left| left.damage == finding.damage);
        }
        // A repair may uncover damage that the first examination could not reach.
        let is_new = |left: &CheckFinding| !findings.contains(left);
        let new: Vec<CheckFinding> = left.into_iter().filter(is_new).collect();
        findings.extend(new);
        findings.extend(self.found.clone());
        Ok(findings)
    }

    fn open_findings(&self) -> Vec<CheckFinding> {
        self.found.clone()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        self.catalogue.checkpoint()
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}

/// Verifies the WAL before SQLite opens it. SQLite silently drops everything behind the first
/// damaged frame; if that includes commits, the WAL is copied to the quarantine first.
fn quarantine_damaged_wal(dir: &Path) -> Result<Vec<CheckFinding>, StorageError> {
    let log = dir.join(format!("{FILE_NAME}-wal"));
    let lost =
        wal::find_lost_commits(&log).map_err(|cause| StorageError::new("read", &log, cause))?;
    let Some(lost) = lost else { return Ok(Vec::new()) };
    // Copied, not moved: SQLite still has to recover the commits in front of the damage.
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
    Ok(vec![CheckFinding {
        damage,
        remedy: "a copy of the log is in `quarantine`",
        repaired: true,
    }])
}

impl StoreWriter for CatalogueTx<'_, WriteConnection<'_>, PackedBodies> {
    fn apply(self: Box<Self>, changes: &ChangeSet) -> Result<(), CommitError> {
        self.commit(changes, |index| &changes.events[index].packed.rest)
    }
}

/// Decodes bodies that are the packed text of the event, or its range in a block.
#[derive(Clone, Copy)]
pub(crate) struct PackedBodies;

impl BodyDecoder for PackedBodies {
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        payload: Option<&[u8]>,
    ) -> Result<Draft, BodyError> {
        let head = record.head(session_id).map_err(body_error)?;
        // The payload column means one of two things, and the form of the body says which: the
        // block that the text stands in, or the large `data` that is `null` in the text.
        if let Some(place) = pack::block_range(record.body) {
            let block = record.payload.as_ref().zip(payload);
            let (name, block) = block.ok_or_else(|| body_error("it names no block"))?;
            return pack::unpack_block(name, block, |texts| {
                // `get` refuses a range that is too long and one that cuts a character, both of
                // which only a damaged row can name.
                let rest = texts.get(place).ok_or_else(|| body_error("its block is too short"))?;
                Draft::decode_rest(head, rest).map_err(body_error)
            })
            .map_err(body_error)?;
        }
        let mut draft = pack::unpack(record.body, |rest| Draft::decode_rest(head, rest))
            .map_err(body_error)?
            .map_err(body_error)?;
        if let Some(payload) = payload {
            draft.data = pack::unpack(payload, |text| Raw::parse(text))
                .map_err(body_error)?
                .map_err(body_error)?;
        }
        Ok(draft)
    }
}

/// Whether the name of a payload is that of these bytes: for a block the hash of the packed bytes
/// behind the id of its first event, for a large `data` the hash of its text.
fn proves_name(name: &[u8; 32], bytes: &[u8]) -> bool {
    // In the name of a block the first half is an event id: see `block::pack_block`. So only the
    // second half can prove it.
    const ID_LEN: usize = 16;
    Sha256::digest(bytes)[ID_LEN..] == name[ID_LEN..]
        || pack::unpack(bytes, |text| Sha256::digest(text)[..] == name[..]).unwrap_or(false)
}

fn body_error(why: impl ToString) -> BodyError {
    BodyError { why: why.to_string(), location: None }
}

#[cfg(test)]
mod tests;
