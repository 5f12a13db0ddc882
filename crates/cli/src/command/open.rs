//! `hansard` alone, on a terminal: the way in. It starts the daemon if none runs, waits until
//! history is read, says what was found, and opens the page.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use daemon::{Condition, RunningDaemon};
use hooks::{HookInstall, agents_with_hooks};
use wire::Facets;

use super::hooks::hook_command;
use super::{CommandResult, Completion, Global, up, web};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::statuses::{Statuses, needs_user};
use crate::world;

/// How long history is waited for. A longer one is read on beside the open page.
const HISTORY_WITHIN: Duration = Duration::from_secs(20);

/// How often it is looked how far history is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a program that opens the page may take to say that it cannot.
const OPENED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct OpenArgs {
    /// Without a command: print the address of the page, and do not open it
    #[arg(long)]
    no_open: bool,
}

/// Where the page can be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
enum BrowserPlace {
    /// By this program, which hands an address to the user's browser.
    Here(&'static str),
    /// On another machine: the user is logged in over ssh, to this user and address.
    OverSsh {
        target: String,
    },
    None,
}

impl OpenArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let folder = std::path::absolute(world::journal_folder(global)?)?;
        if RunningDaemon::find(&folder).is_none() {
            up::start_in_background(global, output)?;
        }
        wait_for_history(&folder, output);
        let journal = world::journal_to_read(global, output)?;
        let needing =
            Statuses::open(&journal)?.recent()?.iter().filter(|it| needs_user(it)).count();
        output.line(describe_sessions(&daemon::facets(&journal)?, needing))?;
        if let Some(line) = describe_hooks(global, &folder)? {
            output.line(line)?;
        }
        let link = web::make_link(global)?;
        output.line(format!("the page: {}", link.page))?;
        match find_browser(|name| std::env::var(name).ok()) {
            BrowserPlace::Here(opener) if !self.no_open && open_address(opener, &link.login) => {}
            BrowserPlace::OverSsh { target } => {
                let port = link.page.rsplit(':').next().unwrap_or_default();
                output.line("on your own machine run this, then open the link within a minute:")?;
                output.line(format!("  ssh -N -L {port}:localhost:{port} {target}"))?;
                output.line(format!("  {}", link.login))?;
            }
            _ => output.line(format!("sign in, once and within a minute: {}", link.login))?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Shows how far the daemon is, until it has read what agents wrote before.
fn wait_for_history(folder: &Path, output: &mut CliOutput) {
    let (_open, never) = mpsc::sync_channel::<()>(0);
    let begun = Instant::now();
    while let Some(condition) = Condition::load(folder) {
        // Before the first look at the files the daemon names no backlog.
        let is_reading = condition.parts.get("capture").is_none_or(|it| it == "catching_up");
        if !is_reading {
            return;
        }
        if begun.elapsed() > HISTORY_WITHIN {
            let left = condition.backlog.map_or_else(String::new, |backlog| format!(": {backlog}"));
            return output.note(format!("history is read on in the background{left}"));
        }
        output.progress(|| match condition.backlog {
            Some(backlog) => backlog.to_string(),
            None => "looking for sessions".to_owned(),
        });
        let _ = never.recv_timeout(LOOK_EVERY);
    }
}

fn describe_sessions(found: &Facets, needing: usize) -> String {
    let sessions: u64 = found.providers.iter().map(|agent| agent.sessions).sum();
    let needs = match needing {
        0 => "none needs you".to_owned(),
        1 => "1 needs you".to_owned(),
        many => format!("{many} need you"),
    };
    match (sessions, found.providers.len()) {
        (0, _) => "no sessions yet: start an agent, and its session appears here".to_owned(),
        (1, _) => format!("1 session; {needs}"),
        (many, 1) => format!("{many} sessions of {}; {needs}", found.providers[0].name),
        (many, agents) => format!("{many} sessions of {agents} agents; {needs}"),
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

fn find_browser(variable: impl Fn(&str) -> Option<String>) -> BrowserPlace {
    // `client-address client-port server-address server-port`.
    if let Some(connection) = variable("SSH_CONNECTION") {
        let server = connection.split(' ').nth(2).unwrap_or("HOST").to_owned();
        let user = variable("USER").map_or_else(String::new, |user| format!("{user}@"));
        return BrowserPlace::OverSsh { target: format!("{user}{server}") };
    }
    if cfg!(target_os = "macos") {
        return BrowserPlace::Here("open");
    }
    let has_display =
        ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| variable(name).is_some());
    if has_display { BrowserPlace::Here("xdg-open") } else { BrowserPlace::None }
}

/// Opens an address in the user's browser; `false` if there is no program for it.
fn open_address(opener: &str, address: &str) -> bool {
    let quiet = || Stdio::null();
    let mut command = Command::new(opener);
    let command = command.arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet());
    let Ok(mut child) = command.spawn() else { return false };
    let (_open, never) = mpsc::sync_channel::<()>(0);
    let begun = Instant::now();
    // It hands the address over and says whether it could, or it is the browser itself.
    while begun.elapsed() < OPENED_WITHIN {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => _ = never.recv_timeout(LOOK_EVERY),
            Err(_) => return false,
        }
    }
    true
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
        for (agents, needing, line) in [
            (vec![("claude", 1)], 1, "1 session; 1 needs you"),
            (vec![("claude", 12)], 0, "12 sessions of claude; none needs you"),
            (vec![("claude", 180), ("codex", 3)], 4, "183 sessions of 2 agents; 4 need you"),
        ] {
            assert_eq!(describe_sessions(&found(&agents), needing), line);
        }
        assert!(describe_sessions(&found(&[]), 0).starts_with("no sessions yet"));
    }

    #[test]
    fn page_opens_where_the_user_sits() {
        let screen = |set: &[(&str, &str)]| {
            find_browser(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let ssh =
            [("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.9 22"), ("USER", "dev"), ("DISPLAY", ":1")];
        assert_eq!(screen(&ssh), BrowserPlace::OverSsh { target: "dev@10.0.0.9".to_owned() });
        if cfg!(target_os = "linux") {
            assert_eq!(screen(&[("DISPLAY", ":0")]), BrowserPlace::Here("xdg-open"));
            assert_eq!(screen(&[]), BrowserPlace::None);
        }
    }
}
