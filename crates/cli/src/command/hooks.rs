//! `hansard hooks`: our entries in the settings of agents.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, Subcommand};
use hooks::{
    HookChange, HookFailure, HookInstall, HookInstallError, HookStatus, agents_with_hooks,
};
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::hook;
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
    /// Run the commands in the settings of agents as those would, with nothing to say
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
    /// Calls that came to nothing lately, and what was wrong with the last one.
    failures: usize,
    last_failure: Option<&'a str>,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct TestShape<'a> {
    agent: &'a str,
    event: &'a str,
    ok: bool,
    elapsed_ms: u128,
    problem: Option<String>,
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
    let mut command = quoted(&program()?.to_string_lossy());
    if let Some(journal) = &global.journal {
        let journal = std::path::absolute(journal)?;
        command.push_str(&format!(" --journal {}", quoted(&journal.to_string_lossy())));
    }
    Ok(command)
}

/// Where this program is found, by the name that stays when a newer one comes: a link that a shell
/// would find, or that it was called by, rather than the folder of this version.
fn program() -> io::Result<PathBuf> {
    let itself = std::env::current_exe()?;
    let real = itself.canonicalize()?;
    let name = itself.file_name().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    let called = std::env::args_os().next().map(PathBuf::from);
    let is_it = |place: &PathBuf| {
        // Entries are known to be ours by the name of the program.
        let is_named = place.is_absolute() && place.file_name() == Some(name);
        is_named && place.canonicalize().is_ok_and(|place| place == real)
    };
    Ok(found.chain(called).find(is_it).unwrap_or(itself))
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
    if found.is_empty() {
        let known: Vec<&str> = agents_with_hooks().collect();
        let message = format!("none of these is on this machine: {}", known.join(", "));
        return Err(CliError::new("no_agents", &message));
    }
    if is_dry {
        return Ok(found);
    }
    if !io::stdin().is_terminal() {
        let hint = format!("for instance `hansard hooks {verb} {}`", found.join(" "));
        let error = CliError::new("no_agents", "it is not said which agents");
        return Err(error.hint(hint).misused());
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
                failures: status.failures.len(),
                last_failure: status.failures.last().map(|failure| failure.problem.as_str()),
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
        let failed = status.failures.last().map(|last| {
            let (count, age) = (status.failures.len(), super::status::age(last.at, world::now()));
            let HookFailure { event, problem, .. } = last;
            format!("; {count} calls came to nothing, the last, {event}, {age} ago: {problem}")
        });
        let problem = status.problem.map(|problem| format!("; {problem}"));
        let more: String = [called, failed, problem].into_iter().flatten().collect();
        output.line(plain(&format!("{:<9} {stands}{more}", status.agent)))?;
    }
    Ok(Done::Yes)
}

/// Runs every command that is found in the settings of an agent, as the agent would. A hook that
/// prints, or fails, or is not there, is not so.
fn test(hooks: &HookInstall<'_>, which: &Which, output: &mut Output) -> Result<Done, CliError> {
    let mut done = Done::Yes;
    let statuses: Vec<HookStatus> = statuses(hooks, which).collect();
    if statuses.iter().all(|status| status.commands.is_empty()) && !output.json() {
        output.line("no hooks of ours are installed: there is nothing to try")?;
    }
    for status in statuses {
        for (event, command) in status.events.iter().zip(&status.commands) {
            let begun = Instant::now();
            let problem = tried(command);
            let elapsed_ms = begun.elapsed().as_millis();
            if problem.is_some() {
                done = Done::NotSo;
            }
            let agent = status.agent;
            if output.json() {
                let ok = problem.is_none();
                output.json_line(&TestShape { agent, event, ok, elapsed_ms, problem })?;
            } else {
                let word = problem.map_or("ok".to_owned(), |problem| format!("failed: {problem}"));
                output.line(plain(&format!("{agent:<9} {event:<20} {word}")))?;
            }
        }
    }
    Ok(done)
}

/// Calls a hook; what is wrong with it.
fn tried(command: &str) -> Option<String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::piped());
    let ran = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // Whoever does not listen says so by how it ends.
            let _ = stdin.write_all(hook::TRIAL.as_bytes());
        }
        child.wait_with_output()
    });
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => return Some(error.to_string()),
    };
    match (ran.status.success(), ran.stdout.is_empty() && ran.stderr.is_empty()) {
        (true, true) => None,
        (true, false) => Some("it prints something".to_owned()),
        (false, _) => Some(format!("it ends with {}", ran.status)),
    }
}

fn statuses(hooks: &HookInstall<'_>, which: &Which) -> impl Iterator<Item = HookStatus> {
    let is_meant =
        |agent: &&str| which.agents.is_empty() || which.agents.iter().any(|name| name == agent);
    agents_with_hooks().filter(is_meant).filter_map(|agent| hooks.status(agent))
}
