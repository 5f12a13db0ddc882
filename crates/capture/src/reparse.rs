//! Parses sources again with the current parsers, from their stored originals.
//!
//! Recorded events stay as they are. A record that was not understood before gives its events now,
//! and the first of them amends the event that reported the unknown record. Nothing is recorded
//! twice and nothing is removed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use event::{AMENDS, Draft, EventId, Kind, Raw, UNDERSTOOD};

use crate::admission::admit;
use crate::agent::{Agent, RecognizedSource, SourceForm, SourceRoot};
use crate::checkpoint::Checkpoint;
use crate::discover::discover;
use crate::error::{CaptureError, Warning, WarningKind};
use crate::event_builder::{ParsedEvents, session_id};
use crate::ingester::{IngestFailure, IngestProgress, IngestSummary, Ingester};
use crate::known_sources::{KnownSources, position_of};
use crate::original::chunks_of;
use crate::retelling::{Retelling, RetoldChunk};
use crate::sink::{Batch, Sink, StoredOriginal, UnknownRecord};
use crate::source::Source;
use crate::thread_state::ThreadState;

impl Ingester<'_> {
    /// Parses all sources of one agent again, as far as their originals are stored.
    pub fn reparse(
        &self,
        provider: &str,
        sink: &mut dyn Sink,
        tell: &mut dyn FnMut(&IngestProgress),
    ) -> Result<IngestSummary, CaptureError> {
        let mut summary = IngestSummary::default();
        let agents = self.agents.iter().filter(|agent| agent.provider() == provider);
        for agent in agents {
            let sources = self.sources_of(*agent, sink, &mut summary)?;
            let sources_total = sources.len() as u64;
            let mut progress = IngestProgress { sources_total, ..IngestProgress::default() };
            for (source, checkpoint, recorded) in sources {
                if self.stop.is_asked() {
                    break;
                }
                tell(&progress);
                let again =
                    self.read_again(*agent, &source, &checkpoint, &recorded, sink, &mut summary);
                match again {
                    Ok(()) => summary.sources += 1,
                    Err(IngestFailure::Source(error)) => {
                        let warning = Warning::unreadable(source.provider, &source.path, &error);
                        summary.warnings.push(warning);
                    }
                    Err(IngestFailure::Sink(error)) => {
                        return Err(CaptureError::Sink { path: source.path, source: error });
                    }
                }
                progress.sources += 1;
                progress.bytes = summary.bytes;
                progress.events = summary.events;
            }
        }
        sink.settle().map_err(CaptureError::Unrecorded)?;
        summary.report_unknown();
        Ok(summary)
    }

    /// The sources of an agent that were read before, whether they still exist or not.
    fn sources_of(
        &self,
        agent: &dyn Agent,
        sink: &dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Vec<(Source, Checkpoint, String)>, CaptureError> {
        let mut known = KnownSources::load(sink)?;
        let mut sources = Vec::new();
        for mut found in discover(agent, self.environment, &self.look(), &mut summary.warnings) {
            if known.claim(&mut found).is_some()
                && let Some((checkpoint, recorded)) = position_of(&found.source.key(), sink)?
            {
                sources.push((found.source, checkpoint, recorded));
            }
        }
        // These files are gone, but their originals may be stored.
        for key in known.unclaimed(agent.provider()) {
            let Some((checkpoint, recorded)) = position_of(&key, sink)? else { continue };
            let gone = Source::known(agent.provider(), &key, &checkpoint.path);
            let found = self.recognised(agent, &checkpoint);
            match found {
                Some(RecognizedSource { form, session, role }) => {
                    // The path of a database does not contain the session.
                    let first = || checkpoint.threads.keys().next().cloned();
                    let first = if form == SourceForm::Rows { first() } else { None };
                    let source = Source { form, session: first.unwrap_or(session), role, ..gone };
                    sources.push((source, checkpoint, recorded));
                }
                None => summary.warnings.push(not_kept(&gone)),
            }
        }
        Ok(sources)
    }

    /// What a source is by its path, though the file may be gone.
    pub(crate) fn recognised(
        &self,
        agent: &dyn Agent,
        checkpoint: &Checkpoint,
    ) -> Option<RecognizedSource> {
        let below = |root: &Path| agent.recognise(checkpoint.path.strip_prefix(root).ok()?);
        agent.source_roots(self.environment).into_iter().find_map(|SourceRoot { path, .. }| {
            // Sources are recorded below the target of a root that is a link.
            let linked = path.canonicalize().ok();
            below(&path).or_else(|| below(&linked?))
        })
    }

    fn read_again(
        &self,
        agent: &dyn Agent,
        source: &Source,
        checkpoint: &Checkpoint,
        recorded: &str,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), IngestFailure> {
        let mut unknown = HashMap::new();
        for session in checkpoint.threads.keys() {
            for record in sink.unknown_in(&session_id(source.provider, session))? {
                unknown.insert(record.record.clone(), record);
            }
        }
        // The keys of rows are not stored with them, so some of their events could not be recognised.
        // Unknown records are recognised by their place, so only these are parsed again.
        let only: Option<HashSet<String>> =
            (source.form == SourceForm::Rows).then(|| unknown.keys().cloned().collect());
        let mut last = None;
        // Of earlier generations only the originals are left: the file was truncated or replaced.
        for generation in 0..=checkpoint.generation {
            let kept = match source.form {
                // Of a compressed source no original is stored.
                SourceForm::PackedLines if generation == checkpoint.generation => {
                    read_packed(source, checkpoint)?
                }
                _ => sink.original(&source.name, generation)?,
            };
            let Some(kept) = kept else { continue };
            let Some(mut again) = Retelling::open(agent, source, generation, kept) else {
                continue;
            };
            // The original of a fork begins behind the part it copied. Earlier versions did not
            // store the state of the reader there.
            if !again.knows_beginning() && !again.learn(checkpoint, (self.clock)())? {
                continue;
            }
            let is_held = generation == checkpoint.generation && checkpoint.holds;
            while let Some(RetoldChunk { parsed, bytes }) =
                again.next_chunk((self.clock)(), is_held)?
            {
                summary.bytes += bytes;
                let mut drafts = select_new(parsed, &mut unknown, only.as_ref(), sink)?;
                admit(source.provider, &checkpoint.threads, &mut drafts, sink);
                summary.count_events(source.provider, &drafts);
                if !drafts.is_empty() {
                    // The position does not move: the tailer goes on where it was.
                    let to = recorded.to_owned();
                    let from = Some(to.clone());
                    sink.put_batch(Batch { source: source.key(), from, to, drafts })?;
                }
            }
            // Reading goes on from the newest generation, so only the state behind that one counts.
            last = Some(again).filter(|_| generation == checkpoint.generation);
        }
        let Some(Retelling { parser, threads, .. }) = last else {
            summary.warnings.push(not_kept(source));
            return Ok(());
        };
        let merged = Checkpoint {
            state: Some(parser.save_state()),
            holds: parser.holds_event(),
            threads: merge_threads(&checkpoint.threads, threads),
            ..checkpoint.clone()
        };
        let (from, to) = (Some(recorded.to_owned()), merged.encode());
        // The current parser may keep another state than the one that was recorded.
        if from.as_ref() != Some(&to) {
            sink.put_batch(Batch { source: source.key(), from, to, drafts: Vec::new() })?;
        }
        Ok(())
    }
}

