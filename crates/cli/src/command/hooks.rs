//! `hansard hooks`: our entries in the settings of agents.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, Subcommand};
use daemon::{HookChange, HookInstall, HookInstallError, HookStatus, agents_with_hooks};
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, plain};
use crate::world;

#[derive(Args)]
pub(crate) struct Hooks {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Subcommand)]
enum HooksCommand {
    /// Have agents call `hansard hook` for what happens
    Install(Change),
    /// Take our entries out again; nothing else of a file changes
    Uninstall(Change),
    /// Which agents call, which events, when last, and what is missing
    Status(Which),
    /// Call the installed hooks as an agent would, with nothing to say
    Test(Which),
}

#[derive(Args)]
struct Change {
    #[command(flatten)]
    which: Which,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct Which {
    /// claude, codex, copilot, cursor, gemini, opencode, qwen; without any: those found here
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// The hooks of the project in this folder, not your own
    #[arg(long)]
    project: bool,
}

#[derive(Serialize)]
struct ChangeShape<'a> {
    agent: &'a str,
    config: Option<&'a Path>,
    changed: bool,
    problem: Option<String>,
}

#[derive(Serialize)]
struct StatusShape<'a> {
    agent: &'a str,
    installed: bool,
    trusted: Option<bool>,
    events: &'a [String],
    config: &'a Path,
    last_call_at: Option<event::Time>,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct TestShape<'a> {
    agent: &'a str,
    event: &'a str,
    ok: bool,
    elapsed_ms: u128,
}

impl Hooks {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let (which, is_dry) = match &self.command {
            HooksCommand::Install(change) | HooksCommand::Uninstall(change) => {
                (&change.which, change.dry_run)
            }
            HooksCommand::Status(which) | HooksCommand::Test(which) => (which, true),
        };
        let environment = world::environment(None)?;
        let journal = world::folder(global)?;
        let hooks = HookInstall {
            environment: &environment,
            journal: &journal,
            command: command(global)?,
            project: which.project.then(std::env::current_dir).transpose()?,
            now: world::now(),
        };
        for agent in &which.agents {
            if !agents_with_hooks().any(|known| known == agent) {
                return Err(HookInstallError::NoHooks(agent.clone()).into());
            }
        }
        match &self.command {
            HooksCommand::Status(_) => status(&hooks, which, output),
            HooksCommand::Test(_) => test(&hooks, which, output),
            HooksCommand::Install(_) => {
                change(&hooks, which, is_dry, "install", output, |hooks, agent| {
                    hooks.install(agent, is_dry)
                })
            }
            HooksCommand::Uninstall(_) => {
                change(&hooks, which, is_dry, "uninstall", output, |hooks, agent| {
                    hooks.uninstall(agent, is_dry)
                })
            }
        }
    }
}

/// What agents run: this program, and the journal if it is not the usual one.
fn command(global: &Global) -> Result<String, CliError> {
    let program = std::env::current_exe()?;
    let mut command = quoted(&program.to_string_lossy());
    if let Some(journal) = &global.journal {
        let journal = std::path::absolute(journal)?;
        command.push_str(&format!(" --journal {}", quoted(&journal.to_string_lossy())));
    }
    Ok(command)
}

/// One word of a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn change(
    hooks: &HookInstall<'_>,
    which: &Which,
    is_dry: bool,
    verb: &str,
    output: &mut Output,
    change: impl Fn(&HookInstall<'_>, &str) -> Result<HookChange, HookInstallError>,
) -> Result<Done, CliError> {
    let agents = match which.agents.is_empty() {
        true => chosen(hooks, is_dry, verb, output)?,
        false => which.agents.clone(),
    };
    let mut done = Done::Yes;
    for agent in &agents {
        if !hooks.is_present(agent) && hooks.project.is_none() {
            tell(agent, Err(format!("{agent} is not on this machine; skipped")), is_dry, output)?;
            continue;
        }
        match change(hooks, agent) {
            Ok(changed) => tell(agent, Ok(&changed), is_dry, output)?,
            Err(error) => {
                tell(agent, Err(in_words(&error)), is_dry, output)?;
                done = Done::NotSo;
            }
        }
    }
    Ok(done)
}

