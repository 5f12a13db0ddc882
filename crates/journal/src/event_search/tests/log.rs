//! A log that is a list.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use event::payload::{AssistantMessage, Content, Payload, UserPrompt};
use event::{Draft, EventId, Kind, Raw, SessionId, Time};
use tempfile::TempDir;

use crate::derived::Derived;
use crate::event_search::{Corpus, Query, SearchPage, index_events, search};
use crate::store::Direction;
use crate::{ReadError, Recorded, View};

/// Events in order, what is known of their sessions, and the file derived from them.
pub(super) struct Log {
    events: Vec<Recorded>,
    tail: u64,
    deleted: Vec<SessionId>,
    projects: HashMap<SessionId, String>,
    /// Parent and the last `seq` of it that is shown.
    parents: HashMap<SessionId, (SessionId, u64)>,
    pub(super) derived: Derived,
    pub(super) folder: TempDir,
}

/// Events on a page: few, so that tests turn pages.
const PAGE_LEN: usize = 16;

pub(super) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

impl Log {
    pub(super) fn new() -> Log {
        let folder = tempfile::tempdir().unwrap();
        Log {
            events: Vec::new(),
            tail: 0,
            deleted: Vec::new(),
            projects: HashMap::new(),
            parents: HashMap::new(),
            derived: Derived::open(&folder.path().join("derived.db")).unwrap(),
            folder,
        }
    }

    /// A log of prompts in one session.
    pub(super) fn with_prompts(prompts: &[&str]) -> Log {
        let mut log = Log::new();
        for prompt in prompts {
            log.prompt("s", prompt);
        }
        log
    }

    pub(super) fn prompt(&mut self, session_id: &str, text: &str) -> u64 {
        self.add(session_id, &UserPrompt::text(text))
    }

    pub(super) fn answer(&mut self, session_id: &str, text: &str) -> u64 {
        let content = Content::text(text);
        self.add(session_id, &AssistantMessage { content, ..AssistantMessage::default() })
    }

    pub(super) fn add<P: Payload>(&mut self, session_id: &str, payload: &P) -> u64 {
        self.add_draft(session_id, P::KIND, Raw::from_value(payload).unwrap(), |_| {})
    }

    /// Adds an event after `change` was applied to it; returns its position.
    pub(super) fn add_draft(
        &mut self,
        session_id: &str,
        kind: Kind,
        data: Raw,
        change: impl FnOnce(&mut Draft),
    ) -> u64 {
        // Positions have gaps, as in a journal where other things take numbers too.
        self.tail += 2;
        let position = self.tail;
        let session_id = session(session_id);
        let at = Time::from_millis(position as i64);
        let mut tail = [0; 10];
        tail[2..].copy_from_slice(&position.to_be_bytes());
        let mut draft = Draft::with_data(EventId::new(at, tail), session_id, at, kind, data);
        change(&mut draft);
        let inherited = self.parents.get(&draft.session_id).map_or(0, |(_, up_to)| *up_to);
        let own = self.events.iter().filter(|other| other.event.session_id == draft.session_id);
        let seq = inherited + own.count() as u64 + 1;
        self.events.push(Recorded { position, event: draft.with_seq(seq) });
        position
    }

    pub(super) fn event(&self, position: u64) -> &event::Event {
        &self.events.iter().find(|recorded| recorded.position == position).unwrap().event
    }

    pub(super) fn set_project(&mut self, session_id: &str, project: &str) {
        self.projects.insert(session(session_id), project.to_owned());
    }

    /// Makes a session begin with the events of another, before it has any of its own.
    pub(super) fn fork(&mut self, child: &str, parent: &str, up_to_seq: u64) {
        self.parents.insert(session(child), (session(parent), up_to_seq));
    }

    pub(super) fn delete(&mut self, session_id: &str) {
        let session_id = session(session_id);
        self.events.retain(|recorded| recorded.event.session_id != session_id);
        self.deleted.push(session_id);
    }

    /// Goes back to the first events, as from a copy that was made then.
    pub(super) fn put_back(&mut self, tail: u64) {
        self.events.retain(|recorded| recorded.position <= tail);
        self.tail = tail;
    }

    /// Saves a view of a session that was folded a moment ago.
    pub(super) fn save(&self, session_id: &str, bytes: &[u8]) {
        let session_id = &session(session_id);
        let exists = |id: &SessionId| Ok(!self.deleted.contains(id));
        let view = View { session_id, up_to_seq: 1, bytes };
        self.derived.put_views("effective", &[view], &exists).unwrap();
    }

    /// Indexes everything there is.
    pub(super) fn index_all(&self) {
        while !index_events(self, &self.derived).unwrap().is_current {}
    }

    /// Searches with the index as far as it has got.
    pub(super) fn search(&self, query: &Query) -> SearchPage {
        search(self, Some(&self.derived), query).unwrap()
    }

    /// Searches by reading through everything.
    pub(super) fn scan(&self, query: &Query) -> SearchPage {
        search(self, None, query).unwrap()
    }
}

impl Corpus for Log {
    fn tail(&self) -> Result<u64, ReadError> {
        Ok(self.tail)
    }

    fn deletions(&self) -> Result<u64, ReadError> {
        Ok(self.deleted.len() as u64)
    }

    fn deleted(&self) -> Result<Vec<SessionId>, ReadError> {
        Ok(self.deleted.clone())
    }

    fn page(
        &self,
        range: RangeInclusive<u64>,
        direction: Direction,
    ) -> Result<Vec<Recorded>, ReadError> {
        let from = self.events.partition_point(|recorded| recorded.position < *range.start());
        let to = self.events.partition_point(|recorded| recorded.position <= *range.end());
        let events = self.events[from..to].iter();
        Ok(match direction {
            Direction::OldestFirst => events.take(PAGE_LEN).cloned().collect(),
            Direction::NewestFirst => events.rev().take(PAGE_LEN).cloned().collect(),
        })
    }

    fn position(&self, session_id: &SessionId, id: &EventId) -> Result<Option<u64>, ReadError> {
        let is_it = |recorded: &&Recorded| {
            recorded.event.id == *id && recorded.event.session_id == *session_id
        };
        Ok(self.events.iter().find(is_it).map(|recorded| recorded.position))
    }

    fn project(&self, session_id: &SessionId) -> Result<Option<String>, ReadError> {
        Ok(self.projects.get(session_id).cloned())
    }

    fn lineage(&self, session_id: &SessionId) -> Result<Vec<(SessionId, u64)>, ReadError> {
        let mut lineage = vec![(session_id.clone(), u64::MAX)];
        while let Some((parent, up_to)) = self.parents.get(&lineage[lineage.len() - 1].0) {
            let up_to = lineage[lineage.len() - 1].1.min(*up_to);
            lineage.push((parent.clone(), up_to));
        }
        Ok(lineage)
    }
}
