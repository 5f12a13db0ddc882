//! Closes epochs to which nothing was added for long.
//!
//! The events of a source depend on its bytes alone, and bytes cannot say that nothing follows; the
//! clock does. The event has the id that parsing would give it if a record came after the pause, so
//! it is recorded once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;

use crate::admission::admit;
use crate::checkpoint::Checkpoint;
use crate::error::CaptureError;
use crate::event_builder::EventBuilder;
use crate::ingester::{IngestSummary, Ingester};
use crate::sink::{Batch, KnownSource, Sink, SinkError};
use crate::source::Source;

/// The sources that may have an open epoch: those that had one at the last sweep, and those that
/// were read since.
#[derive(Default)]
pub(crate) struct OpenEpochs(RefCell<Option<BTreeSet<String>>>);

impl OpenEpochs {
    /// Whether a source has one. Searching the text is cheaper than parsing it, and most have none.
    pub(crate) fn has_open_epoch(recorded: &str) -> bool {
        recorded.contains("\"epoch_from\"")
    }

    /// Replaces the set after a sweep, or after its epochs were closed.
    pub(crate) fn replace_keys(&self, keys: BTreeSet<String>) {
        self.0.replace(Some(keys));
    }

    /// Adds a source that is read on.
    pub(crate) fn may_be_in(&self, key: String) {
        if let Some(keys) = &mut *self.0.borrow_mut() {
            keys.insert(key);
        }
    }

    /// Takes the sources with open epochs, with their recorded checkpoints.
    fn take_sources(&self, sink: &dyn Sink) -> Result<Vec<(String, String)>, SinkError> {
        let mut open = Vec::new();
        // Taken out, because the epochs are closed now. If that fails, the set is not known any
        // more, and the next time the checkpoints of all sources are searched.
        if let Some(keys) = self.0.take() {
            for key in keys {
                // The epoch may have been closed since the source was noted.
                let recorded =
                    sink.source(&key)?.filter(|recorded| OpenEpochs::has_open_epoch(recorded));
                open.extend(recorded.map(|recorded| (key, recorded)));
            }
        } else {
            sink.show_sources(&mut |known: KnownSource<'_>| {
                if OpenEpochs::has_open_epoch(known.checkpoint) {
                    open.push((known.key.to_owned(), known.checkpoint.to_owned()));
                }
            })?;
        }
        Ok(open)
    }
}

impl Ingester<'_> {
    /// Closes the epochs of sources that were silent for half an hour. An epoch stays open while a
    /// turn is open and `runs` says of its provider and session that the agent's process is alive: a
    /// build may take long.
    pub fn close_silent(
        &self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        runs: &dyn Fn(&str, &str) -> bool,
    ) -> Result<(), CaptureError> {
        let now = (self.clock)();
        let before = summary.events;
        let open = self.open_epochs.take_sources(sink).map_err(CaptureError::Positions)?;
        let mut still_open: BTreeSet<String> = open.iter().map(|(key, _)| key.clone()).collect();
        for (key, recorded) in open {
            if self.stop.is_asked() {
                break;
            }
            let Some(mut checkpoint) = Checkpoint::parse(&recorded) else { continue };
            let (provider, _) = key.split_once(':').unwrap_or_default();
            let agent = self.agents.iter().find(|agent| agent.provider() == provider);
            // A file that has grown is read first: its bytes decide where the epoch ends.
            let Some(agent) =
                agent.filter(|_| checkpoint.is_silent(now) && !has_grown(&checkpoint))
            else {
                continue;
            };
            let path = checkpoint.path.clone();
            let source = Source::known(agent.provider(), &key, &path);
            let nothing_beside = |_: &str| None;
            let generation = checkpoint.generation;
            let mut builder = EventBuilder::new(
                &source,
                generation,
                &mut checkpoint.threads,
                &nothing_beside,
                now,
            );
            builder.fall_silent(&|session| runs(provider, session));
            let mut drafts = builder.finish().drafts;
            if drafts.is_empty() {
                continue;
            }
            // The clock closed the epoch, so the event stands in no record.
            drafts.iter_mut().for_each(|draft| drop(draft.metadata.remove("record")));
            admit(agent.provider(), &checkpoint.threads, &mut drafts, sink);
            summary.count_events(agent.provider(), &drafts);
            let to = checkpoint.encode();
            if !OpenEpochs::has_open_epoch(&to) {
                still_open.remove(&key);
            }
            let batch = Batch { source: key, from: Some(recorded), to, drafts };
            sink.put_batch(batch).map_err(|source| CaptureError::Sink { path, source })?;
        }
        if summary.events > before {
            sink.settle().map_err(CaptureError::Unrecorded)?;
        }
        self.open_epochs.replace_keys(still_open);
        Ok(())
    }
}

/// Whether the file has bytes that were not read yet.
fn has_grown(checkpoint: &Checkpoint) -> bool {
    // The size of a database says nothing about one of its sessions.
    let is_file = checkpoint.watermark.is_none();
    is_file && fs::metadata(&checkpoint.path).is_ok_and(|there| there.len() > checkpoint.size)
}
