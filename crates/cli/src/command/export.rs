//! `hansard export`: a session, or a tree of them, as one file.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use clap::Args;
use session::Extent;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

#[derive(Args)]
pub(crate) struct Export {
    /// The beginning of the session's id, ours or its provider's
    session: String,
    /// With everything that came from it
    #[arg(long)]
    tree: bool,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, output)?;
        let id = journal.resolve(&self.session)?.id;
        let extent = if self.tree { Extent::Tree } else { Extent::Session };
        match &self.output {
            None => session::export(&journal, &id, extent, output.writer())?,
            Some(path) => {
                let file = File::create(path).map_err(|error| {
                    let message = format!("cannot write `{}`: {error}", path.display());
                    CliError::new("io", message)
                })?;
                let mut file = BufWriter::new(file);
                session::export(&journal, &id, extent, &mut file)?;
                output.note(format!("written to {}", path.display()));
            }
        }
        output.flush()?;
        Ok(Done::Yes)
    }
}
