//! Where hooks hand over their calls: a socket, and the calls that wait to be heard.
//!
//! A call is taken as soon as it is held here and written down, so that it outlives this daemon;
//! whoever brought it does not wait for more. One that finds no room is not taken, and goes to the
//! spool.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{BindError, Socket};
use capture::{StopFlag, Waker};
use wire::hook::{CALL_BYTES_MAX, HookCall, TAKEN};

use crate::hook_log::HookLog;

/// Calls that wait, and their bytes. With more none is taken until some are heard.
const CALLS_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long nobody is let in after that has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How long whoever connects may take to say what it came for.
const SAID_WITHIN: Duration = Duration::from_millis(200);

/// Calls that wait to be heard. Clones are the same.
#[derive(Clone, Default)]
pub struct HookQueue {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<(HookCall, usize)>,
    bytes: usize,
    /// Where they are written down; nowhere for one who has no daemon.
    hook_log: Option<HookLog>,
    /// Wakes whoever hears them.
    ringer: Option<Waker>,
    /// Whoever hears them was woken for what waits.
    is_rung: bool,
}

impl HookQueue {
    /// One that writes calls down in this folder. What was written there and not heard waits again.
    pub fn open(folder: &Path) -> io::Result<HookQueue> {
        let (hook_log, calls) = HookLog::open(folder)?;
        let calls: VecDeque<(HookCall, usize)> = calls.into_iter().map(weighed).collect();
        let bytes = calls.iter().map(|(_, bytes)| bytes).sum();
        let hook_log = Some(hook_log);
        let waiting = Waiting { calls, bytes, hook_log, ringer: None, is_rung: false };
        Ok(HookQueue { waiting: Arc::new(Mutex::new(waiting)) })
    }

    /// Everything that waits, in the order it came. It stays written down until it is `heard`.
    pub fn take(&self) -> Vec<HookCall> {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        waiting.is_rung = false;
        let calls: Vec<HookCall> = waiting.calls.drain(..).map(|(call, _)| call).collect();
        if let Some(hook_log) = waiting.hook_log.as_mut().filter(|_| !calls.is_empty()) {
            hook_log.turn();
        }
        calls
    }

    /// What was taken is recorded, or lies elsewhere, but for these: they wait again, before what
    /// has come meanwhile, and stay written down. Room is found for them whatever else waits.
    pub fn heard(&self, but: Vec<HookCall>) {
        let mut waiting = self.lock();
        if but.is_empty() {
            if let Some(hook_log) = &mut waiting.hook_log {
                hook_log.cross_out();
            }
            return;
        }
        for (call, bytes) in but.into_iter().rev().map(weighed) {
            waiting.bytes += bytes;
            waiting.calls.push_front((call, bytes));
        }
    }

    /// From now on this wakes whoever hears calls.
    pub fn wake_with(&self, ringer: Waker) {
        let mut waiting = self.lock();
        waiting.is_rung = !waiting.calls.is_empty();
        if waiting.is_rung {
            ringer.wake();
        }
        waiting.ringer = Some(ringer);
    }

    /// Holds a call that came another way, if there is room.
    pub fn offer(&self, call: HookCall) -> bool {
        let line = call.encode();
        self.put(call, &line)
    }

    /// Holds a call, if there is room.
    fn put(&self, call: HookCall, line: &[u8]) -> bool {
        let bytes = line.len();
        let mut waiting = self.lock();
        if waiting.calls.len() >= CALLS_MAX || waiting.bytes + bytes > BYTES_MAX {
            return false;
        }
        if let Some(hook_log) = &mut waiting.hook_log {
            // On a full disk it is held all the same: nobody else could keep it either.
            let _ = hook_log.write(line);
        }
        waiting.bytes += bytes;
        waiting.calls.push_back((call, bytes));
        let is_rung = std::mem::replace(&mut waiting.is_rung, true);
        if let Some(ringer) = waiting.ringer.as_ref().filter(|_| !is_rung) {
            ringer.wake();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call and its bytes.
fn weighed(call: HookCall) -> (HookCall, usize) {
    let bytes = call.encode().len();
    (call, bytes)
}

/// The door: a thread that takes calls until it is told to stop.
pub struct HookListener {
    stop: StopFlag,
    /// It is told to stop by the end of this.
    end: UnixStream,
    thread: JoinHandle<()>,
}

impl HookListener {
    pub fn open(path: &Path, hook_queue: HookQueue) -> Result<HookListener, BindError> {
        let socket = Socket::bind(path)?;
        let failed = |source| BindError::Io { path: path.to_owned(), source };
        let (end, ended) = UnixStream::pair().map_err(failed)?;
        let stop = StopFlag::default();
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("hooks".to_owned());
        let thread = thread.spawn(move || answer(&socket, &hook_queue, &asked, &ended));
        Ok(HookListener { stop, end, thread: thread.map_err(failed)? })
    }

    /// Takes no more calls.
    pub fn close(self) {
        self.stop.ask();
        drop(self.end);
        // One that panicked takes no more calls either.
        let _ = self.thread.join();
    }
}

/// Takes calls, one at a time: each is there at once, or not at all.
fn answer(socket: &Socket, hook_queue: &HookQueue, stop: &StopFlag, ended: &UnixStream) {
    while !stop.is_asked() {
        match socket.accept(ended) {
            Ok(Some(mut stream)) => {
                // Whoever does not speak, or goes, has another way.
                let _ = take_call(&mut stream, hook_queue);
            }
            // Somebody else's, who has no business here; or nobody's.
            Ok(None) => {}
            // There may be room again for whoever comes next.
            Err(_) => std::thread::park_timeout(ACCEPT_AGAIN),
        }
    }
}

fn take_call(stream: &mut UnixStream, hook_queue: &HookQueue) -> io::Result<()> {
    stream.set_read_timeout(Some(SAID_WITHIN))?;
    stream.set_write_timeout(Some(SAID_WITHIN))?;
    let mut line = Vec::new();
    let count = stream.take(CALL_BYTES_MAX as u64 + 1).read_to_end(&mut line)?;
    if count > CALL_BYTES_MAX {
        return Ok(());
    }
    if line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    match HookCall::parse(&line).is_some_and(|call| hook_queue.put(call, &line)) {
        true => stream.write_all(&[TAKEN]),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_door_closes_though_somebody_else_answers_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hooks.sock");
        let door = HookListener::open(&path, HookQueue::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        door.close();
        assert!(path.exists(), "it is not ours");
    }
}
