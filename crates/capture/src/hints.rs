//! What the system tells of files, as hints to look: where something changed, came or went.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use notify::EventKind;
use notify::event::{ModifyKind, RenameMode};

use crate::database;
use crate::error::{Warning, WarningKind};

/// Hints that wait to be looked at. When there are more, everything is listed again instead.
pub(crate) const HINTS_MAX: usize = 16_384;

/// What wakes the watch.
pub(crate) enum Wake {
    Changed(PathBuf),
    /// A file or a folder is gone, perhaps only to come again.
    Gone(PathBuf),
    /// A folder appeared: what was put into it at once is not always told.
    Folder(PathBuf),
    /// There is something to do beside sources.
    RoundTask,
    Stop,
}

/// Where notifications go. Each one is only a hint to look.
pub(crate) struct Hints {
    pub sender: SyncSender<Wake>,
    pub has_lost_count: Arc<AtomicBool>,
}

impl Hints {
    pub(crate) fn take(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return self.lose_count() };
        if event.need_rescan() {
            self.lose_count();
        }
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        let is_about = matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
        for path in event.paths {
            // A reader that may do anything gives a log back to its owner whenever it opens one: we
            // would tell ourselves to look for ever.
            if is_about && database::of_log(&path) != path {
                continue;
            }
            let wake = match event.kind {
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                    Wake::Gone(path)
                }
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) if path.is_dir() => {
                    Wake::Folder(path)
                }
                _ => Wake::Changed(path),
            };
            if let Err(TrySendError::Full(_)) = self.sender.try_send(wake) {
                self.lose_count();
            }
        }
    }

    fn lose_count(&self) {
        self.has_lost_count.store(true, Ordering::Relaxed);
        // One that has so much to do makes another round anyway.
        let _ = self.sender.try_send(Wake::RoundTask);
    }
}

/// A folder that the system does not watch.
pub(crate) fn not_watched(provider: &'static str, root: &Path, error: &notify::Error) -> Warning {
    let remedy = match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "; raise the limit with `sysctl fs.inotify.max_user_watches=524288`"
        }
        _ => "",
    };
    Warning {
        kind: WarningKind::NotWatched,
        provider,
        version: None,
        path: Some(root.to_owned()),
        message: format!(
            "it cannot be watched ({error}) and is looked at every few seconds{remedy}"
        ),
        count: 1,
    }
}

/// A folder that is watched in vain.
pub(crate) fn missing_out(provider: &'static str, root: &Path) -> Warning {
    Warning {
        kind: WarningKind::NotWatched,
        provider,
        version: None,
        path: Some(root.to_owned()),
        message: "the system does not tell of all changes there; it is looked at every few seconds"
            .to_owned(),
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_a_look_does_to_a_log_is_no_reason_to_look_again() {
        let (sender, wakes) = mpsc::sync_channel(HINTS_MAX);
        let hints = Hints { sender, has_lost_count: Arc::default() };
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
        assert!(tell(owner, "/home/dev/opencode.db"), "it may be readable now");
    }
}
