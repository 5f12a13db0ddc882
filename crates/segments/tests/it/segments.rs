//! Segments and dreams: folders that can be rebuilt, and activities that are published once.

use std::fs;
use std::path::{Path, PathBuf};

use event::{Draft, EventId, Kind, Raw, SessionId, Time};
use journal::{Batch, Journal, Options};
use segments::{Day, Dream, DreamEvent, Segment, SegmentError, Zone, forget_segments};
use serde_json::{Value, json};
use tempfile::TempDir;
use views::chronicle_of;

/// When all sessions here begin: 08:00 on a day in UTC.
pub(crate) const MORNING: i64 = 1_794_816_000_000;
pub(crate) const MINUTE: i64 = 60_000;

pub(crate) struct World {
    dir: TempDir,
    pub(crate) journal: Journal,
}

/// Appends the events of a session, one a second.
pub(crate) struct SessionWriter<'a> {
    journal: &'a Journal,
    session: SessionId,
    at: i64,
    count: u64,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = TempDir::new().unwrap();
        let journal = Journal::open_or_create(&dir.path().join("j"), &Options::default()).unwrap();
        World { dir, journal }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("j")
    }

    pub(crate) fn begin(&self, session: &str, project: &str, minutes: i64) -> SessionWriter<'_> {
        let mut writer = SessionWriter {
            journal: &self.journal,
            session: SessionId::new(format!("claude:{session}")).unwrap(),
            at: MORNING + minutes * MINUTE,
            count: 0,
        };
        let cwd = format!("/home/dev/{project}");
        writer
            .append("session.started", json!({"agent": "claude", "cwd": cwd, "project": project}));
        writer
    }

    /// The folder of the last epoch of a session.
    pub(crate) fn claim(&self, session: &str) -> Segment {
        let info =
            self.journal.stat(&SessionId::new(format!("claude:{session}")).unwrap()).unwrap();
        let chronicle = chronicle_of(&self.journal, &info).unwrap();
        let epoch = chronicle.chapters().last().unwrap().epoch.clone();
        Segment::claim(&self.journal, &info, &epoch, &Zone::UTC).unwrap()
    }

    fn delete(&self, session: &str) {
        let gone = SessionId::new(format!("claude:{session}")).unwrap();
        self.journal.delete(&gone, Time::from_millis(0), journal::ForkPolicy::Refuse).unwrap();
        forget_segments(self.journal.dir().unwrap(), &gone).unwrap();
    }

    /// Runs a dream at a time of the day and returns the names of its events.
    pub(crate) fn dream(&self, dream: &Dream, minutes: i64) -> Vec<String> {
        let mut told = Vec::new();
        let now = Time::from_millis(MORNING + minutes * MINUTE);
        let mut emit = |it: DreamEvent| {
            let id = it
                .fields
                .get("id")
                .map_or(String::new(), |id| format!(" {}", id.as_str().unwrap()));
            let again = if it.fields.contains_key("again") { " again" } else { "" };
            told.push(format!("{}.{}{id}{again}", it.tract, it.event));
        };
        dream.run(&self.journal, &Zone::UTC, now, &mut emit).unwrap();
        told
    }
}

impl SessionWriter<'_> {
    fn append(&mut self, kind: &str, data: Value) -> &mut Self {
        self.at += 1_000;
        self.count += 1;
        let at = Time::from_millis(self.at);
        let id = EventId::derived(at, "claude", self.session.as_str(), &self.count.to_be_bytes());
        let data = Raw::from_value(&data).unwrap();
        let mut draft = Draft::with_data(id, self.session.clone(), at, Kind::from(kind), data);
        draft.provider = "claude".to_owned();
        self.journal.append(Batch::observed().with(draft)).unwrap();
        self
    }

    pub(crate) fn ask(&mut self, text: &str) -> &mut Self {
        self.append("user.prompt", json!({"content": text}))
    }

    pub(crate) fn edit(&mut self, file: &str) -> &mut Self {
        let call = format!("c{}", self.count);
        let input = json!({"file_path": file});
        self.append("tool.call", json!({"call_id": call, "tool": "Edit", "input": input}));
        self.append("tool.result", json!({"call_id": call, "outcome": "ok", "output": "done"}))
    }

    pub(crate) fn close(&mut self) {
        self.append("turn.completed", json!({"stop_reason": "end_turn"}));
        self.append("epoch.closed", json!({"epoch": 0, "cause": "silence"}));
    }
}

