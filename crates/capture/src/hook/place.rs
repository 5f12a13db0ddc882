//! Where agents look for hooks, and which of their events are worth a call.

use std::path::PathBuf;

use crate::environment::Environment;

/// Where an agent looks for hooks. The agent counts as being there if its folder is.
#[derive(Debug)]
pub struct HookPlace {
    /// A variable that names a folder, where that is below home otherwise, and the agent's own
    /// below that.
    pub folder: (&'static str, &'static str, &'static str),
    /// The file in it.
    pub file: &'static str,
    /// The file below the folder of a project.
    pub project_file: &'static str,
    pub form: HookForm,
    /// The agent reads its file with comments in it.
    pub has_comments: bool,
    /// Events that are worth a call, and the seconds an agent gives it.
    pub events: &'static [(&'static str, u32)],
    /// Events that are worth a call only with this matcher. The form must have matchers.
    pub narrowed: &'static [(&'static str, &'static str)],
}

/// How hooks are written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookForm {
    /// A list of groups for each event, each with a list of commands.
    Groups { matcher: Option<&'static str>, is_in_millis: bool },
    /// A list of commands for each event.
    Commands,
    /// A file of our own with a list of shell commands for each event.
    OwnFile,
    /// A program of our own that the agent loads.
    Plugin,
}

impl HookPlace {
    /// The matcher of an event, where the form has one.
    pub fn matcher(&self, event: &str) -> Option<&'static str> {
        let HookForm::Groups { matcher, .. } = self.form else { return None };
        let own = self.narrowed.iter().find(|(narrowed, _)| *narrowed == event);
        own.map(|(_, matcher)| *matcher).or(matcher)
    }

    /// The agent's folder.
    pub fn agent_folder(&self, environment: &Environment) -> PathBuf {
        let (variable, below_home, own) = self.folder;
        environment.agent_folder(variable, below_home).join(own)
    }
}
