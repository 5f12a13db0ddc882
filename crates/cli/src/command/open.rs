//! `hansard` alone, on a terminal: the way in. It starts the daemon if none runs, waits until
//! history is read, says what was found, and opens the page.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use daemon::RunningDaemon;

use super::found::{LOOK_EVERY, print_machine};
use super::{CommandResult, Completion, Global, up, web};
use crate::output::CliOutput;
use crate::world;

/// How long a program that opens the page may take to say that it cannot.
const OPENED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct OpenArgs {
    /// Without a command: print the address, do not open the page
    #[arg(long)]
    no_open: bool,
}

/// Where the page can be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
enum BrowserPlace {
    /// By this program, which hands an address to the user's browser.
    Here(&'static str),
    /// On another machine: the user is logged in over ssh, to this user and address.
    OverSsh {
        target: String,
    },
    None,
}

impl OpenArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let folder = std::path::absolute(world::journal_folder(global)?)?;
        if RunningDaemon::find(&folder).is_none() {
            up::start_in_background(global, output)?;
        }
        print_machine(global, output)?;
        let link = web::make_link(global)?;
        output.line(format!("the page: {}", link.page))?;
        match find_browser(|name| std::env::var(name).ok()) {
            BrowserPlace::Here(opener) if !self.no_open && open_address(opener, &link.login) => {}
            BrowserPlace::OverSsh { target } => {
                let port = link.page.rsplit(':').next().unwrap_or_default();
                output.line("on your own machine run this, then open the link within a minute:")?;
                output.line(format!("  ssh -N -L {port}:localhost:{port} {target}"))?;
                output.line(format!("  {}", link.login))?;
            }
            _ => output.line(format!("sign in, once and within a minute: {}", link.login))?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn find_browser(variable: impl Fn(&str) -> Option<String>) -> BrowserPlace {
    // `client-address client-port server-address server-port`.
    if let Some(connection) = variable("SSH_CONNECTION") {
        let server = connection.split(' ').nth(2).unwrap_or("HOST").to_owned();
        let user = variable("USER").map_or_else(String::new, |user| format!("{user}@"));
        return BrowserPlace::OverSsh { target: format!("{user}{server}") };
    }
    if cfg!(target_os = "macos") {
        return BrowserPlace::Here("open");
    }
    let has_display =
        ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| variable(name).is_some());
    if has_display { BrowserPlace::Here("xdg-open") } else { BrowserPlace::None }
}

/// Opens an address in the user's browser; `false` if there is no program for it.
fn open_address(opener: &str, address: &str) -> bool {
    let quiet = || Stdio::null();
    let mut command = Command::new(opener);
    let command = command.arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet());
    let Ok(mut child) = command.spawn() else { return false };
    let (_open, never) = mpsc::sync_channel::<()>(0);
    let begun = Instant::now();
    // It hands the address over and says whether it could, or it is the browser itself.
    while begun.elapsed() < OPENED_WITHIN {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => _ = never.recv_timeout(LOOK_EVERY),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_opens_where_the_user_sits() {
        let screen = |set: &[(&str, &str)]| {
            find_browser(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let ssh =
            [("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.9 22"), ("USER", "dev"), ("DISPLAY", ":1")];
        assert_eq!(screen(&ssh), BrowserPlace::OverSsh { target: "dev@10.0.0.9".to_owned() });
        if cfg!(target_os = "linux") {
            assert_eq!(screen(&[("DISPLAY", ":0")]), BrowserPlace::Here("xdg-open"));
            assert_eq!(screen(&[]), BrowserPlace::None);
        }
    }
}
