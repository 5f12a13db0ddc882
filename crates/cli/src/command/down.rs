//! `hansard down`: ends the daemon of a journal, and waits until it has.

use clap::Args;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// End the daemon and wait until it has ended. Exit code 3 if none runs.
#[derive(Args)]
pub(crate) struct Down {}

#[derive(Serialize)]
struct Ended {
    pid: u32,
}

impl Down {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let running = world::daemon(global)?;
        running.stop()?;
        running.wait()?;
        match output.json() {
            true => output.json_line(&Ended { pid: running.pid })?,
            false => output.line(format!("ended (pid {})", running.pid))?,
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}
