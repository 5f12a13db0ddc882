//! `hansard statusline`: counts of sessions in one line, for a prompt or tmux.

use clap::Args;
use serde::Serialize;
use wire::Status;

use super::{CommandResult, Completion, Global};
use crate::output::CliOutput;
use crate::statuses::{Statuses, needs_user};
use crate::world;

/// Print how many sessions need you, run and wait, in one line; nothing if there are none.
#[derive(Args)]
pub(crate) struct StatuslineArgs {}

#[derive(Default, Serialize)]
struct CountsShape {
    needs_you: usize,
    running: usize,
    waiting: usize,
}

impl StatuslineArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let counts = CountsShape::count_sessions(&Statuses::open(&journal)?.recent()?);
        match output.json() {
            true => output.json_line(&counts)?,
            false => output.line(counts.format_line())?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

impl CountsShape {
    fn count_sessions(listed: &[Status]) -> CountsShape {
        let mut counts = CountsShape::default();
        for status in listed {
            match status.status.as_ref() {
                _ if needs_user(status) => counts.needs_you += 1,
                "running" => counts.running += 1,
                "waiting" => counts.waiting += 1,
                _ => {}
            }
        }
        counts
    }

    /// Formats the counts that are not zero, the most urgent first.
    fn format_line(&self) -> String {
        let CountsShape { needs_you, running, waiting } = *self;
        let needs = if needs_you == 1 { "needs you" } else { "need you" };
        let parts = [(needs_you, needs), (running, "running"), (waiting, "waiting")];
        let told = parts.iter().filter(|(count, _)| *count > 0);
        told.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_counts_are_left_out() {
        for (needs_you, running, waiting, line) in [
            (0, 0, 0, ""),
            (1, 0, 0, "1 needs you"),
            (2, 3, 1, "2 need you · 3 running · 1 waiting"),
            (0, 0, 4, "4 waiting"),
        ] {
            assert_eq!(CountsShape { needs_you, running, waiting }.format_line(), line);
        }
    }
}
