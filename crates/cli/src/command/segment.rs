//! `hansard transcribe` and `hansard describe`: the files of a segment. The daemon runs them when an
//! epoch has ended.

use std::path::PathBuf;

use clap::Args;
use segments::Segment;
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::output::CliOutput;
use crate::world;

#[derive(Args)]
pub(crate) struct SegmentArgs {
    /// The folder of the segment
    #[arg(default_value = ".")]
    folder: PathBuf,
}

impl SegmentArgs {
    pub(crate) fn transcribe(&self, global: &Global, out: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, out)?;
        let made = Segment::open(&self.folder)?.transcribe(&journal)?;
        print_result(&made, format!("{}: {} lines", made.outcome, made.lines), out)
    }

    pub(crate) fn describe(&self, global: &Global, out: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, out)?;
        let made = Segment::open(&self.folder)?.describe(&journal)?;
        print_result(&made, format!("{} facts", made.facts), out)
    }
}

fn print_result(made: &impl Serialize, words: String, output: &mut CliOutput) -> CommandResult {
    match output.json() {
        true => output.json_line(made)?,
        false => output.line(words)?,
    }
    output.flush()?;
    Ok(Completion::Success)
}
