//! A source as it was when it was read last: enough to see that it has no news.
//!
//! Most sources have none, so that what else a position says is not read before it is needed.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use event::Time;
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::checkpoint::{Fingerprint, changed, file_of, is_quiet, print};
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
    /// What was recorded. Of what nobody can go on from, nothing was seen.
    pub(crate) fn parse(recorded: &str) -> CheckpointStat {
        CheckpointStat::at_a_glance(recorded)
            .unwrap_or_else(|| serde_json::from_str(recorded).unwrap_or_default())
    }

    /// The same without what is only read on from, where all that counts stands before it.
    fn at_a_glance(recorded: &str) -> Option<CheckpointStat> {
        // Within a text every quote has a mark before it, so that these are the names they look
        // like.
        let (head, rest) = recorded.split_at(memmem::find(recorded.as_bytes(), b",\"threads\":")?);
        let seen: CheckpointStat = serde_json::from_str(&format!("{head}}}")).ok()?;
        let is_all = !seen.has_rest() && memmem::find(rest.as_bytes(), b"\"holds\":").is_none();
        is_all.then_some(seen)
    }

    /// Whether there was something behind what was accepted.
    fn has_rest(&self) -> bool {
        self.watermark.is_none() && self.size > self.offset && self.torn.is_none()
    }

    /// What the file system knows the file by.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether anything is known of how it begins: nothing of a document, which is written anew.
    pub(crate) fn has_beginning(&self) -> bool {
        self.head.length > 0
    }

    /// Whether it is what stands at `path` now. The system gives the number of a deleted file to
    /// another one, so that it has to begin as it did, too.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let is_there = || -> io::Result<bool> {
            let file = File::open(path)?;
            let is_same_file = file_of(&file.metadata()?) == self.file();
            Ok(is_same_file && print(&file, 0, self.head.length)? == self.head)
        };
        // What cannot be read is nothing that anybody could go on with.
        is_there().unwrap_or(false)
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
        let waits = self.has_rest() && self.state.is_some() || self.holds;
        self.file() == file_of(metadata)
            && self.size == metadata.size()
            && self.changed == changed(metadata)
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
    fn a_glance_sees_what_counts() {
        // Read to its end: what stands behind the threads says nothing.
        let recorded =
            format!("{{{HEAD},\"size\":9,\"offset\":9,\"threads\":{{}},\"state\":\"{{}}\"}}");
        let seen = CheckpointStat::at_a_glance(&recorded).unwrap();
        assert_eq!((seen.file(), seen.size, seen.state.is_none()), ((1, 2), 9, true));
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
