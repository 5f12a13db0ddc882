//! The agent's own command that resumes a session.

use std::borrow::Cow;
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

/// Why a session cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error("its agent has no resume command")]
    NoCommand,
    /// The id came with an imported record. No agent gives such an id, and the agent would read it
    /// as an option.
    #[error("the session's id `{id}` is not one that an agent gives: it would be run as an option")]
    UnsafeId { id: String },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ResumeCommand {
    /// The command for this session.
    pub fn for_session(journal: &Journal, info: SessionInfo) -> Result<ResumeCommand, ResumeError> {
        let info = main_session(journal, info)?;
        // The folder that the latest events name; that of the start only if none does.
        let cwd = load_current::<Facts>(journal, &info)?.about().cwd.clone().or(info.cwd.clone());
        let agent = AGENTS.iter().find(|agent| agent.provider() == info.provider);
        let (agent, session) =
            agent.zip(info.provider_session_id.as_deref()).ok_or(ResumeError::NoCommand)?;
        // Agents differ in how they mark the end of options, so such an id is refused for all.
        if session.starts_with('-') || session.chars().any(char::is_control) {
            return Err(ResumeError::UnsafeId { id: session.to_owned() });
        }
        let command = agent.resume_command(session, cwd.as_deref());
        let command = command.ok_or(ResumeError::NoCommand)?;
        Ok(ResumeCommand { session_id: info.id.to_string(), command, cwd })
    }

    /// The command for this session, if there is one.
    pub fn find(journal: &Journal, info: SessionInfo) -> Result<Option<ResumeCommand>, ReadError> {
        match ResumeCommand::for_session(journal, info) {
            Ok(way) => Ok(Some(way)),
            Err(ResumeError::Read(error)) => Err(error),
            Err(ResumeError::NoCommand | ResumeError::UnsafeId { .. }) => Ok(None),
        }
    }

    /// The line to type into a shell.
    pub fn line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        // Some agents find a session only in the folder where it ran.
        let folder = self.cwd.as_ref().map(|cwd| format!("cd {} && ", quoted(&folder_word(cwd))));
        format!("{}{}", folder.unwrap_or_default(), words.join(" "))
    }
}

/// The folder as a word that `cd` does not read as an option. `cd -- -` would still go back to the
/// folder before.
fn folder_word(cwd: &str) -> Cow<'_, str> {
    match cwd.starts_with('-') {
        true => Cow::Owned(format!("./{cwd}")),
        false => Cow::Borrowed(cwd),
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

    /// A session of an agent with this id and folder, as an import may bring it.
    fn resume_line(provider: &str, id: &str, cwd: &str) -> Result<String, ResumeError> {
        let dir = tempfile::TempDir::new().unwrap();
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.unwrap();
        let session = SessionId::new(format!("{provider}:x")).unwrap();
        let started = SessionStarted { cwd: Some(cwd.to_owned()), ..SessionStarted::default() };
        let at = Time::from_millis(1_800_000_000_000);
        let event_id = EventId::derived(at, provider, id, b"started");
        let mut draft = Draft::new(event_id, session.clone(), at, &started).unwrap();
        draft.provider = provider.to_owned();
        draft.provider_session_id = Some(id.to_owned());
        journal.append(Batch::observed().with(draft)).unwrap();
        let info = journal.stat(&session).unwrap();
        ResumeCommand::for_session(&journal, info).map(|way| way.line())
    }

    #[test]
    fn ids_are_never_options() {
        let mut resumable = 0;
        for agent in AGENTS {
            for id in ["--dangerously-skip-permissions", "-y", "-", "a\nb"] {
                let refused = resume_line(agent.provider(), id, "/home/dev/app").unwrap_err();
                assert!(matches!(refused, ResumeError::UnsafeId { .. }), "{refused}");
            }
            let id = "$(touch x); it's";
            if let Ok(line) = resume_line(agent.provider(), id, "/home/dev/app") {
                assert!(line.ends_with(r"'$(touch x); it'\''s'"), "{line}");
                resumable += 1;
            }
        }
        assert!(resumable >= 9, "{resumable} agents");
    }

    #[test]
    fn folders_are_never_options() {
        let line = |cwd: &str| resume_line("claude", "s1", cwd).unwrap();
        assert_eq!(line("-la"), "cd ./-la && claude --resume s1");
        assert_eq!(line("-"), "cd ./- && claude --resume s1");
        assert_eq!(line("-x $(y)"), "cd './-x $(y)' && claude --resume s1");
        assert_eq!(line("/home/dev/app"), "cd /home/dev/app && claude --resume s1");
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
