//! `hansard resume`: the agent's own command to go on with a session.

use std::os::unix::process::CommandExt;
use std::path::Path;

use capture::AGENTS;
use clap::Args;
use event::payload::SessionMode;
use journal::{Journal, SessionInfo};
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
struct Way {
    session_id: String,
    command: Vec<String>,
    cwd: Option<String>,
}

impl Resume {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let Some(way) = Way::of(&journal, info.clone())? else {
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
            output.json_line(&way)?;
        } else {
            output.line(plain(&way.line()))?;
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

/// What a person types to go on with a session, if its agent has such a command.
pub(crate) fn resume_line(
    journal: &Journal,
    info: &SessionInfo,
) -> Result<Option<String>, CliError> {
    Ok(Way::of(journal, info.clone())?.map(|way| way.line()))
}

impl Way {
    fn of(journal: &Journal, info: SessionInfo) -> Result<Option<Way>, CliError> {
        let info = main_session(journal, info)?;
        let cwd = daemon::facts_of(journal, &info)?.about().cwd.clone().or(info.cwd.clone());
        let agent = AGENTS.iter().find(|agent| agent.provider() == info.provider);
        let session = info.provider_session_id.as_deref();
        let command =
            agent.zip(session).and_then(|(agent, session)| agent.resume(session, cwd.as_deref()));
        Ok(command.map(|command| Way { session_id: info.id.to_string(), command, cwd }))
    }

    fn line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        let folder = self.cwd.as_ref().map(|cwd| format!("cd {} && ", quoted(cwd)));
        format!("{}{}", folder.unwrap_or_default(), words.join(" "))
    }
}

/// A subagent is not resumed by itself: whoever asked for it is.
fn main_session(journal: &Journal, mut info: SessionInfo) -> Result<SessionInfo, CliError> {
    while info.mode() == Some(&SessionMode::Child)
        && let Some(parent) = info.ancestry.parent_session_id.clone()
        && journal.exists(&parent)?
    {
        info = journal.stat(&parent)?;
    }
    Ok(info)
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

/// A word as a shell takes it, whatever is in it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_takes_any_word_as_it_is() {
        assert_eq!(quoted("/home/dev/a-b.c"), "/home/dev/a-b.c");
        assert_eq!(quoted("my project"), "'my project'");
        assert_eq!(quoted("$(rm -rf ~)"), "'$(rm -rf ~)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
