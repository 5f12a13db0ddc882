//! The HTTP server of the daemon: the time of a line from its file to a WebSocket while many agents
//! write, the memory of each session, and the cost at rest.
//!
//! The daemon runs as a process of its own. This process simulates the agents and the follower; its
//! cost is not counted.

use std::collections::HashSet;
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use event::Time;
use serde::Deserialize;
use testkit::{RunningProgram, World};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::Outcome;
use crate::live::{
    PATIENCE, cpu_percent, now, program_path, time_since, wait_for_rest, write_lines,
};
use crate::meter::{pause, quantile};
use crate::report::{Bar, Quantity, Report, Row};
use crate::scribe::{Scribe, Words};
use crate::stage::Stage;

/// Sessions that are active while the time of a line is measured.
const SESSIONS: usize = 50;
/// Lines all of them write in a second: busy agents write some four each.
const LINES_PER_SECOND: usize = 200;
/// Sessions that are active while memory is measured.
const SESSIONS_HELD: usize = 100;
/// Lines each of those has written.
const LINES_HELD: usize = 100;

/// How long a line may take, for all but one of a hundred.
const LATE: Duration = Duration::from_millis(100);
/// What a daemon with a follower may take of a core while nothing happens, in percent.
const IDLE_PERCENT: f64 = 0.1;

/// Wait before memory is read: threads that answered a request end after ten idle seconds and free
/// their buffers.
const ANSWERED: Duration = Duration::from_secs(12);

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let is_quick = stage.scale.rounds <= 2;
    let (idle, busy) = if is_quick { (5, 5) } else { (60, 30) };
    let (idle, busy) = (Duration::from_secs(idle), Duration::from_secs(busy));
    let (world, words) = (World::new(program_path()?), Words::new());
    let running = world.start(&["--json", "--journal", "journal", "up"]);
    let mut follower = Follower::connect_when_up(&world.home().join("journal/health"))?;
    wait_for_rest(&running);
    // Before the subscriptions: what they cost is part of what a watched session costs.
    let before = memory_held(&running);
    follower.send_request(r#"{"type":"subscribe-stream"}"#)?;
    follower.send_request(r#"{"type":"subscribe-status"}"#)?;

    stage.announce("agents write")?;
    let begin = |numbers: Range<usize>| -> Outcome<Vec<Scribe>> {
        numbers.map(|number| Scribe::new(world.home(), number)).collect()
    };
    let mut scribes = begin(0..SESSIONS)?;
    let mut latencies = measure_lines(&mut scribes, &words, busy, &mut follower)?;
    latencies.sort_unstable();
    let at = |share: f64| quantile(&latencies, share);
    let about = format!("{SESSIONS} sessions, {LINES_PER_SECOND} lines a second");
    let row = |what: &str, ours| Row::alone(format!("{about}: {what}"), ours);
    report.add_row(row("from file to WebSocket, half of them", Quantity::Time(at(0.5))));
    let measure = format!("{about}: from file to WebSocket, 99 of 100, floor the limit");
    let late = Row::against_floor(measure, Quantity::Time(at(0.99)), Quantity::Time(LATE));
    report.add_row(late.with_bar(Bar::at_most(1.0)));

    stage.announce("many sessions are held")?;
    type Held = Outcome<Option<Row>>;
    let mut each = |scribes: &mut [Scribe], before: Option<u64>, which: &str| -> Held {
        for _ in 0..LINES_HELD {
            scribes.iter_mut().try_for_each(|scribe| scribe.write_next(&words, now()))?;
        }
        follower.drain_frames()?;
        wait_for_rest(&running);
        Ok(before.zip(memory_held(&running)).map(|(before, after)| {
            let each = after.saturating_sub(before) / SESSIONS_HELD as u64;
            let measure = format!("{SESSIONS_HELD} {which} active and watched: memory for each");
            Row::alone(measure, Quantity::Bytes(each))
        }))
    };
    // The sessions of the first part go on, so that all of them are active at once.
    scribes.extend(begin(SESSIONS..SESSIONS_HELD)?);
    each(&mut scribes, before, "sessions")?.into_iter().for_each(|row| report.add_row(row));

    stage.announce("nobody writes")?;
    pause(ANSWERED);
    if let Some(cpu_before) = running.cpu() {
        pause(idle);
        let cpu = running.cpu().unwrap_or_default().saturating_sub(cpu_before);
        let percent = cpu_percent(cpu, idle);
        let seconds = idle.as_secs();
        let measure = format!("a watched daemon at rest, {seconds} s: CPU, % of a core");
        let row = Row::alone(measure, Quantity::Count(percent));
        report.add_row(Row { ratio: Some(percent), ..row }.with_bar(Bar::at_most(IDLE_PERCENT)));
    }

    stage.announce("more sessions are held")?;
    // Fixed costs are allocated by now, so the growth from here is that of the sessions.
    let before = memory_held(&running);
    let mut more = begin(SESSIONS_HELD..2 * SESSIONS_HELD)?;
    each(&mut more, before, "more sessions")?.into_iter().for_each(|row| report.add_row(row));
    running.terminate();
    Ok(())
}

/// Lets agents write and returns the time of each line to the follower.
///
/// A line has arrived with its first event. Later events of the same time come from later lines: a
/// response of Claude is complete only when the next one begins.
fn measure_lines(
    scribes: &mut [Scribe],
    words: &Words,
    time: Duration,
    follower: &mut Follower,
) -> Outcome<Vec<Duration>> {
    let begun = now();
    let (mut latencies, mut arrived) = (Vec::new(), HashSet::new());
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            write_lines(scribes, words, LINES_PER_SECOND, time).map_err(|error| error.to_string())
        });
        // A little longer than the agents write, for the last lines to arrive.
        let until = Instant::now() + time + QUIET;
        while Instant::now() < until {
            let Some(event) = follower.next()? else { continue };
            let created = event.created_at;
            // Only the first event of a line counts; see above.
            if created >= begun && arrived.insert(event) {
                latencies.push(time_since(created));
            }
        }
        writing.join().map_err(|_| "the agents failed")??;
        Ok(latencies)
    })
}

