//! What happens to files: half-written lines, odd bytes, truncation, moves, deletion, faults.
//!
//! Claude's transcripts stand for all that are written line by line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use capture::{
    Batch, CaptureError, Environment, IngestProgress, Ingester, KnownSource, Original, Sink,
    SinkError, StopFlag, StoredOriginal, UnknownRecord, WarningKind,
};
use event::{EventId, Kind, SessionId, Time};
use tempfile::TempDir;

use crate::late::put_later;
use crate::memory::Memory;
use crate::scenario::{NOW, agent, read, stamp};

const FOLDER: &str = ".claude/projects/-home-dev-project";

/// A home with one project of Claude, and what was read of it.
struct World {
    home: TempDir,
    sink: Memory,
}

impl World {
    fn new() -> World {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join(FOLDER)).unwrap();
        World { home, sink: Memory::default() }
    }

    fn with(name: &str, bytes: impl AsRef<[u8]>) -> World {
        let mut world = World::new();
        world.write(name, bytes);
        world.read();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(FOLDER).join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Makes a file that is younger than another one.
    fn write_later(&self, name: &str, older: &str, bytes: impl Into<Vec<u8>>) {
        let made = fs::metadata(self.path(older)).unwrap().created().ok();
        put_later(self.home.path(), &(self.path(name), bytes.into()), made);
    }

    /// Writes at the end, just now.
    fn append(&self, name: &str, bytes: &str) {
        let mut all = fs::read(self.path(name)).unwrap_or_default();
        all.extend(bytes.as_bytes());
        self.write(name, all);
        stamp(&self.path(name));
    }

    /// Reads what is new; the kinds of the warnings.
    fn read(&mut self) -> Vec<WarningKind> {
        let summary = read(agent("claude"), self.home.path(), &mut self.sink);
        summary.warnings.iter().map(|warning| warning.kind).collect()
    }

    /// What people said, in order, and what was not understood.
    fn said(&self) -> Vec<String> {
        let is_said = |kind: &Kind| matches!(kind, Kind::UserPrompt | Kind::Unknown);
        let said = self.sink.events().filter(|event| is_said(&event.kind));
        said.map(|event| event.text.clone().unwrap_or_else(|| event.data.get().to_owned()))
            .collect()
    }

    fn generations(&self) -> Vec<u32> {
        self.sink.originals.keys().map(|(_, generation)| *generation).collect()
    }
}

/// A prompt as a line.
fn prompt(text: &str) -> String {
    let uuid = format!("uuid of {text}");
    format!(
        r#"{{"type":"user","uuid":"{uuid}","timestamp":"2026-01-01T00:00:00Z","message":{{"content":"{text}"}}}}"#
    ) + "\n"
}

#[test]
fn a_half_written_line_waits_for_its_end() {
    let mut world = World::new();
    let (first, second) = (prompt("one"), prompt("two"));
    let (begin, end) = second.split_at(30);
    world.append("s.jsonl", &format!("{first}{begin}"));
    world.read();
    assert_eq!(world.said(), ["one"]);
    world.append("s.jsonl", end);
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
}