/// The agents found here, if somebody says that they are meant.
fn chosen(
    hooks: &HookInstall<'_>,
    is_dry: bool,
    verb: &str,
    output: &mut Output,
) -> Result<Vec<String>, CliError> {
    let found: Vec<String> =
        agents_with_hooks().filter(|agent| hooks.is_present(agent)).map(str::to_owned).collect();
    if is_dry {
        return Ok(found);
    }
    if !io::stdin().is_terminal() {
        let hint = format!("for instance `hansard hooks {verb} {}`", found.join(" "));
        let error = CliError::new("no_agents", "it is not said which agents");
        return Err(error.hint(hint.trim_end()).misused());
    }
    output.line(format!("found: {}", found.join(", ")))?;
    write!(output.writer(), "{verb} hooks for these? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    Ok(if is_yes { found } else { Vec::new() })
}

/// An error with its causes, on one line.
fn in_words(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", in_words(cause)),
        None => error.to_string(),
    }
}

fn tell(
    agent: &str,
    changed: Result<&HookChange, String>,
    is_dry: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&ChangeShape {
            agent,
            config: changed.as_ref().ok().map(|changed| changed.path.as_path()),
            changed: changed.as_ref().is_ok_and(|changed| changed.is_changed && !is_dry),
            problem: changed.err(),
        });
    }
    let line = match changed {
        Ok(changed) => {
            let did = match (changed.is_changed, is_dry) {
                (true, true) => "would change",
                (true, false) => "changed",
                (false, _) => "nothing to do in",
            };
            format!("{agent:<9} {did} {}", changed.path.display())
        }
        Err(problem) => format!("{agent:<9} {problem}"),
    };
    output.line(plain(&line))
}

fn status(hooks: &HookInstall<'_>, which: &Which, output: &mut Output) -> Result<Done, CliError> {
    for status in statuses(hooks, which) {
        if output.json() {
            output.json_line(&StatusShape {
                agent: status.agent,
                installed: !status.events.is_empty(),
                trusted: status.is_trusted,
                events: &status.events,
                config: &status.path,
                last_call_at: status.last_call_at,
                problem: status.problem.as_deref(),
            })?;
            continue;
        }
        let stands = match (status.is_present, status.events.len()) {
            (false, 0) => "not on this machine".to_owned(),
            (true, 0) => "not installed".to_owned(),
            (_, events) => format!("{events} events in {}", status.path.display()),
        };
        let called = status
            .last_call_at
            .map(|at| format!("; called {} ago", super::status::age(at, world::now())));
        let problem = status.problem.map(|problem| format!("; {problem}"));
        let (called, problem) = (called.unwrap_or_default(), problem.unwrap_or_default());
        output.line(plain(&format!("{:<9} {stands}{called}{problem}", status.agent)))?;
    }
    Ok(Done::Yes)
}

/// Runs every installed command as its agent would. A hook that prints, or fails, or is not there,
/// is not so.
fn test(hooks: &HookInstall<'_>, which: &Which, output: &mut Output) -> Result<Done, CliError> {
    let mut done = Done::Yes;
    for status in statuses(hooks, which).filter(|status| !status.events.is_empty()) {
        for event in &status.events {
            let begun = Instant::now();
            let command = format!("{} hook {} {event}", hooks.command, status.agent);
            let ran = Command::new("/bin/sh").args(["-c", &command]).stdin(Stdio::null()).output();
            let elapsed_ms = begun.elapsed().as_millis();
            let is_ok = ran.is_ok_and(|ran| {
                ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty()
            });
            if !is_ok {
                done = Done::NotSo;
            }
            if output.json() {
                let agent = status.agent;
                output.json_line(&TestShape { agent, event, ok: is_ok, elapsed_ms })?;
            } else {
                let word = if is_ok { "ok" } else { "failed" };
                output.line(format!("{:<9} {event:<20} {word}", status.agent))?;
            }
        }
    }
    Ok(done)
}

fn statuses(hooks: &HookInstall<'_>, which: &Which) -> impl Iterator<Item = HookStatus> {
    let is_meant =
        |agent: &&str| which.agents.is_empty() || which.agents.iter().any(|name| name == agent);
    agents_with_hooks().filter(is_meant).filter_map(|agent| hooks.status(agent))
}
