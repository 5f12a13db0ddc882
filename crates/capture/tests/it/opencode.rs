//! OpenCode: its recordings, and databases that are written while they are read.

use std::fs;
use std::path::{Path, PathBuf};

use capture::{OpenCode, WarningKind};
use event::Kind;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use testkit::tables::{Recorded, build_databases, insert_row, open_as_owner, recorded};

use crate::handmade::Home;
use crate::mangled::{Random, mangled};
use crate::memory::Memory;
use crate::scenario::{STATE_BYTES_MAX, check, check_home, fixtures, read, told};
use crate::truth::check_usage_of;

const DATABASE: &str = ".local/share/opencode/opencode.db";

fn rows(scenario: &str) -> Vec<Recorded> {
    let home = fixtures().join("opencode").join(scenario).join("home");
    recorded(&home.join(format!("{DATABASE}.rows.jsonl")))
}

/// A home with the database of a recording of which only the rows are kept.
fn home(scenario: &str) -> TempDir {
    let home = TempDir::new().unwrap();
    build_databases(&fixtures().join("opencode").join(scenario).join("home"), home.path());
    home
}

#[track_caller]
fn check_rows(scenario: &str) {
    check_home(&OpenCode, scenario, home(scenario).path());
}

#[test]
fn a_question_and_its_answer() {
    check_rows("s1");
}

#[test]
fn tools() {
    check(&OpenCode, "s2");
}

#[test]
fn approvals_and_a_denial() {
    check_rows("s3_approval_tui");
}

#[test]
fn a_session_that_is_resumed() {
    check_rows("s4_resume_headless");
}

#[test]
fn a_compaction() {
    check_rows("s5_compact_tui");
}

#[test]
fn interruptions() {
    check_rows("s6_interrupt");
}

#[test]
fn a_process_that_was_killed() {
    check_rows("s6_kill9_stream");
}

#[test]
fn a_subagent() {
    check(&OpenCode, "s7_subagent");
}

#[test]
fn a_fork() {
    check(&OpenCode, "s9_fork");
}

#[test]
fn a_server() {
    check_rows("s11_serve_sse");
}

/// The home of a recording, in whatever form it is kept.
pub(crate) fn recording(scenario: &str) -> (Option<TempDir>, PathBuf) {
    let kept = fixtures().join("opencode").join(scenario).join("home");
    if kept.join(DATABASE).exists() {
        return (None, kept);
    }
    let made = home(scenario);
    let path = made.path().to_owned();
    (Some(made), path)
}

#[test]
fn usage_is_what_the_model_counted() {
    // Titles are asked for beside the session; what was interrupted is not counted by the agent.
    for (scenario, unrecorded) in [
        ("s1", &["chatcmpl_lab000001", "chatcmpl_lab000007"][..]),
        ("s3_approval_tui", &["chatcmpl_lab000001"]),
        ("s4_resume_headless", &["chatcmpl_lab000001"]),
        ("s5_compact_tui", &["chatcmpl_lab000001"]),
        ("s6_interrupt", &["chatcmpl_lab000001", "chatcmpl_lab000004", "chatcmpl_lab000008"]),
        ("s6_kill9_stream", &["chatcmpl_lab000001", "chatcmpl_lab000004"]),
        ("s7_subagent", &["chatcmpl_lab000001"]),
        // What a fork copies was used once.
        ("s9_fork", &["chatcmpl_lab000001"]),
        ("s11_serve_sse", &[]),
    ] {
        let (_made, home) = recording(scenario);
        let mut sink = Memory::default();
        read(&OpenCode, &home, &mut sink);
        let log = fixtures().join("opencode").join(scenario).join("lab/model_log.jsonl");
        check_usage_of(&sink, &log, unrecorded);
    }
}

