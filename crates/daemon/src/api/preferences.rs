//! What the user chose in the page: a small file in the journal's folder.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use segments::write_durably;
use serve::SourceError;
use wire::Preferences;

/// The name of the file.
const NAME: &str = "preferences.json";

/// Bytes of all preferences together. A change beyond it is refused: the page has a few dozen
/// choices, not documents.
const BYTES_MAX: usize = 16 * 1024;

/// The preferences of one journal.
pub(crate) struct PreferenceFile {
    folder: PathBuf,
    /// Held while the file is changed: two windows may change different things at once.
    changing: Mutex<()>,
}

impl PreferenceFile {
    pub(crate) fn in_folder(folder: impl Into<PathBuf>) -> PreferenceFile {
        PreferenceFile { folder: folder.into(), changing: Mutex::default() }
    }

    /// Reads the preferences. A file that was damaged counts as empty: each has a default.
    pub(crate) fn read(&self) -> Result<Preferences, SourceError> {
        let path = self.folder.join(NAME);
        match fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Preferences::default()),
            Err(error) => {
                Err(SourceError::Other(format!("cannot read `{}`: {error}", path.display())))
            }
        }
    }

    /// Changes some preferences; one that is `null` is removed. Returns all.
    pub(crate) fn change(&self, changes: &Preferences) -> Result<Preferences, SourceError> {
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.read()?;
        for (name, value) in &changes.0 {
            match value.is_null() {
                true => _ = all.0.remove(name),
                false => _ = all.0.insert(name.clone(), value.clone()),
            }
        }
        let failed = |error: &dyn std::fmt::Display| {
            SourceError::Other(format!("cannot keep the preferences: {error}"))
        };
        let text = serde_json::to_vec(&all).map_err(|error| failed(&error))?;
        if text.len() > BYTES_MAX {
            let given = format!("{} bytes", text.len());
            return Err(SourceError::Bad { given, expected: "at most 16 KiB of preferences" });
        }
        write_durably(&self.folder, NAME, &text).map_err(|error| failed(&error))?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn preferences(value: Value) -> Preferences {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn changes_are_merged_and_bounded() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = PreferenceFile::in_folder(dir.path());
        assert_eq!(file.read().unwrap(), Preferences::default());
        file.change(&preferences(json!({"theme": "dark", "sounds": true}))).unwrap();
        file.change(&preferences(json!({"sounds": null, "badges": false}))).unwrap();
        let expected = preferences(json!({"theme": "dark", "badges": false}));
        assert_eq!(PreferenceFile::in_folder(dir.path()).read().unwrap(), expected);
        let long = preferences(json!({"theme": "x".repeat(BYTES_MAX)}));
        assert!(matches!(file.change(&long), Err(SourceError::Bad { .. })));
        assert_eq!(file.read().unwrap(), expected);
        fs::write(dir.path().join(NAME), "{torn").unwrap();
        assert_eq!(file.read().unwrap(), Preferences::default());
    }
}