/// The events that are not recorded yet, of all records or of `only` some. The first new event of a
/// record that was not understood amends the event that reported it.
fn select_new(
    parsed: ParsedEvents,
    unknown: &mut HashMap<String, UnknownRecord>,
    only: Option<&HashSet<String>>,
    sink: &dyn Sink,
) -> Result<Vec<Draft>, IngestFailure> {
    let record_of = |draft: &Draft| draft.metadata.get("record").and_then(Raw::text);
    // A record that gives an unknown event once more is not understood any better.
    let still_unknown: Vec<String> = parsed
        .drafts
        .iter()
        .filter(|draft| draft.kind == Kind::Unknown)
        .filter_map(record_of)
        .collect();
    let mut by_session: BTreeMap<_, Vec<Draft>> = BTreeMap::new();
    for draft in parsed.drafts {
        by_session.entry(draft.session_id.clone()).or_default().push(draft);
    }
    let mut news = Vec::new();
    for (session, drafts) in by_session {
        let ids: Vec<EventId> = drafts.iter().map(|draft| draft.id).collect();
        // Ids are derived from the records, so events that were recorded before are found by
        // theirs.
        let known = sink.find_events(&session, &ids)?;
        let fresh = drafts.into_iter().zip(known).filter(|(_, seq)| seq.is_none());
        for (mut draft, _) in fresh {
            let record = record_of(&draft).unwrap_or_default();
            let is_asked_for =
                |only: &HashSet<_>| only.contains(&record) && draft.kind != Kind::Unknown;
            if !only.is_none_or(is_asked_for) {
                continue;
            }
            if !still_unknown.contains(&record)
                && let Some(UnknownRecord { id, record_type, .. }) = unknown.remove(&record)
            {
                let encoded = "texts and ids always encode";
                draft.metadata.insert(AMENDS.to_owned(), Raw::from_value(&id).expect(encoded));
                let record_type = Raw::from_value(&record_type).expect(encoded);
                draft.metadata.insert(UNDERSTOOD.to_owned(), record_type);
            }
            news.push(draft);
        }
    }
    Ok(news)
}

/// The states of sessions after parsing again. Epochs that the clock or a hook closed stand in no
/// source, so their fields are taken from before.
fn merge_threads(
    before: &BTreeMap<String, ThreadState>,
    now: BTreeMap<String, ThreadState>,
) -> BTreeMap<String, ThreadState> {
    let mut merged = before.clone();
    for (session, thread) in now {
        let thread = match before.get(&session) {
            Some(before) => ThreadState {
                parent: before.parent.clone().or(thread.parent),
                epoch: before.epoch.max(thread.epoch),
                epoch_from: before.epoch_from,
                is_exited: before.is_exited,
                ..thread
            },
            None => thread,
        };
        merged.insert(session, thread);
    }
    merged
}

fn not_kept(source: &Source) -> Warning {
    let message = "nothing was kept of it that could be read again; it stays as it is";
    Warning::new(WarningKind::Unreadable, source.provider, &source.path, message)
}

/// The text of a compressed file up to where it was read, if it is still there.
fn read_packed(source: &Source, checkpoint: &Checkpoint) -> io::Result<Option<StoredOriginal>> {
    let Ok(file) = File::open(&source.path) else { return Ok(None) };
    if !checkpoint.matches_packed(&file, file.metadata()?.len())? {
        return Ok(None);
    }
    Ok(Some(chunks_of(zstd::Decoder::new(file)?.take(checkpoint.offset))))
}
