//! A group of processes: who is in it, how it is told to end, and waiting until it has.
//!
//! Waiting never asks again and again where the kernel can tell: on Linux every member is watched.

use rustix::process::{Pid, Signal, kill_process_group};

/// Sends a signal to everybody in the group of a process that we started.
pub(crate) fn signal(leader: u32, signal: Signal) {
    if let Some(group) = pid(leader) {
        // It may be gone already, which is what the signal was for.
        let _ = kill_process_group(group, signal);
    }
}

/// Whether a process lives, and is ours to signal.
pub(crate) fn is_ours_and_lives(number: u32) -> bool {
    pid(number).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{Identity, lives, members, wait_gone};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Identity, lives, members, wait_gone};

/// What tells a process from another that has its number later.
#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    use serde::{Deserialize, Serialize};

    use super::pid;

    /// When a process was started, since which start of the machine.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(crate) struct Identity {
        boot: String,
        ticks: u64,
    }

    impl Identity {
        pub(crate) fn of(number: u32) -> Option<Identity> {
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(Identity { boot: boot.trim().to_owned(), ticks: Stat::of(number)?.started })
        }
    }

    /// The processes of a group that live, with what each was told in its environment.
    pub(crate) fn members(leader: u32) -> Vec<u32> {
        let own = rustix::process::geteuid().as_raw();
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == own).then_some(number)
        });
        let is_member = |number: &u32| {
            Stat::of(*number).is_some_and(|stat| stat.group == leader && stat.is_alive)
        };
        numbers.filter(is_member).collect()
    }

    /// Whether anybody of a group lives.
    pub(crate) fn lives(leader: u32) -> bool {
        // Most groups are gone with their leader, and asking the kernel is cheap. Those who are
        // only waiting to be buried count for the kernel, and not for us.
        pid(leader).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
            && !members(leader).is_empty()
    }

    /// Waits until nobody of a group lives; whether it is so when the time is over.
    pub(crate) fn wait_gone(leader: u32, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let members = members(leader);
            if members.is_empty() {
                return true;
            }
            for member in members {
                let watched = pid(member).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
                // It has just ended.
                let Some(Ok(watched)) = watched else { continue };
                let left = until.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).ok();
                let mut waiting = [PollFd::new(&watched, PollFlags::IN)];
                // An interrupted wait begins anew with the next look.
                if poll(&mut waiting, left.as_ref()) == Ok(0) {
                    return false;
                }
            }
        }
    }

    /// What the kernel says of a process.
    struct Stat {
        is_alive: bool,
        group: u32,
        started: u64,
    }

    impl Stat {
        fn of(number: u32) -> Option<Stat> {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            // The name of the program may hold anything, so fields are counted from behind it.
            let (_, fields) = stat.rsplit_once(')')?;
            let mut fields = fields.split_whitespace();
            let state = fields.next()?;
            let group = fields.nth(1)?.parse().ok()?;
            let started = fields.nth(16)?.parse().ok()?;
            Some(Stat { is_alive: !matches!(state, "Z" | "X"), group, started })
        }
    }
}

/// Where the kernel does not tell who is in a group: less is known, and it is asked for.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::{Duration, Instant};

    use serde::{Deserialize, Serialize};

    use super::pid;

    /// Time between two looks.
    const LOOK_EVERY: Duration = Duration::from_millis(50);

    /// Nothing tells a process from another with its number.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(crate) struct Identity {}

    impl Identity {
        pub(crate) fn of(_: u32) -> Option<Identity> {
            None
        }
    }

    pub(crate) fn members(_: u32) -> Vec<u32> {
        Vec::new()
    }

    pub(crate) fn lives(leader: u32) -> bool {
        pid(leader).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
    }

    pub(crate) fn wait_gone(leader: u32, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while lives(leader) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        true
    }
}