#[test]
fn a_log_that_grows_tells_the_same_in_any_split() {
    for (scenario, step) in [("s1", 1), ("s3_approval_tui", 3), ("s5_compact_tui", 1)] {
        let mut whole = Memory::default();
        read(&OpenCode, home(scenario).path(), &mut whole);
        let mut home = Home::new();
        let connection = open_as_owner(&home.path().join(DATABASE));
        let rows = rows(scenario);
        let of = |wanted: &'static str| rows.iter().filter(move |(table, _)| table == wanted);
        for table in ["message", "part"] {
            insert_row(&connection, of(table).next().unwrap());
            connection.execute_batch(&format!("DELETE FROM {table}")).unwrap();
        }
        let events: Vec<&Recorded> = of("event").collect();
        for some in events.chunks(step) {
            for event in some {
                // A session and its first event are written together.
                let is_first = event.1["seq"] == 0;
                let session = of("session").find(|row| row.1["id"] == event.1["aggregate_id"]);
                connection.execute_batch("BEGIN").unwrap();
                session
                    .filter(|_| is_first)
                    .into_iter()
                    .for_each(|row| insert_row(&connection, row));
                insert_row(&connection, event);
                connection.execute_batch("COMMIT").unwrap();
            }
            home.read(&OpenCode);
        }
        assert_eq!(told(&home.sink), told(&whole), "{scenario}");
    }
}

/// What was said, whatever the order.
fn talk(sink: &Memory) -> Vec<(Kind, String)> {
    let shown = sink.events().filter(|event| event.kind != Kind::SettingsChanged);
    let mut talk: Vec<_> =
        shown.map(|event| (event.kind.clone(), event.text.clone().unwrap_or_default())).collect();
    talk.sort();
    talk
}

#[test]
fn a_session_without_a_log_is_read_from_the_tables() {
    for scenario in ["s1", "s3_approval_tui", "s5_compact_tui", "s6_interrupt"] {
        let home = home(scenario);
        let mut logged = Memory::default();
        read(&OpenCode, home.path(), &mut logged);
        let connection = Connection::open(home.path().join(DATABASE)).unwrap();
        connection.execute_batch("DROP TABLE event").unwrap();
        let mut tables = Memory::default();
        read(&OpenCode, home.path(), &mut tables);
        assert_eq!(talk(&tables), talk(&logged), "{scenario}");
        // And what was told from the log is known again.
        logged.positions.clear();
        read(&OpenCode, home.path(), &mut logged);
        assert_eq!(talk(&logged), talk(&tables), "{scenario}");
    }
}

#[test]
fn rows_that_change_in_place_are_read_again() {
    let mut home = Home::new();
    let connection = open_as_owner(&home.path().join(DATABASE));
    let rows = rows("s3_approval_tui");
    let parts: Vec<_> = rows.iter().filter(|(table, _)| table == "part").collect();
    for row in rows.iter().filter(|(table, _)| table == "session" || table == "message") {
        insert_row(&connection, row);
    }
    insert_row(&connection, parts[0]);
    home.read(&OpenCode);
    let mut running = parts[3].clone();
    assert!(running.1["data"].as_str().unwrap().contains("touch approved.flag"));
    running.1["data"] = json!(
        r#"{"type":"tool","callID":"c","tool":"bash","state":{"status":"running","input":{"command":"ls"},"time":{"start":1794769797211}}}"#
    );
    running.1["time_updated"] = json!(1_900_000_000_000_i64);
    insert_row(&connection, &running);
    home.read(&OpenCode);
    assert_eq!(count(&home.sink, Kind::ToolCall), 1);
    assert_eq!(count(&home.sink, Kind::ToolResult), 0);
    let done = r#"{"type":"tool","callID":"c","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"x","time":{"start":1794769797211,"end":1794769803931}}}"#;
    connection
        .execute(
            "UPDATE part SET data = ?1, time_updated = 1900000000001 WHERE id = ?2",
            (done, running.1["id"].as_str().unwrap()),
        )
        .unwrap();
    home.read(&OpenCode);
    assert_eq!(count(&home.sink, Kind::ToolCall), 1);
    assert_eq!(count(&home.sink, Kind::ToolResult), 1);
}

fn count(sink: &Memory, kind: Kind) -> usize {
    sink.events().filter(|event| event.kind == kind).count()
}

#[test]
fn an_owner_that_writes_is_neither_waited_for_nor_disturbed() {
    let mut home = Home::new();
    let path = home.path().join(DATABASE);
    let connection = open_as_owner(&path);
    let rows = rows("s1");
    rows.iter().for_each(|row| insert_row(&connection, row));
    connection.execute_batch("BEGIN IMMEDIATE; DELETE FROM event;").unwrap();
    let before = files(&path);
    // What is not committed is not there.
    home.read(&OpenCode);
    assert_eq!(count(&home.sink, Kind::UserPrompt), 2);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(files(&path), before);
}

