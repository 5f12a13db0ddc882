//! One client of the server: its stream, its unfinished input line and its outbox.

use std::io::{self, ErrorKind, Read};

use mio::net::UnixStream;

use crate::outbox::{FlushOutcome, Outbox};
use crate::scan::Scanner;
use crate::socket::Peer;
use crate::tape::Tape;

pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    /// Counts up from 1. It wraps around only after four billion connections.
    pub(crate) id: u32,
    pub(crate) peer: Peer,
    /// The name that the client gave itself in a subscription.
    pub(crate) name: Option<String>,
    pub(crate) since_ms: u64,
    pub(crate) scanner: Scanner,
    /// The beginning of a line until its newline arrives.
    pub(crate) partial: Vec<u8>,
    pub(crate) outbox: Outbox,
    pub(crate) received: u64,
    pub(crate) stalled_ms: Option<u64>,
    pub(crate) noticed_ms: Option<u64>,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Whether the poll reports when the stream becomes writable.
    pub(crate) is_watched: bool,
    /// A write failed. The server sends nothing more to it, and still reads what it sends.
    pub(crate) is_deaf: bool,
    /// The server has ended the input. What was sent before is still read.
    pub(crate) is_dismissed: bool,
    /// All input has been read.
    pub(crate) is_ended: bool,
}

/// What one read returned.
pub(crate) enum ReadOutcome {
    Bytes(usize),
    /// No input for now.
    WouldBlock,
    /// The client closed its writing side.
    End,
}

impl Connection {
    pub(crate) fn new(
        stream: UnixStream,
        id: u32,
        peer: Peer,
        end: u64,
        now_ms: u64,
    ) -> Connection {
        Connection {
            stream,
            id,
            peer,
            name: None,
            since_ms: now_ms,
            scanner: Scanner::new(),
            partial: Vec::new(),
            outbox: Outbox::new(id, end),
            received: 0,
            stalled_ms: None,
            noticed_ms: None,
            is_readable: true,
            is_writable: true,
            is_watched: false,
            is_deaf: false,
            is_dismissed: false,
            is_ended: false,
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return ReadOutcome::End,
                Ok(count) => return ReadOutcome::Bytes(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return ReadOutcome::WouldBlock;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset ends the input; the bytes before it were returned by earlier reads.
                Err(_) => return ReadOutcome::End,
            }
        }
    }

    /// Writes as much as the client takes. A client with a failed write is deaf, and still read.
    pub(crate) fn write(&mut self, tape: &Tape, now_ms: u64) -> FlushOutcome {
        let Connection { stream, outbox, .. } = self;
        let flushed: io::Result<FlushOutcome> = outbox.flush(stream, tape, now_ms);
        match flushed {
            Ok(flushed) => flushed,
            Err(_) => {
                self.is_deaf = true;
                FlushOutcome::Drained
            }
        }
    }

    /// Returns whether there is output that the client may still take. A client in the middle of a
    /// replay is not waited for; it resumes at the next server.
    pub(crate) fn awaits_output(&self, tape: &Tape) -> bool {
        !self.is_deaf && !self.outbox.is_reading() && !self.outbox.is_drained(tape)
    }

    /// Returns the word for the client's state in `stats`.
    pub(crate) fn state(&self, tape: &Tape) -> &'static str {
        // The order is the precedence: a deaf client may be stalled as well.
        match () {
            () if self.is_deaf => "deaf",
            () if self.outbox.is_stalled() => "stalled",
            () if self.outbox.is_reading() => "catching_up",
            () if self.outbox.is_drained(tape) => "current",
            () => "behind",
        }
    }
}
