//! `hansard sessions`: lists sessions.

use clap::Args;
use daemon::Listing;
use wire::{Page, Session};

use super::session_filter::SessionFilterArgs;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, format_money, one_line};
use crate::world;

/// Sessions per page when all are listed.
const PAGE: usize = 500;

#[derive(Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    which: SessionFilterArgs,
    /// The most sessions to list; with --json prints one object with `items` and `next`
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue behind an earlier page, with its cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl SessionsArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let filter = self.which.filter();
        let mut listing = Listing::load(&journal)?;
        if let Some(limit) = self.limit {
            let page = journal.sessions(&filter, self.after.as_deref(), limit)?;
            let items = listing.list(&page.items)?;
            if output.json() {
                output.json_line(&Page { items, next: page.next })?;
            } else {
                print_all(&items, output)?;
                if let Some(next) = page.next {
                    output.note(format!("more with --after {next}"));
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
                    print_all(&items, output)?;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Characters of an id: a provider and a UUID fit.
const ID_CHARS_MAX: usize = 46;

/// Characters of a project.
const PROJECT_CHARS_MAX: usize = 30;

fn print_all(sessions: &[Session], output: &mut CliOutput) -> Result<(), CliError> {
    let ids: Vec<String> =
        sessions.iter().map(|session| one_line(&session.id, ID_CHARS_MAX)).collect();
    let projects: Vec<String> = sessions.iter().map(project_name).collect();
    let width = |column: &[String]| column.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    let (id_width, project_width) = (width(&ids), width(&projects));
    for ((session, id), project) in sessions.iter().zip(ids).zip(projects) {
        let at = session.last_event_at.map_or(String::new(), |at| at.to_string());
        let at = at.get(..16).unwrap_or(&at).replace('T', " ");
        let title = session.title.as_deref().unwrap_or("");
        let line = format!(
            "{}  {}  {:<9} {:>6} {:>9} {}  {}",
            output.styled(Style::Bold, format!("{id:<id_width$}")),
            output.styled(Style::Dim, at),
            one_line(&session.provider, 9),
            session.counts.events,
            format_money(session.usd),
            output.styled(Style::Dim, format!("{project:<project_width$}")),
            one_line(title, 60),
        );
        output.line(line.trim_end())?;
    }
    Ok(())
}

fn project_name(session: &Session) -> String {
    let project = session.project.as_deref().or(session.cwd.as_deref()).unwrap_or("-");
    one_line(project, PROJECT_CHARS_MAX)
}
