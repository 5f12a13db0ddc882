//! Databases that would cost any time or memory, beside sources that are read all the same.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use capture::{
    DatabaseGuard, Environment, IngestSummary, Ingester, QueryLimit, Warning, WarningKind,
    survey_sources,
};
use event::{Event, Kind, Time};
use rusqlite::Connection;
use testkit::tables::open_as_owner;

use crate::handmade::Home;
use crate::scenario::{NOW, agent, short};

const GOOSE: &str = ".local/share/goose/sessions/sessions.db";
const CURSOR: &str = ".config/Cursor/User/globalStorage/state.vscdb";
const OPENCODE: &str = ".local/share/opencode/opencode.db";

const GOOSE_TABLES: &str = "
    CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT, session_type TEXT,
        working_dir TEXT, created_at TEXT, updated_at TEXT, accumulated_total_tokens INTEGER);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
        created_timestamp INTEGER);
    CREATE INDEX idx_messages_session ON messages(session_id);
    INSERT INTO sessions (id, working_dir, updated_at)
        VALUES ('20260101_1', '/home/dev/project', '2026-01-01 00:00:00');";

const OPENCODE_TABLES: &str = r#"
    CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, title TEXT,
        directory TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
    CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_updated INTEGER, data TEXT);
    CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,
        time_updated INTEGER, data TEXT);
    INSERT INTO session VALUES ('ses_1', 'p', NULL, 'Greeting', '/home/dev/project', '1.0.0', NULL, 1, 1);
    INSERT INTO message VALUES ('msg_1', 'ses_1', 1, '{"role":"user","time":{"created":1}}');
    INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', 1, '{"type":"text","text":"Small one."}');"#;

/// Several agents on one machine, read with one guard.
struct Machine {
    home: Home,
    guard: DatabaseGuard,
    now: Cell<i64>,
}

impl Machine {
    /// One agent beside the others is well.
    fn new(limit: QueryLimit) -> Machine {
        let home = Home::new();
        let prompt = r#"{"type":"user","uuid":"u1","timestamp":"2026-01-01T00:00:00Z","message":{"content":"Hello."}}"#;
        home.write(".claude/projects/-home-dev-project/a.jsonl", &format!("{prompt}\n"));
        Machine { home, guard: DatabaseGuard::new(limit), now: Cell::new(NOW) }
    }

    fn database(&self, path: &str, tables: &str) -> Connection {
        let connection = open_as_owner(&self.home.path().join(path));
        connection.execute_batch(tables).unwrap();
        connection
    }

    fn say(&self, goose: &Connection, role: &str, text: &str) {
        let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
            VALUES ('20260101_1', ?1, ?2, 1767225600)";
        let content = serde_json::json!([{"type": "text", "text": text}]).to_string();
        goose.execute(insert, (role, content)).unwrap();
    }

    fn read(&mut self) -> IngestSummary {
        let agents = ["opencode", "goose", "cursor", "codex", "claude"].map(agent);
        let environment = Environment::new(self.home.path(), []);
        let clock = || Time::from_millis(self.now.get());
        Ingester::new(&agents, &environment, &clock)
            .with_guard(self.guard.clone())
            .ingest_all(&mut self.home.sink, &mut |_| {})
            .unwrap()
    }

    fn sessions(&self) -> Vec<String> {
        self.home.sink.sessions.keys().map(ToString::to_string).collect()
    }
}

fn few_steps() -> QueryLimit {
    QueryLimit { steps_max: 30_000, ..QueryLimit::default() }
}

fn few_bytes() -> QueryLimit {
    QueryLimit { row_bytes_max: 4_096, ..QueryLimit::default() }
}

/// Checks that one database was named, and returns what was said of it.
#[track_caller]
fn named(warnings: &[Warning], path: &str) -> String {
    let [warning] = warnings else { panic!("{warnings:?}") };
    assert_eq!(warning.kind, WarningKind::Unreadable);
    assert!(warning.path.as_ref().unwrap().ends_with(path), "{warning:?}");
    warning.message.clone()
}

