//! Originals: the bytes of sources, kept compressed beside the log.
//!
//! One file per source and generation. Each append is a zstd frame behind a skippable frame that
//! says where in the source it begins:
//!
//! ```text
//! magic u32 · length u32 · offset in the source u64 · plain length u32 · packed length u32 · frame
//! ```
//!
//! `zstd -d` skips these headers and gives the source back, long after the agent has deleted it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Cursor, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Time;
use zstd::bulk::Compressor;

use crate::{StorageError, file, folder};

/// The originals of a journal.
pub struct Originals {
    /// `None` for a journal in memory, which keeps no originals.
    dir: Option<PathBuf>,
    files: Mutex<HashMap<String, OriginalFile>>,
}

/// An open file, and where it ends.
struct OriginalFile {
    file: Arc<File>,
    path: PathBuf,
    end: OriginalEnd,
    is_synced: bool,
}

/// Where a file ends: as an offset in the source, and in bytes on disk.
#[derive(Clone, Copy, Default)]
struct OriginalEnd {
    plain: u64,
    packed: u64,
}

/// One frame of a file.
#[derive(Clone, Copy)]
struct OriginalFrame {
    plain_from: u64,
    plain_len: u32,
    packed_from: u64,
    packed_len: u32,
}

/// The magic number of a skippable frame; the length of its content follows.
const MARK: u32 = 0x184D_2A5C;
const HEADER_LEN: u64 = 8 + CONTENT_LEN;
const CONTENT_LEN: u64 = 16;

/// Speed counts more than size here: originals are written for every byte read, and rarely read.
const LEVEL: i32 = 1;

/// Buffer that a thread keeps for the next frame. A few records are much longer than most, and
/// their memory is given back.
const ENCODER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Files kept open. Beyond it all are synced and closed, and opened again when needed.
const OPEN_MAX: usize = 128;

impl Originals {
    pub(crate) fn in_folder(dir: PathBuf) -> Originals {
        Originals { dir: Some(dir), files: Mutex::default() }
    }

    pub(crate) fn disabled() -> Originals {
        Originals { dir: None, files: Mutex::default() }
    }

    /// Appends bytes of a source. Bytes that were kept from `offset` on are replaced.
    pub fn append(
        &self,
        source: &str,
        generation: u32,
        offset: u64,
        bytes: &[u8],
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
            let end = read_frames(&file)
                .map_err(failed)?
                .last()
                .map(OriginalFrame::end)
                .unwrap_or_default();
            // Cuts a frame that a crash left half written: the next frame would stand behind it,
            // where `read_frames` does not get to.
            file.set_len(end.packed).map_err(failed)?;
            let (file, path) = (Arc::new(file), path.clone());
            files.insert(name.clone(), OriginalFile { file, path, end, is_synced: true });
        }
        let kept = files.get_mut(&name).expect("it was just put there");
        // After a crash a source is read again from its last checkpoint, and these bytes come
        // twice. An `offset` behind the end leaves a gap, which the headers tell.
        if offset < kept.end.plain {
            kept.truncate_at(offset).map_err(failed)?;
        }
        kept.append_frame(offset, bytes).map_err(failed)
    }

    /// Removes the originals of a source.
    pub fn remove(&self, source: &str) -> Result<(), StorageError> {
        let is_of_source =
            |name: &str| name.split_once('.').is_some_and(|(kept, _)| kept == safe_name(source));
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
        let Some(file) = file::open(&path)? else { return Ok(None) };
        let failed = |error| StorageError::new("read", &path, error);
        // Frames stand in the order of the source, so one walk over the headers is enough. Frames
        // before and behind the range are not unpacked.
        let mut stretch = Vec::new();
        let mut at = wanted.start;
        for frame in read_frames(&file).map_err(failed)? {
            if at == wanted.end {
                break;
            }
            if (frame.plain_from..frame.end().plain).contains(&at) {
                let plain = decode_frame(&file, frame).map_err(failed)?;
                let end = wanted.end.min(frame.end().plain);
                let part = (at - frame.plain_from) as usize..(end - frame.plain_from) as usize;
                // A frame that unpacks to fewer bytes than its header says is damaged.
                let Some(part) = plain.get(part) else { return Ok(None) };
                stretch.extend_from_slice(part);
                at = end;
            }
        }
        // A gap stops `at` for good: no later frame begins before it.
        Ok((at == wanted.end).then_some(stretch))
    }

    /// Returns the first offset of a source that was kept; `None` if nothing was.
    pub fn first_offset(&self, source: &str, generation: u32) -> Result<Option<u64>, StorageError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let path = dir.join(file_name(source, generation));
        let Some(file) = file::open(&path)? else { return Ok(None) };
        let frames = read_frames(&file).map_err(|error| StorageError::new("read", &path, error))?;
        Ok(frames.first().map(|frame| frame.plain_from))
    }

    /// Reads what was kept of a source, from its first offset on; `None` if nothing was.
    pub fn read(
        &self,
        source: &str,
        generation: u32,
    ) -> Result<Option<impl Read + use<>>, StorageError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let path = dir.join(file_name(source, generation));
        let Some(file) = file::open(&path)? else { return Ok(None) };
        let decoder = zstd::Decoder::new(file);
        let decoder = decoder.map_err(|error| StorageError::new("read", &path, error))?;
        Ok(Some(decoder))
    }
}

