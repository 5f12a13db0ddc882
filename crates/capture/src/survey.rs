//! The state of all sources: how many exist, which have unread bytes, which cannot be read, and
//! which folders have lost theirs. No source is read for it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use event::Time;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::agent::Agent;
use crate::checkpoint::{changed_at, identify_file};
use crate::checkpoint_stat::CheckpointStat;
use crate::database_guard::Look;
use crate::discover::{DiscoveredSource, discover};
use crate::environment::Environment;
use crate::error::Warning;

/// The sources of one agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSurvey {
    pub provider: &'static str,
    /// Sources that are there.
    pub sources: u64,
    /// Sources with unread bytes.
    pub behind: u64,
    /// When the first of these was written to last.
    pub behind_since: Option<Time>,
    /// Folders where sources were read before, and where there are none now.
    pub emptied: Vec<PathBuf>,
    /// What cannot be read, and why.
    pub unreadable: Vec<Warning>,
    /// Sources with many records and no event: their format may have changed.
    pub mute: Vec<PathBuf>,
}

/// Looks at everything agents have written, and at how far it was read: the keys of all sources
/// and their positions.
pub fn survey_sources(
    agents: &[&dyn Agent],
    environment: &Environment,
    sources: &[(String, String)],
    now: Time,
) -> Vec<SourceSurvey> {
    let known = SurveyIndex::from_sources(sources);
    agents.iter().map(|agent| known.survey_agent(*agent, environment, now)).collect()
}

/// Records after which a source should have given an event.
const MUTE_RECORDS: u64 = 20;

/// What was read before.
struct SurveyIndex<'a> {
    /// By the provider, and all of it.
    seen: Vec<(&'a str, CheckpointStat)>,
    mute: Vec<(&'a str, PathBuf)>,
    by_key: HashMap<&'a str, usize>,
    by_file: HashMap<(u64, u64), usize>,
}

impl<'a> SurveyIndex<'a> {
    fn from_sources(sources: &'a [(String, String)]) -> SurveyIndex<'a> {
        let mut known = SurveyIndex {
            seen: Vec::new(),
            mute: Vec::new(),
            by_key: HashMap::new(),
            by_file: HashMap::new(),
        };
        for (number, (key, checkpoint)) in sources.iter().enumerate() {
            let provider = key.split_once(':').map_or("", |(provider, _)| provider);
            let seen = CheckpointStat::parse(checkpoint);
            // One that cannot be parsed has no records here, and so is not reported as mute.
            let heard: CheckpointActivity = serde_json::from_str(checkpoint).unwrap_or_default();
            if heard.is_mute() {
                known.mute.push((provider, heard.path));
            }
            known.by_key.insert(key, number);
            known.by_file.insert(seen.file_identity(), number);
            known.seen.push((provider, seen));
        }
        known
    }

    fn survey_agent(
        &self,
        agent: &dyn Agent,
        environment: &Environment,
        now: Time,
    ) -> SourceSurvey {
        let mut unreadable = Vec::new();
        let (guard, stop) = Default::default();
        let look = Look { guard: &guard, stop: &stop, now };
        let found = discover(agent, environment, &look, &mut unreadable);
        unreadable.extend(found.iter().filter_map(|found| check_readable(agent.provider(), found)));
        let is_behind = |found: &&DiscoveredSource| !self.is_read(found, now);
        let behind = found.iter().filter(is_behind);
        let since = behind.clone().map(|found| changed_at(&found.metadata)).min();
        let roots = agent.source_roots(environment).into_iter().map(|root| root.path);
        SourceSurvey {
            provider: agent.provider(),
            sources: found.len() as u64,
            behind: behind.count() as u64,
            behind_since: since.map(|nanos| Time::from_nanos(nanos.into())),
            emptied: roots
                .filter(|root| self.is_emptied(agent, root, &found, &unreadable))
                .collect(),
            unreadable,
            mute: self.mute_sources(agent.provider()),
        }
    }

    fn mute_sources(&self, provider: &str) -> Vec<PathBuf> {
        let mute = self.mute.iter().filter(|(its, _)| *its == provider);
        mute.map(|(_, path)| path.clone()).collect()
    }

    /// Whether nothing in a source is news. One that was moved is the same.
    fn is_read(&self, found: &DiscoveredSource, now: Time) -> bool {
        let DiscoveredSource { source, metadata, .. } = found;
        // A source that moved has another key here than in the journal, but still its inode.
        let by_key = self.by_key.get(source.key().as_str());
        let known = by_key.into_iter().chain(self.by_file.get(&identify_file(metadata)));
        known.into_iter().any(|known| self.seen[*known].1.is_current(source, metadata, now))
    }

    fn is_emptied(
        &self,
        agent: &dyn Agent,
        root: &Path,
        found: &[DiscoveredSource],
        unreadable: &[Warning],
    ) -> bool {
        // Checkpoints have resolved paths. A root that is gone cannot be resolved any more.
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        // A source in a folder or a database that cannot be read may still be there.
        let is_unlisted = |path: &Path| {
            unreadable
                .iter()
                .filter_map(|warning| warning.path.as_ref())
                .any(|it| path.starts_with(it))
        };
        let had = self.seen.iter().any(|(provider, seen)| {
            *provider == agent.provider()
                && (seen.path.starts_with(&real) || seen.path.starts_with(root))
                && !is_unlisted(&seen.path)
        });
        had && !found.iter().any(|found| found.source.path.starts_with(&real))
    }
}

/// The part of a checkpoint that shows whether events came of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CheckpointActivity {
    path: PathBuf,
    records: u64,
    threads: HashMap<String, ThreadActivity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThreadActivity {
    is_started: bool,
    parent: Option<IgnoredAny>,
}

impl CheckpointActivity {
    /// Whether no event came of many records. The events of a plain copy are in its parent.
    fn is_mute(&self) -> bool {
        let has_spoken = |it: &ThreadActivity| it.is_started || it.parent.is_some();
        self.records >= MUTE_RECORDS && !self.threads.values().any(has_spoken)
    }
}

/// Why a source cannot be opened, if it cannot.
fn check_readable(provider: &'static str, found: &DiscoveredSource) -> Option<Warning> {
    // Opening is the only sure test: a mode does not show access lists or a damaged disk.
    let error = File::open(&found.source.path).err()?;
    let is_gone = error.kind() == std::io::ErrorKind::NotFound;
    (!is_gone).then(|| Warning::unreadable(provider, &found.source.path, &error))
}
