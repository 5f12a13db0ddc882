//! The folder of signals: files are handled in order, whole, and none is removed unread.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use capture::{CaptureError, SignalOutcome};
use event::{HookMessage, SignalKind, Time};
use hooks::{FailureCause, MessageHandler, SpoolSummary, Undelivered, UndeliveredSummary};
use tempfile::TempDir;

const NOW: i64 = 1_800_000_000_000;
const DAY: i64 = 24 * 60 * 60 * 1_000;

struct World {
    dir: TempDir,
    undelivered: Undelivered,
    /// The signals that were handled, in order.
    handled: Vec<String>,
}

/// Gives every signal to a function.
pub(crate) struct Applied<F>(pub F);

impl<F> MessageHandler for Applied<F>
where
    F: FnMut(&HookMessage, bool) -> Result<SignalOutcome, CaptureError>,
{
    fn record_facts(&mut self, _: &HookMessage) -> Result<SignalOutcome, CaptureError> {
        Ok(SignalOutcome::Done)
    }

    fn apply_signal(
        &mut self,
        message: &HookMessage,
        is_followed: bool,
    ) -> Result<SignalOutcome, CaptureError> {
        self.0(message, is_followed)
    }

    fn failure_cause(&self, _: &CaptureError) -> FailureCause {
        FailureCause::Journal
    }
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().unwrap();
        let undelivered = Undelivered::in_journal(dir.path());
        undelivered.create().unwrap();
        World { dir, undelivered, handled: Vec::new() }
    }

    fn leave(&self, kind: SignalKind, session: &str, millis: i64, dice: u8) {
        let at = Time::from_millis(NOW + millis);
        let name = HookMessage::name_for(at, [dice; 4]);
        let message = HookMessage { name, at, signal: Some(kind), ..message(session) };
        self.undelivered.store_signal(&message).unwrap();
    }

    /// Writes the file of another program, some time ago.
    fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::write(&path, text).unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        let before = u64::try_from(NOW / 1_000 - 10).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(before)).unwrap();
    }

    /// Handles the files some time later, with the same outcome for each.
    fn handle(&mut self, millis: i64, answer: SignalOutcome) -> SpoolSummary {
        let World { undelivered, handled, .. } = self;
        let now = Time::from_millis(NOW + millis);
        let mut noted = Applied(|message: &HookMessage, is_followed: bool| {
            let followed = if is_followed { " followed" } else { "" };
            let HookMessage { provider, session, .. } = message;
            handled.push(format!("{:?} {provider}:{session}{followed}", message.signal.unwrap()));
            Ok(answer)
        });
        let mut summary = UndeliveredSummary::default();
        undelivered.handle(now, &mut noted, &mut summary).unwrap();
        summary.signals
    }

    fn folder(&self) -> &Path {
        let [_, signals] = self.undelivered.folders();
        signals
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let folder: PathBuf = self.folder().join(folder);
        let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<_> =
            files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn message(session: &str) -> HookMessage {
    HookMessage {
        event: "SessionEnd".to_owned(),
        cwd: Some("/home/dev/app".to_owned()),
        transcript: Some(PathBuf::from("/home/dev/.claude/projects/app/s1.jsonl")),
        ..HookMessage::new(String::new(), "claude", session, Time::from_millis(NOW))
    }
}

#[test]
fn signals_are_handled_in_order_of_time() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 2, 1);
    world.leave(SignalKind::Compact, "s1", 1, 2);
    world.leave(SignalKind::TurnEnd, "s2", 1, 1);
    let summary = world.handle(10, SignalOutcome::Done);
    assert_eq!(summary, SpoolSummary { handled: 3, ..SpoolSummary::default() });
    assert_eq!(world.handled, ["TurnEnd claude:s2", "Compact claude:s1", "Stop claude:s1"]);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn signal_is_one_private_file() {
    let world = World::new();
    world.leave(SignalKind::Compact, "../s/1", 123, 0xab);
    let name = "1800000000123000000-abababab.json";
    assert_eq!(world.files(""), [name]);
    let path = world.folder().join(name);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        r#"{"v":1,"type":"compact","provider":"claude","session_id":"../s/1","ts":1800000000.123,"cwd":"/home/dev/app","transcript_path":"/home/dev/.claude/projects/app/s1.jsonl","hook":"SessionEnd"}"#
    );
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path), 0o600);
    assert_eq!(mode(world.dir.path().join("signals")), 0o700);
}

#[test]
fn signals_of_one_instant_both_survive() {
    let mut world = World::new();
    world.leave(SignalKind::TurnEnd, "s1", 0, 1);
    world.leave(SignalKind::TurnEnd, "s1", 0, 2);
    assert_eq!(world.handle(1, SignalOutcome::Done).handled, 2);
}

