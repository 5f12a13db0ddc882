//! `hansard sessions`: lists sessions.

use clap::Args;
use daemon::Listing;
use event::SessionId;
use journal::{Journal, ReadError};
use wire::{Page, Session};

use super::session_filter::{SessionFilterArgs, nothing_listed};
use super::status::last_part;
use super::{CommandResult, Completion, Global};
use crate::columns::{pad_to, text_width};
use crate::error::CliError;
use crate::output::{CliOutput, Style, format_count, format_money, one_line};
use crate::world;

/// Sessions per page when all are listed.
const PAGE: usize = 500;

/// List sessions, newest activity first.
#[derive(Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    which: SessionFilterArgs,
    /// List at most N; with --json as an object with a cursor
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue after an earlier page, with the cursor it printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl SessionsArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let filter = self.which.filter(world::now(), output.zone());
        let mut is_first = true;
        let mut listing = Listing::load(&journal)?;
        if let Some(limit) = self.limit {
            let page = journal.sessions(&filter, self.after.as_deref(), limit)?;
            let items = listing.list(&page.items)?;
            if output.json() {
                output.json_line(&Page { items, next: page.next })?;
            } else {
                print_all(&journal, &items, &mut is_first, output)?;
                if let Some(next) = page.next {
                    output.note(format!("there are more: --after {next}"));
                }
            }
        } else {
            let mut after = self.after.clone();
            loop {
                let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
                let items = listing.list(&page.items)?;
                if output.json() {
                    items.iter().try_for_each(|item| output.json_line(item))?;
                } else {
                    print_all(&journal, &items, &mut is_first, output)?;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        output.flush()?;
        if is_first && !output.json() {
            output.note(nothing_listed(&self.which, "sessions"));
        }
        Ok(Completion::Success)
    }
}

/// Characters of an id, of an agent, of a project and of a title. A terminal shows what fits.
const ID_CHARS_MAX: usize = 46;
const AGENT_CHARS_MAX: usize = 9;
const PROJECT_CHARS_MAX: usize = 20;
const TITLE_CHARS_MAX: usize = 80;

/// From this width on, a terminal shows how many events a session has.
const EVENTS_FROM_COLUMNS: usize = 100;

/// Prints a page of sessions. A terminal gets a heading before the first one.
fn print_all(
    journal: &Journal,
    sessions: &[Session],
    is_first: &mut bool,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let short = |session: &Session| {
        let id = SessionId::new(&session.id).map_err(ReadError::from)?;
        let short = journal.short_id(&id, session.provider_session_id.as_deref())?;
        Ok(one_line(&short, ID_CHARS_MAX))
    };
    let ids = sessions.iter().map(short).collect::<Result<Vec<String>, CliError>>()?;
    let projects: Vec<String> = sessions.iter().map(project_name).collect();
    let width = |column: &[String], least: usize| {
        column.iter().map(|text| text_width(text)).max().unwrap_or(0).max(least)
    };
    let agents: Vec<String> =
        sessions.iter().map(|session| one_line(&session.provider, AGENT_CHARS_MAX)).collect();
    let id_width = width(&ids, "session".len());
    let agent_width = width(&agents, "agent".len());
    let project_width = width(&projects, "project".len());
    let has_events = output.columns().is_none_or(|columns| columns >= EVENTS_FROM_COLUMNS);
    let line = |id: &str, at: &str, agent: &str, events: &str, cost: &str, rest: (&str, &str)| {
        let (project, title) = rest;
        let events = if has_events { format!(" {events:>7}") } else { String::new() };
        output.fitted(&[
            (Style::Bold, pad_to(id, id_width)),
            (Style::Dim, format!("  {at:<16}  ")),
            (Style::Plain, format!("{}{events} {cost:>8}  ", pad_to(agent, agent_width))),
            (Style::Dim, format!("{}  ", pad_to(project, project_width))),
            (Style::Plain, title.to_owned()),
        ])
    };
    let mut lines = Vec::new();
    if *is_first && output.is_terminal() && !sessions.is_empty() {
        let rest = ("project", "title");
        lines.push(line("session", "last active", "agent", "events", "cost", rest));
    }
    *is_first &= sessions.is_empty();
    for (place, session) in sessions.iter().enumerate() {
        let at = session.last_event_at.map_or(String::new(), |at| output.minute(at));
        let title = one_line(session.title.as_deref().unwrap_or(""), TITLE_CHARS_MAX);
        lines.push(line(
            &ids[place],
            &at,
            &agents[place],
            &format_count(session.counts.events),
            &format_money(session.usd),
            (&projects[place], &title),
        ));
    }
    lines.iter().try_for_each(|line| output.line(line))
}

/// Returns the last part of the project's path, as the page calls it.
fn project_name(session: &Session) -> String {
    let project = session.project.as_deref().or(session.cwd.as_deref());
    one_line(last_part(project), PROJECT_CHARS_MAX)
}
