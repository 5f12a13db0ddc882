//! Classes of tools, so that one rule holds for all agents.

use std::fmt;

use event::Deed;

/// What a rule speaks about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ToolClass {
    /// Commands: `Bash`, `exec_command`, `run_shell_command` …
    Shell,
    /// Files that are changed: `Edit`, `Write`, `apply_patch`, and redirections of commands.
    Edit,
    /// Files that are read or searched.
    Read,
    /// Addresses that are visited.
    Web,
    /// Tools of MCP servers.
    Mcp,
    /// Work that is given to another agent.
    Task,
    /// Any call, by the text of its input.
    Any,
}

impl ToolClass {
    pub const ALL: [ToolClass; 7] = [
        ToolClass::Shell,
        ToolClass::Edit,
        ToolClass::Read,
        ToolClass::Web,
        ToolClass::Mcp,
        ToolClass::Task,
        ToolClass::Any,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ToolClass::Shell => "shell",
            ToolClass::Edit => "edit",
            ToolClass::Read => "read",
            ToolClass::Web => "web",
            ToolClass::Mcp => "mcp",
            ToolClass::Task => "task",
            ToolClass::Any => "any",
        }
    }

    pub(crate) fn of_deed(deed: Deed) -> Option<ToolClass> {
        match deed {
            Deed::Run => Some(ToolClass::Shell),
            Deed::Edit | Deed::Create | Deed::Delete => Some(ToolClass::Edit),
            Deed::Read | Deed::Search => Some(ToolClass::Read),
            Deed::Visit | Deed::WebSearch => Some(ToolClass::Web),
            Deed::Delegate => Some(ToolClass::Task),
            Deed::Other => None,
        }
    }
}

impl fmt::Display for ToolClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What stands before the colon of a rule: a class, or a tool by the name that an agent gives it.
///
/// A restricting rule holds for the whole class of a named tool, so that the name of one
/// agent's tool leaves no gap for another agent. An allow rule holds for tools of
/// that name only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolName {
    pub class: ToolClass,
    /// As it is written, if it is no class.
    pub name: Option<String>,
}

impl ToolName {
    /// None for a name that no known agent gives to a tool.
    pub(crate) fn parse(text: &str) -> Option<ToolName> {
        let is_it = |class: &ToolClass| class.as_str().eq_ignore_ascii_case(text);
        if let Some(class) = ToolClass::ALL.into_iter().find(is_it) {
            return Some(ToolName { class, name: None });
        }
        let class = ToolClass::of_deed(Deed::of_tool(text))?;
        Some(ToolName { class, name: Some(text.to_owned()) })
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(self.class.as_str()))
    }
}
