//! `hansard down`: stops the daemon and waits for its end.

use clap::Args;
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::output::CliOutput;
use crate::world;

/// Stop the daemon
///
/// The command waits until the daemon has ended. Exit code 3 if none is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DownArgs {}

#[derive(Serialize)]
struct DownReport {
    pid: u32,
}

impl DownArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let running = world::find_daemon(global)?;
        running.stop()?;
        running.wait()?;
        match output.json() {
            true => output.json_line(&DownReport { pid: running.pid })?,
            false => output.line(format!("stopped (pid {})", running.pid))?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}
