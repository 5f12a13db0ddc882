//! What was read before: which of the sources that are found now are old acquaintances.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::agent::Agent;
use crate::checkpoint::{Checkpoint, file_of};
use crate::checkpoint_stat::CheckpointStat;
use crate::discover::DiscoveredSource;
use crate::error::CaptureError;
use crate::silence::OpenEpochs;
use crate::sink::{Batch, KnownSource, Sink};
use crate::source::Source;

/// What the journal knows of sources, by name and by file.
pub(crate) struct KnownSources {
    by_key: HashMap<String, CheckpointStat>,
    by_file: HashMap<(u64, u64), String>,
    /// The files that are there now and where, as far as they were listed.
    pub present: HashMap<(u64, u64), PathBuf>,
    /// The names of those that were found again.
    claimed: HashSet<String>,
    /// Those that have an open epoch.
    pub open: BTreeSet<String>,
}

/// The files that sources were ever read from, for whoever has to know that one is new: of many
/// sources, that is quicker than to load all of them.
#[derive(Default)]
pub(crate) struct KnownFiles(RefCell<Option<HashSet<(u64, u64)>>>);

impl KnownFiles {
    /// Whether a file may be one that was read before.
    pub(crate) fn may_be(&self, file: (u64, u64), sink: &dyn Sink) -> Result<bool, CaptureError> {
        let mut files = self.0.borrow_mut();
        if files.is_none() {
            let mut known = HashSet::new();
            let show = &mut |one: KnownSource<'_>| {
                known.extend([CheckpointStat::parse(one.checkpoint).file()])
            };
            sink.sources(show).map_err(CaptureError::Positions)?;
            *files = Some(known);
        }
        Ok(files.as_ref().is_none_or(|files| files.contains(&file)))
    }

    /// This one is read.
    pub(crate) fn put(&self, file: (u64, u64)) {
        if let Some(files) = &mut *self.0.borrow_mut() {
            files.insert(file);
        }
    }
}

impl KnownSources {
    pub(crate) fn load(sink: &dyn Sink) -> Result<KnownSources, CaptureError> {
        let mut by_key = HashMap::new();
        let mut by_file = HashMap::new();
        let mut open = BTreeSet::new();
        let show = &mut |known: KnownSource<'_>| {
            let seen = CheckpointStat::parse(known.checkpoint);
            // A file that is many sources is not known by its place on the disk.
            if seen.had_place() && !seen.is_missing && seen.is_whole_file() {
                by_file.insert(seen.file(), known.key.to_owned());
            }
            by_key.insert(known.key.to_owned(), seen);
            if OpenEpochs::is_in(known.checkpoint) {
                open.insert(known.key.to_owned());
            }
        };
        sink.sources(show).map_err(CaptureError::Positions)?;
        let (present, claimed) = Default::default();
        Ok(KnownSources { by_key, by_file, present, claimed, open })
    }

    /// What was seen of a source, if it is one that was read before: the same file wherever it is
    /// now, else what stands at the same path, unless that has only moved away.
    pub(crate) fn claim(&mut self, found: &mut DiscoveredSource) -> Option<CheckpointStat> {
        let file = file_of(&found.metadata);
        let source = &mut found.source;
        if source.digest.is_some() {
            return self.by_key.remove(&source.key());
        }
        let key = self.by_file.get(&file).filter(|key| self.is_now_at(key, source)).cloned();
        if let Some(key) = key {
            source.name = key.split_once(':').map_or("", |(_, name)| name).to_owned();
            let known = self.by_key.remove(&key);
            self.claimed.insert(key);
            return known;
        }
        let at_path = source.key();
        let has_moved = |was_here: &CheckpointStat| {
            let now_at = self.present.get(&was_here.file()).unwrap_or(&was_here.path);
            was_here.file() != file && *now_at != source.path && was_here.is_at(now_at)
        };
        if self.claimed.contains(&at_path) || self.by_key.get(&at_path).is_some_and(has_moved) {
            source.name = Source::next_name(&source.name, file);
        }
        self.by_key.remove(&source.key())
    }

    /// Whether a known source is the one that was found: it was there, or it has moved there.
    fn is_now_at(&self, key: &str, source: &Source) -> bool {
        let is_same_agent = key.split_once(':').is_some_and(|(agent, _)| agent == source.provider);
        let Some(seen) = self.by_key.get(key).filter(|_| is_same_agent) else {
            return false;
        };
        let has_moved =
            || seen.has_beginning() && !seen.is_at(&seen.path) && seen.is_at(&source.path);
        seen.path == source.path || has_moved()
    }

    /// The keys of the sources of an agent that nobody claimed.
    pub(crate) fn unclaimed(self, provider: &str) -> Vec<String> {
        let of_agent =
            |key: &String| key.split_once(':').is_some_and(|(agent, _)| agent == provider);
        let mut rest: Vec<String> = self.by_key.into_keys().filter(of_agent).collect();
        rest.sort_unstable();
        rest
    }

    /// What nobody claimed and is not there any more.
    pub(crate) fn missing(
        self,
        agents: &[&dyn Agent],
        sink: &dyn Sink,
    ) -> Result<Vec<Batch>, CaptureError> {
        let mut batches = Vec::new();
        for (key, seen) in self.by_key {
            let provider = key.split_once(':').map_or("", |(provider, _)| provider);
            let is_ours = agents.iter().any(|agent| agent.provider() == provider);
            if !is_ours || !seen.had_place() || seen.is_missing || seen.path.exists() {
                continue;
            }
            // One that nobody can go on from is left as it is.
            if let Some((checkpoint, recorded)) = position_of(&key, sink)?
                && checkpoint != Checkpoint::default()
            {
                let to = Checkpoint { is_missing: true, ..checkpoint }.encode();
                batches.push(Batch { source: key, from: Some(recorded), to, drafts: Vec::new() });
            }
        }
        Ok(batches)
    }
}

/// How far a source was read, and the text that says so. One that nobody can go on from begins
/// anew: nothing is told twice.
pub(crate) fn position_of(
    key: &str,
    sink: &dyn Sink,
) -> Result<Option<(Checkpoint, String)>, CaptureError> {
    let recorded = sink.source(key).map_err(CaptureError::Positions)?;
    Ok(recorded.map(|recorded| (Checkpoint::parse(&recorded).unwrap_or_default(), recorded)))
}
