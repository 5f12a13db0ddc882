//! The turns of sessions somebody looks at: held between two looks, and kept beside the log when
//! reading it took long. What is held or kept is continued, so that a look costs what is new.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::SessionId;
use journal::{Journal, ReadError, Selection, SessionInfo, View};
use projection::{Projection, Turn, Turns};

/// Sessions that are held, a few MB each if they are very long. With more, the one that was looked
/// at longest ago goes.
const HELD_MAX: usize = 16;

/// Events that are folded before the result is worth keeping.
const KEPT_FROM: u64 = 2_000;

#[derive(Default)]
pub struct HeldTurns {
    /// The one that was looked at last is the last.
    held: Mutex<VecDeque<(SessionId, Turns)>>,
}

impl HeldTurns {
    /// The turns of a session as of now.
    pub fn of(&self, journal: &Journal, info: &SessionInfo) -> Result<Vec<Turn>, ReadError> {
        // Nobody else waits while a long log is read.
        let held = self.take(&info.id);
        let known = match held {
            Some(turns) => turns,
            None => kept(journal, &info.id)?.unwrap_or_default(),
        };
        let turns = fold(journal, info, known)?;
        let all = turns.all().cloned().collect();
        self.put(info.id.clone(), turns);
        Ok(all)
    }

    fn take(&self, id: &SessionId) -> Option<Turns> {
        let mut held = self.held();
        let place = held.iter().position(|(known, _)| known == id)?;
        held.remove(place).map(|(_, turns)| turns)
    }

    fn put(&self, id: SessionId, turns: Turns) {
        let mut held = self.held();
        // Of two who looked at the same time, the later one is right.
        held.retain(|(known, _)| *known != id);
        if held.len() >= HELD_MAX {
            held.pop_front();
        }
        held.push_back((id, turns));
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<(SessionId, Turns)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kept(journal: &Journal, id: &SessionId) -> Result<Option<Turns>, ReadError> {
    let saved = journal.saved_view(id, Turns::NAME)?;
    Ok(saved.and_then(|(_, bytes)| Turns::load(&bytes)))
}

fn fold(journal: &Journal, info: &SessionInfo, known: Turns) -> Result<Turns, ReadError> {
    // Turns that are ahead belong to a log that was put back.
    let mut turns = if known.seq() <= info.tail_seq { known } else { Turns::default() };
    let from = turns.seq();
    if from < info.tail_seq {
        for event in journal.events(&info.id, Selection::after(from))? {
            turns.apply(&event?);
        }
    }
    if turns.seq() - from >= KEPT_FROM
        && let Some(bytes) = turns.save()
    {
        let view = View { session_id: &info.id, up_to_seq: turns.seq(), bytes: &bytes };
        journal.save_views(Turns::NAME, &[view])?;
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw, Time};
    use journal::Batch;
    use serde_json::json;

    use super::*;

    /// Records so many prompts, each with its answer.
    fn record(journal: &Journal, numbers: std::ops::Range<u64>) -> SessionInfo {
        let id = SessionId::new("made-up:s").unwrap();
        let mut batch = Batch::observed();
        for number in numbers {
            for (kind, text) in [(Kind::UserPrompt, "asked"), (Kind::AssistantMessage, "said")] {
                let at = Time::from_millis(1_800_000_000_000 + i64::try_from(number).unwrap());
                let key = format!("{number} {text}");
                let event_id = EventId::derived(at, "made up", "s", key.as_bytes());
                let data = Raw::from_value(&json!({"content": key})).unwrap();
                batch = batch.with(Draft::with_data(event_id, id.clone(), at, kind, data));
            }
        }
        journal.append(batch).unwrap();
        journal.stat(&id).unwrap()
    }

    #[test]
    fn turns_that_are_held_or_kept_are_continued() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let held = HeldTurns::default();
        let mut from = 0;
        for (to, is_kept) in [(3, None), (1_500, Some(3_000)), (1_501, Some(3_000))] {
            let info = record(&journal, from..to);
            from = to;
            let told: Result<_, ReadError> =
                Turns::of(journal.events(&info.id, Selection::all()).unwrap());
            let told = told.unwrap();
            assert_eq!(held.of(&journal, &info).unwrap(), told);
            assert_eq!(kept(&journal, &info.id).unwrap().map(|turns| turns.seq()), is_kept);
            // Whoever looks first after a start goes on from what was kept.
            assert_eq!(HeldTurns::default().of(&journal, &info).unwrap(), told);
        }
        assert_eq!(held.held().len(), 1);
    }
}
