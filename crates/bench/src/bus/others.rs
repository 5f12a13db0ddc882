//! How long a message takes while others misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::meter::pause;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misbehaviour {
    None,
    /// So many clients that never read.
    Stuck(usize),
    /// A client that reads 20 kB a second.
    Crawling,
    /// A client that writes as fast as it can.
    Flooding,
    /// Senders that come and go all the time.
    OneShots,
}

/// Between two probes, and between two reads of the crawling one.
const PAUSE: Duration = Duration::from_millis(2);
/// A probe that takes longer was lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that a crawling client reads per pause.
const CRAWL: usize = 40;
/// Unread messages of stuck and crawling clients at the start: more than socket buffers hold, so
/// that the server has to queue.
const BACKLOG: usize = 2_000;

/// How long messages take.
#[derive(Clone, Copy)]
pub(crate) struct Delays {
    /// All but one of a hundred.
    pub(crate) most: Duration,
    pub(crate) worst: Duration,
}

impl Delays {
    fn from_samples(mut all: Vec<Duration>) -> Delays {
        all.sort();
        let at = |place: usize| all.get(place).copied().unwrap_or_default();
        Delays { most: at(all.len() * 99 / 100), worst: at(all.len().saturating_sub(1)) }
    }

    /// What was added to those of another time.
    pub(crate) fn excess_over(self, other: Delays) -> Delays {
        Delays {
            most: self.most.saturating_sub(other.most),
            worst: self.worst.saturating_sub(other.worst),
        }
    }
}

/// How long messages take beside others.
pub(crate) fn measure_delays(path: &Path, others: Misbehaviour, probes: usize) -> Outcome<Delays> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut stuck = Vec::new();
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    match others {
        Misbehaviour::None => {}
        Misbehaviour::Stuck(count) => {
            for _ in 0..count {
                // Connected and never read: the server has to hold or drop what is meant for them.
                stuck.push(UnixStream::connect(path)?);
            }
        }
        Misbehaviour::Crawling => {
            let stream = UnixStream::connect(path)?;
            threads.push(spawn_loop(&stop, move || read_slowly(&stream)));
        }
        Misbehaviour::Flooding => {
            let stream = UnixStream::connect(path)?;
            let reader = stream.try_clone()?;
            threads.push(spawn_loop(&stop, move || send_endlessly(&stream)));
            // It reads its own echo, so that it floods and is not stuck as well. The thread ends
            // with the connection.
            std::thread::spawn(move || std::io::copy(&mut &reader, &mut std::io::sink()));
        }
        Misbehaviour::OneShots => {
            let path = path.to_owned();
            threads.push(spawn_loop(&stop, move || one_shot(&path)));
        }
    }
    let delays = probe_delays(path, BACKLOG, |number| number < probes);
    // Also after a failed probe: the threads would otherwise go on for ever.
    stop.store(true, Ordering::Release);
    drop(stuck);
    for thread in threads {
        thread.join().map_err(|_| "somebody has panicked")?;
    }
    delays
}

fn spawn_loop(
    stop: &Arc<AtomicBool>,
    mut work: impl FnMut() -> bool + Send + 'static,
) -> JoinHandle<()> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || while !stop.load(Ordering::Acquire) && work() {})
}

/// Sends a message, waits for it to come back and sends the next, while `is_wanted`.
pub(super) fn probe_delays(
    path: &Path,
    backlog: usize,
    is_wanted: impl Fn(usize) -> bool,
) -> Outcome<Delays> {
    let mut sender = UnixStream::connect(path)?;
    let echo = sender.try_clone()?;
    // The sender hears itself. Unread, its echo would make it one of the stuck clients.
    std::thread::spawn(move || std::io::copy(&mut &echo, &mut std::io::sink()));
    let listener = UnixStream::connect(path)?;
    listener.set_read_timeout(Some(PATIENCE))?;
    let mut listener = BufReader::new(listener);
    let mut line = String::new();
    let mut next = |sender: &mut UnixStream, text: &str| -> Outcome<()> {
        writeln!(sender, "{text}")?;
        loop {
            line.clear();
            if listener.read_line(&mut line)? == 0 {
                return Err("the server has hung up".into());
            }
            // Messages of the others arrive in between. The server may add members at the end of
            // ours, so the closing brace does not count.
            if line.starts_with(text.trim_end_matches('}')) {
                return Ok(());
            }
        }
    };
    let text = "x".repeat(1_000);
    // Fills the queues of stuck and crawling clients before anything is timed.
    for number in 0..backlog {
        let tract = r#"{"tract":"bench","event":"fill","#;
        next(&mut sender, &format!(r#"{tract}"n":{number},"text":"{text}"}}"#))?;
    }
    let mut delays = Vec::new();
    for number in (0..).take_while(|number| is_wanted(*number)) {
        let began = Instant::now();
        next(&mut sender, &format!(r#"{{"tract":"bench","event":"probe","n":{number}}}"#))?;
        delays.push(began.elapsed());
        pause(PAUSE);
    }
    Ok(Delays::from_samples(delays))
}

fn read_slowly(mut stream: &UnixStream) -> bool {
    pause(PAUSE);
    // It takes what is there, a little at a time; nothing yet is fine.
    let _ = stream.set_read_timeout(Some(PAUSE));
    let _ = stream.read(&mut [0; CRAWL]);
    true
}

fn send_endlessly(mut stream: &UnixStream) -> bool {
    let line =
        format!("{{\"tract\":\"logs\",\"event\":\"line\",\"line\":\"{}\"}}\n", "x".repeat(160));
    stream.write_all(line.repeat(64).as_bytes()).is_ok()
}

fn one_shot(path: &Path) -> bool {
    let message = ::bus::Draft::new("bench", "shot").build().expect("it is a good message");
    matches!(
        ::bus::send(path, &[message]),
        ::bus::SendOutcome::Delivered | ::bus::SendOutcome::Written
    )
}
