//! `hansard bus`: hear and tell what happens.

mod listen;
mod send;
mod serve;
mod stats;
mod texts; // JSON texts one after the other

use std::path::PathBuf;

use ::bus::{Client, Message};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Hear and tell what happens: every message to every listener.
///
/// Without a command it is `listen`. Exit codes: 0 done, 1 it failed or is not so, 2 wrong usage,
/// 3 nobody listens at the path.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bus {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    listen: listen::Listen,
}

/// Where the bus is.
#[derive(Args)]
pub(crate) struct At {
    /// The socket of the bus [default: health/callosum.sock in the journal]
    #[arg(long, global = true, env = "HANSARD_BUS", value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Verb {
    /// Print every message as it comes
    Listen(listen::Listen),
    /// Send a message to everybody who listens
    Send(send::Send),
    /// Run a bus in the foreground, without anything else
    Serve(serve::Serve),
    /// Tell who is connected and what went through
    Stats(stats::Stats),
}

impl Bus {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        match &self.verb {
            None => self.listen.run(&self.at.path(global)?, output),
            Some(Verb::Listen(listen)) => listen.run(&self.at.path(global)?, output),
            Some(Verb::Send(send)) => send.run(&self.at.path(global)?, output),
            Some(Verb::Stats(stats)) => stats.run(&self.at.path(global)?, output),
            Some(Verb::Serve(serve)) => serve.run(&self.at, global, output),
        }
    }
}

impl At {
    pub(crate) fn path(&self, global: &Global) -> Result<PathBuf, CliError> {
        match &self.socket {
            Some(socket) => Ok(socket.clone()),
            None => Ok(world::folder(global)?.join("health/callosum.sock")),
        }
    }

    /// Sends one message to everybody who listens there.
    pub(crate) fn send(
        &self,
        global: &Global,
        message: &Message,
        output: &mut Output,
    ) -> Result<Done, CliError> {
        send::send(&self.path(global)?, message, output)?;
        output.note("Sent");
        Ok(Done::Yes)
    }
}

/// Stops a client at Ctrl-C or SIGTERM, until the handle is closed.
pub(crate) fn end_on_signal(client: &Client) -> Result<Handle, CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let signaled = signals.handle();
    let stopper = client.stopper();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    Ok(signaled)
}