/// A follower without an event for so long has received everything.
const QUIET: Duration = Duration::from_secs(2);

/// A WebSocket client that follows all sessions.
struct Follower {
    socket: WebSocket<TcpStream>,
}

/// What is read of a frame.
#[derive(Deserialize)]
struct Framed {
    event: Option<Written>,
}

/// Which line an event comes from: agents write one in an instant.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Written {
    session_id: String,
    created_at: Time,
}

impl Follower {
    /// Comes in as soon as the door is open.
    fn connect_when_up(health: &Path) -> Outcome<Follower> {
        let until = Instant::now() + PATIENCE;
        let read = |name: &str| std::fs::read_to_string(health.join(name));
        // The daemon writes this file when it listens.
        while read("http.address").is_err() {
            if Instant::now() > until {
                return Err("the daemon does not serve HTTP".into());
            }
            pause(Duration::from_millis(10));
        }
        let (address, token) = (read("http.address")?, read("http.token")?);
        let address = address.trim().trim_start_matches("http://");
        let stream = TcpStream::connect(address)?;
        let mut request = format!("ws://{address}/api/ws").into_client_request()?;
        let bearer = format!("Bearer {}", token.trim()).parse()?;
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) =
            tungstenite::client(request, stream).map_err(|error| error.to_string())?;
        // Without a timeout, `next` would wait for ever once the agents are silent.
        socket.get_ref().set_read_timeout(Some(QUIET))?;
        Ok(Follower { socket })
    }

    fn send_request(&mut self, asked: &str) -> Outcome<()> {
        Ok(self.socket.send(Message::text(asked))?)
    }

    /// Waits for the next event. Returns `None` for another frame or after a timeout.
    fn next(&mut self) -> Outcome<Option<Written>> {
        use std::io::ErrorKind;
        match self.socket.read() {
            Ok(Message::Text(text)) => {
                let framed: Framed = serde_json::from_str(&text)?;
                Ok(framed.event)
            }
            Ok(_) => Ok(None),
            Err(tungstenite::Error::Io(error))
                // A read timeout is reported as either of the two, depending on the system.
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Hears everything there is.
    fn drain_frames(&mut self) -> Outcome<()> {
        let mut heard_at = Instant::now();
        while heard_at.elapsed() < QUIET {
            if self.next()?.is_some() {
                heard_at = Instant::now();
            }
        }
        Ok(())
    }
}

/// What a program holds now, where the system tells.
fn memory_held(running: &RunningProgram) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process_id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1_024)
}
