//! An agent's database that cannot be read, or not within a limit, beside agents that are well.

use std::fs;

use serde_json::Value;
use testkit::tables::open_as_owner;

use crate::empty;
use crate::up::{ask, hear_start, listen, up, wait_for_log};

/// A table for which SQLite would count for ever.
const ENDLESS: &str = "AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS id, i AS parent_id, i AS project_id, i AS title, i AS time_updated FROM n;";

/// A session with a value that is too large to be loaded between two messages.
const GOOSE: &str = r#"
    CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT, session_type TEXT,
        working_dir TEXT, created_at TEXT, updated_at TEXT, accumulated_total_tokens INTEGER);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
        created_timestamp INTEGER);
    CREATE INDEX idx_messages_session ON messages(session_id);
    INSERT INTO sessions (id, working_dir, updated_at)
        VALUES ('20260101_1', '/home/dev/project', '2026-01-01 00:00:00');
    INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES
        ('20260101_1', 'user', '[{"type":"text","text":"Before it."}]', 1767225600),
        ('20260101_1', 'assistant', zeroblob(70000000), 1767225601),
        ('20260101_1', 'user', '[{"type":"text","text":"Behind it."}]', 1767225602);"#;

/// Without an index each session is looked for in all parts, which takes longer than any query may.
const COSTLY: &str = "
    CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, title TEXT,
        directory TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
    CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_updated INTEGER, data TEXT);
    CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,
        time_updated INTEGER, data TEXT);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
    INSERT INTO session
        SELECT 'ses_' || i, 'p', NULL, '', '/home/dev/app', '1.0.0', NULL, i, i FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    INSERT INTO part SELECT 'prt_' || i, 'msg_1', 'ses_1', i, '{}' FROM n;";

#[cfg(target_os = "linux")]
#[test]
fn costly_query_holds_up_no_end() {
    let world = empty();
    let opencode = world.home().join(".local/share/opencode/opencode.db");
    open_as_owner(&opencode).execute_batch(COSTLY).unwrap();
    let running = world.start(&["ingest"]);
    let files = format!("/proc/{}/fd", running.process_id());
    let has_it_open = || {
        let files = fs::read_dir(&files).unwrap().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == opencode)
    };
    while !has_it_open() {}
    let said = running.terminate();
    assert_eq!(said.code, Some(0), "{said}");
    // It did not wait for the end of the query, which the limit brings.
    assert!(!said.stderr.contains("took too long"), "{said}");
    let said = world.run(&["doctor"]);
    let told = "opencode.db`: reading it took too long and was stopped; it is tried again later";
    assert!(said.stdout.contains(told) && said.code == Some(0), "{said}");
}

#[test]
fn bad_database_stops_no_other_agent() {
    let world = empty();
    let opencode = world.home().join(".local/share/opencode/opencode.db");
    let connection = open_as_owner(&opencode);
    for view in ["session", "message", "part", "event"] {
        connection.execute_batch(&format!("CREATE VIEW {view} {ENDLESS}")).unwrap();
    }
    let goose = open_as_owner(&world.home().join(".local/share/goose/sessions/sessions.db"));
    goose.execute_batch(GOOSE).unwrap();
    let daemon = up(&world);
    let mut listener = listen(&world, &["--from", "0"]);
    for number in 0..3 {
        ask(&world, "s0", number);
        loop {
            let start = hear_start(&mut listener);
            if start["session_id"] == "claude:s0" {
                assert_eq!(start["prompt"], format!("question {number}"), "{start}");
                break;
            }
        }
    }
    wait_for_log(&world, "`session` in it is a view");
    let health = world.home().join(".local/share/hansard/health/daemon.json");
    let health: Value = serde_json::from_slice(&fs::read(health).unwrap()).unwrap();
    let name = opencode.to_str().unwrap();
    assert!(health["waiting"].to_string().contains(name), "{health}");
    let doctor = world.run(&["--json", "doctor"]);
    assert!(doctor.stdout.contains("opencode.db`: `session` in it is a view"), "{doctor}");
    // The session of Goose goes on behind its large value.
    while !world.run(&["search", "Behind"]).stdout.contains("Behind it.") {}
    let end = daemon.terminate();
    assert_eq!(end.code, Some(0), "{end}");
}
