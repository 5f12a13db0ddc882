//! `hansard bus serve`: runs a bus without a daemon.

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use bus::{Notice, Server, ServerSettings, make_private};

use super::{CommandResult, Completion, Global, SocketArgs};
use crate::output::CliOutput;

#[derive(Args)]
pub(crate) struct ServeArgs {}

impl ServeArgs {
    pub(super) fn run(
        &self,
        at: &SocketArgs,
        global: &Global,
        output: &mut CliOutput,
    ) -> CommandResult {
        let path = at.path(global)?;
        // The default folder is ours and becomes private; a folder named by `--socket` is left alone.
        if at.socket.is_none()
            && let Some(folder) = path.parent()
        {
            make_private(folder)?;
        }
        let log = output.log();
        let notice = move |notice: Notice| log.say(notice.to_string());
        let settings = ServerSettings { notice: Box::new(notice), ..ServerSettings::default() };
        let server = Server::bind(&path, settings)?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let signaled = signals.handle();
        let handle = server.handle();
        let waiting = std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                handle.stop();
            }
        });
        output.note(format!("listening on {}", path.display()));
        let ran = server.run();
        signaled.close();
        // The thread ends when the signals are closed.
        let _ = waiting.join();
        ran?;
        Ok(Completion::Success)
    }
}
