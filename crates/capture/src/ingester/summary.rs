//! What a pass has done, and how far it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use event::{Draft, SessionId};

use crate::error::{Warning, WarningKind};
use crate::source::Source;
use crate::tailer::ParsedChunk;

/// How far a pass is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IngestProgress {
    pub sources: u64,
    pub sources_total: u64,
    pub bytes: u64,
    pub bytes_total: u64,
    pub events: u64,
}

/// What a pass has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IngestSummary {
    pub events: u64,
    pub bytes: u64,
    pub sources: u64,
    pub unknown: u64,
    pub silent: u64,
    pub warnings: Vec<Warning>,
    /// Databases that had to wait and can be read again.
    pub cured: Vec<PathBuf>,
    /// Changes that a poll found and no notification announced.
    pub misses: u64,
    pub by_provider: BTreeMap<&'static str, ProviderSummary>,
    /// Records that were not understood, by provider, version and what the agent calls them.
    pub(crate) unknown_kinds: BTreeMap<(&'static str, String, String), u64>,
    /// Sources that were written to a short while ago.
    pub(crate) recent: Vec<PathBuf>,
}

/// The part of a pass that was about one provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProviderSummary {
    pub sessions: BTreeSet<SessionId>,
    pub events: u64,
    pub bytes: u64,
}

impl IngestSummary {
    pub(super) fn count_chunk(&mut self, source: &Source, chunk: &ParsedChunk) {
        let parsed = &chunk.parsed;
        let unknown: u64 = parsed.unknown.values().sum();
        self.bytes += chunk.to - chunk.from;
        self.silent += parsed.silent;
        self.unknown += unknown;
        self.count_events(source.provider, &parsed.drafts);
        self.by_provider.entry(source.provider).or_default().bytes += chunk.to - chunk.from;
        for ((version, kind), count) in &parsed.unknown {
            let key = (source.provider, version.clone(), kind.clone());
            *self.unknown_kinds.entry(key).or_default() += count;
        }
    }

    /// Counts events of any origin: sources, hooks, signals, the clock.
    pub(crate) fn count_events(&mut self, provider: &'static str, drafts: &[Draft]) {
        self.events += drafts.len() as u64;
        let provider = self.by_provider.entry(provider).or_default();
        provider.events += drafts.len() as u64;
        provider.sessions.extend(drafts.iter().map(|draft| draft.session_id.clone()));
    }

    /// Adds one warning for each kind of record that was not understood.
    pub(crate) fn report_unknown(&mut self) {
        for ((provider, version, kind), count) in std::mem::take(&mut self.unknown_kinds) {
            let version = Some(version).filter(|version| !version.is_empty());
            self.warnings.push(Warning {
                kind: WarningKind::UnknownRecords,
                provider,
                message: describe_unknown(provider, version.as_deref(), &kind, count),
                version,
                path: None,
                count,
            });
        }
    }
}

/// The message for the user about records that were not understood.
pub fn describe_unknown(provider: &str, version: Option<&str>, kind: &str, count: u64) -> String {
    let agent = match version {
        Some(version) => format!("{provider} {version}"),
        None => provider.to_owned(),
    };
    match count {
        1 => format!("1 record of kind `{kind}` from {agent} is not understood; it is kept"),
        _ => format!(
            "{count} records of kind `{kind}` from {agent} are not understood; they are kept"
        ),
    }
}
