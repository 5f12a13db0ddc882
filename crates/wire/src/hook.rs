//! One hook call: one message to the daemon, and its acknowledgement.
//!
//! A client connects, writes one line and reads one byte as soon as the daemon holds the call. It
//! never waits for a commit and never longer than its own limit. Without a daemon the same message
//! waits in the spool, so a call has one form and one name everywhere.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use event::{Kind, Raw, Source, Time};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketType};
use serde::{Deserialize, Serialize};

/// The version of a call. A call of another version is left untouched.
pub const VERSION: u32 = 1;

/// The maximum length of a call in bytes. A longer one is not a call.
pub const CALL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The acknowledgement of the daemon.
pub const TAKEN: u8 = b'+';

/// One call of a hook by an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookCall {
    pub v: u32,
    /// A unique name: the time of the call and random digits.
    pub name: String,
    pub provider: String,
    /// The agent's name for the hook event.
    pub event: String,
    /// The provider's id of the session.
    pub session: String,
    pub at: Time,
    /// The channel that the call came through.
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

/// A fact from the call, as the kind and payload of an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookFact {
    pub kind: Kind,
    pub data: Raw,
}

impl HookCall {
    /// Encodes the call as one line with its line break.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("names, texts and numbers always encode");
        line.push(b'\n');
        line
    }

    /// Parses a call; `None` for any other text or another version.
    pub fn parse(line: &[u8]) -> Option<HookCall> {
        serde_json::from_slice(line).ok().filter(|call: &HookCall| call.v == VERSION)
    }
}

/// Returns the socket at which the daemon of a journal takes calls.
pub fn socket(journal: &Path) -> PathBuf {
    crate::health_dir(journal).join("hook.sock")
}

/// Hands one call to the daemon; returns whether the daemon holds it now.
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

/// Connects without blocking: if the queue of the socket is full, the daemon is stuck and waiting
/// would not help.
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
