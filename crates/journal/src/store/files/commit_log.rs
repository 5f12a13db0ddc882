//! The commit log: the write-ahead log of the files store.
//!
//! A commit is one record, written with one call and synced. It says which bytes go to which file
//! at which offset, so writing it out twice is the same as once. The log is cut after those files
//! were synced themselves.
//!
//! ```text
//! hansard commit log 1⏎
//! length u32 · crc u32 · head length u32 · head (JSON) · bytes, as the head lists them
//! ```

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use event::SessionId;
use serde::{Deserialize, Serialize};

use super::line_scanner::read_up_to;
use crate::store::{CommitError, SessionRow};
use crate::{Damage, OpenError, StorageError, file, folder};

/// The log of one journal.
#[derive(Debug)]
pub(super) struct CommitLog {
    file: File,
    path: PathBuf,
}

/// One commit: its head, and the bytes that the head describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitRecord {
    pub head: CommitHead,
    /// The bytes of all chunks, in the order of the head.
    pub bytes: Vec<u8>,
}

/// Says which bytes of a commit go where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct CommitHead {
    /// 1, 2, 3 … for the life of the journal.
    pub number: u64,
    pub chunks: Vec<SessionChunk>,
    pub ledger: Option<LedgerChunk>,
    pub payloads: Vec<PayloadChunk>,
    /// Sessions as they are afterwards.
    pub sessions: Vec<SessionRow>,
}

/// Lines at the end of a session's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionChunk {
    pub session_id: SessionId,
    pub session: u32,
    pub offset: u64,
    pub length: usize,
}

/// Lines at the end of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerChunk {
    pub offset: u64,
    pub length: usize,
}

/// A file of its own for a large `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PayloadChunk {
    /// Hex digits of the SHA-256.
    pub digest: String,
    pub length: usize,
}

/// What was read at an offset of the log.
#[derive(Debug)]
pub(super) enum LogEntry {
    /// A commit, and where it ends.
    Record(CommitRecord, u64),
    /// A commit that cannot be read, with others behind it, and where it ends.
    Damaged(Damage, u64),
    /// The last record is incomplete: a crash interrupted its write, and it was never
    /// acknowledged.
    Torn,
    End,
}

const MAGIC: &[u8] = b"hansard commit log ";
const FORMAT: u32 = 1;
const FRAME_LEN: u64 = 12;

impl CommitLog {
    pub(super) const FILE_NAME: &str = "commit.log";

    /// Where the first record begins.
    pub(super) const START: u64 = MAGIC.len() as u64 + 2;

