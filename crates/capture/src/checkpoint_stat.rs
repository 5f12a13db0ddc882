//! The part of a checkpoint that shows whether its source has news.
//!
//! A sweep compares thousands of checkpoints, and most sources have no news. So only this part is
//! parsed, and the rest when the source is read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use event::Time;
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::checkpoint::{Fingerprint, changed_at, fingerprint, identify_file, is_quiet};
use crate::source::Source;

/// The part of a [`Checkpoint`](crate::checkpoint::Checkpoint) that tells whether there is news.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CheckpointStat {
    pub path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: i64,
    offset: u64,
    head: Fingerprint,
    watermark: Option<IgnoredAny>,
    digest: Option<String>,
    torn: Option<IgnoredAny>,
    pub is_missing: bool,
    holds: bool,
    state: Option<IgnoredAny>,
}

impl CheckpointStat {
    /// Parses the recorded text. One that cannot be parsed counts as a source that was never read.
    pub(crate) fn parse(recorded: &str) -> CheckpointStat {
        CheckpointStat::parse_head(recorded)
            .unwrap_or_else(|| serde_json::from_str(recorded).unwrap_or_default())
    }

    /// Parses only the text before `threads`; `None` if a field behind it may count, too.
    fn parse_head(recorded: &str) -> Option<CheckpointStat> {
        // Inside a JSON string quotes are escaped, so these bytes can only be the names of fields.
        let (head, rest) = recorded.split_at(memmem::find(recorded.as_bytes(), b",\"threads\":")?);
        let seen: CheckpointStat = serde_json::from_str(&format!("{head}}}")).ok()?;
        let is_all = !seen.has_rest() && memmem::find(rest.as_bytes(), b"\"holds\":").is_none();
        is_all.then_some(seen)
    }

    /// Whether the file went on behind the last complete record.
    fn has_rest(&self) -> bool {
        self.watermark.is_none() && self.size > self.offset && self.torn.is_none()
    }

    /// Device and inode.
    pub(crate) fn file_identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether the first bytes are known. Those of a document, which is written anew, are not.
    pub(crate) fn has_beginning(&self) -> bool {
        self.head.length > 0
    }

    /// Whether the file at `path` is this source. The system may give the inode of a deleted file to
    /// another one, so the first bytes are compared, too.
    pub(crate) fn is_at_path(&self, path: &Path) -> bool {
        let is_there = || -> io::Result<bool> {
            let file = File::open(path)?;
            let is_same_file = identify_file(&file.metadata()?) == self.file_identity();
            Ok(is_same_file && fingerprint(&file, 0, self.head.length)? == self.head)
        };
        // A file that cannot be read cannot be read on.
        is_there().unwrap_or(false)
    }

    /// Whether its path is known.
    pub(crate) fn has_path(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }

    /// Whether its file is only this source. A database holds many.
    pub(crate) fn is_whole_file(&self) -> bool {
        self.digest.is_none()
    }

    /// Whether the file did not change since, and nothing held back is due.
    pub(crate) fn is_current(&self, source: &Source, metadata: &Metadata, now: Time) -> bool {
        // The file of a database changes with every session in it, the digest only with this one.
        if source.digest.is_some() {
            return self.digest == source.digest
                && self.file_identity() == identify_file(metadata)
                && !self.is_missing;
        }
        // A rest or a held event is due once the source is quiet, though the file stays as it is.
        let waits = self.has_rest() && self.state.is_some() || self.holds;
        self.file_identity() == identify_file(metadata)
            && self.size == metadata.size()
            && self.changed == changed_at(metadata)
            && !self.is_missing
            && !(waits && is_quiet(metadata, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\"path\":\"/home/dev/,\\\"threads\\\":.jsonl\",\"device\":1,\"inode\":2";

    fn check(rest: &str) {
        let recorded = format!("{{{HEAD},{rest}}}");
        let whole: CheckpointStat = serde_json::from_str(&recorded).unwrap_or_default();
        assert_eq!(
            format!("{:?}", CheckpointStat::parse(&recorded)),
            format!("{whole:?}"),
            "{rest}"
        );
    }

    #[test]
    fn head_has_every_field_that_counts() {
        // Read to its end: the fields behind `threads` do not count.
        let recorded =
            format!("{{{HEAD},\"size\":9,\"offset\":9,\"threads\":{{}},\"state\":\"{{}}\"}}");
        let seen = CheckpointStat::parse_head(&recorded).unwrap();
        assert_eq!((seen.file_identity(), seen.size, seen.state.is_none()), ((1, 2), 9, true));
        assert!(seen.path.ends_with(",\"threads\":.jsonl"));
        for rest in [
            "\"size\":9,\"offset\":4,\"threads\":{},\"state\":\"{}\"",
            "\"size\":9,\"offset\":4,\"torn\":{},\"threads\":{}",
            "\"size\":9,\"offset\":9,\"threads\":{},\"holds\":true",
            "\"size\":9,\"offset\":9,\"digest\":\"d\",\"is_missing\":true,\"threads\":{}",
            "\"size\":9,\"offset\":9,\"watermark\":\"w\",\"threads\":{}",
            "\"size\":\"nine\",\"threads\":{}",
            "\"size\":9",
        ] {
            check(rest);
        }
    }
}
