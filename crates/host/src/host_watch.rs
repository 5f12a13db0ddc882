//! Tells when a look at this machine may show a change: a process has ended, or a file of an
//! agent's registry or locks has come, gone or changed.
//!
//! What is watched are the processes and folders that looks have asked for. The kernel tells of them
//! by itself, so nothing has to be looked at while nothing happens.
//!
//! Not here: what has changed, which the next look finds. It has to come without being told, too,
//! but rarely: a file system of another machine tells nothing, nor does a lock that is released
//! while its file stays open.

use std::path::Path;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos::KernelEvents;

#[cfg(not(target_os = "macos"))]
mod linux;
#[cfg(not(target_os = "macos"))]
use linux::KernelEvents;

use crate::process_info::ProcessHandle;

/// The processes and folders that are watched.
pub struct HostWatch(KernelEvents);

/// What is told of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FolderNews {
    /// A file was written and closed, or has gone.
    Files,
    /// A file was opened or closed as well: the lock on it may have a holder, or none any more.
    Locks,
}

impl HostWatch {
    /// `None` if the system does not tell such things.
    pub fn open() -> Option<HostWatch> {
        KernelEvents::open().map(HostWatch)
    }

    /// Waits for news; `false` if the watch was closed.
    pub fn wait(&self) -> bool {
        self.0.wait()
    }

    /// Ends the wait of another thread, and all later ones.
    pub fn close(&self) {
        self.0.close();
    }

    /// Whether everything is watched that looks have asked for since all folders were forgotten last.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Watches no folder until looks ask for it again.
    pub fn forget_folders(&self) {
        self.0.forget_folders();
    }

    /// Tells the end of a process from now on, for as long as its handle is held.
    pub(crate) fn add_process(&self, handle: &ProcessHandle) {
        self.0.add_process(handle);
    }

    /// Tells news of a folder from now on. One that is missing is no news until a look finds it.
    pub(crate) fn add_folder(&self, folder: &Path, news: FolderNews) {
        self.0.add_folder(folder, news);
    }

    /// A thing that a look has asked for cannot be watched.
    pub(crate) fn note_unwatched(&self) {
        self.0.note_unwatched();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