#[test]
fn recursive_view_is_no_table() {
    let mut machine = Machine::new(QueryLimit::default());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS id, i AS parent_id, i AS project_id, i AS title, i AS time_updated FROM n";
    for view in ["session", "message", "part", "event"] {
        machine.database(OPENCODE, &format!("CREATE VIEW {view} AS {endless};"));
    }
    let summary = machine.read();
    let words = named(&summary.warnings, OPENCODE);
    assert!(words.contains("`session` in it is a view"), "{words}");
    assert_eq!(machine.sessions(), ["claude:a"]);
    assert_eq!(machine.guard.waiting(), summary.warnings);
    // Also where sources are only looked at.
    let environment = Environment::new(machine.home.path(), []);
    let survey = survey_sources(&[agent("opencode")], &environment, &[], Time::from_millis(NOW));
    assert_eq!(named(&survey[0].unreadable, OPENCODE), words);
}

#[test]
fn costly_database_waits_while_others_are_read() {
    let mut machine = Machine::new(few_steps());
    let goose = machine.database(GOOSE, GOOSE_TABLES);
    for number in 0..5_000 {
        machine.say(&goose, "user", &format!("Prompt {number}"));
    }
    let words = named(&machine.read().warnings, GOOSE);
    assert!(words.contains("took too long"), "{words}");
    assert_eq!(machine.sessions(), ["claude:a"]);
    // While it waits it is not asked, even if it could be read; then it is.
    goose.execute_batch("DELETE FROM messages WHERE id > 3").unwrap();
    assert_eq!(named(&machine.read().warnings, GOOSE), words);
    assert_eq!(machine.sessions(), ["claude:a"]);
    machine.now.set(NOW + 10_000);
    let summary = machine.read();
    assert_eq!((summary.warnings, machine.guard.waiting()), (vec![], vec![]));
    let cured: Vec<PathBuf> = summary.cured;
    assert!(cured.len() == 1 && cured[0].ends_with(GOOSE), "{cured:?}");
    assert_eq!(machine.sessions(), ["claude:a", "goose:20260101_1"]);
}

#[test]
fn locked_database_waits_while_others_are_read() {
    let mut machine = Machine::new(QueryLimit { lock_asks_max: 1, ..QueryLimit::default() });
    let goose = machine.database(GOOSE, GOOSE_TABLES);
    machine.say(&goose, "user", "Hello.");
    // Without a write-ahead log readers have to wait for a writer.
    goose.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let words = named(&machine.read().warnings, GOOSE);
    assert!(words.contains("locked by another program"), "{words}");
    assert_eq!(machine.sessions(), ["claude:a"]);
    goose.execute_batch("COMMIT").unwrap();
    machine.now.set(NOW + 10_000);
    assert_eq!(machine.read().warnings, []);
    assert_eq!(machine.sessions(), ["claude:a", "goose:20260101_1"]);
}

#[test]
fn archive_that_unpacks_to_too_much_waits() {
    let mut machine = Machine::new(QueryLimit::default());
    let meta = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"0199a213-81c0-7800-8aa1-bbab2a035a53","cwd":"/home/dev/project"}}"#;
    let mut text = format!("{meta}\n").into_bytes();
    text.resize(100 << 20, b' ');
    let name = "rollout-2026-01-01T00-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl.zst";
    let path = machine.home.path().join(".codex/sessions/2026/01/01").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, zstd::encode_all(&text[..], 1).unwrap()).unwrap();
    let words = named(&machine.read().warnings, name);
    assert!(words.contains("unpacks to far more"), "{words}");
    assert_eq!(named(&machine.guard.waiting(), name), words);
    assert_eq!(machine.sessions(), ["claude:a"]);
}

