//! Our entries in the settings of agents: installed, updated, removed, and checked.
//!
//! A file is changed as little as possible and never by half: it is copied to `backups/` of the
//! journal's folder first, written beside itself, and replaced only if no other program has changed
//! it meanwhile. A file that does not parse is left alone and named.

mod jsonc; // edits of JSON that keep all other bytes
mod entries; // our entries in a settings file
mod plugin; // the program that OpenCode loads
mod trust; // whether Codex runs our entries
mod settings_file; // a settings file, changed safely

use std::path::{Path, PathBuf};

use capture::{AGENTS, Environment, HookForm, HookPlace};
use event::Time;

pub use entries::EntriesError;
pub use jsonc::SyntaxError;
pub use settings_file::SettingsFileError;

use entries::{ChangedText, Entries, InstalledHooks};
use settings_file::{Action, SettingsFile};
use trust::{Trust, trust};

use crate::hook_report::{HookFailure, HookReport};

/// What is needed to change the settings of agents.
#[derive(Debug)]
pub struct HookInstall<'a> {
    pub environment: &'a Environment,
    /// The folder of the journal.
    pub journal: &'a Path,
    /// The command that agents run, as shell words: a program and its options.
    pub command: String,
    /// The folder of a project, for hooks of this project only.
    pub project: Option<PathBuf>,
    pub now: Time,
}

/// What was done for one agent, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookChange {
    pub agent: &'static str,
    pub path: PathBuf,
    pub is_changed: bool,
}

/// The state of one agent's hooks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookStatus {
    pub agent: &'static str,
    /// The agent's folder exists.
    pub is_present: bool,
    pub path: PathBuf,
    /// The events that call us.
    pub events: Vec<String>,
    /// The commands that the agent runs for them.
    pub commands: Vec<String>,
    /// Whether the user has accepted them; `None` if the agent does not ask, or it is not known.
    pub is_trusted: Option<bool>,
    pub last_call_at: Option<Time>,
    /// The latest failed calls, oldest first.
    pub failures: Vec<HookFailure>,
    pub problem: Option<String>,
}

/// Why nothing was done for an agent.
#[derive(Debug, thiserror::Error)]
pub enum HookInstallError {
    #[error("`{0}` has no hooks that are understood")]
    NoHooks(String),
    #[error("`{path}` is left alone")]
    Entries { path: PathBuf, source: EntriesError },
    #[error(transparent)]
    SettingsFile(#[from] SettingsFileError),
}

/// The agents that have hooks.
pub fn agents_with_hooks() -> impl Iterator<Item = &'static str> {
    AGENTS.iter().filter(|agent| agent.hook_map().is_some()).map(|agent| agent.provider())
}

