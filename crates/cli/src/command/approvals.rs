//! `hansard approvals`: pending approvals with their exact commands.

use capture::argument;
use clap::Args;
use daemon::FROM_TRANSCRIPT;
use event::{Raw, Time};
use wire::Approval;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, one_line};
use crate::statuses::Statuses;
use crate::world::{self, short_id};

/// List pending approvals with their exact commands.
#[derive(Args)]
pub(crate) struct ApprovalsArgs {}

impl ApprovalsArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let now = world::now();
        let pending = Statuses::open(&journal)?.pending_approvals()?;
        for approval in &pending {
            if output.json() {
                output.json_line(approval)?;
            } else {
                print_approval(approval, &short_id(&journal, &approval.session_id)?, now, output)?;
            }
        }
        output.flush()?;
        if pending.is_empty() {
            output.note(
                "no approvals are pending; `hansard status` shows what each session is doing",
            );
        }
        let mut concluded: Vec<&str> = pending
            .iter()
            .filter(|approval| approval.source == FROM_TRANSCRIPT)
            .map(|approval| approval.provider.as_str())
            .collect();
        concluded.sort_unstable();
        concluded.dedup();
        if !concluded.is_empty() {
            let agents = concluded.join(" ");
            output.note(format!(
                "`{FROM_TRANSCRIPT}` is a guess from a call without a result; with hooks the agent \
                 reports it: `hansard hooks install {agents}`"
            ));
        }
        Ok(Completion::Success)
    }
}

/// Prints one approval: agent, age, risk and folder, then the complete input.
fn print_approval(
    asked: &Approval,
    id: &str,
    now: Time,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let head = format!(
        "{}  {:<9} {:>4}  {:<11} {}",
        one_line(id, 46),
        one_line(&asked.provider, 9),
        super::status::age(asked.requested_at, now),
        one_line(asked.risk.as_deref().unwrap_or("-"), 20),
        one_line(asked.cwd.as_deref().unwrap_or("-"), 60),
    );
    output.line(output.styled(Style::Bold, head.trim_end()))?;
    // Never shortened: the user has to see all of what would run.
    let input = asked.input.as_deref().map(Raw::from);
    let command = input.as_ref().and_then(|input| argument(input, "command"));
    let what = command.or_else(|| input.map(|input| input.get().to_owned()));
    let is_concluded = asked.source == FROM_TRANSCRIPT;
    let mark = if is_concluded { format!(" ({FROM_TRANSCRIPT})") } else { String::new() };
    let what = match what {
        Some(what) => format!("{}{mark}: {what}", asked.tool),
        None => {
            let action = asked.action.as_deref().unwrap_or("asks for permission");
            format!("command unknown: {action}")
        }
    };
    for text in escape_controls(&what).lines() {
        output.line(format!("  {text}"))?;
    }
    Ok(())
}
