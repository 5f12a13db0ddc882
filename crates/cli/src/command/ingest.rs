//! `hansard ingest`: imports the transcripts of agents into the journal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use capture::{AGENTS, DatabaseGuard, IngestProgress, IngestSummary, StopFlag};
use clap::Args;
use clap::builder::PossibleValuesParser;
use daemon::{RunningDaemon, Settings};
use event::Time;
use ingest::{Ingest as Pass, Ingested};
use journal::{Journal, Options};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, format_count, format_several};
use crate::world;

/// Read what agents have written, without a daemon.
#[derive(Args)]
pub(crate) struct IngestArgs {
    /// Read everything once and stop, instead of following new output
    #[arg(long)]
    once: bool,
    /// Parse the stored originals of an agent again, after an update
    #[arg(long, value_name = "AGENT", value_parser = agent_names(), conflicts_with = "once")]
    reparse: Option<String>,
    /// The home folder of the agents [default: yours]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Serialize)]
struct IngestReport {
    sessions: IngestedSessions,
    events: u64,
    bytes: u64,
    files: u64,
    unknown_records: u64,
    warnings: Vec<WarningShape>,
    elapsed_ms: u64,
    cpu_ms: Option<u64>,
    by_provider: BTreeMap<&'static str, ProviderCounts>,
    /// It was stopped before everything was read.
    stopped: bool,
}

/// What one round of following recorded.
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
struct IngestedSessions {
    new: u64,
    updated: u64,
    total: u64,
}

#[derive(Serialize)]
struct ProviderCounts {
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

impl IngestArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let environment = world::environment(self.home.as_deref())?;
        let journal = world::journal_to_fill(global, &Options::default(), output)?;
        let begun = Instant::now();
        let folder = world::journal_folder(global)?;
        // The claim would refuse it too, but this error says what to do instead.
        if let Some(running) = RunningDaemon::find(&folder) {
            let told =
                format!("the daemon (pid {}) already records what agents write", running.pid);
            return Err(CliError::new("held", told).hint(
                "`hansard bus listen --tract cortex` shows it as it happens; `hansard down` ends \
                 the daemon",
            ));
        }
        // Before anything is read: with settings it cannot read, it could record what the user
        // excluded.
        let policy = Settings::load(&folder)?.recording();
        let clock = &world::now;
        let guard = DatabaseGuard::default();
        let pass = Pass { journal: &journal, environment: &environment, clock, policy, guard };
        if !self.once && self.reparse.is_none() {
            return follow_sources(&pass, &journal, output);
        }
        let stop = StopFlag::default();
        // A flag instead of a thread: most runs end before a thread would have started.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, stop.flag())?;
        }
        let mut tell =
            |progress: &IngestProgress| output.progress(|| format_progress(progress, begun));
        let ingested = match &self.reparse {
            Some(agent) => pass.reparse_agent(agent, &stop, &mut tell)?,
            None => pass.ingest_all(&stop, &mut tell)?,
        };
        let stopped = stop.is_asked();
        // Before the report: what it says is then on disk.
        journal.close();
        let report = IngestReport { stopped, ..IngestReport::from_ingested(ingested, begun) };
        print_report(&report, output)?;
        output.flush()?;
        if report.stopped {
            output.warn("stopped before everything was read; the next run continues from here");
            // A negative answer, so that a script knows that the rest is missing.
            return Ok(Completion::Negative);
        }
        Ok(Completion::Success)
    }
}

/// The names of the supported agents.
fn agent_names() -> PossibleValuesParser {
    AGENTS.iter().map(|agent| agent.provider()).into()
}

/// Follows until Ctrl-C or SIGTERM.
fn follow_sources(pass: &Pass<'_>, journal: &Journal, output: &mut CliOutput) -> CommandResult {
    let signals = Signals::new([SIGINT, SIGTERM])?;
    let handle = signals.handle();
    // The stopper exists only once the watch has begun, so the signals are handed in.
    let followed = pass
        .follow(|stopper| on_signal(signals, move || stopper.stop()), &mut |round| {
            print_round(round, output)
        });
    // Ends the thread of the signals, also after an error.
    handle.close();
    followed?;
    journal.close();
    output.flush()?;
    Ok(Completion::Success)
}

