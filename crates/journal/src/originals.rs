//! Originals: the bytes of sources, kept compressed beside the log.
//!
//! One file per source and generation. Each append is a zstd frame behind two skippable frames: the
//! header says where in the source it begins, the tag what else is needed to parse it once more.
//!
//! ```text
//! header   magic u32 · 16 u32 · offset in the source u64 · plain length u32 · packed length u32
//! tag      magic u32 · length u32 · checksum u32 · 3 lengths u32 · label · begin · note
//! frame    zstd, with a checksum; the packed length covers tag and frame
//! ```
//!
//! The label names the source, `begin` is the state of its reader before the first frame, and a note
//! belongs to one frame. All three are texts of `capture`, which nothing here looks into. So the
//! originals alone are enough to make the record anew. Frames of earlier versions have no tag.
//!
//! `zstd -d` skips headers and tags and gives the source back, long after the agent has deleted it.

mod frame; // one append: header, tag and packed bytes

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Time;

use self::frame::{
    OriginalEnd, OriginalFrame, ReadFrom, ScannedFrames, last_label, read_part, read_range,
    scan_frames, with_encoded,
};
use crate::name::file_stem;
use crate::{StorageError, file, folder};

/// The originals of a journal.
pub struct Originals {
    /// `None` for a journal in memory, which keeps no originals.
    dir: Option<PathBuf>,
    files: Mutex<HashMap<String, OriginalFile>>,
}

/// Bytes of a source, and what is needed to parse them once more.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginalPart<'a> {
    /// Where in the source they begin.
    pub offset: u64,
    pub bytes: &'a [u8],
    /// What the source is. Written where it differs from the last one in the file.
    pub label: &'a str,
    /// The state of the reader at `offset`. Written with the first part of a file only.
    pub begin: &'a str,
    /// About these bytes alone.
    pub note: &'a str,
}

/// A part as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredPart {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Empty where the label is that of the part before.
    pub label: String,
    pub begin: String,
    pub note: String,
}

/// The parts of one file, in the order of the source. Damaged ones are left out and counted.
pub struct StoredParts {
    file: Option<File>,
    frames: std::vec::IntoIter<OriginalFrame>,
    pub damaged: u64,
}

/// An open file, and where it ends.
struct OriginalFile {
    file: Arc<File>,
    path: PathBuf,
    end: OriginalEnd,
    /// The last label in it.
    label: String,
    is_synced: bool,
}

/// Files kept open. Beyond it all are synced and closed, and opened again when needed.
const OPEN_MAX: usize = 128;

impl Originals {
    pub(crate) fn in_folder(dir: PathBuf) -> Originals {
        Originals { dir: Some(dir), files: Mutex::default() }
    }

    pub(crate) fn disabled() -> Originals {
        Originals { dir: None, files: Mutex::default() }
    }

