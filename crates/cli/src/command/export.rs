//! `hansard export`: writes a session, or a tree of sessions, to a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use daemon::{Secrets, handoff_note, write_document, write_events};
use event::{Draft, Event};
use journal::{Journal, SessionInfo};
use projection::document::{Format, Options};
use projection::redacted;
use redact::Redactor;
use serde::Serialize;
use session::{Extent, Run, Session};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Export a session as Markdown, HTML, text, JSON or a bundle.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// The output format
    #[arg(long, value_enum, default_value = "bundle")]
    format: ExportFormat,
    /// Write a handoff note without secrets: goal, work, how to resume
    #[arg(long, conflicts_with_all = ["format", "tree"])]
    handoff: bool,
    /// Include all its descendants; only for bundles and runs
    #[arg(long)]
    tree: bool,
    /// Leave out the thinking of models; only for documents
    #[arg(long)]
    no_thinking: bool,
    /// Remove secrets: keys, tokens, passwords
    #[arg(long)]
    redact: bool,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Everything, for `hansard import`
    Bundle,
    /// The events, one JSON object per line
    Jsonl,
    /// A Markdown document
    Markdown,
    /// One self-contained HTML page
    Html,
    /// Plain text
    Text,
    /// Turns, steps, calls, results and costs, as one JSON object
    Run,
    /// The calls that worked and how it ended, as one JSON object
    Episode,
}

impl ExportArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        // The other formats are documents of one session.
        if self.tree && !matches!(self.format, ExportFormat::Bundle | ExportFormat::Run) {
            let message = "only a bundle or a run can hold a tree of sessions";
            return Err(CliError::new("usage", message).hint("leave out --tree or --format"));
        }
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        match &self.output {
            None => self.write_export(&journal, &info, output.writer())?,
            Some(path) => {
                let file = File::create(path).map_err(|error| {
                    let message = format!("cannot write `{}`: {error}", path.display());
                    CliError::new("io", message)
                })?;
                // Flushed below: the error of the last write would be lost in a drop.
                let mut file = BufWriter::new(file);
                self.write_export(&journal, &info, &mut file)?;
                file.flush()?;
                output.note(format!("written to {}", path.display()));
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }

    fn write_export(
        &self,
        journal: &Journal,
        info: &SessionInfo,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        if self.handoff {
            let note = handoff_note(journal, info)?;
            return Ok(out.write_all(note.as_bytes())?);
        }
        let format = match self.format {
            ExportFormat::Bundle => return self.write_bundle(journal, info, out),
            ExportFormat::Jsonl => {
                return Ok(write_events(journal, info, self.secret_handling(), out)?);
            }
            ExportFormat::Markdown => Format::Markdown,
            ExportFormat::Html => Format::Html,
            ExportFormat::Text => Format::Plain,
            ExportFormat::Run => return write_json(&self.read_run(journal, info)?, out),
            ExportFormat::Episode => {
                return write_json(&session::distill_run(&self.read_run(journal, info)?), out);
            }
        };
        let options = Options { shows_thinking: !self.no_thinking, ..Options::default() };
        Ok(write_document(journal, info, (format, options), self.secret_handling(), out)?)
    }

    /// Returns the session as a run, with those of its descendants if asked to.
    fn read_run(&self, journal: &Journal, info: &SessionInfo) -> Result<Run, CliError> {
        let session = Session::open(&world::host(journal.clone()), info.id.clone())?;
        let redactor = RefCell::new(Redactor::new());
        Ok(session.export_run_redacted(self.extent(), &|draft| {
            if self.redact {
                redact_draft(draft, &redactor);
            }
        })?)
    }

    fn write_bundle(
        &self,
        journal: &Journal,
        info: &SessionInfo,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        if !self.redact {
            return Ok(session::export(journal, &info.id, self.extent(), out)?);
        }
        let redactor = RefCell::new(Redactor::new());
        let redact = |draft: &mut Draft| redact_draft(draft, &redactor);
        Ok(session::export_redacted(journal, &info.id, self.extent(), &redact, out)?)
    }

    fn extent(&self) -> Extent {
        if self.tree { Extent::Tree } else { Extent::Session }
    }

    fn secret_handling(&self) -> Secrets {
        match self.redact {
            true => Secrets::Removed,
            false => Secrets::Kept,
        }
    }
}

/// The redactor is in a cell, because exports call this from a shared reference.
fn redact_draft(draft: &mut Draft, redactor: &RefCell<Redactor>) {
    let redactor = &mut *redactor.borrow_mut();
    // Redaction works on events; the number plays no part in it.
    let event = Event { seq: 0, draft: draft.clone() };
    *draft = redacted(&event, &mut |text| redactor.redact(text)).draft;
}

fn write_json(value: &impl Serialize, out: &mut dyn Write) -> Result<(), CliError> {
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
