//! `hansard digest`: what was done on a day, by project.

use clap::Args;
use journal::Journal;
use projection::Activity;
use projection::digest::summarize;
use segments::{Day, DayDigest, ProjectDay, SessionDay, Zone};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, one_line};
use crate::times::DayArg;
use crate::world;

/// Show what was done on a day, by project.
#[derive(Args)]
pub(crate) struct DigestArgs {
    /// `today`, `yesterday`, or a date such as 2026-11-16
    #[arg(default_value = "today")]
    day: String,
    /// Only this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
}

impl DigestArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let zone = output.zone().clone();
        let day = self.wanted_day(&zone)?;
        let journal = world::journal_to_read(global, output)?;
        let mut digest = DayDigest::for_day(&journal, &zone, day)?;
        if let Some(name) = &self.project {
            digest.projects.retain(|project| project.project == *name);
        }
        if output.json() {
            output.json_line(&digest)?;
        } else {
            output.line(output.styled(Style::Bold, day.in_words()))?;
            for project in &digest.projects {
                output.line("")?;
                print_project(&journal, project, &zone, output)?;
            }
        }
        output.flush()?;
        // After the flush: the note must not stand before the heading.
        if digest.projects.is_empty() {
            output.note("no work is recorded on that day; `hansard sessions` lists other days");
            return Ok(Completion::Negative);
        }
        Ok(Completion::Success)
    }

    fn wanted_day(&self, zone: &Zone) -> Result<Day, CliError> {
        let day: Result<DayArg, String> = self.day.parse();
        let day = day.map(|day| day.resolve(world::now(), zone));
        day.map_err(|hint| {
            let told = format!("`{}` is not a day", one_line(&self.day, 40));
            CliError::new("bad_day", told).hint(hint)
        })
    }
}

fn print_project(
    journal: &Journal,
    project: &ProjectDay,
    zone: &Zone,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    output.line(output.styled(Style::Bold, one_line(&project.project, 80)))?;
    for activity in &project.activities {
        print_activity(activity, zone, output)?;
    }
    // Sessions without facts have nothing to show.
    for session in project.sessions.iter().filter(|session| !session.facts.is_empty()) {
        print_session(journal, session, zone, output)?;
    }
    Ok(())
}

fn print_activity(
    activity: &Activity,
    zone: &Zone,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let (from, to) = (zone.hour_and_minute(activity.from), zone.hour_and_minute(activity.to));
    let busy = (activity.level_avg * 100.0).round();
    let head = format!("  {from}–{to}  {}, active {busy} % of the time", activity.activity.name());
    output.line(head)?;
    if !activity.active_entities.is_empty() {
        let touched = one_line(&activity.active_entities.join(", "), 96);
        output.line(output.styled(Style::Dim, format!("      {touched}")))?;
    }
    Ok(())
}

fn print_session(
    journal: &Journal,
    session: &SessionDay,
    zone: &Zone,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let title = one_line(session.title.as_deref().unwrap_or("untitled"), 72);
    let (from, to) = (zone.hour_and_minute(session.from), zone.hour_and_minute(session.to));
    let id =
        output.styled(Style::Dim, one_line(&world::short_id(journal, &session.session_id)?, 64));
    output.line(format!("  {from}–{to}  {title}  {id}"))?;
    for line in summarize(&session.facts).lines() {
        output.line(format!("      {}", escape_controls(line)))?;
    }
    Ok(())
}
