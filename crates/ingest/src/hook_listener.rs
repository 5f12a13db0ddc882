//! The socket on which hooks hand over their messages, and the thread that answers there.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{BindError, Socket};
use capture::StopFlag;
use event::HookMessage;
use wire::hook::TAKEN;

use crate::hook_queue::HookQueue;

/// The pause after a failed accept, for instance for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long one client may take to send its message. A hook waits 50 ms for the answer, so a slower
/// client has given up already.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(200);

/// A thread that takes messages until it is closed.
pub struct HookListener {
    stop: StopFlag,
    /// Closing it ends the wait for the next client.
    wake: UnixStream,
    thread: JoinHandle<()>,
}

impl HookListener {
    pub fn open(path: &Path, queue: HookQueue) -> Result<HookListener, BindError> {
        let socket = Socket::bind(path)?;
        let failed = |source| BindError::Io { path: path.to_owned(), source };
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let stop = StopFlag::default();
        let is_stopped = stop.clone();
        let thread = std::thread::Builder::new().name("hooks".to_owned());
        let thread = thread.spawn(move || accept_all(&socket, &queue, &is_stopped, &woken));
        Ok(HookListener { stop, wake, thread: thread.map_err(failed)? })
    }

    /// Stops taking messages, and waits for the thread to end.
    pub fn close(self) {
        self.stop.request_stop();
        // The stop is asked before the wait ends, so the thread does not wait again.
        drop(self.wake);
        // A thread that panicked takes no more messages either.
        let _ = self.thread.join();
    }
}

/// Serves one client after another. A hook sends its whole message at once, so no client holds up
/// the next for long.
fn accept_all(socket: &Socket, queue: &HookQueue, stop: &StopFlag, woken: &UnixStream) {
    while !stop.is_asked() {
        match socket.accept(woken) {
            Ok(Some(mut stream)) => {
                // A client that fails here stores its message in the spool.
                let _ = take_message(&mut stream, queue);
            }
            // A client of another user, or the end of the wait.
            Ok(None) => {}
            Err(_) => std::thread::park_timeout(ACCEPT_RETRY),
        }
    }
}

fn take_message(stream: &mut UnixStream, queue: &HookQueue) -> io::Result<()> {
    // One client after another is served, so one that hangs must not hold up the rest.
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = Vec::new();
    // One byte more than allowed tells a message that is too long from one that just fits.
    let count = stream.take(HookMessage::BYTES_MAX as u64 + 1).read_to_end(&mut line)?;
    if count > HookMessage::BYTES_MAX {
        // Without an answer the hook stores its message itself, and counts what it has to drop.
        return Ok(());
    }
    // The log is read by lines.
    if line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    // Acknowledged only once it is in the queue and in its log.
    match HookMessage::parse(&line).is_some_and(|message| queue.push_line(message, &line)) {
        true => stream.write_all(&[TAKEN]),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn closing_leaves_the_socket_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hooks.sock");
        let listener = HookListener::open(&path, HookQueue::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        listener.close();
        assert!(path.exists(), "the other socket stays");
    }
}
