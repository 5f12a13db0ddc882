//! One client: its stream, the line it is in, and what it still has to be sent.

use std::io::{self, ErrorKind, Read};

use mio::net::UnixStream;

use crate::outbox::{Flushed, Outbox};
use crate::scan::Scanner;
use crate::socket::Peer;
use crate::tape::Tape;

pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    /// Rises from 1; never used again.
    pub(crate) id: u32,
    pub(crate) peer: Peer,
    /// What it calls itself.
    pub(crate) name: Option<String>,
    pub(crate) since_ms: u64,
    pub(crate) scanner: Scanner,
    /// The beginning of a line whose end has not come yet.
    pub(crate) partial: Vec<u8>,
    pub(crate) outbox: Outbox,
    pub(crate) received: u64,
    pub(crate) stalled_ms: Option<u64>,
    pub(crate) noticed_ms: Option<u64>,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Whether we asked to be told when it takes more.
    pub(crate) is_watched: bool,
    /// It takes nothing any more; what it still says is heard.
    pub(crate) is_deaf: bool,
    pub(crate) is_ended: bool,
}

/// What a turn of reading gave.
pub(crate) enum Heard {
    Bytes(usize),
    /// Nothing for now.
    Silence,
    /// It says no more.
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
            is_ended: false,
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Heard {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Heard::End,
                Ok(count) => return Heard::Bytes(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Silence,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What came before a reset has been read by now.
                Err(_) => return Heard::End,
            }
        }
    }

    /// Gives it what it takes. One that cannot be written to is deaf, and is still heard.
    pub(crate) fn write(&mut self, tape: &Tape, now_ms: u64) -> Flushed {
        let Connection { stream, outbox, .. } = self;
        let flushed: io::Result<Flushed> = outbox.flush(stream, tape, now_ms);
        match flushed {
            Ok(flushed) => flushed,
            Err(_) => {
                self.is_deaf = true;
                Flushed::All
            }
        }
    }

    /// The word for how it does.
    pub(crate) fn state(&self, tape: &Tape) -> &'static str {
        match () {
            () if self.is_deaf => "deaf",
            () if self.outbox.is_stalled() => "stalled",
            () if self.outbox.is_reading() => "catching_up",
            () if self.outbox.has_nothing(tape) => "current",
            () => "behind",
        }
    }
}
