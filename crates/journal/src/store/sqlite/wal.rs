//! Verifies the write-ahead log (WAL) that a crash left behind.
//!
//! SQLite reads the WAL up to the first frame with a checksum that does not fit, and silently drops
//! the rest. After a crash that is right: the last commit was cut off in the middle. But a whole
//! commit behind the bad frame means that the WAL was damaged, and that SQLite drops commits which
//! were acknowledged.
//!
//! ```text
//! header   magic, version, page size, sequence, two salts, checksum        8 × 4 bytes
//! frame    page, size of the database after a commit, two salts, checksum  6 × 4 bytes, a page
//! ```
//!
//! Checksums are cumulative from frame to frame. Frames from before the WAL last began anew have
//! other salts.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER_LEN: usize = 32;
const FRAME_HEADER_LEN: usize = 24;

/// The magic number; its last bit is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

/// Commits behind a damaged frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostCommits {
    /// Where the bad frame begins.
    pub byte: u64,
    pub commits: u64,
}

/// Finds the commits that SQLite will drop although they were whole; `None` if there are none.
pub(super) fn find_lost_commits(path: &Path) -> io::Result<Option<LostCommits>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.metadata()?.len();
    // A WAL grows to tens of megabytes, and opening waits for this read.
    let mut log = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER_LEN];
    // Shorter than its header: SQLite was killed while it began the log, so no commit is in it.
    if len < HEADER_LEN as u64 {
        return Ok(None);
    }
    log.read_exact(&mut header)?;
    let field = |at: usize| u32::from_be_bytes(read_word(&header, at));
    let page_len = field(2) as usize;
    let is_header = field(0) & !1 == MAGIC && page_len.is_power_of_two() && page_len <= 65_536;
    let mut sum = WalChecksum { big: field(0) & 1 == 1, s0: 0, s1: 0 };
    if is_header {
        // The last eight bytes are the checksum itself.
        sum.add(&header[..24]);
    }
    if !is_header || (sum.s0, sum.s1) != (field(6), field(7)) {
        // Without the header frames cannot be verified. SQLite writes it before the first frame.
        let has_frames = len > HEADER_LEN as u64;
        return Ok(has_frames.then_some(LostCommits { byte: 0, commits: 1 }));
    }
    let salts = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER_LEN + page_len];
    let mut at = HEADER_LEN as u64;
    let mut lost: Option<LostCommits> = None;
    // An incomplete frame at the end is a write that was cut off, and no commit.
    while at + frame.len() as u64 <= len {
        log.read_exact(&mut frame)?;
        let is_ours = &frame[8..16] == salts;
        if lost.is_none() {
            // The sum covers the page and the first two words of its header. The salts are compared
            // instead, and the other two words are the sum.
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER_LEN..]);
            let told = (
                u32::from_be_bytes(read_word(&frame, 4)),
                u32::from_be_bytes(read_word(&frame, 5)),
            );
            // Other salts are no damage by themselves: behind the present frames stand those from
            // before the log began anew. They are never `is_ours`, so they count as no lost commit.
            if !is_ours || (sum.s0, sum.s1) != told {
                lost = Some(LostCommits { byte: at, commits: 0 });
            }
        }
        // A commit frame has the size of the database; other frames have zero there.
        let is_commit = is_ours && read_word(&frame, 1) != [0; 4];
        if let Some(lost) = &mut lost {
            lost.commits += u64::from(is_commit);
        }
        at += frame.len() as u64;
    }
    Ok(lost.filter(|lost| lost.commits > 0))
}

/// The cumulative checksum of a WAL.
struct WalChecksum {
    big: bool,
    s0: u32,
    s1: u32,
}

impl WalChecksum {
    fn add(&mut self, bytes: &[u8]) {
        let read = if self.big { u32::from_be_bytes } else { u32::from_le_bytes };
        for pair in bytes.chunks_exact(8) {
            self.s0 = self.s0.wrapping_add(read(read_word(pair, 0))).wrapping_add(self.s1);
            self.s1 = self.s1.wrapping_add(read(read_word(pair, 1))).wrapping_add(self.s0);
        }
    }
}

/// Returns the `at`-th group of four bytes.
fn read_word(bytes: &[u8], at: usize) -> [u8; 4] {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[4 * at..4 * at + 4]);
    word
}