    /// Opens the log of the journal in `dir`, and creates it if it is missing.
    pub(super) fn open(dir: &Path) -> Result<CommitLog, OpenError> {
        let path = dir.join(CommitLog::FILE_NAME);
        // Opened once and never replaced: the log is cut in place, so that all processes have the
        // same file.
        let file = file::open_or_create(&path)?;
        let log = CommitLog { file, path };
        let mut header = vec![0; CommitLog::START as usize];
        let read = read_up_to(&log.file, &mut header, 0).map_err(log.failed("read"))?;
        if read < header.len() {
            // New, or a crash interrupted its creation: nothing can be recorded yet.
            let header = format!("{}{FORMAT}\n", String::from_utf8_lossy(MAGIC));
            log.file.write_all_at(header.as_bytes(), 0).map_err(log.failed("write"))?;
            log.file.sync_all().map_err(log.failed("sync"))?;
            folder::sync(dir)?;
            return Ok(log);
        }
        // One digit of base 36, so that the header has a fixed length for 35 versions.
        let version = header.strip_prefix(MAGIC).and_then(|rest| char::from(rest[0]).to_digit(36));
        match version {
            Some(FORMAT) => Ok(log),
            Some(found) => Err(OpenError::NewerFormat { path: log.path, found, supported: FORMAT }),
            None => Err(OpenError::Corrupt(Box::new(log.damage(0, "it is not a commit log")))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The offset of the next record.
    pub(super) fn end(&self) -> Result<u64, StorageError> {
        let length = self.file.metadata().map_err(self.failed("read"))?.len();
        // Asked from the system each time: other processes append and cut too.
        Ok(length.max(CommitLog::START))
    }

    /// Writes a framed record at the end and syncs it. After an error other than
    /// [`CommitError::NotDurable`] nothing of it is left.
    pub(super) fn append(&self, at: u64, frame: &[u8]) -> Result<(), CommitError> {
        if let Err(error) = self.file.write_all_at(frame, at) {
            // A part of the frame may be written. Left there, it would swallow the start of the
            // next record.
            self.cut(at).map_err(|error| CommitError::NotDurable(error.to_string()))?;
            return Err(refused(self.failed("write")(error)));
        }
        // After a failed sync the page cache cannot be trusted: the record may be there or not.
        self.file.sync_data().map_err(|error| CommitError::NotDurable(error.to_string()))
    }

    /// Reads the record at `at`.
    pub(super) fn read(&self, at: u64) -> Result<LogEntry, StorageError> {
        let end = self.end()?;
        if at >= end {
            return Ok(LogEntry::End);
        }
        // Without a length the next record cannot be found, so this has to be the end.
        let Some((record_end, crc, head_length)) = self.frame_at(at, end)? else {
            return Ok(LogEntry::Torn);
        };
        let mut body = vec![0; (record_end - at - FRAME_LEN) as usize];
        self.file.read_exact_at(&mut body, at + FRAME_LEN).map_err(self.failed("read"))?;
        let record = match crc32fast::hash(&body) == crc {
            true => CommitRecord::parse(body, head_length).map_err(|error| error.to_string()),
            false => Err("the check of a commit does not fit".to_owned()),
        };
        Ok(match record {
            Ok(record) => LogEntry::Record(record, record_end),
            // A bad record at the very end is a write that was cut off. With records behind it,
            // it was acknowledged once, and is damage.
            Err(_) if record_end == end => LogEntry::Torn,
            Err(why) => LogEntry::Damaged(self.damage(at, &why), record_end),
        })
    }

    /// Removes everything from `at` on.
    pub(super) fn cut(&self, at: u64) -> Result<(), StorageError> {
        // Synced, because a cut that is lost with the power would bring the records back, at
        // offsets that later commits use.
        self.file.set_len(at).map_err(self.failed("cut"))?;
        self.file.sync_all().map_err(self.failed("sync"))
    }

    /// Reads the frame of the record at `at`: its end, its checksum and the length of its head;
    /// `None` if the record is incomplete.
    fn frame_at(&self, at: u64, end: u64) -> Result<Option<(u64, u32, usize)>, StorageError> {
        let mut frame = [0; FRAME_LEN as usize];
        let read = read_up_to(&self.file, &mut frame, at).map_err(self.failed("read"))?;
        let number = |span: usize| {
            let bytes = frame[span..span + 4].try_into().expect("four bytes of twelve");
            u32::from_le_bytes(bytes)
        };
        let (length, crc, head_length) = (number(0), number(4), number(8));
        let record_end = at + FRAME_LEN + u64::from(length);
        // A crash may leave zeros where the file grew before its bytes came: length 0 is no record.
        let is_whole =
            read == frame.len() && length > 0 && head_length <= length && record_end <= end;
        Ok(is_whole.then_some((record_end, crc, head_length as usize)))
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> StorageError {
        move |error| StorageError::new(action, &self.path, error)
    }

    fn damage(&self, at: u64, why: &str) -> Damage {
        Damage {
            store: super::NAME,
            file: self.path.clone(),
            line: None,
            byte: Some(at),
            session_id: None,
            seq: None,
            why: why.to_owned(),
        }
    }
}

impl CommitRecord {
    /// Iterates over the chunks with their bytes.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (&SessionChunk, &[u8])> {
        let mut at = 0;
        self.head.chunks.iter().map(move |chunk| (chunk, &self.bytes[next(&mut at, chunk.length)]))
    }

    /// Returns the offset and the lines for the ledger.
    pub(super) fn ledger(&self) -> Option<(u64, &[u8])> {
        let chunk = self.head.ledger?;
        // The layout of `bytes`:
        //
        //     chunk · chunk · … │ ledger │ payload · payload · …
        let mut at = self.chunks_length();
        Some((chunk.offset, &self.bytes[next(&mut at, chunk.length)]))
    }

    /// Iterates over the payloads with their bytes.
    pub(super) fn payloads(&self) -> impl Iterator<Item = (&PayloadChunk, &[u8])> {
        let mut at = self.chunks_length() + self.head.ledger.map_or(0, |ledger| ledger.length);
        let chunks = self.head.payloads.iter();
        chunks.map(move |chunk| (chunk, &self.bytes[next(&mut at, chunk.length)]))
    }

    fn chunks_length(&self) -> usize {
        self.head.chunks.iter().map(|chunk| chunk.length).sum()
    }

    /// Encodes the record with its frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        let head = serde_json::to_vec(&self.head).expect("rows always encode");
        let length = head.len() + self.bytes.len();
        let mut frame = Vec::with_capacity(FRAME_LEN as usize + length);
        let mut crc = crc32fast::Hasher::new();
        // The checksum covers head and bytes. The frame itself is checked by its lengths.
        crc.update(&head);
        crc.update(&self.bytes);
        for number in [length as u32, crc.finalize(), head.len() as u32] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&self.bytes);
        frame
    }

    fn parse(mut body: Vec<u8>, head_length: usize) -> Result<CommitRecord, String> {
        let head: CommitHead =
            serde_json::from_slice(&body[..head_length]).map_err(|error| error.to_string())?;
        let lengths = head.chunks.iter().map(|chunk| chunk.length);
        let lengths = lengths.chain(head.ledger.iter().map(|ledger| ledger.length));
        let lengths = lengths.chain(head.payloads.iter().map(|payload| payload.length));
        // Checked once here, so that the slices above cannot be out of bounds.
        if lengths.sum::<usize>() != body.len() - head_length {
            return Err("the lengths in a commit do not add up".to_owned());
        }
        // In place: a copy of the bytes would double the memory of a large commit.
        body.drain(..head_length);
        Ok(CommitRecord { head, bytes: body })
    }
}

/// Translates a failed write of which nothing is left.
pub(super) fn refused(error: StorageError) -> CommitError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(StorageFull | QuotaExceeded | FileTooLarge) => CommitError::OutOfSpace,
        _ => error.into(),
    }
}

