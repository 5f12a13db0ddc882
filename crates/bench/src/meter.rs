//! The stopwatch: wall and CPU time, best of several, ours and the floor in turn.
//!
//! The machine is shared. The best of several rounds is what the work costs; the rest is what the
//! neighbours cost. Rounds of both sides alternate, so that a bad minute hurts both.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::report::{Quantity, Row};

/// The time that a piece of work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// CPU time, where the system tells.
    cpu: Option<Cpu>,
}

/// Time on a processor.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// Of the thread that asked.
    own: Duration,
    /// Of all threads but the one that indexes for search, which works when it likes.
    all: Duration,
}

/// The best rounds of two sides that were measured in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub(crate) ours: Cost,
    pub(crate) floor: Cost,
}

/// The system adds up a running thread's time now and then; below this much the last piece that is
/// missing would decide.
const CPU_MIN: Duration = Duration::from_millis(50);

/// The indexer thread. Its work counts only in measurements of search.
const INDEXER: &str = "journal indexer";

/// Times what `work` does.
pub(crate) fn time_work<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(Cost, T)> {
    // The clock starts last and stops first: reading `/proc` takes time of its own.
    let (cpu, began) = (Cpu::now(), Instant::now());
    let value = work()?;
    let wall = began.elapsed();
    let cpu = cpu.zip(Cpu::now()).map(|(before, after)| after.since(before));
    Ok((Cost { wall, cpu }, value))
}

/// Lets time pass; this thread does nothing.
pub(crate) fn pause(time: Duration) {
    let (_kept, nothing) = mpsc::sync_channel::<()>(0);
    // The channel gets no message, so this waits for the whole time.
    let _ = nothing.recv_timeout(time);
}

/// The best of several rounds.
pub(crate) fn best_of(rounds: u32, mut round: impl FnMut() -> Outcome<Cost>) -> Outcome<Cost> {
    let mut best = round()?;
    for _ in 1..rounds {
        best = best.min(round()?);
    }
    Ok(best)
}

/// Both sides in turn, the best of each.
pub(crate) fn race_rounds(
    rounds: u32,
    mut ours: impl FnMut() -> Outcome<Cost>,
    mut floor: impl FnMut() -> Outcome<Cost>,
) -> Outcome<Race> {
    let mut best = Race { floor: floor()?, ours: ours()? };
    for _ in 1..rounds {
        best.floor = best.floor.min(floor()?);
        best.ours = best.ours.min(ours()?);
    }
    Ok(best)
}

/// The time that the given share of sorted times stays below; zero if there are none.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Returns the median: for short operations it ignores a few outliers.
pub(crate) fn median_time(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

impl Cost {
    fn min(self, other: Cost) -> Cost {
        let cpu = match (self.cpu, other.cpu) {
            (Some(one), Some(other)) => {
                // Each figure on its own: the round with the best wall time need not be the one
                // with the best CPU time.
                Some(Cpu { own: one.own.min(other.own), all: one.all.min(other.all) })
            }
            (one, other) => one.or(other),
        };
        Cost { wall: self.wall.min(other.wall), cpu }
    }

    /// Replaces the wall time by the CPU time of this thread. For work that one thread does without
    /// waiting, this is the cost regardless of other load on the machine.
    pub(crate) fn at_work(self) -> Cost {
        // Short work keeps its wall time, see `CPU_MIN`.
        let own = self.cpu.map(|cpu| cpu.own).filter(|own| *own >= CPU_MIN);
        Cost { wall: own.unwrap_or(self.wall), cpu: None }
    }

    /// What one of `count` took.
    pub(crate) fn per_item(self, count: usize) -> Quantity {
        Quantity::Time(self.wall.div_f64(count as f64))
    }

    pub(crate) fn per_second(self, count: usize) -> Quantity {
        Quantity::PerSecond(count as f64 / self.wall.as_secs_f64())
    }
}

impl Race {
    /// See [`Cost::at_work`].
    pub(crate) fn at_work(self) -> Race {
        Race { ours: self.ours.at_work(), floor: self.floor.at_work() }
    }

    /// Time for each of `count` on both sides.
    pub(crate) fn into_row(self, measure: impl Into<String>, count: usize) -> Row {
        let row =
            Row::against_floor(measure, self.ours.per_item(count), self.floor.per_item(count));
        let cpu_ratio = self
            .ours
            .cpu
            .zip(self.floor.cpu)
            .filter(|(ours, floor)| ours.all.min(floor.all) >= CPU_MIN)
            .map(|(ours, floor)| ours.all.as_secs_f64() / floor.all.as_secs_f64());
        Row { cpu_ratio, ..row }
    }
}

impl Cpu {
    /// What all threads that are alive have used. Nothing measured here ends a thread that did
    /// the work.
    fn now() -> Option<Cpu> {
        let own = task_nanos(Path::new("/proc/thread-self"))?;
        let mut all = 0;
        for task in fs::read_dir("/proc/self/task").ok()? {
            let task = task.ok()?.path();
            // A thread may end between the listing and the look.
            let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
            if name.trim_end() != INDEXER {
                all += task_nanos(&task).unwrap_or(0);
            }
        }
        Some(Cpu { own: Duration::from_nanos(own), all: Duration::from_nanos(all) })
    }

    fn since(self, before: Cpu) -> Cpu {
        Cpu { own: self.own.saturating_sub(before.own), all: self.all.saturating_sub(before.all) }
    }
}

/// Nanoseconds a thread has been on a processor.
fn task_nanos(task: &Path) -> Option<u64> {
    fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
}