fn day() -> Day {
    Zone::UTC.day(Time::from_millis(MORNING))
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn epoch_has_transcript_and_digest() {
    let world = World::new();
    world.begin("s", "app", 0).ask("Write the parser in src/a.rs").edit("src/a.rs").close();
    let segment = world.claim("s");
    assert!(segment.folder().ends_with("20261116/claude/080001_5"), "{:?}", segment.folder());
    let transcribed = segment.transcribe(&world.journal).unwrap();
    assert_eq!((transcribed.outcome.as_str(), transcribed.redacted), ("transcribed", 0));
    let transcript = lines(&segment.folder().join("transcript.jsonl"));
    assert_eq!(transcript[0]["tag"], "session:claude:claude:s");
    assert!(transcript[1]["text"].as_str().unwrap().contains("[USER]: Write the parser"));
    let described = segment.describe(&world.journal).unwrap();
    let digest = lines(&segment.folder().join("digest.jsonl"));
    assert_eq!(digest.len() as u64, 1 + described.facts);
    assert_eq!(digest[1]["topic"], "goal");
}

#[test]
fn deleted_outputs_are_rebuilt() {
    let world = World::new();
    world.begin("s", "app", 0).ask("Write the parser in src/a.rs").close();
    let segment = world.claim("s");
    segment.transcribe(&world.journal).unwrap();
    segment.describe(&world.journal).unwrap();
    let read = |name: &str| fs::read(segment.folder().join(name)).unwrap();
    let before = ["segment.json", "transcript.jsonl", "digest.jsonl"].map(read);
    fs::remove_dir_all(segment.folder()).unwrap();
    let again = world.claim("s");
    again.transcribe(&world.journal).unwrap();
    again.describe(&world.journal).unwrap();
    assert_eq!(["segment.json", "transcript.jsonl", "digest.jsonl"].map(read), before);
    // A line that the user added stays, because the events are the same.
    let transcript = again.folder().join("transcript.jsonl");
    let mut text = fs::read_to_string(&transcript).unwrap();
    text += "{\"text\":\"noted\"}\n";
    fs::write(&transcript, &text).unwrap();
    again.transcribe(&world.journal).unwrap();
    assert_eq!(fs::read_to_string(&transcript).unwrap(), text);
}

#[test]
fn secrets_do_not_get_into_a_segment() {
    let world = World::new();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    world.begin("s", "app", 0).ask(&format!("Push with the token {secret} please")).close();
    let segment = world.claim("s");
    assert_eq!(segment.transcribe(&world.journal).unwrap().redacted, 1);
    segment.describe(&world.journal).unwrap();
    for name in ["transcript.jsonl", "digest.jsonl"] {
        assert!(!fs::read_to_string(segment.folder().join(name)).unwrap().contains(secret));
    }
}

#[test]
fn epochs_of_one_second_have_folders() {
    let world = World::new();
    world.begin("a", "app", 0).ask("one").close();
    world.begin("b", "app", 0).ask("two").close();
    let (first, second) = (world.claim("a"), world.claim("b"));
    assert_eq!(first.meta.segment, "080001_3");
    assert_eq!(second.meta.segment, "080001_4");
    assert_eq!(world.claim("a").folder(), first.folder());
    assert_eq!(world.claim("b").folder(), second.folder());
    assert_eq!(Segment::list_of_day(&world.root(), day()).unwrap().len(), 2);
}

#[test]
fn longest_epochs_have_distinct_folders() {
    let world = World::new();
    // Records without a date count as of 1970.
    for session in ["a", "b"] {
        let mut writer = world.begin(session, "app", -MORNING / MINUTE);
        writer.at = MORNING;
        writer.ask("one").close();
    }
    let (first, second) = (world.claim("a"), world.claim("b"));
    assert_eq!(first.key().segment(), "000001_9999999");
    assert_eq!(second.key().segment(), "000001_0");
}

#[test]
fn segment_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let segment = world.claim("a");
    segment.transcribe(&world.journal).unwrap();
    segment.describe(&world.journal).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in segment.folder().ancestors().take_while(|folder| *folder != world.root()) {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let files = fs::read_dir(segment.folder()).unwrap().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert_eq!(files.len(), 3);
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn failed_dream_is_published() {
    let world = World::new();
    let dream =
        Dream::Activity { day: day(), facet: "app".to_owned(), id: "coding_080001_3".to_owned() };
    let mut told = Vec::new();
    let ran =
        dream.run(&world.journal, &Zone::UTC, Time::from_millis(MORNING), &mut |it: DreamEvent| {
            told.push((
                it.event,
                it.fields.get("success").cloned(),
                it.fields.get("failed").cloned(),
            ));
        });
    assert!(ran.is_err());
    let completed = ("completed", Some(json!(0)), Some(json!(1)));
    assert_eq!(told, [("started", None, None), completed]);
}

#[test]
fn unreadable_folder_is_not_reused() {
    let world = World::new();
    world.begin("a", "app", 0).ask("one").close();
    world.begin("b", "app", 0).ask("two").close();
    let first = world.claim("a");
    first.describe(&world.journal).unwrap();
    fs::write(first.folder().join("segment.json"), "{\"day\":\"2026").unwrap();
    assert_ne!(world.claim("b").folder(), first.folder());
    // The header of an output still names the epoch.
    assert_eq!(world.claim("a").folder(), first.folder());
    assert_eq!(Segment::open(first.folder()).unwrap().meta, first.meta);
    // No file names the epoch any more: no epoch may take the folder.
    fs::write(first.folder().join("segment.json"), "").unwrap();
    fs::write(first.folder().join("digest.jsonl"), "").unwrap();
    assert_ne!(world.claim("b").folder(), first.folder());
    assert_ne!(world.claim("a").folder(), first.folder());
}

#[test]
fn unnamed_folder_is_reused_after_crash() {
    let world = World::new();
    world.begin("a", "app", 0).ask("one").close();
    let folder = world.root().join("20261116/claude/080001_3");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(".segment.json.tmp"), "{\"day\":").unwrap();
    assert_eq!(world.claim("a").folder(), folder);
}

#[test]
fn links_as_folders_are_not_followed() {
    let world = World::new();
    world.begin("s", "app", 0).ask("one").close();
    let elsewhere = world.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(world.root().join("20261116")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, world.root().join("20261116/claude")).unwrap();
    let info = world.journal.stat(&SessionId::new("claude:s").unwrap()).unwrap();
    let chronicle = chronicle_of(&world.journal, &info).unwrap();
    let epoch = chronicle.chapters().last().unwrap().epoch.clone();
    let claimed = Segment::claim(&world.journal, &info, &epoch, &Zone::UTC);
    assert!(matches!(claimed, Err(SegmentError::NotAFolder { .. })), "{claimed:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn activity_is_recorded_once() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser in src/a.rs").edit("src/a.rs").close();
    let first = world.claim("a");
    let told = world.dream(&Dream::Segment(first.key()), 5);
    assert_eq!(told, ["dream.started", "activity.live coding_080001_5", "dream.completed"]);
    world.begin("b", "app", 20).ask("Now its tests").edit("tests/a.rs").close();
    let second = world.claim("b");
    let told = world.dream(&Dream::Segment(second.key()), 60);
    assert_eq!(told, ["dream.started", "activity.recorded coding_080001_5", "dream.completed"]);
    let told = world.dream(&Dream::Segment(second.key()), 61);
    assert_eq!(told, ["dream.started", "dream.completed"]);
    let kept: Value =
        serde_json::from_slice(&fs::read(world.root().join("20261116/activities.json")).unwrap())
            .unwrap();
    assert_eq!(kept[0]["segments"], json!(["080001_5", "082001_5"]));

    let facet = "app".to_owned();
    let id = "coding_080001_5".to_owned();
    world.dream(&Dream::Activity { day: day(), facet, id }, 61);
    let path = world.root().join("20261116/activities/claude.coding_080001_5.json");
    let outcome: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert!(outcome["work"][0].as_str().unwrap().contains("src/a.rs"), "{outcome}");
}

#[test]
fn transcript_header_has_times_and_counts() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let made = world.claim("a").transcribe(&world.journal).unwrap();
    assert_eq!((made.outcome.as_str(), made.noisy), ("transcribed", false));
    assert_eq!((made.vad_duration, made.vad_speech), (5, 3));
    // Most events are of an unknown kind.
    let mut writer = world.begin("b", "app", 60);
    writer.ask("Write the parser");
    for _ in 0..9 {
        writer.append("unknown", json!({"kind": "future"}));
    }
    writer.close();
    assert!(world.claim("b").transcribe(&world.journal).unwrap().noisy);
    // An epoch without text.
    let mut writer = world.begin("c", "app", 120);
    writer.append("turn.started", json!({}));
    writer.append("epoch.closed", json!({"epoch": 0, "cause": "silence"}));
    let made = world.claim("c").transcribe(&world.journal).unwrap();
    assert_eq!((made.outcome.as_str(), made.lines), ("filtered", 0));
}

