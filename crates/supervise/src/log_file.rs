//! The log file of a run: one per run and day, rotated by size, with links to the newest.
//!
//! ```text
//! 20250213/health/REF_NAME.log      first part
//! 20250213/health/REF_NAME.log.1    next part, after PART_MAX bytes
//! 20250213/health/NAME.log          link to the newest part of that day
//! health/NAME.log                   link to the newest part of all
//! ```
//!
//! A full disk does not stop the program that prints: lost lines are counted, and later lines are
//! tried again.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::clock::Clock;
use crate::day::Day;
use crate::run_ref::Ref;
use crate::safe::{append_in, folder_below, link_in, safe_form};

/// Bytes of one part. Then the log goes on in the next part.
const PART_MAX: u64 = 256 << 20;

/// Bytes buffered until the program pauses.
const BUFFER_MAX: usize = 64 << 10;

/// The folder for logs below a day's folder.
const FOLDER: &str = "health";

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    journal: PathBuf,
    name: String,
    base: String,
    clock: Clock,
    /// Whether the log stays in the folder of its day over midnight.
    is_fixed: bool,
    day: Day,
    part: u32,
    part_len: u64,
    part_max: u64,
    file: Option<File>,
    buffer: Vec<u8>,
    buffered_lines: u64,
    /// The last write failed midway, so the next one starts with a line break.
    is_torn: bool,
    /// Lines that could not be written.
    pub(crate) unwritten: u64,
    last_error: Option<String>,
    stamp: LineStamp,
}

/// The timestamp before a line, formatted once per second.
#[derive(Debug, Default)]
struct LineStamp {
    second: i64,
    text: String,
}

impl LogFile {
    /// Opens the log of a run. With a day it stays in that day's folder; without one it starts in
    /// today's and moves to the next day's at midnight.
    pub(crate) fn open(
        journal: &Path,
        reference: &Ref,
        name: &str,
        day: Option<Day>,
        clock: &Clock,
    ) -> LogFile {
        let base = LogFile::file_name(reference, name);
        let mut log = LogFile {
            journal: journal.to_owned(),
            name: name.to_owned(),
            base,
            clock: clock.clone(),
            is_fixed: day.is_some(),
            day: day.unwrap_or_else(|| clock.today()),
            part: 0,
            part_len: 0,
            part_max: PART_MAX,
            file: None,
            buffer: Vec::with_capacity(BUFFER_MAX),
            buffered_lines: 0,
            is_torn: false,
            unwritten: 0,
            last_error: None,
            stamp: LineStamp::default(),
        };
        log.reopen();
        log
    }

    /// Returns the file name for a run's log.
    pub(crate) fn file_name(reference: &Ref, name: &str) -> String {
        format!("{}_{}.log", safe_form(reference.as_str()), safe_form(name))
    }

    /// Returns the path of the current part.
    pub(crate) fn path(&self) -> PathBuf {
        self.journal.join(self.day.to_string()).join(FOLDER).join(self.part_name())
    }

    /// Adds a line. It is on disk after [`LogFile::flush`].
    pub(crate) fn write_line(&mut self, stream: &str, is_rest: bool, text: &[u8]) {
        self.update_clock();
        let more = if is_rest { "+" } else { "" };
        // Writing to memory cannot fail.
        let _ = write!(self.buffer, "{} [{}:{stream}{more}] ", self.stamp.text, self.name);
        // Programs print any bytes. The log is UTF-8 for its readers.
        let text = String::from_utf8_lossy(text);
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
        self.buffered_lines += 1;
        if self.buffer.len() >= BUFFER_MAX {
            self.flush();
        }
    }

