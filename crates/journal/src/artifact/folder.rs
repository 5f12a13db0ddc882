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

use super::{ArtifactBody, Expected, Measured, failed};
use crate::file::{self, Beside};
use crate::{ArtifactError, StorageError, folder, name};

pub(super) struct Folder {
    dir: PathBuf,
}

/// The file that says which bytes an id stands for.
#[derive(Serialize, Deserialize)]
struct Pointer {
    id: String,
    size: u64,
    digest: String,
}

/// How long a body may wait for the event that refers to it.
const ORPHAN_AGE_MS: i64 = 24 * 60 * 60 * 1_000;

/// The beginning of a body that is tried on for size before the rest is seen.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// Text shrinks to a third; what does not shrink by a tenth is compressed already.
const WORTHWHILE_PERCENT: usize = 90;

const COMPRESSION_LEVEL: i32 = 3;

impl Folder {
    pub(super) fn new(dir: PathBuf) -> Folder {
        Folder { dir }
    }

    pub(super) fn put<R: Read>(
        &self,
        id: &str,
        bytes: &mut Measured<R>,
        expected: Expected<'_>,
    ) -> Result<ArtifactBody, ArtifactError> {
        folder::create_private(&self.bodies())?;
        folder::create_private(&self.ids())?;
        let mut beside = Beside::new(&self.bodies())?;
        let written = write_body(bytes, beside.file());
        // Too large for what was announced also ends the writing, and is the better answer.
        let body = bytes.finish(id, expected)?;
        let is_compressed = written.map_err(|error| failed("store the body of", id, error))?;
        beside.sync()?;
        let _lock = self.lock()?;
        let body = match self.stat(id)? {
            Some(known) => body.unless_other(&known)?,
            None => body,
        };
        if self.find(&body).is_none() {
            self.settle(beside, &body, is_compressed)?;
        }
        // Written again also when it is known: whoever puts a body is about to refer to it, so
        // its day begins now.
        let pointer = Pointer { id: body.id.clone(), size: body.size, digest: body.digest.clone() };
        let text = serde_json::to_vec(&pointer).expect("strings and numbers always encode");
        file::write(&self.pointer(id), &text)?;
        folder::sync(&self.dir)?;
        Ok(body)
    }

    pub(super) fn stat(&self, id: &str) -> Result<Option<ArtifactBody>, ArtifactError> {
        read_pointer(&self.pointer(id))
    }

    pub(super) fn open(
        &self,
        body: &ArtifactBody,
    ) -> Result<Option<Box<dyn Read + Send>>, ArtifactError> {
        let Some(path) = self.find(body) else { return Ok(None) };
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
        let pointers = entries(&self.ids())?.into_iter();
        let bodies = pointers.filter(|path| path.extension().is_some_and(|end| end == "json"));
        bodies.filter_map(|path| read_pointer(&path).transpose()).collect()
    }

    pub(super) fn orphans(
        &self,
        referenced: &HashSet<String>,
        now: Time,
    ) -> Result<Vec<ArtifactBody>, ArtifactError> {
        let mut orphans = self.list()?;
        orphans
            .retain(|body| !referenced.contains(&body.id) && is_old(&self.pointer(&body.id), now));
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
            remove(&self.pointer(&body.id))?;
        }
        // Names first: a body without a name is harmless, a name without a body is damage.
        folder::sync(&self.ids())?;
        let kept: HashSet<PathBuf> =
            self.list()?.iter().flat_map(|body| self.candidates(body)).collect();
        let nameless = |path: &PathBuf| !kept.contains(path) && is_old(path, now);
        for path in entries(&self.bodies())?.into_iter().filter(nameless) {
            remove(&path)?;
        }
        folder::sync(&self.bodies())?;
        Ok(orphans)
    }

    /// Gives a written body its name.
    fn settle(
        &self,
        beside: Beside,
        body: &ArtifactBody,
        is_compressed: bool,
    ) -> Result<(), StorageError> {
        let [compressed, plain] = self.candidates(body);
        beside.replace(if is_compressed { &compressed } else { &plain })?;
        folder::sync(&self.bodies())
    }

    fn find(&self, body: &ArtifactBody) -> Option<PathBuf> {
        self.candidates(body).into_iter().find(|path| path.is_file())
    }

    /// Where a body can be.
    fn candidates(&self, body: &ArtifactBody) -> [PathBuf; 2] {
        let hex = body.digest.strip_prefix("sha256:").unwrap_or(&body.digest);
        // A digest read from a damaged pointer must not lead elsewhere.
        let hex = name::stem(hex);
        [self.bodies().join(format!("{hex}.zst")), self.bodies().join(hex)]
    }

    fn pointer(&self, id: &str) -> PathBuf {
        self.ids().join(format!("{}.json", name::stem(id)))
    }

    fn bodies(&self) -> PathBuf {
        self.dir.join("bodies")
    }

    fn ids(&self) -> PathBuf {
        self.dir.join("ids")
    }

    /// Waits until nobody else, in this process or another, gives or takes names.
    fn lock(&self) -> Result<File, StorageError> {
        let path = self.dir.join("lock");
        let file = folder::open_private(&path)?;
        file.lock().map_err(|error| StorageError::new("lock", path, error))?;
        Ok(file)
    }
}

/// Writes all bytes, compressed if their beginning says that it helps; tells whether it did.
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
    let pointer: Pointer =
        serde_json::from_slice(&text).map_err(|error| failed(io::Error::from(error)))?;
    Ok(Some(ArtifactBody { id: pointer.id, size: pointer.size, digest: pointer.digest }))
}

/// Everything in a folder; nothing if there is no folder.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
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

/// Whether a file was written more than a day before `now`. When in doubt it was not.
fn is_old(path: &Path, now: Time) -> bool {
    let written = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let Ok(Ok(age)) = written.map(|at| at.duration_since(SystemTime::UNIX_EPOCH)) else {
        return false;
    };
    let written = i128::try_from(age.as_nanos()).unwrap_or(i128::MAX);
    now.nanos() - written > i128::from(ORPHAN_AGE_MS) * 1_000_000
}
