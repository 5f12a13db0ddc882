//! `hansard up`: runs the daemon in the foreground, or starts it in the background.

pub(super) mod install; // start at login
mod detach; // start in the background

use std::path::PathBuf;

use clap::Args;
use daemon::{Daemon, DaemonConfig, DaemonHandle};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::found::{describe_machine, print_machine};
use super::{CommandResult, Completion, Global, web};
use crate::output::{CliOutput, StderrLog, is_on_terminal};
use crate::world;

/// Start the daemon, which records what agents write
///
/// It runs in the foreground until Ctrl-C or SIGTERM; a second Ctrl-C stops it without waiting.
/// SIGHUP makes it read its settings again. Exit codes: 0 stopped, 1 failure, or another daemon
/// is running on this journal.
///
/// HANSARD_LOG sets what is logged: a level (error, warn, info, debug, off), levels of single
/// parts (daemon, capture, journal, chain, http, model, bus), or both: `warn,capture=debug`.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpArgs {
    /// Run it in the background; `hansard down` stops it
    #[arg(long)]
    detach: bool,
    /// Start the daemon at every login, instead of now: writes a service file
    #[arg(long, conflicts_with = "detach")]
    install: bool,
    /// Remove that service file
    #[arg(long, conflicts_with_all = ["detach", "install"])]
    uninstall: bool,
    /// The home folder of the agents [default: yours]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// A daemon that is ready.
#[derive(Serialize)]
struct ReadyShape {
    pid: u32,
    journal: PathBuf,
    socket: PathBuf,
}

impl UpArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        if self.install {
            return install::install_unit(global, output);
        }
        if self.uninstall {
            return install::uninstall(output);
        }
        if self.detach {
            detach::start_daemon(self.home.as_deref(), global, output)?;
            if !output.json() {
                print_machine(global, output)?;
                // Without HTTP there is no page.
                if let Ok(page) = web::page_address(global) {
                    output.line(format!("the page: {page}; `hansard` opens it"))?;
                }
                output.flush()?;
            }
            return Ok(Completion::Success);
        }
        // Absolute, so that the printed paths hold in any folder.
        let journal = std::path::absolute(world::journal_folder(global)?)?;
        // Registered before the daemon starts, so that no signal ends it half started.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let log = output.log();
        let daemon = Daemon::start(DaemonConfig {
            journal: journal.clone(),
            // Tasks run this program; a link may point to another version by then.
            program: std::env::current_exe()?.canonicalize()?,
            environment: world::environment(self.home.as_deref())?,
            clock: world::now,
            log_filter: world::log_filter()?,
            echo: Box::new(move |text| log.say(text)),
        })?;
        forward_signals(signals, daemon.handle());
        let ready = ReadyShape { pid: std::process::id(), journal, socket: daemon.socket() };
        match output.json() {
            true => output.json_line(&ready)?,
            false => output.line(format!(
                "up (pid {}), listening on {}",
                ready.pid,
                ready.socket.display()
            ))?,
        }
        if !output.json() && is_on_terminal() {
            say_what_was_found(global.clone(), log);
        }
        // The caller may have closed stdout; the daemon goes on.
        let _ = output.flush();
        let ended = daemon.run();
        // Ends the thread of the signals, also after an error.
        handle.close();
        ended?;
        Ok(Completion::Success)
    }
}

/// Says on the terminal what there is and where the page is, once the daemon has read history. The
/// daemon's own thread does not wait for it.
fn say_what_was_found(global: Global, log: StderrLog) {
    std::thread::spawn(move || {
        // The daemon runs on without these lines, and says itself what it cannot do.
        for line in describe_machine(&global, &mut |_| ()).unwrap_or_default() {
            log.say(line);
        }
        if let Ok(page) = web::page_address(&global) {
            log.say(format!("the page: {page}; `hansard` opens it"));
        }
    });
}

/// Starts the daemon in the background and says so.
pub(super) fn start_in_background(global: &Global, output: &mut CliOutput) -> CommandResult {
    detach::start_daemon(None, global, output)
}

/// Passes signals to the daemon until they are closed.
fn forward_signals(mut signals: Signals, daemon: DaemonHandle) {
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => daemon.reload(),
                _ => daemon.stop(),
            }
        }
    });
}
