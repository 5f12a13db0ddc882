//! Which source holds which session.
//!
//! A hook or an export names a session, not a source. The index loads all checkpoints once, with the
//! first question, and follows each source as it is read from then on. So a call of a hook costs the
//! same however long the history is.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

use crate::checkpoint::{Checkpoint, RecordedCheckpoint};
use crate::limit::KINDRED_MAX;
use crate::sink::{Sink, SinkError};
use crate::thread_state::ParentLink;

/// Finds the source of a session, and sessions that share history with it.
#[derive(Default)]
pub struct SourceIndex {
    /// Loaded with the first question.
    sessions: RefCell<Option<SessionIndex>>,
}

/// Sessions by their hashes: the names of many sessions would take much memory.
#[derive(Default)]
struct SessionIndex {
    source_index: HashMap<u64, IndexedSource>,
    /// By provider: sessions that others name as their parent and that no source has shown yet.
    awaited: HashMap<String, HashSet<u64>>,
    /// By provider and session: sessions in which a part of it may be recorded. These are its parent,
    /// and forks of it that do not say how much of it they show.
    kindred: HashMap<String, HashMap<u64, Vec<String>>>,
}

/// The newest source that holds a session.
struct IndexedSource {
    key: Box<str>,
    /// When it grew last, in nanoseconds.
    grown: i64,
}

impl SourceIndex {
    /// The source that holds a session, and its checkpoint.
    pub(crate) fn find_source(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<Option<RecordedCheckpoint>, SinkError> {
        let hash = hash(provider, session);
        let key = self.with_sessions(sink, |sessions| {
            sessions.source_index.get(&hash).map(|teller| teller.key.clone().into_string())
        })?;
        let Some(key) = key else { return Ok(None) };
        let checkpoint =
            sink.source(&key)?.and_then(|text| Some((Checkpoint::parse(&text)?, text)));
        // Two sessions may share a hash, so the checkpoint has to name the session.
        let its = checkpoint.filter(|(checkpoint, _)| checkpoint.threads.contains_key(session));
        Ok(its.map(|(checkpoint, recorded)| (key, checkpoint, recorded)))
    }

    /// Takes over the sessions and parents of a source that was read on.
    pub(crate) fn note_checkpoint(&self, key: &str, checkpoint: &Checkpoint) {
        // An index that is not loaded yet will find the checkpoint in the journal.
        if let Some(sessions) = &mut *self.sessions.borrow_mut() {
            let threads = checkpoint.threads.iter();
            let threads = threads.map(|(session, thread)| (session, thread.parent.as_ref()));
            sessions.add_threads(key, checkpoint.grown, threads);
        }
    }

    /// Whether a part of a session may be recorded in others though its source is read for the first
    /// time: it shares history with one of them, or one of them names a parent that is not known yet.
    pub(crate) fn is_related(
        &self,
        provider: &str,
        session: &str,
        sink: &dyn Sink,
    ) -> Result<bool, SinkError> {
        self.with_sessions(sink, |sessions| {
            let awaited = sessions.awaited.get(provider);
            let kindred = sessions.kindred.get(provider);
            awaited.is_some_and(|awaited| !awaited.is_empty())
                || kindred.is_some_and(|it| it.contains_key(&hash(provider, session)))
        })
    }

    /// These sessions, then those in which a part of them may be recorded, nearest first.
    pub(crate) fn related_sessions(
        &self,
        provider: &str,
        of: &[&str],
        sink: &dyn Sink,
    ) -> Result<Vec<String>, SinkError> {
        self.with_sessions(sink, |sessions| sessions.related_sessions(provider, of))
    }

    fn with_sessions<T>(
        &self,
        sink: &dyn Sink,
        ask: impl FnOnce(&SessionIndex) -> T,
    ) -> Result<T, SinkError> {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.is_none() {
            let mut all = SessionIndex::default();
            sink.show_sources(&mut |known| {
                let CheckpointThreads { grown, threads } =
                    CheckpointThreads::parse(known.checkpoint);
                let threads = threads.iter().map(|(session, it)| (session, it.parent.as_ref()));
                all.add_threads(known.key, grown, threads);
            })?;
            *sessions = Some(all);
        }
        Ok(ask(sessions.get_or_insert_default()))
    }
}

impl SessionIndex {
    fn add_threads<'s>(
        &mut self,
        key: &str,
        grown: i64,
        threads: impl Iterator<Item = (&'s String, Option<&'s ParentLink>)>,
    ) {
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        for (session, parent) in threads {
            let hash = self::hash(provider, session);
            self.note_source(hash, provider, key, grown);
            if let Some(parent) = parent.filter(|parent| parent.is_repeated()) {
                self.link_sessions(provider, session, parent);
            }
        }
    }