/// Acts on the first signal.
pub(super) fn on_signal(mut signals: Signals, act: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            act();
        }
    });
}

/// Prints one line per round with new events.
fn print_round(round: &IngestSummary, output: &mut CliOutput) {
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
            "{} of {} ({})",
            format_several(round.events, "event"),
            format_several(sessions as u64, "session"),
            format_size(round.bytes)
        )),
    };
    // A closed stdout is no reason to stop recording.
    let _ = told.and_then(|()| output.flush());
}

impl IngestReport {
    fn from_ingested(ingested: Ingested, begun: Instant) -> IngestReport {
        let Ingested { sessions_new, sessions_updated, sessions_total, events, read } = ingested;
        let providers = read.by_provider.into_iter().map(|(name, provider)| {
            let sessions = provider.sessions.len() as u64;
            (name, ProviderCounts { sessions, events: provider.events, bytes: provider.bytes })
        });
        let warnings = read.warnings.into_iter().map(|warning| WarningShape {
            kind: warning.kind.as_str(),
            provider: warning.provider,
            version: warning.version,
            path: warning.path.map(|path| path.display().to_string()),
            message: warning.message,
            count: warning.count,
        });
        IngestReport {
            sessions: IngestedSessions {
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

fn format_progress(progress: &IngestProgress, begun: Instant) -> String {
    let IngestProgress { sources, sources_total, bytes, bytes_total, events } = *progress;
    // No bytes at all count as done.
    let share = bytes.saturating_mul(100).checked_div(bytes_total).unwrap_or(100).min(100);
    let seconds = begun.elapsed().as_secs_f64();
    // Before the first byte there is no speed to go by.
    let left = match bytes {
        0 => String::new(),
        _ => {
            let rest = bytes_total.saturating_sub(bytes) as f64;
            format!(", {:.0} s left", rest * seconds / bytes as f64)
        }
    };
    format!(
        "{share:>3} %  {} of {} files, {} events, {} of {}{left}",
        format_count(sources),
        format_count(sources_total),
        format_count(events),
        format_size(bytes),
        format_size(bytes_total)
    )
}

fn print_report(report: &IngestReport, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(report);
    }
    let IngestReport { sessions, events, bytes, files, elapsed_ms, .. } = report;
    let seconds = *elapsed_ms as f64 / 1_000.0;
    let speed = match (elapsed_ms, bytes) {
        (0, _) | (_, 0) => String::new(),
        _ => format!(", {}/s", format_size((*bytes as f64 / seconds) as u64)),
    };
    output.line(format!(
        "{} from {} ({}) in {seconds:.1} s{speed}",
        format_several(*events, "new event"),
        format_several(*files, "file"),
        format_size(*bytes)
    ))?;
    output.line(format!(
        "{}: {} new, {} updated",
        format_several(sessions.total, "session"),
        format_count(sessions.new),
        format_count(sessions.updated)
    ))?;
    for (name, provider) in &report.by_provider {
        let ProviderCounts { sessions, events, bytes } = provider;
        let name = output.styled(Style::Bold, format!("{name:<10}"));
        output.line(format!(
            "  {name} {:>6} sessions {:>9} events {:>10}",
            format_count(*sessions),
            format_count(*events),
            format_size(*bytes)
        ))?;
    }
    print_warnings(&report.warnings, output);
    Ok(())
}

/// Prints the first few warnings of each kind, and how many more there are.
fn print_warnings(warnings: &[WarningShape], output: &mut CliOutput) {
    const SHOWN_MAX: u64 = 3;
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for warning in warnings {
        let count = told.entry(warning.kind).or_default();
        *count += 1;
        // A folder with thousands of torn files must not fill the screen.
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

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