thread_local! {
    static FRAME_ENCODER: RefCell<Option<FrameEncoder>> = const { RefCell::new(None) };
}

/// What a thread keeps for the next frame.
struct FrameEncoder {
    compressor: Compressor<'static>,
    frame: Vec<u8>,
}

impl FrameEncoder {
    fn new() -> std::io::Result<FrameEncoder> {
        let compressor = Compressor::new(LEVEL)?;
        Ok(FrameEncoder { compressor, frame: Vec::new() })
    }
}

impl OriginalFile {
    fn append_frame(&mut self, offset: u64, plain: &[u8]) -> std::io::Result<()> {
        FRAME_ENCODER.with_borrow_mut(|packing| {
            let FrameEncoder { compressor, frame } = match packing {
                Some(packing) => packing,
                None => packing.insert(FrameEncoder::new()?),
            };
            frame.clear();
            frame.reserve(HEADER_LEN as usize + zstd::zstd_safe::compress_bound(plain.len()));
            frame.extend(MARK.to_le_bytes());
            frame.extend((CONTENT_LEN as u32).to_le_bytes());
            frame.extend(offset.to_le_bytes());
            frame.extend((plain.len() as u32).to_le_bytes());
            // The packed length, which is known only afterwards.
            frame.extend([0; 4]);
            let mut behind = Cursor::new(&mut *frame);
            behind.set_position(HEADER_LEN);
            let packed_len = compressor.compress_to_buffer(plain, &mut behind)? as u32;
            frame[HEADER_LEN as usize - 4..][..4].copy_from_slice(&packed_len.to_le_bytes());
            // Header and frame in one call. If it fails, `end` stays, and the next append
            // overwrites what was written of it.
            self.file.write_all_at(frame, self.end.packed)?;
            self.is_synced = false;
            self.end.packed += frame.len() as u64;
            self.end.plain = offset + plain.len() as u64;
            frame.clear();
            frame.shrink_to(ENCODER_BYTES_MAX);
            Ok(())
        })
    }

