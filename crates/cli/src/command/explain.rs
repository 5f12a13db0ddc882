//! `hansard explain`: how the status of a session was determined.

use clap::Args;
use daemon::{SessionStatus, StatusTracker, answers};
use event::Time;
use host::Processes;
use projection::FactOrigin;
use projection::status::Evidence;

use super::status::age;
use super::{Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, one_line};
use crate::world;

/// Characters of a line of evidence.
const WHAT_CHARS_MAX: usize = 160;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// Session id or its beginning, ours or the provider's
    session: String,
}

impl ExplainArgs {
    pub(crate) fn run(
        &self,
        global: &Global,
        output: &mut CliOutput,
    ) -> Result<Completion, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let environment = world::environment(None)?;
        let now = world::now();
        // A fresh tracker: the answer comes from the journal and the host as they are now.
        let status = StatusTracker::new(journal, environment).for_session(
            info,
            &Processes::default(),
            now,
        )?;
        if output.json() {
            output.json_line(&answers::explained(&status))?;
        } else {
            print_status(&status, now, output)?;
        }
        if status.is_behind {
            output.note("the journal is behind for this session; `hansard ingest` reads the rest");
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn print_status(status: &SessionStatus, now: Time, output: &mut CliOutput) -> Result<(), CliError> {
    let SessionStatus { info, verdict, summary, .. } = status;
    let title = status.title.as_deref().unwrap_or("untitled");
    output.line(output.styled(Style::Bold, one_line(title, 100)))?;
    output.line(output.styled(Style::Dim, one_line(info.id.as_str(), 80)))?;
    let head = format!(
        "{} ({}), {} confidence, for {}",
        verdict.status.as_str(),
        verdict.reason.as_str(),
        verdict.confidence,
        age(verdict.since, now),
    );
    output.line(output.styled(Style::Bold, head))?;
    output.line(format!("  Current: {}", one_line(&summary.current, 120)))?;
    if let Some(recent) = &summary.recent {
        let by =
            if summary.recent_origin == Some(FactOrigin::Model) { " (by a model)" } else { "" };
        output.line(format!("  Recent{by}: {}", one_line(recent, 120)))?;
    }
    if let Some(last_prompt) = &summary.last_prompt {
        output.line(format!("  Last prompt: \"{}\"", one_line(last_prompt, 120)))?;
    }
    // Headings only where lines follow.
    if !verdict.evidence.is_empty() {
        output.line("because")?;
    }
    for evidence in &verdict.evidence {
        output.line(format!("  {}", format_evidence(evidence, now)))?;
        let ends = format!("    ends with {}", evidence.ends);
        output.line(output.styled(Style::Dim, ends))?;
    }
    if !verdict.overruled.is_empty() {
        output.line("although")?;
    }
    for other in &verdict.overruled {
        let says = other.evidence.says.as_str();
        output.line(format!("  {} says {says}", format_evidence(&other.evidence, now)))?;
        let why = format!("    but {}", one_line(&other.why, WHAT_CHARS_MAX));
        output.line(output.styled(Style::Dim, why))?;
    }
    let history: Vec<_> = status.state.history().collect();
    if !history.is_empty() {
        output.line("before")?;
    }
    for change in history {
        let (status, reason) = (change.status.as_str(), change.reason.as_str());
        output.line(format!("  {}  {status} ({reason})", change.at))?;
    }
    Ok(())
}

fn format_evidence(evidence: &Evidence, now: Time) -> String {
    format!(
        "{} [{}, {}, {} ago]",
        one_line(&evidence.what, WHAT_CHARS_MAX),
        one_line(&evidence.source, 20),
        evidence.confidence,
        age(evidence.at, now),
    )
}
