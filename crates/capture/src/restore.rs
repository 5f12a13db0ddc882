//! What a journal has lost, taken from the stored originals.
//!
//! Ids are derived from the records, so an event that is told again is the event that was lost. The
//! journal keeps what it has; only what it lacks is put.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::payload::SessionStarted;
use event::{Draft, EventId, Kind, SessionId};

use crate::admission::admit;
use crate::agent::{Agent, RecognizedSource, SourceForm};
use crate::checkpoint::Checkpoint;
use crate::error::{CaptureError, Warning};
use crate::event_builder::session_id;
use crate::ingester::{IngestFailure, Ingester};
use crate::known_sources::position_of;
use crate::original::SourceLabel;
use crate::retelling::{Retelling, RetoldChunk};
use crate::sink::{Batch, KnownSource, Sink, SinkError};
use crate::source::Source;

/// A source of which originals are stored. The source itself may be gone.
pub struct StoredSource<'a> {
    agent: &'a dyn Agent,
    source: Source,
    generations: Vec<u32>,
}

/// How much is restored of sources that the journal knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreScope {
    /// What stands behind the journal's checkpoint: the journal is sound, and may be an older copy.
    BehindCheckpoints,
    /// Every event that is missing: the journal was damaged.
    Everything,
}

/// What a restore did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreSummary {
    /// Sources with originals.
    pub sources: u64,
    /// Sources that the journal did not know.
    pub unknown_sources: u64,
    /// Events that the journal lacked.
    pub events: u64,
    pub sessions: BTreeSet<SessionId>,
    /// Originals that do not say which source they come from, by name.
    pub unlabelled: Vec<String>,
    pub warnings: Vec<Warning>,
}

