//! Notifications of the file system, as hints which sources to poll.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use notify::EventKind;
use notify::event::{ModifyKind, RenameMode};

use crate::database;
use crate::error::{Warning, WarningKind};

/// Wakes that wait in the channel. With more, all sources are listed again instead.
pub(crate) const HINTS_MAX: usize = 16_384;

/// What wakes the watcher.
pub(crate) enum Wake {
    Changed(PathBuf),
    /// A file or a folder is gone; it may come again.
    Gone(PathBuf),
    /// A folder appeared. Files that were put into it at once are not always announced.
    Folder(PathBuf),
    /// The round task has work.
    RoundTask,
    Stop,
}

/// Turns notifications into wakes.
pub(crate) struct Hints {
    pub sender: SyncSender<Wake>,
    pub has_lost_events: Arc<AtomicBool>,
}

impl Hints {
    pub(crate) fn take(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return self.report_loss() };
        // The system dropped notifications because its queue was full.
        if event.need_rescan() {
            self.report_loss();
        }
        // Reading changes nothing, and our own polls would wake the watcher.
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        let is_about = matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
        for path in event.paths {
            // Of a database that its owner has left, our own poll writes the index of the log; every
            // commit changes the log as well.
            if database::is_log_index(&path) {
                continue;
            }
            // As root, SQLite restores the owner of a log whenever it opens one. Our own poll would
            // then cause the next poll without end.
            if is_about && database::database_of_log(&path) != path {
                continue;
            }
            let wake = match event.kind {
                // A file that moves is announced under both names: gone here, changed at its new
                // place.
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                    Wake::Gone(path)
                }
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) if path.is_dir() => {
                    Wake::Folder(path)
                }
                _ => Wake::Changed(path),
            };
            if let Err(TrySendError::Full(_)) = self.sender.try_send(wake) {
                self.report_loss();
            }
        }
    }

    fn report_loss(&self) {
        self.has_lost_events.store(true, Ordering::Relaxed);
        // A full channel means that another round comes anyway.
        let _ = self.sender.try_send(Wake::RoundTask);
    }
}

/// The warning about a folder that the system refuses to watch.
pub(crate) fn not_watched(provider: &'static str, root: &Path, error: &notify::Error) -> Warning {
    let remedy = match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "; raise the limit with `sysctl fs.inotify.max_user_watches=524288`"
        }
        _ => "",
    };
    let message =
        format!("it cannot be watched ({error}) and is looked at every few seconds{remedy}");
    Warning::new(WarningKind::NotWatched, provider, root, message)
}

/// The warning about a watched folder, if the system does not announce all changes in it.
pub(crate) fn missing_out(provider: &'static str, root: &Path) -> Warning {
    let message =
        "the system does not tell of all changes there; it is looked at every few seconds";
    Warning::new(WarningKind::NotWatched, provider, root, message)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn poll_of_a_log_causes_no_further_poll() {
        let (sender, wakes) = mpsc::sync_channel(HINTS_MAX);
        let hints = Hints { sender, has_lost_events: Arc::default() };
        let tell = |kind, name: &str| {
            let event = notify::Event::new(EventKind::Modify(kind)).add_path(name.into());
            hints.take(Ok(event));
            wakes.try_recv().is_ok()
        };
        let owner = ModifyKind::Metadata(notify::event::MetadataKind::Any);
        let bytes = ModifyKind::Data(notify::event::DataChange::Any);
        assert!(!tell(owner, "/home/dev/opencode.db-wal"));
        assert!(!tell(owner, "/home/dev/opencode.db-shm"));
        assert!(tell(bytes, "/home/dev/opencode.db-wal"));
        assert!(!tell(bytes, "/home/dev/opencode.db-shm"), "a reader writes it");
        assert!(tell(owner, "/home/dev/opencode.db"), "it may be readable now");
    }
}
