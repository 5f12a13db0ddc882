//! `hansard reload`: makes the daemon reload its settings and `services.toml`.

use clap::Args;
use daemon::Settings;
use serde_json::json;

use super::bus::SocketArgs;
use super::supervisor_client::{SupervisorClient, is_answer, own_ref};
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Make the daemon read its settings again
///
/// It reads `config.toml` and `services.toml`. A file with an error is refused with the line of
/// the error, and the earlier settings stay. Exit code 3 if no daemon is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    at: SocketArgs,
}

impl ReloadArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let running = world::find_daemon(global)?;
        Settings::load(&world::journal_folder(global)?)?;
        running.reload()?;
        // The supervisor reports itself whether `services.toml` was accepted.
        let client = SupervisorClient::open(self.at.path(global)?, &["reloaded"])?;
        let reference = own_ref();
        client.send_request("reload", &[("ref", json!(reference))])?;
        let answer =
            client.wait_for(|it| is_answer(it, "reloaded", &reference).then(|| it.to_json()))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(CliError::new("bad_services", error)
                .hint("correct it and reload again; docs/guide/supervisor.md describes the file"));
        }
        match output.json() {
            true => output.json_line(&json!({"pid": running.pid, "reloaded": true}))?,
            false => {
                let pid = running.pid;
                output.line(format!("process {pid} has reloaded its settings and services"))?;
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}
