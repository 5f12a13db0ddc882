//! `hansard bus stats`: the connected clients and what was relayed.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use bus::Message;

use super::{CommandResult, Completion};
use crate::error::CliError;
use crate::output::{CliOutput, Style, one_line};

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Print again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// The interval of `--watch`.
const EVERY: Duration = Duration::from_secs(2);

/// Characters of a name in the table.
const NAME_MAX: usize = 24;

impl StatsArgs {
    pub(super) fn run(&self, path: &Path, output: &mut CliOutput) -> CommandResult {
        // Once before the loop, so that a missing bus fails at once.
        print_stats(&bus::query_stats(path)?, output)?;
        if !self.watch {
            return Ok(Completion::Success);
        }
        // Never sent to: dropping the sender is the signal.
        let (stopped, stop) = std::sync::mpsc::sync_channel::<()>(0);
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::spawn(move || {
            signals.forever().next();
            drop(stopped);
        });
        while stop.recv_timeout(EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            print_stats(&bus::query_stats(path)?, output)?;
        }
        Ok(Completion::Success)
    }
}

fn print_stats(stats: &Message, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        output.line(stats.ascii_line())?;
        return output.flush();
    }
    let stats = stats.to_json();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let clients = stats["clients"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.line(format!(
        "up {} s, {} clients, {} bytes buffered",
        number(&stats["uptime_seconds"]),
        clients.len(),
        number(&stats["tape_bytes"])
    ))?;
    let head = format!(
        "{:>6} {:>8} {:<NAME_MAX$} {:>12} {:>10} {:>10} {:>8} state",
        "client", "pid", "name", "sent bytes", "received", "behind", "dropped"
    );
    output.line(output.styled(Style::Bold, head))?;
    for client in clients {
        let dropped: u64 =
            client["dropped"].as_object().map_or(0, |by| by.values().map(number).sum());
        output.line(format!(
            "{:>6} {:>8} {:<NAME_MAX$} {:>12} {:>10} {:>10} {:>8} {}",
            number(&client["id"]),
            client["pid"].as_u64().map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            one_line(client["name"].as_str().unwrap_or("-"), NAME_MAX),
            number(&client["sent"]),
            number(&client["received"]),
            number(&client["behind_bytes"]),
            dropped,
            one_line(client["state"].as_str().unwrap_or("-"), NAME_MAX),
        ))?;
    }
    for (name, count) in nonzero_counts(&stats["messages"]) {
        let bytes = number(&stats["bytes"][&name]);
        output.line(format!(
            "{count:>10} messages, {bytes:>12} bytes of {}",
            one_line(&name, NAME_MAX)
        ))?;
    }
    for (reason, count) in nonzero_counts(&stats["ignored"]) {
        output.line(format!("{count:>10} lines not relayed: {}", one_line(&reason, NAME_MAX)))?;
    }
    output.flush()
}

/// Returns the counts that are not zero.
fn nonzero_counts(map: &Value) -> Vec<(String, u64)> {
    let entries = map.as_object().into_iter().flatten();
    let counts = entries.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)));
    counts.filter(|(_, count)| *count > 0).collect()
}
