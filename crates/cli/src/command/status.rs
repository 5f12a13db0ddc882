//! `hansard status`: what each session is doing, and which ones need you.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::Args;
use daemon::Condition;
use event::Time;
use journal::Journal;
use projection::status::StatusGroup;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::Status;

use super::ingest::on_signal;
use super::session_filter::nothing_recorded;
use super::usage::{budget_line, today_budgets};
use super::{CommandResult, Completion, Global};
use crate::columns::{pad_to, text_width};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, format_several, one_line};
use crate::session_counts::{SessionCounts, group_name};
use crate::statuses::{Statuses, doing, group, since, urgency, why};
use crate::world;

/// The interval of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Sessions shown per group, so that all groups fit on a screen.
const GROUP_MAX: usize = 8;

/// From this width on, a list has a column that says why a session is in its group. In a narrower one
/// the text behind it says so too.
pub(super) const WHY_FROM_COLUMNS: usize = 90;

/// Columns of the agent, the project and the reason.
const AGENT_COLUMNS_MAX: usize = 9;
const PLACE_COLUMNS_MAX: usize = 16;
pub(super) const WHY_COLUMNS: usize = 14;

/// Characters of an id, of what a session is doing, and of its title. A terminal shows what fits.
const ID_CHARS_MAX: usize = 46;
const DOING_CHARS_MAX: usize = 100;
const TITLE_CHARS_MAX: usize = 60;

/// Show what each session is doing, and which ones need you.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Keep running, and print again after each change
    #[arg(long)]
    watch: bool,
    /// All sessions, also old ones and those that have exited
    #[arg(long)]
    all: bool,
}

impl StatusArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let mut statuses = Statuses::open(&journal)?;
        if !self.watch {
            let listed = self.look(&mut statuses)?;
            if output.json() {
                for status in &listed {
                    output.json_line(status)?;
                }
            } else {
                let lines = lines(&listed, &statuses, self.all, output)?;
                lines.iter().try_for_each(|line| output.line(line))?;
            }
            tell_behind(&listed, output);
            for used in today_budgets(&journal, output)?.iter().filter(|used| used.is_exceeded()) {
                output.warn(budget_line(used));
            }
            // On stderr and last, so that it is not lost above a long list.
            if let Some(condition) = condition(&journal) {
                output.warn(condition);
            }
            output.flush()?;
            return Ok(Completion::Success);
        }
        self.watch(&journal, &mut statuses, output)
    }

    fn look(&self, statuses: &mut Statuses) -> Result<Vec<Status>, CliError> {
        if self.all { statuses.all() } else { statuses.recent() }
    }

    /// Prints changes until Ctrl-C or SIGTERM.
    fn watch(
        &self,
        journal: &Journal,
        statuses: &mut Statuses,
        output: &mut CliOutput,
    ) -> CommandResult {
        // Room for one: the first signal ends the loop.
        let (stop, stopped) = sync_channel(1);
        let signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        on_signal(signals, move || {
            // The send fails only if the loop has ended already.
            let _ = stop.try_send(());
        });
        let mut shown = BTreeMap::new();
        let mut printed = Vec::new();
        loop {
            let listed = self.look(statuses)?;
            if output.json() {
                for status in listed {
                    // Only what is new or differs, so that a reader can follow the stream.
                    if shown.get(&status.session_id) != Some(&status) {
                        output.json_line(&status)?;
                        shown.insert(status.session_id.clone(), status);
                    }
                }
            } else {
                let mut lines = lines(&listed, statuses, self.all, output)?;
                lines.extend(condition(journal));
                // An unchanged screen is not drawn again: it would flicker.
                if lines != printed {
                    output.clear_screen()?;
                    lines.iter().try_for_each(|line| output.line(line))?;
                    printed = lines;
                }
            }
            output.flush()?;
            if stopped.recv_timeout(WATCH_EVERY) != Err(RecvTimeoutError::Timeout) {
                handle.close();
                return Ok(Completion::Success);
            }
        }
    }
}

/// Returns what keeps the daemon from recording, or how much it has not read yet.
pub(super) fn condition(journal: &Journal) -> Option<String> {
    let condition = Condition::load(journal.dir()?)?;
    let nothing = |trouble: String| {
        format!("warning: nothing is being recorded: {}", escape_controls(&trouble))
    };
    // Trouble first: a backlog of a daemon that does not record says nothing.
    condition.trouble().map(nothing).or_else(|| condition.backlog.map(|it| it.to_string()))
}

