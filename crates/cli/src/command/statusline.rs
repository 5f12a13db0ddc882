//! `hansard statusline`: who needs you, in one line for a prompt or tmux.

use clap::Args;
use daemon::{SessionStatus, Statuses};
use host::Processes;
use projection::status::Status;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Print in one line how many sessions need you, run and wait; nothing if there are none.
#[derive(Args)]
pub(crate) struct Statusline {}

#[derive(Default, Serialize)]
struct CountsShape {
    needs_you: usize,
    running: usize,
    waiting: usize,
}

impl Statusline {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let mut statuses = Statuses::new(journal, world::environment(None)?);
        let listed = statuses.lately(&Processes::default(), world::now())?;
        let counts = CountsShape::of(listed.iter().filter(|status| status.is_listed()));
        match output.json() {
            true => output.json_line(&counts)?,
            false => output.line(counts.line())?,
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

impl CountsShape {
    fn of<'a>(listed: impl Iterator<Item = &'a SessionStatus>) -> CountsShape {
        let mut counts = CountsShape::default();
        for status in listed {
            match status.verdict.status {
                _ if status.needs_you() => counts.needs_you += 1,
                Status::Running => counts.running += 1,
                Status::Waiting => counts.waiting += 1,
                _ => {}
            }
        }
        counts
    }

    /// What there is of each, the most urgent first.
    fn line(&self) -> String {
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
    fn only_what_there_is_is_said() {
        for (needs_you, running, waiting, line) in [
            (0, 0, 0, ""),
            (1, 0, 0, "1 needs you"),
            (2, 3, 1, "2 need you · 3 running · 1 waiting"),
            (0, 0, 4, "4 waiting"),
        ] {
            assert_eq!(CountsShape { needs_you, running, waiting }.line(), line);
        }
    }
}
