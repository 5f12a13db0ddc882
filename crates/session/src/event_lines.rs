//! Events as JSON lines, taken into a journal.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead};

use event::{BadEvent, Draft, EventId, SessionId, Time};
use journal::{AppendOutcome, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Batch, Journal};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{Imported, SessionError};

/// Events committed together: many enough to be fast, few enough to show progress.
const LINES_PER_BATCH: usize = 1_000;

/// Lines could not be imported. Events before a bad line are recorded.
#[derive(Debug, thiserror::Error)]
pub enum EventLinesError {
    #[error("line {line} is not an event: {source}")]
    BadLine { line: usize, source: BadEvent },
    #[error("cannot read the events")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Appends events line by line and tells after each commit how many lines were handled. Events
/// before a bad line are recorded; importing the corrected file again adds only the missing ones.
pub fn import_events(
    journal: &Journal,
    input: &mut dyn BufRead,
    tell: &mut dyn FnMut(u64),
) -> Result<Imported, EventLinesError> {
    let mut imported = Imported::default();
    let mut sessions = BTreeSet::new();
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
        let (draft, seq) = Draft::decode(named.as_deref().unwrap_or(&line))
            .map_err(|source| EventLinesError::BadLine { line: place + 1, source })?;
        sessions.insert(draft.session_id.clone());
        bytes += line.len();
        waiting.push((draft, seq));
        // Half of the limit leaves room for the line that passes it.
        if waiting.len() == LINES_PER_BATCH.min(BATCH_EVENTS_MAX) || bytes > BATCH_BYTES_MAX / 2 {
            append_waiting(journal, &mut waiting, &mut imported)?;
            bytes = 0;
            tell(imported.events + imported.already_recorded + imported.deleted);
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
) -> Result<(), SessionError> {
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
            AppendOutcome::AlreadyRecorded { .. } => imported.already_recorded += 1,
            AppendOutcome::Ignored => imported.deleted += 1,
        }
    }
    Ok(())
}
