//! What the chain still owes: an epoch that could not be taken, a handler that failed, a segment
//! that somebody else announced. Each is tried a few times, ever more rarely, and holds up nobody.
//!
//! Pure; kept over restarts by whoever holds it.

use event::{SessionId, Time};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::segment::SegmentKey;

/// Time until the second, third … try. After the last the chain goes on without it.
const DELAYS_MILLIS: [i64; 3] = [10_000, 60_000, 600_000];

/// Things that may be owed at a time. With more, the chain waits: each is done or given up soon.
const OWED_MAX: usize = 1_000;

/// Everything that is owed, in the order it came.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Agenda {
    owed: Vec<Owed>,
}

/// One of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Owed {
    pub(super) what: What,
    /// Tries that have failed.
    tries: u32,
    /// When to try again.
    at: Time,
    /// What has been done of it: a handler and its file.
    done: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// An epoch of ours, by the event that closed it.
    Epoch { session_id: SessionId, seq: u64, closed_at: Time },
    /// Files that somebody else put into a segment, and the number that this time goes by.
    Announced {
        key: SegmentKey,
        files: Vec<String>,
        meta: Value,
        // An earlier version wrote `null` where nobody had said when.
        #[serde(default, deserialize_with = "number_or_none")]
        announced: i64,
    },
}

impl Owed {
    pub(super) fn new(what: What, now: Time) -> Owed {
        Owed { what, tries: 0, at: now, done: Vec::new() }
    }

    /// Whether it is the epoch that the chain is at: it is in the journal, and taken from there.
    fn is_at_hand(&self) -> bool {
        self.is_first() && matches!(self.what, What::Epoch { .. })
    }

    /// Whether nothing was tried yet.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 0
    }

    /// Whether there is no further try.
    pub(super) fn is_last(&self) -> bool {
        self.tries as usize >= DELAYS_MILLIS.len()
    }

    pub(super) fn is_done(&self, handler: &str, file: &str) -> bool {
        self.done.iter().any(|(done, of)| done == handler && of == file)
    }

    pub(super) fn did(&mut self, handler: &str, file: &str) {
        self.done.push((handler.to_owned(), file.to_owned()));
    }
}

impl Agenda {
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.owed.len() >= OWED_MAX
    }

    /// Something new to be done now. What is owed already is owed once.
    pub(super) fn add(&mut self, what: What, now: Time) {
        if !self.owed.iter().any(|owed| owed.what == what) {
            self.owed.push(Owed::new(what, now));
        }
    }

    /// Whether an announcement about a segment goes by a number.
    pub(super) fn has_announced(&self, segment: &SegmentKey, number: i64) -> bool {
        self.owed.iter().any(|owed| match &owed.what {
            What::Announced { key, announced, .. } => key == segment && *announced == number,
            What::Epoch { .. } => false,
        })
    }

    /// One as far as it was done, or from its beginning.
    pub(super) fn taken_up(&self, what: What, now: Time) -> Owed {
        let known = self.owed.iter().find(|owed| owed.what == what);
        known.cloned().unwrap_or_else(|| Owed::new(what, now))
    }

    /// Keeps what has been done of one.
    pub(super) fn keep(&mut self, owed: &Owed) {
        match self.owed.iter_mut().find(|known| known.what == owed.what) {
            Some(known) => *known = owed.clone(),
            None => self.owed.push(owed.clone()),
        }
    }

    /// The first that is to be tried now.
    pub(super) fn due(&self, now: Time) -> Option<Owed> {
        let is_it = |owed: &&Owed| is_due(owed.at, now) && !owed.is_at_hand();
        self.owed.iter().find(is_it).cloned()
    }

    /// An epoch that was begun and is still to be taken from the journal.
    pub(super) fn at_hand(&self) -> Option<Owed> {
        self.owed.iter().find(|owed| owed.is_at_hand()).cloned()
    }

    /// A try has failed: there will be another.
    pub(super) fn try_later(&mut self, mut owed: Owed, now: Time) {
        let delay = DELAYS_MILLIS[(owed.tries as usize).min(DELAYS_MILLIS.len() - 1)];
        owed.at = Time::from_nanos(now.nanos() + i128::from(delay) * 1_000_000);
        owed.tries += 1;
        self.remove(&owed.what);
        self.owed.push(owed);
    }

    pub(super) fn remove(&mut self, what: &What) {
        self.owed.retain(|owed| owed.what != *what);
    }
}

/// A number; 0 for none.
fn number_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(0))
}

/// Nothing is put off for longer than the longest delay, whatever was done to the clock.
fn is_due(at: Time, now: Time) -> bool {
    let longest = DELAYS_MILLIS.iter().max().copied().unwrap_or_default();
    at <= now || at.nanos() - now.nanos() > i128::from(longest) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(announced: i64) -> What {
        let key = SegmentKey::parse("20261116", "phone", "080001_5").expect("a key");
        What::Announced { key, files: Vec::new(), meta: Value::Null, announced }
    }

    #[test]
    fn the_epoch_that_the_chain_is_at_is_due_only_after_it_failed() {
        let session_id = SessionId::new("claude:a").expect("a name");
        let now = Time::from_millis(0);
        let what = What::Epoch { session_id, seq: 1, closed_at: now };
        let mut agenda = Agenda::default();
        let owed = agenda.taken_up(what, now);
        agenda.keep(&owed);
        assert_eq!((agenda.due(now), agenda.at_hand()), (None, Some(owed.clone())));
        agenda.try_later(owed, now);
        assert_eq!(agenda.at_hand(), None);
        assert!(agenda.due(Time::from_millis(10_000)).is_some());
    }

    #[test]
    fn a_failure_is_tried_ever_more_rarely_and_then_no_more() {
        let mut agenda = Agenda::default();
        agenda.add(what(1), Time::from_millis(0));
        agenda.add(what(1), Time::from_millis(0));
        let mut tried = Vec::new();
        let mut seconds = 0;
        while !agenda.is_empty() {
            let now = Time::from_millis(seconds * 1_000);
            if let Some(owed) = agenda.due(now) {
                tried.push(seconds);
                match owed.is_last() {
                    true => agenda.remove(&owed.what),
                    false => agenda.try_later(owed, now),
                }
            }
            seconds += 1;
        }
        assert_eq!(tried, [0, 10, 70, 670]);
    }

    #[test]
    fn what_was_owed_without_a_number_goes_by_none() {
        let mut agenda = Agenda::default();
        agenda.add(what(0), Time::from_millis(0));
        agenda.add(what(7), Time::from_millis(0));
        let now = serde_json::to_string(&agenda).expect("it can be saved");
        for earlier in [r#","announced":null"#, ""] {
            let saved = now.replace(r#","announced":0"#, earlier);
            assert_ne!(saved, now);
            assert_eq!(serde_json::from_str::<Agenda>(&saved).expect(&saved), agenda);
        }
    }

    #[test]
    fn one_that_waits_lets_others_go_first_and_a_clock_put_back_holds_up_nobody() {
        let mut agenda = Agenda::default();
        let late = Time::from_millis(1_000_000_000);
        agenda.add(what(1), late);
        agenda.try_later(agenda.due(late).expect("it is due"), late);
        agenda.add(what(2), late);
        assert_eq!(agenda.due(late).expect("it is due").what, what(2));
        assert_eq!(agenda.due(Time::from_millis(0)).expect("it is due").what, what(1));
    }
}
