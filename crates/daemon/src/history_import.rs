//! The account of history that is being read, shared by the two threads that work on it: `capture`
//! reads and records, `chain` writes the segments.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ingest::{Import, Output, Stage};
use segments::{SegmentKey, SegmentOutput};

/// Clones share one account.
#[derive(Clone, Default)]
pub(crate) struct HistoryImport(Arc<Mutex<Option<OpenImport>>>);

struct OpenImport {
    import: Import,
    /// The journal's last position when everything was read.
    read_up_to: Option<u64>,
}

impl HistoryImport {
    /// Begins an import. One that is open is ended as interrupted.
    pub(crate) fn begin(&self, import: Import) {
        *self.lock() = Some(OpenImport { import, read_up_to: None });
    }

    /// Changes the open import; `None` without one.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Import) -> T) -> Option<T> {
        self.lock().as_mut().map(|open| change(&mut open.import))
    }

    /// Notes that everything up to this position is read. The import is complete once its segments
    /// are written.
    pub(crate) fn finish_reading(&self, position: u64) {
        let mut open = self.lock();
        // Nothing was announced, so there is nothing to end.
        if open.as_ref().is_some_and(|open| open.import.recorded().is_none()) {
            *open = None;
        }
        if let Some(open) = open.as_mut() {
            open.read_up_to = Some(position);
        }
    }

    /// Notes that the segments before this position are written.
    pub(crate) fn note_written(&self, next_position: u64) {
        let mut open = self.lock();
        let is_over =
            |open: &mut OpenImport| open.read_up_to.is_some_and(|end| next_position > end);
        if let Some(OpenImport { import, .. }) = open.take_if(is_over) {
            import.complete();
        }
    }

    /// Ends the import because its files cannot be read.
    pub(crate) fn fail_reading(&self, error: &str) {
        if let Some(OpenImport { import, .. }) = self.lock().take() {
            import.fail_with(error);
        }
    }

    /// Ends an import whose segments cannot be written. While files are still read it goes on: the
    /// chain may have recovered by then.
    pub(crate) fn fail_writing(&self, error: &str) {
        let mut open = self.lock();
        if let Some(OpenImport { import, .. }) = open.take_if(|open| open.read_up_to.is_some()) {
            import.fail_with(error);
        }
    }

    /// Ends the import because the daemon stops or its settings have changed.
    pub(crate) fn interrupt(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenImport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a file of a segment to an account.
pub(crate) fn note_segment_output(
    import: &mut Import,
    key: &SegmentKey,
    output: SegmentOutput,
    is_new: bool,
) {
    let stage = match output {
        SegmentOutput::Transcript => Stage::Transcribing,
        SegmentOutput::Digest => Stage::Summarizing,
    };
    import.note_output(Output {
        stage,
        stream: key.stream().unwrap_or_default(),
        segment: &key.path().to_string_lossy(),
        file: output.file_name(),
        is_new,
    });
}