#[test]
fn history_outcomes_are_written_at_once() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser in src/a.rs").edit("src/a.rs").close();
    world.claim("a");
    let told = world.dream(&Dream::Segments(day()), 24 * 60);
    assert_eq!(told, ["dream.started", "activity.recorded coding_080001_5", "dream.completed"]);
    assert!(world.root().join("20261116/activities/claude.coding_080001_5.json").exists());
}

#[test]
fn flush_ends_open_activities() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let segment = world.claim("a");
    let told = world.dream(&Dream::Flush(segment.key()), 5);
    assert_eq!(told[1], "activity.recorded coding_080001_5");
    assert_eq!(world.dream(&Dream::Segment(segment.key()), 6).len(), 2);
}

#[test]
fn repeated_dream_is_marked_again() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let segment = world.claim("a");
    let started = json!({"tract": "dream", "event": "started", "mode": "segment"});
    fs::write(segment.folder().join("events.jsonl"), format!("{started}\n")).unwrap();
    let told = world.dream(&Dream::Segment(segment.key()), 5);
    assert!(told.iter().all(|told| told.ends_with(" again")), "{told:?}");
}

#[test]
fn day_digest_is_in_its_folder() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    world.claim("a");
    world.dream(&Dream::Daily(day()), 0);
    let path = world.root().join("20261116/digest.json");
    let digest: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(digest["projects"][0]["project"], "app");
}

