//! A folder of signals: in order, whole, and nothing removed unseen.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use capture::{CaptureError, SignalKind, SignalOutcome};
use event::Time;
use hooks::{Signal, Signals, SpoolSummary};
use tempfile::TempDir;

const NOW: i64 = 1_800_000_000_000;
const DAY: i64 = 24 * 60 * 60 * 1_000;

struct World {
    dir: TempDir,
    signals: Signals,
    /// What the signals said, in the order they were heard.
    heard: Vec<String>,
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().unwrap();
        let signals = Signals::of(dir.path());
        signals.make().unwrap();
        World { dir, signals, heard: Vec::new() }
    }

    fn leave(&self, kind: SignalKind, session: &str, millis: i64, dice: u8) {
        let at = Time::from_millis(NOW + millis);
        self.signals.leave(&Signal { kind, at, ..signal(session) }, at, [dice; 4]).unwrap();
    }

    /// Somebody else's file; one that was written some time ago.
    fn write(&self, name: &str, text: &str) {
        let path = self.signals.folder().join(name);
        fs::write(&path, text).unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        let before = u64::try_from(NOW / 1_000 - 10).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(before)).unwrap();
    }

    /// Handles what is there, some time later; every signal is answered the same.
    fn handle(&mut self, millis: i64, answer: SignalOutcome) -> SpoolSummary {
        let World { signals, heard, .. } = self;
        let now = Time::from_millis(NOW + millis);
        let round = signals.handle(now, &mut |sign| {
            let followed = if sign.is_followed { " followed" } else { "" };
            heard.push(format!("{:?} {}:{}{followed}", sign.kind, sign.provider, sign.session));
            Ok(answer)
        });
        round.unwrap()
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let folder: PathBuf = self.signals.folder().join(folder);
        let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<_> =
            files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn signal(session: &str) -> Signal {
    Signal {
        kind: SignalKind::Stop,
        provider: "claude".to_owned(),
        session: session.to_owned(),
        at: Time::from_millis(NOW),
        cwd: Some("/home/dev/app".to_owned()),
        transcript: Some(PathBuf::from("/home/dev/.claude/projects/app/s1.jsonl")),
        reason: None,
        hook: Some("SessionEnd".to_owned()),
    }
}

#[test]
fn signals_are_heard_in_the_order_they_happened_and_then_removed() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 2, 1);
    world.leave(SignalKind::Compact, "s1", 1, 2);
    world.leave(SignalKind::TurnEnd, "s2", 1, 1);
    let round = world.handle(10, SignalOutcome::Done);
    assert_eq!(round, SpoolSummary { handled: 3, ..SpoolSummary::default() });
    assert_eq!(world.heard, ["TurnEnd claude:s2", "Compact claude:s1 followed", "Stop claude:s1"]);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn a_signal_is_one_small_private_file_under_a_name_of_its_own() {
    let world = World::new();
    world.leave(SignalKind::Compact, "../s/1", 123, 0xab);
    let name = "1800000000123000000-abababab.json";
    assert_eq!(world.files(""), [name]);
    let path = world.signals.folder().join(name);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        r#"{"v":1,"type":"compact","provider":"claude","session_id":"../s/1","ts":1800000000.123,"cwd":"/home/dev/app","transcript_path":"/home/dev/.claude/projects/app/s1.jsonl","hook":"SessionEnd"}"#
    );
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path), 0o600);
    assert_eq!(mode(world.dir.path().join("signals")), 0o700);
}

#[test]
fn two_at_the_same_instant_both_survive() {
    let mut world = World::new();
    world.leave(SignalKind::TurnEnd, "s1", 0, 1);
    world.leave(SignalKind::TurnEnd, "s1", 0, 2);
    assert_eq!(world.handle(1, SignalOutcome::Done).handled, 2);
}

#[test]
fn one_that_waits_stays_and_is_asked_more_and_more_rarely() {
    let mut world = World::new();
    world.leave(SignalKind::Compact, "s1", 0, 1);
    for millis in [0, 500, 1_000, 2_000, 3_000, 4_000] {
        world.handle(millis, SignalOutcome::Pending);
    }
    assert_eq!(world.heard.len(), 3);
    assert_eq!(world.handle(60_000, SignalOutcome::Done).handled, 1);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn one_whose_session_nobody_comes_to_know_is_dropped_after_a_week() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 0, 1);
    world.handle(0, SignalOutcome::UnknownSession);
    world.handle(6 * DAY, SignalOutcome::UnknownSession);
    assert_eq!(world.files("").len(), 1);
    assert_eq!(world.handle(7 * DAY, SignalOutcome::UnknownSession).orphaned, 1);
    assert_eq!(world.files(""), [""; 0]);
}

