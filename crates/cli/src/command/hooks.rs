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

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::hook;
use crate::output::{CliOutput, escape_controls};
use crate::world;

/// Install hooks, with which agents report approvals at once.
#[derive(Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Subcommand)]
enum HooksCommand {
    /// Add entries that call `hansard hook` to the settings of agents
    Install(HookChangeArgs),
    /// Remove our entries; the rest of each file stays unchanged
    Uninstall(HookChangeArgs),
    /// Show which agents have hooks, for which events, and when they last called
    Status(HookTargets),
    /// Run the installed hook commands as the agents would, with a trial payload
    Test(HookTargets),
}

#[derive(Args)]
struct HookChangeArgs {
    #[command(flatten)]
    which: HookTargets,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct HookTargets {
    /// claude, codex, copilot, cursor, gemini, opencode, qwen [default: those installed here]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Use the settings of the project in this folder, not your own
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
    /// Recent calls that failed, and the reason of the last one.
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

impl HooksArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let (which, is_dry) = match &self.command {
            HooksCommand::Install(change) | HooksCommand::Uninstall(change) => {
                (&change.which, change.dry_run)
            }
            // Neither of them changes a file.
            HooksCommand::Status(which) | HooksCommand::Test(which) => (which, true),
        };
        let environment = world::environment(None)?;
        let journal = world::journal_folder(global)?;
        let hooks = HookInstall {
            environment: &environment,
            journal: &journal,
            command: hook_command(global)?,
            // The folder the user stands in, not the one of the journal.
            project: which.project.then(std::env::current_dir).transpose()?,
            now: world::now(),
        };
        // Before any file is changed: one wrong name changes nothing.
        for agent in &which.agents {
            if !agents_with_hooks().any(|known| known == agent) {
                return Err(HookInstallError::NoHooks(agent.clone()).into());
            }
        }
        match &self.command {
            HooksCommand::Status(_) => print_status(&hooks, which, output),
            HooksCommand::Test(_) => test_hooks(&hooks, which, output),
            HooksCommand::Install(_) => {
                change_agents(&hooks, which, is_dry, "install", output, |hooks, agent| {
                    hooks.install(agent, is_dry)
                })
            }
            HooksCommand::Uninstall(_) => {
                change_agents(&hooks, which, is_dry, "uninstall", output, |hooks, agent| {
                    hooks.uninstall(agent, is_dry)
                })
            }
        }
    }
}

/// Returns the command for the settings: this program, and the journal unless it is the default.
pub(super) fn hook_command(global: &Global) -> Result<String, CliError> {
    // Always quoted: the path goes into a shell command of the agent.
    let mut command = quote_word(&program_path()?.to_string_lossy());
    if let Some(journal) = &global.journal {
        // Agents run hooks in any folder.
        let journal = std::path::absolute(journal)?;
        command.push_str(&format!(" --journal {}", quote_word(&journal.to_string_lossy())));
    }
    Ok(command)
}

/// Returns the path of this program that survives an update: a link in `PATH`, or the path it was
/// called by, rather than the folder of this version.
fn program_path() -> io::Result<PathBuf> {
    let itself = std::env::current_exe()?;
    // The same program may be reached by several links.
    let real = itself.canonicalize()?;
    let name = itself.file_name().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    let called = std::env::args_os().next().map(PathBuf::from);
    let is_it = |place: &PathBuf| {
        // Our entries are recognised by the name of the program.
        let is_named = place.is_absolute() && place.file_name() == Some(name);
        is_named && place.canonicalize().is_ok_and(|place| place == real)
    };
    Ok(found.chain(called).find(is_it).unwrap_or(itself))
}

