//! `hansard status`: what each session is doing, and which ones need you.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::Args;
use daemon::Condition;
use event::Time;
use journal::Journal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::Status;

use super::ingest::on_signal;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, one_line};
use crate::statuses::{Statuses, attention_kind, needs_user};
use crate::world;

/// The interval of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Sessions shown per group, so that all groups fit on a screen.
const GROUP_MAX: usize = 8;

/// The fewest characters of an id. More are shown where ids share a beginning.
const ID_CHARS_MIN: usize = 8;

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Keep watching, and print changes
    #[arg(long)]
    watch: bool,
    /// Include all sessions, also those that have exited
    #[arg(long)]
    all: bool,
}

/// The groups, the most urgent first.
pub(super) const GROUPS: &[(&str, Style)] = &[
    ("needs you", Style::Match),
    ("running", Style::Bold),
    ("waiting", Style::Bold),
    ("idle", Style::Bold),
    ("unknown", Style::Bold),
    ("exited", Style::Bold),
];

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
                let lines = lines(&listed, &statuses, self.all, output);
                lines.iter().try_for_each(|line| output.line(line))?;
            }
            tell_behind(&listed, output);
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
                let mut lines = lines(&listed, statuses, self.all, output);
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

pub(super) fn group(status: &Status) -> &'static str {
    // An approval is always for the user, also where attention knows no more of it.
    if needs_user(status) || status.status == "waiting_approval" {
        return "needs you";
    }
    let mut groups = GROUPS.iter().map(|(name, _)| *name);
    // A word that only a later version of the daemon knows counts as unknown.
    groups.find(|name| *name == status.status).unwrap_or("unknown")
}

fn lines(listed: &[Status], statuses: &Statuses, all: bool, output: &CliOutput) -> Vec<String> {
    let now = world::now();
    let ids = short_ids(listed);
    let mut lines = Vec::new();
    for (name, style) in GROUPS {
        let mut members: Vec<_> =
            listed.iter().zip(&ids).filter(|(status, _)| group(status) == *name).collect();
        // The most urgent first. Sessions that need no attention keep their order behind them.
        members.sort_by_key(|(status, _)| match &status.attention {
            Some(attention) => (false, Some((attention_kind(status), attention.since))),
            None => (true, None),
        });
        if members.is_empty() || *name == "exited" && !all {
            continue;
        }
        let shown = if all { members.len() } else { GROUP_MAX };
        lines.push(output.styled(*style, format!("{name} ({})", members.len())));
        for (status, id) in members.iter().take(shown) {
            let place = statuses.place(status);
            lines.push(line(status, last_part(place.as_deref()), id, now, output));
        }
        if members.len() > shown {
            let more = format!("  … and {} more", members.len() - shown);
            lines.push(output.styled(Style::Dim, more));
        }
    }
    if lines.is_empty() {
        lines.push("no session was active recently".to_owned());
    }
    lines
}

fn line(status: &Status, place: &str, id: &str, now: Time, output: &CliOutput) -> String {
    let title = status.title.as_deref().or(status.summary.last_prompt.as_deref()).unwrap_or("");
    let line = format!(
        "  {:<9} {:<16} {:>4}  {}  {}  {}",
        one_line(&status.provider, 9),
        one_line(place, 16),
        age(status.since, now),
        one_line(&status.summary.current, 60),
        output.styled(Style::Dim, one_line(title, 40)),
        output.styled(Style::Dim, one_line(id, 40)),
    );
    line.trim_end().to_owned()
}

/// Returns the last part of a session's project or folder.
pub(super) fn last_part(place: Option<&str>) -> &str {
    let place = place.unwrap_or("-");
    place.rsplit('/').next().unwrap_or(place)
}

/// Returns the providers' ids, each as short as it stays unique.
fn short_ids(listed: &[Status]) -> Vec<String> {
    let ids: Vec<&str> = listed.iter().map(display_id).collect();
    let shared = |one: &str, other: &str| {
        // By characters, so that no cut falls inside one.
        one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
    };
    let short = |(place, id): (usize, &&str)| {
        let others = ids.iter().enumerate().filter(|(other, _)| *other != place);
        let longest = others.map(|(_, other)| shared(id, other)).max().unwrap_or(0);
        // One more than the longest shared beginning tells them apart.
        id.chars().take(ID_CHARS_MIN.max(longest + 1)).collect()
    };
    ids.iter().enumerate().map(short).collect()
}

fn display_id(status: &Status) -> &str {
    status.provider_session_id.as_deref().unwrap_or(status.session_id.as_str())
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
        output.note(format!(
            "the journal is behind for {behind} of these; `hansard ingest` reads the rest"
        ));
    }
}
