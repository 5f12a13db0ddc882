//! `hansard bus serve`: a bus and nothing else.

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use bus::{Notice, Server, ServerSettings, make_private};

use super::{At, Done, Global};
use crate::error::CliError;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Serve {}

impl Serve {
    pub(super) fn run(
        &self,
        at: &At,
        global: &Global,
        output: &mut Output,
    ) -> Result<Done, CliError> {
        let path = at.path(global)?;
        // The journal's own folder is nobody else's business; one that was named is left alone.
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
        // It ends with the signals.
        let _ = waiting.join();
        ran?;
        Ok(Done::Yes)
    }
}
