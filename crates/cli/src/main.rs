//! The command people type. Starts fast, prints through `output`, decides nothing of its own.

mod hook; // what agents call
mod command; // what can be typed
mod output; // everything that is printed
mod error; // what is said when something fails
mod world; // the journal, the clock and the dice of this machine
mod shape; // the JSON contracts of the commands

use std::process::ExitCode;

use clap::Parser;

use command::{Global, Hansard};
use error::CliError;
use output::Output;

fn main() -> ExitCode {
    // Before anything else: an agent waits for it.
    if let Some(call) = hook::Call::in_arguments(std::env::args_os().skip(1)) {
        return call.answer();
    }
    let hansard = match Hansard::try_parse() {
        Ok(hansard) => hansard,
        Err(error) => return refuse(&error),
    };
    let mut output = Output::new(&hansard.global);
    match command::run(&hansard, &mut output) {
        Ok(done) => done.into(),
        Err(error) => output.fail(&error),
    }
}

/// What was typed is no command, or asks how to type one. Whoever wants JSON gets the error so.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    if !is_json || !error.use_stderr() {
        error.exit();
    }
    let global = Global { json: true, ..Global::default() };
    let text = error.to_string();
    // The first paragraph says what is wrong; the rest is for people.
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let message = lines.collect::<Vec<_>>().join(" ");
    let message = message.trim_start_matches("error: ");
    let error = CliError::new("usage", message).misused();
    let error = error.hint("`hansard help` says what can be typed");
    Output::new(&global).fail(&error)
}
