//! `hansard transcribe` and `hansard describe`: the files of a segment. The daemon runs them when an
//! epoch is over.

use std::path::PathBuf;

use clap::Args;
use segments::Segment;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

#[derive(Args)]
pub(crate) struct OfSegment {
    /// The folder of the segment
    #[arg(default_value = ".")]
    folder: PathBuf,
}

impl OfSegment {
    pub(crate) fn transcribe(&self, global: &Global, out: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, out)?;
        let made = Segment::open(&self.folder)?.transcribe(&journal)?;
        told(&made, format!("{}: {} lines", made.outcome, made.lines), out)
    }

    pub(crate) fn describe(&self, global: &Global, out: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_read(global, out)?;
        let made = Segment::open(&self.folder)?.describe(&journal)?;
        told(&made, format!("{} facts", made.facts), out)
    }
}

fn told(made: &impl Serialize, words: String, output: &mut Output) -> Result<Done, CliError> {
    match output.json() {
        true => output.json_line(made)?,
        false => output.line(words)?,
    }
    output.flush()?;
    Ok(Done::Yes)
}
