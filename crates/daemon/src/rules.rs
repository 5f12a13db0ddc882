//! The rules of the user: events of the journal, and the compiled file that hooks read.
//!
//! The journal is the truth. The file follows it: every change compiles it anew, and the daemon
//! does when it starts, for a change that was cut off in between. Hooks read no settings, so what
//! concerns them is put beside the file.

use std::io;

use event::payload::{RuleAdded, RuleRemoved};
use event::{Draft, EventId, Kind, SessionId, Time, USER_RECORDS};
use hooks::{RulesFile, RulesFileError};
use journal::{AppendError, Batch, Journal, ReadError};
use rules::{BadRule, CompiledRules, Origin, Rule, RuleSet};
use session::Host;

use crate::settings::{Settings, SettingsError};

/// How often the file is written when other processes change rules meanwhile. Each time means a
/// change by another process, which compiles the file as well.
const COMPILES_MAX: u32 = 100;

/// The rules of a journal.
#[derive(Clone, Copy)]
pub struct RuleStore<'a> {
    journal: &'a Journal,
}

/// A rule in force.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredRule {
    pub id: EventId,
    /// The line as the user wrote it.
    pub line: String,
    /// A line of a newer program may not be understood; it is kept and decides nothing.
    pub rule: Result<Rule, BadRule>,
    /// Where it was taken from; absent if the user wrote it.
    pub origin: Option<String>,
    pub added_at: Time,
}

/// Why rules could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum RuleStoreError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the rules are recorded, but hooks still read the old ones: cannot write `{path}`")]
    Compile { path: String, source: io::Error },
}

