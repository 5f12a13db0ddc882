//! On macOS nothing is watched: its calls for the end of a process need `unsafe`, which this
//! workspace denies.

use std::path::Path;

use super::FolderNews;
use crate::process_info::ProcessHandle;

/// There is none.
pub(super) enum KernelEvents {}

impl KernelEvents {
    pub(super) fn open() -> Option<KernelEvents> {
        None
    }

    pub(super) fn wait(&self) -> bool {
        match *self {}
    }

    pub(super) fn close(&self) {
        match *self {}
    }

    pub(super) fn is_complete(&self) -> bool {
        match *self {}
    }

    pub(super) fn forget_folders(&self) {
        match *self {}
    }

    pub(super) fn add_process(&self, _: &ProcessHandle) {
        match *self {}
    }

    pub(super) fn add_folder(&self, _: &Path, _: FolderNews) {
        match *self {}
    }

    pub(super) fn note_unwatched(&self) {
        match *self {}
    }
}