fn next(at: &mut usize, length: usize) -> Range<usize> {
    let range = *at..*at + length;
    *at = range.end;
    range
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(number: u64, text: &str) -> CommitRecord {
        let session_id = SessionId::new("s").unwrap();
        let chunk = SessionChunk { session_id, session: 1, offset: 7, length: text.len() };
        let ledger = Some(LedgerChunk { offset: 3, length: 2 });
        let payload = PayloadChunk { digest: "00".to_owned(), length: 1 };
        let head = CommitHead {
            number,
            chunks: vec![chunk],
            ledger,
            payloads: vec![payload],
            sessions: Vec::new(),
        };
        CommitRecord { head, bytes: format!("{text}LLP").into_bytes() }
    }

    /// The numbers of the readable commits, how many are damaged, and whether the end is torn.
    fn read_all(log: &CommitLog) -> (Vec<u64>, usize, bool) {
        let (mut numbers, mut damaged, mut at) = (Vec::new(), 0, CommitLog::START);
        loop {
            match log.read(at).unwrap() {
                LogEntry::Record(record, end) => {
                    numbers.push(record.head.number);
                    at = end;
                }
                LogEntry::Damaged(_, end) => {
                    damaged += 1;
                    at = end;
                }
                LogEntry::Torn => return (numbers, damaged, true),
                LogEntry::End => return (numbers, damaged, false),
            }
        }
    }

    fn log_of(count: u64) -> (tempfile::TempDir, CommitLog, Vec<u64>) {
        let dir = tempfile::tempdir().unwrap();
        let log = CommitLog::open(dir.path()).unwrap();
        let mut ends = vec![log.end().unwrap()];
        for number in 1..=count {
            let text = "x".repeat(number as usize * 10);
            log.append(log.end().unwrap(), &record(number, &text).frame()).unwrap();
            ends.push(log.end().unwrap());
        }
        (dir, log, ends)
    }

    #[test]
    fn commit_reads_back_with_its_parts() {
        let (dir, log, ends) = log_of(0);
        let written = record(5, "hello");
        log.append(ends[0], &written.frame()).unwrap();
        let log = CommitLog::open(dir.path()).unwrap();
        let LogEntry::Record(read, _) = log.read(CommitLog::START).unwrap() else { panic!() };
        assert_eq!(read, written);
        assert_eq!(read.chunks().map(|(_, bytes)| bytes).collect::<Vec<_>>(), [b"hello"]);
        assert_eq!(read.ledger(), Some((3, &b"LL"[..])));
        assert_eq!(read.payloads().map(|(_, bytes)| bytes).collect::<Vec<_>>(), [b"P"]);
    }

    #[test]
    fn cut_log_keeps_earlier_commits() {
        let (_dir, log, ends) = log_of(3);
        for length in (CommitLog::START..=ends[3]).rev() {
            log.cut(length).unwrap();
            let whole = ends.iter().filter(|end| **end <= length).count() as u64 - 1;
            let is_torn = !ends.contains(&length);
            assert_eq!(read_all(&log), ((1..=whole).collect(), 0, is_torn), "cut at {length}");
        }
    }

    #[test]
    fn newer_log_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CommitLog::FILE_NAME);
        std::fs::write(&path, "hansard commit log 7\nwhatever").unwrap();
        let error = CommitLog::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::NewerFormat { found: 7, supported: 1, .. }));
        assert_eq!(std::fs::read(&path).unwrap(), b"hansard commit log 7\nwhatever");
        std::fs::write(&path, "something else altogether").unwrap();
        assert!(matches!(CommitLog::open(dir.path()), Err(OpenError::Corrupt(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn changed_byte_costs_one_commit(at: prop::sample::Index, bit in 0u8..8) {
            let (_dir, log, ends) = log_of(3);
            // Within the body of a commit: a damaged length takes what is behind it as well.
            let span = (ends[2] - ends[1] - FRAME_LEN) as usize;
            let at = ends[1] + FRAME_LEN + at.index(span) as u64;
            let mut byte = [0];
            log.file.read_exact_at(&mut byte, at).unwrap();
            log.file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
            prop_assert_eq!(read_all(&log), (vec![1, 3], 1, false));
        }
    }
}
