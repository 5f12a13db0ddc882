//! `hansard resume`: the agent's own command to resume a session.

use std::os::unix::process::CommandExt;
use std::path::Path;

use clap::Args;
use daemon::{ResumeCommand, ResumeError};
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, escape_controls};
use crate::world;

/// Print or run the command with which the agent resumes a session.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// Run the command in the session's folder instead of printing it
    #[arg(long)]
    run: bool,
}

/// How to resume a session.
#[derive(Serialize)]
struct ResumeShape {
    session_id: String,
    command: Vec<String>,
    cwd: Option<String>,
}

impl ResumeArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let way = match ResumeCommand::for_session(&journal, info.clone()) {
            Ok(way) => way,
            Err(ResumeError::Read(error)) => return Err(error.into()),
            Err(refusal) => return Err(cannot_resume(&info.provider, &refusal)),
        };
        if self.run {
            output.flush()?;
            return Err(run(&way.command, way.cwd.as_deref()));
        }
        if output.json() {
            let ResumeCommand { session_id, command, cwd } = way;
            output.json_line(&ResumeShape { session_id, command, cwd })?;
        } else {
            output.line(escape_controls(&way.line()))?;
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Says why the agent cannot take the session up, and what can be done instead.
fn cannot_resume(provider: &str, refusal: &ResumeError) -> CliError {
    let message = match refusal {
        ResumeError::NoCommand => format!("cannot resume sessions of `{provider}`"),
        refusal => escape_controls(&refusal.to_string()),
    };
    CliError::new("cannot_resume", message)
        .hint("`hansard export --handoff` writes a note for another agent")
}

/// Replaces this process with the agent; returns only on failure.
fn run(command: &[String], cwd: Option<&str>) -> CliError {
    let Some((program, arguments)) = command.split_first() else {
        return CliError::new("cannot_resume", "the agent's command is empty");
    };
    let mut agent = std::process::Command::new(program);
    agent.args(arguments);
    if let Some(cwd) = cwd {
        if !Path::new(cwd).is_dir() {
            return CliError::new("no_folder", format!("the session's folder `{cwd}` is gone"))
                .hint("run the command that `hansard resume` prints, in another folder");
        }
        agent.current_dir(cwd);
    }
    let error = agent.exec();
    CliError::new("cannot_resume", format!("cannot start `{program}`: {error}"))
        .hint("is the agent installed, and on your PATH?")
}
