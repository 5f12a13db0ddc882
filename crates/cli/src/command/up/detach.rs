//! Starts the daemon in the background.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Starts a daemon, waits until it is ready, and prints what it printed.
pub(super) fn start_daemon(
    home: Option<&Path>,
    global: &Global,
    output: &mut CliOutput,
) -> CommandResult {
    // The same program, also if `PATH` has another version.
    let mut command = Command::new(std::env::current_exe()?);
    // Absolute: the daemon runs in `/`.
    command.arg("--journal").arg(std::path::absolute(world::journal_folder(global)?)?);
    // As JSON, so that the one line of readiness can be parsed.
    command.args(["--json", "up"]);
    if let Some(home) = home {
        command.arg("--home").arg(home);
    }
    // A process group of its own, so that Ctrl-C in this terminal does not reach it.
    let mut child = command
        .process_group(0)
        // A daemon in the folder of the user would keep that disk from being unmounted.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A daemon that cannot start says why here. Later both pipes are closed, and it ignores
        // that.
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    // The first line means that the bus answers; an end without one means failure.
    BufReader::new(stdout).read_line(&mut line)?;
    if line.is_empty() {
        return Err(daemon_error(child)?);
    }
    if output.json() {
        output.line(line.trim_end())?;
    } else {
        output.line(format!("up (pid {}), in the background", child.id()))?;
    }
    output.flush()?;
    Ok(Completion::Success)
}

/// Returns the daemon's own error.
fn daemon_error(mut child: Child) -> Result<CliError, CliError> {
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut words)?;
    }
    child.wait()?;
    // The error is the last line that is JSON; warnings may stand before it.
    let told: serde_json::Value =
        words.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let text = |name: &str| told["error"][name].as_str().map(str::to_owned);
    let message = text("message").unwrap_or_else(|| "the daemon did not start".to_owned());
    let error = CliError::new("not_started", message);
    Ok(match text("hint") {
        Some(hint) => error.hint(hint),
        None => error,
    })
}
