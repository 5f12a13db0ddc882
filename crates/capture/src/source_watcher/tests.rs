//! Sweeps, turns, misses and troubles of a watch.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::time::SystemTime;

use event::{EventId, SessionId, Time};

use super::*;
use crate::agent::AGENTS;
use crate::database_guard::{DatabaseGuard, QueryLimit};
use crate::environment::Environment;
use crate::error::WarningKind;
use crate::sink::{Batch, KnownSource, Original, SinkError};

/// Takes everything and remembers how far it was read.
#[derive(Default)]
struct Places {
    positions: HashMap<String, String>,
    /// How often all of them were asked for.
    asked_for_all: Cell<usize>,
}

impl Sink for Places {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.asked_for_all.set(self.asked_for_all.get() + 1);
        self.positions.iter().for_each(|(key, checkpoint)| show(KnownSource { key, checkpoint }));
        Ok(())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        Ok(self.positions.get(key).cloned())
    }

    fn keep_original(&mut self, _: Original<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        assert_eq!(self.positions.get(&batch.source), batch.from.as_ref(), "{}", batch.source);
        self.positions.insert(batch.source, batch.to);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn find_event(&self, _: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        Ok(None)
    }

    fn find_events(&self, _: &SessionId, ids: &[EventId]) -> Result<Vec<Option<u64>>, SinkError> {
        Ok(vec![None; ids.len()])
    }
}

#[test]
fn unwatchable_folder_is_reported_first() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".claude/projects")).unwrap();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(0);
    let ingester = Ingester::new(AGENTS, &environment, &clock);
    let mut watch = SourceWatcher { watcher: None, ..SourceWatcher::new(ingester, Vec::new()) };
    watch.stopper().stop();
    let mut told = Vec::new();
    let mut tell = |summary: &IngestSummary| told.extend(summary.warnings.clone());
    watch.run(&mut Places::default(), &mut |_, _, _| Ok(()), &mut tell).unwrap();
    let kinds: Vec<WarningKind> = told.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::NotWatched]);
}

#[test]
fn new_file_at_old_path_is_new() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().canonicalize().unwrap().join(".claude/projects/-home-dev-app");
    fs::create_dir_all(&folder).unwrap();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(0);
    let ingester = Ingester::new(AGENTS, &environment, &clock);
    let mut sink = Places::default();
    let mut look = |path: &Path| {
        ingester.poll_source(path, TURN_BYTES, &mut sink, &mut IngestSummary::default()).unwrap();
        let mut names: Vec<String> = sink.positions.keys().cloned().collect();
        names.sort();
        names
    };
    let (old, new) = (folder.join("old.jsonl"), folder.join("new.jsonl"));
    let line = |words: &str| {
        let message = format!("{{\"role\":\"user\",\"content\":\"{words}\"}}");
        format!("{{\"type\":\"user\",\"uuid\":\"{words}\",\"message\":{message}}}\n")
    };
    fs::write(&old, line("one")).unwrap();
    let first = look(&old);
    fs::rename(&old, &new).unwrap();
    assert_eq!(look(&new), first, "it is the same wherever it is");
    fs::write(&old, line("two")).unwrap();
    let both = look(&old);
    assert_eq!(both.len(), 2);
    for path in [&new, &old] {
        fs::write(path, fs::read_to_string(path).unwrap() + &line("more")).unwrap();
        assert_eq!(look(path), both, "each goes on as what it is");
    }
}

#[test]
fn costly_history_is_read_in_slices() {
    const MESSAGES: u64 = 2_000;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join(".local/share/goose/sessions/sessions.db");
    let database = testkit::tables::open_as_owner(&path);
    let tables = "
        CREATE TABLE sessions (id TEXT PRIMARY KEY, working_dir TEXT, created_at TEXT,
            updated_at TEXT, accumulated_total_tokens INTEGER);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
            content_json TEXT, created_timestamp INTEGER);
        CREATE INDEX idx_messages_session ON messages(session_id);
        INSERT INTO sessions (id, working_dir) VALUES ('20260101_1', '/home/dev/project');";
    database.execute_batch(tables).unwrap();
    for number in 0..MESSAGES {
        let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
            VALUES ('20260101_1', 'user', ?1, ?2)";
        let content = format!(r#"[{{"type":"text","text":"Prompt {number}"}}]"#);
        database.execute(insert, (content, 1_767_225_600 + number as i64)).unwrap();
    }
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(1_800_000_000_000);
    // Enough for any page, and not for two.
    let limit = QueryLimit { steps_max: 400_000, ..QueryLimit::default() };
    let ingester =
        Ingester::new(AGENTS, &environment, &clock).with_guard(DatabaseGuard::new(limit));
    let mut sink = Places::default();
    let mut summary = IngestSummary::default();
    let mut looks = 0;
    loop {
        let poll = ingester.poll_source(&path, TURN_BYTES, &mut sink, &mut summary).unwrap();
        looks += 1;
        if poll != Poll::Partial {
            break;
        }
    }
    assert_eq!(summary.warnings, []);
    // Each message is a prompt, and the session starts once.
    assert_eq!(summary.events, MESSAGES + 1);
    assert!(looks > 3, "{looks} looks");
}

