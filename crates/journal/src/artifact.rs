//! Bodies of artifacts: content-addressed, and verified when they are read.
//!
//! A body is found by the id of its artifact and stored under its SHA-256, so ids with the same
//! bytes share them. All stores use the same folder of bodies; only the memory store keeps them in
//! memory.
//!
//! Not here: the events that describe artifacts, and what they mean (`session`).

mod folder;

use std::collections::{HashMap, HashSet};
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Time;
use sha2::{Digest, Sha256};

use crate::ArtifactError;
use crate::name::hex;
use folder::ArtifactFolder;

/// The bodies of a journal's artifacts.
pub struct Artifacts {
    store: BodyStore,
}

/// What is known of a body without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactBody {
    pub id: String,
    pub size: u64,
    /// `sha256:` and hex digits.
    pub digest: String,
}

/// Size and digest that the caller expects. A body with others is not stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedBody<'a> {
    pub size: Option<u64>,
    pub digest: Option<&'a str>,
}

/// Reads a body. The read at its end fails with `InvalidData` if size or digest do not fit.
pub struct BodyReader {
    body: ArtifactBody,
    bytes: Box<dyn Read + Send>,
    hash: Sha256,
    read: u64,
    is_verified: bool,
}

enum BodyStore {
    Folder(ArtifactFolder),
    Memory(Mutex<MemoryBodies>),
}

#[derive(Default)]
struct MemoryBodies {
    ids: HashMap<String, ArtifactBody>,
    bodies: HashMap<String, Arc<[u8]>>,
}

/// Counts and hashes the bytes that are read through it.
struct HashingReader<R> {
    bytes: R,
    hash: Sha256,
    size: u64,
    size_max: u64,
}

const ID_MAX: usize = 255;

impl Artifacts {
    /// Keeps bodies in a folder, which is created with the first one.
    pub(crate) fn in_folder(dir: PathBuf) -> Artifacts {
        Artifacts { store: BodyStore::Folder(ArtifactFolder::new(dir)) }
    }

    /// Keeps bodies in memory.
    pub(crate) fn in_memory() -> Artifacts {
        Artifacts { store: BodyStore::Memory(Mutex::default()) }
    }

    /// Stores a body under an id, in one pass and with bounded memory.
    ///
    /// The same bytes again change nothing; other bytes are [`ArtifactError::ArtifactExists`].
    pub fn put(
        &self,
        id: &str,
        bytes: impl Read,
        expected: ExpectedBody<'_>,
    ) -> Result<ArtifactBody, ArtifactError> {
        check_id(id)?;
        // A body that is longer than announced is refused early and does not fill the disk first.
        let size_max = expected.size.unwrap_or(u64::MAX);
        let mut bytes = HashingReader { bytes, hash: Sha256::new(), size: 0, size_max };
        match &self.store {
            BodyStore::Folder(folder) => folder.put(id, &mut bytes, expected),
            BodyStore::Memory(memory) => {
                let mut text = Vec::new();
                let read = bytes.read_to_end(&mut text);
                // A wrong size says more than the read error that it may have caused.
                let body = bytes.finish(id, expected)?;
                read.map_err(|error| failed("read the body of", id, error))?;
                lock(memory).put(body, text)
            }
        }
    }

    /// Stores bytes under an id made from their digest, and returns the id.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<String, ArtifactError> {
        // Deterministic: the same bytes from two events are one artifact.
        let id = format!("sha256-{}", hex(&Sha256::digest(bytes)));
        self.put(&id, bytes, ExpectedBody::default()).map(|body| body.id)
    }

    /// What is known of a body, without reading it.
    pub fn stat(&self, id: &str) -> Result<ArtifactBody, ArtifactError> {
        check_id(id)?;
        let found = match &self.store {
            BodyStore::Folder(folder) => folder.stat(id)?,
            BodyStore::Memory(memory) => lock(memory).ids.get(id).cloned(),
        };
        found.ok_or_else(|| ArtifactError::ArtifactNotFound(id.to_owned()))
    }

    /// Opens a body; size and digest are verified while it is read.
    pub fn open(&self, id: &str) -> Result<BodyReader, ArtifactError> {
        let body = self.stat(id)?;
        let bytes = match &self.store {
            BodyStore::Folder(folder) => folder.open(&body)?,
            BodyStore::Memory(memory) => lock(memory).open(&body),
        };
        let missing =
            || ArtifactError::BodyMissing { id: body.id.clone(), digest: body.digest.clone() };
        let bytes = bytes.ok_or_else(missing)?;
        Ok(BodyReader { body, bytes, hash: Sha256::new(), read: 0, is_verified: false })
    }

    /// Reads a body whole.
    pub fn read(&self, id: &str) -> Result<Vec<u8>, ArtifactError> {
        let mut bytes = Vec::new();
        self.open(id)?.read_to_end(&mut bytes).map_err(|error| artifact_error(id, error))?;
        Ok(bytes)
    }

    /// Reads a body to its end to verify it.
    pub fn verify(&self, id: &str) -> Result<(), ArtifactError> {
        let mut body = self.open(id)?;
        io::copy(&mut body, &mut io::sink()).map_err(|error| artifact_error(id, error))?;
        Ok(())
    }

    /// Lists all bodies, in no order.
    pub fn list(&self) -> Result<Vec<ArtifactBody>, ArtifactError> {
        match &self.store {
            BodyStore::Folder(folder) => folder.list(),
            BodyStore::Memory(memory) => Ok(lock(memory).ids.values().cloned().collect()),
        }
    }

    /// Lists bodies with an id that is not `referenced`, put more than a day before `now`.
    ///
    /// A younger one may belong to an event that is about to be recorded. Bodies in memory end with
    /// the process and are never orphans.
    pub fn orphans(
        &self,
        referenced: &HashSet<String>,
        now: Time,
    ) -> Result<Vec<ArtifactBody>, ArtifactError> {
        match &self.store {
            BodyStore::Folder(folder) => folder.orphans(referenced, now),
            BodyStore::Memory(_) => Ok(Vec::new()),
        }
    }

    /// Removes what [`Artifacts::orphans`] lists. Bytes go when no id shares them any more.
    pub fn remove_orphans(
        &self,
        referenced: &HashSet<String>,
        now: Time,
    ) -> Result<Vec<ArtifactBody>, ArtifactError> {
        match &self.store {
            BodyStore::Folder(folder) => folder.remove_orphans(referenced, now),
            BodyStore::Memory(_) => Ok(Vec::new()),
        }
    }
}