/// Quotes a word for the shell.
fn quote_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn change_agents(
    hooks: &HookInstall<'_>,
    which: &HookTargets,
    is_dry: bool,
    verb: &str,
    output: &mut CliOutput,
    change: impl Fn(&HookInstall<'_>, &str) -> Result<HookChange, HookInstallError>,
) -> CommandResult {
    // Named agents were chosen on purpose; found ones are confirmed first.
    let agents = match which.agents.is_empty() {
        true => confirm_agents(hooks, is_dry, verb, output)?,
        false => which.agents.clone(),
    };
    let mut done = Completion::Success;
    for agent in &agents {
        // A project may have settings of an agent that is not installed here.
        if !hooks.is_present(agent) && hooks.project.is_none() {
            print_change(agent, Err(format!("{agent} is not installed; skipped")), is_dry, output)?;
            continue;
        }
        match change(hooks, agent) {
            Ok(changed) => print_change(agent, Ok(&changed), is_dry, output)?,
            Err(error) => {
                // The other agents are still changed; the exit code tells of the failure.
                print_change(agent, Err(join_causes(&error)), is_dry, output)?;
                done = Completion::Negative;
            }
        }
    }
    Ok(done)
}

/// Returns the agents found here, after the user has confirmed them.
fn confirm_agents(
    hooks: &HookInstall<'_>,
    is_dry: bool,
    verb: &str,
    output: &mut CliOutput,
) -> Result<Vec<String>, CliError> {
    let found: Vec<String> =
        agents_with_hooks().filter(|agent| hooks.is_present(agent)).map(str::to_owned).collect();
    if found.is_empty() {
        let known: Vec<&str> = agents_with_hooks().collect();
        let message = format!("none of these agents is installed: {}", known.join(", "));
        return Err(CliError::new("no_agents", &message));
    }
    if is_dry {
        return Ok(found);
    }
    // A script must not change settings that its author did not name.
    if !io::stdin().is_terminal() {
        let hint = format!("for instance `hansard hooks {verb} {}`", found.join(" "));
        let error = CliError::new("no_agents", "no agents were named");
        return Err(error.hint(hint).wrong_usage());
    }
    output.line(format!("found: {}", found.join(", ")))?;
    write!(output.writer(), "{verb} hooks for these? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    // Only a clear yes: any other answer changes nothing.
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    Ok(if is_yes { found } else { Vec::new() })
}

/// Formats an error with its causes on one line.
fn join_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", join_causes(cause)),
        None => error.to_string(),
    }
}

fn print_change(
    agent: &str,
    changed: Result<&HookChange, String>,
    is_dry: bool,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&ChangeShape {
            agent,
            config: changed.as_ref().ok().map(|changed| changed.path.as_path()),
            // A dry run changes nothing, also in JSON.
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
    output.line(escape_controls(&line))
}

fn print_status(
    hooks: &HookInstall<'_>,
    which: &HookTargets,
    output: &mut CliOutput,
) -> CommandResult {
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
            (false, 0) => "agent not installed".to_owned(),
            (true, 0) => "hooks not installed".to_owned(),
            (_, events) => format!("{events} events in {}", status.path.display()),
        };
        let called = status
            .last_call_at
            .map(|at| format!("; called {} ago", super::status::age(at, world::now())));
        let failed = status.failures.last().map(|last| {
            let (count, age) = (status.failures.len(), super::status::age(last.at, world::now()));
            let HookFailure { event, problem, .. } = last;
            format!("; {count} calls failed, the last ({event}) {age} ago: {problem}")
        });
        let problem = status.problem.map(|problem| format!("; {problem}"));
        let more: String = [called, failed, problem].into_iter().flatten().collect();
        output.line(escape_controls(&format!("{:<9} {stands}{more}", status.agent)))?;
    }
    Ok(Completion::Success)
}

/// Runs every hook command that is installed, as the agent would. A hook must exist, succeed and
/// print nothing.
fn test_hooks(
    hooks: &HookInstall<'_>,
    which: &HookTargets,
    output: &mut CliOutput,
) -> CommandResult {
    let mut done = Completion::Success;
    let statuses: Vec<HookStatus> = statuses(hooks, which).collect();
    if statuses.iter().all(|status| status.commands.is_empty()) && !output.json() {
        output.line("no hooks are installed; `hansard hooks install` adds them")?;
    }
    for status in statuses {
        for (event, command) in status.events.iter().zip(&status.commands) {
            let begun = Instant::now();
            let problem = run_trial(command);
            let elapsed_ms = begun.elapsed().as_millis();
            if problem.is_some() {
                done = Completion::Negative;
            }
            let agent = status.agent;
            if output.json() {
                let ok = problem.is_none();
                output.json_line(&TestShape { agent, event, ok, elapsed_ms, problem })?;
            } else {
                let word = problem.map_or("ok".to_owned(), |problem| format!("failed: {problem}"));
                output.line(escape_controls(&format!("{agent:<9} {event:<20} {word}")))?;
            }
        }
    }
    Ok(done)
}

/// Calls a hook; returns what is wrong with it.
fn run_trial(command: &str) -> Option<String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::piped());
    // Both outputs are captured: agents read what a hook prints.
    let ran = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input shows that by its exit code.
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
        (true, false) => Some("it prints output".to_owned()),
        (false, _) => Some(format!("it exits with {}", ran.status)),
    }
}

fn statuses(hooks: &HookInstall<'_>, which: &HookTargets) -> impl Iterator<Item = HookStatus> {
    let is_meant =
        |agent: &&str| which.agents.is_empty() || which.agents.iter().any(|name| name == agent);
    agents_with_hooks().filter(is_meant).filter_map(|agent| hooks.status(agent))
}
