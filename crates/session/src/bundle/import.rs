//! Taking a bundle in.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use event::payload::{Artifact, ArtifactRecorded, SessionStarted};
use event::{Event, SessionId};
use journal::{Ancestry, AppendError, Batch, ExpectedBody, Journal, ReadError, Selection};

use super::{BUNDLE_FORMAT, BundleError, BundleHeader, BundleLine, EVENT_BEGINS, Imported};
use crate::SessionError;

/// Takes a bundle in: all of it, or nothing. Doing it again changes nothing.
///
/// A session that was deleted here is not brought back: the bundle is refused.
pub fn import(journal: &Journal, bundle: &mut dyn BufRead) -> Result<Imported, BundleError> {
    let bundle = Bundle::read_from(bundle)?;
    let mut imported = Imported {
        sessions: bundle.sessions.len() as u64,
        artifacts: bundle.artifacts.len() as u64,
        ..Imported::default()
    };
    let described = bundle.described();
    let mut batch = Batch::observed();
    for session in bundle.sessions {
        // Everything is checked before anything is written.
        let known = known_up_to(journal, &session)?;
        batch = session.announce(batch, known);
        for event in session.events {
            // `known_up_to` has compared these with ours.
            if known.is_some_and(|tail| event.seq <= tail) {
                imported.already_recorded += 1;
            } else {
                imported.count_new(event.session_id.clone(), event.created_at);
                batch = batch.with_numbered(event.draft, event.seq);
            }
        }
    }
    // Bodies first: an event never names a body that is not there.
    for (id, bytes) in &bundle.artifacts {
        let expected = described.get(id).map_or(ExpectedBody::default(), |artifact| ExpectedBody {
            size: artifact.size,
            digest: artifact.digest.as_deref(),
        });
        journal.artifacts().put(id, bytes.as_slice(), expected).map_err(SessionError::from)?;
    }
    journal.import(batch).map_err(SessionError::from)?;
    Ok(imported)
}

/// How far the journal has a session already; what it has must be the same. `None` if it has
/// never heard of it.
fn known_up_to(journal: &Journal, session: &IncomingSession) -> Result<Option<u64>, BundleError> {
    let id = &session.ancestry.session_id;
    let tail = match journal.stat(id) {
        Ok(info) => info.tail_seq,
        // A deletion is a decision of the user that an import must not undo.
        Err(ReadError::SessionNotFound(_)) => {
            return match journal.deleted_at(id).map_err(SessionError::from)? {
                Some(at) => Err(SessionError::from(AppendError::Deleted(id.clone(), at)).into()),
                None => Ok(None),
            };
        }
        Err(error) => return Err(SessionError::from(error).into()),
    };
    let Some(first) = session.events.first() else { return Ok(Some(tail)) };
    let diverged = |at_seq| Err(BundleError::Diverged { session_id: id.clone(), at_seq });
    let (known, new) = session.events.split_at(session.count_up_to(tail));
    let selection = Selection::after(first.seq.saturating_sub(1));
    let ours = journal.events(id, selection).map_err(SessionError::from)?;
    // The shared beginning must be the same event by event, or the two histories have diverged.
    for (ours, theirs) in ours.zip(known) {
        let ours = ours.map_err(SessionError::from)?;
        if ours.seq != theirs.seq || !ours.has_same_content(theirs) {
            return diverged(ours.seq);
        }
    }
    // An event that is new by its number and known by its id stands at another place here.
    for theirs in new {
        if journal.seq_of(id, theirs.id).map_err(SessionError::from)?.is_some() {
            return diverged(theirs.seq);
        }
    }
    Ok(Some(tail))
}

/// A bundle that was read.
#[derive(Default)]
struct Bundle {
    named: HashSet<SessionId>,
    sessions: Vec<IncomingSession>,
    artifacts: Vec<(String, Vec<u8>)>,
}

struct IncomingSession {
    ancestry: Ancestry,
    events: Vec<Event>,
    /// The identity of each event, independent of its time.
    facts: HashSet<[u8; 10]>,
}

impl IncomingSession {
    /// How many of its events stand at or before `seq`.
    fn count_up_to(&self, seq: u64) -> usize {
        self.events.partition_point(|event| event.seq <= seq)
    }

