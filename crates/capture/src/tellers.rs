//! Which source tells of a session, for those who are asked about one again and again.
//!
//! Whoever speaks beside a source need not name it. Finding it means looking through all sources
//! there are, so what was found is good for a while, and whom nobody ever told of is not looked
//! for: a call of a hook, or an export, costs the same however long the history is.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use event::Time;
use event::payload::SessionMode;
use serde::Deserialize;

use crate::error::CaptureError;
use crate::position::Position;
use crate::sign::{About, Known};
use crate::sink::{KnownSource, Sink, SinkError};
use crate::thread::{Parent, Thread};

/// How long a source is taken to be the newest that tells of a session. One that goes on in
/// another file is found by it at most this much later.
const GOOD_NANOS: i128 = 10 * 1_000_000_000;

/// Sessions that are remembered. With more all are forgotten, and looked for again.
const SESSIONS_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Tellers {
    /// By provider and session: the key of the source, and when it was found.
    found: RefCell<HashMap<(String, String), (String, Time)>>,
    /// What all sources say of sessions, once somebody has asked.
    sessions: RefCell<Option<Sessions>>,
}

/// Sessions by their hashes: one that is not here was never told of.
#[derive(Default)]
struct Sessions {
    told_of: HashSet<u64>,
    /// Those that another one says it repeats, though nobody had told of them by then.
    awaited: HashSet<u64>,
}

impl Tellers {
    /// The source that tells of a session, and how far it was read.
    pub(crate) fn find(
        &self,
        about: &About<'_>,
        sink: &dyn Sink,
        now: Time,
    ) -> Result<Option<Known>, CaptureError> {
        let session = (about.provider.to_owned(), about.session.to_owned());
        let remembered = self.found.borrow().get(&session).cloned();
        if let Some((key, at)) = remembered
            && now.nanos() - at.nanos() < GOOD_NANOS
            && let Some(known) = read(&key, about, sink)?
        {
            return Ok(Some(known));
        }
        if !self.may_know(about, sink)? {
            return Ok(None);
        }
        let found = search(about, sink)?;
        if let Some((key, ..)) = &found {
            let mut tellers = self.found.borrow_mut();
            if tellers.len() >= SESSIONS_MAX {
                tellers.clear();
            }
            tellers.insert(session, (key.clone(), now));
        }
        Ok(found)
    }

    /// A source tells of these sessions.
    pub(crate) fn told_of(&self, provider: &str, threads: &BTreeMap<String, Thread>) {
        if let Some(sessions) = &mut *self.sessions.borrow_mut() {
            let parents = threads.iter().map(|(session, thread)| (session, thread.parent.as_ref()));
            sessions.add(provider, parents);
        }
    }

    /// Whether a session that nobody knew yet was said to be repeated.
    pub(crate) fn awaits(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<bool, SinkError> {
        self.ask(sink, |sessions| sessions.awaited.contains(&hash(provider, session)))
    }

    /// Whether any source may have told of a session.
    fn may_know(&self, about: &About<'_>, sink: &dyn Sink) -> Result<bool, CaptureError> {
        let session = hash(about.provider, about.session);
        let may_know = self.ask(sink, |sessions| sessions.told_of.contains(&session));
        may_know.map_err(CaptureError::Positions)
    }

    fn ask(&self, sink: &dyn Sink, ask: impl FnOnce(&Sessions) -> bool) -> Result<bool, SinkError> {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.is_none() {
            let mut all = Sessions::default();
            sink.sources(&mut |known| {
                let provider = known.key.split_once(':').map_or("", |(provider, _)| provider);
                let parents = parents_in(known.position);
                all.add(
                    provider,
                    parents.iter().map(|(session, it)| (session, it.parent.as_ref())),
                );
            })?;
            *sessions = Some(all);
        }
        Ok(sessions.as_ref().is_none_or(ask))
    }
}

impl Sessions {
    fn add<'s>(
        &mut self,
        provider: &str,
        threads: impl Iterator<Item = (&'s String, Option<&'s Parent>)>,
    ) {
        for (session, parent) in threads {
            self.told_of.insert(hash(provider, session));
            let is_awaited = |parent: &&Parent| parent.mode == SessionMode::Fork && parent.seq == 0;
            let awaited = parent.filter(is_awaited);
            self.awaited.extend(awaited.map(|parent| hash(provider, &parent.session)));
        }
    }
}

fn hash(provider: &str, session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (provider, session).hash(&mut hasher);
    hasher.finish()
}

/// What is read here of a session in a position.
#[derive(Deserialize)]
struct Descent {
    #[serde(default)]
    parent: Option<Parent>,
}

/// The sessions a position is about; the rest of it is not read.
fn parents_in(position: &str) -> BTreeMap<String, Descent> {
    #[derive(Deserialize)]
    struct Threads {
        #[serde(default)]
        threads: BTreeMap<String, Descent>,
    }
    serde_json::from_str(position).map_or_else(|_| BTreeMap::new(), |Threads { threads }| threads)
}

/// How far a source was read, if it tells of the session.
fn read(key: &str, about: &About<'_>, sink: &dyn Sink) -> Result<Option<Known>, CaptureError> {
    let recorded = sink.source(key).map_err(CaptureError::Positions)?;
    let position = recorded.and_then(|text| Some((Position::parse(&text)?, text)));
    let its = position.filter(|(position, _)| position.threads.contains_key(about.session));
    Ok(its.map(|(position, recorded)| (key.to_owned(), position, recorded)))
}

/// The newest of all sources that tell of the session.
fn search(about: &About<'_>, sink: &dyn Sink) -> Result<Option<Known>, CaptureError> {
    let mut newest: Option<Known> = None;
    let show = &mut |known: KnownSource<'_>| {
        let is_of_agent =
            known.key.split_once(':').is_some_and(|(provider, _)| provider == about.provider);
        // Most are of other sessions, which is quicker to see than to parse.
        if !is_of_agent || !known.position.contains(about.session) {
            return;
        }
        let Some(position) = Position::parse(known.position) else { return };
        let is_newer = newest.as_ref().is_none_or(|(_, newest, _)| newest.grown < position.grown);
        if position.threads.contains_key(about.session) && is_newer {
            newest = Some((known.key.to_owned(), position, known.position.to_owned()));
        }
    };
    sink.sources(show).map_err(CaptureError::Positions)?;
    Ok(newest)
}
