//! Both folders together: one order by the time of the call, however many files wait.

use std::fs;
use std::path::PathBuf;

use capture::{CaptureError, SignalOutcome, SinkError};
use event::{HookFact, HookMessage, Kind, Raw, SignalKind, Time};
use hooks::{MessageHandler, Undelivered};
use tempfile::TempDir;

const NOW: i64 = 1_800_000_000_000;

/// A call in one session, with a fact that no transcript has.
fn message(signal: Option<SignalKind>, millis: i64) -> HookMessage {
    let at = Time::from_millis(NOW + millis);
    let name = HookMessage::name_for(at, [0; 4]);
    let fact = HookFact { kind: Kind::ApprovalRequested, data: Raw::default() };
    HookMessage { signal, facts: vec![fact], ..HookMessage::new(name, "claude", "s", at) }
}

/// A session whose agent never writes a record of its compaction.
#[derive(Default)]
struct Session {
    /// The signals that took effect, in order.
    applied: Vec<SignalKind>,
    facts: usize,
    /// A file that is removed while a clear is recorded.
    obstacle: Option<PathBuf>,
    /// The name of a message that always fails.
    refused: Option<String>,
}

impl MessageHandler for Session {
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError> {
        if self.refused.as_ref() == Some(&message.name) {
            return Err(CaptureError::Unrecorded(SinkError("it is too large".into())));
        }
        self.facts += 1;
        if let Some(path) = self.obstacle.take_if(|_| message.ends_history()) {
            fs::remove_file(path).unwrap();
        }
        Ok(SignalOutcome::Done)
    }

    fn apply_signal(
        &mut self,
        message: &HookMessage,
        is_followed: bool,
    ) -> Result<SignalOutcome, CaptureError> {
        if message.signal == Some(SignalKind::Compact) && !is_followed {
            return Ok(SignalOutcome::Pending);
        }
        self.applied.extend(message.signal);
        Ok(SignalOutcome::Done)
    }

    fn is_about_message(&self, _: &CaptureError) -> bool {
        true
    }
}

#[test]
fn order_holds_beyond_one_pass() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    for millis in 0..1_500 {
        undelivered.store_message(&message(None, millis)).unwrap();
    }
    undelivered.store_message(&message(Some(SignalKind::Compact), 1_500)).unwrap();
    undelivered.store_signal(&message(Some(SignalKind::Clear), 1_501)).unwrap();
    let mut session = Session::default();
    let now = Time::from_millis(NOW + 2_000);
    assert!(undelivered.handle(now, &mut session).unwrap().has_more);
    assert_eq!((session.facts, &session.applied[..]), (1_000, &[][..]));
    assert!(!undelivered.handle(now, &mut session).unwrap().has_more);
    assert_eq!(session.facts, 1_501);
    assert_eq!(session.applied, [SignalKind::Compact, SignalKind::Clear]);
}

#[test]
fn unwritten_signal_keeps_its_turn() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    undelivered.store_message(&message(Some(SignalKind::Compact), 0)).unwrap();
    undelivered.store_message(&message(Some(SignalKind::Clear), 1)).unwrap();
    // The signal of the first message cannot be written, that of the second could.
    let signals = dir.path().join("signals");
    fs::write(&signals, "no folder").unwrap();
    let mut session = Session { obstacle: Some(signals), ..Session::default() };
    undelivered.handle(Time::from_millis(NOW + 10), &mut session).unwrap();
    assert_eq!(session.applied, [SignalKind::Compact, SignalKind::Clear]);
}

#[test]
fn clear_finds_a_waiting_compaction() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    undelivered.store_message(&message(Some(SignalKind::Compact), 0)).unwrap();
    let mut session = Session::default();
    undelivered.handle(Time::from_millis(NOW), &mut session).unwrap();
    // Before the compaction is due again.
    undelivered.store_signal(&message(Some(SignalKind::Clear), 1)).unwrap();
    undelivered.handle(Time::from_millis(NOW + 2), &mut session).unwrap();
    assert_eq!(session.applied, [SignalKind::Compact, SignalKind::Clear]);
}

#[test]
fn failing_message_is_set_aside() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    let bad = message(None, 0);
    undelivered.store_message(&bad).unwrap();
    let mut session = Session { refused: Some(bad.name.clone()), ..Session::default() };
    let (mut passes, mut given_up) = (0, Vec::new());
    while given_up.is_empty() && passes < 20 {
        passes += 1;
        undelivered.store_message(&message(None, passes)).unwrap();
        // Behind the longest pause.
        let now = Time::from_millis(NOW + passes * 10 * 60 * 1_000);
        given_up = undelivered.handle(now, &mut session).unwrap().given_up;
        assert_eq!(session.facts, passes as usize, "the others do not wait for it");
    }
    assert_eq!((given_up, passes), (vec![bad], 5));
    let kept = fs::read_dir(dir.path().join("spool/rejected")).unwrap().count();
    assert_eq!(kept, 2, "the message and the reason");
}

#[test]
fn unreadable_files_hide_no_others() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    undelivered.create().unwrap();
    for millis in 0..1_000 {
        let name = message(None, millis).name;
        fs::write(dir.path().join(format!("signals/{name}.json")), "{").unwrap();
    }
    undelivered.store_signal(&message(Some(SignalKind::Clear), 1_000)).unwrap();
    let mut session = Session::default();
    let now = Time::from_millis(NOW + 2_000);
    assert!(undelivered.handle(now, &mut session).unwrap().has_more, "the clear waits");
    assert!(!undelivered.handle(now, &mut session).unwrap().has_more);
    assert_eq!(session.applied, [SignalKind::Clear]);
}
