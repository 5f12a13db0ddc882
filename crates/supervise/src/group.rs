//! Process groups: their members, signals to all of them, and waiting for their end.
//!
//! On Linux waiting uses a pidfd for every member instead of polling.

use rustix::process::{Pid, Signal, kill_process_group};

/// Sends a signal to all processes of a group that we started.
pub(crate) fn send_signal(leader: u32, signal: Signal) {
    if let Some(group) = to_pid(leader) {
        // The group may be gone already.
        let _ = kill_process_group(group, signal);
    }
}

/// Returns whether a process lives and we may signal it.
pub(crate) fn can_signal(number: u32) -> bool {
    to_pid(number).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

fn to_pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{StartMark, is_alive, living_members, wait_until_gone};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{StartMark, is_alive, living_members, wait_until_gone};

/// Process groups through `/proc` and pidfds.
#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    use serde::{Deserialize, Serialize};

    use super::to_pid;

    /// The boot and the start time of a process. Process numbers are reused; this pair is not.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(crate) struct StartMark {
        boot: String,
        ticks: u64,
    }

    impl StartMark {
        pub(crate) fn from_pid(number: u32) -> Option<StartMark> {
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(StartMark { boot: boot.trim().to_owned(), ticks: ProcStat::read(number)?.started })
        }
    }

    /// Returns the living processes of a group.
    pub(crate) fn living_members(leader: u32) -> Vec<u32> {
        let own = rustix::process::geteuid().as_raw();
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            // Processes of other users are never ours. Skipping them saves reading their `stat`.
            (entry.metadata().ok()?.uid() == own).then_some(number)
        });
        let is_member = |number: &u32| {
            ProcStat::read(*number).is_some_and(|stat| stat.group == leader && stat.is_alive)
        };
        numbers.filter(is_member).collect()
    }

    /// Returns whether a process of the group lives.
    pub(crate) fn is_alive(leader: u32) -> bool {
        // Asking the kernel is cheap, and most groups are gone with their leader. The kernel also
        // counts zombies, so a group that it reports must be checked member by member.
        to_pid(leader).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
            && !living_members(leader).is_empty()
    }

    /// Waits until no process of a group lives; returns whether that is so after the limit.
    pub(crate) fn wait_until_gone(leader: u32, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let members = living_members(leader);
            if members.is_empty() {
                return true;
            }
            // Members may fork while we wait, so the list is read again until it is empty.
            for member in members {
                let watched = to_pid(member).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
                // It has just ended.
                let Some(Ok(watched)) = watched else { continue };
                let left = until.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).ok();
                let mut waiting = [PollFd::new(&watched, PollFlags::IN)];
                // After a signal the outer loop looks again.
                if poll(&mut waiting, left.as_ref()) == Ok(0) {
                    return false;
                }
            }
        }
    }

    /// Fields of `/proc/PID/stat`.
    struct ProcStat {
        is_alive: bool,
        group: u32,
        started: u64,
    }

    impl ProcStat {
        fn read(number: u32) -> Option<ProcStat> {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            // The program's name may hold spaces and parentheses, so fields are counted behind the last `)`.
            let (_, fields) = stat.rsplit_once(')')?;
            let mut fields = fields.split_whitespace();
            // Fields 3 (state), 5 (group) and 22 (start time) of proc(5). `nth` skips those
            // between.
            let state = fields.next()?;
            let group = fields.nth(1)?.parse().ok()?;
            let started = fields.nth(16)?.parse().ok()?;
            Some(ProcStat { is_alive: !matches!(state, "Z" | "X"), group, started })
        }
    }
}

/// Process groups by signals and polling, where the kernel does not list the members of a group.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::{Duration, Instant};

    use serde::{Deserialize, Serialize};

    use super::to_pid;

    /// The time between two looks.
    const LOOK_EVERY: Duration = Duration::from_millis(50);

    /// Empty: here a reused process number cannot be recognised.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(crate) struct StartMark {}

    impl StartMark {
        pub(crate) fn from_pid(_: u32) -> Option<StartMark> {
            None
        }
    }

    pub(crate) fn living_members(_: u32) -> Vec<u32> {
        Vec::new()
    }

    pub(crate) fn is_alive(leader: u32) -> bool {
        to_pid(leader).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
    }

    pub(crate) fn wait_until_gone(leader: u32, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while is_alive(leader) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        true
    }
}