    /// Says where the session comes from, if it is new, and that it has not moved since.
    fn announce(&self, batch: Batch, known: Option<u64>) -> Batch {
        // Another writer may append between the check above and the commit; then the import fails.
        let batch = batch.expecting(self.ancestry.session_id.clone(), known.unwrap_or(0));
        let is_named = self.ancestry.parent_session_id.is_some();
        // A parent that is not in the bundle is known from the session's first event alone, and
        // is found if it is here.
        let names_parent = |first: &Event| {
            first.readable::<SessionStarted>().is_some_and(|started| started.parent.is_some())
        };
        let is_root = !self.events.first().is_some_and(names_parent);
        let has_words = self.ancestry.label.is_some() || self.ancestry.reason.is_some();
        match known {
            None if is_named || self.events.is_empty() || is_root && has_words => {
                batch.with_ancestry(self.ancestry.clone())
            }
            _ => batch,
        }
    }
}

impl Bundle {
    fn read_from(input: &mut dyn BufRead) -> Result<Bundle, BundleError> {
        let mut lines = input.lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let header: BundleHeader =
            serde_json::from_str(&first).map_err(|error| bad_line(1, &error))?;
        if header.hansard_bundle > BUNDLE_FORMAT {
            let found = header.hansard_bundle;
            return Err(BundleError::NewerFormat { found, supported: BUNDLE_FORMAT });
        }
        let mut bundle = Bundle::default();
        let mut announced = None;
        let mut found = 0;
        for (place, line) in lines.enumerate() {
            // Lines count from 1, and the header was the first.
            let (line, number) = (line?, place as u64 + 2);
            if line.trim().is_empty() {
                continue;
            }
            if announced.is_some() {
                return Err(bad_line(number, &"it stands behind the end"));
            }
            // Events are most of a bundle. The first member tells them apart without parsing a line
            // twice.
            if line.starts_with(EVENT_BEGINS) {
                found += 1;
                bundle.take_event(&line, number)?;
                continue;
            }
            match serde_json::from_str(&line).map_err(|error| bad_line(number, &error))? {
                BundleLine::Session { ancestry, .. } => bundle.take_session(ancestry, number)?,
                BundleLine::Artifact { id, body } => {
                    let bytes = BASE64.decode(body).map_err(|error| bad_line(number, &error))?;
                    bundle.artifacts.push((id, bytes));
                }
                BundleLine::End { events } => announced = Some(events),
            }
        }
        match announced {
            Some(announced) if announced == found => Ok(bundle),
            // No end at all, or an end that counts another number of events.
            announced => Err(BundleError::Cut { found, announced: announced.unwrap_or(0) }),
        }
    }

    fn take_session(&mut self, ancestry: Ancestry, number: u64) -> Result<(), BundleError> {
        if !self.named.insert(ancestry.session_id.clone()) {
            let why = format!("session `{}` stands twice", ancestry.session_id);
            return Err(bad_line(number, &why));
        }
        self.sessions.push(IncomingSession { ancestry, events: Vec::new(), facts: HashSet::new() });
        Ok(())
    }

    fn take_event(&mut self, line: &str, number: u64) -> Result<(), BundleError> {
        let event = Event::decode(line).map_err(|error| bad_line(number, &error))?;
        let session = self.sessions.last_mut();
        // Events follow the line of their session, so they belong to the last one.
        let session = session.filter(|session| session.ancestry.session_id == event.session_id);
        let Some(session) = session else {
            let why = format!("it belongs to session `{}`, which is not open", event.session_id);
            return Err(bad_line(number, &why));
        };
        let last = session.events.last().map(|last| last.seq);
        // Checked: a hostile bundle may number an event with the largest number there is.
        if let Some(last) = last.filter(|last| last.checked_add(1) != Some(event.seq)) {
            let why = format!("event {} stands behind event {last}", event.seq);
            return Err(bad_line(number, &why));
        }
        if !session.facts.insert(event.id.tail()) {
            return Err(bad_line(number, &format!("event {} stands twice", event.id)));
        }
        session.events.push(event);
        Ok(())
    }

    /// What the events say about the artifacts they record.
    fn described(&self) -> HashMap<String, Artifact> {
        let events = self.sessions.iter().flat_map(|session| &session.events);
        events
            .filter_map(|event| event.readable::<ArtifactRecorded>())
            .map(|recorded| (recorded.artifact.id.clone(), recorded.artifact))
            .collect()
    }
}

fn bad_line(line: u64, why: &dyn std::fmt::Display) -> BundleError {
    BundleError::BadLine { line, why: why.to_string() }
}