#[test]
fn a_database_at_rest_stays_as_it_lies() {
    let mut home = Home::new();
    let path = home.path().join(DATABASE);
    let connection = open_as_owner(&path);
    rows("s1").iter().for_each(|row| insert_row(&connection, row));
    connection.close().unwrap();
    let before = files(&path);
    assert_eq!(before.len(), 1);
    home.read(&OpenCode);
    assert_eq!(count(&home.sink, Kind::UserPrompt), 2);
    assert_eq!(files(&path), before);
    // A log that an owner left behind is read too.
    let connection = open_as_owner(&path);
    connection.execute_batch("UPDATE session SET title = 'other'").unwrap();
    home.read(&OpenCode);
}

/// What lies in the folder of a database.
fn files(database: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(database.parent().unwrap()).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        // Readers announce themselves in the shared memory of a log.
        .filter(|path| !path.to_str().unwrap().ends_with("-shm"))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn broken_database_is_reported_others_read() {
    let mut home = Home::new();
    let connection = open_as_owner(&home.path().join(DATABASE));
    rows("s1").iter().for_each(|row| insert_row(&connection, row));
    home.write(".local/share/opencode/opencode-dev.db", "this is no database at all, is it?");
    let summary = home.read(&OpenCode);
    assert_eq!(count(&home.sink, Kind::UserPrompt), 2);
    let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
    assert_eq!(warning.kind, WarningKind::Unreadable);
    assert!(warning.path.as_ref().unwrap().ends_with("opencode-dev.db"));
}

#[test]
fn a_database_that_was_replaced_is_read_from_its_beginning() {
    let mut home = Home::new();
    let path = home.path().join(DATABASE);
    let connection = open_as_owner(&path);
    let rows = rows("s1");
    rows.iter().for_each(|row| insert_row(&connection, row));
    connection.close().unwrap();
    home.read(&OpenCode);
    let before = told(&home.sink);
    // Another one at the same place, in which the log goes another way.
    fs::remove_file(&path).unwrap();
    let connection = open_as_owner(&path);
    for (table, row) in &rows {
        let mut row = row.clone();
        if table == "event" {
            row["id"] = json!(format!("other-{}", row["id"].as_str().unwrap()));
            row["data"] = json!(row["data"].as_str().unwrap().replace("greeting", "farewell"));
        }
        insert_row(&connection, &(table.clone(), row));
    }
    home.read(&OpenCode);
    let after = told(&home.sink);
    assert!(!before.contains("farewell") && after.contains("farewell"), "{after}");
    assert_eq!(count(&home.sink, Kind::UserPrompt), 2);
}

#[test]
fn damaged_rows_are_survived() {
    let mut random = Random(1);
    for scenario in ["s3_approval_tui", "s5_compact_tui", "s6_interrupt"] {
        let mut home = Home::new();
        let connection = open_as_owner(&home.path().join(DATABASE));
        for (table, mut row) in rows(scenario) {
            if !row.contains_key("data") {
                insert_row(&connection, &(table, row));
                continue;
            }
            let data = row.get("data").and_then(|data| data.as_str()).unwrap_or("null");
            row["data"] = json!(mangled(data, &mut random));
            insert_row(&connection, &(table, row));
        }
        home.read(&OpenCode);
        connection.execute_batch("DROP TABLE event").unwrap();
        home.sink.positions.clear();
        home.read(&OpenCode);
        assert!(home.sink.state_len() <= STATE_BYTES_MAX);
    }
}

#[test]
fn nothing_is_asked_again_while_nothing_changes() {
    let mut home = Home::new();
    let connection = open_as_owner(&home.path().join(DATABASE));
    rows("s1").iter().for_each(|row| insert_row(&connection, row));
    assert_eq!(home.read(&OpenCode).sources, 2);
    assert_eq!(home.read(&OpenCode).sources, 0);
}

#[test]
fn what_was_read_is_kept_and_can_be_parsed_again() {
    let mut home = Home::new();
    let connection = open_as_owner(&home.path().join(DATABASE));
    let rows = rows("s1");
    rows.iter().for_each(|row| insert_row(&connection, row));
    home.read(&OpenCode);
    let mut kept = 0;
    for bytes in home.sink.kept() {
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(row["data"].is_object(), "{line}");
            kept += 1;
        }
    }
    assert_eq!(kept, rows.iter().filter(|(table, _)| table == "event").count());
}