impl BodyReader {
    pub fn body(&self) -> &ArtifactBody {
        &self.body
    }

    fn verify(&mut self) -> Result<(), ArtifactError> {
        // The size first: hashing has seen only a part of a body that is cut, and the size says
        // why.
        if self.read != self.body.size {
            return Err(ArtifactError::SizeMismatch {
                id: self.body.id.clone(),
                expected: self.body.size,
                actual: self.read,
            });
        }
        let actual = digest(std::mem::take(&mut self.hash));
        if actual != self.body.digest {
            return Err(ArtifactError::DigestMismatch {
                id: self.body.id.clone(),
                expected: self.body.digest.clone(),
                actual,
            });
        }
        Ok(())
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // An empty buffer reads nothing, which must not be taken for the end.
        if self.is_verified || buffer.is_empty() {
            return Ok(0);
        }
        let count = self.bytes.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.read += count as u64;
        // Also as soon as it is too long: the rest of a wrong body is not worth reading.
        if count == 0 || self.read > self.body.size {
            self.verify().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.is_verified = true;
        }
        Ok(count)
    }
}

impl MemoryBodies {
    fn put(&mut self, body: ArtifactBody, bytes: Vec<u8>) -> Result<ArtifactBody, ArtifactError> {
        // Events name a body by its id, so an id must never change its bytes.
        if let Some(known) = self.ids.get(&body.id) {
            return body.require_same_digest(known);
        }
        self.bodies.entry(body.digest.clone()).or_insert_with(|| bytes.into());
        self.ids.insert(body.id.clone(), body.clone());
        Ok(body)
    }

    fn open(&self, body: &ArtifactBody) -> Option<Box<dyn Read + Send>> {
        let bytes = Arc::clone(self.bodies.get(&body.digest)?);
        Some(Box::new(Cursor::new(bytes)))
    }
}

impl ArtifactBody {
    /// Returns itself if its digest is the one that is `known` under its id.
    fn require_same_digest(self, known: &ArtifactBody) -> Result<ArtifactBody, ArtifactError> {
        if self.digest == known.digest {
            Ok(self)
        } else {
            Err(ArtifactError::ArtifactExists(self.id))
        }
    }
}

impl<R> HashingReader<R> {
    /// Returns the body that was read, if size and digest are as expected.
    fn finish(
        &mut self,
        id: &str,
        expected: ExpectedBody<'_>,
    ) -> Result<ArtifactBody, ArtifactError> {
        let id = id.to_owned();
        if let Some(expected) = expected.size.filter(|expected| *expected != self.size) {
            return Err(ArtifactError::SizeMismatch { id, expected, actual: self.size });
        }
        let actual = digest(std::mem::take(&mut self.hash));
        // Callers write hex digits in either case.
        if let Some(expected) = expected.digest.filter(|text| !text.eq_ignore_ascii_case(&actual)) {
            let expected = expected.to_owned();
            return Err(ArtifactError::DigestMismatch { id, expected, actual });
        }
        Ok(ArtifactBody { id, size: self.size, digest: actual })
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One byte more than expected is enough to refuse the body.
        if self.size > self.size_max {
            return Ok(0);
        }
        let count = self.bytes.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.size += count as u64;
        Ok(count)
    }
}

fn check_id(id: &str) -> Result<(), ArtifactError> {
    let is_bad = id.trim().is_empty()
        || id.len() > ID_MAX
        || id == "."
        || id == ".."
        || id.contains(['/', '\\'])
        || id.chars().any(char::is_control);
    if is_bad { Err(ArtifactError::BadArtifactId(id.to_owned())) } else { Ok(()) }
}

fn digest(hash: Sha256) -> String {
    format!("sha256:{}", hex(&hash.finalize()))
}

fn failed(action: &'static str, id: &str, error: io::Error) -> ArtifactError {
    ArtifactError::Storage(crate::StorageError::new(action, id, error))
}

/// Unwraps the error of a [`BodyReader`].
fn artifact_error(id: &str, error: io::Error) -> ArtifactError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ArtifactError>()) {
        Some(inner) => inner.clone(),
        None => failed("read the body of", id, error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
