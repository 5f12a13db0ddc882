//! `hansard web`: the way in for a browser.

use std::path::PathBuf;

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
        let address = match std::fs::read_to_string(keys.address_path()) {
            Ok(address) => address.trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CliError::new("no_http", "the daemon does not answer over HTTP")
                    .hint("`hansard logs supervisor` may say why; `[http]` in `config.toml`"));
            }
            Err(error) => return Err(error.into()),
        };
        if self.renew {
            keys.renew()?;
        }
        let login = format!("{address}/login?code={}", keys.make_code()?);
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
