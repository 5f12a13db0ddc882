//! What one process prints: into its log first, then onto the bus.
//!
//! A thread per stream reads to the end, however fast it comes and whatever it is. Nothing is said
//! on the bus any more once the end of the run was told; the file takes everything.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::Handle;

use crate::announce::{LineMaker, Who};
use crate::lines::{Lines, Piece};
use crate::log_file::LogFile;

/// Bytes read at a time.
const READ_MAX: usize = 64 << 10;

/// Where everything goes that a process prints.
#[derive(Clone)]
pub(crate) struct Output {
    shared: Arc<Mutex<Shared>>,
}

/// What has come so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub lines: u64,
    pub bytes: u64,
    pub unwritten: u64,
    pub untold: u64,
}

struct Shared {
    log: LogFile,
    bus: Handle,
    is_told: bool,
    lines: u64,
    bytes: u64,
    untold: u64,
}

impl Output {
    pub(crate) fn new(log: LogFile, bus: Handle) -> Output {
        let shared = Shared { log, bus, is_told: true, lines: 0, bytes: 0, untold: 0 };
        Output { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Reads a stream to its end.
    pub(crate) fn drain(&self, mut pipe: impl Read + AsFd, who: &Who, stream: &'static str) {
        let maker = LineMaker::new(who, stream);
        let mut lines = Lines::default();
        let mut buffer = vec![0; READ_MAX];
        loop {
            let count = match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut shared = self.lock();
            shared.bytes += count as u64;
            lines.feed(&buffer[..count], |piece| shared.take(piece, &maker, stream));
            // Whoever looks at the file sees everything as soon as the program pauses.
            if rustix::io::ioctl_fionread(&pipe).map_or(true, |waiting| waiting == 0) {
                shared.log.flush();
            }
        }
        let mut shared = self.lock();
        lines.end(|piece| shared.take(piece, &maker, stream));
        shared.log.flush();
    }

    /// One line of our own.
    pub(crate) fn say(&self, maker: &LineMaker, stream: &str, text: &str) {
        let mut shared = self.lock();
        for line in text.lines() {
            let piece = Piece { bytes: line.as_bytes(), part: None, is_last: true };
            shared.take(piece, maker, stream);
        }
        shared.log.flush();
    }

    /// From now on nothing of it goes onto the bus; what came so far.
    pub(crate) fn mute(&self) -> Counts {
        let mut shared = self.lock();
        shared.is_told = false;
        shared.log.flush();
        shared.counts()
    }

    /// Why the log cannot be written, if it is so.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock().log.trouble().map(str::to_owned)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nobody panics while holding it; if somebody did, what is there is still whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn take(&mut self, piece: Piece<'_>, maker: &LineMaker, stream: &str) {
        let is_rest = piece.part.is_some_and(|part| part > 1);
        self.log.line(stream, is_rest, piece.bytes);
        self.lines += u64::from(piece.is_last);
        if self.is_told && self.bus.wants_log_lines() {
            let message = maker.line(piece.bytes, piece.part);
            // The file has the line; whoever counts sees that it is missing here.
            if message.is_none_or(|message| self.bus.publish(message).is_err()) {
                self.untold += 1;
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            lines: self.lines,
            bytes: self.bytes,
            unwritten: self.log.unwritten,
            untold: self.untold,
        }
    }
}