impl<'a> Ingester<'a> {
    /// Lists the sources with originals, parents before their forks. The names behind them are of
    /// originals that cannot be parsed: nothing says which source they come from.
    pub fn stored_sources(
        &self,
        sink: &dyn Sink,
    ) -> Result<(Vec<StoredSource<'a>>, Vec<String>), CaptureError> {
        let mut generations: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (name, generation) in sink.originals().map_err(CaptureError::Positions)? {
            generations.entry(name).or_default().push(generation);
        }
        let mut recorded = HashMap::new();
        let show = &mut |known: KnownSource<'_>| {
            if let Some((_, name)) = known.key.split_once(':') {
                recorded.insert(name.to_owned(), known.key.to_owned());
            }
        };
        // Needed only for originals without a label. A journal that is too damaged to list its
        // sources is one that this is for.
        let _ = sink.show_sources(show);
        let (mut stored, mut unlabelled) = (Vec::new(), Vec::new());
        for (name, generations) in generations {
            let newest = generations.last().copied().unwrap_or_default();
            let label = sink.original_label(&name, newest).map_err(CaptureError::Positions)?;
            let found = SourceLabel::source(&label, &name, self.agents);
            let found = match (found, recorded.get(&name)) {
                (None, Some(key)) => self.recorded_source(key, sink)?,
                (found, _) => found,
            };
            match found {
                Some((agent, source)) => stored.push(StoredSource { agent, source, generations }),
                None => unlabelled.push(name),
            }
        }
        Ok((parents_first(stored, sink)?, unlabelled))
    }

    /// A source by its checkpoint, for originals of an earlier version, which have no label.
    fn recorded_source(
        &self,
        key: &str,
        sink: &dyn Sink,
    ) -> Result<Option<(&'a dyn Agent, Source)>, CaptureError> {
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        let agent = self.agents.iter().find(|agent| agent.provider() == provider);
        let (Some(agent), Some((checkpoint, _))) = (agent, position_of(key, sink)?) else {
            return Ok(None);
        };
        let known = Source::known(agent.provider(), key, &checkpoint.path);
        let found = self.recognised(*agent, &checkpoint);
        Ok(found.map(|RecognizedSource { form, session, role }| {
            // The path of a database does not contain the session.
            let first = || checkpoint.threads.keys().next().cloned();
            let first = if form == SourceForm::Rows { first() } else { None };
            (*agent, Source { form, session: first.unwrap_or(session), role, ..known })
        }))
    }

    /// Passes on the events of a source as they were recorded.
    pub fn retell(
        &self,
        stored: &StoredSource<'a>,
        sink: &dyn Sink,
        told: &mut dyn FnMut(Vec<Draft>),
    ) -> Result<(), CaptureError> {
        for &generation in &stored.generations {
            let kept = sink.original(&stored.source.name, generation);
            let Some(kept) = kept.map_err(CaptureError::Positions)? else { continue };
            let StoredSource { agent, source, .. } = stored;
            let Some(mut retelling) = Retelling::open(*agent, source, generation, kept) else {
                continue;
            };
            // A part that cannot be read ends the source; what was told before it counts.
            while let Ok(Some(RetoldChunk { parsed, .. })) =
                retelling.next_chunk((self.clock)(), false)
            {
                if !retelling.has_unidentified {
                    told(parsed.drafts);
                }
            }
        }
        Ok(())
    }

    /// Puts what the originals tell and the sink does not have.
    pub fn restore(
        &self,
        scope: RestoreScope,
        sink: &mut dyn Sink,
        tell: &mut dyn FnMut(&RestoreSummary),
    ) -> Result<RestoreSummary, CaptureError> {
        let mut summary = RestoreSummary::default();
        let (stored, unlabelled) = self.stored_sources(sink)?;
        summary.unlabelled = unlabelled;
        for stored in &stored {
            if self.stop.is_asked() {
                break;
            }
            tell(&summary);
            match self.restore_source(stored, scope, sink, &mut summary) {
                Ok(()) => summary.sources += 1,
                Err(IngestFailure::Source(error)) => {
                    let StoredSource { source, .. } = stored;
                    let warning = Warning::unreadable(source.provider, &source.path, &error);
                    summary.warnings.push(warning);
                }
                Err(IngestFailure::Sink(error)) => {
                    let path = stored.source.path.clone();
                    return Err(CaptureError::Sink { path, source: error });
                }
            }
        }
        sink.settle().map_err(CaptureError::Unrecorded)?;
        Ok(summary)
    }

    fn restore_source(
        &self,
        stored: &StoredSource<'a>,
        scope: RestoreScope,
        sink: &mut dyn Sink,
        summary: &mut RestoreSummary,
    ) -> Result<(), IngestFailure> {
        let StoredSource { agent, source, generations } = stored;
        let key = source.key();
        let mut recorded = sink.source(&key)?;
        let known = recorded.as_deref().map(|text| Checkpoint::parse(text).unwrap_or_default());
        // The source itself tells the rest when it is read on. That is no damage: after a crash, and
        // beside a daemon, originals are ahead of the journal.
        if scope == RestoreScope::BehindCheckpoints && source.path.exists() {
            return Ok(());
        }
        summary.unknown_sources += u64::from(known.is_none());
        for &generation in generations {
            let Some(kept) = sink.original(&source.name, generation)? else { continue };
            let Some(mut retelling) = Retelling::open(*agent, source, generation, kept) else {
                continue;
            };
            self.number_parent(source, &mut retelling, sink)?;
            while let Some(RetoldChunk { parsed, .. }) =
                retelling.next_chunk((self.clock)(), false)?
            {
                let mut drafts = parsed.drafts;
                if let Some(known) = &known {
                    // Without keys every event of a row would seem to be missing.
                    if retelling.has_unidentified {
                        break;
                    }
                    drafts.retain(|draft| is_missing_in(draft, source, known, scope));
                }
                admit(source.provider, &retelling.threads, &mut drafts, sink);
                let drafts = absent(drafts, sink)?;
                summary.events += drafts.len() as u64;
                summary.sessions.extend(drafts.iter().map(|draft| draft.session_id.clone()));
                // The position of a known source does not move: reading goes on where it was.
                let to = match (&known, &recorded) {
                    (Some(_), Some(recorded)) => recorded.clone(),
                    _ => retelling.checkpoint().encode(),
                };
                if !drafts.is_empty() || recorded.as_ref() != Some(&to) {
                    let from = recorded.replace(to.clone());
                    sink.put_batch(Batch { source: key.clone(), from, to, drafts })?;
                }
            }
        }
        Ok(())
    }

    /// Numbers the event that a fork goes on from as the sink has it now.
    fn number_parent(
        &self,
        source: &Source,
        retelling: &mut Retelling<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let event = retelling.parent_event;
        let (Some(event), Some(link)) = (event, retelling.parent()) else { return Ok(()) };
        // The parent was put a moment ago.
        sink.settle()?;
        let parent = session_id(source.provider, &link.session);
        if let Some(seq) = sink.find_events(&parent, &[event])?.first().copied().flatten() {
            link.seq = seq;
        }
        Ok(())
    }
}

