//! `hansard service`: what the daemon keeps alive.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bus::At;
use super::talk::{Talk, is_about, text};
use super::up::install;
use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, one_line};

/// What the daemon keeps alive, as `services.toml` says; see docs/supervisor.md.
///
/// Exit codes: 0 done, 1 it failed or is not so, 2 wrong usage, 3 no daemon.
#[derive(Args)]
pub(crate) struct Service {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Tell what runs, and what does not stay up
    List,
    /// End a service, start it anew, and see for five seconds whether it stays up
    Restart {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Have the system start the daemon when you log in, as `up --install` does
    Install,
}

/// A daemon that knows a service says so at once.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);

/// One that has ended again so soon after its start has not come up.
const STAYS_UP: Duration = Duration::from_secs(5);

/// Letters of a name and a ref in the list.
const NAME_MAX: usize = 24;

impl Service {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let path = self.at.path(global)?;
        match &self.verb {
            Verb::Install => install::install(global, output),
            Verb::List => list(&Talk::open(path, &[])?.status()?, output),
            Verb::Restart { name } => {
                restart(&Talk::open(path, &["restarting", "started", "stopped"])?, name, output)
            }
        }
    }
}

fn restart(talk: &Talk, name: &str, output: &mut Output) -> Result<Done, CliError> {
    // Somebody has to be there who could know it.
    talk.status()?;
    talk.say("restart", &[("service", json!(name))])?;
    let started = |message: &bus::Message| {
        is_about(message, "started", name).then(|| Some(message.to_json()))
    };
    let first = talk.wait_within(KNOWN_WITHIN, |message| {
        started(message).or_else(|| is_about(message, "restarting", name).then_some(None))
    });
    let told = match first {
        None => {
            let told = format!("there is no service `{name}` that could be restarted");
            return Err(CliError::new("no_service", told)
                .hint("`hansard service list` tells what runs, `services.toml` what should"));
        }
        Some(Some(told)) => told,
        Some(None) => talk.wait(|message| started(message).flatten())?,
    };
    if output.json() {
        output.json_line(&told)?;
    } else {
        output.line(format!("started, process {}", told["pid"]))?;
    }
    output.flush()?;
    let is_its_end = |message: &bus::Message| {
        is_about(message, "stopped", name)
            .then(|| message.to_json())
            .filter(|end| end["ref"] == told["ref"])
    };
    match talk.wait_within(STAYS_UP, is_its_end) {
        None => Ok(Done::Yes),
        Some(end) => {
            let told = format!("`{name}` has ended at once: exit {}", end["exit_code"]);
            Err(CliError::new("crashed", told)
                .hint(format!("`hansard logs {name}` has what it printed")))
        }
    }
}

fn list(status: &Value, output: &mut Output) -> Result<Done, CliError> {
    if output.json() {
        let services = json!({
            "services": status["services"],
            "crashed": status["crashed"],
            "stale_heartbeats": status["stale_heartbeats"],
            "faults": status["faults"],
        });
        output.json_line(&services)?;
        output.flush()?;
        return Ok(Done::Yes);
    }
    let rows = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    let crashed = rows("crashed");
    let attempts = |name: &str| {
        let fallen = crashed.iter().find(|it| text(it, "name") == name);
        fallen.and_then(|it| it["restart_attempts"].as_u64()).unwrap_or(0)
    };
    let head = format!(
        "{:<NAME_MAX$} {:>8} {:>10} {:>8} {:<NAME_MAX$}",
        "name", "pid", "up seconds", "attempts", "ref"
    );
    output.line(output.styled(Style::Bold, head))?;
    let running = rows("services");
    for service in &running {
        let name = text(service, "name");
        output.line(format!(
            "{:<NAME_MAX$} {:>8} {:>10} {:>8} {:<NAME_MAX$}",
            one_line(name, NAME_MAX),
            service["pid"].as_u64().unwrap_or(0),
            service["uptime_seconds"].as_u64().unwrap_or(0),
            attempts(name),
            one_line(text(service, "ref"), NAME_MAX),
        ))?;
    }
    let is_down = |it: &&Value| !running.iter().any(|up| up["name"] == it["name"]);
    for service in crashed.iter().filter(is_down) {
        let name = text(service, "name");
        let (name, attempts) = (one_line(name, NAME_MAX), attempts(name));
        output.line(format!("{name:<NAME_MAX$} {:>8} {:>10} {attempts:>8} -", "-", "-"))?;
    }
    for fault in rows("faults").iter().filter_map(Value::as_str) {
        output.warn(format!("warning: {fault}"));
    }
    output.flush()?;
    Ok(Done::Yes)
}
