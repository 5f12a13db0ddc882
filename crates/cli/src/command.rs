//! The commands and their options.

mod open; // without a command
mod found; // what there is on this machine, in a few lines
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
mod rules;
mod seen;
mod sessions;
mod show;
mod search;
mod usage;
mod prices;
mod digest;
mod dream;
mod segment; // transcribe and describe
mod session_filter; // session filters that several commands share
mod resume;
mod fork;
mod lineage;
mod replay;
mod export;
mod import;
mod delete;
mod hooks;
mod bus;
mod supervisor_client; // requests to the daemon over the bus
mod task;
mod service;
mod logs;
mod notify;
mod navigate;
mod doctor;
mod manual; // completions and man pages
mod help_groups; // commands by what they are for, in the help text

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::CliError;
use crate::output::{self, CliOutput};

/// Keeps the record of every AI coding session on this machine
///
/// On a terminal, `hansard` without a command starts the daemon, reads what agents have
/// written, says which sessions need you, and opens the page.
///
/// A session is named by its id, or by the beginning of it that lists print.
/// Exit codes: 0 success, 1 failure or a negative answer, 2 wrong usage, 3 no daemon is running.
#[derive(Parser)]
#[command(name = "hansard", verbatim_doc_comment)]
// With the commit, if the build knew it: see `build.rs`.
#[command(version = env!("HANSARD_VERSION"))]
pub(crate) struct Hansard {
    #[command(flatten)]
    pub global: Global,
    #[command(flatten)]
    open: open::OpenArgs,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

impl Hansard {
    /// Parses the arguments of this process. Without a command there is something to do only for a
    /// person at a terminal; a script gets the help text and exit code 2.
    pub(crate) fn parse_arguments() -> Result<Hansard, clap::Error> {
        let is_for_person = output::is_on_terminal();
        let command = help_groups::group_commands(Hansard::command())
            .subcommand_required(!is_for_person)
            .arg_required_else_help(!is_for_person);
        let hansard = Hansard::from_arg_matches(&command.try_get_matches()?)?;
        if hansard.command.is_none() && hansard.global.json {
            let told = "`--json` needs a command";
            return Err(Hansard::command().error(ErrorKind::MissingSubcommand, told));
        }
        Ok(hansard)
    }
}

/// Options of every command.
#[derive(Args, Clone, Default)]
pub(crate) struct Global {
    /// Folder of the journal; HANSARD_JOURNAL does the same
    #[arg(long, global = true, env = "HANSARD_JOURNAL", value_name = "DIR")]
    #[arg(help_heading = GLOBAL_HEADING, hide_env = true)]
    pub journal: Option<PathBuf>,
    /// Print JSON, for scripts
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub json: bool,
    /// Print only the result
    #[arg(long, short, global = true, help_heading = GLOBAL_HEADING)]
    pub quiet: bool,
    /// Print without colors
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub no_color: bool,
    /// Print times in UTC instead of local time
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub utc: bool,
    /// Print more details
    #[arg(long, short, global = true, help_heading = GLOBAL_HEADING)]
    pub verbose: bool,
}

/// The heading of the options of every command, below a command's own.
const GLOBAL_HEADING: &str = "Global options";

/// The commands. The help text of each stands at its arguments.
#[derive(Subcommand)]
pub(crate) enum CliCommand {
    Up(up::UpArgs),
    Down(down::DownArgs),
    Web(web::WebArgs),
    Reload(reload::ReloadArgs),
    Ingest(ingest::IngestArgs),
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Statusline(statusline::StatuslineArgs),
    Explain(explain::ExplainArgs),
    Approvals(approvals::ApprovalsArgs),
    Rules(rules::RulesArgs),
    Seen(seen::SeenArgs),
    Sessions(sessions::SessionsArgs),
    Show(show::ShowArgs),
    Search(search::SearchArgs),
    Usage(usage::UsageArgs),
    Prices(prices::PricesArgs),
    Digest(digest::DigestArgs),
    #[command(hide = true)]
    Dream(dream::DreamArgs),
    /// Write the transcript of a segment
    #[command(hide = true)]
    Transcribe(segment::SegmentArgs),
    /// Write the digest of a segment
    #[command(hide = true)]
    Describe(segment::SegmentArgs),
    Resume(resume::ResumeArgs),
    Fork(fork::ForkArgs),
    Lineage(lineage::LineageArgs),
    Replay(replay::ReplayArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Delete(delete::DeleteArgs),
    Hooks(hooks::HooksArgs),
    /// Handle a hook call of an agent; agents run this
    Hook(HookArgs),
    #[command(visible_alias = "callosum")]
    Bus(bus::BusArgs),
    Task(task::TaskArgs),
    Service(service::ServiceArgs),
    Logs(logs::LogsArgs),
    Notify(notify::NotifyArgs),
    Navigate(navigate::NavigateArgs),
    Doctor(doctor::DoctorArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

/// Arguments of a hook call, for the help text.
#[derive(Args)]
pub(crate) struct HookArgs {
    /// The agent: claude, codex, copilot, cursor, gemini, opencode, qwen
    #[arg(value_name = "AGENT")]
    _agent: String,
    /// The agent's name for the event
    #[arg(value_name = "EVENT")]
    _event: String,
    /// The payload, if it does not come through stdin
    #[arg(value_name = "JSON", trailing_var_arg = true)]
    _payload: Vec<String>,
}

/// The result of a command that ran.
pub(crate) enum Completion {
    Success,
    /// The command ran, and the answer is negative: exit code 1.
    Negative,
}

/// What every command returns.
pub(crate) type CommandResult = Result<Completion, CliError>;

pub(crate) fn run(hansard: &Hansard, output: &mut CliOutput) -> CommandResult {
    let global = &hansard.global;
    let Some(command) = &hansard.command else { return hansard.open.run(global, output) };
    match command {
        CliCommand::Up(command) => command.run(global, output),
        CliCommand::Down(command) => command.run(global, output),
        CliCommand::Web(command) => command.run(global, output),
        CliCommand::Reload(command) => command.run(global, output),
        CliCommand::Ingest(command) => command.run(global, output),
        CliCommand::Status(command) => command.run(global, output),
        CliCommand::Top(command) => command.run(global, output),
        CliCommand::Statusline(command) => command.run(global, output),
        CliCommand::Explain(command) => command.run(global, output),
        CliCommand::Approvals(command) => command.run(global, output),
        CliCommand::Rules(command) => command.run(global, output),
        CliCommand::Seen(command) => command.run(global, output),
        CliCommand::Sessions(command) => command.run(global, output),
        CliCommand::Show(command) => command.run(global, output),
        CliCommand::Search(command) => command.run(global, output),
        CliCommand::Usage(command) => command.run(global, output),
        CliCommand::Prices(command) => command.run(global, output),
        CliCommand::Digest(command) => command.run(global, output),
        CliCommand::Dream(command) => command.run(global, output),
        CliCommand::Transcribe(command) => command.transcribe(global, output),
        CliCommand::Describe(command) => command.describe(global, output),
        CliCommand::Resume(command) => command.run(global, output),
        CliCommand::Fork(command) => command.run(global, output),
        CliCommand::Lineage(command) => command.run(global, output),
        CliCommand::Replay(command) => command.run(global, output),
        CliCommand::Export(command) => command.run(global, output),
        CliCommand::Import(command) => command.run(global, output),
        CliCommand::Delete(command) => command.run(global, output),
        CliCommand::Hooks(command) => command.run(global, output),
        // `main` answers hook calls before it parses options; only `hook --help` comes here.
        CliCommand::Hook(_) => Ok(Completion::Success),
        CliCommand::Bus(command) => command.run(global, output),
        CliCommand::Task(command) => command.run(global, output),
        CliCommand::Service(command) => command.run(global, output),
        CliCommand::Logs(command) => command.run(global, output),
        CliCommand::Notify(command) => command.run(global, output),
        CliCommand::Navigate(command) => command.run(global, output),
        CliCommand::Doctor(command) => command.run(global, output),
        CliCommand::Completions(command) => command.run(output),
        CliCommand::Man(command) => command.run(output),
    }
}

impl From<Completion> for ExitCode {
    fn from(done: Completion) -> ExitCode {
        match done {
            Completion::Success => ExitCode::SUCCESS,
            Completion::Negative => ExitCode::FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::Command;
    use supervise::BusAccess;

    use super::{CommandFactory, Hansard};

    /// The supervisor skips these options to find the subcommand. It would refuse one that it does not
    /// know, and a value that it does not skip could hide the subcommand.
    #[test]
    fn supervisor_knows_every_global_option() {
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

    /// Adds the names of a command's options and of all commands below it.
    fn collect_commands(
        command: &Command,
        above: &str,
        found: &mut BTreeMap<String, BTreeSet<String>>,
    ) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{above}{}", sub.get_name());
            collect_commands(sub, &format!("{path} "), found);
            let names = sub.get_arguments().flat_map(|argument| {
                let long = argument.get_long().map(|long| format!("--{long}"));
                let short = argument.get_short().map(|short| format!("-{short}"));
                long.into_iter().chain(short)
            });
            let is_everywhere = |name: &String| {
                matches!(name.as_str(), "--help" | "-h")
                    || supervise::GLOBAL_OPTIONS.iter().any(|(known, _)| known == name)
            };
            found.insert(path, names.filter(|name| !is_everywhere(name)).collect());
        }
    }

    /// A request on the bus runs what the supervisor's table calls open, so the table says of every
    /// command and option whether it acts for a person.
    #[test]
    fn every_command_is_classified_for_the_bus() {
        let mut ours = BTreeMap::new();
        let mut hansard = Hansard::command();
        // Gives every command the options of the commands above it.
        hansard.build();
        collect_commands(&hansard, "", &mut ours);
        let listed: Vec<&str> = supervise::OWN_COMMANDS.iter().map(|own| own.path).collect();
        let mut unlisted: Vec<&str> = ours.keys().map(String::as_str).collect();
        unlisted.retain(|path| !listed.contains(path));
        assert_eq!(unlisted, [""; 0], "list them in `OWN_COMMANDS` of `supervise`");
        for own in supervise::OWN_COMMANDS {
            let options = ours.get(own.path).unwrap_or_else(|| panic!("no command `{}`", own.path));
            let BusAccess::Open { options: open, personal } = own.access else { continue };
            let known: BTreeSet<String> =
                open.iter().chain(personal).map(|option| (*option).to_owned()).collect();
            assert_eq!(
                *options, known,
                "each option of `{}` is `options` or `personal` in `OWN_COMMANDS` of `supervise`",
                own.path
            );
        }
    }
}
