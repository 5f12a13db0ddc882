//! `hansard reload`: the daemon reads its settings and `services.toml` again.

use clap::Args;
use daemon::Settings;
use serde_json::json;

use super::bus::At;
use super::talk::{Talk, answers, own_ref};
use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Have the daemon read its settings and `services.toml` again. A file that is not understood is
/// refused, with the line, and what was said before stays. Exit code 3 if no daemon runs.
#[derive(Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    at: At,
}

impl Reload {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let running = world::daemon(global)?;
        Settings::load(&world::folder(global)?)?;
        running.reload()?;
        // Of its services it says itself whether they were understood.
        let talk = Talk::open(self.at.path(global)?, &["reloaded"])?;
        let reference = own_ref();
        talk.say("reload", &[("ref", json!(reference))])?;
        let answer = talk.wait(|it| answers(it, "reloaded", &reference).then(|| it.to_json()))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(CliError::new("bad_services", error)
                .hint("mend it and reload again; docs/supervisor.md says how it is written"));
        }
        match output.json() {
            true => output.json_line(&json!({"pid": running.pid, "reloaded": true}))?,
            false => {
                let pid = running.pid;
                output.line(format!("process {pid} has read its settings and services again"))?;
            }
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}
