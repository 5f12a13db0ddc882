//! `hansard bus serve`: a bus and nothing else.

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use bus::{Notice, Server, Settings, make_private};

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
        let notice = move |notice| log.say(words(&notice));
        let settings = Settings { notice: Box::new(notice), ..Settings::default() };
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

fn words(notice: &Notice) -> String {
    let client = |pid: &Option<u32>| match pid {
        Some(pid) => format!("process {pid}"),
        None => "a client".to_owned(),
    };
    match notice {
        Notice::Ignored { pid, fault } => {
            format!("{} sent a line that was not relayed: {fault}", client(pid))
        }
        Notice::RefusedPeer { uid } => format!("user {uid} tried to connect and was refused"),
        Notice::CutOff { pid } => format!("{} was cut off", client(pid)),
        Notice::TooManyClients => "there was no room for another client".to_owned(),
        Notice::Unreadable { pid, why } => {
            format!("{} asked for what was recorded, which cannot be read: {why}", client(pid))
        }
    }
}
