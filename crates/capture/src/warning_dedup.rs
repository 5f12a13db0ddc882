//! What cannot be read is said once, not with every look, and again after it could be.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Warning, WarningKind};

/// Places whose trouble is remembered. With more all are forgotten, and said again.
const PLACES_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct WarningDedup {
    /// Why a place cannot be read, as it was said last.
    said: HashMap<PathBuf, String>,
}

impl WarningDedup {
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

    /// Forgets folders that can be listed again, and what is gone: nobody looks at these, as at a
    /// source. What a sweep that was just made warns of is not past.
    pub(crate) fn forget_past(&mut self, warnings: &[Warning]) {
        let present: HashSet<&Path> = warnings.iter().filter_map(|it| it.path.as_deref()).collect();
        self.said.retain(|path, _| {
            let is_unlisted = || match fs::read_dir(path) {
                Ok(_) => false,
                Err(error) => error.kind() != ErrorKind::NotFound,
            };
            present.contains(&**path) || is_unlisted()
        });
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

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn what_is_gone_or_can_be_listed_again_may_be_said_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, gone, file) =
            (dir.path().join("folder"), dir.path().join("gone"), dir.path().join("a.jsonl"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "").unwrap();
        let mut warning_dedup = WarningDedup::default();
        let mut is_said = |path: &Path| {
            let error = Error::from(ErrorKind::PermissionDenied);
            let mut warnings = vec![Warning::unreadable("parrot", path, &error)];
            warning_dedup.keep_new(&mut warnings);
            warning_dedup.forget_past(&[]);
            !warnings.is_empty()
        };
        for (path, again) in [(&folder, true), (&gone, true), (&file, false)] {
            assert_eq!([is_said(path), is_said(path)], [true, again], "{}", path.display());
        }
    }
}
