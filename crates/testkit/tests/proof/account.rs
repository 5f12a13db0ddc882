//! What must be in a journal that workers wrote to, looked up after each of them was killed.
//!
//! A look costs what is new since the last one; `audit` reads everything once more.

use std::collections::HashMap;

use event::payload::SessionStarted;
use event::{SessionId, Time};
use journal::{Journal, Recorded, Selection};
use testkit::numbered;

/// What is known to be in the journal.
#[derive(Default)]
pub(crate) struct Account {
    /// The newest position.
    position: u64,
    /// The newest numbered event; all before it are there.
    number: u64,
    /// The last `seq` of every session.
    tails: HashMap<SessionId, u64>,
    /// Events of their own that forks have.
    forks: HashMap<SessionId, u64>,
}

/// What a fork has of its own: that it began, and a prompt, in one batch.
const FORK_EVENTS: u64 = 2;

impl Account {
    /// Reads what is new, and compares it with what a worker said before it ended.
    #[track_caller]
    pub(crate) fn look(&mut self, journal: &Journal, said: &[String]) {
        loop {
            let page = journal.recorded_from(self.position + 1).unwrap();
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|recorded| self.take(recorded));
        }
        assert_eq!(journal.tail().unwrap(), self.position);
        let source = journal.source_position(numbered::SOURCE).unwrap();
        assert_eq!(numbered::read_up_to(source), self.number, "the source is where its events are");
        for (fork, events) in &self.forks {
            assert_eq!(*events, FORK_EVENTS, "{fork} is half a fork");
        }
        said.iter().for_each(|line| self.check_word(journal, line));
    }

    #[track_caller]
    fn take(&mut self, recorded: &Recorded) {
        let Recorded { position, event } = recorded;
        self.position += 1;
        assert_eq!(*position, self.position, "positions rise by one");
        let is_numbered = event.session_id.as_str().starts_with("numbers-");
        if is_numbered {
            self.number += 1;
            assert_eq!(numbered::number_of(event.id), self.number, "every number once, in order");
            assert_eq!(event.seq, numbered::seq_of(self.number));
            assert!(event.has_same_content(&numbered::draft_at(self.number)), "{}", self.number);
        } else {
            *self.forks.entry(event.session_id.clone()).or_default() += 1;
        }
        let parent = event.readable::<SessionStarted>().and_then(|started| started.parent);
        let tail = self.tails.entry(event.session_id.clone()).or_default();
        *tail = parent.map_or(*tail, |parent| parent.seq) + 1;
        assert_eq!(event.seq, *tail, "{} is numbered without gaps", event.session_id);
    }

    /// What was acknowledged is there.
    #[track_caller]
    fn check_word(&self, journal: &Journal, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ack", number] => assert!(number.parse::<u64>().unwrap() <= self.number, "{line}"),
            ["fork", id, point] => {
                let stat = journal.stat(&SessionId::new(id).unwrap()).unwrap();
                let point: u64 = point.parse().unwrap();
                assert_eq!(stat.ancestry.fork_point_seq, point);
                assert_eq!((stat.tail_seq, stat.events), (point + FORK_EVENTS, FORK_EVENTS));
            }
            _ => {}
        }
    }

    /// Reads every session from its first event, strictly, and asks the doctor.
    #[track_caller]
    pub(crate) fn audit(&self, journal: &Journal) {
        for (id, tail) in &self.tails {
            let mut seq = 0;
            for event in journal.events(id, Selection::all().strict()).unwrap() {
                seq += 1;
                assert_eq!(event.unwrap().seq, seq, "{id} has no gap");
            }
            assert_eq!(seq, *tail, "{id} has as many events as were looked at");
        }
        for check in journal.doctor(false, Time::from_millis(2_000_000_000_000)).unwrap() {
            assert!(check.ok, "{check:?}");
        }
    }

    /// Numbered events, forks and positions so far.
    pub(crate) fn counts(&self) -> String {
        let (numbers, forks) = (self.number, self.forks.len());
        format!("{numbers} numbered events, {forks} forks, {} positions", self.position)
    }
}
