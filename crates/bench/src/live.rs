//! `hansard ingest` in follow mode: its cost at rest and while many agents write, and the time of a
//! line from its file to the journal.
//!
//! The program runs as a process of its own. This process simulates the agents and reads the
//! journal; its cost is not counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use event::Time;
use journal::{Access, Journal, Options};
use testkit::{RunningProgram, World};

use crate::Outcome;
use crate::meter::{pause, quantile};
use crate::report::{Bar, Quantity, Report, Row};
use crate::scribe::{Scribe, Words};
use crate::stage::Stage;

const SESSIONS: usize = 100;
/// Lines each of them has before anything is measured.
const LINES_BEFORE: usize = 40;
/// Lines all of them write in a second, while they write.
const LINES_PER_SECOND: usize = 2_000;

/// How often agents get their turn, and the journal is looked at.
const TICK: Duration = Duration::from_millis(5);
/// How long a measurement waits for a line before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Age of sessions that no agent writes to.
const YESTERDAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The program is at rest when it has done nothing for this long.
const REST: Duration = Duration::from_secs(1);

/// What following may take of a core while nothing happens, in percent.
const IDLE: Bar = Bar::AtMost { must: 0.1, aim: 0.05 };
/// How many seconds a line may take, for all but one of a hundred.
const LATENCY: Bar = Bar::AtMost { must: 1.0, aim: 0.25 };

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let is_quick = stage.scale.rounds <= 2;
    let (idle, busy) = if is_quick { (5, 3) } else { (60, 30) };
    let (idle, busy) = (Duration::from_secs(idle), Duration::from_secs(busy));
    let (world, words) = (World::new(program_path()?), Words::new());
    let mut scribes = sessions_of_yesterday(world.home(), &words)?;
    let running = world.start(&["--json", "--journal", "journal", "ingest"]);
    let mut reader = Reader::open(&world.home().join("journal"))?;
    // Taking in the history is work and must be over before rest is measured.
    reader.read_until(&last_line_of(&scribes), &mut |_| {})?;
    measure_at_rest(&running, idle, "of yesterday", report);
    stage.announce("agents write")?;
    measure_at_work(&running, &mut scribes, &words, busy, &mut reader, report)?;
    // Measured again: capture polls files that were just written more often than old ones.
    measure_at_rest(&running, idle, "that have just become silent", report);
    running.terminate();
    Ok(())
}

/// The program that is measured.
pub(crate) fn program_path() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("hansard");
    if !program.exists() {
        return Err(format!("`{}` is to be built first", program.display()).into());
    }
    Ok(program)
}

fn sessions_of_yesterday(home: &Path, words: &Words) -> Outcome<Vec<Scribe>> {
    let mut scribes = Vec::new();
    for number in 0..SESSIONS {
        let mut scribe = Scribe::new(home, number)?;
        for _ in 0..LINES_BEFORE {
            scribe.write_next(words, now())?;
        }
        // Capture polls a source more and more rarely while it is quiet; these shall count as old.
        scribe.set_age(SystemTime::now() - YESTERDAY)?;
        scribes.push(scribe);
    }
    Ok(scribes)
}

/// Measures the program at rest, after it has caught up.
fn measure_at_rest(running: &RunningProgram, time: Duration, which: &str, report: &mut Report) {
    wait_for_rest(running);
    let before = running.cpu().zip(running.pauses());
    pause(time);
    let after = running.cpu().zip(running.pauses());
    // Without `/proc` there is no row, and no failure.
    let Some(((cpu_before, pauses_before), (cpu, pauses))) = before.zip(after) else { return };
    let seconds = time.as_secs();
    let about = format!("{SESSIONS} sessions {which}, {seconds} s");
    let percent = cpu_percent(cpu - cpu_before, time);
    let row = Row::alone(format!("{about}: CPU, % of a core"), Quantity::Count(percent));
    report.add_row(Row { ratio: Some(percent), ..row }.with_bar(IDLE));
    let pauses = (pauses - pauses_before) as f64 / time.as_secs_f64();
    report.add_row(Row::alone(format!("{about}: wake-ups"), Quantity::PerSecond(pauses)));
}

