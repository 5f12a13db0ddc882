//! A place an agent writes to.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::agent::{SourceForm, SourceRole};

/// A file or database with records of one agent.
#[derive(Clone, Debug)]
pub struct Source {
    /// A short name that stays when the file moves: where its originals are kept.
    pub name: String,
    pub provider: &'static str,
    pub path: PathBuf,
    /// The root it was found below.
    pub root: PathBuf,
    pub form: SourceForm,
    /// The provider's id of the session, as far as the file's name tells.
    pub session: String,
    pub role: SourceRole,
    /// For a session in a database: what changes with everything that is said in it.
    pub digest: Option<String>,
}

impl Source {
    /// The name of a source that is seen for the first time at `path`.
    pub(crate) fn first_name(provider: &str, path: &Path) -> String {
        let mut hash = Sha256::new();
        hash.update(provider.as_bytes());
        // Neither part can contain a zero, so that no two pairs run together.
        hash.update([0]);
        hash.update(path.as_os_str().as_encoded_bytes());
        encode_hex(&hash.finalize()[..8])
    }

    /// The name of a source that took the place of another one, which still exists elsewhere.
    pub(crate) fn next_name(name: &str, (device, inode): (u64, u64)) -> String {
        let mut hash = Sha256::new();
        hash.update(name.as_bytes());
        hash.update(device.to_be_bytes());
        hash.update(inode.to_be_bytes());
        encode_hex(&hash.finalize()[..8])
    }

    /// A source that was read before, for events about it that need no reading.
    pub(crate) fn known(provider: &'static str, key: &str, path: &Path) -> Source {
        Source {
            name: key.split_once(':').map_or("", |(_, name)| name).to_owned(),
            provider,
            path: path.to_owned(),
            root: path.to_owned(),
            form: SourceForm::Lines,
            // The caller names the session of each event.
            session: String::new(),
            role: SourceRole::Main,
            digest: None,
        }
    }

    /// The key under which the journal knows how far it was read.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    pub fn file_name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its name without a mark of compression: places in it stay what they were.
    pub(crate) fn plain_name(&self) -> &str {
        self.file_name().trim_end_matches(".zst")
    }

    pub fn stem(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

/// Enough of a hash to tell the few things apart that a parser remembers.
pub(crate) fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    encode_hex(&hash.finalize()[..5])
}
