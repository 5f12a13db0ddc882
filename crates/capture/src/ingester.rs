//! One pass over all sources: finds those with news and reads each to its end.

mod history; // where a numbered source leaves the history before it
mod opening; // how much of a new source is recorded already
mod relatives; // recorded sessions that a new source may be related to
mod summary; // what a pass has done

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use event::Time;

use self::history::HistoryEnd;
use self::relatives::RelativeLookup;
pub use self::summary::{IngestProgress, IngestSummary, describe_unknown};
use crate::admission::{admit, awaits_folder};
use crate::agent::{Agent, LineageHint, SourceForm};
use crate::checkpoint::{Checkpoint, file_times, identify_file, is_older};
use crate::checkpoint_stat::CheckpointStat;
use crate::database_guard::{DatabaseGuard, Look, LookError};
use crate::discover::{DiscoveredSource, discover, discover_at, discover_below};
use crate::environment::Environment;
use crate::error::{CaptureError, Warning};
use crate::event_builder::session_id;
use crate::known_sources::{KnownFiles, KnownSources, position_of};
use crate::limit::{BATCH_BYTES_MAX, HELD_BYTES_MAX, KIN_BYTES, PASSED_OVER_MAX, RECENT_MILLIS};
use crate::lineage::{
    CopiedPart, Decision, Lineage, LineageFacts, MissingFact, OpeningFacts, OrderFacts, ReadTurn,
    RepeatedPart, decide, reading_order,
};
use crate::original::SourceLabel;
use crate::silence::OpenEpochs;
use crate::sink::{Batch, Original, Sink, SinkError};
use crate::source::Source;
use crate::source_index::SourceIndex;
use crate::stop_flag::StopFlag;
use crate::tailer::{ParsedChunk, Tailer};
use crate::thread_state::{ParentLink, ThreadState};

/// Reads what agents have written into a sink.
pub struct Ingester<'a> {
    pub(crate) agents: &'a [&'a dyn Agent],
    pub(crate) environment: &'a Environment,
    pub(crate) clock: &'a dyn Fn() -> Time,
    pub(crate) stop: StopFlag,
    guard: DatabaseGuard,
    /// Which source holds which session.
    pub(crate) source_index: SourceIndex,
    files: KnownFiles,
    pub(crate) open_epochs: OpenEpochs,
}

/// What a poll of one path found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Poll {
    /// The path holds no source.
    NoSource,
    /// The source was read to its end.
    Complete,
    /// The source may be a copy that is still being written, so nothing was read yet.
    Deferred,
    /// The byte limit was reached first; there may be more.
    Partial,
}

/// A source with news.
struct SourceCandidate<'a> {
    agent: &'a dyn Agent,
    found: DiscoveredSource,
    known: Option<(Checkpoint, String)>,
    hint: LineageHint,
    /// A source that it may repeat is read in the same pass: what that one recorded has to be durable
    /// first.
    has_relatives: bool,
    /// Another source names it as its parent, so it is no copy that is still being written.
    is_named_parent: bool,
}

