//! Reports an unreadable path once, not with every poll, and again after it was readable.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Warning, WarningKind};

/// Paths that are remembered. With more, all are forgotten and their warnings come once more.
const PLACES_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct WarningDedup {
    /// The last message about each path.
    said: HashMap<PathBuf, String>,
}

impl WarningDedup {
    /// Retains the warnings that were not given before.
    pub(crate) fn retain_new(&mut self, warnings: &mut Vec<Warning>) {
        warnings.retain(|warning| match &warning.path {
            Some(path) if warning.kind == WarningKind::Unreadable => {
                self.is_new(path, &warning.message)
            }
            _ => true,
        });
    }

    /// Forgets a path that could be read.
    pub(crate) fn forget_path(&mut self, path: &Path) {
        self.said.remove(path);
    }

    /// Forgets folders that can be listed again, and paths that are gone: unlike sources, no poll
    /// clears them. Paths that the last sweep warned about stay.
    pub(crate) fn forget_cured(&mut self, warnings: &[Warning]) {
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
    fn cured_path_is_reported_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, gone, file) =
            (dir.path().join("folder"), dir.path().join("gone"), dir.path().join("a.jsonl"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "").unwrap();
        let mut warning_dedup = WarningDedup::default();
        let mut is_said = |path: &Path| {
            let error = Error::from(ErrorKind::PermissionDenied);
            let mut warnings = vec![Warning::unreadable("parrot", path, &error)];
            warning_dedup.retain_new(&mut warnings);
            warning_dedup.forget_cured(&[]);
            !warnings.is_empty()
        };
        for (path, again) in [(&folder, true), (&gone, true), (&file, false)] {
            assert_eq!([is_said(path), is_said(path)], [true, again], "{}", path.display());
        }
    }
}
