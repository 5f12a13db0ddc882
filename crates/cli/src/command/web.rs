//! `hansard web`: a login link for the web page.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Print a link that signs a browser in to the web page
///
/// The link works once, within a minute. The browser then stays signed in for 30 days after its
/// last visit, and the address of the page can be bookmarked; on a machine with other users both
/// last until the daemon starts again.
///
/// Programs send a token instead, as `Authorization: Bearer TOKEN`; --json names its file.
/// Exit codes: 0 success, 1 failure or HTTP is disabled, 3 no daemon is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WebArgs {
    /// Make a new token first, and sign out all browsers
    #[arg(long)]
    renew: bool,
}

/// The addresses and the token's file.
#[derive(Serialize)]
struct WebShape {
    address: String,
    /// The address to bookmark.
    page: String,
    login: String,
    token_file: PathBuf,
}

/// A way in for one browser.
pub(super) struct WebLink {
    /// Where programs ask.
    address: String,
    /// Where browsers find the page.
    pub(super) page: String,
    /// Signs a browser in.
    pub(super) login: String,
}

impl WebArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        // First: a login made before it would end with the others.
        if self.renew {
            world::find_daemon(global)?;
            daemon::keys(&world::journal_folder(global)?).renew()?;
        }
        let WebLink { address, page, login } = make_link(global)?;
        match output.json() {
            true => {
                let token_file = daemon::keys(&world::journal_folder(global)?).token_path();
                output.json_line(&WebShape { address, page, login, token_file })?;
            }
            false => {
                output.line(login)?;
                // Before the note, which goes to stderr.
                output.flush()?;
                output.note(format!("the link works once, within a minute; then bookmark {page}"));
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Returns the address of the page, which a browser that is signed in can open.
pub(super) fn page_address(global: &Global) -> Result<String, CliError> {
    // Its files stay behind after a crash and would name a server that is gone.
    world::find_daemon(global)?;
    read_published(&daemon::keys(&world::journal_folder(global)?).page_path())
}

/// Makes a link that signs one browser in.
pub(super) fn make_link(global: &Global) -> Result<WebLink, CliError> {
    let page = page_address(global)?;
    let keys = daemon::keys(&world::journal_folder(global)?);
    let address = read_published(&keys.address_path())?;
    let login = format!("{page}/login?code={}", keys.make_code()?);
    Ok(WebLink { address, page, login })
}

/// Reads a file that the daemon writes about its HTTP server.
fn read_published(path: &Path) -> Result<String, CliError> {
    match std::fs::read_to_string(path) {
        Ok(told) => Ok(told.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(CliError::new("no_http", "the daemon does not serve HTTP")
                .hint("`hansard logs supervisor` may show why; see `[http]` in `config.toml`"))
        }
        Err(error) => Err(error.into()),
    }
}
