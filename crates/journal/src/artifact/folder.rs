//! Bodies of artifacts in a folder.
//!
//! ```text
//! artifacts/bodies/<sha256>[.zst]   the bytes, compressed where that helps
//! artifacts/ids/<name>.json         which bytes an id stands for
//! artifacts/lock                    held while names change
//! ```

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use event::Time;
use serde::{Deserialize, Serialize};

use super::{ArtifactBody, ExpectedBody, HashingReader, failed};
use crate::file::{self, TempFile};
use crate::{ArtifactError, StorageError, folder, name};

pub(super) struct ArtifactFolder {
    dir: PathBuf,
}

/// The file that says which body an id has.
#[derive(Serialize, Deserialize)]
struct ArtifactPointer {
    id: String,
    size: u64,
    digest: String,
}

/// How long a body may wait for the event that names it.
const ORPHAN_AGE_MS: i64 = 24 * 60 * 60 * 1_000;

/// How much of a body is compressed on trial, to decide about the rest.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// A body is compressed if the sample shrinks below this. Text shrinks to a third; bytes that are
/// compressed already do not shrink by a tenth.
const WORTHWHILE_PERCENT: usize = 90;

const COMPRESSION_LEVEL: i32 = 3;

impl ArtifactFolder {
    pub(super) fn new(dir: PathBuf) -> ArtifactFolder {
        ArtifactFolder { dir }
    }

    pub(super) fn put<R: Read>(
        &self,
        id: &str,
        bytes: &mut HashingReader<R>,
        expected: ExpectedBody<'_>,
    ) -> Result<ArtifactBody, ArtifactError> {
        folder::create_private(&self.bodies_dir())?;
        folder::create_private(&self.ids_dir())?;
        // Written beside, without the lock: a large body from a slow sender must not block others,
        // and its name is its digest, which is known only at the end.
        let mut beside = TempFile::new(&self.bodies_dir())?;
        let written = write_body(bytes, beside.file());
        // A size mismatch may have ended the write early, so it is checked before the write error.
        let body = bytes.finish(id, expected)?;
        let is_compressed = written.map_err(|error| failed("store the body of", id, error))?;
        beside.sync()?;
        let _lock = self.lock()?;
        let body = match self.stat(id)? {
            Some(known) => body.require_same_digest(&known)?,
            None => body,
        };
        // The bytes come before the pointer: a crash in between leaves a body without a name, which
        // the removal of orphans finds.
        if self.find_body(&body).is_none() {
            self.place_body(beside, &body, is_compressed)?;
        }
        // Written again also for a known id: its caller is about to record an event that names the
        // body, so the day until it counts as an orphan begins now.
        let pointer =
            ArtifactPointer { id: body.id.clone(), size: body.size, digest: body.digest.clone() };
        let text = serde_json::to_vec(&pointer).expect("strings and numbers always encode");
        file::write(&self.pointer_path(id), &text)?;
        folder::sync(&self.dir)?;
        Ok(body)
    }

    pub(super) fn stat(&self, id: &str) -> Result<Option<ArtifactBody>, ArtifactError> {
        read_pointer(&self.pointer_path(id))
    }

    pub(super) fn open(
        &self,
        body: &ArtifactBody,
    ) -> Result<Option<Box<dyn Read + Send>>, ArtifactError> {
        let Some(path) = self.find_body(body) else { return Ok(None) };
        // A digest has no dot, so an extension can only be `.zst`.
        let is_compressed = path.extension().is_some();
        let open = || -> io::Result<Box<dyn Read + Send>> {
            let file = File::open(&path)?;
            Ok(match is_compressed {
                true => Box::new(zstd::Decoder::with_buffer(BufReader::new(file))?),
                false => Box::new(file),
            })
        };
        Ok(Some(open().map_err(|error| StorageError::new("open", &path, error))?))
    }

    pub(super) fn list(&self) -> Result<Vec<ArtifactBody>, ArtifactError> {
        let pointers = list_dir(&self.ids_dir())?.into_iter();
        let bodies = pointers.filter(|path| path.extension().is_some_and(|end| end == "json"));
        bodies.filter_map(|path| read_pointer(&path).transpose()).collect()
    }

    pub(super) fn orphans(
        &self,
        referenced: &HashSet<String>,
        now: Time,
    ) -> Result<Vec<ArtifactBody>, ArtifactError> {
        let mut orphans = self.list()?;
        orphans.retain(|body| {
            !referenced.contains(&body.id) && is_old(&self.pointer_path(&body.id), now)
        });
        Ok(orphans)
    }

