//! `hansard ingest`: what agents have written, into the journal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use capture::{AGENTS, IngestProgress, IngestSummary, StopFlag};
use clap::Args;
use clap::builder::PossibleValuesParser;
use daemon::{Running, Settings};
use event::Time;
use ingest::{Ingest as Pass, Ingested};
use journal::{Journal, Options};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style};
use crate::world;

#[derive(Args)]
pub(crate) struct Ingest {
    /// Read everything there is and stop, instead of going on as agents write
    #[arg(long)]
    once: bool,
    /// Read what was kept of one agent's sessions again, for instance `codex`, to add what an earlier
    /// version did not understand
    #[arg(long, value_name = "AGENT", value_parser = agents(), conflicts_with = "once")]
    reparse: Option<String>,
    /// The home whose agents are read [default: yours]; where an agent's own variable names a
    /// folder, as CLAUDE_CONFIG_DIR and CODEX_HOME do, that wins
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    sessions: Sessions,
    events: u64,
    bytes: u64,
    files: u64,
    unknown_records: u64,
    warnings: Vec<WarningShape>,
    elapsed_ms: u64,
    cpu_ms: Option<u64>,
    by_provider: BTreeMap<&'static str, Provider>,
    /// It was told to end before everything was read.
    stopped: bool,
}

/// What one round of following brought.
#[derive(Serialize)]
struct RoundShape {
    at: Time,
    sessions: u64,
    events: u64,
    bytes: u64,
    files: u64,
    unknown_records: u64,
}

#[derive(Serialize)]
struct Sessions {
    new: u64,
    updated: u64,
    total: u64,
}

#[derive(Serialize)]
struct Provider {
    sessions: u64,
    events: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct WarningShape {
    kind: &'static str,
    provider: &'static str,
    version: Option<String>,
    path: Option<String>,
    message: String,
    count: u64,
}

impl Ingest {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let environment = world::environment(self.home.as_deref())?;
        let journal = world::journal_to_fill(global, &Options::default(), output)?;
        let begun = Instant::now();
        let folder = world::folder(global)?;
        if let Some(running) = Running::find(&folder) {
            let told =
                format!("the daemon (pid {}) records what agents write already", running.pid);
            return Err(CliError::new("held", told).hint(
                "`hansard bus listen --tract cortex` shows it as it happens; `hansard down` ends \
                 the daemon",
            ));
        }
        let policy = Settings::load(&folder)?.recording();
        let clock = &world::now;
        let pass = Pass { journal: &journal, environment: &environment, clock, policy };
        if !self.once && self.reparse.is_none() {
            return follow(&pass, &journal, output);
        }
        let stop = StopFlag::default();
        // No thread waits for them: most runs are over before it would have begun.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, stop.flag())?;
        }
        let mut tell = |progress: &IngestProgress| output.progress(|| told(progress, begun));
        let ingested = match &self.reparse {
            Some(agent) => pass.again(agent, &stop, &mut tell)?,
            None => pass.once(&stop, &mut tell)?,
        };
        let stopped = stop.is_asked();
        journal.close();
        let report = Report { stopped, ..Report::of(ingested, begun) };
        print(&report, output)?;
        output.flush()?;
        if report.stopped {
            output.warn("stopped before everything was read; the next run goes on from here");
            return Ok(Done::NotSo);
        }
        Ok(Done::Yes)
    }
}

/// The names of the agents that are understood.
fn agents() -> PossibleValuesParser {
    AGENTS.iter().map(|agent| agent.provider()).into()
}

/// Goes on until somebody says stop: with Ctrl-C, or with the signal a service manager sends.
fn follow(pass: &Pass<'_>, journal: &Journal, output: &mut Output) -> Result<Done, CliError> {
    let signals = Signals::new([SIGINT, SIGTERM])?;
    let handle = signals.handle();
    let followed = pass
        .follow(|stopper| on_signal(signals, move || stopper.stop()), &mut |round| {
            print_round(round, output)
        });
    handle.close();
    followed?;
    journal.close();
    output.flush()?;
    Ok(Done::Yes)
}

/// Acts on the first signal to end.
pub(super) fn on_signal(mut signals: Signals, act: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            act();
        }
    });
}

