//! `hansard import`: imports a bundle, or events as JSON lines.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, stdin};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use daemon::{ImportFormat, ImportProgress, RecordImport, SAMPLE, SAMPLE_NAME};
use journal::{Options, StoreKind};
use serde::Serialize;
use session::Imported;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, format_several};
use crate::world;

/// Import a bundle of `export`, events as JSON lines, or the sample.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// A bundle of `hansard export`, or events as JSON lines; `-` or nothing reads stdin
    file: Option<PathBuf>,
    /// Import three recorded sessions that come with the program
    #[arg(long, conflicts_with = "file")]
    sample: bool,
    /// The storage of a journal that does not exist yet
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreChoice,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreChoice {
    /// One SQLite database
    Sqlite,
    /// One file of JSON lines per session
    Files,
}

#[derive(Serialize)]
struct ImportReport {
    format: &'static str,
    #[serde(flatten)]
    imported: Imported,
}

impl ImportArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let mut input = self.open_input()?;
        let mut first = String::new();
        // One line decides about the format; it is put back in front below.
        input.read_line(&mut first)?;
        let store = match self.store {
            StoreChoice::Sqlite => StoreKind::Sqlite,
            StoreChoice::Files => StoreKind::Files,
        };
        let journal =
            world::journal_to_fill(global, &Options { store, ..Options::default() }, output)?;
        let format = ImportFormat::detect(&first);
        let mut whole = Cursor::new(first).chain(input);
        let folder = world::journal_folder(global)?;
        let import =
            RecordImport { folder: &folder, name: &self.name(), format, now: world::now() };
        let imported = import.run(&journal, &mut whole, &mut |progress| {
            output.progress(|| match progress {
                ImportProgress::Recorded(events) => format!("{events} events"),
                ImportProgress::Indexed(position) => format!("indexed up to event {position}"),
            });
        });
        // Before the report, also after an error: what was appended is on disk then.
        journal.close();
        let report = ImportReport { format: format.as_str(), imported: imported? };
        print_report(&report, output)?;
        output.flush()?;
        Ok(Completion::Success)
    }

    /// Returns the name of the input on the bus: the same as on the command line.
    fn name(&self) -> Cow<'_, str> {
        match &self.file {
            Some(file) => file.to_string_lossy(),
            None if self.sample => SAMPLE_NAME.into(),
            None => "-".into(),
        }
    }

    fn open_input(&self) -> Result<Box<dyn BufRead>, CliError> {
        if self.sample {
            return Ok(Box::new(SAMPLE.as_bytes()));
        }
        let Some(path) = self.file.as_ref().filter(|path| path.as_os_str() != "-") else {
            return Ok(Box::new(BufReader::new(stdin())));
        };
        let file = File::open(path).map_err(|error| {
            CliError::new("io", format!("cannot read `{}`: {error}", path.display()))
        })?;
        Ok(Box::new(BufReader::new(file)))
    }
}

fn print_report(report: &ImportReport, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(report);
    }
    let Imported { sessions, events, already_recorded, deleted, artifacts, .. } = report.imported;
    let (told, of) = (format_several(events, "event"), format_several(sessions, "session"));
    output.line(format!("recorded {told} of {of}"))?;
    if already_recorded > 0 {
        let told = format_several(already_recorded, "event");
        output.line(format!("{told} already there"))?;
    }
    if deleted > 0 {
        let told = format_several(deleted, "event");
        output.line(format!("{told} of deleted sessions left out"))?;
        output.note(
            "what was deleted stays deleted; `--journal DIR` imports into a journal of its own",
        );
    }
    if artifacts > 0 {
        output.line(format_several(artifacts, "artifact"))?;
    }
    Ok(())
}
