//! The program as people run it: real processes, an empty world, everything they said.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod commands; // each command on the sample
mod closed_pipe; // a reader that has seen enough
mod counts; // the same numbers everywhere
mod tour; // the transcript in docs/tour.md
mod refusals; // errors and exit codes
mod prices; // what models cost
mod hostile; // text that wants to command the terminal
mod totals; // what is counted, by us and by the generator of transcripts
mod writer; // agents at work
mod ingest; // transcripts read once, and again after anything happened to them
mod fingerprints; // every output about the recordings and a generated tree is unchanged
mod ingest_crash; // killed at any instant
mod stored; // journals of an earlier version
mod damage; // every kind of damage, and what a repair gives back
mod ingest_bad; // what is no transcript, or a broken one
mod follow; // as agents write
mod privacy; // what is not wanted
mod rules;
mod secrets; // what does not leave with a text
mod hook; // what agents call
mod hook_crash; // the same, killed or on a full disk
mod up; // the daemon: start, stop, and what it tells meanwhile
mod up_database; // the daemon beside a database that cannot be read
mod clients; // clients of the bus against the daemon
mod up_crash; // the daemon killed at any instant
mod chain; // segments of epochs, with handlers as real processes
mod chain_crash; // the same while it makes segments of epochs
mod up_disk; // the daemon on a disk that is full
mod notifications; // notifications about sessions that need the user
#[cfg(target_os = "linux")]
mod desktop; // notifications over D-Bus
mod model; // a model is asked what was worth keeping
mod model_crash; // the same, killed at any instant
mod local_days; // what was used, by the user's days
mod first_minute_crash; // the sample and newer prices, killed at any instant
mod manual; // completions and man pages
mod top; // the whole screen, in a real terminal
mod web; // the daemon over HTTP
mod web_crash; // the daemon killed while a browser signs in
mod open; // the way to the page: a browser here, or a line for ssh
mod status; // what sessions do, and why
mod bus; // messages between processes
mod supervise; // services and tasks

use testkit::{ProgramOutput, World};

/// A world with the sample imported.
fn sample() -> World {
    let world = empty();
    let said = import(&world, include_str!("../../../../docs/sample.ndjson"));
    assert_eq!(said.code, Some(0), "{said}");
    world
}

fn empty() -> World {
    World::new(env!("CARGO_BIN_EXE_hansard"))
}

fn import(world: &World, lines: &str) -> ProgramOutput {
    world.run_with_input(&["import"], lines.as_bytes())
}

/// The JSON of a run that went well, one value per line.
fn json(said: &ProgramOutput) -> Vec<serde_json::Value> {
    assert_eq!(said.code, Some(0), "{said}");
    said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
