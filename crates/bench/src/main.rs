//! Measures what the journal costs: ratios against a floor beside it, and growth.
//!
//! Everything is measured in one run on one machine, ours and the floor in turn. A verdict is a
//! word in a table, never a failure: times depend on what else runs on the machine. Limits that must
//! hold are counts, and tests check them.

mod report; // the table
mod meter; // the stopwatch
mod floor; // SQLite alone
mod load; // events, ready for both sides
mod stage; // journals, and the folder they stand in
mod host; // a clock and dice for sessions
mod append; // durable appends
mod growth; // appends to what has grown
mod reading; // reading, replaying, following
mod view; // effective histories
mod fork; // forks and generations
mod search; // words in a journal that has grown
mod look; // opening and listing what has grown
mod care; // rest, memory, opening after a crash
mod scribe; // agents that write
mod live; // what follows them
mod serve; // the same over a WebSocket
mod bus; // messages to everybody
mod hook; // what agents wait for
mod least; // what taking in history costs at least

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use report::Report;
use stage::{Scale, Stage};

/// The result of a measurement. Any error ends the run and is printed.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures ratios and growth, and prints them as a table.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Small sizes: a look at all measures within a minute.
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only these groups of measures; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Where journals are made: a folder on the disk to be measured. They are removed afterwards.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Open a session of a journal and print the memory that took: what a fresh process is asked.
    #[arg(long, hide = true, num_args = 2, value_names = ["JOURNAL", "SESSION"])]
    hold: Option<Vec<String>>,
    /// Be the bare relay that the bus is measured against: the socket, the number of clients.
    #[arg(long, hide = true, num_args = 2, value_names = ["SOCKET", "CLIENTS"])]
    relay: Option<Vec<String>>,
    /// Do the least that taking in a folder of transcripts can cost: the folder, a file for it.
    #[arg(long, hide = true, num_args = 2, value_names = ["FOLDER", "FILE"])]
    least: Option<Vec<PathBuf>>,
}

type Measure = fn(&mut Stage, &mut Report) -> Outcome<()>;

/// All groups, in the order they run: those that use what others built come later.
const GROUPS: &[(&str, Measure)] = &[
    ("append", append::measure),
    ("read", reading::measure),
    ("view", view::measure),
    ("fork", fork::measure),
    ("growth", growth::measure),
    ("search", search::measure),
    ("look", look::measure),
    ("care", care::measure),
    ("live", live::measure),
    ("serve", serve::measure),
    ("bus", bus::measure),
    ("hook", hook::measure),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, there is no other place to report to.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    // The hidden options run one part of a measurement in a process of its own, so that its memory
    // and CPU time are not mixed with those of the bench.
    if let Some([dir, session_id]) = arguments.hold.as_deref() {
        let bytes = care::hold_session(Path::new(dir), session_id)?;
        writeln!(io::stdout(), "{bytes}")?;
        return Ok(());
    }
    if let Some([socket, clients]) = arguments.relay.as_deref() {
        return bus::relay::relay_bytes(Path::new(socket), clients.parse()?);
    }
    if let Some([folder, file]) = arguments.least.as_deref() {
        return least::parse_folder(folder, file);
    }
    let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
    // Checked before anything is measured: a full run takes long.
    if let Some(unknown) = arguments.only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(
            format!("no group is called `{unknown}`; there are {}", names.join(", ")).into()
        );
    }
    let scale = if arguments.quick { Scale::QUICK } else { Scale::FULL };
    let mut stage = Stage::new(scale, arguments.dir.as_deref())?;
    let mut report = Report::default();
    report.add_note("machine", describe_machine());
    report.add_note("load", load_average("at the start"));
    report.add_note("settings", format!("both sides: {}", floor::SETTINGS));
    for (name, measure) in GROUPS {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            stage.announce(&format!("measuring {name}"))?;
            measure(&mut stage, &mut report)?;
        }
    }
    // Noted again: a neighbour may have started to work in the middle of the run.
    report.add_note("load", load_average("at the end"));
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        report.write_table(&mut out)?;
    }
    Ok(())
}

/// How busy the neighbours are: with more than the cores can do, times say little.
fn load_average(when: &str) -> String {
    let average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = average.split(' ').next().filter(|text| !text.is_empty()).unwrap_or("unknown");
    format!("{when}, average of the last minute: {minute}")
}

/// What the figures were measured on, without its name.
fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        // The first line of `/proc/meminfo` is `MemTotal: N kB`.
        let kib: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(format!(", {} GiB of memory", kib / (1024 * 1024)))
    });
    let system = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{cores} cores{}, {} {}", memory.unwrap_or_default(), system.0, system.1)
}
