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

use crate::daybook::Daybook;

/// Calls that wait, and their bytes. With more none is taken until some are heard.
const CALLS_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long nobody is let in after that has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How long whoever connects may take to say what it came for.
const SAID_WITHIN: Duration = Duration::from_millis(200);

/// Calls that wait to be heard. Clones are the same.
#[derive(Clone, Default)]
pub struct Intake {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<(HookCall, usize)>,
    bytes: usize,
    /// Where they are written down; nowhere for one who has no daemon.
    daybook: Option<Daybook>,
    /// Wakes whoever hears them.
    ringer: Option<Waker>,
    /// Whoever hears them was woken for what waits.
    is_rung: bool,
}

impl Intake {
    /// One that writes calls down in this folder. What was written there and not heard waits again.
    pub fn with_daybook(folder: &Path) -> io::Result<Intake> {
        let (daybook, calls) = Daybook::open(folder)?;
        let calls: VecDeque<(HookCall, usize)> = calls.into_iter().map(weighed).collect();
        let bytes = calls.iter().map(|(_, bytes)| bytes).sum();
        let daybook = Some(daybook);
        let waiting = Waiting { calls, bytes, daybook, ringer: None, is_rung: false };
        Ok(Intake { waiting: Arc::new(Mutex::new(waiting)) })
    }

    /// Everything that waits, in the order it came. It stays written down until it is `heard`.
    pub fn take(&self) -> Vec<HookCall> {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        waiting.is_rung = false;
        let calls: Vec<HookCall> = waiting.calls.drain(..).map(|(call, _)| call).collect();
        if let Some(daybook) = waiting.daybook.as_mut().filter(|_| !calls.is_empty()) {
            daybook.turn();
        }
        calls
    }

    /// What was taken is recorded, or lies elsewhere, but for these: they wait again, before what
    /// has come meanwhile, and stay written down. Room is found for them whatever else waits.
    pub fn heard(&self, but: Vec<HookCall>) {
        let mut waiting = self.lock();
        if but.is_empty() {
            if let Some(daybook) = &mut waiting.daybook {
                daybook.cross_out();
            }
            return;
        }
        for (call, bytes) in but.into_iter().rev().map(weighed) {
            waiting.bytes += bytes;
            waiting.calls.push_front((call, bytes));
        }
    }

    /// From now on this wakes whoever hears calls.
    pub fn ring_with(&self, ringer: Waker) {
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
        if let Some(daybook) = &mut waiting.daybook {
            // On a full disk it is held all the same: nobody else could keep it either.
            let _ = daybook.write(line);
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
pub struct Door {
    stop: StopFlag,
    /// It is told to stop by the end of this.
    end: UnixStream,
    thread: JoinHandle<()>,
}

impl Door {
    pub fn open(path: &Path, intake: Intake) -> Result<Door, BindError> {
        let socket = Socket::bind(path)?;
        let failed = |source| BindError::Io { path: path.to_owned(), source };
        let (end, ended) = UnixStream::pair().map_err(failed)?;
        let stop = StopFlag::default();
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("hooks".to_owned());
        let thread = thread.spawn(move || answer(&socket, &intake, &asked, &ended));
        Ok(Door { stop, end, thread: thread.map_err(failed)? })
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
fn answer(socket: &Socket, intake: &Intake, stop: &StopFlag, ended: &UnixStream) {
    while !stop.is_asked() {
        match socket.accept(ended) {
            Ok(Some(mut stream)) => {
                // Whoever does not speak, or goes, has another way.
                let _ = take_call(&mut stream, intake);
            }
            // Somebody else's, who has no business here; or nobody's.
            Ok(None) => {}
            // There may be room again for whoever comes next.
            Err(_) => std::thread::park_timeout(ACCEPT_AGAIN),
        }
    }
}

fn take_call(stream: &mut UnixStream, intake: &Intake) -> io::Result<()> {
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
    match HookCall::parse(&line).is_some_and(|call| intake.put(call, &line)) {
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
        let door = Door::open(&path, Intake::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        door.close();
        assert!(path.exists(), "it is not ours");
    }
}
