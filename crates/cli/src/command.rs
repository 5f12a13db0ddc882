//! What can be typed, and who answers it.

mod up;
mod down;
mod web;
mod reload;
mod ingest;
mod status;
mod top;
mod statusline;
mod explain;
mod approvals;
mod seen;
mod sessions;
mod show;
mod search;
mod usage;
mod digest;
mod dream;
mod segment; // the files of a segment
mod which; // options that several commands take
mod resume;
mod fork;
mod lineage;
mod replay;
mod export;
mod import;
mod delete;
mod hooks;
mod bus;
mod talk; // how commands talk to the daemon
mod task;
mod service;
mod logs;
mod notify;
mod navigate;
mod doctor;
mod manual; // completions and man pages

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::error::CliError;
use crate::output::Output;

/// Keeps the record of every AI coding session on this machine.
///
/// Exit codes: 0 done, 1 it failed or is not so, 2 wrong usage, 3 no daemon where one is needed.
#[derive(Parser)]
#[command(name = "hansard", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Hansard {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Args, Default)]
pub(crate) struct Global {
    /// The folder of the journal [default: the platform's data folder + hansard]
    #[arg(long, global = true, env = "HANSARD_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// Print JSON, as documented in docs/json.md
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but the answer
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Never use colours
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Say more about what is being done
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Record what agents write as they write it, and tell it on the bus
    Up(up::Up),
    /// End the daemon that `up` started
    Down(down::Down),
    /// Print an address that lets a browser in
    Web(web::Web),
    /// Have the daemon read its settings again
    Reload(reload::Reload),
    /// Read everything that agents have written into the journal
    Ingest(ingest::Ingest),
    /// What each session is doing, and which of them needs you
    Status(status::Status),
    /// The same, live, on the whole screen
    Top(top::Top),
    /// Who needs you, in one line for a prompt or tmux
    Statusline(statusline::Statusline),
    /// Why a session is taken to do what it does
    Explain(explain::Explain),
    /// What waits for your approval, with the exact command
    Approvals(approvals::Approvals),
    /// Say that you have seen what a session has done
    Seen(seen::Seen),
    /// List sessions, newest activity first
    Sessions(sessions::Sessions),
    /// Show one session: the talk by turns, its events, or what a model would see
    Show(show::Show),
    /// Find anything ever said, done or printed
    Search(search::Search),
    /// Tokens and money, by day, week, month, session, model or project
    Usage(usage::Usage),
    /// What was done on a day, project by project
    Digest(digest::Digest),
    /// Make activities and digests of what has come
    #[command(hide = true)]
    Dream(dream::Dream),
    /// Write down what was said in a segment
    #[command(hide = true)]
    Transcribe(segment::OfSegment),
    /// Write down what is worth keeping of a segment
    #[command(hide = true)]
    Describe(segment::OfSegment),
    /// Print the agent's own command to go on with a session, or run it
    Resume(resume::Resume),
    /// Branch a session off at a point, without copying it
    Fork(fork::Fork),
    /// Show where a session comes from and what came from it
    Lineage(lineage::Lineage),
    /// Fold a session from its first event and compare with what is kept
    Replay(replay::Replay),
    /// Write a session, or a whole tree of them, as one bundle
    Export(export::Export),
    /// Take in a bundle, or plain events as lines of JSON
    Import(import::Import),
    /// Delete a session and everything that was kept of it
    Delete(delete::Delete),
    /// Have agents tell what happens as it happens: their hooks
    Hooks(hooks::Hooks),
    /// Take what an agent tells its hooks: reads JSON, prints nothing, never fails
    Hook(HookArgs),
    /// Hear and tell what happens: every message to every listener
    #[command(visible_alias = "callosum")]
    Bus(bus::Bus),
    /// Have something run by the daemon, in turn
    Task(task::Task),
    /// What the daemon keeps alive
    Service(service::Service),
    /// Print what a service or a task has printed
    Logs(logs::Logs),
    /// Show a card to whoever looks at the page
    Notify(notify::Notify),
    /// Lead the page that was used last somewhere else
    Navigate(navigate::Navigate),
    /// Verify the journal, and repair it if told to
    Doctor(doctor::Doctor),
    /// Print what a shell needs to complete commands and options
    Completions(manual::Completions),
    /// Write the manual pages
    Man(manual::Man),
}