    /// Writes the buffered lines.
    pub(crate) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if self.file.is_none() {
            self.reopen();
        }
        let written = match &mut self.file {
            Some(file) => {
                // Part of the last write may have reached the file. The new lines must not continue
                // its half line.
                let torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
                file.write_all(torn).and_then(|()| file.write_all(&self.buffer))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match written {
            Ok(()) => {
                self.part_len += self.buffer.len() as u64;
                self.is_torn = false;
                self.last_error = None;
            }
            Err(error) => {
                self.unwritten += self.buffered_lines;
                self.is_torn = true;
                self.last_error.get_or_insert(error.to_string());
            }
        }
        // Lines that could not be written are dropped, or a full disk would fill the memory.
        self.buffer.clear();
        self.buffered_lines = 0;
        // After the write, between two lines: no line is split over two parts.
        if self.part_len >= self.part_max {
            self.part += 1;
            self.reopen();
        }
    }

    /// Returns why the log cannot be written, if so.
    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Updates the timestamp once per second, and moves to the next day's folder at midnight.
    fn update_clock(&mut self) {
        let now_ms = self.clock.now_ms();
        let second = now_ms.div_euclid(1_000);
        if second == self.stamp.second && !self.stamp.text.is_empty() {
            return;
        }
        // Once per second: a chatty program prints thousands of lines with the same stamp.
        let local = self.clock.zone.local(second * 1_000);
        self.stamp = LineStamp { second, text: local.strftime("%Y-%m-%dT%H:%M:%S").to_string() };
        let day = Day::from_date(local.date());
        if !self.is_fixed && day != self.day {
            // Lines printed before midnight belong to the old file.
            self.flush();
            self.day = day;
            self.part = 0;
            self.reopen();
        }
    }

    fn reopen(&mut self) {
        match self.try_open() {
            Ok((file, len)) => {
                self.file = Some(file);
                self.part_len = len;
            }
            Err(error) => {
                self.file = None;
                self.last_error.get_or_insert(error.to_string());
            }
        }
    }

    fn try_open(&self) -> io::Result<(File, u64)> {
        let day = self.day.to_string();
        let folder = folder_below(&self.journal, &[&day, FOLDER])?;
        let name = self.part_name();
        let file = append_in(&folder, &name)?;
        // A kept task that runs again after a restart has the same ref, and its log goes on.
        let len = file.metadata()?.len();
        let link = format!("{}.log", safe_form(&self.name));
        link_in(&folder, &link, &name)?;
        let health = folder_below(&self.journal, &[FOLDER])?;
        // Relative, so that the link survives a move of the journal.
        link_in(&health, &link, &format!("../{day}/{FOLDER}/{name}"))?;
        Ok((file, len))
    }

    fn part_name(&self) -> String {
        match self.part {
            0 => self.base.clone(),
            part => format!("{}.{part}", self.base),
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(journal: &Path, day: Option<Day>) -> LogFile {
        let reference = Ref::text("r").unwrap();
        LogFile::open(journal, &reference, "job", day, &Clock::system())
    }

    fn text(journal: &Path, day: &str, name: &str) -> String {
        fs::read_to_string(journal.join(day).join("health").join(name)).unwrap()
    }

    #[test]
    fn long_log_continues_in_next_part() {
        let journal = tempfile::tempdir().unwrap();
        let day = Day::parse("20250213").unwrap();
        let mut log = open(journal.path(), Some(day));
        log.part_max = 100;
        for number in 0..9 {
            log.write_line("stdout", false, format!("line {number}").as_bytes());
            log.flush();
        }
        drop(log);
        let parts = ["r_job.log", "r_job.log.1", "r_job.log.2"];
        let all = parts.map(|part| text(journal.path(), "20250213", part));
        assert!(all.iter().all(|part| part.lines().count() == 3), "{all:?}");
        assert!(all[2].ends_with("line 8\n"));
        // The links lead to the newest part, which is still empty.
        let newest = fs::read_link(journal.path().join("health/job.log")).unwrap();
        assert_eq!(newest, Path::new("../20250213/health/r_job.log.3"));
    }

    #[test]
    fn log_moves_to_next_day_at_midnight() {
        let journal = tempfile::tempdir().unwrap();
        let yesterday = Day::parse("20250213").unwrap();
        let mut service = open(journal.path(), None);
        let mut task = open(journal.path(), Some(yesterday));
        let today = service.day;
        // As it was before midnight.
        service.day = yesterday;
        service.reopen();
        for log in [&mut service, &mut task] {
            log.write_line("stdout", false, b"after midnight");
            log.flush();
        }
        assert_eq!(text(journal.path(), &today.to_string(), "r_job.log").lines().count(), 1);
        assert_eq!(text(journal.path(), "20250213", "r_job.log").lines().count(), 1);
    }

    #[test]
    fn lost_lines_are_counted() {
        let journal = tempfile::tempdir().unwrap();
        let day = Day::parse("20250213").unwrap();
        fs::write(journal.path().join("20250213"), "in the way").unwrap();
        let mut log = open(journal.path(), Some(day));
        log.write_line("stdout", false, b"one");
        log.write_line("stdout", false, b"two");
        log.flush();
        assert_eq!(log.unwritten, 2);
        assert!(log.last_error().is_some());
        fs::remove_file(journal.path().join("20250213")).unwrap();
        log.write_line("stdout", false, b"three");
        log.flush();
        assert_eq!((log.unwritten, log.last_error()), (2, None));
        let text = text(journal.path(), "20250213", "r_job.log");
        assert!(text.ends_with(" [job:stdout] three\n"), "{text:?}");
    }
}
