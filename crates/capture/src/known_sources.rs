//! Which of the sources that are found now were read before, though they may have moved.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::agent::Agent;
use crate::checkpoint::{Checkpoint, identify_file};
use crate::checkpoint_stat::CheckpointStat;
use crate::discover::DiscoveredSource;
use crate::error::CaptureError;
use crate::silence::OpenEpochs;
use crate::sink::{Batch, KnownSource, Sink};
use crate::source::Source;

/// The recorded checkpoints, by key and by file.
pub(crate) struct KnownSources {
    by_key: HashMap<String, CheckpointStat>,
    by_file: HashMap<(u64, u64), String>,
    /// The files that were listed now, and their paths.
    pub present: HashMap<(u64, u64), PathBuf>,
    /// The keys of sources that were found again.
    claimed: HashSet<String>,
    /// The keys of sources with an open epoch.
    pub open: BTreeSet<String>,
}

/// The files that sources were ever read from. One look shows that a file is new, without loading
/// all checkpoints.
#[derive(Default)]
pub(crate) struct KnownFiles(RefCell<Option<HashSet<(u64, u64)>>>);

impl KnownFiles {
    /// Whether a file may be one that was read before.
    pub(crate) fn may_know(&self, file: (u64, u64), sink: &dyn Sink) -> Result<bool, CaptureError> {
        let mut files = self.0.borrow_mut();
        if files.is_none() {
            let mut known = HashSet::new();
            let show = &mut |one: KnownSource<'_>| {
                known.extend([CheckpointStat::parse(one.checkpoint).file_identity()])
            };
            sink.show_sources(show).map_err(CaptureError::Positions)?;
            *files = Some(known);
        }
        Ok(files.as_ref().is_none_or(|files| files.contains(&file)))
    }

    /// Notes a file that is read.
    pub(crate) fn note_file(&self, file: (u64, u64)) {
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
            // A database holds many sources, so its inode identifies none of them.
            if seen.has_path() && !seen.is_missing && seen.is_whole_file() {
                by_file.insert(seen.file_identity(), known.key.to_owned());
            }
            by_key.insert(known.key.to_owned(), seen);
            if OpenEpochs::has_open_epoch(known.checkpoint) {
                open.insert(known.key.to_owned());
            }
        };
        sink.show_sources(show).map_err(CaptureError::Positions)?;
        let (present, claimed) = Default::default();
        Ok(KnownSources { by_key, by_file, present, claimed, open })
    }

    /// The checkpoint of a source that was read before: the one of the same file, wherever it is now;
    /// else the one of the same path, unless its file has moved elsewhere.
    pub(crate) fn claim(&mut self, found: &mut DiscoveredSource) -> Option<CheckpointStat> {
        let file = identify_file(&found.metadata);
        let source = &mut found.source;
        // A session in a database is known by its key alone: the file holds many.
        if source.digest.is_some() {
            return self.by_key.remove(&source.key());
        }
        let key = self.by_file.get(&file).filter(|key| self.is_now_at(key, source)).cloned();
        // The same file, here or moved here: it keeps its name, under which its originals are stored.
        if let Some(key) = key {
            source.name = key.split_once(':').map_or("", |(_, name)| name).to_owned();
            let known = self.by_key.remove(&key);
            self.claimed.insert(key);
            return known;
        }
        // Another file than before stands at this path. While the former one lives on elsewhere under
        // its name, this one needs a name of its own.
        let at_path = source.key();
        let has_moved = |was_here: &CheckpointStat| {
            let now_at = self.present.get(&was_here.file_identity()).unwrap_or(&was_here.path);
            was_here.file_identity() != file
                && *now_at != source.path
                && was_here.is_at_path(now_at)
        };
        if self.claimed.contains(&at_path) || self.by_key.get(&at_path).is_some_and(has_moved) {
            source.name = Source::next_name(&source.name, file);
        }
        self.by_key.remove(&source.key())
    }

    /// Whether a recorded source is the one that was found: at the same path, or moved there.
    fn is_now_at(&self, key: &str, source: &Source) -> bool {
        let is_same_agent = key.split_once(':').is_some_and(|(agent, _)| agent == source.provider);
        let Some(seen) = self.by_key.get(key).filter(|_| is_same_agent) else {
            return false;
        };
        let has_moved = || {
            seen.has_beginning() && !seen.is_at_path(&seen.path) && seen.is_at_path(&source.path)
        };
        seen.path == source.path || has_moved()
    }

    /// The keys of an agent's sources that were not found.
    pub(crate) fn unclaimed(self, provider: &str) -> Vec<String> {
        let of_agent =
            |key: &String| key.split_once(':').is_some_and(|(agent, _)| agent == provider);
        let mut rest: Vec<String> = self.by_key.into_keys().filter(of_agent).collect();
        rest.sort_unstable();
        rest
    }

    /// Batches that record which sources are gone.
    pub(crate) fn missing_batches(
        self,
        agents: &[&dyn Agent],
        sink: &dyn Sink,
    ) -> Result<Vec<Batch>, CaptureError> {
        let mut batches = Vec::new();
        for (key, seen) in self.by_key {
            let provider = key.split_once(':').map_or("", |(provider, _)| provider);
            let is_ours = agents.iter().any(|agent| agent.provider() == provider);
            // A source that was not listed may still exist: one of a better rank may stand for its
            // session.
            if !is_ours || !seen.has_path() || seen.is_missing || seen.path.exists() {
                continue;
            }
            // A checkpoint that cannot be parsed is left as it is.
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

/// The checkpoint of a source, parsed and as recorded. One that cannot be parsed starts the source
/// anew; nothing is recorded twice, because ids are derived.
pub(crate) fn position_of(
    key: &str,
    sink: &dyn Sink,
) -> Result<Option<(Checkpoint, String)>, CaptureError> {
    let recorded = sink.source(key).map_err(CaptureError::Positions)?;
    Ok(recorded.map(|recorded| (Checkpoint::parse(&recorded).unwrap_or_default(), recorded)))
}
