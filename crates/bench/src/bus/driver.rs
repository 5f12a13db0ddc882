//! One publisher and many subscribers, the same for every server.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::os::fd::AsRawFd;

use crate::Outcome;

/// Bytes of a message, if nothing else is said.
pub(crate) const MESSAGE: usize = 200;
/// Messages of one write.
const BURST: usize = 32;
/// Bytes the publisher may be ahead of the slowest subscriber; of long messages, one.
const AHEAD: usize = 4_096 * MESSAGE;
/// How long a client waits: so long that only a bug reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Lines of so many bytes.
    Lines(usize),
    Redis,
}

pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// They are connected for as long as they are held.
    pub(crate) streams: Vec<UnixStream>,
}

/// Publishes messages and waits until every subscriber has all of them.
pub(crate) fn deliver_all(
    path: &Path,
    speech: Speech,
    subscribers: usize,
    messages: usize,
) -> Outcome<Took> {
    let mut streams = Vec::new();
    for _ in 0..subscribers {
        streams.push(subscriber(path, speech)?);
    }
    let mut publisher = UnixStream::connect(path)?;
    if speech != Speech::Redis {
        // It hears itself, and has to read it.
        streams.push(publisher.try_clone()?);
    } else {
        // Redis answers every `PUBLISH`. Unread answers would fill the socket and block the server.
        drain_replies(publisher.try_clone()?);
    }
    // All messages have the same length, so counting bytes counts messages.
    let unit = speech.delivered().len() as u64;
    let progress = Arc::new(Progress::default());
    let began = Instant::now();
    // One thread reads for all subscribers: a thread for each would measure the scheduler.
    let reader = std::thread::spawn({
        let progress = Arc::clone(&progress);
        move || {
            read_all(streams, messages as u64 * unit, unit, &progress).map_err(|e| e.to_string())
        }
    });
    let message = speech.published();
    let ahead = (AHEAD / message.len()).max(1);
    let burst = message.repeat(BURST.min(ahead));
    let mut sent = 0;
    while sent < messages {
        let count = BURST.min(ahead).min(messages - sent);
        // Waits before the write: a server that drops messages of slow clients must have no reason
        // to.
        progress.wait_for(sent as u64, ahead as u64)?;
        write_all(&mut publisher, &burst[..message.len() * count])?;
        sent += count;
    }
    let streams = reader.join().map_err(|_| "the reader has panicked")??;
    Ok(Took { wall: began.elapsed(), streams })
}

impl Speech {
    /// A message as it is written.
    fn published(self) -> Vec<u8> {
        match self {
            Speech::Lines(len) => message_line(len),
            Speech::Redis => {
                [b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$200\r\n", &message_line(MESSAGE)[..], b"\r\n"]
                    .concat()
            }
        }
    }

    /// A message as it arrives.
    fn delivered(self) -> Vec<u8> {
        match self {
            Speech::Lines(len) => message_line(len),
            Speech::Redis => {
                [b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$200\r\n", &message_line(MESSAGE)[..], b"\r\n"]
                    .concat()
            }
        }
    }
}

fn message_line(len: usize) -> Vec<u8> {
    // A valid message of the bus, padded to exactly `len` bytes with its line end.
    let head = r#"{"tract":"bench","event":"tick","ts":1700000000000,"text":""#;
    let text = "x".repeat(len - head.len() - "\"}\n".len());
    format!("{head}{text}\"}}\n").into_bytes()
}

fn subscriber(path: &Path, speech: Speech) -> Outcome<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    if speech == Speech::Redis {
        stream.write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n")?;
        let mut answer = [0; b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n".len()];
        stream.read_exact(&mut answer)?;
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Reads what a server answers to a publisher, until it ends.
fn drain_replies(mut stream: UnixStream) {
    std::thread::spawn(move || {
        let mut ignored = [0; 16 << 10];
        loop {
            match stream.read(&mut ignored) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                _ => return,
            }
        }
    });
}

fn write_all(stream: &mut UnixStream, mut bytes: &[u8]) -> Outcome<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// How many messages the slowest subscriber has.
#[derive(Default)]
struct Progress {
    slowest: AtomicU64,
    lock: Mutex<()>,
    news: Condvar,
}

impl Progress {
    fn note_slowest(&self, slowest: u64) {
        self.slowest.store(slowest, Ordering::Release);
        // The lock orders this notification after the check in `wait_for`: without it the
        // notification could fall between the check and the wait, and be lost.
        let _held = self.lock.lock();
        self.news.notify_all();
    }

    fn wait_for(&self, sent: u64, ahead: u64) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        let mut held = self.lock.lock().map_err(|_| "a thread has panicked")?;
        while sent > self.slowest.load(Ordering::Acquire) + ahead {
            let left = until.saturating_duration_since(Instant::now());
            // The time limit turns a lost message into an error instead of a bench that hangs.
            if left.is_zero() {
                return Err("messages have been lost on the way".into());
            }
            held = self.news.wait_timeout(held, left).map_err(|_| "a thread has panicked")?.0;
        }
        Ok(())
    }
}

fn read_all(
    streams: Vec<UnixStream>,
    bytes: u64,
    unit: u64,
    progress: &Progress,
) -> Outcome<Vec<UnixStream>> {
    let mut poll = Poll::new()?;
    for (number, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true)?;
        let interest = Interest::READABLE;
        poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(number), interest)?;
    }
    let mut heard = vec![0_u64; streams.len()];
    let mut events = Events::with_capacity(1_024);
    let mut buffer = vec![0; 256 << 10];
    while heard.iter().any(|count| *count < bytes) {
        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            return Err("messages have been lost on the way".into());
        }
        for event in &events {
            let number = event.token().0;
            // The poll reports a change once, so each stream is read until it has no more.
            loop {
                match (&streams[number]).read(&mut buffer) {
                    Ok(0) => return Err("a server has hung up".into()),
                    Ok(count) => heard[number] += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // Told once for each round of the poll, not for each read.
        progress.note_slowest(heard.iter().min().copied().unwrap_or(0) / unit);
    }
    Ok(streams)
}
