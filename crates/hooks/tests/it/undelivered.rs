//! Both folders together: one order by the time of the call, however many files wait.

use std::fs;
use std::path::PathBuf;

use capture::{CaptureError, SignalOutcome, SinkError};
use event::{HookFact, HookMessage, Kind, Raw, SignalKind, Time};
use hooks::{FailureCause, MessageHandler, Undelivered, UndeliveredSummary};
use tempfile::TempDir;

const NOW: i64 = 1_800_000_000_000;

/// A call in one session, with a fact that no transcript has.
fn message(signal: Option<SignalKind>, millis: i64) -> HookMessage {
    let at = Time::from_millis(NOW + millis);
    let name = HookMessage::name_for(at, [0; 4]);
    let fact = HookFact { kind: Kind::ApprovalRequested, data: Raw::default() };
    HookMessage { signal, facts: vec![fact], ..HookMessage::new(name, "claude", "s", at) }
}

type Failure = fn(SinkError) -> CaptureError;

/// A session whose agent never writes a record of its compaction.
#[derive(Default)]
struct Session {
    /// The signals that took effect, in order.
    applied: Vec<SignalKind>,
    facts: usize,
    /// A file that is removed while a clear is recorded.
    obstacle: Option<PathBuf>,
    /// The names of messages that always fail, and how.
    refused: Vec<(String, Failure)>,
}

/// Handles what is due, without an error.
fn handle(undelivered: &mut Undelivered, now: Time, session: &mut Session) -> UndeliveredSummary {
    let mut summary = UndeliveredSummary::default();
    undelivered.handle(now, session, &mut summary).unwrap();
    summary
}

impl MessageHandler for Session {
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError> {
        if let Some((_, fail)) = self.refused.iter().find(|(name, _)| *name == message.name) {
            return Err(fail(SinkError("it is too large".into())));
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

    fn failure_cause(&self, error: &CaptureError) -> FailureCause {
        match error {
            CaptureError::Hook(_) => FailureCause::Message,
            CaptureError::Unrecorded(_) => FailureCause::Transcript,
            _ => FailureCause::Journal,
        }
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
    assert!(handle(&mut undelivered, now, &mut session).has_more);
    assert_eq!((session.facts, &session.applied[..]), (1_000, &[][..]));
    assert!(!handle(&mut undelivered, now, &mut session).has_more);
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
    handle(&mut undelivered, Time::from_millis(NOW + 10), &mut session);
    assert_eq!(session.applied, [SignalKind::Compact, SignalKind::Clear]);
}

#[test]
fn clear_finds_a_waiting_compaction() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    undelivered.store_message(&message(Some(SignalKind::Compact), 0)).unwrap();
    let mut session = Session::default();
    handle(&mut undelivered, Time::from_millis(NOW), &mut session);
    // Before the compaction is due again.
    undelivered.store_signal(&message(Some(SignalKind::Clear), 1)).unwrap();
    handle(&mut undelivered, Time::from_millis(NOW + 2), &mut session);
    assert_eq!(session.applied, [SignalKind::Compact, SignalKind::Clear]);
}

/// Lets a message fail over and over; in which pass it was given up, of 20.
fn given_up_in(fail: Failure) -> Option<i64> {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    let bad = message(None, 0);
    undelivered.store_message(&bad).unwrap();
    let mut session = Session { refused: vec![(bad.name.clone(), fail)], ..Session::default() };
    for pass in 1..=20 {
        undelivered.store_message(&message(None, pass)).unwrap();
        // Behind the longest pause.
        let now = Time::from_millis(NOW + pass * 10 * 60 * 1_000);
        let summary = handle(&mut undelivered, now, &mut session);
        assert_eq!(session.facts, pass as usize, "the others do not wait for it");
        if !summary.given_up.is_empty() {
            assert_eq!(summary.given_up, [bad]);
            let kept = fs::read_dir(dir.path().join("spool/rejected")).unwrap().count();
            assert_eq!(kept, 2, "the message and the reason");
            return Some(pass);
        }
    }
    None
}

#[test]
fn failing_message_is_set_aside() {
    assert_eq!(given_up_in(CaptureError::Hook), Some(5));
}

#[test]
fn message_waits_for_its_transcript() {
    assert_eq!(given_up_in(CaptureError::Unrecorded), None);
}

#[test]
fn given_up_message_is_reported_after_an_error() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    let bad = message(None, 0);
    undelivered.store_message(&bad).unwrap();
    let refused = vec![(bad.name.clone(), CaptureError::Hook as Failure)];
    let mut session = Session { refused, ..Session::default() };
    let at = |pass: i64| Time::from_millis(NOW + pass * 10 * 60 * 1_000);
    for pass in 1..5 {
        assert_eq!(handle(&mut undelivered, at(pass), &mut session).given_up, []);
    }
    // In the pass of its last try the disk is full when the next message comes.
    let next = message(None, 1);
    undelivered.store_message(&next).unwrap();
    session.refused.push((next.name, CaptureError::Positions));
    let mut summary = UndeliveredSummary::default();
    undelivered.handle(at(5), &mut session, &mut summary).unwrap_err();
    assert_eq!(summary.given_up, [bad]);
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
    assert!(handle(&mut undelivered, now, &mut session).has_more, "the clear waits");
    assert!(!handle(&mut undelivered, now, &mut session).has_more);
    assert_eq!(session.applied, [SignalKind::Clear]);
}

#[test]
fn message_of_a_damaged_session_holds_up_no_other() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    let bad = message(None, 0);
    undelivered.store_message(&bad).unwrap();
    // The clear tries the bad one before it.
    undelivered.store_signal(&message(Some(SignalKind::Clear), 1)).unwrap();
    let refused = vec![(bad.name.clone(), CaptureError::Positions as Failure)];
    let mut session = Session { refused, ..Session::default() };
    for pass in 1..=5 {
        undelivered.store_message(&message(None, 1 + pass)).unwrap();
        let now = Time::from_millis(NOW + 10 + pass);
        // The journal may take nothing at all now.
        let _ = undelivered.handle(now, &mut session, &mut UndeliveredSummary::default());
    }
    assert_eq!(session.facts, 5, "the later ones");
    // The damage is mended: nothing was given up.
    session.refused.clear();
    handle(&mut undelivered, Time::from_millis(NOW + 60 * 60 * 1_000), &mut session);
    assert_eq!((session.facts, &session.applied[..]), (6, &[SignalKind::Clear][..]));
}
