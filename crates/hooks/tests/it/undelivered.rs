//! Both folders together: one order by the time of the call, however many files wait.

use std::fs;
use std::path::PathBuf;

use capture::{CaptureError, SignalOutcome};
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
}

impl MessageHandler for Session {
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError> {
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
