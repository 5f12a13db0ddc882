//! Whether allow rules together cover an action.
//!
//! An allow rule skips the agent's own question, so nothing is guessed here: every part has to be
//! named by a rule, and what cannot be judged is never allowed.

use crate::action::Inspection;
use crate::command_line::Part;
use crate::glob::Case;
use crate::pattern::{Pattern, ServerCall, matches_host};
use crate::rule::Exception;
use crate::rule_set::{Origin, RuleEntry};
use crate::tool_class::ToolClass;

/// Parts without a rule that are named in an explanation.
const UNCOVERED_LISTED_MAX: usize = 10;

/// The allow rules of an action so far.
pub(crate) struct Allowance<'i> {
    inspection: &'i Inspection,
    units: Vec<Unit>,
    /// Rules that cover a part, with the first one that they cover.
    rules: Vec<(RuleEntry, String)>,
}

/// A part that has to be covered.
struct Unit {
    text: String,
    /// How many arguments rules name; for what is no command 0 is enough.
    named: Option<usize>,
}

impl<'i> Allowance<'i> {
    pub(crate) fn new(inspection: &'i Inspection) -> Allowance<'i> {
        let unit = |text: String| Unit { text, named: None };
        let units = match inspection.class {
            Some(ToolClass::Shell) => {
                let parts = inspection.command.iter().flat_map(|command| &command.parts);
                parts.map(|part| unit(part.text())).collect()
            }
            Some(ToolClass::Edit | ToolClass::Read) => {
                inspection.files.iter().map(|file| unit(file.text.clone())).collect()
            }
            Some(ToolClass::Web) if inspection.hosts.is_empty() => {
                vec![unit("a search of the web".to_owned())]
            }
            Some(ToolClass::Web) => inspection.hosts.iter().cloned().map(unit).collect(),
            Some(ToolClass::Mcp) => {
                let readings = inspection.servers.iter();
                readings
                    .map(|reading| unit(format!("{}/{}", reading.server, reading.tool)))
                    .collect()
            }
            Some(ToolClass::Task) => vec![unit("the task".to_owned())],
            Some(ToolClass::Any) | None => Vec::new(),
        };
        Allowance { inspection, units, rules: Vec::new() }
    }

    /// Takes a rule into account.
    pub(crate) fn add(&mut self, entry: RuleEntry, tool: &str) {
        let rule = &entry.rule;
        let is_named =
            rule.tool.name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(tool.trim()));
        let is_meant = self.inspection.class == Some(rule.tool.class) && is_named;
        if !is_meant || entry.origin == Origin::Hub {
            return;
        }
        let mut first = None;
        for index in 0..self.units.len() {
            let excepted =
                rule.exceptions.iter().any(|exception| self.is_excepted(exception, index));
            let named = self.cover(&rule.pattern, index).filter(|_| !excepted);
            if named.is_some() && first.is_none() {
                first = Some(self.units[index].text.clone());
            }
            self.units[index].named = self.units[index].named.max(named);
        }
        if let Some(first) = first {
            self.rules.push((entry, first));
        }
    }

    /// How far a pattern covers a unit.
    fn cover(&self, pattern: &Pattern, index: usize) -> Option<usize> {
        let inspection = self.inspection;
        match pattern {
            Pattern::Command(pattern) => {
                let part = inspection.command.as_ref()?.parts.get(index)?;
                pattern.covers(&part.args, &part.assignments)
            }
            Pattern::Path(pattern) => {
                let file = inspection.files.get(index)?;
                (file.is_certain && pattern.covers(&file.path)).then_some(0)
            }
            Pattern::Server(pattern) => {
                let reading = inspection.servers.get(index)?;
                let call = ServerCall {
                    server: &reading.server,
                    tool: &reading.tool,
                    arguments: &inspection.arguments,
                };
                (reading.is_certain && pattern.matches(&call, Case::Exact)).then_some(0)
            }
            Pattern::Host(glob) => match inspection.hosts.get(index) {
                Some(host) => matches_host(glob, host).then_some(0),
                None => glob.is_lone_star().then_some(0),
            },
            // Words somewhere in a text say nothing about the rest of it.
            Pattern::Text(pattern) => pattern.matches_everything().then_some(0),
        }
    }

    /// Whether an exception takes a unit out of an allow rule. Here the exception is what stops
    /// something, so it is read widely.
    fn is_excepted(&self, exception: &Exception, index: usize) -> bool {
        let inspection = self.inspection;
        let excepted = match &exception.pattern {
            Pattern::Command(pattern) => {
                let part = inspection.command.as_ref().and_then(|command| command.parts.get(index));
                part.map(|part| pattern.matches(&part.args, &part.assignments))
            }
            Pattern::Path(pattern) => {
                inspection.files.get(index).map(|file| pattern.matches(&file.path))
            }
            Pattern::Server(pattern) => inspection.servers.get(index).map(|reading| {
                let call = ServerCall {
                    server: &reading.server,
                    tool: &reading.tool,
                    arguments: &inspection.arguments,
                };
                pattern.matches(&call, Case::Any)
            }),
            Pattern::Host(glob) => inspection.hosts.get(index).map(|host| matches_host(glob, host)),
            Pattern::Text(_) => Some(true),
        };
        excepted.unwrap_or(true)
    }

    /// Why the rules do not hold. Nothing, if they do, or if no rule covers anything.
    pub(crate) fn refusals(&self) -> Vec<String> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let mut refusals = self.inspection.obstacles.clone();
        if let Some(command) = &self.inspection.command {
            refusals.extend(command.obstacles.iter().cloned());
        }
        let uncovered = (0..self.units.len()).filter(|index| self.covered(*index).is_none());
        let texts =
            uncovered.map(|index| format!("`{}` is covered by no rule", self.units[index].text));
        refusals.extend(texts.take(UNCOVERED_LISTED_MAX));
        refusals
    }

    /// The rules that cover the action. Only asked if nothing refuses.
    pub(crate) fn into_matches(self) -> Vec<(RuleEntry, String)> {
        self.rules
    }

    /// How many arguments of a unit are named by rules, if it is covered.
    fn covered(&self, index: usize) -> Option<usize> {
        let named = self.units[index].named;
        let Some(command) = &self.inspection.command else { return named };
        if self.inspection.class != Some(ToolClass::Shell) {
            return named;
        }
        let part = command.parts.get(index)?;
        let is_nothing = part.is_guess || is_transparent(part);
        named.or_else(|| is_nothing.then_some(0)).or_else(|| {
            // A rule for `sudo cargo test` names the command behind `sudo` too.
            let (outer, at) = part.outer?;
            let named = self.covered(outer)?.checked_sub(at?)?;
            (named > 0).then_some(named)
        })
    }
}

fn is_transparent(part: &Part) -> bool {
    part.is_transparent && part.assignments.is_empty()
}
