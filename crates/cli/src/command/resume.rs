//! `hansard resume`: the agent's own command to go on with a session.

use std::os::unix::process::CommandExt;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, plain};
use crate::world;

#[derive(Args)]
pub(crate) struct Resume {
    /// The beginning of the session's id, ours or its provider's
    session: String,
    /// Run the command in the session's folder instead of printing it
    #[arg(long)]
    run: bool,
}

/// How to go on with a session.
#[derive(Serialize)]
struct ResumeShape {
    session_id: String,
    command: Vec<String>,
    cwd: Option<String>,
}

impl Resume {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let Some(way) = daemon::Way::of(&journal, info.clone())? else {
            let message = format!("no way is known to resume a session of `{}`", info.provider);
            return Err(CliError::new("cannot_resume", message).hint(
                "`hansard export --handoff` writes a note that another agent can begin with",
            ));
        };
        if self.run {
            output.flush()?;
            return Err(run(&way.command, way.cwd.as_deref()));
        }
        if output.json() {
            let daemon::Way { session_id, command, cwd } = way;
            output.json_line(&ResumeShape { session_id, command, cwd })?;
        } else {
            output.line(plain(&way.line()))?;
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

/// Becomes the agent; comes back only if that fails.
fn run(command: &[String], cwd: Option<&str>) -> CliError {
    let Some((program, arguments)) = command.split_first() else {
        return CliError::new("cannot_resume", "the agent has no command");
    };
    let mut agent = std::process::Command::new(program);
    agent.args(arguments);
    if let Some(cwd) = cwd {
        if !Path::new(cwd).is_dir() {
            return CliError::new("no_folder", format!("the session's folder `{cwd}` is gone"))
                .hint("run the command that `hansard resume` prints somewhere else");
        }
        agent.current_dir(cwd);
    }
    let error = agent.exec();
    CliError::new("cannot_resume", format!("cannot start `{program}`: {error}"))
        .hint("is the agent installed, and on your PATH?")
}
