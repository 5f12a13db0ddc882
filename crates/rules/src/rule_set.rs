//! Many rules, each with its id and origin.

use std::fmt;

use crate::parse::BadRule;
use crate::rule::{Rule, Severity};

/// The author of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// The user of this machine.
    User,
    /// A hub that the user has accepted. Its rules can block, ask and warn, and never allow.
    Hub,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RuleEntry {
    /// How the rule is named in answers. In a set that was parsed it is the number of the line.
    pub id: String,
    pub origin: Origin,
    pub rule: Rule,
}

/// A rule of a hub would allow a call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the rule `{id}` comes from a hub and would allow a call; only the user can")]
pub struct HubAllows {
    pub id: String,
}

/// A line that is no rule, with the reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct LineError {
    /// Counted from 1.
    pub line: usize,
    pub error: BadRule,
}

/// Rules in their order. The order decides nothing; answers are listed in it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RuleSet {
    entries: Vec<RuleEntry>,
}

impl RuleSet {
    pub fn new() -> RuleSet {
        RuleSet::default()
    }

    /// Reads one rule per line. Blank lines and lines that begin with `#` are skipped; a line that
    /// is no rule is returned with its reason, and the others load.
    pub fn parse(text: &str) -> (RuleSet, Vec<LineError>) {
        let mut rules = RuleSet::new();
        let mut errors = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim().trim_start_matches('\u{feff}');
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match text.parse() {
                Ok(rule) => {
                    let id = line.to_string();
                    rules.entries.push(RuleEntry { id, origin: Origin::User, rule });
                }
                Err(error) => errors.push(LineError { line, error }),
            }
        }
        (rules, errors)
    }

    /// Adds a rule. One of a hub that would allow a call is refused.
    pub fn push(
        &mut self,
        id: impl Into<String>,
        origin: Origin,
        rule: Rule,
    ) -> Result<(), HubAllows> {
        let id = id.into();
        if origin == Origin::Hub && rule.severity() == Severity::Allow {
            return Err(HubAllows { id });
        }
        self.entries.push(RuleEntry { id, origin, rule });
        Ok(())
    }

    pub fn entries(&self) -> &[RuleEntry] {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// One rule per line, as [`RuleSet::parse`] reads it.
impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{}", entry.rule))
    }
}
