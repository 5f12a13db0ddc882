//! Processes as `/proc` shows them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use event::{ProcessStart, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, open, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Ancestor, Inspection, ProcessInfo};
use crate::command_line::{ARGUMENTS_MAX, CommandLine, WORDS_MAX};

/// Processes below one that are listed. Those further away from it are left out.
const DESCENDANTS_MAX: usize = 64;

/// Threads of a process whose children are listed. What the others started is left out.
const THREADS_MAX: usize = 256;

/// Processes in one scan. A scan that finds more is incomplete and proves nothing.
const PROCESSES_MAX: usize = 65_536;

/// Bytes of `/proc/PID/stat` that are read: 52 numbers and a name, at most some 1,100.
const STAT_BYTES_MAX: usize = 2_048;

/// Bytes of a command line that are read. A prompt may be longer; words behind it are not seen.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of the command line of an ancestor that are read. The program stands among the first words.
const ANCESTOR_BYTES_MAX: usize = 4 * 1024;

/// Open files of a process that are looked at. A transcript among the others is not seen.
const FILES_MAX: usize = 1_024;

/// What the kernel appends to the working directory of a process once that was removed.
const REMOVED: &[u8] = b" (deleted)";

/// Clock ticks per second in `/proc` (`USER_HZ`), the same on all supported systems.
const TICKS_PER_SEC: i128 = 100;

/// How far the time of the boot moves if the clock is set. Less than this is the error of a read.
const CLOCK_SET_NANOS: i128 = 1_000_000_000;

/// A process that is held on to: it tells the end of that very process, whatever has its pid.
pub(crate) struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// `None` if there is no such process, or the kernel is older than these handles.
    pub(crate) fn open(pid: u32) -> Option<ProcessHandle> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(ProcessHandle)
    }

    /// Returns the pids of those that have ended.
    pub(crate) fn find_ended<'a>(
        handles: impl Iterator<Item = (u32, &'a ProcessHandle)>,
    ) -> Vec<u32> {
        // One becomes readable with the end of its process, also before its parent has noticed.
        let (pids, mut polled): (Vec<u32>, Vec<PollFd<'_>>) =
            handles.map(|(pid, handle)| (pid, PollFd::new(&handle.0, PollFlags::IN))).unzip();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If the system does not tell, all of them are looked at anew.
        let is_told = poll(&mut polled, Some(&at_once)).is_ok();
        let has_ended = |handle: &PollFd<'_>| !is_told || !handle.revents().is_empty();
        let ended = pids.into_iter().zip(&polled).filter(|(_, handle)| has_ended(handle));
        ended.map(|(pid, _)| pid).collect()
    }
}

/// It becomes readable with the end of the process.
impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Looks at one process: one small file, the owner of its folder and one link.
pub(crate) fn inspect(pid: u32) -> Inspection {
    let inspection = read_process(pid).unwrap_or_else(failed_read);
    // Without a mounted `/proc` every process is missing there.
    let is_mounted = || Path::new("/proc/self/stat").exists();
    if inspection == Inspection::Gone && !is_mounted() {
        return Inspection::by_signal(pid);
    }
    inspection
}

fn read_process(pid: u32) -> Result<Inspection, Errno> {
    let folder = open_process(pid)?;
    let mut text = [0; STAT_BYTES_MAX];
    let text = read_file(&folder, "stat", &mut text)?;
    let text = String::from_utf8_lossy(text);
    let Some(stat) = ProcessStat::parse(&text) else { return Ok(Inspection::Unknown) };
    if stat.has_ended {
        return Ok(Inspection::Gone);
    }
    // The kernel hides the working directory of other users' processes.
    let cwd = readlinkat(&folder, "cwd", Vec::new()).ok();
    let cwd = cwd.map(|path| {
        let path = path.as_bytes().strip_suffix(REMOVED).unwrap_or(path.as_bytes()).to_vec();
        PathBuf::from(std::ffi::OsString::from_vec(path))
    });
    Ok(Inspection::Running(ProcessInfo {
        pid,
        started: ProcessStart::Ticks(stat.ticks),
        uid: read_user(&folder)?,
        parent: stat.parent(),
        name: stat.name.to_owned(),
        cwd,
    }))
}

