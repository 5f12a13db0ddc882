//! `hansard bus`: listens to the message bus, or sends to it.

mod listen;
mod send;
mod serve;
mod stats;
mod json_splitter; // splits stdin into JSON texts

use std::path::PathBuf;

use ::bus::{Client, Message};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Listen to the message bus, or send a message
///
/// Without a subcommand it listens. Exit codes: 0 success, 1 failure or timeout, 2 wrong usage,
/// 3 no bus is running.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(verbatim_doc_comment)]
pub(crate) struct BusArgs {
    #[command(flatten)]
    at: SocketArgs,
    #[command(subcommand)]
    verb: Option<BusVerb>,
    #[command(flatten)]
    listen: listen::ListenArgs,
}

/// The socket of the bus.
#[derive(Args)]
pub(crate) struct SocketArgs {
    /// Socket of the bus; HANSARD_BUS does the same [default: the journal's]
    #[arg(long, global = true, env = "HANSARD_BUS", value_name = "PATH", hide_env = true)]
    socket: Option<PathBuf>,
}

#[derive(Subcommand)]
enum BusVerb {
    /// Print messages as they arrive
    Listen(listen::ListenArgs),
    Send(send::SendArgs),
    /// Run a bus without a daemon, in the foreground
    Serve(serve::ServeArgs),
    /// Show the connected clients and what was relayed
    Stats(stats::StatsArgs),
}

impl BusArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        match &self.verb {
            None => self.listen.run(&self.at.path(global)?, output),
            Some(BusVerb::Listen(listen)) => listen.run(&self.at.path(global)?, output),
            Some(BusVerb::Send(send)) => send.run(&self.at.path(global)?, output),
            Some(BusVerb::Stats(stats)) => stats.run(&self.at.path(global)?, output),
            Some(BusVerb::Serve(serve)) => serve.run(&self.at, global, output),
        }
    }
}

impl SocketArgs {
    pub(crate) fn path(&self, global: &Global) -> Result<PathBuf, CliError> {
        match &self.socket {
            Some(socket) => Ok(socket.clone()),
            None => Ok(world::journal_folder(global)?.join("health/callosum.sock")),
        }
    }

    /// Sends one message to all clients of the bus.
    pub(crate) fn send_message(
        &self,
        global: &Global,
        message: &Message,
        output: &mut CliOutput,
    ) -> CommandResult {
        send::send_message(&self.path(global)?, message, output)?;
        output.note("Sent");
        Ok(Completion::Success)
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
