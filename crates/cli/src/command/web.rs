//! `hansard web`: the way in for a browser.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Print an address that lets a browser in, once and within a minute.
///
/// Programs send the token instead, as `Authorization: Bearer TOKEN`; with --json it is said which
/// file it is in. Exit codes: 0 done, 1 it failed or HTTP is switched off, 3 no daemon runs.
#[derive(Args)]
pub(crate) struct Web {
    /// Make another token first: whoever is in with the former one has to leave
    #[arg(long)]
    renew: bool,
}

/// The ways in.
#[derive(Serialize)]
struct WebShape {
    address: String,
    login: String,
    token_file: PathBuf,
}

impl Web {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        world::daemon(global)?;
        let keys = daemon::keys(&world::folder(global)?);
        let address = told(&keys.address_path())?;
        let page = told(&keys.page_path())?;
        if self.renew {
            keys.renew()?;
        }
        let login = format!("{page}/login?code={}", keys.make_code()?);
        match output.json() {
            true => {
                output.json_line(&WebShape { address, login, token_file: keys.token_path() })?
            }
            false => output.line(login)?,
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}

/// What the daemon says of its door.
fn told(path: &Path) -> Result<String, CliError> {
    match std::fs::read_to_string(path) {
        Ok(told) => Ok(told.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(CliError::new("no_http", "the daemon does not answer over HTTP")
                .hint("`hansard logs supervisor` may say why; `[http]` in `config.toml`"))
        }
        Err(error) => Err(error.into()),
    }
}
