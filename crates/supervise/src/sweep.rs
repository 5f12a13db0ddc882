//! Old logs go: by age, then by how much there is.
//!
//! Files of processes that live are never removed.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::day::Day;

/// How long a log is kept.
const AGE_MAX: Duration = Duration::from_secs(14 * 24 * 3_600);

/// Bytes of all logs together.
const SIZE_MAX: u64 = 2 << 30;

/// Removes logs that are too old, and the oldest of the rest if they are too many. `living` are the
/// names of files, without the numbers of their parts, that are being written.
pub(crate) fn sweep(journal: &Path, living: &HashSet<String>, now: SystemTime) {
    sweep_within(journal, living, now, SIZE_MAX);
}

struct Log {
    path: PathBuf,
    written: SystemTime,
    len: u64,
}

fn sweep_within(journal: &Path, living: &HashSet<String>, now: SystemTime, size_max: u64) {
    let mut logs: Vec<Log> = folders(journal).iter().flat_map(|folder| logs(folder)).collect();
    logs.sort_by_key(|log| log.written);
    let mut size: u64 = logs.iter().map(|log| log.len).sum();
    for log in logs {
        let age = now.duration_since(log.written).unwrap_or_default();
        let is_too_much = age > AGE_MAX || size > size_max;
        if is_too_much && !living.contains(base(&log.path)) && fs::remove_file(&log.path).is_ok() {
            size -= log.len;
        }
    }
    for folder in folders(journal).iter().chain([&journal.join("health")]) {
        remove_dead_links(folder);
    }
}

/// The folders of days that have logs.
fn folders(journal: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(journal).into_iter().flatten().flatten();
    let days = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| Day::parse(name).is_some())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    let folders = days.map(|day| day.path().join("health"));
    folders.filter(|folder| folder.symlink_metadata().is_ok_and(|found| found.is_dir())).collect()
}

fn logs(folder: &Path) -> Vec<Log> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = entries.filter_map(|entry| {
        let path = entry.path();
        base(&path).ends_with(".log").then_some(())?;
        let found = path.symlink_metadata().ok().filter(|found| found.is_file())?;
        Some(Log { written: found.modified().ok()?, len: found.len(), path })
    });
    logs.collect()
}

/// The name of a log without the number of its part.
fn base(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.rsplit_once('.') {
        Some((base, part)) if part.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

fn remove_dead_links(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link && base(&path).ends_with(".log") && !path.exists() {
            // The next log of that name replaces it anyway.
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn log(journal: &Path, day: &str, name: &str, len: usize, days_old: u64, now: SystemTime) {
        let folder = journal.join(day).join("health");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, vec![b'x'; len]).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(now - Duration::from_secs(days_old * 24 * 3_600)).unwrap();
    }

    fn names(journal: &Path) -> Vec<String> {
        let mut names: Vec<String> = folders(journal)
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_two_weeks_old_goes_unless_it_is_being_written() {
        let (journal, now) = (journal(), SystemTime::now());
        log(journal.path(), "20250101", "1_old.log", 1, 20, now);
        log(journal.path(), "20250101", "2_new.log", 1, 1, now);
        log(journal.path(), "20250101", "3_living.log", 1, 20, now);
        log(journal.path(), "20250102", "3_living.log.1", 1, 20, now);
        log(journal.path(), "20250102", "notes.txt", 1, 20, now);
        let folder = journal.path().join("20250101/health");
        std::os::unix::fs::symlink("1_old.log", folder.join("old.log")).unwrap();
        std::os::unix::fs::symlink("2_new.log", folder.join("new.log")).unwrap();
        sweep(journal.path(), &HashSet::from(["3_living.log".to_owned()]), now);
        let left = ["2_new.log", "3_living.log", "3_living.log.1", "new.log", "notes.txt"];
        assert_eq!(names(journal.path()), left);
    }

    #[test]
    fn of_too_much_the_oldest_goes() {
        let (journal, now) = (journal(), SystemTime::now());
        for (name, days_old) in [("1_a.log", 3), ("2_a.log", 2), ("3_a.log", 1), ("4_a.log", 0)] {
            log(journal.path(), "20250101", name, 100, days_old, now);
        }
        sweep_within(journal.path(), &HashSet::from(["2_a.log".to_owned()]), now, 250);
        assert_eq!(names(journal.path()), ["2_a.log", "4_a.log"]);
    }
}
