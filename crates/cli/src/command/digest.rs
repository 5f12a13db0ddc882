//! `hansard digest`: what was done on a day, by project.

use clap::Args;
use projection::Activity;
use projection::digest::summarize;
use segments::{Day, DayDigest, ProjectDay, SessionDay, Zone};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, one_line};
use crate::world;

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
        let zone = Zone::system();
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
                print_project(project, &zone, output)?;
            }
        }
        output.flush()?;
        // After the flush: the note must not stand before the heading.
        if digest.projects.is_empty() {
            output.note("the journal has no work on that day");
            return Ok(Completion::Negative);
        }
        Ok(Completion::Success)
    }

    fn wanted_day(&self, zone: &Zone) -> Result<Day, CliError> {
        let today = zone.day(world::now());
        let day = match self.day.as_str() {
            "today" => Some(today),
            "yesterday" => Some(today.yesterday()),
            day => Day::parse(day).or_else(|| parse_dashed(day)),
        };
        day.ok_or_else(|| {
            CliError::new("bad_day", format!("`{}` is not a day", one_line(&self.day, 40)))
                .hint("use a date such as 2026-11-16, or `today` or `yesterday`")
        })
    }
}

/// Parses a date such as `2026-11-16`.
fn parse_dashed(text: &str) -> Option<Day> {
    let [year, month, day] = text.split('-').collect::<Vec<_>>().try_into().ok()?;
    // A month of one digit would shift the day: `2026-1-116`.
    (month.len() == 2).then(|| Day::parse(&[year, month, day].concat())).flatten()
}

fn print_project(
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
        print_session(session, zone, output)?;
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
    let head = format!("  {from}–{to}  {}, at work {busy} % of it", activity.activity.name());
    output.line(head)?;
    if !activity.active_entities.is_empty() {
        let touched = one_line(&activity.active_entities.join(", "), 96);
        output.line(output.styled(Style::Dim, format!("      {touched}")))?;
    }
    Ok(())
}

fn print_session(
    session: &SessionDay,
    zone: &Zone,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let title = one_line(session.title.as_deref().unwrap_or("untitled"), 72);
    let (from, to) = (zone.hour_and_minute(session.from), zone.hour_and_minute(session.to));
    let id = output.styled(Style::Dim, one_line(session.session_id.as_str(), 64));
    output.line(format!("  {from}–{to}  {title}  {id}"))?;
    for line in summarize(&session.facts).lines() {
        output.line(format!("      {}", escape_controls(line)))?;
    }
    Ok(())
}
