//! What a source looked like when it was looked at last: whether another look can find more.
//!
//! A look asks every agent and the sink. While nothing happens, asking the file system is enough.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use event::Time;

use crate::checkpoint::{changed, file_of, is_quiet, is_settled};

/// How sources looked, of those that are looked at again and again.
#[derive(Default)]
pub(crate) struct FileStamps(HashMap<PathBuf, FileStamp>);

/// Everything a look goes by, as far as the file system tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileStamp {
    file: Option<StampFields>,
    /// Of the log beside it: what happens to a database happens there first. When something else
    /// than its bytes was changed says nothing: a reader may do that by opening it.
    log: Option<(FileId, u64, i64)>,
    /// Nobody has written for so long that what is not finished is told as it is.
    is_quiet: bool,
    is_settled: bool,
}

/// A file, its size, and when its bytes and what is known of it were changed last.
type StampFields = (FileId, u64, i64, (i64, i64));

type FileId = (u64, u64);

impl FileStamps {
    /// Whether a source looks as it did when a look found nothing more.
    pub(crate) fn has(&self, path: &Path, stamp: &FileStamp) -> bool {
        self.0.get(path) == Some(stamp)
    }

    /// Whether nothing has happened to a source since then, but that nobody has written for long.
    pub(crate) fn only_fell_silent(&self, path: &Path, stamp: &FileStamp) -> bool {
        let is_so =
            |seen: &FileStamp| *seen == FileStamp { is_quiet: seen.is_quiet, ..stamp.clone() };
        self.0.get(path).is_some_and(is_so)
    }

    /// A look that was begun after this glance has found all there was.
    pub(crate) fn put(&mut self, path: &Path, stamp: FileStamp) {
        if stamp.is_settled {
            self.0.insert(path.to_owned(), stamp);
        } else {
            self.forget(path);
        }
    }

    /// The next look is a whole one.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }
}

impl FileStamp {
    pub(crate) fn at(path: &Path, now: Time) -> FileStamp {
        let mut log = OsString::from(path);
        log.push("-wal");
        let both = [fs::metadata(path).ok(), fs::metadata(log).ok()];
        let all = |is_so: &dyn Fn(&Metadata) -> bool| both.iter().flatten().all(is_so);
        let (is_quiet, is_settled) =
            (all(&|metadata| is_quiet(metadata, now)), all(&|metadata| is_settled(metadata, now)));
        let [file, log] = both.map(|metadata| metadata.as_ref().map(stamp));
        let log = log.map(|(file, size, changed, _)| (file, size, changed));
        FileStamp { file, log, is_quiet, is_settled }
    }
}

fn stamp(metadata: &Metadata) -> StampFields {
    let known = (metadata.ctime(), metadata.ctime_nsec());
    (file_of(metadata), metadata.size(), changed(metadata), known)
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

    fn later(than: Time, seconds: i128) -> Time {
        Time::from_nanos(than.nanos() + seconds * 1_000_000_000)
    }

    #[test]
    fn a_file_that_grew_looks_different() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let mut file = file_of_yesterday(&path);
        let mut stamps = FileStamps::default();
        stamps.put(&path, FileStamp::at(&path, now()));
        assert!(stamps.has(&path, &FileStamp::at(&path, now())));
        file.write_all(b"more\n").unwrap();
        assert!(!stamps.has(&path, &FileStamp::at(&path, now())));
    }

    #[test]
    fn a_database_looks_different_when_its_log_grew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        file_of_yesterday(&path);
        let mut log = file_of_yesterday(&dir.path().join("a.db-wal"));
        let mut stamps = FileStamps::default();
        stamps.put(&path, FileStamp::at(&path, now()));
        log.write_all(b"a page").unwrap();
        assert!(!stamps.has(&path, &FileStamp::at(&path, now())));
    }

    #[test]
    fn a_database_looks_the_same_when_its_log_was_only_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        file_of_yesterday(&path);
        let log = file_of_yesterday(&dir.path().join("a.db-wal"));
        let mut stamps = FileStamps::default();
        stamps.put(&path, FileStamp::at(&path, now()));
        // Changes when something was changed last, and nothing else.
        log.set_permissions(log.metadata().unwrap().permissions()).unwrap();
        assert!(stamps.has(&path, &FileStamp::at(&path, now())));
    }

    #[test]
    fn a_file_that_fell_silent_long_ago_is_looked_at_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let file = File::create(&path).unwrap();
        let written = now();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(written.nanos() as u64))
            .unwrap();
        let mut stamps = FileStamps::default();
        stamps.put(&path, FileStamp::at(&path, later(written, 2)));
        assert!(stamps.has(&path, &FileStamp::at(&path, later(written, 60))));
        assert!(!stamps.has(&path, &FileStamp::at(&path, later(written, 60 * 60))));
        assert!(stamps.only_fell_silent(&path, &FileStamp::at(&path, later(written, 60 * 60))));
        fs::write(&path, "more\n").unwrap();
        assert!(!stamps.only_fell_silent(&path, &FileStamp::at(&path, later(written, 60 * 60))));
    }

    #[test]
    fn what_was_written_just_now_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        File::create(&path).unwrap();
        let stamp = FileStamp::at(&path, now());
        let mut stamps = FileStamps::default();
        stamps.put(&path, stamp.clone());
        assert!(!stamps.has(&path, &stamp));
    }

    #[test]
    fn what_was_told_of_is_looked_at_whatever_it_looks_like() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        file_of_yesterday(&path);
        let stamp = FileStamp::at(&path, now());
        let mut stamps = FileStamps::default();
        stamps.put(&path, stamp.clone());
        stamps.forget(&path);
        assert!(!stamps.has(&path, &stamp));
    }
}
