//! Looks up the recorded sessions that a new source may be related to, and links one to it.

use super::{IngestFailure, IngestSummary, Ingester, SourceCandidate, lineage_hint};
use crate::admission::admit;
use crate::agent::{Agent, SourceRole};
use crate::checkpoint::{RecordedCheckpoint, file_times};
use crate::discover::discover_at;
use crate::event_builder::EventBuilder;
use crate::limit::LINEAGE_MAX;
use crate::lineage::{Relative, RelativeFile, Relatives, RepeatedPart};
use crate::sink::{Batch, Sink};
use crate::source::Source;

/// The relatives of a source, and the checkpoints of the recorder's line in the same order.
#[derive(Default)]
pub(super) struct RelativeLookup {
    pub relatives: Relatives,
    checkpoints: Vec<RecordedCheckpoint>,
}

impl Ingester<'_> {
    /// Looks up the line of the recorder and of the named parent. Batches that were put before are
    /// durable then, so that nothing recorded is overlooked.
    pub(super) fn find_relatives(
        &self,
        provider: &str,
        part: &RepeatedPart,
        sink: &mut dyn Sink,
    ) -> Result<RelativeLookup, IngestFailure> {
        sink.settle()?;
        let (line, checkpoints) = self.ancestor_line(provider, part.recorder_name(), sink)?;
        let elders = match &part.named {
            Some(named) => self.ancestor_line(provider, named, sink)?.0,
            None => Vec::new(),
        };
        Ok(RelativeLookup { relatives: Relatives { line, elders, has_files: false }, checkpoints })
    }

    /// A session and those it was forked from, as far as they were read, youngest first.
    fn ancestor_line(
        &self,
        provider: &str,
        first: &str,
        sink: &dyn Sink,
    ) -> Result<(Vec<Relative>, Vec<RecordedCheckpoint>), IngestFailure> {
        let (mut line, mut checkpoints): (Vec<Relative>, Vec<_>) = Default::default();
        let mut next = Some(first.to_owned());
        while let Some(name) = next.take().filter(|_| line.len() < LINEAGE_MAX) {
            // Parents are named by foreign files, which may name each other in a circle.
            if line.iter().any(|relative| relative.name == name) {
                break;
            }
            let Some(recorded) = self.source_index.find_source(provider, &name, sink)? else {
                break;
            };
            let thread = recorded.1.threads.get(&name);
            let relative = Relative {
                parent: thread.and_then(|thread| thread.parent.clone()),
                is_started: thread.is_some_and(|thread| thread.is_started),
                last_at: thread.and_then(|thread| thread.last_at),
                file: None,
                name,
            };
            next = relative.forked_from().map(|parent| parent.session.clone());
            line.push(relative);
            checkpoints.push(recorded);
        }
        Ok((line, checkpoints))
    }

    /// Looks at the files of the recorder's line.
    pub(super) fn look_at_files(&self, agent: &dyn Agent, lookup: &mut RelativeLookup) {
        let RelativeLookup { relatives, checkpoints } = lookup;
        for (relative, (_, checkpoint, _)) in relatives.line.iter_mut().zip(checkpoints) {
            let found = discover_at(
                agent,
                self.environment,
                &checkpoint.path,
                &self.look(),
                &mut Vec::new(),
            );
            let found = found.into_iter().find(|found| found.source.session == relative.name);
            relative.file = found.map(|found| RelativeFile {
                is_main: found.source.role == SourceRole::Main,
                times: file_times(&found.metadata),
                hint: found.hint.unwrap_or_else(|| lineage_hint(agent, &found.source)),
            });
        }
        // Also where no file was found: otherwise `decide` would ask for them again without end.
        relatives.has_files = true;
    }

    /// Records of a session of the line that it was forked from the candidate's.
    pub(super) fn record_parent(
        &self,
        candidate: &SourceCandidate<'_>,
        lookup: RelativeLookup,
        heir: usize,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), IngestFailure> {
        let parent = &candidate.found.source;
        let Source { provider, .. } = *parent;
        let RelativeLookup { relatives, checkpoints } = lookup;
        let mut heirs = relatives.line.into_iter().zip(checkpoints);
        let (relative, (key, mut checkpoint, recorded)) =
            heirs.nth(heir).expect("a heir is a session of the line");
        let source = Source::known(provider, &key, &checkpoint.path);
        let nothing_beside = |_: &str| None;
        let (generation, now) = (checkpoint.generation, (self.clock)());
        let mut builder =
            EventBuilder::new(&source, generation, &mut checkpoint.threads, &nothing_beside, now);
        builder.switch_session(&relative.name);
        builder.comes_from(&parent.session);
        let mut drafts = builder.finish().drafts;
        // The link was found by comparing sources, so the event stands in no record.
        drafts.iter_mut().for_each(|draft| drop(draft.metadata.remove("record")));
        admit(provider, &checkpoint.threads, &mut drafts, sink);
        summary.count_events(provider, &drafts);
        self.source_index.note_checkpoint(&key, &checkpoint);
        sink.put_batch(Batch {
            source: key,
            from: Some(recorded),
            to: checkpoint.encode(),
            drafts,
        })?;
        Ok(sink.settle()?)
    }
}