#[test]
fn every_bell_is_heard() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let environment = Environment::new(&home, []);
    let clock = || Time::from_millis(0);
    let bells = ["signals", "spool"].map(|name| home.join(name));
    bells.iter().for_each(|bell| fs::create_dir(bell).unwrap());
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), bells.to_vec());
    for bell in &bells {
        let due = watch.now() + Duration::from_secs(60);
        fs::write(bell.join("1.json"), "").unwrap();
        watch.wait_until(due, &mut Vec::new());
        assert!(watch.now() < due, "{}", bell.display());
    }
}

/// Whether a wake comes within a minute that makes the watcher look for roots.
fn wait_at_the_door(watch: &mut SourceWatcher<'_>) -> bool {
    let due = watch.now() + Duration::from_secs(60);
    matches!(watch.wait_until(due, &mut Vec::new()), WaitOutcome::RootsChanged)
}

#[test]
fn a_folder_that_comes_later_or_comes_again_is_watched() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let environment = Environment::new(&home, []);
    let clock = || Time::from_millis(0);
    let ingester = Ingester::new(AGENTS, &environment, &clock);
    let mut watch = SourceWatcher::new(ingester, Vec::new());
    let mut warnings = Vec::new();
    let root = home.join(".claude/projects");
    assert!(!watch.watch_roots(&mut warnings));
    // Two folders come, and the first may be seen before the second is there.
    fs::create_dir_all(&root).unwrap();
    assert!(wait_at_the_door(&mut watch));
    while !watch.watch_roots(&mut warnings) {
        assert!(wait_at_the_door(&mut watch));
    }
    assert!(!watch.watch_roots(&mut warnings));
    fs::remove_dir(&root).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(wait_at_the_door(&mut watch));
    assert!(watch.watch_roots(&mut warnings));
    fs::rename(&root, home.join("away")).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(wait_at_the_door(&mut watch));
    assert!(watch.watch_roots(&mut warnings));
    assert_eq!(warnings, []);
}

/// A home with these transcripts, each so many lines long, and a clock years behind its files.
fn home_with(transcripts: &[(&str, usize)]) -> (tempfile::TempDir, PathBuf, Environment) {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().canonicalize().unwrap();
    let folder = real.join(".claude/projects/-home-dev-app");
    fs::create_dir_all(&folder).unwrap();
    for (name, lines) in transcripts {
        let line = format!(
            r#"{{"type":"user","sessionId":"{name}","uuid":"{name}-N","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":"{}"}}}}"#,
            "word ".repeat(200)
        );
        let text: String =
            (0..*lines).map(|number| line.replace("-N", &format!("-{number}")) + "\n").collect();
        fs::write(folder.join(format!("{name}.jsonl")), text).unwrap();
    }
    let environment = Environment::new(&real, []);
    (home, folder, environment)
}

#[test]
fn long_source_does_not_block_others() {
    let (_home, folder, environment) = home_with(&[("long", 12_000), ("short", 1)]);
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut sink = Places::default();
    let size = fs::metadata(folder.join("long.jsonl")).unwrap().len();
    assert!(size > 3 * TURN_BYTES);
    let mut read = Vec::new();
    watch.note_change(&folder.join("long.jsonl"), watch.now());
    while read.iter().sum::<u64>() < size {
        assert!(read.len() < 10, "{size}: {read:?}");
        let mut summary = IngestSummary::default();
        watch.poll_due(&mut sink, &mut summary).unwrap();
        read.push(summary.bytes);
        assert!(summary.bytes < 2 * TURN_BYTES, "{read:?}");
        watch.note_change(&folder.join("short.jsonl"), watch.now());
    }
    assert!(read.len() > 2 && sink.positions.len() == 2, "{read:?}");
}