impl<'a> Ingester<'a> {
    pub fn new(
        agents: &'a [&'a dyn Agent],
        environment: &'a Environment,
        clock: &'a dyn Fn() -> Time,
    ) -> Ingester<'a> {
        let (stop, guard, source_index, files, open_epochs) = Default::default();
        Ingester { agents, environment, clock, stop, guard, source_index, files, open_epochs }
    }

    /// Ends every pass early once the flag is set.
    #[must_use]
    pub fn with_stop_flag(self, stop: StopFlag) -> Ingester<'a> {
        Ingester { stop, ..self }
    }

    /// Shares the guard with other ingesters: a database that waits for one of them waits for all.
    #[must_use]
    pub fn with_guard(self, guard: DatabaseGuard) -> Ingester<'a> {
        Ingester { guard, ..self }
    }

    /// Takes over the index of another ingester, so that it is not loaded again.
    #[must_use]
    pub fn with_index(self, source_index: SourceIndex) -> Ingester<'a> {
        Ingester { source_index, ..self }
    }

    /// Hands the index over to the next ingester. It is valid as long as no other process reads
    /// sources into the same journal.
    pub fn into_known(self) -> SourceIndex {
        self.source_index
    }

    pub(crate) fn look(&self) -> Look<'_> {
        Look { guard: &self.guard, stop: &self.stop, now: (self.clock)() }
    }

    /// Reads every source to its end, or until it is asked to stop. A source that cannot be read is
    /// a warning; only a sink that fails ends the pass.
    pub fn ingest_all(
        &self,
        sink: &mut dyn Sink,
        tell: &mut dyn FnMut(&IngestProgress),
    ) -> Result<IngestSummary, CaptureError> {
        let mut summary = IngestSummary::default();
        let begun = (self.clock)();
        // All sources are listed before the first is read, because the order depends on all of
        // them: a parent has to come before its forks.
        let candidates = in_order(self.candidates(sink, &mut summary)?);
        let mut progress = IngestProgress {
            sources_total: candidates.len() as u64,
            bytes_total: candidates.iter().map(SourceCandidate::bytes_waiting).sum(),
            ..IngestProgress::default()
        };
        for candidate in candidates {
            if self.stop.is_asked() {
                break;
            }
            tell(&progress);
            self.read_source(candidate, u64::MAX, sink, &mut summary, &mut |bytes, events| {
                progress.bytes += bytes;
                progress.events += events;
                tell(&progress);
            })?;
            progress.sources += 1;
        }
        if !self.stop.is_asked() {
            summary.cured = self.guard.forget_cured(begun, |_| true);
        }
        // `put_batch` may return before a batch is durable. The pass reports success only when all are.
        sink.settle().map_err(CaptureError::Unrecorded)?;
        tell(&progress);
        summary.report_unknown();
        Ok(summary)
    }

    /// Lists all sources and returns those with news, newest first. Sessions in databases are read
    /// at once, because a poll of a database takes in only the sessions that were active lately.
    pub(crate) fn sweep_sources(
        &self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Vec<PathBuf>, CaptureError> {
        let mut paths = Vec::new();
        let begun = (self.clock)();
        for candidate in in_order(self.candidates(sink, summary)?) {
            if self.stop.is_asked() {
                return Ok(paths);
            }
            if candidate.found.source.form == SourceForm::Rows {
                self.read_source(candidate, u64::MAX, sink, summary, &mut |_, _| {})?;
            } else {
                paths.push(candidate.found.source.path);
            }
        }
        summary.cured.extend(self.guard.forget_cured(begun, |_| true));
        Ok(paths)
    }

    /// Reads what is new in the sources at one path, or about `bytes_max` bytes of it.
    pub(crate) fn poll_source(
        &self,
        path: &Path,
        bytes_max: u64,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Poll, CaptureError> {
        let mut looked = Poll::NoSource;
        let look = self.look();
        for agent in self.agents {
            let found = discover_at(*agent, self.environment, path, &look, &mut summary.warnings);
            if !found.is_empty() {
                looked = looked.max(Poll::Complete);
            }
            for mut candidate in self.changed_sources(*agent, found, sink)? {
                // Until a source has events, it may turn out to be a copy. Then the sessions that
                // it repeats have to be recorded first, or the copied part would be recorded twice.
                let has_told =
                    candidate.known.as_ref().is_some_and(|(checkpoint, _)| checkpoint.has_events());
                if !has_told && candidate.hint != LineageHint::default() {
                    self.read_relatives(&candidate, sink, summary)?;
                    candidate.has_relatives = true;
                }
                let end = self.read_source(candidate, bytes_max, sink, summary, &mut |_, _| {})?;
                looked = looked.max(end);
            }
        }
        summary.cured.extend(self.guard.forget_cured(look.now, |tried| tried == path));
        // A database that waits is polled on, so that its next try comes in time.
        if self.guard.is_waiting(path) {
            looked = looked.max(Poll::Complete);
        }
        Ok(looked)
    }

    /// Reads the session that a new source may repeat to its end. A copy is recognised by events that
    /// are recorded, so the original has to be recorded first.
    fn read_relatives(
        &self,
        candidate: &SourceCandidate<'a>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let SourceCandidate { agent, found, hint, .. } = candidate;
        let own = &found.source;
        let named = hint.parent.as_ref().map(|parent| session_id(own.provider, parent));
        // An error is reported when the source itself is read.
        let first = || self.first_recorder(*agent, own, sink).unwrap_or_default();
        let is_named = candidate.forked_from().is_some();
        // A source that names no parent is looked up by the session that recorded its first event.
        let Some(session) = named.or_else(first) else { return Ok(()) };
        for hint in discover(*agent, self.environment, &self.look(), &mut summary.warnings) {
            let source = hint.source;
            if session_id(source.provider, &source.session) == session && source.path != own.path {
                let warnings = &mut summary.warnings;
                let found =
                    discover_at(*agent, self.environment, &source.path, &self.look(), warnings);
                for mut candidate in self.changed_sources(*agent, found, sink)? {
                    candidate.is_named_parent = is_named;
                    // The relative may itself repeat a source that was read a moment ago.
                    candidate.has_relatives = true;
                    self.read_source(candidate, u64::MAX, sink, summary, &mut |_, _| {})?;
                }
            }
        }
        Ok(())
    }

    /// The sources of an agent that changed since they were read.
    fn changed_sources(
        &self,
        agent: &'a dyn Agent,
        found: Vec<DiscoveredSource>,
        sink: &dyn Sink,
    ) -> Result<Vec<SourceCandidate<'a>>, CaptureError> {
        let mut candidates = Vec::new();
        for mut found in found {
            let recorded = sink.source(&found.source.key()).map_err(CaptureError::Positions)?;
            let now = (self.clock)();
            let known = match recorded.as_deref().map(CheckpointStat::parse) {
                Some(seen) if seen.path == found.source.path => Some(seen),
                // New at this path, and no source was ever read from this inode: the source is new,
                // and the checkpoints of all others need not be loaded.
                None if !self.files.may_know(identify_file(&found.metadata), sink)? => None,
                // New at this path, or another file than before: it may have moved here.
                _ => KnownSources::load(sink)?.claim(&mut found),
            };
            if !is_current(known.as_ref(), &found, now) {
                candidates.push(SourceCandidate::new(agent, found, known.is_some(), sink)?);
            }
        }
        Ok(candidates)
    }

    /// The folders of all agents, whether they exist or not.
    pub(crate) fn watched_roots(&self) -> Vec<(&'static str, PathBuf)> {
        let roots = self.agents.iter().flat_map(|agent| {
            let roots = agent.source_roots(self.environment).into_iter();
            roots.map(|root| (agent.provider(), root.path))
        });
        roots.collect()
    }

    /// The sources in a folder.
    pub(crate) fn sources_below(&self, folder: &Path, warnings: &mut Vec<Warning>) -> Vec<PathBuf> {
        let found = self.agents.iter().flat_map(|agent| {
            let found = discover_below(*agent, self.environment, folder, &self.look(), warnings);
            found.into_iter().map(|found| found.source.path)
        });
        found.collect()
    }

    /// The sources that changed since they were read, and those that are gone.
    fn candidates(
        &self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Vec<SourceCandidate<'a>>, CaptureError> {
        let mut known = KnownSources::load(sink)?;
        // All checkpoints are loaded here anyway, so the set of open epochs costs nothing more.
        self.open_epochs.replace_keys(std::mem::take(&mut known.open));
        let now = (self.clock)();
        let mut candidates = Vec::new();
        for agent in self.agents {
            let look = self.look();
            let discovered = discover(*agent, self.environment, &look, &mut summary.warnings);
            let place = |found: &DiscoveredSource| {
                (identify_file(&found.metadata), found.source.path.clone())
            };
            // Set before the first claim, which asks where the former file of a path is now.
            known.present = discovered.iter().map(place).collect();
            for mut found in discovered {
                if self.stop.is_asked() {
                    // What was not listed is not missing.
                    return Ok(candidates);
                }
                if !is_older(&found.metadata, now, RECENT_MILLIS) {
                    summary.recent.push(found.source.path.clone());
                }
                let known = known.claim(&mut found);
                if !is_current(known.as_ref(), &found, now) {
                    candidates.push(SourceCandidate::new(*agent, found, known.is_some(), sink)?);
                }
            }
        }
        // Claims have taken out every source that was listed; what is left may be gone from the
        // disk.
        for batch in known.missing_batches(self.agents, sink)? {
            let path = PathBuf::new();
            sink.put_batch(batch).map_err(|source| CaptureError::Sink { path, source })?;
        }
        Ok(candidates)
    }

    /// Reads one source to its end, or about `bytes_max` bytes of it. A source that fails is left
    /// for the next pass.
    fn read_source(
        &self,
        candidate: SourceCandidate<'a>,
        bytes_max: u64,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Poll, CaptureError> {
        let source = candidate.found.source.clone();
        // It failed a short while ago, or another session of the same database did.
        if let Some(warning) = self.look().reason_to_wait(&source) {
            // One warning is enough for all sessions of a database.
            if !summary.warnings.contains(&warning) {
                summary.warnings.push(warning);
            }
            return Ok(Poll::Complete);
        }
        match self.read_candidate(candidate, bytes_max, sink, summary, tell) {
            Ok(looked) => Ok(looked),
            // Deleted since it was listed: the next pass sees that it is gone.
            Err(IngestFailure::Source(error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Poll::Complete)
            }
            // One file that cannot be read must not keep the others from being recorded.
            Err(IngestFailure::Source(error)) => {
                let Source { provider, path, .. } = &source;
                let warning = match LookError::find_in(&error) {
                    Some(LookError::Stopped) => return Ok(Poll::Partial),
                    Some(_) => self.guard.note_failure(provider, path, &error, (self.clock)()),
                    None => Warning::unreadable(provider, path, &error),
                };
                summary.warnings.push(warning);
                Ok(Poll::Complete)
            }
            // The journal refuses, so that every further source would fail in the same way.
            Err(IngestFailure::Sink(error)) => {
                Err(CaptureError::Sink { path: source.path, source: error })
            }
        }
    }

    /// Begins with a new source where its own events begin; `false` if it has to wait for the next
    /// poll.
    fn begin_source(
        &self,
        candidate: &SourceCandidate<'a>,
        was_read: bool,
        tailer: &mut Tailer<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<bool, IngestFailure> {
        let SourceCandidate { agent, ref found, ref hint, is_named_parent, .. } = *candidate;
        let DiscoveredSource { source, metadata, .. } = found;
        // Asked also where the answer is not needed: the first question loads the index from the
        // journal, which has to happen before new batches wait to be recorded.
        let is_related = self.source_index.is_related(source.provider, &source.session, sink)?;
        let mut facts = LineageFacts {
            session: &source.session,
            hint,
            times: file_times(metadata),
            was_read,
            is_related,
            is_named_parent,
            history: None,
            opening: None,
            relatives: None,
        };
        let mut history_end = None;
        let mut lookup = RelativeLookup::default();
        // Each fact costs a look at the disk or the journal. `decide` asks for one at a time, and
        // most sources need none.
        let lineage = loop {
            match decide(&facts) {
                Decision::Settled(lineage) => break lineage,
                Decision::Needs(MissingFact::History) => {
                    let (point, end) = self.history_before(agent, source, hint, sink)?;
                    history_end = end;
                    facts.history = Some(point);
                }
                Decision::Needs(MissingFact::Opening) => {
                    let opening = self.read_opening(agent, source, hint, sink)?;
                    let now = (self.clock)();
                    let (is_settled, is_quiet) = (tailer.is_settled(now), tailer.is_quiet(now));
                    facts.opening = Some(OpeningFacts { opening, is_settled, is_quiet });
                }
                Decision::Needs(MissingFact::Relatives) => {
                    if let Some(part) = facts.repeated_part() {
                        lookup = self.find_relatives(source.provider, part, sink)?;
                    }
                    facts.relatives = Some(lookup.relatives.clone());
                }
                Decision::Needs(MissingFact::RelativeFiles) => {
                    self.look_at_files(agent, &mut lookup);
                    facts.relatives = Some(lookup.relatives.clone());
                }
            }
        };
        let part = facts.repeated_part();
        let now = (self.clock)();
        match lineage {
            Lineage::Defer => return Ok(false),
            Lineage::New => {}
            Lineage::Resume => {
                if let Some(HistoryEnd { event_id, thread, .. }) = history_end {
                    // The file continues behind this event, which need not be the last of the
                    // earlier file: the next prompt links to it, as after a rewind.
                    let thread = ThreadState { rewound_to: Some(event_id), ..thread };
                    tailer.checkpoint.threads.insert(source.session.clone(), thread);
                }
            }
            Lineage::Fork { parent, copy } => {
                if let Some(part) = part {
                    let own = tailer.skip_to(part.end, now)?;
                    // Without the note the fork would have no event, and the user would not see it
                    // before it goes on.
                    if copy == CopiedPart::Everything {
                        tailer.open_with(format!("all of it is told in {}", part.recorder), own);
                    }
                }
                let thread = tailer.checkpoint.threads.entry(source.session.clone()).or_default();
                match copy {
                    // Nothing was skipped, so the parser left no state of the parent that would
                    // have to go.
                    CopiedPart::Nothing => thread.parent = Some(parent),
                    // A session that works for another does not go on with the one it repeats.
                    CopiedPart::Beginning | CopiedPart::Everything => {
                        thread.start_anew(thread.works_for().or(Some(parent)));
                    }
                }
            }
            Lineage::Tie { parent } => {
                let words = "it begins like {recorder}, which was read first; \
                    nothing tells which of the two was forked from the other";
                begin_behind_copy(tailer, source, part, words, parent, now)?;
            }
            Lineage::Parent { parent, heir } => {
                // The fork was recorded before its parent was found, so its first event names none.
                // A later event of the fork adds the link.
                if let Some(heir) = heir {
                    self.record_parent(candidate, lookup, heir, sink, summary)?;
                }
                let words = "its beginning is told in {recorder}, which was read first";
                begin_behind_copy(tailer, source, part, words, parent, now)?;
            }
        }
        let thread = tailer.checkpoint.threads.get(&source.session);
        if let Some(link) = thread.and_then(|thread| thread.parent.as_ref()) {
            let parent = session_id(source.provider, &link.session);
            tailer.parent_event = sink.id_at(&parent, link.seq)?;
        }
        Ok(true)
    }

    fn read_candidate(
        &self,
        mut candidate: SourceCandidate<'a>,
        bytes_max: u64,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Poll, IngestFailure> {
        let mut known = candidate.known.take();
        let source = &candidate.found.source;
        self.open_epochs.may_be_in(source.key());
        if candidate.has_relatives {
            sink.settle()?;
            // Reading a relative may have changed this checkpoint: it links a fork to its parent.
            known = known.and(sink.source(&source.key())?).map(position_in);
        }
        let was_read = known.is_some();
        let mut tailer = Tailer::open(candidate.agent, source, known, &self.look())?;
        // A source that was read and gave no event may still turn out to be a fork.
        let is_new = !tailer.checkpoint.has_events();
        if is_new && !self.begin_source(&candidate, was_read, &mut tailer, sink, summary)? {
            return Ok(Poll::Deferred);
        }
        // Only now: a source that was deferred has to be new to the next poll, too.
        self.files.note_file(identify_file(&candidate.found.metadata));
        summary.sources += 1;
        let bytes_max = match source.form {
            SourceForm::Lines | SourceForm::Blocks(_) | SourceForm::Rows => bytes_max,
            // These can only be entered at their start, so every turn skips what was read before.
            // Turns that grow with the offset keep that cost in proportion.
            SourceForm::PackedLines | SourceForm::Document { .. } => {
                bytes_max.max(tailer.checkpoint.offset / PASSED_OVER_MAX)
            }
        };
        let mut bytes = 0;
        let mut looked = Poll::Complete;
        let mut held = Vec::new();
        // At least one chunk is read before the limits are checked, so that even a pass with little
        // time makes progress.
        while let Some(chunk) = tailer.next_chunk((self.clock)())? {
            bytes += chunk.to - chunk.from;
            held.push(chunk);
            let threads = &tailer.checkpoint.threads;
            let drafts = || held.iter().flat_map(|chunk| &chunk.parsed.drafts);
            if bytes < HELD_BYTES_MAX && awaits_folder(source.provider, threads, drafts, sink) {
                match self.stop.is_asked() {
                    true => break,
                    false => continue,
                }
            }
            for chunk in held.drain(..) {
                self.put_chunk(source, &tailer.checkpoint, chunk, sink, summary, tell)?;
            }
            let is_turn_over = bytes >= bytes_max || bytes_max < u64::MAX && tailer.is_spent();
            if is_turn_over || self.stop.is_asked() {
                looked = Poll::Partial;
                break;
            }
        }
        // No record names the folder so far. The next poll reads these again, with what follows.
        if !held.is_empty() {
            looked = Poll::Deferred;
        }
        summary.warnings.extend(tailer.take_warnings());
        Ok(looked)
    }

    /// Puts what is wanted of a chunk, and its checkpoint.
    fn put_chunk(
        &self,
        source: &Source,
        checkpoint: &Checkpoint,
        mut chunk: ParsedChunk,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<(), IngestFailure> {
        let drafts = &mut chunk.parsed.drafts;
        let is_whole = admit(source.provider, &checkpoint.threads, drafts, sink);
        summary.count_chunk(source, &chunk);
        tell(chunk.to - chunk.from, chunk.parsed.drafts.len() as u64);
        // Originals go before their batch, so that a crash in between leaves bytes without events,
        // which the next pass replaces, and not events without bytes. Of a session that the user
        // excluded no bytes are stored.
        if is_whole {
            keep_original(sink, source, &chunk)?;
        }
        // The sink may block for a while; the bytes need not be held meanwhile.
        chunk.kept = None;
        if let Some(batch) = chunk.batch {
            self.source_index.note_checkpoint(&batch.source, checkpoint);
            sink.put_batch(Batch { drafts: chunk.parsed.drafts, ..batch })?;
        }
        Ok(())
    }
}

/// Begins behind the part that another session recorded, with a note that says so.
fn begin_behind_copy(
    tailer: &mut Tailer<'_>,
    source: &Source,
    part: Option<&RepeatedPart>,
    words: &str,
    parent: Option<ParentLink>,
    now: Time,
) -> Result<(), IngestFailure> {
    if let Some(part) = part {
        let own = tailer.skip_to(part.end, now)?;
        tailer.open_with(words.replace("{recorder}", part.recorder.as_str()), own);
    }
    let thread = tailer.checkpoint.threads.entry(source.session.clone()).or_default();
    thread.start_anew(thread.works_for().or(parent));
    Ok(())
}

/// Why a source could not be read to its end. An error of the sink ends the pass; an error of the
/// source leaves it for the next pass.
pub(crate) enum IngestFailure {
    Source(io::Error),
    Sink(SinkError),
}

impl From<io::Error> for IngestFailure {
    fn from(error: io::Error) -> IngestFailure {
        IngestFailure::Source(error)
    }
}

impl From<SinkError> for IngestFailure {
    fn from(error: SinkError) -> IngestFailure {
        IngestFailure::Sink(error)
    }
}

impl<'a> SourceCandidate<'a> {
    fn new(
        agent: &'a dyn Agent,
        found: DiscoveredSource,
        is_known: bool,
        sink: &dyn Sink,
    ) -> Result<SourceCandidate<'a>, CaptureError> {
        let known = if is_known { position_of(&found.source.key(), sink)? } else { None };
        // Also for a source that was read before: others may repeat it, and the order depends on it.
        let hint = found.hint.clone().unwrap_or_else(|| lineage_hint(agent, &found.source));
        Ok(SourceCandidate {
            agent,
            found,
            known,
            hint,
            has_relatives: false,
            is_named_parent: false,
        })
    }

    /// About how many bytes were not read yet.
    fn bytes_waiting(&self) -> u64 {
        // A session in a database has no size of its own.
        if self.found.source.digest.is_some() {
            return 0;
        }
        let read = self.known.as_ref().map_or(0, |(checkpoint, _)| checkpoint.offset);
        self.found.metadata.len().saturating_sub(read)
    }

    /// The session that it says it repeats.
    fn forked_from(&self) -> Option<&String> {
        self.hint.fork_parent(&self.found.source.session)
    }

    fn order_facts(&self) -> OrderFacts<'_> {
        let DiscoveredSource { source, metadata, .. } = &self.found;
        OrderFacts {
            provider: source.provider,
            session: &source.session,
            file_name: source.file_name(),
            hint: &self.hint,
            times: file_times(metadata),
        }
    }
}

/// The candidates in the order they are read.
fn in_order(candidates: Vec<SourceCandidate<'_>>) -> Vec<SourceCandidate<'_>> {
    let facts: Vec<OrderFacts<'_>> = candidates.iter().map(SourceCandidate::order_facts).collect();
    let turns = reading_order(&facts);
    let mut rest: Vec<Option<SourceCandidate<'_>>> = candidates.into_iter().map(Some).collect();
    let in_turn =
        turns.into_iter().filter_map(|ReadTurn { source, has_relatives, is_named_parent }| {
            // Every number occurs once in `turns`, so that `take` always finds its candidate.
            let candidate = rest[source].take()?;
            Some(SourceCandidate { has_relatives, is_named_parent, ..candidate })
        });
    in_turn.collect()
}

/// Whether the source did not change since it was read. A source that moved is not current, so that
/// its new path is recorded.
fn is_current(known: Option<&CheckpointStat>, found: &DiscoveredSource, now: Time) -> bool {
    let DiscoveredSource { source, metadata, .. } = found;
    known.is_some_and(|seen| seen.path == source.path && seen.is_current(source, metadata, now))
}

/// The checkpoint in its recorded text. One that cannot be parsed starts the source anew; nothing is
/// recorded twice, because ids are derived.
fn position_in(recorded: String) -> (Checkpoint, String) {
    (Checkpoint::parse(&recorded).unwrap_or_default(), recorded)
}

/// The hint in the first bytes of a source; an empty one if the source cannot be read.
pub(crate) fn lineage_hint(agent: &dyn Agent, source: &Source) -> LineageHint {
    read_head(source).map_or_else(|_| LineageHint::default(), |head| agent.lineage_hint(&head))
}

fn read_head(source: &Source) -> io::Result<Vec<u8>> {
    let file = File::open(&source.path)?;
    let mut head = Vec::new();
    match source.form {
        SourceForm::Lines | SourceForm::Blocks(_) | SourceForm::Document { .. } => {
            file.take(KIN_BYTES as u64).read_to_end(&mut head)?
        }
        SourceForm::PackedLines => {
            zstd::Decoder::new(file)?.take(KIN_BYTES as u64).read_to_end(&mut head)?
        }
        // A database has no beginning.
        SourceForm::Rows => 0,
    };
    Ok(head)
}

/// Stores the bytes of a chunk as they are. Of files that are compressed already only the events
/// are stored.
fn keep_original(
    sink: &mut dyn Sink,
    source: &Source,
    chunk: &ParsedChunk,
) -> Result<(), IngestFailure> {
    let ParsedChunk { generation, from, to, ref begin, ref note, .. } = *chunk;
    // A session that only repeats another has no bytes of its own, but it begins with a note.
    if source.form == SourceForm::PackedLines || from == to && !chunk.has_opening {
        return Ok(());
    }
    let label = &SourceLabel::encode(source);
    let part = Original {
        source: &source.name,
        generation,
        offset: from,
        bytes: chunk.kept.as_deref().unwrap_or_default(),
        label,
        begin,
        note,
    };
    if chunk.kept.is_some() {
        sink.keep_original(part)?;
        return Ok(());
    }
    let file = File::open(&source.path)?;
    // The chunk has a record that is too long for memory. The file is copied piece by piece.
    let mut offset = from;
    while offset < to {
        let length = (to - offset).min(BATCH_BYTES_MAX as u64);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset)?;
        sink.keep_original(Original { offset, bytes: &bytes, ..part })?;
        offset += length;
    }
    Ok(())
}
