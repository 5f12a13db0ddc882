//! The text of a compressed source, as far as it may grow and as long as a look may last.
//!
//! A few bytes of zstd can unpack to any amount. An agent's transcripts shrink to a tenth or a
//! hundredth, so a file that unpacks to much more is not one of them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::time::{Duration, Instant};

use crate::database_guard::{Look, LookError};
use crate::limit::{PACKED_RATIO_MAX, PACKED_SMALL_MAX};
use crate::stop_flag::StopFlag;

pub(crate) struct PackedText {
    plain: zstd::Decoder<'static, BufReader<File>>,
    /// Bytes that may still come.
    left: u64,
    /// How long unpacking has taken since the last line end. Neither the time that recording takes
    /// counts, nor that of a long text which has lines: what was read of it stays.
    spent: Duration,
    time_max: Duration,
    stop: StopFlag,
}

impl PackedText {
    /// Opens a source of `size` bytes at the place `offset` of its text. A zstd stream can be
    /// entered only at its start: the text before is unpacked and dropped.
    pub(crate) fn open(
        file: File,
        size: u64,
        offset: u64,
        look: &Look<'_>,
    ) -> io::Result<PackedText> {
        let mut text = PackedText {
            plain: zstd::Decoder::new(file)?,
            left: size.saturating_mul(PACKED_RATIO_MAX).max(PACKED_SMALL_MAX),
            spent: Duration::ZERO,
            time_max: look.limit().time_max,
            stop: look.stop.clone(),
        };
        io::copy(&mut text.by_ref().take(offset), &mut io::sink())?;
        Ok(text)
    }
}

impl Read for PackedText {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_asked() {
            return Err(LookError::Stopped.into());
        }
        if self.spent > self.time_max {
            return Err(LookError::Overran.into());
        }
        // One byte more than allowed shows that the text is too long.
        let most = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX);
        let most = bytes.len().min(most);
        let begun = Instant::now();
        let read = self.plain.read(&mut bytes[..most])?;
        self.spent = match memchr::memchr(b'\n', &bytes[..read]) {
            Some(_) => Duration::ZERO,
            None => self.spent + begun.elapsed(),
        };
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(LookError::Unpacked.into()),
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database_guard::{DatabaseGuard, QueryLimit};

    fn unpack(plain: &[u8], limit: QueryLimit, stop: &StopFlag) -> Result<usize, LookError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl.zst");
        let packed = zstd::encode_all(plain, 1).unwrap();
        std::fs::write(&path, &packed).unwrap();
        let guard = DatabaseGuard::new(limit);
        let look = Look { guard: &guard, stop, now: event::Time::EPOCH };
        let size = packed.len() as u64;
        let text = PackedText::open(File::open(&path).unwrap(), size, 0, &look).unwrap();
        let read = io::copy(&mut { text }, &mut io::sink());
        read.map(|read| read as usize).map_err(|error| LookError::find_in(&error).unwrap().clone())
    }

    #[test]
    fn archive_of_zeros_is_not_unpacked() {
        let zeros = vec![0; PACKED_SMALL_MAX as usize + 1];
        let (limit, stop) = Default::default();
        assert_eq!(unpack(&zeros, limit, &stop), Err(LookError::Unpacked));
        assert_eq!(unpack(&zeros[1..], limit, &stop), Ok(PACKED_SMALL_MAX as usize));
    }

    #[test]
    fn unpacking_ends_with_its_time_or_a_stop() {
        let (limit, stop) = (QueryLimit::default(), StopFlag::default());
        let no_time = QueryLimit { time_max: Duration::ZERO, ..limit };
        let endless = vec![b'x'; 1024 * 1024];
        assert_eq!(unpack(&endless, no_time, &stop), Err(LookError::Overran));
        // However long a healthy text is, its lines come.
        let lines = b"{}\n".repeat(1024 * 1024);
        assert_eq!(unpack(&lines, no_time, &stop), Ok(lines.len()));
        stop.request_stop();
        assert_eq!(unpack(b"{}\n", limit, &stop), Err(LookError::Stopped));
    }
}
