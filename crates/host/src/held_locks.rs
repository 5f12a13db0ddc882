//! The locks on files that the kernel lists, and which process holds each.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

use crate::process_info;

/// What holds a lock on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockHolder {
    /// A process; `None` if the system does not tell which one.
    Process(Option<u32>),
    Nothing,
    /// The system does not tell.
    Unknown,
}

/// Where the kernel lists all locks.
const LIST: &str = "/proc/locks";

/// The kernel gives parts of a list that are no longer than a page. A shorter list is of one moment.
const LIST_PART_BYTES: usize = 3 * 1024;

/// All locks that are held at one time, by the inode of their file.
pub(crate) struct HeldLocks(HashMap<u64, Vec<HeldLock>>);

/// A lock on a file.
struct HeldLock {
    /// The major and the minor number of the device.
    device: (u32, u32),
    /// Absent if its process is in another namespace.
    pid: Option<u32>,
}

impl HeldLocks {
    /// Reads the list of the kernel. `None` if the system has none.
    pub(crate) fn read() -> Option<HeldLocks> {
        let mut text = read_list()?;
        // It counts lines from one part to the next: a lock that is released meanwhile hides
        // another one. The same one is hardly hidden twice.
        if text.len() >= LIST_PART_BYTES {
            text.push_str(&read_list()?);
        }
        Some(HeldLocks::parse(&text))
    }

    fn parse(text: &str) -> HeldLocks {
        let mut locks: HashMap<u64, Vec<HeldLock>> = HashMap::new();
        for (inode, lock) in text.lines().filter_map(parse_line) {
            locks.entry(inode).or_default().push(lock);
        }
        HeldLocks(locks)
    }

    /// What holds a lock on the file at a path.
    pub(crate) fn holder(&self, path: &Path) -> LockHolder {
        let Ok(metadata) = fs::metadata(path) else { return LockHolder::Unknown };
        let device = (major(metadata.dev()), minor(metadata.dev()));
        let has_open = |pid| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            process_info::read_open_files(pid).contains(&path)
        };
        self.holder_of(metadata.ino(), device, has_open)
    }

    /// Files of two devices may have one inode number. But some file systems (btrfs) tell another
    /// device than the one in the list: there the holder is the process that has the file open.
    fn holder_of(
        &self,
        inode: u64,
        device: (u32, u32),
        has_open: impl Fn(u32) -> bool,
    ) -> LockHolder {
        let locks = self.0.get(&inode).map_or(&[][..], Vec::as_slice);
        if let Some(lock) = locks.iter().find(|lock| lock.device == device) {
            return LockHolder::Process(lock.pid);
        }
        let mut pids = locks.iter().filter_map(|lock| lock.pid);
        match pids.find(|pid| has_open(*pid)) {
            Some(pid) => LockHolder::Process(Some(pid)),
            // It may be the same file, and its process cannot be asked.
            None if locks.iter().any(|lock| lock.pid.is_none()) => LockHolder::Unknown,
            None => LockHolder::Nothing,
        }
    }
}

fn read_list() -> Option<String> {
    // Room for a whole part from the first read on: with less the kernel gives smaller ones.
    let mut text = Vec::with_capacity(4 * LIST_PART_BYTES);
    fs::File::open(LIST).ok()?.read_to_end(&mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Reads `1: FLOCK ADVISORY WRITE 4711 fd:01:123456 0 EOF`; behind a `->` waits another process.
fn parse_line(line: &str) -> Option<(u64, HeldLock)> {
    let mut words = line.split_whitespace().skip(1);
    words.next().filter(|kind| *kind != "->")?;
    let (pid, file) = (words.nth(2)?, words.next()?);
    let mut numbers = file.split(':');
    let (major, minor, inode) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let pid = pid.parse().ok().filter(|pid| *pid > 0);
    Some((inode.parse().ok()?, HeldLock { device, pid }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 4711 fd:01:123456 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 fd:01:123456 0 EOF
2: POSIX  ADVISORY  READ  4713 00:2f:99 128 128
3: OFDLCK ADVISORY  WRITE 0 fd:01:77 0 EOF
torn
";

    #[test]
    fn lock_on_another_device_is_another_lock() {
        let locks = HeldLocks::parse(LOCKS);
        let held = |inode, device| locks.holder_of(inode, device, |_| false);
        assert_eq!(held(123_456, (0xfd, 1)), LockHolder::Process(Some(4711)));
        assert_eq!(held(123_456, (0xfd, 2)), LockHolder::Nothing);
        assert_eq!(held(99, (0, 0x2f)), LockHolder::Process(Some(4713)));
        assert_eq!(held(12_345, (0xfd, 1)), LockHolder::Nothing);
    }

    #[test]
    fn open_file_tells_where_the_device_does_not() {
        let locks = HeldLocks::parse(LOCKS);
        let held = |inode, pid| locks.holder_of(inode, (0, 0x2a), |it| it == pid);
        assert_eq!(held(123_456, 4711), LockHolder::Process(Some(4711)));
        assert_eq!(held(123_456, 4712), LockHolder::Nothing);
    }

    #[test]
    fn holder_in_another_namespace_has_no_pid() {
        let locks = HeldLocks::parse(LOCKS);
        assert_eq!(locks.holder_of(77, (0xfd, 1), |_| false), LockHolder::Process(None));
        assert_eq!(locks.holder_of(77, (0xfd, 2), |_| false), LockHolder::Unknown);
    }
}