fn lines(
    listed: &[Status],
    statuses: &Statuses,
    all: bool,
    output: &CliOutput,
) -> Result<Vec<String>, CliError> {
    let counts = SessionCounts::count(listed);
    let mut shown: Vec<(StatusGroup, Vec<&Status>)> = Vec::new();
    for group in StatusGroup::ALL {
        let mut members: Vec<&Status> =
            listed.iter().filter(|it| self::group(it) == group).collect();
        members.sort_by_key(|status| urgency(status));
        if !members.is_empty() && (group != StatusGroup::Exited || all) {
            members.truncate(if all { usize::MAX } else { GROUP_MAX });
            shown.push((group, members));
        }
    }
    if shown.is_empty() {
        let none = match statuses.has_sessions()? {
            true => {
                "no session was active in the last day; `hansard sessions` lists all".to_owned()
            }
            false => nothing_recorded("sessions"),
        };
        return Ok(vec![none]);
    }
    let rows = shown.iter().flat_map(|(_, members)| members);
    let rows = rows.map(|status| StatusLine::new(status, statuses));
    let mut rows = rows.collect::<Result<Vec<StatusLine>, CliError>>()?.into_iter();
    let widths = StatusWidths::fit(rows.as_slice());
    let now = world::now();
    let mut lines = Vec::new();
    for (group, members) in shown {
        let style = if group == StatusGroup::NeedsYou { Style::Match } else { Style::Bold };
        let all = counts.of(group);
        lines.push(output.styled(style, format!("{} ({all})", group_name(group))));
        let rows = rows.by_ref().take(members.len());
        lines.extend(rows.map(|row| row.format(&widths, now, output)));
        if all > members.len() {
            let more = format!("  … and {} more: hansard status --all", all - members.len());
            lines.push(output.styled(Style::Dim, more));
        }
    }
    Ok(lines)
}

/// What a line says of a session.
struct StatusLine {
    id: String,
    agent: String,
    place: String,
    since: Time,
    why: String,
    doing: String,
    title: String,
}

/// The widths of columns that are as wide as their longest text.
struct StatusWidths {
    id: usize,
    agent: usize,
    place: usize,
}

impl StatusLine {
    fn new(status: &Status, statuses: &Statuses) -> Result<StatusLine, CliError> {
        let place = statuses.place(status);
        let title = status.title.as_deref().or(status.summary.last_prompt.as_deref()).unwrap_or("");
        Ok(StatusLine {
            id: one_line(&statuses.short_id(status)?, ID_CHARS_MAX),
            agent: one_line(&status.provider, AGENT_COLUMNS_MAX),
            place: one_line(last_part(place.as_deref()), PLACE_COLUMNS_MAX),
            since: since(status),
            why: one_line(&why(status), WHY_COLUMNS),
            doing: one_line(&doing(status), DOING_CHARS_MAX),
            title: one_line(title, TITLE_CHARS_MAX),
        })
    }

    fn format(&self, widths: &StatusWidths, now: Time, output: &CliOutput) -> String {
        let StatusWidths { id, agent, place } = widths;
        let is_wide = output.columns().is_none_or(|columns| columns >= WHY_FROM_COLUMNS);
        let why =
            if is_wide { format!("{}  ", pad_to(&self.why, WHY_COLUMNS)) } else { String::new() };
        output.fitted(&[
            (Style::Plain, format!("  {}  ", pad_to(&self.id, *id))),
            (
                Style::Plain,
                format!("{} {} ", pad_to(&self.agent, *agent), pad_to(&self.place, *place)),
            ),
            (Style::Plain, format!("{:>4}  {why}{}", age(self.since, now), self.doing)),
            (Style::Dim, format!("  {}", self.title)),
        ])
    }
}

impl StatusWidths {
    fn fit(rows: &[StatusLine]) -> StatusWidths {
        let widest = |text: fn(&StatusLine) -> &str| {
            rows.iter().map(|row| text_width(text(row))).max().unwrap_or(0)
        };
        StatusWidths {
            id: widest(|row| &row.id),
            agent: widest(|row| &row.agent),
            place: widest(|row| &row.place),
        }
    }
}

/// Returns the last part of a session's project or folder.
pub(super) fn last_part(place: Option<&str>) -> &str {
    let place = place.unwrap_or("-");
    place.rsplit('/').next().unwrap_or(place)
}

/// Formats an age for people.
pub(super) fn age(since: Time, now: Time) -> String {
    // The clocks of agents may be ahead.
    let secs = ((now.nanos() - since.nanos()) / 1_000_000_000).max(0);
    match secs {
        0..60 => format!("{secs}s"),
        60..3_600 => format!("{}m", secs / 60),
        3_600..86_400 => format!("{}h", secs / 3_600),
        _ => format!("{}d", secs / 86_400),
    }
}

/// Notes that the status is old, because the journal is not being filled.
fn tell_behind(listed: &[Status], output: &mut CliOutput) {
    let behind = listed.iter().filter(|status| status.behind).count();
    if behind > 0 {
        let sessions = format_several(behind as u64, "session");
        output.note(format!(
            "{sessions} wrote more than is recorded; `hansard ingest --once` reads the rest"
        ));
    }
}