    pub(super) fn remove_orphans(
        &self,
        referenced: &HashSet<String>,
        now: Time,
    ) -> Result<Vec<ArtifactBody>, ArtifactError> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let orphans = self.orphans(referenced, now)?;
        for body in &orphans {
            remove(&self.pointer_path(&body.id))?;
        }
        // Pointers first: a body without a pointer is harmless, a pointer without a body is damage.
        folder::sync(&self.ids_dir())?;
        let kept: HashSet<PathBuf> =
            self.list()?.iter().flat_map(|body| self.body_paths(body)).collect();
        // Also by age: a put that runs right now has its temporary file here.
        let nameless = |path: &PathBuf| !kept.contains(path) && is_old(path, now);
        for path in list_dir(&self.bodies_dir())?.into_iter().filter(nameless) {
            remove(&path)?;
        }
        folder::sync(&self.bodies_dir())?;
        Ok(orphans)
    }

    /// Renames a written body to its final name.
    fn place_body(
        &self,
        beside: TempFile,
        body: &ArtifactBody,
        is_compressed: bool,
    ) -> Result<(), StorageError> {
        let [compressed, plain] = self.body_paths(body);
        beside.replace(if is_compressed { &compressed } else { &plain })?;
        folder::sync(&self.bodies_dir())
    }

    fn find_body(&self, body: &ArtifactBody) -> Option<PathBuf> {
        self.body_paths(body).into_iter().find(|path| path.is_file())
    }

    /// The two paths that a body can have: compressed and plain.
    fn body_paths(&self, body: &ArtifactBody) -> [PathBuf; 2] {
        let hex = body.digest.strip_prefix("sha256:").unwrap_or(&body.digest);
        // The digest comes from a file: a damaged one must not lead out of the folder.
        let hex = name::file_stem(hex);
        [self.bodies_dir().join(format!("{hex}.zst")), self.bodies_dir().join(hex)]
    }

    fn pointer_path(&self, id: &str) -> PathBuf {
        self.ids_dir().join(format!("{}.json", name::file_stem(id)))
    }

    fn bodies_dir(&self) -> PathBuf {
        self.dir.join("bodies")
    }

    fn ids_dir(&self) -> PathBuf {
        self.dir.join("ids")
    }

    /// Takes the lock under which pointers and bodies are created and removed.
    fn lock(&self) -> Result<File, StorageError> {
        let path = self.dir.join("lock");
        let file = folder::open_private(&path)?;
        file.lock().map_err(|error| StorageError::new("lock", path, error))?;
        Ok(file)
    }
}

/// Writes all bytes, compressed if a sample of them shrinks; returns whether it did.
fn write_body(bytes: &mut impl Read, file: &mut File) -> io::Result<bool> {
    let mut sample = Vec::new();
    bytes.take(SAMPLE_BYTES).read_to_end(&mut sample)?;
    let shrunk = zstd::bulk::compress(&sample, COMPRESSION_LEVEL)?;
    let is_worthwhile = shrunk.len() * 100 < sample.len() * WORTHWHILE_PERCENT;
    let mut file = BufWriter::with_capacity(SAMPLE_BYTES as usize, file);
    if is_worthwhile {
        let mut encoder = zstd::Encoder::new(&mut file, COMPRESSION_LEVEL)?;
        encoder.write_all(&sample)?;
        io::copy(bytes, &mut encoder)?;
        encoder.finish()?;
    } else {
        file.write_all(&sample)?;
        io::copy(bytes, &mut file)?;
    }
    file.flush()?;
    Ok(is_worthwhile)
}

fn read_pointer(path: &Path) -> Result<Option<ArtifactBody>, ArtifactError> {
    let failed = |error: io::Error| StorageError::new("read", path, error);
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error).into()),
    };
    let pointer: ArtifactPointer =
        serde_json::from_slice(&text).map_err(|error| failed(io::Error::from(error)))?;
    Ok(Some(ArtifactBody { id: pointer.id, size: pointer.size, digest: pointer.digest }))
}

/// Lists a folder; empty if there is none.
fn list_dir(dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let failed = |error| StorageError::new("list", dir, error);
    match fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn remove(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StorageError::new("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Whether a file was written more than a day before `now`. `false` if its time cannot be read.
fn is_old(path: &Path, now: Time) -> bool {
    let written = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let Ok(Ok(age)) = written.map(|at| at.duration_since(SystemTime::UNIX_EPOCH)) else {
        return false;
    };
    let written = i128::try_from(age.as_nanos()).unwrap_or(i128::MAX);
    now.nanos() - written > i128::from(ORPHAN_AGE_MS) * 1_000_000
}
