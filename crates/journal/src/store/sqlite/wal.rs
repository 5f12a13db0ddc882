//! Is the write-ahead log whole that a crash left behind?
//!
//! SQLite takes it up to the first frame that does not fit its checksum, and says nothing about
//! what stands behind. After a crash that is right: the last commit was cut off in the middle.
//! But if a whole commit stands behind the bad frame, the log was damaged, and what SQLite drops
//! was accepted once.
//!
//! ```text
//! header   magic, version, page size, sequence, two salts, checksum        8 × 4 bytes
//! frame    page, size of the database after a commit, two salts, checksum  6 × 4 bytes, a page
//! ```
//!
//! Checksums run on from frame to frame. Frames of an earlier life of the log have other salts.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER_LEN: usize = 32;
const FRAME_HEADER_LEN: usize = 24;

/// Magic numbers: the last bit tells the byte order checksums are made in.
const MAGIC: u32 = 0x377f_0682;

/// Commits behind a frame that cannot be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// Where the bad frame begins.
    pub byte: u64,
    pub commits: u64,
}

/// What SQLite will drop of a log that should be whole; `None` if nothing, or no log is there.
pub(super) fn lost(path: &Path) -> io::Result<Option<Lost>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.metadata()?.len();
    let mut log = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER_LEN];
    if len < HEADER_LEN as u64 {
        return Ok(None);
    }
    log.read_exact(&mut header)?;
    let field = |at: usize| u32::from_be_bytes(word(&header, at));
    let page_len = field(2) as usize;
    let is_header = field(0) & !1 == MAGIC && page_len.is_power_of_two() && page_len <= 65_536;
    let mut sum = Sum { big: field(0) & 1 == 1, s0: 0, s1: 0 };
    if is_header {
        sum.add(&header[..24]);
    }
    if !is_header || (sum.s0, sum.s1) != (field(6), field(7)) {
        // Without its header no frame can be told; a log with frames had one.
        let has_frames = len > HEADER_LEN as u64;
        return Ok(has_frames.then_some(Lost { byte: 0, commits: 1 }));
    }
    let salts = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER_LEN + page_len];
    let mut at = HEADER_LEN as u64;
    let mut lost: Option<Lost> = None;
    while at + frame.len() as u64 <= len {
        log.read_exact(&mut frame)?;
        let is_ours = &frame[8..16] == salts;
        if lost.is_none() {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER_LEN..]);
            let told = (u32::from_be_bytes(word(&frame, 4)), u32::from_be_bytes(word(&frame, 5)));
            if !is_ours || (sum.s0, sum.s1) != told {
                lost = Some(Lost { byte: at, commits: 0 });
            }
        }
        let is_commit = is_ours && word(&frame, 1) != [0; 4];
        if let Some(lost) = &mut lost {
            lost.commits += u64::from(is_commit);
        }
        at += frame.len() as u64;
    }
    Ok(lost.filter(|lost| lost.commits > 0))
}

/// The running checksum of a log.
struct Sum {
    big: bool,
    s0: u32,
    s1: u32,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let read = if self.big { u32::from_be_bytes } else { u32::from_le_bytes };
        for pair in bytes.chunks_exact(8) {
            self.s0 = self.s0.wrapping_add(read(word(pair, 0))).wrapping_add(self.s1);
            self.s1 = self.s1.wrapping_add(read(word(pair, 1))).wrapping_add(self.s0);
        }
    }
}

/// The four bytes at place `at`, counted in fours.
fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[4 * at..4 * at + 4]);
    word
}
