//! The command line. It starts fast, prints through `output`, and decides nothing itself.

mod hook; // the hook calls of agents
mod command; // commands and options
mod output; // all printing
mod columns; // texts in columns of a terminal
mod times; // times and days as users write them
mod session_counts; // how many sessions need the user, run, wait
mod error; // errors in words, and exit codes
mod statuses; // what sessions are doing, from the daemon or from here
mod world; // journal, clock, randomness and environment
mod shape; // JSON output of single commands
mod streamed; // lists in JSON that are never held whole

use std::process::ExitCode;

use command::{Global, Hansard};
use error::CliError;
use output::CliOutput;

fn main() -> ExitCode {
    // Before any option is parsed: an agent waits for a hook call, and a faulty or new option must not
    // keep the call from being recorded. See docs/decisions/hook-fast-path.md.
    if let Some(call) = hook::HookInvocation::from_arguments(std::env::args_os().skip(1)) {
        return call.handle();
    }
    let hansard = match Hansard::parse_arguments() {
        Ok(hansard) => hansard,
        Err(error) => return fail_usage(&error),
    };
    let mut output = CliOutput::new(&hansard.global);
    match command::run(&hansard, &mut output) {
        Ok(done) => done.into(),
        Err(error) => output.fail(&error),
    }
}

/// Prints a usage error, or the help text. With `--json` the error is JSON too.
fn fail_usage(error: &clap::Error) -> ExitCode {
    // The options were not parsed, so the argument itself is looked for.
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    // Help and version are no errors, and go to stdout as they are.
    if !is_json || !error.use_stderr() {
        error.exit();
    }
    let global = Global { json: true, ..Global::default() };
    let text = error.to_string();
    // The first paragraph says what is wrong; the rest is usage for people.
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let message = lines.collect::<Vec<_>>().join(" ");
    let message = message.trim_start_matches("error: ");
    let error = CliError::new("usage", message).wrong_usage();
    let error = error.hint("`hansard help` lists the commands");
    CliOutput::new(&global).fail(&error)
}