    fn related_sessions(&self, provider: &str, of: &[&str]) -> Vec<String> {
        let mut found: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
        let Some(kindred) = self.kindred.get(provider) else { return found };
        let mut at = 0;
        // Breadth first, so that the nearest relatives come first when the family is cut.
        while at < found.len() && found.len() < KINDRED_MAX {
            let next = kindred.get(&hash(provider, &found[at])).into_iter().flatten();
            let next = next.filter(|name| !found.contains(name));
            let next: Vec<_> = next.take(KINDRED_MAX - found.len()).cloned().collect();
            found.extend(next);
            at += 1;
        }
        found
    }

    /// Notes that a session begins with the history of its parent.
    fn link_sessions(&mut self, provider: &str, session: &String, parent: &ParentLink) {
        let kindred = self.kindred.entry(provider.to_owned()).or_default();
        let mut add = |one: &str, other: &String| {
            let others = kindred.entry(hash(provider, one)).or_default();
            if !others.contains(other) {
                others.push(other.clone());
            }
        };
        add(session, &parent.session);
        // The fork shows where it left its parent: what is common is recorded there alone.
        if parent.seq > 0 {
            return;
        }
        // A fork that shows nothing of its parent may have recorded the common part itself.
        add(&parent.session, session);
        let parent = hash(provider, &parent.session);
        if !self.source_index.contains_key(&parent) {
            self.awaited.entry(provider.to_owned()).or_default().insert(parent);
        }
    }

    fn note_source(&mut self, hash: u64, provider: &str, key: &str, grown: i64) {
        if let Some(awaited) = self.awaited.get_mut(provider) {
            awaited.remove(&hash);
        }
        match self.source_index.get_mut(&hash) {
            // Of several sources of a session the one that grew last wins.
            Some(teller) if *teller.key == *key || teller.grown > grown => {
                teller.grown = teller.grown.max(grown);
            }
            _ => drop(self.source_index.insert(hash, IndexedSource { key: key.into(), grown })),
        }
    }
}

fn hash(provider: &str, session: &str) -> u64 {
    // The hash is never stored, so it may differ between versions of the program.
    let mut hasher = DefaultHasher::new();
    (provider, session).hash(&mut hasher);
    hasher.finish()
}

/// The part of a checkpoint that is read here. Most of a checkpoint is skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CheckpointThreads {
    grown: i64,
    threads: BTreeMap<String, ThreadParent>,
}

/// The part of a session in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ThreadParent {
    parent: Option<ParentLink>,
}

impl CheckpointThreads {
    /// A text that cannot be parsed counts as one without sessions.
    fn parse(recorded: &str) -> CheckpointThreads {
        serde_json::from_str(recorded).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_family_is_cut() {
        let mut sessions = SessionIndex::default();
        for fork in 0..2 * KINDRED_MAX {
            sessions.link_sessions("parrot", &fork.to_string(), &ParentLink::unseen("parent"));
        }
        assert_eq!(sessions.related_sessions("parrot", &["parent"]).len(), KINDRED_MAX);
    }
}
