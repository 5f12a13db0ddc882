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
    BodyDecoder, BodyError, Catalogue, CatalogueTx, EventRecord, MendedPart, RepairTools,
    Synchronous, WriteConnection, has_our_schema, mark_recovered, mend_file, remove_database,
    remove_unfinished_copies,
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
use crate::recovery::Recovery;
use crate::{AppendError, Damage, OpenError, StorageError, folder};

const CAPABILITIES: Capabilities =
    Capabilities { name: "sqlite", durable: true, shared: true, indexed: true };

const FILE_NAME: &str = "journal.db";

/// A folder with a SQLite database.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    dir: PathBuf,
    catalogue: Catalogue,
    /// `None` where no process can write.
    _presence: Option<PresenceLock>,
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
        Ok(SqliteStore { dir: dir.to_owned(), catalogue, _presence: Some(presence), found })
    }

    /// Opens a journal on a disk that cannot be written to, for reading.
    pub(crate) fn open_immutable(dir: &Path) -> Result<SqliteStore, OpenError> {
        folder::require_private(dir)?;
        let file = dir.join(FILE_NAME);
        let catalogue = Catalogue::open_immutable(&file, CAPABILITIES.name)?;
        let log = dir.join(format!("{FILE_NAME}-wal"));
        let mut found = Vec::new();
        // SQLite could read it only with a file of its own beside it.
        if log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            let why = "the newest commits stand here, and cannot be read from this disk".to_owned();
            let remedy = "copy the folder to a disk that can be written to";
            found.push(self::found(&log, why, remedy));
        }
        Ok(SqliteStore { dir: dir.to_owned(), catalogue, _presence: None, found })
    }

    /// Opens the journal for a repair. A file that SQLite cannot open is mended first; one of which
    /// nothing can be read makes way for an empty one. Both are copied to the quarantine.
    pub(crate) fn open_to_repair(
        dir: &Path,
        durability: Durability,
    ) -> Result<SqliteStore, OpenError> {
        let file = dir.join(FILE_NAME);
        let is_lost = SqliteStore::is_empty_at(dir);
        let error = match SqliteStore::open_or_create(dir, durability) {
            Ok(mut store) if is_lost => {
                let why = "the record is gone".to_owned();
                store.found.push(found(&file, why, "it is rebuilt from the originals"));
                return Ok(store);
            }
            Err(error @ OpenError::Corrupt(_)) => error,
            // The number of the format is damaged if the schema is the present one.
            Err(error @ OpenError::NewerFormat { .. }) if has_our_schema(&file) => error,
            opened => return opened,
        };
        let presence = PresenceLock::join(dir)?;
        if !presence.is_first {
            let by =
                "another program, which has it open; `hansard down` ends the daemon".to_owned();
            return Err(OpenError::Locked { path: dir.to_owned(), by });
        }
        let kept = Quarantine::new(dir.join(Quarantine::FOLDER)).copy_here(&file)?;
        let mended = mend_file(CAPABILITIES.name, &file)?;
        drop(presence);
        let (store, remedy) = match mended
            .map(|part| (SqliteStore::open_or_create(dir, durability), part))
        {
            Some((Ok(store), MendedPart::Header)) => (store, "its header is rebuilt"),
            Some((Ok(store), MendedPart::Length)) => {
                (store, "it has its length again; what stood behind its end is lost in it")
            }
            Some((Ok(store), MendedPart::Schema)) => (store, "its schema is rebuilt"),
            None | Some((Err(_), _)) => {
                remove_database(&file)?;
                let store = SqliteStore::open_or_create(dir, durability)?;
                (store, "nothing in it can be read, so it is rebuilt; a copy is in `quarantine`")
            }
        };
        let why = match error {
            OpenError::Corrupt(damage) => damage.why,
            error => error.to_string(),
        };
        let mut store = store;
        store.found.push(found(&kept, why, remedy));
        Ok(store)
    }

    /// Whether `dir` holds a journal of this store.
    pub(crate) fn is_at(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }

    /// Whether nothing is recorded in `dir`: there is no database, or an empty file.
    pub(crate) fn is_empty_at(dir: &Path) -> bool {
        dir.join(FILE_NAME).metadata().map_or(true, |metadata| metadata.len() == 0)
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

    fn check(
        &self,
        repair: bool,
        recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError> {
        let mut findings = self.catalogue.read_damaged(PackedBodies)?.examine(recovery)?;
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
            recovery,
        };
        let report = self.catalogue.rebuild(PackedBodies, &tools)?;
        mark_recovered(&mut findings, &report);
        // The repair is judged by a second examination, not by what it believes it did.
        let left = self.catalogue.read_damaged(PackedBodies)?.examine(recovery)?;
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

/// Damage of a whole file that opening has dealt with.
fn found(file: &Path, why: String, remedy: &'static str) -> CheckFinding {
    let damage = Damage {
        store: CAPABILITIES.name,
        file: file.to_owned(),
        line: None,
        byte: None,
        session_id: None,
        seq: None,
        why,
    };
    CheckFinding { damage, remedy, repaired: true }
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
