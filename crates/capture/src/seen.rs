//! A source as it was when it was read last: enough to see that it has no news.
//!
//! Most sources have none, so that what else a position says is not read before it is needed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use event::Time;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::position::{changed, file_of, is_quiet};
use crate::source::Source;

/// The part of a [`Position`](crate::position::Position) that tells whether there is news.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Seen {
    pub path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: i64,
    offset: u64,
    watermark: Option<IgnoredAny>,
    digest: Option<String>,
    torn: Option<IgnoredAny>,
    pub is_missing: bool,
    holds: bool,
    state: Option<IgnoredAny>,
}

impl Seen {
    /// What was recorded. Of what nobody can go on from, nothing was seen.
    pub(crate) fn parse(recorded: &str) -> Seen {
        serde_json::from_str(recorded).unwrap_or_default()
    }

    /// What the file system knows the file by.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether anybody knows where it was.
    pub(crate) fn had_place(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }

    /// Whether its file is this source and no other: a database is many.
    pub(crate) fn is_whole_file(&self) -> bool {
        self.digest.is_none()
    }

    /// Whether nothing has happened to the file since, and nothing is overdue.
    pub(crate) fn is_current(&self, source: &Source, metadata: &Metadata, now: Time) -> bool {
        if source.digest.is_some() {
            return self.digest == source.digest
                && self.file() == file_of(metadata)
                && !self.is_missing;
        }
        let is_in_place = self.watermark.is_none();
        let has_open_line =
            is_in_place && self.size > self.offset && self.torn.is_none() && self.state.is_some();
        let waits = has_open_line || self.holds;
        self.file() == file_of(metadata)
            && self.size == metadata.size()
            && self.changed == changed(metadata)
            && !self.is_missing
            && !(waits && is_quiet(metadata, now))
    }
}
