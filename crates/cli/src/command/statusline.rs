//! `hansard statusline`: counts of sessions in one line, for a prompt or tmux.

use clap::Args;
use projection::status::StatusGroup;
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::output::CliOutput;
use crate::session_counts::SessionCounts;
use crate::statuses::Statuses;
use crate::world;

/// Print the number of sessions per status, for a prompt or tmux
///
/// One line such as `2 need you · 3 running · 1 waiting`; an empty line if there are none.
/// In tmux.conf: set -g status-right '#(hansard statusline)'.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatuslineArgs {}

#[derive(Serialize)]
struct CountsShape {
    needs_you: usize,
    running: usize,
    waiting: usize,
    idle: usize,
}

impl StatuslineArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let counts = SessionCounts::count(&Statuses::open(&journal)?.recent()?);
        match output.json() {
            true => output.json_line(&CountsShape::from(counts))?,
            false => output.line(format_line(&counts))?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

impl From<SessionCounts> for CountsShape {
    fn from(counts: SessionCounts) -> CountsShape {
        CountsShape {
            needs_you: counts.of(StatusGroup::NeedsYou),
            running: counts.of(StatusGroup::Running),
            waiting: counts.of(StatusGroup::Waiting),
            idle: counts.of(StatusGroup::Idle),
        }
    }
}

/// Formats the counts that are not zero, the most urgent first. Idle sessions are left out: a prompt
/// has little room.
fn format_line(counts: &SessionCounts) -> String {
    let groups = [StatusGroup::NeedsYou, StatusGroup::Running, StatusGroup::Waiting];
    let words: Vec<String> = groups.into_iter().filter_map(|it| counts.in_words(it)).collect();
    words.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_counts_are_left_out() {
        use StatusGroup::{Idle, NeedsYou, Running, Waiting};
        for (groups, line) in [
            (vec![], ""),
            (vec![NeedsYou], "1 needs you"),
            (vec![Running, NeedsYou, Waiting, NeedsYou], "2 need you · 1 running · 1 waiting"),
            (vec![Waiting, Idle], "1 waiting"),
        ] {
            assert_eq!(format_line(&groups.into_iter().collect()), line);
        }
    }
}