#[test]
fn packed_source_continues_between_turns() {
    let (home, _folder, environment) = home_with(&[]);
    let clock = || Time::from_millis(0);
    let folder = home.path().canonicalize().unwrap().join(".codex/sessions/2026/03/02");
    fs::create_dir_all(&folder).unwrap();
    let name = "rollout-2026-03-02T09-00-00-00000000-5e55-4000-8000-00000000c0de.jsonl.zst";
    let line = format!("{{\"type\":\"other\",\"text\":\"{}\"}}\n", "word ".repeat(2_000));
    let text = line.repeat(3 * TURN_BYTES as usize / line.len());
    fs::write(folder.join(name), zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut sink = Places::default();
    watch.note_change(&folder.join(name), watch.now());
    let mut read = Vec::new();
    while read.last() != Some(&0) {
        let mut summary = IngestSummary::default();
        watch.poll_due(&mut sink, &mut summary).unwrap();
        read.push(summary.bytes);
        assert!(summary.bytes < 2 * TURN_BYTES, "{read:?}");
        watch.note_change(&folder.join(name), watch.now());
    }
    assert!(read.len() > 2, "{read:?}");
    assert_eq!(read.iter().sum::<u64>(), text.len() as u64, "nothing is read twice");
}

#[test]
fn possible_copy_waits_a_second() {
    let (home, _folder, environment) = home_with(&[]);
    let folder = home.path().canonicalize().unwrap().join(".copilot/session-state/one");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("events.jsonl");
    let start = r#"{"type":"session.start","id":"a","data":{"sessionId":"one"}}"#;
    fs::write(&log, format!("{start}\n")).unwrap();
    let written = fs::metadata(&log).unwrap().modified().unwrap();
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    let millis = Cell::new(written);
    let clock = || Time::from_millis(millis.get());
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut sink = Places::default();
    let mut asked = Vec::new();
    for later in [0, 300, 600, 2_000] {
        millis.set(written + later);
        assert_eq!(sink.positions.len(), 0, "{later} ms later");
        watch.note_change(&log, watch.now());
        watch.poll_due(&mut sink, &mut IngestSummary::default()).unwrap();
        asked.push(sink.asked_for_all.take());
    }
    assert_eq!(sink.positions.len(), 1);
    // Checkpoints and the index are updated as for any other source.
    assert_eq!(asked, [2, 0, 0, 0]);
}

#[test]
fn folder_named_like_transcript_is_reported() {
    let (_home, folder, environment) = home_with(&[]);
    fs::create_dir(folder.join("folder.jsonl")).unwrap();
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let said = [(); 3].map(|()| {
        let mut summary = IngestSummary::default();
        watch.sweep_sources(&mut Places::default(), &mut summary).unwrap();
        watch.warning_dedup.retain_new(&mut summary.warnings);
        summary.warnings.len()
    });
    assert_eq!(said, [1, 0, 0]);
}

#[test]
fn what_a_sweep_finds_waits_for_what_was_just_written() {
    let (_home, folder, environment) = home_with(&[("long", 12_000), ("short", 1)]);
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut sink = Places::default();
    watch.sweep_sources(&mut sink, &mut IngestSummary::default()).unwrap();
    assert_eq!((watch.backlog.len(), sink.positions.len()), (2, 0), "nothing is read yet");
    watch.schedule = Schedule::default();
    watch.note_change(&folder.join("short.jsonl"), watch.now());
    watch.poll_due(&mut sink, &mut IngestSummary::default()).unwrap();
    assert!(sink.positions.values().all(|checkpoint| checkpoint.contains("short.jsonl")));
    let mut summary = IngestSummary::default();
    while !watch.backlog.is_empty() {
        watch.read_backlog(&mut sink, &mut summary).unwrap();
    }
    assert_eq!(summary.bytes, fs::metadata(folder.join("long.jsonl")).unwrap().len());
}

#[test]
fn unwatched_folder_is_polled_often() {
    // Found soon, or long after.
    for now in [0, 4_000_000_000_000] {
        let (_home, folder, environment) = home_with(&[("a", 1), ("b", 1), ("c", 1)]);
        let clock = || Time::from_millis(now);
        let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
        watch.watch_roots(&mut Vec::new());
        let root = folder.parent().unwrap().to_owned();
        assert!(watch.watched.contains(&root) && watch.schedule.is_watched);
        // They are due without a notification.
        for name in ["a", "b", "c"] {
            watch.schedule.poll_now(&folder.join(name).with_extension("jsonl"), watch.now());
        }
        watch.poll_due(&mut Places::default(), &mut IngestSummary::default()).unwrap();
        let mut summary = IngestSummary::default();
        watch.begun -= Duration::from_secs(60);
        watch.count_missed_events(&mut summary);
        assert_eq!((summary.misses, summary.warnings.len()), (3, 1));
        assert!(!watch.watched.contains(&root) && !watch.schedule.is_watched);
        assert_eq!(watch.sweep_pause(), SWEEP_UNWATCHED);
        watch.begun -= DISTRUSTED_FOR;
        assert!(watch.watch_roots(&mut Vec::new()), "it is watched anew");
    }
}

#[test]
fn what_cannot_be_read_is_said_once_until_it_could_be() {
    let (home, _folder, environment) = home_with(&[]);
    let clock = || Time::from_millis(0);
    let folder = home.path().canonicalize().unwrap().join(".local/share/opencode");
    let path = folder.join("opencode.db");
    fs::create_dir_all(&folder).unwrap();
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut said = |bytes: &str| {
        fs::write(&path, bytes).unwrap();
        watch.note_change(&path, watch.now());
        let mut summary = IngestSummary::default();
        watch.poll_due(&mut Places::default(), &mut summary).unwrap();
        watch.warning_dedup.retain_new(&mut summary.warnings);
        summary.warnings.len()
    };
    let odd = "no database ".repeat(100);
    assert_eq!([&*odd, &odd, "", &odd, &odd].map(&mut said), [1, 0, 0, 1, 0]);
}

#[test]
fn what_is_no_source_is_not_looked_at_again() {
    let (_home, folder, environment) = home_with(&[]);
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    fs::write(folder.join("notes.txt"), "").unwrap();
    watch.note_change(&folder.join("notes.txt"), watch.now());
    watch.poll_due(&mut Places::default(), &mut IngestSummary::default()).unwrap();
    assert_eq!(watch.schedule.next_due(), None);
}

#[test]
fn announced_outside_link_is_not_followed() {
    let (home, folder, environment) = home_with(&[("a", 1)]);
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    fs::rename(folder.join("a.jsonl"), home.path().join("secret.jsonl")).unwrap();
    std::os::unix::fs::symlink(home.path().join("secret.jsonl"), folder.join("a.jsonl")).unwrap();
    watch.note_change(&folder.join("a.jsonl"), watch.now());
    let mut sink = Places::default();
    watch.poll_due(&mut sink, &mut IngestSummary::default()).unwrap();
    assert_eq!(sink.positions.len(), 0);
}

#[test]
fn a_folder_that_has_appeared_is_listed_twice() {
    let (_home, folder, environment) = home_with(&[]);
    let clock = || Time::from_millis(0);
    let ingester = Ingester::new(AGENTS, &environment, &clock);
    let mut watch = SourceWatcher { watcher: None, ..SourceWatcher::new(ingester, Vec::new()) };
    watch.sender.send(Wake::Folder(folder.clone())).unwrap();
    watch.wait_until(watch.now() + APPEARED, &mut Vec::new());
    assert_eq!(watch.schedule.next_due(), None, "nothing is there yet");
    // Made before the system watched the folder, so no notification comes.
    fs::write(folder.join("a.jsonl"), "").unwrap();
    watch.appeared[0].0 = watch.now();
    watch.list_again(&mut Vec::new());
    assert!(watch.schedule.next_due().is_some() && watch.appeared.is_empty());
}

#[test]
fn a_folder_that_could_not_be_watched_is_tried_again() {
    let (_home, _folder, environment) = home_with(&[]);
    let clock = || Time::from_millis(0);
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    let mut warnings = Vec::new();
    let watcher = watch.watcher.take();
    assert!(watch.watch_roots(&mut warnings) && !watch.watch_roots(&mut warnings));
    watch.refused.values_mut().for_each(|until| *until = Moment::ZERO);
    assert!(!watch.watch_roots(&mut warnings), "it is told once");
    assert_eq!((warnings.len(), watch.schedule.is_watched), (1, false));
    watch.watcher = watcher;
    watch.refused.values_mut().for_each(|until| *until = Moment::ZERO);
    assert!(watch.watch_roots(&mut warnings) && watch.schedule.is_watched);
}

#[test]
fn what_waits_for_its_first_name_is_no_miss() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let environment = Environment::new(&home, []);
    let file = home.join(".copilot/session-state/s1/events.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let start = r#"{"type":"session.start","id":"e1","timestamp":"2026-01-01T00:00:00.000Z","data":{"sessionId":"s1"}}"#;
    fs::write(&file, format!("{start}\n")).unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    let now = Cell::new(written);
    let clock = || Time::from_millis(now.get());
    let mut watch = SourceWatcher::new(Ingester::new(AGENTS, &environment, &clock), Vec::new());
    watch.watch_roots(&mut Vec::new());
    let (mut sink, mut summary) = (Places::default(), IngestSummary::default());
    watch.misses.note_notified(&file);
    for later in [0, 2_000] {
        now.set(written + later);
        watch.schedule.poll_now(&file, watch.now());
        watch.poll_due(&mut sink, &mut summary).unwrap();
        assert_eq!(summary.bytes > 0, later > 0, "it waits for a second");
    }
    watch.begun -= Duration::from_secs(60);
    watch.count_missed_events(&mut summary);
    assert_eq!(summary.misses, 0);
}