/// One line per round that brought something.
fn print_round(round: &IngestSummary, output: &mut Output) {
    for warning in &round.warnings {
        let place = warning.path.as_ref().map(|path| format!("{}: ", path.display()));
        output.warn(format!("warning: {}{}", place.unwrap_or_default(), warning.message));
    }
    if round.events == 0 {
        return;
    }
    let sessions: usize = round.by_provider.values().map(|provider| provider.sessions.len()).sum();
    let told = match output.json() {
        true => output.json_line(&RoundShape {
            at: world::now(),
            sessions: sessions as u64,
            events: round.events,
            bytes: round.bytes,
            files: round.sources,
            unknown_records: round.unknown,
        }),
        false => output.line(format!(
            "{} events of {sessions} sessions ({})",
            round.events,
            size(round.bytes)
        )),
    };
    // Nobody reads along any more; what is recorded is recorded.
    let _ = told.and_then(|()| output.flush());
}

impl Report {
    fn of(ingested: Ingested, begun: Instant) -> Report {
        let Ingested { sessions_new, sessions_updated, sessions_total, events, read } = ingested;
        let providers = read.by_provider.into_iter().map(|(name, provider)| {
            let sessions = provider.sessions.len() as u64;
            (name, Provider { sessions, events: provider.events, bytes: provider.bytes })
        });
        let warnings = read.warnings.into_iter().map(|warning| WarningShape {
            kind: warning.kind.as_str(),
            provider: warning.provider,
            version: warning.version,
            path: warning.path.map(|path| path.display().to_string()),
            message: warning.message,
            count: warning.count,
        });
        Report {
            sessions: Sessions {
                new: sessions_new,
                updated: sessions_updated,
                total: sessions_total,
            },
            events,
            bytes: read.bytes,
            files: read.sources,
            unknown_records: read.unknown,
            warnings: warnings.collect(),
            elapsed_ms: begun.elapsed().as_millis() as u64,
            cpu_ms: world::cpu_millis(),
            by_provider: providers.collect(),
            stopped: false,
        }
    }
}

fn told(progress: &IngestProgress, begun: Instant) -> String {
    let IngestProgress { sources, sources_total, bytes, bytes_total, events } = *progress;
    let share = bytes.saturating_mul(100).checked_div(bytes_total).unwrap_or(100).min(100);
    let seconds = begun.elapsed().as_secs_f64();
    let left = match bytes {
        0 => String::new(),
        _ => {
            let rest = bytes_total.saturating_sub(bytes) as f64;
            format!(", {:.0} s left", rest * seconds / bytes as f64)
        }
    };
    format!(
        "{share:>3} %  {sources} of {sources_total} files, {events} events, {} of {}{left}",
        size(bytes),
        size(bytes_total)
    )
}

fn print(report: &Report, output: &mut Output) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(report);
    }
    let Report { sessions, events, bytes, files, elapsed_ms, .. } = report;
    let seconds = *elapsed_ms as f64 / 1_000.0;
    let speed = match elapsed_ms {
        0 => String::new(),
        _ => format!(", {}/s", size((*bytes as f64 / seconds) as u64)),
    };
    output.line(format!(
        "{events} new events from {files} files ({}) in {seconds:.1} s{speed}",
        size(*bytes)
    ))?;
    output.line(format!(
        "{} sessions: {} new, {} with news",
        sessions.total, sessions.new, sessions.updated
    ))?;
    for (name, provider) in &report.by_provider {
        let Provider { sessions, events, bytes } = provider;
        let name = output.styled(Style::Bold, format!("{name:<10}"));
        output.line(format!(
            "  {name} {sessions:>6} sessions {events:>9} events {:>10}",
            size(*bytes)
        ))?;
    }
    warn(&report.warnings, output);
    Ok(())
}

/// The first few warnings of each kind; how many more there are.
fn warn(warnings: &[WarningShape], output: &mut Output) {
    const SHOWN_MAX: u64 = 3;
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for warning in warnings {
        let count = told.entry(warning.kind).or_default();
        *count += 1;
        if *count <= SHOWN_MAX {
            let place = warning.path.as_ref().map_or(String::new(), |path| format!("{path}: "));
            output.warn(format!("warning: {place}{}", warning.message));
        }
    }
    for (kind, count) in told.into_iter().filter(|(_, count)| *count > SHOWN_MAX) {
        let more = count - SHOWN_MAX;
        output.warn(format!("warning: {more} more of the kind `{kind}`; `--json` lists them all"));
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
