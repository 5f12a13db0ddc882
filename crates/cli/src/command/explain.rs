//! `hansard explain`: why a session is taken to do what it does.

use clap::Args;
use daemon::{SessionStatus, Statuses, answers};
use event::Time;
use host::Processes;
use projection::Origin;
use projection::status::Evidence;

use super::status::age;
use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, one_line};
use crate::world;

/// Letters of a line of evidence.
const WHAT_CHARS_MAX: usize = 160;

#[derive(Args)]
pub(crate) struct Explain {
    /// The beginning of a session's id, ours or its provider's
    session: String,
}

impl Explain {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let environment = world::environment(None)?;
        let now = world::now();
        let status = Statuses::new(journal, environment).of(info, &Processes::default(), now)?;
        if output.json() {
            output.json_line(&answers::explained(&status))?;
        } else {
            print(&status, now, output)?;
        }
        if status.is_behind {
            output.note("it has written more than the journal has; `hansard ingest` reads it");
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

fn print(status: &SessionStatus, now: Time, output: &mut Output) -> Result<(), CliError> {
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
        let by = if summary.recent_origin == Some(Origin::Model) { " (by a model)" } else { "" };
        output.line(format!("  Recent{by}: {}", one_line(recent, 120)))?;
    }
    if let Some(last_prompt) = &summary.last_prompt {
        output.line(format!("  Last prompt: \"{}\"", one_line(last_prompt, 120)))?;
    }
    if !verdict.evidence.is_empty() {
        output.line("because")?;
    }
    for evidence in &verdict.evidence {
        output.line(format!("  {}", told(evidence, now)))?;
        let ends = format!("    ends with {}", evidence.ends);
        output.line(output.styled(Style::Dim, ends))?;
    }
    if !verdict.overruled.is_empty() {
        output.line("although")?;
    }
    for other in &verdict.overruled {
        let says = other.evidence.says.as_str();
        output.line(format!("  {} says {says}", told(&other.evidence, now)))?;
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

fn told(evidence: &Evidence, now: Time) -> String {
    format!(
        "{} [{}, {}, {} ago]",
        one_line(&evidence.what, WHAT_CHARS_MAX),
        one_line(&evidence.source, 20),
        evidence.confidence,
        age(evidence.at, now),
    )
}
