//! The agent's own command that resumes a session.

use std::collections::BTreeSet;

use capture::AGENTS;
use event::payload::SessionMode;
use journal::{Journal, ReadError, SessionInfo};

use projection::Facts;
use views::load_current;

/// The command that resumes a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumeCommand {
    pub session_id: String,
    pub command: Vec<String>,
    pub cwd: Option<String>,
}

impl ResumeCommand {
    /// The command for this session, if its agent has one.
    pub fn for_session(
        journal: &Journal,
        info: SessionInfo,
    ) -> Result<Option<ResumeCommand>, ReadError> {
        let info = main_session(journal, info)?;
        // The folder that the latest events name; that of the start only if none does.
        let cwd = load_current::<Facts>(journal, &info)?.about().cwd.clone().or(info.cwd.clone());
        let agent = AGENTS.iter().find(|agent| agent.provider() == info.provider);
        let session = info.provider_session_id.as_deref();
        let command = agent
            .zip(session)
            .and_then(|(agent, session)| agent.resume_command(session, cwd.as_deref()));
        Ok(command.map(|command| ResumeCommand { session_id: info.id.to_string(), command, cwd }))
    }

    /// The line to type into a shell.
    pub fn line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        // Some agents find a session only in the folder where it ran.
        let folder = self.cwd.as_ref().map(|cwd| format!("cd {} && ", quoted(cwd)));
        format!("{}{}", folder.unwrap_or_default(), words.join(" "))
    }
}

/// The session to resume: for a subagent its parent. Parents may form a circle in a damaged record, so
/// each is visited once.
fn main_session(journal: &Journal, mut info: SessionInfo) -> Result<SessionInfo, ReadError> {
    // The first session as well: a circle may lead back to it.
    let mut below = BTreeSet::from([info.id.clone()]);
    while info.mode() == Some(&SessionMode::Child)
        && let Some(parent) = info.ancestry.parent_session_id.clone()
        // `insert` is false for a session that was visited, which ends a circle.
        && below.insert(parent.clone())
        && journal.exists(&parent)?
    {
        info = journal.stat(&parent)?;
    }
    Ok(info)
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // Nothing is special between single quotes; a quote itself ends them, stands escaped, and
    // begins them again.
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use event::payload::{SessionParent, SessionStarted};
    use event::{Draft, EventId, SessionId, Time};
    use journal::{Batch, Options};

    use super::*;

    #[test]
    fn circle_of_parents_ends() {
        let dir = tempfile::TempDir::new().unwrap();
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.unwrap();
        let session = |name: &str| SessionId::new(format!("claude:{name}")).unwrap();
        for (name, parent) in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")] {
            let parent = SessionParent { session_id: session(parent), seq: 0, event_id: None };
            let (parent, mode) = (Some(parent), Some(SessionMode::Child));
            let started = SessionStarted { parent, mode, ..SessionStarted::default() };
            let at = Time::from_millis(1_800_000_000_000);
            let id = EventId::derived(at, "claude", name, b"started");
            let draft = Draft::new(id, session(name), at, &started).unwrap();
            journal.append(Batch::observed().with(draft)).unwrap();
        }
        for (name, last) in [("a", "c"), ("d", "c")] {
            let info = main_session(&journal, journal.stat(&session(name)).unwrap()).unwrap();
            assert_eq!(info.id, session(last));
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("/home/dev/a-b.c"), "/home/dev/a-b.c");
        assert_eq!(quoted("my project"), "'my project'");
        assert_eq!(quoted("$(rm -rf ~)"), "'$(rm -rf ~)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
