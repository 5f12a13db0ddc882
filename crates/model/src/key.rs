//! The API key: found where the settings say, never printed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ModelSettings;

/// The maximum length of a key file in bytes. A longer file is not a key.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The settings name a key, but there is none.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the variable `{0}` is not set")]
    NoVariable(String),
    #[error("cannot read the key in `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("others may read the key in `{path}` (mode {mode:o}); `chmod 600` helps")]
    NotPrivate { path: PathBuf, mode: u32 },
    #[error("the key is empty or has characters that no key has")]
    NoKey,
}

impl ModelSettings {
    /// Finds the key in a variable, in a file that only the user can read, or in the settings;
    /// `None` if the settings name none. `~` stands for `home`.
    pub fn find_key(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        home: &Path,
    ) -> Result<Option<Secret>, KeyError> {
        let found = match (&self.key_env, &self.key_file, &self.key) {
            (Some(name), ..) => variable(name).ok_or_else(|| KeyError::NoVariable(name.clone()))?,
            (None, Some(path), _) => {
                read_key_file(&home.join(path.strip_prefix("~").unwrap_or(path)))?
            }
            (None, None, Some(key)) => key.0.clone(),
            (None, None, None) => return Ok(None),
        };
        let key = found.trim();
        // The key becomes a header. A line break in it would add a second one.
        let is_key = !key.is_empty() && key.chars().all(|letter| letter.is_ascii_graphic());
        if is_key { Ok(Some(Secret(key.to_owned()))) } else { Err(KeyError::NoKey) }
    }
}

fn read_key_file(path: &Path) -> Result<String, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
    // Opened first and asked for its mode afterwards: another file cannot take its place in
    // between.
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    // Any right of the group or of others, also to write: they could plant a key of their own.
    if mode & 0o077 != 0 {
        return Err(KeyError::NotPrivate { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}
