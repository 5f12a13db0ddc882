//! One message, or a few, and gone.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::message::Message;

/// How long the server may take to say that it has read everything.
const RECEIPT: Duration = Duration::from_secs(2);

/// How a one-shot message fared.
#[derive(Debug)]
pub enum Sent {
    /// The server has read all of it.
    Taken,
    /// It was written, and the server did not say in time that it has read it.
    Written,
    /// It was not written, or the server hung up without having read it.
    NotSent(io::Error),
}

/// Sends messages over a connection of their own and waits for the server to take them. Works
/// with any server: the end of the connection is the receipt.
pub fn send(path: &Path, messages: &[Message]) -> Sent {
    send_within(path, messages, RECEIPT)
}

/// The same for one who waits longer or shorter for the receipt.
pub fn send_within(path: &Path, messages: &[Message], limit: Duration) -> Sent {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) => return Sent::NotSent(error),
    };
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend_from_slice(message.line());
        bytes.push(b'\n');
    }
    let written = stream
        .set_write_timeout(Some(RECEIPT))
        .and_then(|()| stream.write_all(&bytes))
        .and_then(|()| stream.shutdown(Shutdown::Write));
    if let Err(error) = written {
        return Sent::NotSent(error);
    }
    drain(&mut stream, limit)
}

/// Reads what the bus tells everybody until it hangs up.
fn drain(stream: &mut UnixStream, limit: Duration) -> Sent {
    let until = Instant::now() + limit;
    let mut ignored = [0; 16 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Sent::Written;
        }
        match stream.read(&mut ignored) {
            Ok(0) => return Sent::Taken,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => return Sent::Written,
            // The system says so of a connection that was closed before its input was read.
            Err(error) => return Sent::NotSent(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