    /// Appends bytes of a source. Bytes that were kept from `offset` on are replaced, unless they are
    /// the same.
    pub fn append(
        &self,
        source: &str,
        generation: u32,
        part: OriginalPart<'_>,
    ) -> Result<(), StorageError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let name = file_name(source, generation);
        let path = dir.join(&name);
        let failed = |error| StorageError::new("keep what was read in", &path, error);
        let mut files = self.open_files();
        // Retention in another process may have removed the file. An open handle would go on
        // writing to it.
        if files.get(&name).is_some_and(OriginalFile::is_deleted) {
            files.remove(&name);
        }
        if files.len() >= OPEN_MAX && !files.contains_key(&name) {
            // Synced before they are closed: without a handle `unsynced` would not list them any
            // more.
            for kept in files.values_mut() {
                kept.sync()?;
            }
            files.clear();
        }
        if !files.contains_key(&name) {
            folder::create_private(dir)?;
            let file = file::open_or_create(&path)?;
            files.insert(name.clone(), OriginalFile::new(file, path.clone()).map_err(failed)?);
        }
        let kept = files.get_mut(&name).expect("it was just put there");
        // An `offset` behind the end leaves a gap, which the headers tell.
        if part.offset >= kept.end.plain {
            return kept.append_frame(part).map_err(failed);
        }
        // After a crash, or with an older copy of the journal, a source is read again from an
        // earlier checkpoint, and these bytes come twice. The file is left alone then: the source
        // may end before what is kept of it.
        let range = part.offset..part.offset + part.bytes.len() as u64;
        if range.end <= kept.end.plain
            && read_range(&kept.file, range).is_ok_and(|there| there.as_deref() == Some(part.bytes))
        {
            return Ok(());
        }
        kept.replace_from(part)
    }

    /// Removes the originals of a source.
    pub fn remove(&self, source: &str) -> Result<(), StorageError> {
        let is_of_source =
            |name: &str| name.split_once('.').is_some_and(|(kept, _)| kept == file_stem(source));
        for (name, _) in self.list()? {
            if is_of_source(&name) {
                self.remove_file(&name)?;
            }
        }
        Ok(())
    }

    /// Removes files last written before `since`, then the oldest until at most `bytes_max` bytes
    /// are left.
    pub fn retain(&self, since: Time, bytes_max: u64) -> Result<(), StorageError> {
        let mut kept = self.list()?;
        // Oldest first, so that the loop can stop at the first file that may stay.
        kept.sort_by_key(|(_, metadata)| written_at(metadata));
        let mut bytes: u64 = kept.iter().map(|(_, metadata)| metadata.len()).sum();
        for (name, metadata) in kept {
            if written_at(&metadata) >= since && bytes <= bytes_max {
                break;
            }
            self.remove_file(&name)?;
            bytes -= metadata.len();
        }
        Ok(())
    }

    /// Lists all files.
    fn list(&self) -> Result<Vec<(String, Metadata)>, StorageError> {
        let Some(dir) = self.dir.as_ref().filter(|dir| dir.is_dir()) else { return Ok(Vec::new()) };
        let failed = |error| StorageError::new("list what was kept in", dir, error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string();
            if let Some(name) = name.ok().filter(|name| name.ends_with(".zst")) {
                files.push((name, entry.metadata().map_err(failed)?));
            }
        }
        Ok(files)
    }

    fn remove_file(&self, name: &str) -> Result<(), StorageError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        // The handle goes first: a later append must not write to the removed file.
        self.open_files().remove(name);
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StorageError::new("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Syncs all files. Appends do not wait for it.
    pub fn sync(&self) -> Result<(), StorageError> {
        let mut all = Ok(());
        for name in self.unsynced() {
            // A failure does not keep the other files from being synced.
            all = self.sync_file(&name).and(all);
        }
        all
    }

    /// Lists the files that have unsynced bytes.
    pub fn unsynced(&self) -> Vec<String> {
        let files = self.open_files();
        let unsynced = files.iter().filter(|(_, kept)| !kept.is_synced);
        unsynced.map(|(name, _)| name.clone()).collect()
    }

    /// Syncs one of these files.
    pub fn sync_file(&self, name: &str) -> Result<(), StorageError> {
        let unsynced = self.open_files().get_mut(name).filter(|kept| !kept.is_synced).map(|kept| {
            // Set before the sync, which runs without the lock: an append meanwhile clears it again.
            kept.is_synced = true;
            (Arc::clone(&kept.file), kept.path.clone())
        });
        let Some((file, path)) = unsynced else { return Ok(()) };
        file.sync_data().map_err(|error| {
            self.open_files().get_mut(name).into_iter().for_each(|kept| kept.is_synced = false);
            StorageError::new("sync", &path, error)
        })
    }

    /// Whether no file has unsynced bytes.
    pub fn is_synced(&self) -> bool {
        self.open_files().values().all(|kept| kept.is_synced)
    }

    fn open_files(&self) -> MutexGuard<'_, HashMap<String, OriginalFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a range of a source; `None` if not all of it was kept. Unpacks only the frames it is in.
    pub fn read_range(
        &self,
        source: &str,
        generation: u32,
        wanted: Range<u64>,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let path = dir.join(file_name(source, generation));
        let Some(file) = file::open_to_read(&path)? else { return Ok(None) };
        read_range(&file, wanted).map_err(|error| StorageError::new("read", &path, error))
    }

    /// Lists everything that was kept: names of sources, each with its generations.
    pub fn sources(&self) -> Result<BTreeSet<(String, u32)>, StorageError> {
        let files = self.list()?.into_iter();
        let named = files.filter_map(|(name, _)| {
            let (source, generation) = name.strip_suffix(".zst")?.split_once('.')?;
            // A name with an escape in it does not lead back to its source.
            let is_plain = file_stem(source) == source;
            Some((source.to_owned(), generation.parse().ok()?)).filter(|_| is_plain)
        });
        Ok(named.collect())
    }

    /// Whether nothing was ever kept.
    pub(crate) fn is_empty(&self) -> Result<bool, StorageError> {
        Ok(self.list()?.is_empty())
    }

    /// Reads the label that was written last; empty if there is none.
    pub fn label(&self, source: &str, generation: u32) -> Result<String, StorageError> {
        let Some(dir) = &self.dir else { return Ok(String::new()) };
        let path = dir.join(file_name(source, generation));
        let Some(file) = file::open_to_read(&path)? else { return Ok(String::new()) };
        let scan = scan_frames(&file).map_err(|error| StorageError::new("read", &path, error))?;
        Ok(last_label(&file, &scan.frames))
    }

    /// Reads what was kept of a source, part by part.
    pub fn parts(&self, source: &str, generation: u32) -> Result<StoredParts, StorageError> {
        let none = StoredParts { file: None, frames: Vec::new().into_iter(), damaged: 0 };
        let Some(dir) = &self.dir else { return Ok(none) };
        let path = dir.join(file_name(source, generation));
        let Some(file) = file::open_to_read(&path)? else { return Ok(none) };
        let scan = scan_frames(&file).map_err(|error| StorageError::new("read", &path, error))?;
        let frames = scan.frames.into_iter();
        Ok(StoredParts { file: Some(file), frames, damaged: scan.damaged })
    }
}

