//! `hansard rules add`, `remove` and `import`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use daemon::{RuleStore, StoredRule};
use rules::{Rule, RuleSet};

use super::{RuleShape, find_rule, short_id};
use crate::command::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, escape_controls};
use crate::world;

/// The largest file of rules that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Args)]
pub(super) struct AddArgs {
    /// Rules; without one the rules are only handed to hooks once more
    #[arg(value_name = "RULE")]
    rules: Vec<String>,
}

#[derive(Args)]
pub(super) struct RemoveArgs {
    /// The ids of rules as `rules list` prints them, or their whole lines
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<String>,
}

#[derive(Args)]
pub(super) struct ImportArgs {
    /// A file with one rule on each line; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl AddArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let lines: Vec<String> = self.rules.iter().map(|line| line.trim().to_owned()).collect();
        // Before anything is recorded: of several rules all are added or none.
        for line in &lines {
            line.parse::<Rule>().map_err(|error| {
                CliError::new("bad_rule", format!("`{line}` is no rule: {error}")).wrong_usage()
            })?;
        }
        add(&lines, None, global, output)?;
        Ok(Completion::Success)
    }
}

impl RemoveArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_write(global, output)?;
        let store = RuleStore::new(&journal);
        let rules = store.rules()?;
        let mut removed: Vec<StoredRule> = Vec::new();
        for named in &self.rules {
            let rule = find_rule(&rules, named)?;
            if !removed.contains(rule) {
                removed.push(rule.clone());
            }
        }
        store.remove(&removed, &world::host(journal.clone()))?;
        journal.close();
        print("removed", &removed, output)?;
        Ok(Completion::Success)
    }
}

impl ImportArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let text = self.read()?;
        let (rules, errors) = RuleSet::parse(&text);
        for error in &errors {
            output.warn(format!("warning: {}, {error}", self.file.display()));
        }
        let lines: Vec<String> =
            rules.entries().iter().map(|entry| entry.rule.to_string()).collect();
        let origin = self.file.to_str().filter(|file| *file != "-");
        add(&lines, origin, global, output)?;
        match errors.is_empty() {
            true => Ok(Completion::Success),
            // The others are in force, and a script has to learn that not all are.
            false => Ok(Completion::Negative),
        }
    }

    fn read(&self) -> Result<String, CliError> {
        let name = self.file.display();
        let failed = |error| CliError::new("io", format!("cannot read `{name}`: {error}"));
        let mut bytes = Vec::new();
        let mut input: Box<dyn Read> = match self.file.as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(&self.file).map_err(failed)?),
        };
        input.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(CliError::new("too_long", format!("`{name}` is no file of rules"))
                .hint("a file of rules has 16 MiB at most"));
        }
        String::from_utf8(bytes)
            .map_err(|_| CliError::new("bad_rule", format!("`{name}` is not in UTF-8")))
    }
}

fn add(
    lines: &[String],
    origin: Option<&str>,
    global: &Global,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let journal = world::journal_to_write(global, output)?;
    let store = RuleStore::new(&journal);
    let added = store.add(lines, origin, &world::host(journal.clone()))?;
    journal.close();
    print("added", &added, output)
}

fn print(what: &str, rules: &[StoredRule], output: &mut CliOutput) -> Result<(), CliError> {
    for rule in rules {
        match output.json() {
            true => output.json_line(&RuleShape::new(rule))?,
            false => output.line(format!(
                "{what} {}  {}",
                short_id(&rule.id.to_string()),
                escape_controls(&rule.line)
            ))?,
        }
    }
    output.flush()
}
