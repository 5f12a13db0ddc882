//! Which source tells of a session, for those who are asked about one again and again.
//!
//! Whoever speaks beside a source need not name it. All sources are looked through once, when
//! somebody asks first; from then on each is noted as it is read. So a call of a hook, or an
//! export, costs the same however long the history is.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

use crate::checkpoint::{Checkpoint, RecordedCheckpoint};
use crate::limit::KINDRED_MAX;
use crate::sink::{Sink, SinkError};
use crate::thread_state::ParentLink;

/// What sources tell of which sessions, as far as somebody has asked.
#[derive(Default)]
pub struct SourceIndex {
    /// What all sources say of sessions, once somebody has asked.
    sessions: RefCell<Option<SessionIndex>>,
}

/// Sessions by their hashes: of many, their names would take long to read and much to hold.
#[derive(Default)]
struct SessionIndex {
    source_index: HashMap<u64, IndexedSource>,
    /// By provider, those that others say they come from and that nobody has told of yet.
    awaited: HashMap<String, HashSet<u64>>,
    /// By provider and session, those in which a part of it may be told: whom it comes from, and who
    /// comes from it and shows nothing of it.
    kindred: HashMap<String, HashMap<u64, Vec<String>>>,
}

/// The newest source that tells of a session.
struct IndexedSource {
    key: Box<str>,
    /// When something was added to it.
    grown: i64,
}

impl SourceIndex {
    /// The source that tells of a session, and how far it was read.
    pub(crate) fn find(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<Option<RecordedCheckpoint>, SinkError> {
        let hash = hash(provider, session);
        let key = self.ask(sink, |sessions| {
            sessions.source_index.get(&hash).map(|teller| teller.key.clone().into_string())
        })?;
        let Some(key) = key else { return Ok(None) };
        let checkpoint =
            sink.source(&key)?.and_then(|text| Some((Checkpoint::parse(&text)?, text)));
        let its = checkpoint.filter(|(checkpoint, _)| checkpoint.threads.contains_key(session));
        Ok(its.map(|(checkpoint, recorded)| (key, checkpoint, recorded)))
    }

    /// A source was read so far.
    pub(crate) fn put(&self, key: &str, checkpoint: &Checkpoint) {
        if let Some(sessions) = &mut *self.sessions.borrow_mut() {
            let threads = checkpoint.threads.iter();
            let threads = threads.map(|(session, thread)| (session, thread.parent.as_ref()));
            sessions.add(key, checkpoint.grown, threads);
        }
    }

    /// Whether others may have told of a session whose source is read for the first time: it has to
    /// do with them, or one of them comes from somebody that nobody has told of.
    pub(crate) fn may_have_told(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<bool, SinkError> {
        self.ask(sink, |sessions| {
            let awaited = sessions.awaited.get(provider);
            let kindred = sessions.kindred.get(provider);
            awaited.is_some_and(|awaited| !awaited.is_empty())
                || kindred.is_some_and(|it| it.contains_key(&hash(provider, session)))
        })
    }

    /// The sessions in which a part of these may be told, nearest first, and these themselves.
    pub(crate) fn kindred(
        &self,
        provider: &str,
        of: &[&str],
        sink: &dyn Sink,
    ) -> Result<Vec<String>, SinkError> {
        self.ask(sink, |sessions| sessions.kindred(provider, of))
    }

    fn ask<T>(
        &self,
        sink: &dyn Sink,
        ask: impl FnOnce(&SessionIndex) -> T,
    ) -> Result<T, SinkError> {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.is_none() {
            let mut all = SessionIndex::default();
            sink.sources(&mut |known| {
                let CheckpointThreads { grown, threads } =
                    CheckpointThreads::parse(known.checkpoint);
                let threads = threads.iter().map(|(session, it)| (session, it.parent.as_ref()));
                all.add(known.key, grown, threads);
            })?;
            *sessions = Some(all);
        }
        Ok(ask(sessions.get_or_insert_default()))
    }
}

impl SessionIndex {
    fn add<'s>(
        &mut self,
        key: &str,
        grown: i64,
        threads: impl Iterator<Item = (&'s String, Option<&'s ParentLink>)>,
    ) {
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        for (session, parent) in threads {
            let hash = self::hash(provider, session);
            self.tell(hash, provider, key, grown);
            if let Some(parent) = parent.filter(|parent| parent.is_repeated()) {
                self.join(provider, session, parent);
            }
        }
    }

    fn kindred(&self, provider: &str, of: &[&str]) -> Vec<String> {
        let mut found: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
        let Some(kindred) = self.kindred.get(provider) else { return found };
        let mut at = 0;
        while at < found.len() && found.len() < KINDRED_MAX {
            let next = kindred.get(&hash(provider, &found[at])).into_iter().flatten();
            let next = next.filter(|name| !found.contains(name));
            let next: Vec<_> = next.take(KINDRED_MAX - found.len()).cloned().collect();
            found.extend(next);
            at += 1;
        }
        found
    }

    /// A session begins with what another one said.
    fn join(&mut self, provider: &str, session: &String, parent: &ParentLink) {
        let kindred = self.kindred.entry(provider.to_owned()).or_default();
        let mut add = |one: &str, other: &String| {
            let others = kindred.entry(hash(provider, one)).or_default();
            if !others.contains(other) {
                others.push(other.clone());
            }
        };
        add(session, &parent.session);
        if parent.seq > 0 {
            return;
        }
        // What it shows nothing of it may have told itself.
        add(&parent.session, session);
        let parent = hash(provider, &parent.session);
        if !self.source_index.contains_key(&parent) {
            self.awaited.entry(provider.to_owned()).or_default().insert(parent);
        }
    }

    fn tell(&mut self, hash: u64, provider: &str, key: &str, grown: i64) {
        if let Some(awaited) = self.awaited.get_mut(provider) {
            awaited.remove(&hash);
        }
        match self.source_index.get_mut(&hash) {
            Some(teller) if *teller.key == *key || teller.grown > grown => {
                teller.grown = teller.grown.max(grown);
            }
            _ => drop(self.source_index.insert(hash, IndexedSource { key: key.into(), grown })),
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
struct CheckpointThreads {
    grown: i64,
    threads: BTreeMap<String, ThreadParent>,
}

/// What is read here of a session in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ThreadParent {
    parent: Option<ParentLink>,
}

impl CheckpointThreads {
    /// What was recorded. Of what nobody can go on from, nothing is known.
    fn parse(recorded: &str) -> CheckpointThreads {
        serde_json::from_str(recorded).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_large_family_some_are_asked() {
        let mut sessions = SessionIndex::default();
        for fork in 0..2 * KINDRED_MAX {
            sessions.join("parrot", &fork.to_string(), &ParentLink::unseen("parent"));
        }
        assert_eq!(sessions.kindred("parrot", &["parent"]).len(), KINDRED_MAX);
    }
}
