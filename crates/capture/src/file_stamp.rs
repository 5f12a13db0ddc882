//! The metadata of a source at its last poll: whether another poll can find more.
//!
//! A poll asks every agent and the sink. While the metadata stays the same, one call of the file
//! system is enough.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use event::Time;

use crate::checkpoint::{changed_at, identify_file, is_quiet, is_settled};

/// The stamps of sources that are polled again and again.
#[derive(Default)]
pub(crate) struct FileStamps(HashMap<PathBuf, FileStamp>);

/// Everything a poll depends on, as far as the file system knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileStamp {
    file: Option<StampFields>,
    /// The write-ahead log beside it: a database changes there first. Its time of status change is
    /// left out, because a reader may change it by opening the log.
    log: Option<(FileId, u64, i64)>,
    /// The last change is so long ago that incomplete records are reported as they are.
    is_quiet: bool,
    is_settled: bool,
}

/// A file, its size, and the times when its bytes and its status changed last.
type StampFields = (FileId, u64, i64, (i64, i64));

type FileId = (u64, u64);

impl FileStamps {
    /// Whether a source has the stamp of a poll that read it to its end.
    pub(crate) fn is_unchanged(&self, path: &Path, stamp: &FileStamp) -> bool {
        self.0.get(path) == Some(stamp)
    }

    /// Whether the only difference is that the source has become quiet.
    pub(crate) fn only_fell_quiet(&self, path: &Path, stamp: &FileStamp) -> bool {
        let is_so =
            |seen: &FileStamp| *seen == FileStamp { is_quiet: seen.is_quiet, ..stamp.clone() };
        self.0.get(path).is_some_and(is_so)
    }

    /// Remembers the stamp from before a poll that read the source to its end. A fresh stamp is not
    /// trusted: the same clock tick may bring another change.
    pub(crate) fn remember(&mut self, path: &Path, stamp: FileStamp) {
        if stamp.is_settled {
            self.0.insert(path.to_owned(), stamp);
        } else {
            self.forget_path(path);
        }
    }

    /// Makes the next poll a full one.
    pub(crate) fn forget_path(&mut self, path: &Path) {
        self.0.remove(path);
    }
}

impl FileStamp {
    pub(crate) fn read_from(path: &Path, now: Time) -> FileStamp {
        let mut log = OsString::from(path);
        // Every path is asked for a log: which of them are databases is not known here.
        log.push("-wal");
        let both = [fs::metadata(path).ok(), fs::metadata(log).ok()];
        let all = |is_so: &dyn Fn(&Metadata) -> bool| both.iter().flatten().all(is_so);
        let (is_quiet, is_settled) =
            (all(&|metadata| is_quiet(metadata, now)), all(&|metadata| is_settled(metadata, now)));
        let [file, log] = both.map(|metadata| metadata.as_ref().map(stamp_fields));
        let log = log.map(|(file, size, changed, _)| (file, size, changed));
        FileStamp { file, log, is_quiet, is_settled }
    }
}

fn stamp_fields(metadata: &Metadata) -> StampFields {
    // A tool that restores times can set back the time of change, not that of the status change.
    let known = (metadata.ctime(), metadata.ctime_nsec());
    (identify_file(metadata), metadata.size(), changed_at(metadata), known)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, SystemTime};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn file_of_yesterday(path: &Path) -> File {
        let file = File::options().create(true).append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - DAY).unwrap();
        file
    }

    fn now() -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Time::from_nanos(since.as_nanos() as i128)
    }

    fn add_seconds(than: Time, seconds: i128) -> Time {
        Time::from_nanos(than.nanos() + seconds * 1_000_000_000)
    }

    #[test]
    fn grown_file_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let mut file = file_of_yesterday(&path);
        let mut stamps = FileStamps::default();
        stamps.remember(&path, FileStamp::read_from(&path, now()));
        assert!(stamps.is_unchanged(&path, &FileStamp::read_from(&path, now())));
        file.write_all(b"more\n").unwrap();
        assert!(!stamps.is_unchanged(&path, &FileStamp::read_from(&path, now())));
    }

    #[test]
    fn grown_log_changes_the_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        file_of_yesterday(&path);
        let mut log = file_of_yesterday(&dir.path().join("a.db-wal"));
        let mut stamps = FileStamps::default();
        stamps.remember(&path, FileStamp::read_from(&path, now()));
        log.write_all(b"a page").unwrap();
        assert!(!stamps.is_unchanged(&path, &FileStamp::read_from(&path, now())));
    }

    #[test]
    fn opened_log_keeps_the_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        file_of_yesterday(&path);
        let log = file_of_yesterday(&dir.path().join("a.db-wal"));
        let mut stamps = FileStamps::default();
        stamps.remember(&path, FileStamp::read_from(&path, now()));
        // Changes the time of status change and nothing else.
        log.set_permissions(log.metadata().unwrap().permissions()).unwrap();
        assert!(stamps.is_unchanged(&path, &FileStamp::read_from(&path, now())));
    }

    #[test]
    fn quiet_file_is_polled_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let file = File::create(&path).unwrap();
        let written = now();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(written.nanos() as u64))
            .unwrap();
        let mut stamps = FileStamps::default();
        stamps.remember(&path, FileStamp::read_from(&path, add_seconds(written, 2)));
        assert!(stamps.is_unchanged(&path, &FileStamp::read_from(&path, add_seconds(written, 60))));
        assert!(
            !stamps
                .is_unchanged(&path, &FileStamp::read_from(&path, add_seconds(written, 60 * 60)))
        );
        assert!(
            stamps.only_fell_quiet(
                &path,
                &FileStamp::read_from(&path, add_seconds(written, 60 * 60))
            )
        );
        fs::write(&path, "more\n").unwrap();
        assert!(
            !stamps.only_fell_quiet(
                &path,
                &FileStamp::read_from(&path, add_seconds(written, 60 * 60))
            )
        );
    }

    #[test]
    fn fresh_stamp_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        File::create(&path).unwrap();
        let stamp = FileStamp::read_from(&path, now());
        let mut stamps = FileStamps::default();
        stamps.remember(&path, stamp.clone());
        assert!(!stamps.is_unchanged(&path, &stamp));
    }

    #[test]
    fn forgotten_stamp_makes_a_full_poll() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        file_of_yesterday(&path);
        let stamp = FileStamp::read_from(&path, now());
        let mut stamps = FileStamps::default();
        stamps.remember(&path, stamp.clone());
        stamps.forget_path(&path);
        assert!(!stamps.is_unchanged(&path, &stamp));
    }
}
