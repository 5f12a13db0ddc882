//! The facts of sessions, folded from their events and kept beside the log.
//!
//! What is kept may be behind or gone: the rest is read from the log. So nobody has to keep it
//! in time, and nobody can keep it wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Draft, SessionId};
use journal::{Journal, ReadError, Selection, SessionFilter, SessionInfo, View};
use projection::{Facts, Projection, UnknownCount};

/// Sessions whose facts are saved in one go.
const SAVED_AT_ONCE: usize = 256;

/// All facts that were kept, to be brought up to date where they are needed.
pub struct KeptFacts(HashMap<SessionId, Facts>);

impl KeptFacts {
    pub fn load(journal: &Journal) -> Result<KeptFacts, ReadError> {
        let kept = journal.saved_views(Facts::NAME)?.into_iter();
        let facts = kept.filter_map(|(id, _, bytes)| Some((id, Facts::load(&bytes)?)));
        Ok(KeptFacts(facts.collect()))
    }

    /// The facts of a session as of now.
    pub fn take(&mut self, journal: &Journal, session: &SessionInfo) -> Result<Facts, ReadError> {
        fold(journal, session, self.0.remove(&session.id))
    }
}

/// Sessions whose facts are held for those who ask, some 4 KiB each. With more, any other makes room
/// for the one that is asked for, and is loaded when somebody asks for it again: what is asked for
/// often is soon back.
const HELD_MAX: usize = 2_000;

/// Facts that somebody asked for, held and continued: a question about all sessions costs what is
/// new in them.
#[derive(Default)]
pub struct HeldFacts(Mutex<HashMap<SessionId, Arc<Facts>>>);