#[test]
fn deleted_session_leaves_no_files() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the zzparser").edit("a.rs").close();
    world.begin("b", "app", 5).ask("Something else").close();
    for session in ["a", "b"] {
        let segment = world.claim(session);
        segment.transcribe(&world.journal).unwrap();
        segment.describe(&world.journal).unwrap();
        world.dream(&Dream::Flush(segment.key()), 10);
    }
    world.dream(&Dream::Daily(day()), 10);
    world.delete("a");
    let left = Segment::list_of_day(&world.root(), day()).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].meta.session_id.as_str(), "claude:b");
    let folder = world.root().join("20261116");
    assert!(!folder.join("activities.json").exists() && !folder.join("digest.json").exists());
}

#[test]
fn damaged_segment_is_deleted_too() {
    let world = World::new();
    for (number, session) in ["a", "b", "c"].into_iter().enumerate() {
        world.begin(session, "app", number as i64).ask("Write the zzparser").close();
        let segment = world.claim(session);
        segment.transcribe(&world.journal).unwrap();
        // A half-written file.
        fs::write(segment.folder().join("segment.json"), "{\"day\":").unwrap();
    }
    let folders = || fs::read_dir(world.root().join("20261116/claude")).unwrap().count();
    // The session is named by an output, by the event log, or by the rest of `segment.json`.
    world.delete("a");
    assert_eq!(folders(), 2);
    let folder = world.root().join("20261116/claude/080101_3");
    fs::remove_file(folder.join("transcript.jsonl")).unwrap();
    let observing =
        json!({"tract": "observe", "event": "observing", "meta": {"session_id": "claude:b"}});
    fs::write(folder.join("events.jsonl"), format!("{observing}\n")).unwrap();
    world.delete("b");
    assert_eq!(folders(), 1);
    let folder = world.root().join("20261116/claude/080201_3");
    fs::remove_file(folder.join("transcript.jsonl")).unwrap();
    fs::write(folder.join("segment.json"), "{\"session_id\":\"claude:c\",").unwrap();
    world.delete("c");
    assert_eq!(folders(), 0);
}

