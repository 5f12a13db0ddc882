//! The output of one process: into its log first, then onto the bus.
//!
//! A thread per stream reads to the end. Once the end of the run is published, further output goes
//! only to the log file.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::Handle;

use crate::announce::{LineMaker, RunLabel};
use crate::line_splitter::{LinePiece, LineSplitter};
use crate::log_file::LogFile;

/// Bytes of one read.
const READ_MAX: usize = 64 << 10;

/// The destination of a process's output, shared by its streams.
#[derive(Clone)]
pub(crate) struct OutputSink {
    shared: Arc<Mutex<OutputState>>,
}

/// What came so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OutputCounts {
    pub lines: u64,
    pub bytes: u64,
    pub unwritten: u64,
    pub unpublished: u64,
}

struct OutputState {
    log: LogFile,
    bus: Handle,
    is_published: bool,
    lines: u64,
    bytes: u64,
    unpublished: u64,
}

impl OutputSink {
    pub(crate) fn new(log: LogFile, bus: Handle) -> OutputSink {
        let shared =
            OutputState { log, bus, is_published: true, lines: 0, bytes: 0, unpublished: 0 };
        OutputSink { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Reads a stream to its end.
    pub(crate) fn drain(&self, mut pipe: impl Read + AsFd, label: &RunLabel, stream: &'static str) {
        let maker = LineMaker::new(label, stream);
        let mut lines = LineSplitter::default();
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
            lines.feed(&buffer[..count], |piece| shared.take_piece(piece, &maker, stream));
            // Flush when the program pauses, so that the file is current for its readers.
            if rustix::io::ioctl_fionread(&pipe).map_or(true, |waiting| waiting == 0) {
                shared.log.flush();
            }
        }
        let mut shared = self.lock();
        lines.finish(|piece| shared.take_piece(piece, &maker, stream));
        shared.log.flush();
    }

    /// Adds a text of our own.
    pub(crate) fn add_text(&self, maker: &LineMaker, stream: &str, text: &str) {
        let mut shared = self.lock();
        for line in text.lines() {
            let piece = LinePiece { bytes: line.as_bytes(), part: None, is_last: true };
            shared.take_piece(piece, maker, stream);
        }
        shared.log.flush();
    }

    /// Stops publishing; returns the counts so far.
    pub(crate) fn stop_publishing(&self) -> OutputCounts {
        let mut shared = self.lock();
        shared.is_published = false;
        shared.log.flush();
        shared.counts()
    }

    /// Returns why the log cannot be written, if so.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock().log.last_error().map(str::to_owned)
    }

    fn lock(&self) -> MutexGuard<'_, OutputState> {
        // No code panics while holding the lock, and the state would still be whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputState {
    fn take_piece(&mut self, piece: LinePiece<'_>, maker: &LineMaker, stream: &str) {
        let is_rest = piece.part.is_some_and(|part| part > 1);
        // The file first: the bus may drop lines, and the file is what is left then.
        self.log.write_line(stream, is_rest, piece.bytes);
        self.lines += u64::from(piece.is_last);
        // Most output has no reader on the bus. Not building its messages saves most of the work.
        if self.is_published && self.bus.wants_log_lines() {
            let message = maker.line(piece.bytes, piece.part);
            // The file has the line; the count in `logs.exit` shows that the bus has not.
            if message.is_none_or(|message| self.bus.publish(message).is_err()) {
                self.unpublished += 1;
            }
        }
    }

    fn counts(&self) -> OutputCounts {
        OutputCounts {
            lines: self.lines,
            bytes: self.bytes,
            unwritten: self.log.unwritten,
            unpublished: self.unpublished,
        }
    }
}
