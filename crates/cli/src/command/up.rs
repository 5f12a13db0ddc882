//! `hansard up`: the daemon in the foreground, or left in the background.

pub(super) mod install; // what the system needs to start it
mod detach; // started, and left alone once it answers

use std::path::PathBuf;

use clap::Args;
use daemon::{Daemon, Remote, Up as Start};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Record what agents write as they write it, and tell it on the bus.
///
/// Stays in the foreground until Ctrl-C or SIGTERM; SIGHUP reads the settings again. A second
/// Ctrl-C ends it without waiting. Exit codes: 0 ended in good order, 1 it failed or another one
/// runs on this journal.
#[derive(Args)]
pub(crate) struct Up {
    /// Leave it running in the background; `hansard down` ends it
    #[arg(long)]
    detach: bool,
    /// Write what the system needs to start it when you log in, instead of starting it
    #[arg(long, conflicts_with = "detach")]
    install: bool,
    /// Take that away again
    #[arg(long, conflicts_with_all = ["detach", "install"])]
    uninstall: bool,
    /// The home whose agents are read [default: yours]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// A daemon that answers.
#[derive(Serialize)]
struct ReadyShape {
    pid: u32,
    journal: PathBuf,
    socket: PathBuf,
}

impl Up {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        if self.install {
            return install::install(global, output);
        }
        if self.uninstall {
            return install::uninstall(output);
        }
        if self.detach {
            return detach::start(self.home.as_deref(), global, output);
        }
        let journal = std::path::absolute(world::folder(global)?)?;
        // Asked for before there is a daemon: no signal finds it half made.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let log = output.log();
        let daemon = Daemon::start(Start {
            journal: journal.clone(),
            program: std::env::current_exe()?.canonicalize()?,
            environment: world::environment(self.home.as_deref())?,
            clock: world::now,
            echo: Box::new(move |text| log.say(text)),
        })?;
        heed(signals, daemon.remote());
        let ready = ReadyShape { pid: std::process::id(), journal, socket: daemon.socket() };
        match output.json() {
            true => output.json_line(&ready)?,
            false => output.line(format!(
                "up (pid {}), listening on {}",
                ready.pid,
                ready.socket.display()
            ))?,
        }
        // Whoever started it may have stopped listening; that is no reason to end.
        let _ = output.flush();
        let ended = daemon.run();
        handle.close();
        ended?;
        Ok(Done::Yes)
    }
}

/// Passes on what signals say, until they are closed.
fn heed(mut signals: Signals, remote: Remote) {
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => remote.reload(),
                _ => remote.stop(),
            }
        }
    });
}