    /// Whether another process has removed the file: writes to it would be lost.
    fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Cuts everything from `offset` on. A frame that begins before it is written again, shorter.
    fn truncate_at(&mut self, offset: u64) -> std::io::Result<()> {
        let frames = read_frames(&self.file)?;
        let first = frames.iter().position(|frame| frame.end().plain > offset);
        let Some(first) = first else { return Ok(()) };
        let frame = frames[first];
        let packed = frame.packed_from - HEADER_LEN;
        // Unpacked before the cut, which removes the bytes.
        let before =
            (offset > frame.plain_from).then(|| decode_frame(&self.file, frame)).transpose()?;
        self.file.set_len(packed)?;
        // The end of the frame before, not `offset`: between them there may be a gap.
        let plain = if first == 0 { 0 } else { frames[first - 1].end().plain };
        self.end = OriginalEnd { plain, packed };
        if let Some(mut plain) = before {
            plain.truncate((offset - frame.plain_from) as usize);
            self.append_frame(frame.plain_from, &plain)?;
        }
        Ok(())
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

impl OriginalFrame {
    fn end(&self) -> OriginalEnd {
        OriginalEnd {
            plain: self.plain_from + u64::from(self.plain_len),
            packed: self.packed_from + u64::from(self.packed_len),
        }
    }
}

/// Unpacks a frame.
fn decode_frame(file: &File, frame: OriginalFrame) -> std::io::Result<Vec<u8>> {
    let mut packed = vec![0; frame.packed_len as usize];
    file.read_exact_at(&mut packed, frame.packed_from)?;
    zstd::bulk::decompress(&packed, frame.plain_len as usize)
}

/// Lists the whole frames of a file. Stops at one that a crash left half written.
fn read_frames(file: &File) -> std::io::Result<Vec<OriginalFrame>> {
    let length = file.metadata()?.len();
    let mut frames = Vec::new();
    let mut at = 0;
    while at + HEADER_LEN <= length {
        let mut header = [0; HEADER_LEN as usize];
        file.read_exact_at(&mut header, at)?;
        let word = |from: usize| {
            u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]])
        };
        let frame = OriginalFrame {
            plain_from: u64::from(word(8)) | u64::from(word(12)) << 32,
            plain_len: word(16),
            packed_from: at + HEADER_LEN,
            packed_len: word(20),
        };
        // Header of another kind, or a frame that goes beyond the file: a torn write.
        if word(0) != MARK || frame.end().packed > length {
            break;
        }
        at = frame.end().packed;
        frames.push(frame);
    }
    Ok(frames)
}

fn file_name(source: &str, generation: u32) -> String {
    format!("{}.{generation}.zst", safe_name(source))
}

fn safe_name(source: &str) -> String {
    // Neither a slash nor a dot is left, so that no name leads out of the folder and the first dot
    // ends the source.
    source.chars().filter(char::is_ascii_alphanumeric).take(64).collect()
}

