//! `hansard lineage`: the ancestors and children of a session.

use clap::Args;
use journal::{Ancestry, Journal};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, one_line};
use crate::shape::LineageShape;
use crate::world;

/// Show what a session was forked from, and its forks.
#[derive(Args)]
pub(crate) struct LineageArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
}

impl LineageArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let id = journal.resolve(&self.session)?.id;
        let lineage = journal.lineage(&id)?;
        let children = journal.children(&id)?;
        if output.json() {
            output.json_line(&LineageShape { lineage, children })?;
        } else {
            let depth = lineage.len();
            for (indent, step) in lineage.iter().enumerate() {
                print_step(&journal, step, indent, step.session_id == id, output)?;
            }
            for child in &children {
                print_step(&journal, child, depth, false, output)?;
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn print_step(
    journal: &Journal,
    step: &Ancestry,
    indent: usize,
    is_asked: bool,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let style = if is_asked { Style::Bold } else { Style::Plain };
    let id = match world::short_id(journal, &step.session_id) {
        Ok(short) => short,
        // A parent may be named without being recorded.
        Err(_) => step.session_id.to_string(),
    };
    let id = output.styled(style, one_line(&id, 64));
    let mut about = Vec::new();
    if let Some(mode) = &step.mode {
        about.push(format!("{mode} at #{}", step.fork_point_seq));
    }
    about.extend(step.label.as_deref().map(|label| one_line(label, 40)));
    about.extend(step.reason.as_deref().map(|reason| one_line(reason, 60)));
    let about = output.styled(Style::Dim, about.join(" · "));
    output.line(format!("{}{id}  {about}", "  ".repeat(indent)).trim_end())
}
