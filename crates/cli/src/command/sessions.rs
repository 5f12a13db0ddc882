//! `hansard sessions`: what there is.

use clap::Args;
use event::Time;
use journal::{SessionFilter, SessionInfo};

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, one_line};
use crate::shape::{PageShape, SessionShape};
use crate::world;

/// Sessions read at a time when all are asked for.
const PAGE: usize = 500;

#[derive(Args)]
pub(crate) struct Sessions {
    /// Only sessions of this provider, for instance `claude`
    #[arg(long)]
    provider: Option<String>,
    /// Only sessions of this project or folder
    #[arg(long)]
    project: Option<String>,
    /// Only sessions active since this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Only sessions begun before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// At most so many; with --json prints one object with `items` and `next`
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Go on where an earlier listing ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Sessions {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let filter = SessionFilter {
            provider: self.provider.clone(),
            project: self.project.clone(),
            active_since: self.since,
            active_until: self.until,
        };
        if let Some(limit) = self.limit {
            let page = journal.sessions(&filter, self.after.as_deref(), limit)?;
            if output.json() {
                let items = page.items.iter().map(SessionShape::from).collect();
                output.json_line(&PageShape { items, next: page.next })?;
            } else {
                print_all(&page.items, output)?;
                if let Some(next) = page.next {
                    output.note(format!("more with --after {next}"));
                }
            }
        } else {
            let mut after = self.after.clone();
            loop {
                let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
                if output.json() {
                    for info in &page.items {
                        output.json_line(&SessionShape::from(info))?;
                    }
                } else {
                    print_all(&page.items, output)?;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

fn print_all(sessions: &[SessionInfo], output: &mut Output) -> Result<(), CliError> {
    for info in sessions {
        let at = info.last_event_at.to_string();
        let at = at.get(..16).unwrap_or(&at).replace('T', " ");
        let project = info.project.as_deref().or(info.cwd.as_deref()).unwrap_or("-");
        let title = info.title.as_deref().unwrap_or("");
        let events = format!("{:>6}", info.events);
        let line = format!(
            "{}  {}  {:<9} {events} {}  {}",
            output.styled(Style::Bold, one_line(info.id.as_str(), 36)),
            output.styled(Style::Dim, at),
            one_line(&info.provider, 9),
            output.styled(Style::Dim, one_line(project, 30)),
            one_line(title, 60),
        );
        output.line(line.trim_end())?;
    }
    Ok(())
}
