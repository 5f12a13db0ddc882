//! `hansard import`: imports a bundle, or events as JSON lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, stdin};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use daemon::note_segment_output;
use event::{Draft, EventId, SessionId, Time};
use ingest::{Import as Account, Slice, Stage};
use journal::{
    AppendOutcome, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Batch, Journal, Options, StoreKind,
};
use segments::{Segment, Zone};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use session::Imported;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// Events committed together: many enough to be fast, few enough to show progress.
const LINES_PER_BATCH: usize = 1_000;

/// Three recorded sessions for a first look, on a machine without agents.
const SAMPLE: &str = include_str!("../../../../docs/sample.ndjson");

/// What the sample is called on the bus, where other imports have the name of their file.
const SAMPLE_NAME: &str = "sample";

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
        // A bundle names itself in its first member.
        let is_bundle = first.trim_start().starts_with("{\"hansard_bundle\"");
        let mut whole = Cursor::new(first).chain(input);
        let format = if is_bundle { "bundle" } else { "events" };
        let mut account = self.open_account(format, global)?;
        let imported = import_all(&journal, &mut whole, is_bundle, &mut account, output);
        // Before the report, also after an error: what was appended is on disk then.
        journal.close();
        let imported = match imported {
            Ok(imported) => imported,
            Err(error) => {
                account.fail_with(error.message());
                return Err(error);
            }
        };
        let Imported { events, span, .. } = imported;
        account.finish_slice(Slice { sources: 1, events, span, ..Slice::default() });
        account.complete();
        let report = ImportReport { format, imported };
        print_report(&report, output)?;
        output.flush()?;
        Ok(Completion::Success)
    }

    /// Publishes the progress on the bus, if one is running.
    fn open_account(&self, format: &'static str, global: &Global) -> Result<Account, CliError> {
        let socket = daemon::socket(&world::journal_folder(global)?);
        // The same name as on the command line.
        let file = match &self.file {
            Some(file) => file.to_string_lossy(),
            None if self.sample => SAMPLE_NAME.into(),
            None => "-".into(),
        };
        Ok(Account::from_file(&file, format, world::now(), move |message| {
            // The message is only news, so a missing bus is no failure.
            let _ = bus::send(&socket, &[message]);
        }))
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

/// Imports everything, indexes it for search, and writes the segments of the epochs that are over.
fn import_all(
    journal: &Journal,
    input: &mut dyn BufRead,
    is_bundle: bool,
    account: &mut Account,
    output: &mut CliOutput,
) -> Result<Imported, CliError> {
    account.enter_stage(Stage::Segmenting);
    let imported = match is_bundle {
        true => session::import(journal, input)?,
        false => import_lines(journal, input, account, output)?,
    };
    account.enter_stage(Stage::Transcribing);
    // In portions, so that progress can be shown between them.
    while let Some(position) = journal.index()? {
        account.note_done(position, None);
        output.progress(|| format!("indexed up to event {position}"));
    }
    let zone = Zone::system();
    for session in &imported.changed {
        Segment::write_session(journal, session, &zone, &mut |key, output, is_new| {
            note_segment_output(account, key, output, is_new);
        })?;
    }
    Ok(imported)
}

/// Appends events line by line. Events before a bad line are recorded; importing the corrected file
/// again adds only the missing ones.
fn import_lines(
    journal: &Journal,
    input: &mut dyn BufRead,
    account: &mut Account,
    output: &mut CliOutput,
) -> Result<Imported, CliError> {
    let mut imported = Imported::default();
    let mut sessions = std::collections::BTreeSet::new();
    let mut waiting: Vec<(Draft, Option<u64>)> = Vec::new();
    let mut bytes = 0;
    let mut derived_ids = DerivedIds::default();
    for (place, line) in input.lines().enumerate() {
        let line = line?;
        // Blank lines may separate events.
        if line.trim().is_empty() {
            continue;
        }
        let named = derived_ids.add_missing(&line);
        let (draft, seq) = Draft::decode(named.as_deref().unwrap_or(&line)).map_err(|error| {
            CliError::new("bad_line", format!("line {} is not an event: {error}", place + 1))
                .hint("docs/reference/events.md shows what an event looks like")
        })?;
        sessions.insert(draft.session_id.clone());
        bytes += line.len();
        waiting.push((draft, seq));
        // Half of the limit leaves room for the line that passes it.
        if waiting.len() == LINES_PER_BATCH.min(BATCH_EVENTS_MAX) || bytes > BATCH_BYTES_MAX / 2 {
            append_waiting(journal, &mut waiting, &mut imported)?;
            bytes = 0;
            account.note_done(imported.events + imported.already_recorded, None);
            output.progress(|| format!("{} events", imported.events + imported.already_recorded));
        }
    }
    append_waiting(journal, &mut waiting, &mut imported)?;
    imported.sessions = sessions.len() as u64;
    Ok(imported)
}

/// Ids for events that bring none. They follow from the line, so that the same file gives the same
/// ids, and importing it twice records nothing twice.
#[derive(Default)]
struct DerivedIds {
    /// How often each line came before: equal lines of one file are events of their own.
    occurrences: HashMap<EventId, u64>,
}

/// The part of a line that an id is derived from.
#[derive(Deserialize)]
struct EventWithoutId {
    id: Option<IgnoredAny>,
    session_id: SessionId,
    created_at: Time,
}

impl DerivedIds {
    /// Returns the line with an id; `None` for a line that has one, or that is no event.
    fn add_missing(&mut self, line: &str) -> Option<String> {
        // Nearly every line has an id in front, and need not be parsed twice.
        let rest =
            line.trim_start().strip_prefix('{').filter(|rest| !rest.starts_with("\"id\""))?;
        let EventWithoutId { id, session_id, created_at } = serde_json::from_str(line).ok()?;
        if id.is_some() {
            return None;
        }
        let derive = |count: u64| {
            let identity = format!("{count} {}", line.trim());
            EventId::derived(created_at, "import", session_id.as_str(), identity.as_bytes())
        };
        let count = self.occurrences.entry(derive(0)).or_default();
        let id = derive(*count);
        *count += 1;
        // Put in front as text: the rest of the line stays byte for byte.
        Some(format!("{{\"id\":\"{id}\",{rest}"))
    }
}

fn append_waiting(
    journal: &Journal,
    waiting: &mut Vec<(Draft, Option<u64>)>,
    imported: &mut Imported,
) -> Result<(), CliError> {
    let mut batch = Batch::observed();
    let mut named = Vec::new();
    for (draft, seq) in waiting.drain(..) {
        named.push((draft.session_id.clone(), draft.created_at));
        batch = match seq {
            // With its number an event has to be the next of its session.
            Some(seq) => batch.with_numbered(draft, seq),
            None => batch.with(draft),
        };
    }
    for ((session, at), appended) in named.into_iter().zip(journal.append(batch)?.events) {
        match appended.outcome {
            AppendOutcome::Recorded => imported.count_new(session, at),
            // The same event again, as from a corrected file.
            AppendOutcome::AlreadyRecorded { .. } | AppendOutcome::Ignored => {
                imported.already_recorded += 1;
            }
        }
    }
    Ok(())
}

fn print_report(report: &ImportReport, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(report);
    }
    let Imported { sessions, events, already_recorded, artifacts, .. } = report.imported;
    output.line(format!("{events} events of {sessions} sessions recorded"))?;
    if already_recorded > 0 {
        output.line(format!("{already_recorded} were already recorded"))?;
    }
    if artifacts > 0 {
        output.line(format!("{artifacts} artifacts"))?;
    }
    Ok(())
}
