//! `hansard import`: a bundle, or plain events, into the journal.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, stdin};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use event::Draft;
use ingest::{Import as Account, Slice, Stage};
use journal::{
    AppendOutcome, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Batch, Journal, Options, StoreKind,
};
use serde::Serialize;
use session::Imported;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Lines of events committed together: large enough to be quick, small enough for progress.
const LINES_PER_BATCH: usize = 1_000;

#[derive(Args)]
pub(crate) struct Import {
    /// A bundle of `hansard export`, or events as lines of JSON; `-` or nothing reads stdin
    file: Option<PathBuf>,
    /// How a journal that does not exist yet is kept
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Kept,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// One database
    Sqlite,
    /// One file of JSON lines per session
    Files,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    #[serde(flatten)]
    imported: Imported,
}

impl Import {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let mut input = self.open()?;
        let mut first = String::new();
        input.read_line(&mut first)?;
        let store = match self.store {
            Kept::Sqlite => StoreKind::Sqlite,
            Kept::Files => StoreKind::Files,
        };
        let journal =
            world::journal_to_fill(global, &Options { store, ..Options::default() }, output)?;
        let is_bundle = first.trim_start().starts_with("{\"hansard_bundle\"");
        let mut whole = Cursor::new(first).chain(input);
        let format = if is_bundle { "bundle" } else { "events" };
        let mut account = self.account(format, global)?;
        let imported = fill(&journal, &mut whole, is_bundle, &mut account, output);
        journal.close();
        let imported = match imported {
            Ok(imported) => imported,
            Err(error) => {
                account.fail(error.message());
                return Err(error);
            }
        };
        account.slice(Slice { sources: 1, events: imported.events, ..Slice::default() });
        account.complete();
        let report = Report { format, imported };
        print(&report, output)?;
        output.flush()?;
        Ok(Done::Yes)
    }

    /// Tells on the bus how it goes, if somebody is there.
    fn account(&self, format: &'static str, global: &Global) -> Result<Account, CliError> {
        let socket = daemon::socket(&world::folder(global)?);
        let file = self.file.as_ref().map_or_else(|| "-".into(), |file| file.to_string_lossy());
        Ok(Account::of_file(&file, format, world::now(), move |message| {
            // What is recorded is recorded, whoever hears of it.
            let _ = bus::send(&socket, &[message]);
        }))
    }

    fn open(&self) -> Result<Box<dyn BufRead>, CliError> {
        let Some(path) = self.file.as_ref().filter(|path| path.as_os_str() != "-") else {
            return Ok(Box::new(BufReader::new(stdin())));
        };
        let file = File::open(path).map_err(|error| {
            CliError::new("io", format!("cannot read `{}`: {error}", path.display()))
        })?;
        Ok(Box::new(BufReader::new(file)))
    }
}

/// Records everything, and makes it searchable.
fn fill(
    journal: &Journal,
    input: &mut dyn BufRead,
    is_bundle: bool,
    account: &mut Account,
    output: &mut Output,
) -> Result<Imported, CliError> {
    account.enter(Stage::Segmenting);
    let imported = match is_bundle {
        true => session::import(journal, input)?,
        false => import_lines(journal, input, account, output)?,
    };
    account.enter(Stage::Transcribing);
    while let Some(position) = journal.index()? {
        account.done(position, None);
        output.progress(|| format!("indexed up to event {position}"));
    }
    Ok(imported)
}

/// Appends plain events, line by line. What stands before a bad line is recorded; importing the
/// mended file again adds only what is missing.
fn import_lines(
    journal: &Journal,
    input: &mut dyn BufRead,
    account: &mut Account,
    output: &mut Output,
) -> Result<Imported, CliError> {
    let mut imported = Imported::default();
    let mut sessions = std::collections::BTreeSet::new();
    let mut waiting: Vec<(Draft, Option<u64>)> = Vec::new();
    let mut bytes = 0;
    for (place, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let (draft, seq) = Draft::decode(&line).map_err(|error| {
            CliError::new("bad_line", format!("line {} is not an event: {error}", place + 1))
                .hint("docs/events.md shows what an event looks like")
        })?;
        sessions.insert(draft.session_id.clone());
        bytes += line.len();
        waiting.push((draft, seq));
        if waiting.len() == LINES_PER_BATCH.min(BATCH_EVENTS_MAX) || bytes > BATCH_BYTES_MAX / 2 {
            append(journal, &mut waiting, &mut imported)?;
            bytes = 0;
            account.done(imported.events + imported.already_recorded, None);
            output.progress(|| format!("{} events", imported.events + imported.already_recorded));
        }
    }
    append(journal, &mut waiting, &mut imported)?;
    imported.sessions = sessions.len() as u64;
    Ok(imported)
}

fn append(
    journal: &Journal,
    waiting: &mut Vec<(Draft, Option<u64>)>,
    imported: &mut Imported,
) -> Result<(), CliError> {
    let mut batch = Batch::observed();
    for (draft, seq) in waiting.drain(..) {
        batch = match seq {
            Some(seq) => batch.with_numbered(draft, seq),
            None => batch.with(draft),
        };
    }
    for appended in journal.append(batch)?.events {
        match appended.outcome {
            AppendOutcome::Recorded => imported.events += 1,
            AppendOutcome::AlreadyRecorded { .. } | AppendOutcome::Ignored => {
                imported.already_recorded += 1;
            }
        }
    }
    Ok(())
}

fn print(report: &Report, output: &mut Output) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(report);
    }
    let Imported { sessions, events, already_recorded, artifacts } = report.imported;
    output.line(format!("{events} events of {sessions} sessions recorded"))?;
    if already_recorded > 0 {
        output.line(format!("{already_recorded} were there before"))?;
    }
    if artifacts > 0 {
        output.line(format!("{artifacts} artifacts"))?;
    }
    Ok(())
}