#[test]
fn damaged_database_leaves_others_alone() {
    let mut machine = Machine::new(QueryLimit::default());
    let goose = machine.database(GOOSE, GOOSE_TABLES);
    for number in 0..500 {
        machine.say(&goose, "user", &format!("Prompt {number}"));
    }
    goose.close().unwrap();
    let path = machine.home.path().join(GOOSE);
    let bytes = fs::read(&path).unwrap();
    for from in (0..bytes.len()).step_by(4_096) {
        let mut damaged = bytes.clone();
        damaged[from..from + 4_096].fill(0xa5);
        fs::write(&path, damaged).unwrap();
        machine.home.sink = Default::default();
        machine.read();
        assert!(machine.sessions().contains(&"claude:a".to_owned()), "page at {from}");
    }
}

/// The rows that were too long, as they are told.
fn unknown(machine: &Machine) -> Vec<String> {
    let events = machine.home.sink.events().filter(|event| event.kind == Kind::Unknown);
    events.map(|event: &Event| event.data.get().to_owned()).collect()
}

#[track_caller]
fn check_too_long(machine: &mut Machine, bytes: usize) {
    let summary = machine.read();
    let warning = summary.warnings.iter().find(|it| it.kind == WarningKind::TooLong).unwrap();
    assert!(warning.message.contains(&format!("a row of {bytes} bytes")), "{warning:?}");
    let [told] = &unknown(machine)[..] else { panic!("{:?}", unknown(machine)) };
    assert!(told.contains(&format!(r#""bytes":{bytes}"#)), "{told}");
    assert!(told.contains(r#""record_type":"too long""#), "{told}");
    // Read again, from the database and from what was kept, it is the same event.
    let before = short(&machine.home.sink);
    machine.home.sink.positions.clear();
    machine.read();
    assert_eq!(short(&machine.home.sink), before);
    let kept = machine.home.sink.kept();
    assert!(kept.iter().all(|kept| kept.len() < bytes), "the row was not loaded");
}

#[test]
fn too_long_message_of_goose_is_told() {
    let mut machine = Machine::new(few_bytes());
    let goose = machine.database(GOOSE, GOOSE_TABLES);
    machine.say(&goose, "user", "Hello.");
    let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
        VALUES ('20260101_1', 'assistant', zeroblob(50000), 1767225600)";
    goose.execute_batch(insert).unwrap();
    machine.say(&goose, "user", "Go on.");
    check_too_long(&mut machine, 50_000);
    let told = short(&machine.home.sink);
    assert!(told.contains("Hello.") && told.contains("Go on."), "{told}");
}

#[test]
fn too_long_role_of_goose_stops_no_session() {
    let mut machine = Machine::new(few_bytes());
    let goose = machine.database(GOOSE, GOOSE_TABLES);
    machine.say(&goose, "user", "Hello.");
    let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
        VALUES ('20260101_1', zeroblob(50000), '', 1767225600)";
    goose.execute_batch(insert).unwrap();
    machine.say(&goose, "user", "Go on.");
    let summary = machine.read();
    let warning = summary.warnings.iter().find(|it| it.kind == WarningKind::TooLong);
    assert!(warning.is_some(), "{:?}", summary.warnings);
    let [unknown] = &unknown(&machine)[..] else { panic!("{:?}", unknown(&machine)) };
    assert!(unknown.contains(r#""record_type":"too long""#), "{unknown}");
    let told = short(&machine.home.sink);
    assert!(told.contains("Hello.") && told.contains("Go on."), "{told}");
}

#[test]
fn too_long_part_of_opencode_is_told() {
    let mut machine = Machine::new(few_bytes());
    let opencode = machine.database(OPENCODE, OPENCODE_TABLES);
    let insert = "INSERT INTO part VALUES ('prt_0', 'msg_1', 'ses_1', 1, zeroblob(50000))";
    opencode.execute_batch(insert).unwrap();
    // The message travels with its part.
    check_too_long(&mut machine, 50_000 + 36);
    let told = short(&machine.home.sink);
    assert!(told.contains("Small one."), "{told}");
}

/// Checks that one row was told as too long, once, and everything beside it as it is.
#[track_caller]
fn check_beside_too_long(machine: &mut Machine, healthy: &[&str]) {
    let summary = machine.read();
    let warned = |kind| summary.warnings.iter().filter(|it| it.kind == kind).count();
    let counts = [WarningKind::TooLong, WarningKind::Unreadable].map(warned);
    assert_eq!(counts, [1, 0], "{:?}", summary.warnings);
    assert_eq!(unknown(machine).len(), 1, "{:?}", unknown(machine));
    let told = short(&machine.home.sink);
    for text in healthy {
        assert_eq!(told.matches(text).count(), 1, "`{text}` in {told}");
    }
    machine.home.sink.positions.clear();
    machine.read();
    assert_eq!(short(&machine.home.sink), told, "read again it is the same");
}

/// The members of a row alone are within the limit. What SQLite sorts is longer than they are.
#[test]
fn rows_beside_one_at_the_limit_are_told() {
    let mut machine = Machine::new(few_bytes());
    let opencode = machine.database(OPENCODE, OPENCODE_TABLES);
    // The message travels with its part.
    let bytes = 4_096 - 36;
    let insert = format!(
        r#"INSERT INTO part VALUES ('prt_2', 'msg_1', 'ses_1', 1, zeroblob({bytes}));
        INSERT INTO part VALUES ('prt_3', 'msg_1', 'ses_1', 1, '{{"type":"text","text":"Behind it."}}');
        INSERT INTO message VALUES ('msg_2', 'ses_1', 1, '{{"role":"user","time":{{"created":2}}}}');
        INSERT INTO part VALUES ('prt_4', 'msg_2', 'ses_1', 1, '{{"type":"text","text":"The last."}}');"#
    );
    opencode.execute_batch(&insert).unwrap();
    check_beside_too_long(&mut machine, &["Greeting", "Small one.", "Behind it.", "The last."]);
}

#[test]
fn rows_beside_a_long_title_are_told() {
    let mut machine = Machine::new(few_bytes());
    let opencode = machine.database(OPENCODE, OPENCODE_TABLES);
    // As JSON it is longer than as text.
    let title = r#"UPDATE session SET title = replace(hex(zeroblob(1500)), '0', '"')"#;
    opencode.execute_batch(title).unwrap();
    check_beside_too_long(&mut machine, &["Small one."]);
}

#[test]
fn rows_beside_many_long_ones_are_told() {
    let mut machine = Machine::new(few_bytes());
    let opencode = machine.database(OPENCODE, OPENCODE_TABLES);
    for number in 100..1_000 {
        let data = match number % 250 {
            0 => format!("zeroblob({})", 4_096 - 36),
            _ => format!(r#"'{{"type":"text","text":"Text {number}."}}'"#),
        };
        let insert =
            format!("INSERT INTO part VALUES ('prt_{number}', 'msg_1', 'ses_1', 1, {data})");
        opencode.execute_batch(&insert).unwrap();
    }
    machine.read();
    assert_eq!(unknown(&machine).len(), 3, "{:?}", unknown(&machine));
    let told = short(&machine.home.sink);
    let lost = (100..1_000).filter(|number| number % 250 != 0);
    let lost: Vec<i32> = lost.filter(|number| !told.contains(&format!("Text {number}."))).collect();
    assert_eq!(lost, Vec::<i32>::new());
}

#[test]
fn bubbles_beside_one_at_the_limit_are_told() {
    let mut machine = Machine::new(few_bytes());
    let bubble = |id: &str, text: &str| {
        let json = format!(
            r#"{{"bubbleId":"{id}","type":1,"text":"{text}","createdAt":"2026-01-01T00:00:01.000Z"}}"#
        );
        format!("INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:{id}', '{json}');")
    };
    let composer = r#"{"composerId":"c1","createdAt":1767225600000,"fullConversationHeadersOnly":[{"bubbleId":"a"},{"bubbleId":"b"},{"bubbleId":"c"}]}"#;
    let tables = format!(
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
        INSERT INTO cursorDiskKV VALUES ('composerData:c1', '{composer}');
        INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:b', zeroblob(4096)); {} {}",
        bubble("a", "Small one."),
        bubble("c", "Behind it."),
    );
    machine.database(CURSOR, &tables);
    check_beside_too_long(&mut machine, &["Small one.", "Behind it."]);
}
