//! A file of lines of which one may be as long as the disk: reading such a line ends with a stop.

use std::fs::File;
use std::io::{self, Read};

use crate::database_guard::{Look, LookError};
use crate::limit::RECORD_BYTES_MAX;
use crate::stop_flag::StopFlag;

pub(crate) struct Stoppable {
    file: File,
    /// Bytes since the last line end.
    open: u64,
    stop: StopFlag,
}

impl Stoppable {
    pub(crate) fn new(file: File, look: &Look<'_>) -> Stoppable {
        Stoppable { file, open: 0, stop: look.stop.clone() }
    }
}

impl Read for Stoppable {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // Lines that are recorded are read to their end: the caller asks for a stop between them.
        if self.open > RECORD_BYTES_MAX as u64 && self.stop.is_asked() {
            return Err(LookError::Stopped.into());
        }
        let read = self.file.read(bytes)?;
        self.open = match memchr::memrchr(b'\n', &bytes[..read]) {
            Some(end) => (read - end - 1) as u64,
            None => self.open + read as u64,
        };
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database_guard::DatabaseGuard;
    use crate::line_reader::LineReader;
    use crate::record_reader::RecordReader;

    #[test]
    fn endless_line_ends_with_a_stop() {
        let (guard, stop) = (DatabaseGuard::default(), StopFlag::default());
        let look = Look { guard: &guard, stop: &stop, now: event::Time::EPOCH };
        let zeros = File::open("/dev/zero").unwrap();
        let mut lines = LineReader::new(Stoppable::new(zeros, &look), 0);
        let asked = stop.clone();
        let reading = std::thread::spawn(move || {
            let read = lines.next(&mut Vec::new()).map(drop);
            LookError::find_in(&read.unwrap_err()).cloned()
        });
        asked.request_stop();
        assert_eq!(reading.join().unwrap(), Some(LookError::Stopped));
    }
}