/// Opens the folder of a process. Every read goes through this handle: it stays with its process,
/// even if the kernel gives the pid to another one between two reads.
fn open_process(pid: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(format!("/proc/{pid}"), flags, Mode::empty())
}

/// Reads the beginning of a file in one call. The kernel makes the text of such a file at once.
fn read_file<'b>(folder: &OwnedFd, name: &str, bytes: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let file = openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(&file, &mut *bytes)?;
    Ok(&bytes[..length])
}

/// Returns the effective user: the folder belongs to it. Its files may belong to root instead, for
/// a process that must not be dumped.
fn read_user(folder: &OwnedFd) -> Result<u32, Errno> {
    Ok(fstat(folder)?.st_uid)
}

/// Looks at a process above this one: two small files and the owner of their folder.
pub(crate) fn read_ancestor(pid: u32) -> Option<Ancestor> {
    let folder = open_process(pid).ok()?;
    let mut text = [0; STAT_BYTES_MAX];
    let text = String::from_utf8_lossy(read_file(&folder, "stat", &mut text).ok()?);
    let stat = ProcessStat::parse(&text).filter(|stat| !stat.has_ended)?;
    let mut line = [0; ANCESTOR_BYTES_MAX];
    let line = read_file(&folder, "cmdline", &mut line).ok();
    Some(Ancestor {
        started: ProcessStart::Ticks(stat.ticks),
        uid: read_user(&folder).ok()?,
        parent: stat.parent(),
        line: line.map(|line| split_words(pid, line, WORDS_MAX)),
    })
}

/// Returns what a failed read proves. A missing process has no folder (`NOENT`), and one that ends
/// during the read has no answers (`SRCH`). Every other error is about the reader, which has no
/// descriptor or no permission.
fn failed_read(error: Errno) -> Inspection {
    match error {
        Errno::NOENT | Errno::SRCH => Inspection::Gone,
        _ => Inspection::Unknown,
    }
}

/// Fields of `/proc/PID/stat`.
struct ProcessStat<'a> {
    name: &'a str,
    has_ended: bool,
    parent: u32,
    ticks: u64,
}

impl ProcessStat<'_> {
    /// The first process has no parent.
    fn parent(&self) -> Option<u32> {
        Some(self.parent).filter(|parent| *parent > 0)
    }

    fn parse(stat: &str) -> Option<ProcessStat<'_>> {
        // The name may contain spaces and parentheses, so fields count from the last `)`.
        let (head, fields) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = fields.split_whitespace();
        // Fields 3 (state), 4 (parent) and 22 (start time) of proc(5). `nth` skips those between.
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let ticks = fields.nth(17)?.parse().ok()?;
        // A zombie has ended: its parent has not collected it yet.
        Some(ProcessStat { name, has_ended: matches!(state, "Z" | "X"), parent, ticks })
    }
}

/// Returns when a process started by the clock of this machine: a few hundredths of a second early,
/// and never late, because what is older than a process is not its work.
pub(crate) fn started_at(start: ProcessStart) -> Option<Time> {
    let ticks = match start {
        ProcessStart::Ticks(ticks) => i128::from(ticks),
        // A start of another system.
        ProcessStart::UnixSecs(_) => return None,
    };
    let booted_at = read_boot_time()?;
    Some(Time::from_nanos(booted_at + ticks * (1_000_000_000 / TICKS_PER_SEC)))
}

/// Returns when the machine was started, in nanoseconds since 1970.
///
/// The clock of the kernel is read in hundredths of a second, so two reads differ. The first answer
/// stays until the clock is set: a process has one start, however often it is looked at.
fn read_boot_time() -> Option<i128> {
    static BOOTED_AT: Mutex<Option<i128>> = Mutex::new(None);
    // Not `btime` of `/proc/stat`, which is in whole seconds: a process may begin within the second
    // in which the one before it ended.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // Read after the clock, and rounded up: an earlier boot makes starts early.
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let tick = 1_000_000_000 / TICKS_PER_SEC;
    let read = i128::try_from(now.as_nanos()).ok()? - (uptime * 1e9) as i128 - tick;
    let mut known = BOOTED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_near = |known: &i128| (known - read).abs() < CLOCK_SET_NANOS;
    if !known.as_ref().is_some_and(is_near) {
        *known = Some(read);
    }
    *known
}

