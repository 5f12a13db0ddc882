//! Removes old logs: by age, then by total size.
//!
//! Logs that are being written are never removed.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::day::Day;

/// How long a log is kept.
const AGE_MAX: Duration = Duration::from_secs(14 * 24 * 3_600);

/// Bytes of all logs together.
const SIZE_MAX: u64 = 2 << 30;

/// Removes logs that are too old, then the oldest of the rest while they are too large together.
/// `living` has the names of logs that are being written, without part numbers.
pub(crate) fn sweep(journal: &Path, living: &HashSet<String>, now: SystemTime) {
    sweep_within(journal, living, now, SIZE_MAX);
}

struct StoredLog {
    path: PathBuf,
    written: SystemTime,
    len: u64,
}

fn sweep_within(journal: &Path, living: &HashSet<String>, now: SystemTime, size_max: u64) {
    let mut logs: Vec<StoredLog> =
        day_folders(journal).iter().flat_map(|folder| list_logs(folder)).collect();
    // Oldest first, so that the size limit takes the oldest.
    logs.sort_by_key(|log| log.written);
    let mut size: u64 = logs.iter().map(|log| log.len).sum();
    for log in logs {
        // A log from the future, written before the clock was set back, counts as new.
        let age = now.duration_since(log.written).unwrap_or_default();
        let is_too_much = age > AGE_MAX || size > size_max;
        if is_too_much
            && !living.contains(base_name(&log.path))
            && fs::remove_file(&log.path).is_ok()
        {
            size -= log.len;
        }
    }
    for folder in day_folders(journal).iter().chain([&journal.join("health")]) {
        remove_dead_links(folder);
    }
}

/// Returns the log folders of all days.
fn day_folders(journal: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(journal).into_iter().flatten().flatten();
    let days = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| Day::parse(name).is_some())
            // No links: one could lead out of the journal, and the sweep removes files.
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    let folders = days.map(|day| day.path().join("health"));
    folders.filter(|folder| folder.symlink_metadata().is_ok_and(|found| found.is_dir())).collect()
}

fn list_logs(folder: &Path) -> Vec<StoredLog> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = entries.filter_map(|entry| {
        let path = entry.path();
        // Links to the newest part also end in `.log`; only regular files count.
        base_name(&path).ends_with(".log").then_some(())?;
        let found = path.symlink_metadata().ok().filter(|found| found.is_file())?;
        Some(StoredLog { written: found.modified().ok()?, len: found.len(), path })
    });
    logs.collect()
}

/// Returns the name of a log without its part number.
fn base_name(path: &Path) -> &str {
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
        if is_link && base_name(&path).ends_with(".log") && !path.exists() {
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
        let mut names: Vec<String> = day_folders(journal)
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn old_logs_are_removed_unless_open() {
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
    fn oldest_logs_are_removed_beyond_size() {
        let (journal, now) = (journal(), SystemTime::now());
        for (name, days_old) in [("1_a.log", 3), ("2_a.log", 2), ("3_a.log", 1), ("4_a.log", 0)] {
            log(journal.path(), "20250101", name, 100, days_old, now);
        }
        sweep_within(journal.path(), &HashSet::from(["2_a.log".to_owned()]), now, 250);
        assert_eq!(names(journal.path()), ["2_a.log", "4_a.log"]);
    }
}