/// A session made by hand: what its log says, one event after the other.
fn logged(events: &[(&str, serde_json::Value)]) -> String {
    let mut home = Home::new();
    let connection = open_as_owner(&home.path().join(DATABASE));
    let rows = rows("s1");
    for name in ["session", "message", "part"] {
        let (table, row) = rows.iter().find(|(table, _)| table == name).unwrap();
        let mut row = row.clone();
        row["id"] = json!("ses_1");
        insert_row(&connection, &(table.clone(), row));
    }
    let created = ("session.created.1", json!({"info": {"directory": "/home/dev/project"}}));
    for (seq, (kind, data)) in [created].iter().chain(events).enumerate() {
        let row = json!({"id": format!("evt_{seq}"), "aggregate_id": "ses_1", "seq": seq, "type": kind, "data": data.to_string()});
        insert_row(&connection, &("event".to_owned(), row.as_object().unwrap().clone()));
    }
    home.told(&OpenCode)
}

fn user(id: &str, created: i64) -> (&'static str, serde_json::Value) {
    ("message.updated.1", json!({"info": {"id": id, "role": "user", "time": {"created": created}}}))
}

fn text(message: &str, text: &str) -> (&'static str, serde_json::Value) {
    let part =
        json!({"id": format!("prt_{message}"), "messageID": message, "type": "text", "text": text});
    ("message.part.updated.1", json!({"part": part, "time": 1}))
}

#[test]
fn quotes_around_a_whole_prompt_are_taken_off() {
    let told = logged(&[
        user("m1", 10),
        text("m1", r#""say \"hi\" twice""#),
        user("m2", 20),
        text("m2", r#""a" and "b""#),
    ]);
    assert!(told.contains(r#""text":"say \"hi\" twice""#), "{told}");
    assert!(told.contains(r#""text":"\"a\" and \"b\"""#), "{told}");
}

#[test]
fn a_revert_is_a_rewind_and_its_end_is_none() {
    let revert = (
        "session.updated.1",
        json!({"info": {"revert": {"messageID": "m2"}, "time": {"updated": 30}}}),
    );
    let told = logged(&[
        user("m1", 10),
        text("m1", "one"),
        user("m2", 20),
        text("m2", "two"),
        revert,
        ("message.removed.1", json!({"sessionID": "ses_1", "messageID": "m2"})),
        ("session.updated.1", json!({"info": {"time": {"updated": 31}}})),
        user("m3", 40),
        text("m3", "three"),
    ]);
    assert_eq!(told.matches(r#""about":"rewind""#).count(), 1, "{told}");
}

#[test]
fn what_the_agent_adds_to_a_prompt_is_context() {
    let synthetic = json!({"id": "prt_x", "messageID": "m1", "type": "text", "text": "Continue if you have next steps", "synthetic": true});
    let told = logged(&[
        user("m1", 10),
        ("message.part.updated.1", json!({"part": synthetic, "time": 1})),
    ]);
    assert!(told.contains("context.added") && !told.contains("user.prompt"), "{told}");
}

#[test]
fn a_failed_request_is_an_error_and_ends_the_turn() {
    let info = json!({"id": "a1", "role": "assistant", "time": {"created": 11, "completed": 12}, "error": {"name": "APIError", "data": {"message": "overloaded", "statusCode": 529, "isRetryable": true}}});
    let told =
        logged(&[user("m1", 10), text("m1", "hi"), ("message.updated.1", json!({"info": info}))]);
    assert!(told.contains(r#"error <m1> {"message":"overloaded","code":"APIError","scope":"model","recoverable":true}"#), "{told}");
    assert!(told.contains(r#"turn.completed <m1> {"agent_id":"","error":"overloaded"}"#), "{told}");
}