impl<'a> RuleStore<'a> {
    pub fn new(journal: &'a Journal) -> RuleStore<'a> {
        RuleStore { journal }
    }

    /// The rules in force, the oldest first.
    pub fn rules(&self) -> Result<Vec<StoredRule>, ReadError> {
        Ok(self.read()?.0)
    }

    /// Adds rules and returns them as stored. A line that is in force already is not added again.
    pub fn add(
        &self,
        lines: &[String],
        origin: Option<&str>,
        host: &Host,
    ) -> Result<Vec<StoredRule>, RuleStoreError> {
        self.check_settings()?;
        let (known, _) = self.read()?;
        let mut stored: Vec<StoredRule> = Vec::new();
        let mut batch = Batch::observed();
        for line in lines {
            let is_equal = |rule: &&StoredRule| rule.line == *line;
            let before = known.iter().find(is_equal).or_else(|| stored.iter().find(is_equal));
            if let Some(rule) = before.cloned() {
                stored.push(rule);
                continue;
            }
            let now = host.now();
            let added = RuleAdded { rule: line.clone(), origin: origin.map(str::to_owned) };
            let draft = draft(host.new_event_id(now), now, line.clone(), &added);
            stored.push(StoredRule::new(draft.id, now, added));
            batch = batch.with(draft);
        }
        if stored.iter().any(|rule| !known.contains(rule)) {
            self.journal.append(batch)?;
        }
        self.compile()?;
        Ok(stored)
    }

    /// Removes rules.
    pub fn remove(&self, removed: &[StoredRule], host: &Host) -> Result<(), RuleStoreError> {
        self.check_settings()?;
        let drafts = removed.iter().map(|rule| {
            let now = host.now();
            let removed = RuleRemoved { rule_id: rule.id.to_string() };
            draft(host.new_event_id(now), now, rule.line.clone(), &removed)
        });
        self.journal.append(Batch::observed().with_all(drafts))?;
        self.compile()
    }

    /// Writes the compiled file, unless it is what the journal says.
    pub fn compile(&self) -> Result<(), RuleStoreError> {
        let Some((folder, file)) = self.journal.dir().zip(self.file()) else { return Ok(()) };
        let failed = |source| {
            let path = file.path().display().to_string();
            RuleStoreError::Compile { path, source }
        };
        let is_fail_closed = Settings::load(folder)?.rules.fail_closed;
        for _ in 0..COMPILES_MAX {
            let (rules, position) = self.read()?;
            let compiled = compile(&rules, position);
            match file.read() {
                // Hooks that refuse what they cannot judge need a file, also without a rule.
                Ok(None) if position == 0 && !is_fail_closed => {
                    return file.set_fail_closed(false).map_err(failed);
                }
                // The same bytes, not only the same position: another version of this program
                // may have compiled them.
                Ok(Some(there)) if there == compiled => {
                    return file.set_fail_closed(is_fail_closed).map_err(failed);
                }
                _ => {}
            }
            // Another process may add a rule now, and its file may be in place before this one.
            // So what was written is compared with the journal once more.
            file.replace(&compiled).map_err(failed)?;
        }
        Err(failed(io::Error::other("other processes change the rules all the time")))
    }

    /// Why hooks do not have the rules of the journal; `None` if they do.
    pub fn problem(&self) -> Result<Option<String>, ReadError> {
        let Some(file) = self.file() else { return Ok(None) };
        let (rules, position) = self.read()?;
        let problem = match file.read() {
            Ok(None) if position == 0 => None,
            Ok(Some(there)) if there == compile(&rules, position) => None,
            Ok(_) => Some("hooks read older rules".to_owned()),
            Err(RulesFileError::Bad { source, path }) => {
                Some(format!("hooks cannot use `{}`: {source}", path.display()))
            }
            Err(error) => Some(error.to_string()),
        };
        Ok(problem)
    }

    /// Before anything is recorded: with settings that cannot be read, the change could not be
    /// handed to hooks.
    fn check_settings(&self) -> Result<(), RuleStoreError> {
        if let Some(folder) = self.journal.dir() {
            Settings::load(folder)?;
        }
        Ok(())
    }

    fn file(&self) -> Option<RulesFile> {
        self.journal.dir().map(RulesFile::in_journal)
    }

    /// The rules in force, and the `seq` up to which that is so.
    fn read(&self) -> Result<(Vec<StoredRule>, u64), ReadError> {
        let kinds = [Kind::RuleAdded, Kind::RuleRemoved];
        let events = match self.journal.own_events(&session(), &kinds) {
            Err(ReadError::SessionNotFound(_)) => return Ok((Vec::new(), 0)),
            events => events?,
        };
        let mut rules: Vec<StoredRule> = Vec::new();
        let mut seq = 0;
        for event in events {
            seq = seq.max(event.seq);
            if let Some(added) = event.readable::<RuleAdded>() {
                rules.push(StoredRule::new(event.id, event.created_at, added));
            } else if let Some(removed) = event.readable::<RuleRemoved>() {
                rules.retain(|rule| rule.id.to_string() != removed.rule_id);
            }
        }
        Ok((rules, seq))
    }
}

impl StoredRule {
    fn new(id: EventId, added_at: Time, added: RuleAdded) -> StoredRule {
        let rule = added.rule.parse();
        StoredRule { id, line: added.rule, rule, origin: added.origin, added_at }
    }
}

fn compile(rules: &[StoredRule], position: u64) -> CompiledRules {
    let mut set = RuleSet::new();
    for stored in rules {
        if let Ok(rule) = &stored.rule {
            set.push(stored.id.to_string(), Origin::User, rule.clone())
                .expect("only rules of a hub are refused");
        }
    }
    CompiledRules::compile(&set, position)
}

fn draft(id: EventId, now: Time, line: String, payload: &impl event::payload::Payload) -> Draft {
    let draft = Draft::new(id, session(), now, payload).expect("payloads always encode");
    let provider_session_id = Some(RULES.to_owned());
    Draft { provider: USER_RECORDS.to_owned(), provider_session_id, text: Some(line), ..draft }
}

/// The provider's id of the session of the log that has the rules.
const RULES: &str = "rules";

fn session() -> SessionId {
    SessionId::new(format!("{USER_RECORDS}:{RULES}")).expect("it is short and not empty")
}

#[cfg(test)]
mod tests;
