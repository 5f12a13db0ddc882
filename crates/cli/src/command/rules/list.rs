//! `hansard rules list` and `export`.

use clap::Args;
use daemon::RuleStore;

use super::{RuleShape, short_id, warn_of_problem};
use crate::command::{CommandResult, Completion, Global};
use crate::output::{CliOutput, escape_controls};
use crate::world;

#[derive(Args)]
pub(super) struct ListArgs {}

#[derive(Args)]
pub(super) struct ExportArgs {}

impl ListArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let store = RuleStore::new(&journal);
        let rules = store.rules()?;
        for stored in &rules {
            if output.json() {
                output.json_line(&RuleShape::new(stored))?;
                continue;
            }
            let origin = match &stored.origin {
                Some(origin) => format!("  (from {origin})"),
                None => String::new(),
            };
            let line = format!("{}  {}{origin}", short_id(&stored.id.to_string()), stored.line);
            output.line(escape_controls(&line))?;
            if let Err(error) = &stored.rule {
                output.line(format!("        decides nothing: {error}"))?;
            }
        }
        output.flush()?;
        if rules.is_empty() {
            output.note(
                "no rules are in force; `hansard rules add 'ask shell: git push *'` adds one",
            );
        }
        warn_of_problem(store, &journal, output)?;
        Ok(Completion::Success)
    }
}

impl ExportArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        for stored in RuleStore::new(&journal).rules()? {
            match output.json() {
                true => output.json_line(&RuleShape::new(&stored))?,
                // For a file or a pipe: exactly the line, so that `import` takes it.
                false => output.printed_line(&stored.line)?,
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}