#[test]
fn digest_of_a_deleted_session_is_removed() {
    let world = World::new();
    world.begin("open", "app", 0).ask("Write the zzparser").edit("a.rs");
    world.begin("b", "app", 5).ask("Something else").close();
    world.claim("b");
    world.dream(&Dream::Daily(day()), 10);
    let digest = world.root().join("20261116/digest.json");
    assert!(fs::read_to_string(&digest).unwrap().contains("zzparser"));
    world.delete("open");
    assert!(!digest.exists());
    world.dream(&Dream::Daily(day()), 10);
    assert!(!fs::read_to_string(&digest).unwrap().contains("zzparser"));
}

#[test]
fn segments_outlast_all_digests_in_a_deletion() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the zzparser").close();
    let segment = world.claim("a");
    // No file, so that the deletion ends here with an error.
    let later = world.root().join("20261117/digest.json");
    fs::create_dir_all(&later).unwrap();
    let gone = SessionId::new("claude:a").unwrap();
    forget_segments(&world.root(), &gone).unwrap_err();
    // By its segment the next start of the daemon finds the session again.
    assert!(segment.folder().exists());

    fs::remove_dir(&later).unwrap();
    fs::write(&later, "{\"sessions\":[\"claude:a\"]}").unwrap();
    forget_segments(&world.root(), &gone).unwrap();
    assert!(!segment.folder().exists() && !later.exists());
}

#[test]
fn shared_activities_are_removed_too() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the zzparser").edit("a.rs").close();
    world.begin("b", "app", 5).ask("Something else").close();
    world.claim("a");
    let segment = world.claim("b");
    let log = segment.folder().join("events.jsonl");
    let lines = [
        json!({"tract": "observe", "event": "observed"}),
        json!({"tract": "activity", "event": "live", "description": "Write the zzparser"}),
    ];
    fs::write(&log, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    world.delete("a");
    assert_eq!(fs::read_to_string(&log).unwrap(), format!("{}\n", lines[0]));
}

#[test]
fn concurrent_writer_leaves_no_files() {
    for round in 0..20 {
        let world = World::new();
        world.begin("a", "app", 0).ask("Write the zzparser").edit("a.rs").close();
        world.begin("b", "app", 5).ask("Something else").close();
        world.claim("b");
        let segment = world.claim("a");
        let (key, journal) = (segment.key(), &world.journal);
        std::thread::scope(|scope| {
            // Each writer may find the session deleted and stop.
            scope.spawn(|| segment.transcribe(journal).map(drop));
            scope.spawn(|| segment.describe(journal).map(drop));
            scope.spawn(|| {
                let now = Time::from_millis(MORNING + 10 * MINUTE);
                for dream in [Dream::Flush(key.clone()), Dream::Daily(day())] {
                    dream.run(journal, &Zone::UTC, now, &mut |_| ()).unwrap();
                }
            });
            scope.spawn(|| (0..round).for_each(|_| drop(journal.tail()))).join().unwrap();
            world.delete("a");
        });
        let left = files_below(&world.root().join("20261116"));
        for path in left {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("zzparser") && !text.contains("claude:a"), "{path:?}: {text}");
        }
        let info = world.journal.stat(&SessionId::new("claude:a").unwrap());
        assert!(info.is_err() && !segment.folder().exists());
    }
}

#[test]
fn deleted_session_gets_no_segment() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let info = world.journal.stat(&SessionId::new("claude:a").unwrap()).unwrap();
    let epoch =
        chronicle_of(&world.journal, &info).unwrap().chapters().last().unwrap().epoch.clone();
    let segment = world.claim("a");
    world.delete("a");
    let claimed = Segment::claim(&world.journal, &info, &epoch, &Zone::UTC);
    assert!(matches!(claimed, Err(SegmentError::Deleted(_))), "{claimed:?}");
    assert!(segment.transcribe(&world.journal).is_err());
    assert!(segment.describe(&world.journal).is_err());
    assert_eq!(Segment::list_of_day(&world.root(), day()).unwrap().len(), 0);
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