impl HeldFacts {
    /// The facts of a session as of now.
    pub fn of(&self, journal: &Journal, session: &SessionInfo) -> Result<Arc<Facts>, ReadError> {
        let held = self.held().get(&session.id).cloned();
        if let Some(facts) = held.as_ref().filter(|facts| facts.seq() == session.tail_seq) {
            return Ok(Arc::clone(facts));
        }
        // Nobody else waits while a log is read.
        let known = match held {
            Some(facts) => Some(Arc::unwrap_or_clone(facts)),
            None => kept(journal, &session.id)?,
        };
        let facts = Arc::new(fold(journal, session, known)?);
        let mut held = self.held();
        if held.len() >= HELD_MAX && !held.contains_key(&session.id) {
            let other = held.keys().next().cloned();
            other.map(|other| held.remove(&other));
        }
        held.insert(session.id.clone(), Arc::clone(&facts));
        Ok(facts)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Facts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sessions whose facts are held in memory while they are read. With more they are all kept, and
/// those that go on are read again.
const FRESH_MAX: usize = 512;

/// Facts that are folded as events are recorded, so that the log need not be read for them.
#[derive(Default)]
pub struct FreshFacts(HashMap<SessionId, Facts>);

impl FreshFacts {
    /// Takes an event that was just recorded. Facts it does not follow upon stay as they are, and
    /// are read from the log when they are kept.
    pub fn apply(&mut self, journal: &Journal, seq: u64, event: &Draft) {
        let id = &event.session_id;
        if !self.0.contains_key(id) {
            // What cannot be read now is no reason to stop recording.
            let kept = if seq > 1 { kept(journal, id).ok().flatten() } else { None };
            self.0.insert(id.clone(), kept.unwrap_or_default());
        }
        let facts = self.0.get_mut(id).expect("it was just put there");
        if facts.seq() + 1 == seq {
            facts.apply_at(seq, event);
        }
    }

    /// Keeps what there is if it is much.
    pub fn relieve(&mut self, journal: &Journal) -> Result<(), ReadError> {
        if self.0.len() > FRESH_MAX {
            let sessions: Vec<SessionId> = self.0.keys().cloned().collect();
            self.keep(journal, &sessions)?;
        }
        Ok(())
    }

    /// The facts of these sessions as far as they were folded; those of all others are forgotten.
    pub fn of(&mut self, sessions: &BTreeSet<SessionId>) -> Vec<(SessionId, Option<Facts>)> {
        self.0.retain(|id, _| sessions.contains(id));
        sessions.iter().map(|id| (id.clone(), self.0.get(id).cloned())).collect()
    }

    /// Brings the facts of sessions up to date, keeps them and forgets them.
    pub fn keep<'a>(
        &mut self,
        journal: &Journal,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<(), ReadError> {
        keep_facts(journal, sessions.into_iter().map(|id| (id.clone(), self.0.remove(id))))
    }
}

/// Brings the facts of sessions up to date and keeps them.
pub fn keep_facts(
    journal: &Journal,
    sessions: impl IntoIterator<Item = (SessionId, Option<Facts>)>,
) -> Result<(), ReadError> {
    let mut folded = Vec::new();
    for (id, fresh) in sessions {
        let session = match journal.stat(&id) {
            // Deleted meanwhile, or never more than a sighting.
            Err(ReadError::SessionNotFound(_)) => continue,
            session => session?,
        };
        let known = match fresh {
            Some(facts) => Some(facts),
            None => kept(journal, &id)?,
        };
        let facts = fold(journal, &session, known)?;
        folded.extend(facts.save().map(|saved| (id, facts.seq(), saved)));
        if folded.len() == SAVED_AT_ONCE {
            save(journal, &mut folded)?;
        }
    }
    save(journal, &mut folded)
}

/// The facts of one session as of now.
pub fn facts_of(journal: &Journal, session: &SessionInfo) -> Result<Facts, ReadError> {
    fold(journal, session, kept(journal, &session.id)?)
}

/// Records that nobody understands: how many, by provider, the agent's version and what it calls
/// them.
pub fn unknown_records(journal: &Journal) -> Result<BTreeMap<UnknownKind, u64>, ReadError> {
    let mut kept = KeptFacts::load(journal)?;
    let mut unknown = BTreeMap::new();
    let mut after = None;
    loop {
        let page = journal.sessions(&SessionFilter::default(), after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = kept.take(journal, session)?;
            for UnknownCount { agent_version, record_type, count } in facts.unknown() {
                // What has no type was torn, which says nothing of the format.
                let Some(kind) = record_type.clone() else { continue };
                let key = (session.provider.clone(), agent_version.clone(), kind);
                *unknown.entry(key).or_default() += count;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(unknown);
        }
    }
}

/// Provider, version, and what the agent calls the record.
pub type UnknownKind = (String, Option<String>, String);

/// Sessions read at a time.
const PAGE: usize = 500;

fn save(journal: &Journal, folded: &mut Vec<(SessionId, u64, Vec<u8>)>) -> Result<(), ReadError> {
    // Nobody waits for the right to write nothing.
    if folded.is_empty() {
        return Ok(());
    }
    let views: Vec<View<'_>> = folded
        .iter()
        .map(|(session_id, up_to_seq, saved)| View {
            session_id,
            up_to_seq: *up_to_seq,
            bytes: saved,
        })
        .collect();
    journal.save_views(Facts::NAME, &views)?;
    folded.clear();
    Ok(())
}

/// The facts of one session as of now, continued from what is known of them.
pub fn fold(
    journal: &Journal,
    session: &SessionInfo,
    kept: Option<Facts>,
) -> Result<Facts, ReadError> {
    // Facts that are ahead belong to a log that was put back.
    let mut facts = kept.filter(|facts| facts.seq() <= session.tail_seq).unwrap_or_default();
    if facts.seq() < session.tail_seq {
        for event in journal.events(&session.id, Selection::after(facts.seq()))? {
            facts.apply(&event?);
        }
    }
    Ok(facts)
}

fn kept(journal: &Journal, id: &SessionId) -> Result<Option<Facts>, ReadError> {
    Ok(journal.saved_view(id, Facts::NAME)?.and_then(|(_, bytes)| Facts::load(&bytes)))
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw, Time};
    use journal::Batch;
    use serde_json::json;

    use super::*;

    fn record(journal: &Journal, session: &str, numbers: std::ops::Range<i64>) -> SessionInfo {
        let id = SessionId::new(format!("made-up:{session}")).unwrap();
        let mut batch = Batch::observed();
        for number in numbers {
            let at = Time::from_millis(1_800_000_000_000 + number);
            let event_id = EventId::derived(at, "made up", session, &number.to_be_bytes());
            let data = Raw::from_value(&json!({"content": format!("prompt {number}")})).unwrap();
            batch = batch.with(Draft::with_data(event_id, id.clone(), at, Kind::UserPrompt, data));
        }
        journal.append(batch).unwrap();
        journal.stat(&id).unwrap()
    }

    #[test]
    fn facts_that_are_held_are_what_the_log_says() {
        let journal = Journal::in_memory();
        let held = HeldFacts::default();
        for (session, numbers) in [("a", 0..3), ("b", 0..1), ("a", 3..5), ("a", 5..6)] {
            let info = record(&journal, session, numbers);
            let facts = held.of(&journal, &info).unwrap();
            assert_eq!(*facts, facts_of(&journal, &info).unwrap());
            assert!(
                Arc::ptr_eq(&facts, &held.of(&journal, &info).unwrap()),
                "it is not read again"
            );
        }
    }

    #[test]
    fn facts_of_a_new_session_are_held_however_many_there_were() {
        let journal = Journal::in_memory();
        let held = HeldFacts::default();
        let first = record(&journal, "first", 0..1);
        let facts = held.of(&journal, &first).unwrap();
        let names = (0..HELD_MAX).map(|number| SessionId::new(format!("made-up:{number}")));
        held.held().extend(names.map(|name| (name.unwrap(), Arc::clone(&facts))));
        let last = record(&journal, "last", 0..1);
        let facts = held.of(&journal, &last).unwrap();
        assert!(Arc::ptr_eq(&facts, &held.of(&journal, &last).unwrap()));
        assert!(held.held().len() <= HELD_MAX + 1, "nor are there more and more");
    }
}