fn written_at(metadata: &Metadata) -> Time {
    Time::from_nanos(
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(originals: &Originals) -> String {
        let mut text = String::new();
        originals.read("a", 0).unwrap().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn source_reads_back_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let originals = Originals::in_folder(dir.path().join("originals"));
        originals.append("a", 0, 0, b"one\n").unwrap();
        originals.append("a", 0, 4, b"two\n").unwrap();
        assert_eq!(kept(&originals), "one\ntwo\n");
        let again = Originals::in_folder(dir.path().join("originals"));
        again.append("a", 0, 8, b"three\n").unwrap();
        assert_eq!(kept(&again), "one\ntwo\nthree\n");
    }

    #[test]
    fn long_record_frees_its_buffer() {
        let dir = tempfile::tempdir().unwrap();
        let originals = Originals::in_folder(dir.path().join("originals"));
        let long: Vec<u8> =
            (0..8 * 1024 * 1024_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        originals.append("a", 0, 0, &long).unwrap();
        let room = FRAME_ENCODER.with_borrow(|packing| packing.as_ref().unwrap().frame.capacity());
        assert!(room <= ENCODER_BYTES_MAX, "{room}");
        originals.append("a", 0, long.len() as u64, b"end\n").unwrap();
        let mut again = Vec::new();
        originals.read("a", 0).unwrap().unwrap().read_to_end(&mut again).unwrap();
        assert!(again.starts_with(&long) && again.ends_with(b"end\n"));
    }

    #[test]
    fn range_reads_only_its_frames() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("originals");
        let originals = Originals::in_folder(path.clone());
        // The first part was never kept.
        originals.append("a", 0, 4, b"two\n").unwrap();
        originals.append("a", 0, 8, b"three\n").unwrap();
        let stretch = |range| originals.read_range("a", 0, range).unwrap();
        for (range, kept) in [
            (4..8, Some(&b"two\n"[..])),
            (5..10, Some(b"wo\nth")),
            (8..14, Some(b"three\n")),
            (9..9, Some(b"")),
            (0..8, None),
            (12..15, None),
            (20..21, None),
        ] {
            assert_eq!(stretch(range.clone()).as_deref(), kept, "{range:?}");
        }
        assert_eq!(originals.read_range("a", 1, 4..8).unwrap(), None);
        // Damage in an earlier frame does not matter.
        let file = File::options().write(true).open(path.join("a.0.zst")).unwrap();
        file.write_all_at(&[0xff; 4], HEADER_LEN).unwrap();
        assert_eq!(stretch(8..14).as_deref(), Some(&b"three\n"[..]));
        assert!(originals.read_range("a", 0, 4..8).is_err());
    }

    #[test]
    fn repeated_bytes_are_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let originals = Originals::in_folder(dir.path().join("originals"));
        originals.append("a", 0, 0, b"one\n").unwrap();
        originals.append("a", 0, 4, b"two\nthree\n").unwrap();
        originals.append("a", 0, 8, b"THREE\n").unwrap();
        assert_eq!(kept(&originals), "one\ntwo\nTHREE\n");
        originals.append("a", 0, 0, b"anew\n").unwrap();
        assert_eq!(kept(&originals), "anew\n");
    }

    #[test]
    fn torn_frame_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("originals");
        let originals = Originals::in_folder(path.clone());
        originals.append("a", 0, 0, b"one\n").unwrap();
        originals.append("a", 0, 4, b"two\n").unwrap();
        let file = File::options().write(true).open(path.join("a.0.zst")).unwrap();
        file.set_len(file.metadata().unwrap().len() - 3).unwrap();
        let again = Originals::in_folder(path);
        again.append("a", 0, 4, b"two\n").unwrap();
        assert_eq!(kept(&again), "one\ntwo\n");
    }

    #[test]
    fn removed_source_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let originals = Originals::in_folder(dir.path().join("originals"));
        for (source, generation) in [("a", 0), ("a", 1), ("ab", 0)] {
            originals.append(source, generation, 0, b"one\n").unwrap();
        }
        originals.remove("a").unwrap();
        assert!(originals.read("a", 0).unwrap().is_none());
        assert!(originals.read("a", 1).unwrap().is_none());
        assert!(originals.read("ab", 0).unwrap().is_some());
        originals.append("a", 0, 4, b"two\n").unwrap();
        assert_eq!(kept(&originals), "two\n");
        assert_eq!(originals.first_offset("a", 0).unwrap(), Some(4));
    }

    #[test]
    fn source_removed_elsewhere_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let originals = Originals::in_folder(dir.path().join("originals"));
        originals.append("a", 0, 0, b"one\n").unwrap();
        Originals::in_folder(dir.path().join("originals")).remove("a").unwrap();
        originals.append("a", 0, 4, b"two\n").unwrap();
        assert_eq!(kept(&originals), "two\n");
        assert_eq!(originals.first_offset("a", 0).unwrap(), Some(4));
    }

    #[test]
    fn retention_removes_oldest_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("originals");
        let originals = Originals::in_folder(path.clone());
        for (number, source) in ["a", "b", "c"].into_iter().enumerate() {
            originals.append(source, 0, 0, b"one\n").unwrap();
            let file = File::options().append(true).open(path.join(format!("{source}.0.zst")));
            let at = std::time::Duration::from_secs(100 * number as u64);
            file.unwrap().set_modified(std::time::UNIX_EPOCH + at).unwrap();
        }
        let has = |source| originals.read(source, 0).unwrap().is_some();
        originals.retain(Time::from_millis(50_000), u64::MAX).unwrap();
        assert_eq!(["a", "b", "c"].map(has), [false, true, true]);
        originals.retain(Time::from_millis(0), 50).unwrap();
        assert_eq!(["a", "b", "c"].map(has), [false, false, true]);
        originals.retain(Time::from_millis(0), 0).unwrap();
        assert_eq!(["a", "b", "c"].map(has), [false, false, false]);
    }

    #[test]
    fn file_name_stays_in_folder() {
        assert_eq!(file_name("../../etc/passwd", 7), "etcpasswd.7.zst");
    }
}
