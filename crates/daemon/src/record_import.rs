//! Brings records from elsewhere into a journal: a bundle, events as JSON lines, or the sample.
//!
//! What was imported is searchable and has its segments when the import ends, and the bus hears of
//! each stage.

use std::io::BufRead;
use std::path::Path;

use event::Time;
use ingest::{Import, Slice, Stage};
use journal::{Journal, ReadError};
use segments::{Segment, SegmentError, Zone};
use session::{BundleError, EventLinesError, Imported};

use crate::history_import::note_segment_output;
use crate::instance;

/// Three recorded sessions for a first look, on a machine without agents.
pub const SAMPLE: &str = include_str!("../../../docs/sample.ndjson");

/// The name of the sample on the bus, where other imports have the name of their file.
pub const SAMPLE_NAME: &str = "sample";

/// The format of a record from elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportFormat {
    /// What `hansard export` wrote.
    Bundle,
    /// One event a line.
    Events,
}

/// What is indexed before an import ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Indexing {
    /// Everything there is, also what others have recorded.
    All,
    /// Nothing: the journal's own thread does it, and a search reads what is not indexed yet.
    Left,
}

/// How far an import is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportProgress {
    /// So many events are recorded.
    Recorded(u64),
    /// Search knows everything up to this position.
    Indexed(u64),
}

/// An import failed. What was recorded before is on disk; importing again adds only the rest.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    Events(#[from] EventLinesError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

impl ImportFormat {
    /// Recognises the format by the first line.
    pub fn detect(first_line: &str) -> ImportFormat {
        // A bundle names itself in its first member.
        match first_line.trim_start().starts_with("{\"hansard_bundle\"") {
            true => ImportFormat::Bundle,
            false => ImportFormat::Events,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ImportFormat::Bundle => "bundle",
            ImportFormat::Events => "events",
        }
    }
}

/// One import into the journal in a folder.
pub struct RecordImport<'a> {
    /// The folder of the journal, whose bus hears of the import.
    pub folder: &'a Path,
    /// The name of the imported file.
    pub name: &'a str,
    pub format: ImportFormat,
    pub now: Time,
}

impl RecordImport<'_> {
    /// Imports everything, indexes it for search, and writes the segments of the epochs that are
    /// over. Importing the same again changes nothing.
    pub fn run(
        &self,
        journal: &Journal,
        input: &mut dyn BufRead,
        tell: &mut dyn FnMut(ImportProgress),
    ) -> Result<Imported, ImportError> {
        self.run_stages(journal, input, Indexing::All, tell)
    }

    fn run_stages(
        &self,
        journal: &Journal,
        input: &mut dyn BufRead,
        indexing: Indexing,
        tell: &mut dyn FnMut(ImportProgress),
    ) -> Result<Imported, ImportError> {
        let socket = instance::socket(self.folder);
        let mut account =
            Import::from_file(self.name, self.format.as_str(), self.now, move |message| {
                // The message is only news, so a missing bus is no failure.
                let _ = bus::send(&socket, &[message]);
            });
        match self.import(journal, input, indexing, &mut account, tell) {
            Ok(imported) => {
                let Imported { events, span, .. } = imported;
                account.finish_slice(Slice { sources: 1, events, span, ..Slice::default() });
                account.complete();
                Ok(imported)
            }
            Err(error) => {
                account.fail_with(&error.to_string());
                Err(error)
            }
        }
    }

    fn import(
        &self,
        journal: &Journal,
        input: &mut dyn BufRead,
        indexing: Indexing,
        account: &mut Import,
        tell: &mut dyn FnMut(ImportProgress),
    ) -> Result<Imported, ImportError> {
        account.enter_stage(Stage::Segmenting);
        let imported = match self.format {
            ImportFormat::Bundle => session::import(journal, input)?,
            ImportFormat::Events => session::import_events(journal, input, &mut |events| {
                account.note_done(events, None);
                tell(ImportProgress::Recorded(events));
            })?,
        };
        account.enter_stage(Stage::Transcribing);
        if indexing == Indexing::All {
            // In portions, so that progress can be shown between them.
            while let Some(position) = journal.index()? {
                account.note_done(position, None);
                tell(ImportProgress::Indexed(position));
            }
        }
        let zone = Zone::system();
        for session in &imported.changed {
            Segment::write_session(journal, session, &zone, &mut |key, output, is_new| {
                note_segment_output(account, key, output, is_new);
            })?;
        }
        Ok(imported)
    }
}

/// Imports the sample into the journal in a folder, beside everything else the daemon does.
pub(crate) fn import_sample(
    journal: &Journal,
    folder: &Path,
    now: Time,
) -> Result<Imported, ImportError> {
    RecordImport { folder, name: SAMPLE_NAME, format: ImportFormat::Events, now }.run_stages(
        journal,
        &mut SAMPLE.as_bytes(),
        Indexing::Left,
        &mut |_| (),
    )
}
