//! How a hook hands its message to the daemon.
//!
//! The hook connects, writes the message as one line and reads one byte, which the daemon sends as
//! soon as it holds the message. The hook never waits for a commit, and never longer than its limit.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use event::HookMessage;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketType};

/// The byte that the daemon sends when it holds a message.
pub const TAKEN: u8 = b'+';

/// The socket on which the daemon of a journal takes messages.
pub fn hook_socket(journal: &Path) -> PathBuf {
    crate::health_dir(journal).join("hook.sock")
}

/// Sends one message; whether the daemon holds it now.
pub fn send_message(socket: &Path, message: &HookMessage, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    exchange(socket, &message.encode(), deadline).unwrap_or(false)
}

fn exchange(socket: &Path, line: &[u8], deadline: Instant) -> io::Result<bool> {
    let stream = connect(socket)?;
    let mut sent = 0;
    while sent < line.len() {
        // Without `NOSIGNAL` a daemon that closes the socket would kill the hook.
        match rustix::net::send(&stream, &line[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN) => wait_ready(&stream, PollFlags::OUT, deadline)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::net::shutdown(&stream, Shutdown::Write)?;
    let mut answer = [0];
    loop {
        match rustix::io::read(&stream, &mut answer) {
            Ok(count) => return Ok(count == 1 && answer[0] == TAKEN),
            Err(Errno::AGAIN) => wait_ready(&stream, PollFlags::IN, deadline)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects without blocking: a full backlog means that the daemon hangs, and is an error at once.
fn connect(socket: &Path) -> io::Result<OwnedFd> {
    let address = match SocketAddrUnix::new(socket) {
        Ok(address) => address,
        // Too long for the system: the daemon has put a link to a short path there.
        Err(_) => SocketAddrUnix::new(std::fs::read_link(socket)?)?,
    };
    let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&stream, true)?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

fn wait_ready(stream: &OwnedFd, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
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
