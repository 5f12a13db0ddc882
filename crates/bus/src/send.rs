//! Sends one message or a few over a connection of their own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::socket::connect_path;

/// How long the server may take to confirm that it has read everything.
const RECEIPT: Duration = Duration::from_secs(2);

/// What became of a one-shot message.
#[derive(Debug)]
pub enum SendOutcome {
    /// The server has read all of it.
    Delivered,
    /// It was written, and the server did not confirm it in time.
    Written,
    /// It was not written, or the server hung up before it read it.
    NotSent(io::Error),
}

/// Sends messages and waits until the server has read them. It works with any Callosum server,
/// because the end of the connection is the receipt.
pub fn send(path: &Path, messages: &[Message]) -> SendOutcome {
    send_within(path, messages, RECEIPT)
}

/// Sends like [`send`], with another limit for the receipt.
pub fn send_within(path: &Path, messages: &[Message], limit: Duration) -> SendOutcome {
    let mut stream = match UnixStream::connect(connect_path(path)) {
        Ok(stream) => stream,
        Err(error) => return SendOutcome::NotSent(error),
    };
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend_from_slice(message.line());
        bytes.push(b'\n');
    }
    // The end of our output makes the server hang up once it has read everything.
    let written = stream
        .set_write_timeout(Some(RECEIPT))
        .and_then(|()| stream.write_all(&bytes))
        .and_then(|()| stream.shutdown(Shutdown::Write));
    if let Err(error) = written {
        return SendOutcome::NotSent(error);
    }
    drain(&mut stream, limit)
}

/// Discards what the bus relays until it hangs up.
fn drain(stream: &mut UnixStream, limit: Duration) -> SendOutcome {
    let until = Instant::now() + limit;
    let mut ignored = [0; 16 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return SendOutcome::Written;
        }
        match stream.read(&mut ignored) {
            Ok(0) => return SendOutcome::Delivered,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => return SendOutcome::Written,
            // A connection that was closed with unread input reports a reset.
            Err(error) => return SendOutcome::NotSent(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