/// Measures the cost and the delay of the program while all agents write.
fn measure_at_work(
    running: &RunningProgram,
    scribes: &mut [Scribe],
    words: &Words,
    time: Duration,
    reader: &mut Reader,
    report: &mut Report,
) -> Outcome<()> {
    let (begun, cpu_before) = (now(), running.cpu());
    let (sender, written) = mpsc::sync_channel(1);
    let mut latencies = Vec::new();
    let lines = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let lines = write_lines(scribes, words, LINES_PER_SECOND, time)
                .map_err(|error| error.to_string());
            // The receiver may have timed out already.
            let _ = sender.send(last_line_of(scribes));
            lines
        });
        let mut take = |created: Time| {
            // Events of earlier lines may still come: a response of Claude is complete only when
            // the next one begins.
            if created >= begun {
                latencies.push(time_since(created));
            }
        };
        let last = reader.read_while(&written, &mut take)?;
        reader.read_until(&last, &mut take)?;
        writing.join().map_err(|_| "the agents failed")?.map_err(Into::into)
    });
    let lines: usize = lines.map_err(|error: Box<dyn std::error::Error>| error)?;
    latencies.sort_unstable();
    let at = |share: f64| quantile(&latencies, share);
    let about = format!("{SESSIONS} sessions, {LINES_PER_SECOND} lines a second");
    let row = |what: &str, ours| Row::alone(format!("{about}: {what}"), ours);
    report.add_row(row("from file to journal, half of them", Quantity::Time(at(0.5))));
    let late = at(0.99);
    let late_row = row("from file to journal, 99 of 100", Quantity::Time(late));
    report.add_row(Row { ratio: Some(late.as_secs_f64()), ..late_row }.with_bar(LATENCY));
    report.add_row(row("from file to journal, the slowest", Quantity::Time(at(1.0))));
    if let Some((after, before)) = running.cpu().zip(cpu_before) {
        let cpu = after - before;
        report.add_row(row("CPU, % of a core", Quantity::Count(cpu_percent(cpu, time))));
        report.add_row(row("CPU for each line", Quantity::Time(cpu.div_f64(lines as f64))));
    }
    Ok(())
}

/// Lets all agents write for a while, in turn and evenly; how many lines that were.
pub(crate) fn write_lines(
    scribes: &mut [Scribe],
    words: &Words,
    lines_per_second: usize,
    time: Duration,
) -> Outcome<usize> {
    let (begun, mut lines) = (Instant::now(), 0);
    while begun.elapsed() < time {
        // By the clock and not by pauses: a late turn writes more lines, and the rate stays the
        // same.
        let due = (begun.elapsed().as_secs_f64() * lines_per_second as f64) as usize;
        while lines < due {
            let number = lines % scribes.len();
            scribes[number].write_next(words, now())?;
            lines += 1;
        }
        pause(TICK);
    }
    Ok(lines)
}

/// When the last line of each session was written.
type Last = HashMap<String, Time>;

fn last_line_of(scribes: &[Scribe]) -> Last {
    scribes
        .iter()
        .filter_map(|scribe| Some((scribe.session_id(), scribe.last_written()?)))
        .collect()
}

/// Looks at a journal that another process fills.
struct Reader {
    journal: Journal,
    next: u64,
    /// When the newest event of each session happened.
    seen: Last,
}

impl Reader {
    /// Opens the journal as soon as there is one.
    fn open(dir: &Path) -> Outcome<Reader> {
        let options = Options { access: Access::ReadOnly, ..Options::default() };
        let until = Instant::now() + PATIENCE;
        loop {
            match Journal::open(dir, &options) {
                Ok(journal) => return Ok(Reader { journal, next: 1, seen: Last::new() }),
                Err(error) if Instant::now() > until => return Err(error.into()),
                // The program makes the journal after it has started, so a failed opening is tried
                // again.
                Err(_) => pause(TICK),
            }
        }
    }

    /// Reads what is new; `take` hears when each of it happened.
    fn read_new(&mut self, take: &mut dyn FnMut(Time)) -> Outcome<()> {
        // A page is bounded, so one read may not reach the tail.
        while self.journal.tail()? >= self.next {
            for recorded in self.journal.recorded_from(self.next)? {
                self.next = recorded.position + 1;
                let (session, at) = (recorded.event.session_id.as_str(), recorded.event.created_at);
                take(at);
                match self.seen.get_mut(session) {
                    // Events of a session need not come in the order of their times.
                    Some(newest) => *newest = at.max(*newest),
                    None => {
                        self.seen.insert(session.to_owned(), at);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads until everything up to these lines was seen.
    fn read_until(&mut self, last: &Last, take: &mut dyn FnMut(Time)) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.read_new(take)?;
            let missing = last.iter().filter(|(id, at)| self.seen.get(*id) < Some(at)).count();
            if missing == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{missing} of {SESSIONS} sessions were not recorded").into());
            }
            pause(TICK);
        }
    }

    /// Reads until the agents have stopped; their last lines.
    fn read_while(
        &mut self,
        written: &Receiver<Last>,
        take: &mut dyn FnMut(Time),
    ) -> Outcome<Last> {
        loop {
            self.read_new(take)?;
            match written.recv_timeout(TICK) {
                Ok(last) => return Ok(last),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until the program does nothing any more.
pub(crate) fn wait_for_rest(running: &RunningProgram) {
    let until = Instant::now() + PATIENCE;
    let mut before = running.cpu();
    while Instant::now() < until {
        pause(REST);
        let now = running.cpu();
        let has_worked =
            // Not zero: a program at rest still wakes now and then.
            now.zip(before).is_none_or(|(now, before)| cpu_percent(now - before, REST) > 1.0);
        if !has_worked {
            return;
        }
        before = now;
    }
}

pub(crate) fn cpu_percent(cpu: Duration, of: Duration) -> f64 {
    100.0 * cpu.as_secs_f64() / of.as_secs_f64()
}

/// What the clock says, in whole milliseconds, as agents write it.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn time_since(time: Time) -> Duration {
    let nanos = now().nanos() - time.nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