#[test]
fn a_failure_leaves_the_signal_where_it_is() {
    let mut world = World::new();
    world.leave(SignalKind::Stop, "s1", 0, 1);
    let failed = capture::SinkError(Box::new(std::io::Error::other("full")));
    let mut failed = Some(failed);
    let now = Time::from_millis(NOW);
    let round =
        world.signals.handle(now, &mut |_| Err(CaptureError::Positions(failed.take().unwrap())));
    assert!(round.is_err());
    assert_eq!(world.files("").len(), 1);
    assert_eq!(world.handle(0, SignalOutcome::Done).handled, 1);
}

#[test]
fn what_others_name_after_a_session_is_heard_and_may_be_written_again() {
    let mut world = World::new();
    world.write("s-1.json", r#"{"type":"turn_end","ts":1799999999.5}"#);
    world.write("s-2.json", r#"{"type":"stop","ts":1799999999.7,"tool":"codex"}"#);
    let folder = world.signals.folder().to_owned();
    let mut heard = Vec::new();
    let now = Time::from_millis(NOW);
    let round = world.signals.handle(now, &mut |sign| {
        heard.push((sign.provider.to_owned(), sign.session.to_owned()));
        // A second one is written while the first is handled.
        fs::write(folder.join("s-1.json"), r#"{"type":"stop","ts":1799999999.9}"#).unwrap();
        Ok(SignalOutcome::Done)
    });
    assert_eq!(round.unwrap().handled, 2);
    let told = |(provider, session): &(String, String)| format!("{provider}:{session}");
    assert_eq!(heard.iter().map(told).collect::<Vec<_>>(), ["claude:s-1", "codex:s-2"]);
    assert_eq!(world.files(""), ["s-1.json"]);
    assert_eq!(world.handle(10, SignalOutcome::Done).handled, 1);
}

#[test]
fn what_is_no_signal_is_moved_aside_once_with_the_reason() {
    let mut world = World::new();
    let long = format!(r#"{{"type":"stop","ts":1799999999,"cwd":"{}"}}"#, "x".repeat(5_000));
    let cases = [
        ("a.json", "not json", "it is no signal in JSON"),
        ("b.json", r#"{"type":"dance","ts":1799999999}"#, "it is of a type nobody knows"),
        ("c.json", r#"{"type":"stop"}"#, "it has no time"),
        ("d.json", r#"{"type":"stop","ts":1800009999}"#, "its time is ahead"),
        ("e.json", r#"{"type":"stop","ts":1700000000}"#, "it is too old"),
        ("f.json", r#"{"v":9,"type":"stop","ts":1799999999}"#, "it is of a version nobody knows"),
        ("g.json", &long, "it is too long"),
    ];
    for (name, text, _) in cases {
        world.write(name, text);
    }
    let round = world.handle(0, SignalOutcome::Done);
    let mut refused: Vec<_> = round.refused.iter().map(|(name, why)| (&name[29..], *why)).collect();
    refused.sort_unstable();
    assert_eq!(refused, cases.map(|(name, _, why)| (name, why)));
    assert_eq!(world.handle(0, SignalOutcome::Done), SpoolSummary::default());
    assert_eq!(world.files("").len(), 0);
    assert_eq!(world.files("rejected").len(), 2 * cases.len());
    assert_eq!(world.heard, [""; 0]);
}

#[test]
fn what_may_still_be_written_is_left_alone() {
    let mut world = World::new();
    world.write("s1.json", r#"{"type":"st"#);
    let path = world.signals.folder().join("s1.json");
    let file = fs::File::options().append(true).open(path).unwrap();
    let now = u64::try_from(NOW / 1_000).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(now)).unwrap();
    assert_eq!(world.handle(0, SignalOutcome::Done), SpoolSummary::default());
    assert_eq!(world.handle(5_000, SignalOutcome::Done).refused.len(), 1);
}

#[test]
fn thousands_are_handled_in_rounds() {
    let mut world = World::new();
    for number in 0..2_500 {
        let name = format!("{number:019}-00000000.json");
        world.write(&name, r#"{"type":"turn_end","session_id":"s","ts":1799999999}"#);
    }
    let rounds = [0; 4].map(|_| world.handle(0, SignalOutcome::Done).handled);
    assert_eq!(rounds, [1_000, 1_000, 500, 0]);
}