/// What agents write when they call a hook.
#[derive(Args)]
pub(crate) struct HookArgs {
    /// Whose hook it is: claude, codex, copilot, cursor, gemini, opencode, qwen
    #[arg(value_name = "AGENT")]
    _agent: String,
    /// The agent's word for what happened
    #[arg(value_name = "EVENT")]
    _event: String,
    /// The payload, where it does not come through stdin
    #[arg(value_name = "JSON", trailing_var_arg = true)]
    _payload: Vec<String>,
}

/// How a command that ran ended.
pub(crate) enum Done {
    Yes,
    /// It ran, and what was asked is not so.
    NotSo,
}

pub(crate) fn run(hansard: &Hansard, output: &mut Output) -> Result<Done, CliError> {
    let global = &hansard.global;
    match &hansard.command {
        Command::Up(command) => command.run(global, output),
        Command::Down(command) => command.run(global, output),
        Command::Web(command) => command.run(global, output),
        Command::Reload(command) => command.run(global, output),
        Command::Ingest(command) => command.run(global, output),
        Command::Status(command) => command.run(global, output),
        Command::Top(command) => command.run(global, output),
        Command::Statusline(command) => command.run(global, output),
        Command::Explain(command) => command.run(global, output),
        Command::Approvals(command) => command.run(global, output),
        Command::Seen(command) => command.run(global, output),
        Command::Sessions(command) => command.run(global, output),
        Command::Show(command) => command.run(global, output),
        Command::Search(command) => command.run(global, output),
        Command::Usage(command) => command.run(global, output),
        Command::Digest(command) => command.run(global, output),
        Command::Dream(command) => command.run(global, output),
        Command::Transcribe(command) => command.transcribe(global, output),
        Command::Describe(command) => command.describe(global, output),
        Command::Resume(command) => command.run(global, output),
        Command::Fork(command) => command.run(global, output),
        Command::Lineage(command) => command.run(global, output),
        Command::Replay(command) => command.run(global, output),
        Command::Export(command) => command.run(global, output),
        Command::Import(command) => command.run(global, output),
        Command::Delete(command) => command.run(global, output),
        Command::Hooks(command) => command.run(global, output),
        // Answered before anything was parsed, unless somebody asks for help.
        Command::Hook(_) => Ok(Done::Yes),
        Command::Bus(command) => command.run(global, output),
        Command::Task(command) => command.run(global, output),
        Command::Service(command) => command.run(global, output),
        Command::Logs(command) => command.run(global, output),
        Command::Notify(command) => command.run(global, output),
        Command::Navigate(command) => command.run(global, output),
        Command::Doctor(command) => command.run(global, output),
        Command::Completions(command) => command.run(output),
        Command::Man(command) => command.run(output),
    }
}

impl From<Done> for ExitCode {
    fn from(done: Done) -> ExitCode {
        match done {
            Done::Yes => ExitCode::SUCCESS,
            Done::NotSo => ExitCode::FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Hansard;

    /// The supervisor finds the sub-command behind these: one that it does not know would be
    /// refused, and one whose value it does not skip could hide what follows.
    #[test]
    fn the_supervisor_knows_every_global_option() {
        let command = Hansard::command();
        let mut ours: Vec<(String, bool)> = Vec::new();
        for argument in command.get_arguments().filter(|argument| argument.is_global_set()) {
            let has_value = argument.get_action().takes_values();
            ours.extend(argument.get_long().map(|long| (format!("--{long}"), has_value)));
            ours.extend(argument.get_short().map(|short| (format!("-{short}"), has_value)));
        }
        let known = supervise::GLOBAL_OPTIONS.iter();
        let mut known: Vec<(String, bool)> =
            known.map(|(name, has_value)| ((*name).to_owned(), *has_value)).collect();
        ours.sort();
        known.sort();
        assert_eq!(ours, known);
    }
}