impl HookInstall<'_> {
    /// Whether an agent is on this machine.
    pub fn is_present(&self, agent: &str) -> bool {
        find(agent).is_some_and(|(_, place)| place.agent_folder(self.environment).is_dir())
    }

    /// Installs our entries, or updates them. With `is_dry` it only returns what would be done.
    pub fn install(&self, agent: &str, is_dry: bool) -> Result<HookChange, HookInstallError> {
        let (agent, hooks) = find(agent).ok_or(HookInstallError::NoHooks(agent.to_owned()))?;
        let place = self.place(agent, hooks);
        let command = self.command_for(agent);
        let is_changed = place.change(Action::Install, is_dry, &mut |text| {
            let text = text.unwrap_or_default();
            if hooks.form == HookForm::Plugin {
                // The user may have a plugin of the same name; it is never overwritten.
                if !jsonc::is_blank(text) && !plugin::is_ours(text) {
                    return Err(EntriesError::NotOurs);
                }
                let text = plugin::text(&command, hooks.events);
                // The empty name stands for the whole file.
                return Ok(ChangedText { text, made: vec![String::new()] });
            }
            Entries { agent, place: hooks }.install(text, &command)
        });
        self.done(agent, place, is_changed)
    }

    /// Removes our entries, and the lists and objects that were added for them.
    pub fn uninstall(&self, agent: &str, is_dry: bool) -> Result<HookChange, HookInstallError> {
        let (agent, hooks) = find(agent).ok_or(HookInstallError::NoHooks(agent.to_owned()))?;
        let place = self.place(agent, hooks);
        // Before the change, which adds to the manifest.
        let made = place.made();
        let is_changed = place.change(Action::Uninstall, is_dry, &mut |text| {
            let Some(text) = text else { return Ok(ChangedText::default()) };
            if hooks.form == HookForm::Plugin {
                // A plugin that the user edited in its first line counts as the user's.
                let rest = if plugin::is_ours(text) { "" } else { text };
                return Ok(ChangedText { text: rest.to_owned(), made: Vec::new() });
            }
            let entries = Entries { agent, place: hooks };
            let rest = entries.uninstall(text, made.as_deref())?;
            // Copilot's file has no other purpose, and a file that the install created has none
            // left.
            let is_ours = hooks.form == HookForm::OwnFile
                || made.as_ref().is_some_and(|made| made.iter().any(String::is_empty));
            let text = match is_ours && rest != text && entries.is_bare(&rest)? {
                true => String::new(),
                false => rest,
            };
            Ok(ChangedText { text, made: Vec::new() })
        });
        self.done(agent, place, is_changed)
    }

    /// The state of an agent's hooks; `None` for an agent without hooks.
    pub fn status(&self, agent: &str) -> Option<HookStatus> {
        let (agent, hooks) = find(agent)?;
        let place = self.place(agent, hooks);
        let report = HookReport::in_journal(self.journal);
        let mut status = HookStatus {
            agent,
            is_present: self.is_present(agent),
            path: place.path.clone(),
            events: Vec::new(),
            commands: Vec::new(),
            is_trusted: None,
            last_call_at: report.last_call(agent),
            failures: report
                .failures()
                .into_iter()
                .filter(|failed| failed.agent == agent)
                .collect(),
            problem: None,
        };
        let text = match place.read() {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                status.problem = Some(error.to_string());
                return Some(status);
            }
        };
        if hooks.form == HookForm::Plugin {
            // Compared as a whole: an older version has another body and is to be renewed.
            let is_present = text == plugin::text(&self.command_for(agent), hooks.events);
            if plugin::is_ours(&text) {
                status.events = hooks.events.iter().map(|(event, _)| (*event).to_owned()).collect();
                let command = plugin::command(&text).unwrap_or_default();
                status.commands =
                    status.events.iter().map(|event| format!("{command} {event}")).collect();
                status.problem = (!is_present).then(|| RENEW.to_owned());
            }
            return Some(status);
        }
        match (Entries { agent, place: hooks }).find_own(&text) {
            Ok(found) => self.judge(hooks, &text, &found, &mut status),
            Err(error) => status.problem = Some(error.to_string()),
        }
        Some(status)
    }

    fn judge(
        &self,
        hooks: &HookPlace,
        text: &str,
        found: &InstalledHooks,
        status: &mut HookStatus,
    ) {
        status.events = found.events.iter().map(|(event, ..)| event.clone()).collect();
        let found_commands = status.events.iter().zip(&found.commands);
        status.commands =
            found_commands.map(|(event, command)| format!("{command} {event}")).collect();
        // Nothing is installed, so nothing can be missing or wrong.
        if status.events.is_empty() {
            return;
        }
        let command = self.command_for(status.agent);
        let is_missing = |event: &&&str| !status.events.iter().any(|known| known == **event);
        let events = hooks.events.iter().map(|(event, _)| event);
        let missing: Vec<&str> = events.filter(is_missing).copied().collect();
        // Only Codex asks the user to accept each hook.
        if status.agent == "codex" {
            let config = hooks.agent_folder(self.environment).join("config.toml");
            let trust = match trust(&config, &status.path, text, found) {
                // A hook that called since the last change runs, whatever its hash means.
                Trust::OfOthers if has_called_since_changed(status) => Trust::Accepted,
                trust => trust,
            };
            status.is_trusted = Some(trust == Trust::Accepted);
            status.problem = match trust {
                Trust::Accepted => None,
                Trust::OfOthers => Some(ACCEPT_AGAIN.to_owned()),
                Trust::Never => Some(ACCEPT.to_owned()),
            };
        }
        // The gravest problem last, so that it replaces the others.
        if let Some(switch) = found.switched_off {
            status.problem = Some(format!("hooks are switched off by `{switch}`"));
        } else if found.commands.iter().any(|known| *known != command) {
            status.problem = Some(RENEW.to_owned());
        } else if !missing.is_empty() {
            status.problem = Some(format!("no entry for {}", missing.join(", ")));
        }
    }

    fn place(&self, agent: &'static str, hooks: &HookPlace) -> SettingsFile<'_> {
        let path = match &self.project {
            Some(project) => project.join(hooks.project_file),
            None => hooks.agent_folder(self.environment).join(hooks.file),
        };
        let project = self.project.as_deref();
        let is_whole = hooks.form == HookForm::Plugin;
        SettingsFile { agent, path, project, is_whole, journal: self.journal, now: self.now }
    }

    /// The command without the event.
    fn command_for(&self, agent: &str) -> String {
        format!("{} hook {agent}", self.command)
    }

    fn done(
        &self,
        agent: &'static str,
        place: SettingsFile<'_>,
        is_changed: Result<bool, HookInstallError>,
    ) -> Result<HookChange, HookInstallError> {
        Ok(HookChange { agent, is_changed: is_changed?, path: place.path })
    }
}

/// The problem with entries that run another program, or an older version of this one.
const RENEW: &str = "its entries are of another program or version; `hooks install` renews them";

/// The problem with entries that Codex does not run.
const ACCEPT: &str = "Codex asks once whether it may run them: start it and accept";
const ACCEPT_AGAIN: &str =
    "Codex has accepted other commands than these and runs none of them: start it and accept";

/// Whether the agent's hooks have called since the file last changed.
fn has_called_since_changed(status: &HookStatus) -> bool {
    let changed_at = host::modified_at(&status.path);
    // Both are needed: a missing file has no time, and `None` is less than any call.
    changed_at.is_some() && status.last_call_at > changed_at
}

fn find(agent: &str) -> Option<(&'static str, &'static HookPlace)> {
    let known = AGENTS.iter().find(|known| known.provider() == agent)?;
    Some((known.provider(), &known.hook_map()?.place))
}
