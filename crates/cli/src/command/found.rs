//! What there is on this machine, in a few lines: for `hansard` alone and for `up`.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use daemon::Condition;
use hooks::{HookInstall, agents_with_hooks};
use journal::Journal;
use projection::status::StatusGroup;
use wire::Facets;

use super::Global;
use super::hooks::hook_command;
use crate::error::CliError;
use crate::output::{CliOutput, format_count, format_several};
use crate::session_counts::SessionCounts;
use crate::statuses::Statuses;
use crate::world;

/// How long history is waited for. A longer one is read on beside the open page.
const HISTORY_WITHIN: Duration = Duration::from_secs(20);

/// How often the progress is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Prints what there is, with progress before it.
pub(super) fn print_machine(global: &Global, output: &mut CliOutput) -> Result<(), CliError> {
    let lines = describe_machine(global, &mut |progress| output.progress(|| progress.to_owned()))?;
    lines.into_iter().try_for_each(|line| output.line(line))
}

/// Waits until the daemon has read history, then says how many sessions there are, how many need
/// the user, and which agents lack hooks.
pub(super) fn describe_machine(
    global: &Global,
    tell_progress: &mut dyn FnMut(&str),
) -> Result<Vec<String>, CliError> {
    let folder = std::path::absolute(world::journal_folder(global)?)?;
    let progress = wait_for_history(&folder, tell_progress);
    let journal = Journal::open(&folder, &world::read_only())?;
    let counts = SessionCounts::count(&Statuses::open(&journal)?.recent()?);
    let mut lines = Vec::new();
    lines.extend(
        progress.map(|far| format!("the rest of the history is read in the background: {far}")),
    );
    lines.push(describe_sessions(&daemon::facets(&journal)?, &counts));
    lines.extend(describe_hooks(global, &folder)?);
    Ok(lines)
}

/// Waits until the daemon has read what agents wrote before, and tells how far it is. Returns how
/// far it got if that takes too long.
fn wait_for_history(folder: &Path, tell: &mut dyn FnMut(&str)) -> Option<String> {
    let (_open, never) = mpsc::sync_channel::<()>(0);
    let begun = Instant::now();
    while let Some(condition) = Condition::load(folder) {
        // Before the first look at the files the daemon names no backlog.
        let is_reading = condition.parts.get("capture").is_none_or(|it| it == "catching_up");
        if !is_reading {
            break;
        }
        let progress = condition.backlog.map(|backlog| backlog.to_string());
        if begun.elapsed() > HISTORY_WITHIN {
            return Some(progress.unwrap_or_default());
        }
        tell(progress.as_deref().unwrap_or("looking for sessions"));
        let _ = never.recv_timeout(LOOK_EVERY);
    }
    None
}

fn describe_sessions(found: &Facets, counts: &SessionCounts) -> String {
    let sessions: u64 = found.providers.iter().map(|agent| agent.sessions).sum();
    let none = (counts.of(StatusGroup::NeedsYou) == 0).then(|| "none needs you".to_owned());
    let open =
        [StatusGroup::NeedsYou, StatusGroup::Running, StatusGroup::Waiting, StatusGroup::Idle];
    let told = none.into_iter().chain(open.into_iter().filter_map(|it| counts.in_words(it)));
    let told = told.collect::<Vec<_>>().join(", ");
    match (sessions, found.providers.len()) {
        (0, _) => {
            "no sessions yet: start an agent, or look at three with `hansard import --sample`"
                .to_owned()
        }
        (1, _) => format!("1 session; {told}"),
        (many, 1) => {
            format!("{} of {}; {told}", format_several(many, "session"), found.providers[0].name)
        }
        (many, agents) => {
            format!("{} sessions of {agents} agents; {told}", format_count(many))
        }
    }
}

/// Says which agents on this machine have no hooks, and what to run.
fn describe_hooks(global: &Global, folder: &Path) -> Result<Option<String>, CliError> {
    let environment = world::environment(None)?;
    let command = hook_command(global)?;
    let install = HookInstall {
        environment: &environment,
        journal: folder,
        command,
        project: None,
        now: world::now(),
    };
    let statuses = agents_with_hooks().filter_map(|agent| install.status(agent));
    let without: Vec<&str> = statuses
        .filter(|status| status.is_present && status.events.is_empty())
        .map(|status| status.agent)
        .collect();
    let line = format!(
        "without hooks, approvals are seen late or not at all; to install them: hansard hooks \
         install {}",
        without.join(" ")
    );
    Ok((!without.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use wire::Facet;

    use super::*;

    #[test]
    fn what_was_found_is_one_line() {
        let found = |agents: &[(&str, u64)]| {
            let facet = |(name, sessions): &(&str, u64)| Facet {
                name: (*name).into(),
                sessions: *sessions,
            };
            Facets { providers: agents.iter().map(facet).collect(), projects: Vec::new() }
        };
        use StatusGroup::{Idle, NeedsYou, Running};
        for (agents, groups, line) in [
            (vec![("claude", 1)], vec![NeedsYou], "1 session; 1 needs you"),
            (vec![("claude", 12)], vec![], "12 sessions of claude; none needs you"),
            (
                vec![("claude", 1_800), ("codex", 3)],
                vec![Running, NeedsYou, NeedsYou, Idle],
                "1,803 sessions of 2 agents; 2 need you, 1 running, 1 idle",
            ),
        ] {
            assert_eq!(describe_sessions(&found(&agents), &groups.into_iter().collect()), line);
        }
        let none = SessionCounts::default();
        assert!(describe_sessions(&found(&[]), &none).starts_with("no sessions yet"));
    }
}
