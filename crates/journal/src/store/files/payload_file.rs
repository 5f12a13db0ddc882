//! Large `data`: each in a file of its own, compressed, named by the SHA-256 of its text.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use event::Raw;
use sha2::{Digest, Sha256};

use crate::StorageError;
use crate::file::{self, TempFile};
use crate::limit::EVENT_BYTES_MAX;
use crate::name::hex;

/// The payloads of one journal.
#[derive(Debug)]
pub(super) struct PayloadFiles {
    dir: PathBuf,
}

/// A payload file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PayloadFileError {
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

    /// The path of the payload with this digest, in hex digits.
    pub(super) fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.zst"))
    }

    /// Writes a packed payload. The next checkpoint syncs it; until then the commit log has it.
    pub(super) fn write(&self, digest: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let path = self.path(digest);
        // Replaced as a whole: another session may refer to the same payload and read it right now.
        let mut beside = TempFile::new(&self.dir)?;
        let written = beside.file().write_all(bytes);
        written.map_err(|error| StorageError::new("write", &path, error))?;
        beside.replace(&path)
    }

    pub(super) fn sync(&self, digest: &str) -> Result<(), StorageError> {
        let path = self.path(digest);
        // A payload that was deleted since has nothing to sync.
        let Some(file) = file::open(&path)? else { return Ok(()) };
        file.sync_data().map_err(|error| StorageError::new("sync", path, error))
    }

    /// Reads a payload and verifies its digest.
    pub(super) fn read(&self, digest: &[u8; 32]) -> Result<Raw, PayloadFileError> {
        let path = self.path(&hex(digest));
        let packed = fs::File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PayloadFileError::Missing,
            _ => PayloadFileError::Zstd(error),
        })?;
        let mut text = String::new();
        // A damaged file must not unpack to more memory than an event may take.
        let limit = EVENT_BYTES_MAX as u64 + 1;
        zstd::Decoder::new(packed)?.take(limit).read_to_string(&mut text)?;
        // The name is the proof, so the file needs no checksum of its own.
        if Sha256::digest(text.as_bytes())[..] != digest[..] {
            return Err(PayloadFileError::OtherText);
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

    /// Lists the digests of all payloads, as hex digits, in no order.
    pub(super) fn list(&self) -> Result<Vec<String>, StorageError> {
        let failed = |error| StorageError::new("list", &self.dir, error);
        let mut digests = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // Files with other names are temporary or the user's, and are left alone.
            digests.extend(
                name.to_str().and_then(|name| name.strip_suffix(".zst")).map(str::to_owned),
            );
        }
        Ok(digests)
    }
}
