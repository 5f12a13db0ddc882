//! One call of a hook: one message to the daemon, and the word that it was taken.
//!
//! A client connects, writes one line and hears one byte as soon as the daemon holds the call; it
//! never waits for a commit, and never longer than it wants to. The same message is what waits in
//! the spool when nobody takes it, so that a call has one form and one name wherever it lies.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use event::{Kind, Raw, Source, Time};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketType};
use serde::{Deserialize, Serialize};

/// The shape of a call. One of another shape is left alone.
pub const VERSION: u32 = 1;

/// Bytes of one call. A longer one is no call.
pub const CALL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the daemon says when it holds a call.
pub const TAKEN: u8 = b'+';

/// What a hook was told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookCall {
    pub v: u32,
    /// Tells it from all others: when it came, and some dice.
    pub name: String,
    pub provider: String,
    /// The agent's word for what happened.
    pub event: String,
    /// The provider's id of the session.
    pub session: String,
    pub at: Time,
    /// Who says so.
    #[serde(default = "hook", skip_serializing_if = "is_hook")]
    pub source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The type of the signal it gives: `compact`, `stop`, `clear` or `turn_end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<HookFact>,
}

fn hook() -> Source {
    Source::Hook
}

fn is_hook(source: &Source) -> bool {
    *source == Source::Hook
}

/// Something that happened, in the words of the journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookFact {
    pub kind: Kind,
    pub data: Raw,
}

impl HookCall {
    /// The call as one line, with its end.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("names, texts and numbers always encode");
        line.push(b'\n');
        line
    }

    /// Reads a call; `None` for what is none, or of a shape nobody knows.
    pub fn parse(line: &[u8]) -> Option<HookCall> {
        serde_json::from_slice(line).ok().filter(|call: &HookCall| call.v == VERSION)
    }
}

/// Where the daemon of a journal takes calls.
pub fn socket(journal: &Path) -> PathBuf {
    crate::health_dir(journal).join("hook.sock")
}

/// Hands one call over; whether somebody holds it now.
pub fn hand_over(socket: &Path, call: &HookCall, within: Duration) -> bool {
    let until = Instant::now() + within;
    exchange(socket, &call.encode(), until).unwrap_or(false)
}

fn exchange(socket: &Path, line: &[u8], until: Instant) -> io::Result<bool> {
    let stream = connect(socket)?;
    let mut sent = 0;
    while sent < line.len() {
        match rustix::net::send(&stream, &line[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN) => wait(&stream, PollFlags::OUT, until)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::net::shutdown(&stream, Shutdown::Write)?;
    let mut answer = [0];
    loop {
        match rustix::io::read(&stream, &mut answer) {
            Ok(count) => return Ok(count == 1 && answer[0] == TAKEN),
            Err(Errno::AGAIN) => wait(&stream, PollFlags::IN, until)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects without waiting: where so many wait already, the daemon does not get to anything.
fn connect(socket: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(socket)?;
    let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&stream, true)?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

fn wait(stream: &OwnedFd, flags: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let left = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match rustix::event::poll(&mut [PollFd::new(stream, flags)], Some(&left)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
