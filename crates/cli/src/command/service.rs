//! `hansard service`: lists and restarts services.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bus::SocketArgs;
use super::supervisor_client::{SupervisorClient, is_about, text_or_dash};
use super::up::install;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, one_line};

/// List and restart the services that the daemon keeps running
///
/// `services.toml` defines them; docs/guide/supervisor.md describes it.
/// Exit codes: 0 success, 1 failure or a negative answer, 2 wrong usage, 3 no daemon is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServiceArgs {
    #[command(flatten)]
    at: SocketArgs,
    #[command(subcommand)]
    verb: ServiceVerb,
}

#[derive(Subcommand)]
enum ServiceVerb {
    /// List running and failing services
    List,
    /// Restart a service and check for five seconds that it stays up
    Restart {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Start the daemon at login, like `up --install`
    Install,
}

/// The daemon confirms a service that it knows at once.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);

/// A service that exits within this time did not come up.
const STAYS_UP: Duration = Duration::from_secs(5);

/// Characters of a name and a ref in the list.
const NAME_MAX: usize = 24;

impl ServiceArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let path = self.at.path(global)?;
        match &self.verb {
            ServiceVerb::Install => install::install_unit(global, output),
            ServiceVerb::List => {
                list_services(&SupervisorClient::open(path, &[])?.next_status()?, output)
            }
            ServiceVerb::Restart { name } => restart_service(
                &SupervisorClient::open(path, &["restarting", "started", "stopped"])?,
                name,
                output,
            ),
        }
    }
}

fn restart_service(client: &SupervisorClient, name: &str, output: &mut CliOutput) -> CommandResult {
    // Make sure that a daemon answers at all, or "no such service" would be wrong.
    client.next_status()?;
    client.send_request("restart", &[("service", json!(name))])?;
    let started = |message: &bus::Message| {
        is_about(message, "started", name).then(|| Some(message.to_json()))
    };
    // Either message shows that the daemon knows the service; `Some(None)` is one on its way.
    let first = client.wait_within(KNOWN_WITHIN, |message| {
        started(message).or_else(|| is_about(message, "restarting", name).then_some(None))
    });
    let told = match first {
        None => {
            let told = format!("there is no service `{name}` to restart");
            return Err(CliError::new("no_service", told).hint(
                "`hansard service list` lists running services, `services.toml` defines them",
            ));
        }
        Some(Some(told)) => told,
        // Stopping the former process may take long, so this waits as long as the daemon lives.
        Some(None) => client.wait_for(|message| started(message).flatten())?,
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
            // The end of the former process may arrive late; only that of the new one counts.
            .filter(|end| end["ref"] == told["ref"])
    };
    match client.wait_within(STAYS_UP, is_its_end) {
        None => Ok(Completion::Success),
        Some(end) => {
            let told = format!("`{name}` exited at once with code {}", end["exit_code"]);
            Err(CliError::new("crashed", told)
                .hint(format!("`hansard logs {name}` has what it printed")))
        }
    }
}

fn list_services(status: &Value, output: &mut CliOutput) -> CommandResult {
    if output.json() {
        let services = json!({
            "services": status["services"],
            "crashed": status["crashed"],
            "stale_heartbeats": status["stale_heartbeats"],
            "faults": status["faults"],
        });
        output.json_line(&services)?;
        output.flush()?;
        return Ok(Completion::Success);
    }
    let rows = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    let crashed = rows("crashed");
    if rows("services").is_empty() && crashed.is_empty() {
        output.note("no services are defined; docs/guide/supervisor.md shows how to add one");
    }
    let attempts = |name: &str| {
        let fallen = crashed.iter().find(|it| text_or_dash(it, "name") == name);
        fallen.and_then(|it| it["restart_attempts"].as_u64()).unwrap_or(0)
    };
    let head = format!(
        "{:<NAME_MAX$} {:>8} {:>10} {:>8} {:<NAME_MAX$}",
        "name", "pid", "up seconds", "attempts", "ref"
    );
    output.line(output.styled(Style::Bold, head.trim_end()))?;
    let running = rows("services");
    for service in &running {
        let name = text_or_dash(service, "name");
        let line = format!(
            "{:<NAME_MAX$} {:>8} {:>10} {:>8} {:<NAME_MAX$}",
            one_line(name, NAME_MAX),
            service["pid"].as_u64().unwrap_or(0),
            service["uptime_seconds"].as_u64().unwrap_or(0),
            attempts(name),
            one_line(text_or_dash(service, "ref"), NAME_MAX),
        );
        output.line(line.trim_end())?;
    }
    // A service may crash and run again; it is listed once, with its attempts.
    let is_down = |it: &&Value| !running.iter().any(|up| up["name"] == it["name"]);
    for service in crashed.iter().filter(is_down) {
        let name = text_or_dash(service, "name");
        let (name, attempts) = (one_line(name, NAME_MAX), attempts(name));
        output.line(format!("{name:<NAME_MAX$} {:>8} {:>10} {attempts:>8} -", "-", "-"))?;
    }
    for fault in rows("faults").iter().filter_map(Value::as_str) {
        output.warn(format!("warning: {fault}"));
    }
    output.flush()?;
    Ok(Completion::Success)
}