#[test]
fn pending_signal_is_retried_more_rarely() {
    let mut world = World::new();
    world.leave(SignalKind::Compact, "s1", 0, 1);
    for millis in [0, 500, 1_000, 2_000, 3_000, 4_000] {
        world.handle(millis, SignalOutcome::Pending);
    }
    assert_eq!(world.handled.len(), 3);
    assert_eq!(world.handle(60_000, SignalOutcome::Done).handled, 1);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn orphaned_signal_is_dropped_after_a_week() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 0, 1);
    world.handle(0, SignalOutcome::UnknownSession);
    world.handle(6 * DAY, SignalOutcome::UnknownSession);
    assert_eq!(world.files("").len(), 1);
    assert_eq!(world.handle(7 * DAY, SignalOutcome::UnknownSession).orphaned, 1);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn failure_keeps_the_signal() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 0, 1);
    let failed = capture::SinkError(Box::new(std::io::Error::other("full")));
    let mut failed = Some(failed);
    let now = Time::from_millis(NOW);
    let mut fails =
        Applied(|_: &HookMessage, _| Err(CaptureError::Positions(failed.take().unwrap())));
    let mut summary = UndeliveredSummary::default();
    assert!(world.undelivered.handle(now, &mut fails, &mut summary).is_err());
    assert_eq!(world.files("").len(), 1);
    assert_eq!(world.handle(1_000, SignalOutcome::Done).handled, 1);
}

#[test]
fn file_named_after_session_is_claimed() {
    let mut world = World::new();
    world.write("s-1.json", r#"{"type":"turn_end","ts":1799999999.5}"#);
    world.write("s-2.json", r#"{"type":"stop","ts":1799999999.7,"tool":"codex"}"#);
    let folder = world.folder().to_owned();
    let mut heard = Vec::new();
    let now = Time::from_millis(NOW);
    let mut handler = Applied(|message: &HookMessage, _| {
        heard.push((message.provider.clone(), message.session.clone()));
        // A second one is written while the first is handled.
        fs::write(folder.join("s-1.json"), r#"{"type":"stop","ts":1799999999.9}"#).unwrap();
        Ok(SignalOutcome::Done)
    });
    let mut summary = UndeliveredSummary::default();
    world.undelivered.handle(now, &mut handler, &mut summary).unwrap();
    assert_eq!(summary.signals.handled, 2);
    let told = |(provider, session): &(String, String)| format!("{provider}:{session}");
    assert_eq!(heard.iter().map(told).collect::<Vec<_>>(), ["claude:s-1", "codex:s-2"]);
    assert_eq!(world.files(""), ["s-1.json"]);
    assert_eq!(world.handle(10, SignalOutcome::Done).handled, 1);
}

#[test]
fn rejected_file_is_moved_with_reason() {
    let mut world = World::new();
    let long = format!(r#"{{"type":"stop","ts":1799999999,"cwd":"{}"}}"#, "x".repeat(5_000));
    let cases = [
        ("a.json", "not json", "it is no signal in JSON"),
        ("b.json", r#"{"type":"dance","ts":1799999999}"#, "its type is unknown"),
        ("c.json", r#"{"type":"stop"}"#, "it has no time"),
        ("d.json", r#"{"type":"stop","ts":1800009999}"#, "its time is ahead"),
        ("e.json", r#"{"type":"stop","ts":1700000000}"#, "it is too old"),
        ("f.json", r#"{"v":9,"type":"stop","ts":1799999999}"#, "its version is unknown"),
        ("g.json", &long, "it is too long"),
    ];
    for (name, text, _) in cases {
        world.write(name, text);
    }
    let summary = world.handle(0, SignalOutcome::Done);
    let mut rejected: Vec<_> =
        summary.rejected.iter().map(|(name, why)| (&name[29..], *why)).collect();
    rejected.sort_unstable();
    assert_eq!(rejected, cases.map(|(name, _, why)| (name, why)));
    assert_eq!(world.handle(0, SignalOutcome::Done), SpoolSummary::default());
    assert_eq!(world.files("").len(), 0);
    assert_eq!(world.files("rejected").len(), 2 * cases.len());
    assert_eq!(world.handled, [""; 0]);
}

#[test]
fn young_incomplete_file_is_left_alone() {
    let mut world = World::new();
    world.write("s1.json", r#"{"type":"st"#);
    let path = world.folder().join("s1.json");
    let file = fs::File::options().append(true).open(path).unwrap();
    let now = u64::try_from(NOW / 1_000).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(now)).unwrap();
    assert_eq!(world.handle(0, SignalOutcome::Done), SpoolSummary::default());
    assert_eq!(world.handle(5_000, SignalOutcome::Done).rejected.len(), 1);
}

#[test]
fn thousands_are_handled_in_passes() {
    let mut world = World::new();
    for number in 0..2_500 {
        let name = format!("{number:019}-00000000.json");
        world.write(&name, r#"{"type":"turn_end","session_id":"s","ts":1799999999}"#);
    }
    let passes = [0; 4].map(|_| world.handle(0, SignalOutcome::Done).handled);
    assert_eq!(passes, [1_000, 1_000, 500, 0]);
}

#[test]
fn name_of_any_letters_is_claimed() {
    let mut world = World::new();
    world.write(&format!("{}.json", "é".repeat(20)), r#"{"type":"stop","ts":1799999999}"#);
    assert_eq!(world.handle(0, SignalOutcome::Done).handled, 1);
}
