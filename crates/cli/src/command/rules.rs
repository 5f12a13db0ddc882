//! `hansard rules`: what the user decides in advance about the tool calls of all agents.

mod change; // add, remove, import
mod list; // list, export
mod test; // what rules say about a command
mod replay; // what a rule would have caught

use clap::{Args, Subcommand};
use daemon::{RuleStore, StoredRule};
use journal::Journal;
use serde::Serialize;

use super::{CommandResult, Global};
use crate::error::CliError;
use crate::output::CliOutput;

/// Decide in advance what agents may run: block, ask, warn, allow.
#[derive(Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Subcommand)]
enum RulesCommand {
    /// Add rules, each one argument: 'block shell: rm -rf * — use trash'
    Add(change::AddArgs),
    /// List the rules in force
    List(list::ListArgs),
    /// Remove rules
    Remove(change::RemoveArgs),
    /// Print what the rules say about a command, and what each agent would be told
    Test(test::TestArgs),
    /// Add the rules of a file, one on each line
    Import(change::ImportArgs),
    /// Print the rules as text that `import` takes
    Export(list::ExportArgs),
    /// List the recorded calls that a rule would have caught
    Replay(replay::ReplayArgs),
}

impl RulesArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        match &self.command {
            RulesCommand::Add(command) => command.run(global, output),
            RulesCommand::List(command) => command.run(global, output),
            RulesCommand::Remove(command) => command.run(global, output),
            RulesCommand::Test(command) => command.run(global, output),
            RulesCommand::Import(command) => command.run(global, output),
            RulesCommand::Export(command) => command.run(global, output),
            RulesCommand::Replay(command) => command.run(global, output),
        }
    }
}

/// A rule in JSON.
#[derive(Serialize)]
struct RuleShape<'a> {
    id: String,
    short_id: String,
    rule: &'a str,
    severity: Option<&'static str>,
    tool: Option<String>,
    origin: Option<&'a str>,
    added_at: event::Time,
    /// Why the rule decides nothing.
    problem: Option<String>,
}

impl<'a> RuleShape<'a> {
    fn new(stored: &'a StoredRule) -> RuleShape<'a> {
        let rule = stored.rule.as_ref();
        RuleShape {
            id: stored.id.to_string(),
            short_id: short_id(&stored.id.to_string()),
            rule: &stored.line,
            severity: rule.ok().map(|rule| rule.severity().as_str()),
            tool: rule.ok().map(|rule| rule.tool().to_string()),
            origin: stored.origin.as_deref(),
            added_at: stored.added_at,
            problem: rule.err().map(ToString::to_string),
        }
    }
}

/// The end of a rule's id, which lists print: rules that were added together begin alike.
fn short_id(id: &str) -> String {
    const LETTERS: usize = 6;
    let begin = id.len().saturating_sub(LETTERS);
    id.get(begin..).unwrap_or(id).to_lowercase()
}

/// The rule that an argument names: the end of its id, as lists print it, or its whole line.
fn find_rule<'a>(rules: &'a [StoredRule], named: &str) -> Result<&'a StoredRule, CliError> {
    /// A shorter end would name a rule by chance.
    const LETTERS_MIN: usize = 4;
    let wanted = named.to_uppercase();
    let ends =
        |rule: &&StoredRule| named.len() >= LETTERS_MIN && rule.id.to_string().ends_with(&wanted);
    let found: Vec<&StoredRule> =
        rules.iter().filter(|rule| rule.line == named || ends(rule)).collect();
    match found[..] {
        [rule] => Ok(rule),
        [] => Err(CliError::new("no_rule", format!("no rule in force is `{named}`"))
            .hint("`hansard rules list` lists the rules with their ids")),
        _ => Err(CliError::new("ambiguous", format!("several rules are `{named}`"))
            .hint("name more letters of the id")),
    }
}

/// Says if hooks do not have the rules of the journal.
fn warn_of_problem(
    store: RuleStore<'_>,
    journal: &Journal,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if journal.dir().is_some()
        && let Some(problem) = store.problem()?
    {
        output.warn(format!("warning: {problem}; `hansard rules add` without a rule mends it"));
    }
    Ok(())
}
