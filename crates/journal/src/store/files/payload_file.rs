//! Large `data`, each in a file of its own, compressed, under the SHA-256 of its text.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use event::Raw;
use sha2::{Digest, Sha256};

use crate::StorageError;
use crate::file::{self, Beside};
use crate::limit::EVENT_BYTES_MAX;
use crate::name::hex;

/// The payloads of one journal.
#[derive(Debug)]
pub(super) struct PayloadFiles {
    dir: PathBuf,
}

/// A payload that cannot be believed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadPayloadFile {
    #[error("its payload is missing")]
    Missing,
    #[error("its payload does not unpack: {0}")]
    Zstd(#[from] io::Error),
    #[error("its payload is another text")]
    OtherText,
    #[error("its payload is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl PayloadFiles {
    pub(super) const FOLDER: &str = "payloads";

    pub(super) fn new(dir: PathBuf) -> PayloadFiles {
        PayloadFiles { dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the payload of a digest, given as hex digits, is kept.
    pub(super) fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.zst"))
    }

    /// Writes a payload as `pack` made it. Syncing is left to the next checkpoint: until then the
    /// commit log has it.
    pub(super) fn write(&self, digest: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let path = self.path(digest);
        let mut beside = Beside::new(&self.dir)?;
        let written = beside.file().write_all(bytes);
        written.map_err(|error| StorageError::new("write", &path, error))?;
        beside.replace(&path)
    }

    pub(super) fn sync(&self, digest: &str) -> Result<(), StorageError> {
        let path = self.path(digest);
        // One that was deleted since has nothing to sync.
        let Some(file) = file::open(&path)? else { return Ok(()) };
        file.sync_data().map_err(|error| StorageError::new("sync", path, error))
    }

    /// Reads a payload and makes sure that it is the one.
    pub(super) fn read(&self, digest: &[u8; 32]) -> Result<Raw, BadPayloadFile> {
        let path = self.path(&hex(digest));
        let packed = fs::File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BadPayloadFile::Missing,
            _ => BadPayloadFile::Zstd(error),
        })?;
        let mut text = String::new();
        // A damaged file must not ask for all the memory there is.
        let limit = EVENT_BYTES_MAX as u64 + 1;
        zstd::Decoder::new(packed)?.take(limit).read_to_string(&mut text)?;
        if Sha256::digest(text.as_bytes())[..] != digest[..] {
            return Err(BadPayloadFile::OtherText);
        }
        Ok(Raw::parse(text)?)
    }

    pub(super) fn remove(&self, digest: &str) -> Result<(), StorageError> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::new("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    /// Every payload there is, as hex digits, in no order.
    pub(super) fn list(&self) -> Result<Vec<String>, StorageError> {
        let failed = |error| StorageError::new("list", &self.dir, error);
        let mut digests = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            digests.extend(
                name.to_str().and_then(|name| name.strip_suffix(".zst")).map(str::to_owned),
            );
        }
        Ok(digests)
    }
}
