//! The command people type. Starts fast, prints through `output`, decides nothing of its own.

mod hook; // what agents call
mod command; // what can be typed
mod output; // everything that is printed
mod error; // what is said when something fails
mod world; // the journal, the clock and the dice of this machine
mod shape; // the JSON contracts of the commands

use std::process::ExitCode;

use clap::Parser;

use command::Hansard;
use output::Output;

fn main() -> ExitCode {
    // Before anything else: an agent waits for it.
    if let Some(call) = hook::Call::in_arguments(std::env::args_os().skip(1)) {
        return call.answer();
    }
    let hansard = Hansard::parse();
    let mut output = Output::new(&hansard.global);
    match command::run(&hansard, &mut output) {
        Ok(done) => done.into(),
        Err(error) => output.fail(&error),
    }
}
