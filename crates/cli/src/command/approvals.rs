//! `hansard approvals`: what waits for your approval, with the exact command.

use capture::argument;
use clap::Args;
use daemon::{Statuses, Which, approvals};
use event::{Raw, Time};
use host::Processes;
use wire::Approval;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, one_line, plain};
use crate::world;

#[derive(Args)]
pub(crate) struct Approvals {}

impl Approvals {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let environment = world::environment(None)?;
        let now = world::now();
        let mut statuses = Statuses::new(journal.clone(), environment);
        let lately = statuses.lately(&Processes::default(), now)?;
        let pending = approvals(&journal, &lately, Which::Pending)?;
        for approval in &pending {
            if output.json() {
                output.json_line(approval)?;
            } else {
                line(approval, now, output)?;
            }
        }
        if pending.is_empty() {
            output.note("nothing waits for your approval");
        }
        Ok(Done::Yes)
    }
}

/// One approval: who asks, since when, how much depends on it; then all of what would be done.
fn line(asked: &Approval, now: Time, output: &mut Output) -> Result<(), CliError> {
    let head = format!(
        "{:<9} {:>4}  {:<11} {}  {}",
        one_line(&asked.provider, 9),
        super::status::age(asked.requested_at, now),
        asked.risk.as_deref().unwrap_or("-"),
        one_line(asked.cwd.as_deref().unwrap_or("-"), 60),
        one_line(asked.session_id.as_str(), 80),
    );
    output.line(output.styled(Style::Bold, head.trim_end()))?;
    // All of it: whoever decides has to see what would be done.
    let input = asked.input.as_deref().map(Raw::from);
    let command = input.as_ref().and_then(|input| argument(input, "command"));
    let what = command.or_else(|| input.map(|input| input.get().to_owned()));
    let what = match what {
        Some(what) => format!("{}: {what}", asked.tool),
        None => {
            let action = asked.action.as_deref().unwrap_or("asks for permission");
            format!("command unknown: {action}")
        }
    };
    for text in plain(&what).lines() {
        output.line(format!("  {text}"))?;
    }
    Ok(())
}
