//! `hansard reload`: has the daemon read its settings again.

use clap::Args;
use daemon::Settings;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Have the daemon read its settings again. A file that is not understood is refused, with the line,
/// and the former settings stay. Exit code 3 if no daemon runs.
#[derive(Args)]
pub(crate) struct Reload {}

#[derive(Serialize)]
struct Told {
    pid: u32,
}

impl Reload {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let running = world::daemon(global)?;
        Settings::load(&world::folder(global)?)?;
        running.reload()?;
        match output.json() {
            true => output.json_line(&Told { pid: running.pid })?,
            false => {
                output.line(format!("told process {} to read its settings again", running.pid))?
            }
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}
