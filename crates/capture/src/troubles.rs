//! What cannot be read is said once, not with every look, and again after it could be.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::{Warning, WarningKind};

/// Places whose trouble is remembered. With more all are forgotten, and said again.
const PLACES_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Troubles {
    /// Why a place cannot be read, as it was said last.
    said: HashMap<PathBuf, String>,
}

impl Troubles {
    /// Leaves those warnings that say something new.
    pub(crate) fn keep_new(&mut self, warnings: &mut Vec<Warning>) {
        warnings.retain(|warning| match &warning.path {
            Some(path) if warning.kind == WarningKind::Unreadable => {
                self.is_new(path, &warning.message)
            }
            _ => true,
        });
    }

    /// A place could be read.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.said.remove(path);
    }

    fn is_new(&mut self, path: &Path, why: &str) -> bool {
        if self.said.get(path).is_some_and(|said| said == why) {
            return false;
        }
        if self.said.len() >= PLACES_MAX {
            self.said.clear();
        }
        self.said.insert(path.to_owned(), why.to_owned());
        true
    }
}