#[test]
fn torn_line_is_amended_by_its_rest() {
    let mut world = World::new();
    let (first, second) = (prompt("one"), prompt("two"));
    let (begin, end) = second.split_at(30);
    world.write("s.jsonl", format!("{first}{begin}"));
    assert_eq!(world.read(), [WarningKind::Torn]);
    assert_eq!(world.read(), [], "it is told once");
    let torn = world.sink.events().last().unwrap().clone();
    assert_eq!(torn.kind, Kind::Unknown);
    assert!(torn.data.get().contains(r#""error":"torn""#), "{}", torn.data.get());
    assert_eq!(world.said().len(), 2, "it is told once");
    world.append("s.jsonl", end);
    world.read();
    let last = world.sink.events().last().unwrap();
    assert_eq!((last.text.as_deref(), last.amends()), (Some("two"), Some(torn.id)));
}

#[test]
fn completed_empty_line_is_not_torn() {
    let mut world = World::new();
    let silent = r#"{"type":"file-history-snapshot","messageId":"m1","snapshot":{}}"#;
    world.write("s.jsonl", format!("{}{}", prompt("one"), &silent[..30]));
    assert_eq!(world.read(), [WarningKind::Torn]);
    let torn = world.sink.events().last().unwrap().id;
    world.write("s.jsonl", format!("{}{silent}\n", prompt("one")));
    assert_eq!(world.read(), []);
    let last = world.sink.events().last().unwrap();
    assert_eq!((last.kind.clone(), last.amends()), (Kind::Note, Some(torn)));
}

#[test]
fn growing_line_amends_its_last_account() {
    let mut world = World::new();
    let (first, second) = (prompt("one"), prompt("two"));
    let mut told = Vec::new();
    for length in [30, 60, second.trim_end().len()] {
        world.write("s.jsonl", format!("{first}{}", &second[..length]));
        world.read();
        let last = world.sink.events().last().unwrap();
        told.push((last.id, last.amends(), last.text.clone()));
    }
    let amended: Vec<_> = told.iter().map(|(_, amends, _)| *amends).collect();
    assert_eq!(amended, [None, Some(told[0].0), Some(told[1].0)]);
    assert_eq!(told[2].2.as_deref(), Some("two"));
    world.append("s.jsonl", &format!("\n{}", prompt("three")));
    world.read();
    let last = world.sink.events().last().unwrap();
    assert_eq!((last.text.as_deref(), last.amends()), (Some("three"), None));
}

#[test]
fn quiet_record_without_line_end_counts() {
    let mut world = World::new();
    let whole = prompt("one") + prompt("two").trim_end();
    world.append("s.jsonl", &whole);
    world.read();
    assert_eq!(world.said(), ["one"], "its line end may still come");
    world.write("s.jsonl", &whole);
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
    world.append("s.jsonl", &format!("\n{}", prompt("three")));
    world.read();
    assert_eq!(world.said(), ["one", "two", "three"]);
}

#[test]
fn odd_bytes_cost_no_more_than_their_line() {
    let mut world = World::new();
    let mut bytes = b"\xEF\xBB\xBF".to_vec();
    bytes.extend(prompt("mark").as_bytes());
    bytes.extend(b"\n   \n\r\n");
    bytes.extend(prompt("carriage").trim_end().as_bytes());
    bytes.extend(b"\r\n");
    bytes.extend(b"\0\0\0\n");
    let torn = prompt("broken XX text").into_bytes();
    let at = torn.windows(2).rposition(|pair| pair == b"XX").unwrap();
    bytes.extend([&torn[..at], b"\xFF\xFE", &torn[at + 2..]].concat());
    bytes.extend(prompt(r"half \ud83d of a pair").as_bytes());
    world.write("s.jsonl", &bytes);
    world.read();
    let said = world.said();
    assert_eq!(said[..2], ["mark", "carriage"]);
    assert!(said[2].contains(r#""record_type":"no record""#), "{}", said[2]);
    assert_eq!(said[3..], ["broken \u{FFFD}\u{FFFD} text", "half \u{FFFD} of a pair"]);
    assert_eq!(world.sink.kept(), [bytes], "what was read is kept byte for byte");
}

#[test]
fn a_line_longer_than_any_record_is_kept_and_passed_over() {
    let mut world = World::new();
    let long = prompt(&"x".repeat(65 * 1024 * 1024));
    world.write("s.jsonl", [prompt("before"), long, prompt("after")].concat());
    assert_eq!(world.read(), [WarningKind::TooLong, WarningKind::UnknownRecords]);
    let said = world.said();
    assert_eq!((said[0].as_str(), said[2].as_str()), ("before", "after"));
    assert!(said[1].contains("longer than any record"), "{}", said[1]);
}

#[test]
fn a_truncated_file_begins_anew_and_nothing_is_told_twice() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    world.write("s.jsonl", prompt("one"));
    world.read();
    world.write("s.jsonl", prompt("one") + &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["one", "two", "three"], "what vanished stays");
    assert_eq!(world.generations(), [0, 1]);
}

#[test]
fn a_file_rewritten_in_place_begins_anew() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    // The same size, and even the same end.
    world.write("s.jsonl", prompt("eno") + &prompt("two"));
    world.read();
    assert_eq!(world.said(), ["one", "two", "eno"]);
}

#[test]
fn a_file_that_goes_on_under_another_inode_is_the_same() {
    let mut world = World::with("s.jsonl", prompt("one"));
    world.write("s.new", prompt("one") + &prompt("two"));
    fs::rename(world.path("s.new"), world.path("s.jsonl")).unwrap();
    world.read();
    assert_eq!((world.said(), world.generations()), (strings(&["one", "two"]), vec![0]));
    assert_eq!(world.sink.sightings, 0, "only what is new was read");
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_replaced_file_begins_anew() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    world.write("beside", prompt("one") + &prompt("three"));
    fs::rename(world.path("beside"), world.path("s.jsonl")).unwrap();
    world.read();
    assert_eq!(world.said(), ["one", "two", "three"]);
}

#[test]
fn a_moved_file_is_the_same_source() {
    let mut world = World::with("s.jsonl", prompt("one"));
    fs::create_dir_all(world.path("../-home-dev-moved")).unwrap();
    fs::rename(world.path("s.jsonl"), world.path("../-home-dev-moved/s.jsonl")).unwrap();
    world.read();
    world.append("../-home-dev-moved/s.jsonl", &prompt("two"));
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
    assert_eq!(world.sink.sightings, 0, "nothing is read again");
    assert_eq!(world.sink.positions.len(), 1);
}

#[test]
fn reused_inode_is_another_source() {
    let mut world = World::with("gone.jsonl", prompt("one"));
    // As the system does that gives free numbers away again.
    fs::rename(world.path("gone.jsonl"), world.path("new.jsonl")).unwrap();
    world.write("new.jsonl", prompt("two"));
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
    let kept = world.sink.kept();
    assert_eq!(kept.len(), 2);
    assert!(["one", "two"].iter().all(|text| kept.contains(&prompt(text).into_bytes())));
    assert_eq!(world.generations(), [0, 0], "each is kept under a name of its own");
    // The deleted one comes back.
    world.write("gone.jsonl", prompt("one") + &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["one", "three", "two"]);
    assert_eq!((world.generations(), world.sink.sightings), (vec![0, 0], 0));
}

#[test]
fn torn_line_survives_another_file() {
    let mut world = World::with("gone.jsonl", "{\"type\":\"us");
    fs::rename(world.path("gone.jsonl"), world.path("new.jsonl")).unwrap();
    world.write("new.jsonl", prompt("one"));
    world.read();
    assert_eq!(world.sink.positions.len(), 2);
    assert!(world.sink.events().all(|event| !event.metadata.contains_key(event::AMENDS)));
}

#[test]
fn file_with_several_names_keeps_identity() {
    let mut world = World::with("s.jsonl", prompt("one"));
    let folder = world.home.path().join(FOLDER);
    let link = folder.with_file_name("-link");
    // Of more than two names, one is neither listed last nor known last.
    for name in [&link, &folder.with_file_name("-other"), &folder.with_file_name("-third")] {
        symlink(&folder, name).unwrap();
    }
    world.read();
    let keys = |world: &World| world.sink.positions.keys().cloned().collect::<Vec<_>>();
    let all = keys(&world);
    assert_eq!(all.len(), 4);
    for text in ["two", "three", "four"] {
        world.append("s.jsonl", &prompt(text));
        world.read();
        assert_eq!(keys(&world), all);
    }
    // The other way round: what it was called first is now the link.
    fs::remove_file(&link).unwrap();
    fs::rename(&folder, &link).unwrap();
    symlink(&link, &folder).unwrap();
    for text in ["five", "six"] {
        world.append("s.jsonl", &prompt(text));
        world.read();
        assert_eq!(keys(&world), all);
    }
    assert_eq!(world.said(), ["one", "two", "three", "four", "five", "six"]);
}

#[test]
fn replacement_file_may_vanish_and_return() {
    let mut world = World::with("old.jsonl", prompt("one"));
    fs::rename(world.path("old.jsonl"), world.path("new.jsonl")).unwrap();
    world.write("old.jsonl", prompt("two"));
    world.read();
    let keys: Vec<String> = world.sink.positions.keys().cloned().collect();
    assert_eq!(keys.len(), 2);
    fs::rename(world.path("old.jsonl"), world.path("away")).unwrap();
    world.read();
    fs::rename(world.path("away"), world.path("old.jsonl")).unwrap();
    world.append("old.jsonl", &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["one", "two", "three"]);
    assert!(world.sink.positions.keys().eq(&keys));
}

#[test]
fn a_rotated_file_is_finished_and_the_new_one_is_read() {
    let mut world = World::with("s.jsonl", prompt("one"));
    world.write("s.jsonl", prompt("one") + &prompt("two"));
    fs::create_dir_all(world.path("../old")).unwrap();
    fs::rename(world.path("s.jsonl"), world.path("../old/s.jsonl")).unwrap();
    world.append("s.jsonl", &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["one", "two", "three"]);
    assert_eq!(world.sink.positions.len(), 2);
    world.append("../old/s.jsonl", &prompt("a late one"));
    world.read();
    world.append("s.jsonl", &prompt("four"));
    world.read();
    assert_eq!(world.said()[3..], ["a late one", "four"]);
}

#[test]
fn a_copy_under_another_name_is_no_news() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    world.write_later("copy.jsonl", "s.jsonl", prompt("one") + &prompt("two"));
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
    world.append("copy.jsonl", &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["three", "one", "two"], "what it adds is its own");
    let copy = world.sink.sessions.values().next().unwrap();
    assert!(copy[0].data.get().contains(r#""mode":"fork""#), "{}", copy[0].data.get());
}

#[test]
fn copy_without_line_end_is_read_once() {
    for end in ["\n", ""] {
        let text = prompt("one") + prompt("two").trim_end() + end;
        let mut world = World::with("s.jsonl", &text);
        let named = r#"{"type":"mode","sessionId":"copy"}"#.to_owned() + "\n";
        world.write("copy.jsonl", named + &text);
        world.read();
        assert_eq!(world.said(), ["one", "two"]);
        assert_eq!((world.sink.sessions.len(), world.sink.positions.len()), (2, 2), "{end:?}");
        let before = world.sink.positions.clone();
        world.read();
        assert_eq!(world.sink.positions, before);
    }
}

#[test]
fn a_copy_is_not_told_before_it_is_complete() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    world.write_later("copy.jsonl", "s.jsonl", prompt("one"));
    world.read();
    world.append("copy.jsonl", &prompt("two"));
    world.read();
    world.append("copy.jsonl", &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["three", "one", "two"]);
}

#[test]
fn a_parent_that_went_on_stays_the_parent() {
    let mut world = World::new();
    world.write("parent.jsonl", prompt("one"));
    world.write_later("fork.jsonl", "parent.jsonl", prompt("one") + &prompt("two"));
    // Brought from elsewhere with its time; then the user goes on in the parent.
    let fork = fs::File::options().append(true).open(world.path("fork.jsonl")).unwrap();
    fork.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
    world.append("parent.jsonl", &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["two", "one", "three"]);
}

#[test]
fn a_fork_that_begins_anew_still_repeats_its_parent() {
    let mut world = World::with("s.jsonl", prompt("one") + &prompt("two"));
    world.write_later("fork.jsonl", "s.jsonl", prompt("one") + &prompt("three") + &prompt("four"));
    world.read();
    world.write("fork.jsonl", prompt("one") + &prompt("three"));
    world.read();
    assert_eq!(world.said(), ["three", "four", "one", "two"]);
}

#[test]
fn unusable_checkpoint_starts_over() {
    let huge = u64::MAX.to_string();
    for (whole, damaged) in [
        (r#""tail":{"length":64"#, r#""tail":{"length":5000"#),
        (r#""head":{"length":"#, r#""head":{"length":9999"#),
        (r#""offset":"#, r#""offset":9007199254740993"#),
        (r#""records":1"#, &format!(r#""records":{huge}"#)),
        (r#""generation":0"#, r#""generation":4294967295"#),
        (r#""epoch":0"#, &format!(r#""epoch":{huge}"#)),
        ("{", "no position"),
    ] {
        let mut world = World::with("s.jsonl", prompt("one"));
        let position = world.sink.positions.values_mut().next().unwrap();
        assert!(position.contains(whole), "{position}");
        *position = position.replacen(whole, damaged, 1);
        world.append("s.jsonl", &prompt("two"));
        world.read();
        assert_eq!(world.said(), ["one", "two"], "{damaged}");
    }
}

#[test]
fn a_deleted_file_leaves_its_session_and_may_come_back() {
    let mut world = World::with("s.jsonl", prompt("one"));
    fs::remove_file(world.path("s.jsonl")).unwrap();
    assert_eq!(world.read(), []);
    assert_eq!(world.read(), []);
    assert_eq!(world.said(), ["one"]);
    world.write("s.jsonl", prompt("two"));
    world.read();
    assert_eq!(world.said(), ["one", "two"]);
    fs::remove_dir_all(world.home.path().join(".claude")).unwrap();
    assert_eq!(world.read(), [], "an agent that is gone is no error");
}

#[test]
fn what_cannot_be_read_is_named_and_the_others_are_read() {
    let mut world = World::new();
    fs::create_dir(world.path("folder.jsonl")).unwrap();
    world.write("s.jsonl", prompt("one"));
    assert_eq!(world.read(), [WarningKind::Unreadable]);
    assert_eq!(world.said(), ["one"]);
}

#[test]
fn links_are_followed_within_the_root_and_end() {
    let world = World::new();
    let real = world.home.path().join("elsewhere");
    fs::rename(world.home.path().join(".claude"), &real).unwrap();
    symlink(&real, world.home.path().join(".claude")).unwrap();
    let mut world = world;
    world.write("s.jsonl", prompt("one"));
    fs::write(world.home.path().join("outside.jsonl"), prompt("outside")).unwrap();
    symlink(world.home.path().join("outside.jsonl"), world.path("out.jsonl")).unwrap();
    symlink("..", world.path("around")).unwrap();
    symlink("nowhere", world.path("dangling.jsonl")).unwrap();
    let warnings = world.read();
    assert!(warnings.iter().all(|kind| *kind == WarningKind::LeadsOut), "{warnings:?}");
    assert_eq!(world.said(), ["one"]);
}

#[test]
fn what_is_deleted_between_listing_and_reading_is_no_fault() {
    let mut world = World::new();
    world.write("s.jsonl", prompt("one"));
    let path = world.path("s.jsonl");
    let environment = Environment::new(world.home.path(), []);
    let agents = [agent("claude")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let mut delete = |_: &IngestProgress| fs::remove_file(&path).unwrap_or_default();
    let summary = pump.ingest_all(&mut world.sink, &mut delete).unwrap();
    assert_eq!((summary.warnings, world.said()), (Vec::new(), Vec::new()));
}

/// Takes some batches, then fails: a process that is killed, or a disk that is full.
pub(crate) struct Failing {
    pub memory: Memory,
    pub puts_left: usize,
}

impl Sink for Failing {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.memory.show_sources(show)
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        self.memory.source(key)
    }

    fn keep_original(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        self.memory.keep_original(original)
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        let Some(puts_left) = self.puts_left.checked_sub(1) else {
            // The next reader finds what it took.
            self.memory.settle()?;
            return Err(SinkError("full".into()));
        };
        self.puts_left = puts_left;
        self.memory.put_batch(batch)
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        self.memory.settle()
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        self.memory.original(source, generation)
    }

    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        self.memory.unknown_in(session)
    }

    fn find_event(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        self.memory.find_event(id)
    }

    fn find_events(
        &self,
        session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        self.memory.find_events(session, ids)
    }
}

#[test]
fn a_sink_that_fails_at_any_point_loses_and_doubles_nothing() {
    let world = World::new();
    let lines: Vec<String> = (0..2_500).map(|number| prompt(&format!("prompt {number}"))).collect();
    world.write("a.jsonl", lines[..1_500].concat());
    world.write("b.jsonl", lines[1_500..].concat());
    world.write("c.jsonl", lines[..1_500].concat() + &prompt("forked"));
    let expected = sorted_prompts(&whole(world.home.path()));
    for puts in 0..8 {
        let mut sink = Failing { memory: Memory::default(), puts_left: puts };
        let failed = once(world.home.path(), &mut sink);
        sink.puts_left = usize::MAX;
        once(world.home.path(), &mut sink).unwrap();
        assert_eq!(sorted_prompts(&sink.memory), expected, "after {puts} batches: {failed:?}");
        assert_eq!(sink.memory.sightings, 0);
    }
}

#[test]
fn stopped_pass_is_continued_by_next() {
    let world = World::new();
    let lines: Vec<String> = (0..2_500).map(|number| prompt(&format!("prompt {number}"))).collect();
    world.write("a.jsonl", lines[..1_500].concat());
    world.write("b.jsonl", lines[1_500..].concat());
    let expected = sorted_prompts(&whole(world.home.path()));
    let environment = Environment::new(world.home.path(), []);
    let clock = || Time::from_millis(NOW);
    for steps in 1..6 {
        let stop = StopFlag::default();
        let mut sink = Memory::default();
        let mut told = 0;
        let agents = [agent("claude")];
        let pump = Ingester::new(&agents, &environment, &clock).with_stop_flag(stop.clone());
        pump.ingest_all(&mut sink, &mut |_| {
            told += 1;
            if told == steps {
                stop.request_stop();
            }
        })
        .unwrap();
        assert!(sorted_prompts(&sink).len() <= 1_000 * steps, "it stopped after {steps} steps");
        once(world.home.path(), &mut sink).unwrap();
        assert_eq!(sorted_prompts(&sink), expected, "after {steps} steps");
        assert_eq!(sink.sightings, 0);
    }
}

fn whole(home: &Path) -> Memory {
    let mut sink = Memory::default();
    read(agent("claude"), home, &mut sink);
    sink
}

fn once(home: &Path, sink: &mut dyn Sink) -> Result<(), CaptureError> {
    let environment = Environment::new(home, []);
    let clock = || Time::from_millis(NOW);
    Ingester::new(&[agent("claude")], &environment, &clock).ingest_all(sink, &mut |_| {}).map(drop)
}

fn sorted_prompts(sink: &Memory) -> Vec<(String, Option<String>)> {
    let prompts = sink.events().filter(|event| event.kind == Kind::UserPrompt);
    let mut prompts: Vec<_> =
        prompts.map(|event| (event.session_id.to_string(), event.text.clone())).collect();
    prompts.sort();
    prompts
}
