//! Which source tells of a session, for those who are asked about one again and again.
//!
//! Whoever speaks beside a source need not name it. All sources are looked through once, when
//! somebody asks first; from then on each is noted as it is read. So a call of a hook, or an
//! export, costs the same however long the history is.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

use crate::position::Position;
use crate::sign::Known;
use crate::sink::{Sink, SinkError};
use crate::thread::Parent;

/// What sources tell of which sessions, as far as somebody has asked.
#[derive(Default)]
pub struct Tellers {
    /// What all sources say of sessions, once somebody has asked.
    sessions: RefCell<Option<Sessions>>,
}

/// Sessions by their hashes: of many, their names would take long to read and much to hold.
#[derive(Default)]
struct Sessions {
    tellers: HashMap<u64, Teller>,
    /// By provider, those that another one says it comes from, and that nobody has told of yet, each
    /// with the name of the other.
    awaited: HashMap<String, HashMap<u64, String>>,
}

/// The newest source that tells of a session.
struct Teller {
    key: Box<str>,
    /// When something was added to it.
    grown: i64,
}

impl Tellers {
    /// The source that tells of a session, and how far it was read.
    pub(crate) fn find(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<Option<Known>, SinkError> {
        let hash = hash(provider, session);
        let key = self.ask(sink, |sessions| {
            sessions.tellers.get(&hash).map(|teller| teller.key.clone().into_string())
        })?;
        let Some(key) = key else { return Ok(None) };
        let position = sink.source(&key)?.and_then(|text| Some((Position::parse(&text)?, text)));
        let its = position.filter(|(position, _)| position.threads.contains_key(session));
        Ok(its.map(|(position, recorded)| (key, position, recorded)))
    }

    /// A source was read so far.
    pub(crate) fn put(&self, key: &str, position: &Position) {
        if let Some(sessions) = &mut *self.sessions.borrow_mut() {
            let threads = position.threads.iter();
            let threads = threads.map(|(session, thread)| (session, thread.parent.as_ref()));
            sessions.add(key, position.grown, threads);
        }
    }

    /// Whether a session of the provider comes from one that nobody has told of: whoever is read
    /// for the first time may have been repeated by it.
    pub(crate) fn awaits(&self, provider: &str, sink: &dyn Sink) -> Result<bool, SinkError> {
        let is_some = |awaited: &HashMap<u64, String>| !awaited.is_empty();
        self.ask(sink, |sessions| sessions.awaited.get(provider).is_some_and(is_some))
    }

    /// A session that says it comes from this one, which nobody has told of yet.
    pub(crate) fn heir(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<Option<String>, SinkError> {
        let hash = hash(provider, session);
        self.ask(sink, |sessions| sessions.awaited.get(provider)?.get(&hash).cloned())
    }

    fn ask<T>(&self, sink: &dyn Sink, ask: impl FnOnce(&Sessions) -> T) -> Result<T, SinkError> {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.is_none() {
            let mut all = Sessions::default();
            sink.sources(&mut |known| {
                let Threads { grown, threads } = Threads::parse(known.position);
                let threads = threads.iter().map(|(session, it)| (session, it.parent.as_ref()));
                all.add(known.key, grown, threads);
            })?;
            *sessions = Some(all);
        }
        Ok(ask(sessions.get_or_insert_default()))
    }
}

impl Sessions {
    fn add<'s>(
        &mut self,
        key: &str,
        grown: i64,
        threads: impl Iterator<Item = (&'s String, Option<&'s Parent>)>,
    ) {
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        for (session, parent) in threads {
            let hash = self::hash(provider, session);
            self.tell(hash, provider, key, grown);
            let parent = parent.filter(|parent| parent.is_unseen());
            let awaited = parent.map(|parent| self::hash(provider, &parent.session));
            if let Some(awaited) = awaited.filter(|awaited| !self.tellers.contains_key(awaited)) {
                let awaited_by = self.awaited.entry(provider.to_owned()).or_default();
                awaited_by.entry(awaited).or_insert_with(|| session.clone());
            }
        }
    }

    fn tell(&mut self, hash: u64, provider: &str, key: &str, grown: i64) {
        if let Some(awaited) = self.awaited.get_mut(provider) {
            awaited.remove(&hash);
        }
        match self.tellers.get_mut(&hash) {
            Some(teller) if *teller.key == *key || teller.grown > grown => {
                teller.grown = teller.grown.max(grown);
            }
            _ => drop(self.tellers.insert(hash, Teller { key: key.into(), grown })),
        }
    }
}

fn hash(provider: &str, session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (provider, session).hash(&mut hasher);
    hasher.finish()
}

/// What is read here of a position; the rest is skipped, which is most of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Threads {
    grown: i64,
    threads: BTreeMap<String, Descent>,
}

/// What is read here of a session in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Descent {
    parent: Option<Parent>,
}

impl Threads {
    /// What was recorded. Of what nobody can go on from, nothing is known.
    fn parse(recorded: &str) -> Threads {
        serde_json::from_str(recorded).unwrap_or_default()
    }
}
