//! `hansard explain`: how the status of a session was determined.

use clap::Args;
use event::Time;
use projection::FactOrigin;
use projection::status::StatusGroup;
use wire::{Evidence, Status};

use super::status::age;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, one_line};
use crate::statuses::{Statuses, group, why};
use crate::world;

/// Characters of a line of evidence.
const WHAT_CHARS_MAX: usize = 160;

/// Explain why a session has its status.
#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
}

impl ExplainArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let status = Statuses::open(&journal)?.explain(&self.session)?;
        if output.json() {
            output.json_line(&status)?;
        } else {
            print_status(&status, world::now(), output)?;
        }
        if status.behind {
            output.note(
                "the session wrote more than is recorded; `hansard ingest --once` reads the rest",
            );
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn print_status(status: &Status, now: Time, output: &mut CliOutput) -> Result<(), CliError> {
    let summary = &status.summary;
    let title = status.title.as_deref().unwrap_or("untitled");
    output.line(output.styled(Style::Bold, one_line(title, 100)))?;
    output.line(output.styled(Style::Dim, one_line(status.session_id.as_str(), 80)))?;
    let head = format!(
        "{} ({}), {} confidence, for {}",
        one_line(&status.status, 20),
        one_line(&status.reason, 20),
        one_line(&status.confidence, 20),
        age(status.since, now),
    );
    output.line(output.styled(Style::Bold, head))?;
    if let Some(attention) = &status.attention
        && group(status) == StatusGroup::NeedsYou
    {
        let (want, since) = (why(status), output.minute(attention.since));
        let what = one_line(&attention.what, 120);
        output.line(format!("  Needs you since {since}: {want}, {what}"))?;
    }
    output.line(format!("  Current: {}", one_line(&summary.current, 120)))?;
    if let Some(recent) = &summary.recent {
        let by = if summary.recent_origin.as_deref() == Some(FactOrigin::Model.as_str()) {
            " (by a model)"
        } else {
            ""
        };
        output.line(format!("  Recent{by}: {}", one_line(recent, 120)))?;
    }
    if let Some(last_prompt) = &summary.last_prompt {
        output.line(format!("  Last prompt: \"{}\"", one_line(last_prompt, 120)))?;
    }
    // Headings only where lines follow.
    if !status.evidence.is_empty() {
        output.line("because")?;
    }
    for evidence in &status.evidence {
        output.line(format!("  {}", format_evidence(evidence, now)))?;
        let ends = format!("    ends with {}", one_line(&evidence.ends, WHAT_CHARS_MAX));
        output.line(output.styled(Style::Dim, ends))?;
    }
    let overruled = status.overruled.as_deref().unwrap_or_default();
    if !overruled.is_empty() {
        output.line("although")?;
    }
    for other in overruled {
        let says = one_line(&other.says, 20);
        output.line(format!("  {} says {says}", format_evidence(&other.evidence, now)))?;
        let why = format!("    but {}", one_line(&other.why, WHAT_CHARS_MAX));
        output.line(output.styled(Style::Dim, why))?;
    }
    let history = status.history.as_deref().unwrap_or_default();
    if !history.is_empty() {
        output.line("before")?;
    }
    for change in history {
        let (status, because) = (one_line(&change.status, 20), one_line(&change.because, 20));
        let at = output.second(change.at);
        output.line(format!("  {at}  {status} ({because})"))?;
    }
    Ok(())
}

fn format_evidence(evidence: &Evidence, now: Time) -> String {
    format!(
        "{} [{}, {}, {} ago]",
        one_line(&evidence.what, WHAT_CHARS_MAX),
        one_line(&evidence.source, 20),
        one_line(&evidence.confidence, 20),
        age(evidence.at, now),
    )
}
