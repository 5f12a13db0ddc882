//! One rule.

use std::fmt;

use event::Time;

use crate::pattern::Pattern;
use crate::tool_class::ToolName;

/// What a rule decides, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    Block,
    Ask,
    Warn,
    Allow,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Block => "block",
            Severity::Ask => "ask",
            Severity::Warn => "warn",
            Severity::Allow => "allow",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule as it was parsed. Its text, by `Display`, parses to an equal rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub(crate) severity: Severity,
    pub(crate) tool: ToolName,
    pub(crate) pattern_text: String,
    pub(crate) pattern: Pattern,
    pub(crate) reason: Option<String>,
    pub(crate) agents: Vec<String>,
    pub(crate) projects: Vec<String>,
    pub(crate) sessions: Vec<String>,
    pub(crate) exceptions: Vec<Exception>,
    pub(crate) until: Option<Until>,
    pub(crate) denies_on_timeout: bool,
    pub(crate) is_dry: bool,
}

/// What `@except` names.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Exception {
    pub text: String,
    pub pattern: Pattern,
}

/// When a rule ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Until {
    pub text: String,
    /// The first instant at which it no longer holds.
    pub end: Time,
}

impl Rule {
    pub fn severity(&self) -> Severity {
        self.severity
    }

    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern_text
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The agents that it holds for; none is all.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// The projects that it holds for; none is all.
    pub fn projects(&self) -> &[String] {
        &self.projects
    }

    /// The sessions that it holds for; none is all.
    pub fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// The first instant at which the rule no longer holds.
    pub fn until(&self) -> Option<Time> {
        self.until.as_ref().map(|until| until.end)
    }

    /// Whether an approval without an answer in time is denied.
    pub fn denies_on_timeout(&self) -> bool {
        self.denies_on_timeout
    }

    /// Whether its matches are noted and change nothing.
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.tool, self.pattern_text)?;
        if let Some(reason) = &self.reason {
            write!(f, " — {reason}")?;
        }
        for (name, values) in
            [("agent", &self.agents), ("project", &self.projects), ("session", &self.sessions)]
        {
            if !values.is_empty() {
                write!(f, " @{name}:{}", values.join(","))?;
            }
        }
        for exception in &self.exceptions {
            let quote = if exception.text.contains('"') { '\'' } else { '"' };
            write!(f, " @except:{quote}{}{quote}", exception.text)?;
        }
        if let Some(until) = &self.until {
            write!(f, " @until:{}", until.text)?;
        }
        if self.denies_on_timeout {
            f.write_str(" @on_timeout:deny")?;
        }
        if self.is_dry {
            f.write_str(" @dry")?;
        }
        Ok(())
    }
}
