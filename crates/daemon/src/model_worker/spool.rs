//! Stores the queue of questions in the daemon's folder: ranges of events, and no text.

use std::path::{Path, PathBuf};

use model::QuestionQueue;

use segments::{SegmentError, write_durably};

/// The name of the file.
const NAME: &str = "model.json";

/// The file with the queue of questions.
pub(super) struct Spool {
    folder: PathBuf,
    /// The bytes saved last, to skip a write that changes nothing.
    saved: Vec<u8>,
}

impl Spool {
    pub(super) fn open(folder: &Path) -> Spool {
        Spool { folder: folder.to_owned(), saved: Vec::new() }
    }

    /// The saved queue; `None` if there is none or it cannot be read. Its questions are then lost, and
    /// their sessions keep what was found without a model.
    pub(super) fn load(&self) -> Option<QuestionQueue> {
        QuestionQueue::load(&std::fs::read(self.folder.join(NAME)).ok()?)
    }

    /// Saves the queue durably: it survives a power cut once this returns.
    pub(super) fn save(&mut self, queue: &QuestionQueue) -> Result<(), SegmentError> {
        let bytes = queue.save();
        if bytes != self.saved {
            write_durably(&self.folder, NAME, &bytes)?;
            self.saved = bytes;
        }
        Ok(())
    }

    /// Deletes the file when no model is set.
    pub(super) fn forget(folder: &Path) {
        // A missing file is fine; one that cannot be removed is outdated when it is next read.
        let _ = std::fs::remove_file(folder.join(NAME));
    }
}