impl Iterator for StoredParts {
    type Item = StoredPart;

    fn next(&mut self) -> Option<StoredPart> {
        let file = self.file.as_ref()?;
        loop {
            let frame = self.frames.next()?;
            match read_part(file, frame) {
                Ok(part) => return Some(part),
                // The frame is damaged, or the disk is: the parts behind it may be whole.
                Err(_) => self.damaged += 1,
            }
        }
    }
}

impl OriginalFile {
    fn new(file: File, path: PathBuf) -> io::Result<OriginalFile> {
        let ScannedFrames { frames, end, .. } = scan_frames(&file)?;
        // Cuts a frame that a crash left half written: the next frame would stand behind it.
        if file.metadata()?.len() > end.packed {
            file.set_len(end.packed)?;
        }
        let label = last_label(&file, &frames);
        Ok(OriginalFile { file: Arc::new(file), path, end, label, is_synced: true })
    }

    fn append_frame(&mut self, part: OriginalPart<'_>) -> io::Result<()> {
        let label = if part.label == self.label { "" } else { part.label };
        let begin = if self.end.packed == 0 { part.begin } else { "" };
        with_encoded(OriginalPart { label, begin, ..part }, |frame| {
            // Header, tag and frame in one call. If it fails, `end` stays, and the next append
            // overwrites what was written of it.
            self.file.write_all_at(frame, self.end.packed)?;
            self.is_synced = false;
            self.end.packed += frame.len() as u64;
            self.end.plain = part.offset + part.bytes.len() as u64;
            Ok(())
        })?;
        if !label.is_empty() {
            label.clone_into(&mut self.label);
        }
        Ok(())
    }

    /// Whether another process has removed the file: writes to it would be lost.
    fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Replaces everything from the offset of the part on by the part. A crash leaves the file as it
    /// was or as it is then, because the new one is written beside it.
    fn replace_from(&mut self, part: OriginalPart<'_>) -> Result<(), StorageError> {
        let failed = |error| StorageError::new("keep what was read in", &self.path, error);
        let dir = self.path.parent().expect("an original is in a folder");
        let mut beside = file::TempFile::new(dir)?;
        self.write_replaced(part, beside.file()).map_err(failed)?;
        beside.sync()?;
        beside.replace(&self.path)?;
        folder::sync(dir)?;
        let file = file::open_or_create(&self.path)?;
        *self = OriginalFile::new(file, self.path.clone()).map_err(failed)?;
        Ok(())
    }

    fn write_replaced(&self, part: OriginalPart<'_>, beside: &mut File) -> io::Result<()> {
        let frames = scan_frames(&self.file)?.frames;
        let kept = frames.iter().take_while(|frame| frame.end().plain <= part.offset);
        let packed = kept.last().map_or(0, |frame| frame.end().packed);
        io::copy(&mut ReadFrom { file: &self.file, at: 0 }.take(packed), beside)?;
        let mut label = part.label;
        let cut = frames.iter().find(|frame| frame.end().plain > part.offset);
        // A frame that begins before the offset is written again, shorter.
        if let Some(frame) = cut.filter(|frame| frame.plain_from < part.offset) {
            let StoredPart { mut bytes, label: own, begin, note, offset } =
                read_part(&self.file, *frame)?;
            bytes.truncate((part.offset - frame.plain_from) as usize);
            let own = if own.is_empty() { &self.label } else { &own };
            let shorter =
                OriginalPart { offset, bytes: &bytes, label: own, begin: &begin, note: &note };
            with_encoded(shorter, |frame| beside.write_all(frame))?;
            label = if own == label { "" } else { label };
        }
        // The state at this offset is told only where nothing stands before it.
        let begin = if beside.metadata()?.len() == 0 { part.begin } else { "" };
        with_encoded(OriginalPart { label, begin, ..part }, |frame| beside.write_all(frame))
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        if !self.is_synced {
            let synced = self.file.sync_data();
            synced.map_err(|error| StorageError::new("sync", &self.path, error))?;
            self.is_synced = true;
        }
        Ok(())
    }
}

fn file_name(source: &str, generation: u32) -> String {
    // No dot is left in the stem, so that the first dot ends the source.
    format!("{}.{generation}.zst", file_stem(source))
}

fn written_at(metadata: &Metadata) -> Time {
    Time::from_nanos(
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
    )
}

#[cfg(test)]
mod tests;
