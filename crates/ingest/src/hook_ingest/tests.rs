//! What was taken is somewhere until it is heard, whatever fails.

use std::fs;

use tempfile::TempDir;

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn call(number: u8) -> HookCall {
    let fact = HookFact { kind: Kind::ApprovalRequested, data: Raw::default() };
    HookCall {
        v: VERSION,
        name: stamp(Time::from_millis(NOW), [number; 4]),
        provider: "claude".to_owned(),
        event: "PermissionRequest".to_owned(),
        session: "s".to_owned(),
        at: Time::from_millis(NOW),
        source: Source::Hook,
        transcript: None,
        cwd: None,
        sign: None,
        reason: None,
        facts: vec![fact],
    }
}

/// A folder in which nothing can be left, as on a full disk.
fn full() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("spool"), "no folder").unwrap();
    dir
}

#[test]
fn what_cannot_be_kept_elsewhere_waits_and_stays_written_down() {
    let dir = full();
    let hook_queue = HookQueue::open(dir.path()).unwrap();
    assert!(hook_queue.offer(call(1)));
    leave_all(&hook_queue, dir.path());
    assert!(hook_queue.offer(call(2)));
    leave_all(&hook_queue, dir.path());
    assert_eq!(hook_queue.take(), [call(1), call(2)]);
    drop(hook_queue);

    // Killed before they were heard, and again before the next daemon heard them.
    for _ in 0..2 {
        assert_eq!(HookQueue::open(dir.path()).unwrap().take(), [call(1), call(2)]);
    }

    let hook_queue = HookQueue::open(dir.path()).unwrap();
    fs::remove_file(dir.path().join("spool")).unwrap();
    leave_all(&hook_queue, dir.path());
    assert!(hook_queue.offer(call(3)));
    assert_eq!(hook_queue.take(), [call(3)]);
    assert_eq!(fs::read_dir(dir.path().join("spool")).unwrap().count(), 3, "and `.taken`");
    assert_eq!(HookQueue::open(dir.path()).unwrap().take(), [call(3)]);
}

#[test]
fn half_a_call_is_not_glued_to_the_next() {
    let dir = TempDir::new().unwrap();
    let half = &call(1).encode()[..40];
    fs::write(dir.path().join("calls.0"), half).unwrap();
    let hook_queue = HookQueue::open(dir.path()).unwrap();
    assert!(hook_queue.offer(call(2)));
    assert_eq!(HookQueue::open(dir.path()).unwrap().take(), [call(2)]);
}

#[test]
fn room_taken_for_a_file_that_never_came_is_given_back() {
    let dir = TempDir::new().unwrap();
    let mut spool = Spool::of(dir.path());
    assert!(spool.leave(&call(1)).unwrap());
    let entries = fs::read_dir(spool.folder()).unwrap().flatten();
    let files = entries.filter(|entry| entry.file_name() != ".taken");
    files.for_each(|entry| fs::remove_file(entry.path()).unwrap());
    spool.handle(Time::from_millis(NOW), &mut |_| Ok(SignalOutcome::Done)).unwrap();
    assert_eq!(fs::metadata(spool.folder().join(".taken")).unwrap().len(), 0);
}
