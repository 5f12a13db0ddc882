//! What waits to be asked, in a file of the daemon's own folder: ranges of events, and no text.

use std::path::{Path, PathBuf};

use model::QuestionQueue;

use segments::{SegmentError, write_durably};

/// The name of the file.
const NAME: &str = "model.json";

pub(super) struct Spool {
    folder: PathBuf,
    /// What was saved last.
    saved: Vec<u8>,
}

impl Spool {
    pub(super) fn open(folder: &Path) -> Spool {
        Spool { folder: folder.to_owned(), saved: Vec::new() }
    }

    /// What was saved; `None` if that is nothing, or nothing this program understands. Then what
    /// waited is lost: what was found without a model stays.
    pub(super) fn load(&self) -> Option<QuestionQueue> {
        QuestionQueue::load(&std::fs::read(self.folder.join(NAME)).ok()?)
    }

    /// Saves it, and returns when a power cut cannot take it back.
    pub(super) fn save(&mut self, queue: &QuestionQueue) -> Result<(), SegmentError> {
        let bytes = queue.save();
        if bytes != self.saved {
            write_durably(&self.folder, NAME, &bytes)?;
            self.saved = bytes;
        }
        Ok(())
    }

    /// Nobody is asked any more.
    pub(super) fn forget(folder: &Path) {
        // One that is not there is what is wanted; one that stays is old when it is looked at.
        let _ = std::fs::remove_file(folder.join(NAME));
    }
}