/// Reads the command line of one process.
pub(crate) fn read_command_line(pid: u32) -> Option<CommandLine> {
    let line = read_line(Path::new(&format!("/proc/{pid}/cmdline"))).ok()?;
    Some(split_words(pid, &line, ARGUMENTS_MAX))
}

fn read_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    fs::File::open(path)?.take(LINE_BYTES_MAX).read_to_end(&mut line)?;
    Ok(line)
}

/// Lists the files that a process has open; none if the system does not tell.
pub(crate) fn read_open_files(pid: u32) -> BTreeSet<PathBuf> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    let open = folder.flatten().take(FILES_MAX);
    let files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    // Others are pipes, sockets and devices.
    files.filter(|path| path.is_absolute() && !path.starts_with("/dev")).collect()
}

/// Lists the processes of a user. `None` if a process may be missing.
pub(crate) fn read_command_lines(uid: u32) -> Option<Vec<CommandLine>> {
    let mut lines = Vec::new();
    for (count, entry) in fs::read_dir("/proc").ok()?.enumerate() {
        let entry = entry.ok().filter(|_| count < PROCESSES_MAX)?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match read_own_command_line(&entry.path(), uid) {
            Ok(Some(line)) => lines.push(split_words(pid, &line, WORDS_MAX)),
            Ok(None) => {}
            // It has ended since the listing.
            Err(error) if is_gone(&error) => {}
            Err(_) => return None,
        }
    }
    Some(lines)
}

/// Reads the command line of a process; `None` for one of another user.
fn read_own_command_line(folder: &Path, uid: u32) -> io::Result<Option<Vec<u8>>> {
    if fs::metadata(folder)?.uid() != uid {
        return Ok(None);
    }
    read_line(&folder.join("cmdline")).map(Some)
}

/// Lists what a process has started, and what that has, the nearest first. Kernels without
/// `task/TID/children` list nothing.
pub(crate) fn read_descendants(pid: u32) -> Vec<CommandLine> {
    let mut found = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in read_children(parent) {
            // Bounded: processes start others while they are listed.
            if found.len() == DESCENDANTS_MAX {
                return found;
            }
            let Ok(line) = read_line(Path::new(&format!("/proc/{child}/cmdline"))) else {
                continue;
            };
            found.push(split_words(child, &line, WORDS_MAX));
            parents.insert(0, child);
        }
    }
    found
}

/// The children of a process. Each thread has its own.
fn read_children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads
        .flatten()
        .take(THREADS_MAX)
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    pids.collect()
}

fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error).map(failed_read) == Some(Inspection::Gone)
}

fn split_words(pid: u32, line: &[u8], words_max: usize) -> CommandLine {
    // A zero byte ends each word, also the last one. A process may have overwritten them with one
    // text that has none.
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    let mut words = line.split(|byte| *byte == 0);
    let first = words.by_ref().take(words_max);
    CommandLine {
        pid,
        words: first.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
        is_cut: words.next().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_may_contain_parentheses() {
        let rest = "1 4711 4711 0 -1 4194560 103 0 0 0 0 0 0 0 20 0 1 0 98765 2777088 231";
        let stat = format!("4711 (a) (b c)) S {rest}");
        let stat = ProcessStat::parse(&stat).unwrap();
        assert_eq!(
            (stat.name, stat.has_ended, stat.parent, stat.ticks),
            ("a) (b c)", false, 1, 98765)
        );
        assert!(ProcessStat::parse(&format!("4711 (sh) Z {rest}")).unwrap().has_ended);
        assert!(ProcessStat::parse("4711 (sh) S 1 2").is_none());
        assert!(ProcessStat::parse("").is_none());
    }

    #[test]
    fn only_a_missing_process_is_gone() {
        for (error, expected) in [
            (Errno::NOENT, Inspection::Gone),
            (Errno::SRCH, Inspection::Gone),
            (Errno::MFILE, Inspection::Unknown),
            (Errno::NFILE, Inspection::Unknown),
            (Errno::ACCESS, Inspection::Unknown),
            (Errno::PERM, Inspection::Unknown),
            (Errno::NOMEM, Inspection::Unknown),
            (Errno::INTR, Inspection::Unknown),
            (Errno::IO, Inspection::Unknown),
        ] {
            assert_eq!(failed_read(error), expected, "{error:?}");
        }
    }
}
