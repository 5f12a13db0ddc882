//! What lets us in: found where the settings say, shown to nobody.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Settings;

/// Bytes of a key. A longer file is something else.
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

/// Why there is no key although one is meant.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the variable `{0}` is not set")]
    NoVariable(String),
    #[error("cannot read the key in `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("others may read the key in `{path}` (mode {mode:o}); `chmod 600` helps")]
    NotPrivate { path: PathBuf, mode: u32 },
    #[error("the key has nothing in it, or what no key has")]
    NoKey,
}

impl Settings {
    /// The key, from a variable, a file of the user's alone, or the settings themselves; `None` if
    /// none is needed. `~` is `home`.
    pub fn find_key(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        home: &Path,
    ) -> Result<Option<Secret>, KeyError> {
        let found = match (&self.key_env, &self.key_file, &self.key) {
            (Some(name), ..) => variable(name).ok_or_else(|| KeyError::NoVariable(name.clone()))?,
            (None, Some(path), _) => read(&home.join(path.strip_prefix("~").unwrap_or(path)))?,
            (None, None, Some(key)) => key.0.clone(),
            (None, None, None) => return Ok(None),
        };
        let key = found.trim();
        // It becomes a header, and must not become two.
        let is_key = !key.is_empty() && key.chars().all(|letter| letter.is_ascii_graphic());
        if is_key { Ok(Some(Secret(key.to_owned()))) } else { Err(KeyError::NoKey) }
    }
}

fn read(path: &Path) -> Result<String, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::NotPrivate { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}