/// Whether an event of a source that the journal knows may be missing there.
fn is_missing_in(draft: &Draft, source: &Source, known: &Checkpoint, scope: RestoreScope) -> bool {
    // The clock and hooks close epochs too and count them on, so that those of the journal may have
    // other numbers.
    let is_resumed = || draft.readable::<SessionStarted>().is_some_and(|started| started.resumed);
    if draft.kind == Kind::EpochClosed || is_resumed() {
        return false;
    }
    scope == RestoreScope::Everything || is_behind(draft, source, known)
}

/// Whether the record of an event stands behind a checkpoint.
fn is_behind(draft: &Draft, source: &Source, known: &Checkpoint) -> bool {
    let record = draft.metadata.get("record").and_then(event::Raw::text).unwrap_or_default();
    let place = record.strip_prefix(&source.name).and_then(|rest| rest.strip_prefix('/'));
    let place = place.and_then(|rest| rest.split_once('/'));
    let Some((generation, place)) = place else { return false };
    let offset = place.split_once('+').and_then(|(offset, _)| offset.parse::<u64>().ok());
    match (generation.parse::<u32>(), offset) {
        (Ok(generation), Some(offset)) => (generation, offset) >= (known.generation, known.offset),
        _ => false,
    }
}

/// The drafts that the sink does not have.
fn absent(drafts: Vec<Draft>, sink: &dyn Sink) -> Result<Vec<Draft>, SinkError> {
    let mut by_session: BTreeMap<SessionId, Vec<EventId>> = BTreeMap::new();
    for draft in &drafts {
        by_session.entry(draft.session_id.clone()).or_default().push(draft.id);
    }
    let mut there = BTreeSet::new();
    for (session, ids) in by_session {
        let found = sink.find_events(&session, &ids)?;
        there.extend(ids.into_iter().zip(found).filter_map(|(id, seq)| seq.map(|_| id)));
    }
    Ok(drafts.into_iter().filter(|draft| !there.contains(&draft.id)).collect())
}

/// Puts the sources of a session before those of its forks.
fn parents_first<'a>(
    stored: Vec<StoredSource<'a>>,
    sink: &dyn Sink,
) -> Result<Vec<StoredSource<'a>>, CaptureError> {
    let mut parents: HashMap<String, String> = HashMap::new();
    for StoredSource { agent, source, generations } in &stored {
        let Some(&first) = generations.first() else { continue };
        let kept = sink.original(&source.name, first).map_err(CaptureError::Positions)?;
        let retelling = kept.and_then(|kept| Retelling::open(*agent, source, first, kept));
        if let Some(link) = retelling.and_then(|mut retelling| retelling.parent().cloned()) {
            parents.insert(session_of(source), format!("{} {}", source.provider, link.session));
        }
    }
    let depth = |stored: &StoredSource<'_>| {
        let mut session = session_of(&stored.source);
        // Bounded by the number of links: a circle ends there.
        (0..parents.len())
            .take_while(|_| match parents.get(&session) {
                Some(parent) => {
                    session.clone_from(parent);
                    true
                }
                None => false,
            })
            .count()
    };
    let mut ordered: Vec<(usize, StoredSource<'a>)> =
        stored.into_iter().map(|stored| (depth(&stored), stored)).collect();
    ordered.sort_by(|(one, left), (other, right)| {
        (one, left.source.file_name()).cmp(&(other, right.source.file_name()))
    });
    Ok(ordered.into_iter().map(|(_, stored)| stored).collect())
}

fn session_of(source: &Source) -> String {
    format!("{} {}", source.provider, source.session)
}
