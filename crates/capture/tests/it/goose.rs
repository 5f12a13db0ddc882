//! Goose: sessions in its database, rewritten ones too, and its older files.

use capture::Goose;
use event::Kind;
use expect_test::expect;
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::tables::open_as_owner;

use crate::handmade::Home;
use crate::mangled::{Random, mangled};
use crate::scenario::{STATE_BYTES_MAX, told};

const FOLDER: &str = ".local/share/goose/sessions";
const SESSION: &str = "20260101_1";
const BEGIN: i64 = 1_767_225_600;

struct Desk {
    home: Home,
    database: Connection,
}

/// The tables as Goose makes them.
const TABLES: &str = "
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
        session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
        created_at TIMESTAMP DEFAULT '2026-01-01 00:00:00', updated_at TIMESTAMP,
        total_tokens INTEGER, accumulated_total_tokens INTEGER,
        accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER,
        provider_name TEXT, model_config_json TEXT, goose_mode TEXT NOT NULL DEFAULT 'auto');
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
        role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
        timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT);
    CREATE INDEX idx_messages_session ON messages(session_id);
    INSERT INTO sessions (id, description, working_dir, updated_at, model_config_json)
        VALUES ('20260101_1', 'Greeting', '/home/dev/project', '2026-01-01 00:00:00',
            '{\"model_name\":\"lab-model\"}');
";

impl Desk {
    fn new() -> Desk {
        let home = Home::new();
        let database = open_as_owner(&home.path().join(FOLDER).join("sessions.db"));
        database.execute_batch(TABLES).unwrap();
        Desk { home, database }
    }

    fn say(&self, role: &str, second: i64, content: &Value) {
        self.say_to(role, second, content, &Value::Null);
    }

    fn say_to(&self, role: &str, second: i64, content: &Value, metadata: &Value) {
        let insert = "INSERT INTO messages
            (session_id, role, content_json, created_timestamp, metadata_json)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let metadata = (!metadata.is_null()).then(|| metadata.to_string());
        let values = (SESSION, role, content.to_string(), BEGIN + second, metadata);
        self.database.execute(insert, values).unwrap();
        let touch = "UPDATE sessions SET updated_at = datetime(?1, 'unixepoch')";
        self.database.execute(touch, [BEGIN + second]).unwrap();
    }

    fn told(&mut self) -> String {
        self.home.told(&Goose)
    }
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn only_for_the_model() -> Value {
    json!({"userVisible": false, "agentVisible": true})
}

#[test]
fn a_turn_with_tools() {
    let mut desk = Desk::new();
    desk.say("user", 0, &text("Count the lines."));
    desk.say(
        "assistant",
        1,
        &json!([
            {"type": "thinking", "thinking": "Count first.", "signature": "s"},
            {"type": "text", "text": "I count."},
            {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success",
                "value": {"name": "developer__shell", "arguments": {"command": "wc -l notes.txt"}}}},
            {"type": "toolRequest", "id": "c2", "toolCall": {"name": "old", "arguments": {"a": 1}}},
        ]),
    );
    desk.say(
        "user",
        2,
        &json!([
            {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success",
                "value": {"content": [{"type": "text", "text": "3"}, {"type": "text", "text": "notes.txt"}], "isError": false}}},
            {"type": "toolResponse", "id": "c2", "toolResult": {"status": "error", "error": "no such tool"}},
        ]),
    );
    desk.say("assistant", 3, &text("Three."));
    expect![[r#"
        == goose:20260101_1
          1 session.started {"agent":"goose","model":"lab-model","cwd":"/home/dev/project","entry_point":"user","permission_mode":"auto","title":"Greeting"}
          2 user.prompt <c67a7b7f> {"content":[{"type":"text","text":"Count the lines."}]}
          3 assistant.thinking <c67a7b7f> {"message_id":"8621d0acdd","block":0,"thinking":"Count first.","signature":"s"}
          4 assistant.message <c67a7b7f> {"message_id":"8621d0acdd","block":1,"content":[{"type":"text","text":"I count."}]}
          5 tool.call <c67a7b7f> {"call_id":"c1","tool":"developer__shell","input":{"command":"wc -l notes.txt"},"message_id":"8621d0acdd","block":2}
          6 tool.call <c67a7b7f> {"call_id":"c2","tool":"old","input":{"a":1},"message_id":"8621d0acdd","block":3}
          7 tool.result <c67a7b7f> {"call_id":"c1","outcome":"ok","output":"3\nnotes.txt"}
          8 tool.result <c67a7b7f> {"call_id":"c2","outcome":"error","error":"no such tool"}
          9 assistant.message <c67a7b7f> {"message_id":"a75e1bfa3e","block":0,"content":[{"type":"text","text":"Three."}]}
    "#]]
    .assert_eq(&desk.told());
}

#[test]
fn the_same_words_twice_in_a_second_are_two_prompts() {
    let mut desk = Desk::new();
    desk.say("user", 0, &text("again"));
    desk.say("user", 0, &text("again"));
    assert_eq!(desk.told().matches("user.prompt").count(), 2);
}

#[test]
fn a_session_that_grows_tells_the_same_in_any_split() {
    let messages: Vec<(&str, String)> = (0..80)
        .map(|n| {
            if n % 2 == 0 {
                ("user", format!("ask {n}"))
            } else {
                ("assistant", format!("say {n}"))
            }
        })
        .collect();
    let mut whole = Desk::new();
    let mut parts = Desk::new();
    for (second, (role, words)) in messages.iter().enumerate() {
        whole.say(role, second as i64, &text(words));
        parts.say(role, second as i64, &text(words));
        if second % 3 == 0 {
            parts.told();
        }
    }
    assert_eq!(parts.told(), whole.told());
    assert!(whole.home.sink.state_len() <= 4096, "{}", whole.home.sink.state_len());
}

/// Deletes everything and writes it again, as Goose does.
fn rewrite(desk: &Desk, messages: &[(&str, i64, Value, Value)]) {
    desk.database.execute("DELETE FROM messages", []).unwrap();
    for (role, second, content, metadata) in messages {
        desk.say_to(role, *second, content, metadata);
    }
}

#[test]
fn a_rewritten_conversation_is_told_once() {
    let mut desk = Desk::new();
    let mut messages = Vec::new();
    for second in 0..90 {
        let role = if second % 2 == 0 { "user" } else { "assistant" };
        messages.push((role, second, text(&format!("words {second}")), Value::Null));
    }
    rewrite(&desk, &messages);
    let before = desk.told();
    // The same again, in other clothes: rows, metadata and the way blocks are written differ.
    for (_, _, content, metadata) in &mut messages {
        content[0]["annotations"] = json!(null);
        *metadata = json!({"userVisible": true, "agentVisible": false});
    }
    rewrite(&desk, &messages);
    assert_eq!(desk.told(), before);
    messages.push(("user", 100, text("and on"), Value::Null));
    rewrite(&desk, &messages[10..]);
    let after = desk.told();
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    assert!(!after.contains("rewound"), "{after}");
}

#[test]
fn a_conversation_that_is_cut_off_goes_on_behind_the_cut() {
    let mut desk = Desk::new();
    desk.say("user", 0, &text("one"));
    desk.say("assistant", 1, &text("first"));
    desk.say("user", 2, &text("two"));
    desk.say("assistant", 3, &text("second"));
    desk.told();
    let cut = "DELETE FROM messages WHERE created_timestamp >= ?1";
    desk.database.execute(cut, [BEGIN + 2]).unwrap();
    desk.say("user", 4, &text("another two"));
    let told = desk.told();
    assert_eq!(told.matches(r#""about":"rewind""#).count(), 1, "{told}");
    let events: Vec<_> = desk.home.sink.events().collect();
    let first = events.iter().find(|event| event.kind == Kind::AssistantMessage).unwrap();
    let prompt = events.iter().rfind(|event| event.kind == Kind::UserPrompt).unwrap();
    assert_eq!(prompt.parent_id, Some(first.id));
}

#[test]
fn a_compaction_replaces_the_history_and_repeats_the_prompt() {
    let mut desk = Desk::new();
    let hidden = json!({"userVisible": true, "agentVisible": false});
    let mut messages = vec![
        ("user", 0, text("one"), Value::Null),
        ("assistant", 1, text("first"), Value::Null),
        ("user", 2, text("two"), Value::Null),
    ];
    rewrite(&desk, &messages);
    desk.told();
    messages.iter_mut().for_each(|message| message.3 = hidden.clone());
    messages.push(("user", 5, text("They said hello."), only_for_the_model()));
    messages.push(("assistant", 5, text("I go on."), only_for_the_model()));
    messages.push(("user", 5, text("two"), Value::Null));
    messages.push(("assistant", 6, text("second"), Value::Null));
    rewrite(&desk, &messages);
    expect![[r#"
        == goose:20260101_1
          1 session.started {"agent":"goose","model":"lab-model","cwd":"/home/dev/project","entry_point":"user","permission_mode":"auto","title":"Greeting"}
          2 user.prompt <53b2ebaa> {"content":[{"type":"text","text":"one"}]}
          3 assistant.message <53b2ebaa> {"message_id":"9550e4f6c8","block":0,"content":[{"type":"text","text":"first"}]}
          4 user.prompt <88e3a79a> {"content":[{"type":"text","text":"two"}]}
          5 compaction <88e3a79a> {"strategy":"captured","cutoff_seq":0,"entries":[{"role":"user","context_kind":"summary","placement":"prefix","content":[{"type":"text","text":"They said hello."}]}]}
          6 epoch.closed {"epoch":0,"cause":"compaction","from_seq":0,"to_seq":0,"day":"20260101","stream":"session:goose:20260101_1","segment":"000000_5"}
          7 context.added <88e3a79a> {"content":[{"type":"text","text":"I go on."}]}
          8 context.added <88e3a79a> {"content":[{"type":"text","text":"two"}]}
          9 assistant.message <88e3a79a> {"message_id":"e11bcbfef8","block":0,"content":[{"type":"text","text":"second"}]}
    "#]]
    .assert_eq(&desk.told());
}

#[test]
fn context_of_a_turn_is_no_compaction() {
    let mut desk = Desk::new();
    desk.say("user", 0, &text("one"));
    let context = json!({"userVisible": false, "agentVisible": true, "turnContext": true});
    desk.say_to("user", 0, &text("<turn-context></turn-context>"), &context);
    desk.say("assistant", 1, &text("first"));
    expect![[r#"
        == goose:20260101_1
          1 session.started {"agent":"goose","model":"lab-model","cwd":"/home/dev/project","entry_point":"user","permission_mode":"auto","title":"Greeting"}
          2 user.prompt <53b2ebaa> {"content":[{"type":"text","text":"one"}]}
          3 context.added <53b2ebaa> {"kind":"harness","content":[{"type":"text","text":"<turn-context></turn-context>"}]}
          4 assistant.message <53b2ebaa> {"message_id":"9550e4f6c8","block":0,"content":[{"type":"text","text":"first"}]}
    "#]].assert_eq(&desk.told());
}

#[test]
fn what_a_session_used_replaces_what_it_had_used() {
    let mut desk = Desk::new();
    desk.say("user", 0, &text("hi"));
    let use_up = |desk: &Desk, input: i64, output: i64| {
        let update = "UPDATE sessions SET accumulated_input_tokens = ?1,
            accumulated_output_tokens = ?2, accumulated_total_tokens = ?1 + ?2";
        desk.database.execute(update, [input, output]).unwrap();
    };
    use_up(&desk, 10, 2);
    desk.told();
    use_up(&desk, 30, 5);
    let told = desk.told();
    assert_eq!(told.matches("step.completed").count(), 2, "{told}");
    assert_eq!(told.matches(" amends ").count(), 1, "{told}");
    desk.home.sink.positions.clear();
    assert_eq!(desk.told(), told);
}

#[test]
fn content_that_is_no_json_is_kept() {
    let mut desk = Desk::new();
    let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
        VALUES ('20260101_1', 'user', 'no json', 1)";
    desk.database.execute(insert, []).unwrap();
    assert_eq!(desk.home.read(&Goose).unknown, 1);
}

#[test]
fn damaged_content_is_survived() {
    let mut random = Random(1);
    let content = json!([
        {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {"name": "x", "arguments": {}}}},
        {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": {"content": [{"type": "text", "text": "3"}]}}},
        {"type": "actionRequired", "data": {"actionType": "elicitation", "id": "e1", "message": "Which?"}},
    ]);
    let mut desk = Desk::new();
    for second in 0..60 {
        let role = if second % 2 == 0 { "user" } else { "assistant" };
        let damaged = mangled(&content.to_string(), &mut random);
        let insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp)
            VALUES ('20260101_1', ?1, ?2, ?3)";
        desk.database.execute(insert, (role, damaged, second)).unwrap();
    }
    let summary = desk.home.read(&Goose);
    assert_eq!(summary.warnings.iter().filter(|warning| warning.path.is_some()).count(), 0);
    assert!(desk.home.sink.state_len() <= STATE_BYTES_MAX);
}

#[test]
fn a_task_of_a_subagent_is_no_prompt() {
    let mut desk = Desk::new();
    desk.database.execute("UPDATE sessions SET session_type = 'sub_agent'", []).unwrap();
    desk.say("user", 0, &text("count"));
    let told = desk.told();
    assert!(
        told.contains(r#""entry_point":"sub_agent""#) && !told.contains("user.prompt"),
        "{told}"
    );
}

#[test]
fn questions_and_approvals() {
    let mut desk = Desk::new();
    desk.say(
        "assistant",
        0,
        &json!([
            {"type": "actionRequired", "data": {"actionType": "toolConfirmation", "id": "c1", "toolName": "shell", "arguments": {"command": "rm x"}}},
            {"type": "actionRequired", "data": {"actionType": "elicitation", "id": "e1", "message": "Which?", "requested_schema": {}}},
            {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compacting"},
        ]),
    );
    desk.say("user", 1, &json!([{"type": "actionRequired", "data": {"actionType": "elicitationResponse", "id": "e1", "user_data": {"a": 1}}}]));
    expect![[r#"
        == goose:20260101_1
          1 session.started {"agent":"goose","model":"lab-model","cwd":"/home/dev/project","entry_point":"user","permission_mode":"auto","title":"Greeting"}
          2 approval.requested {"approval_id":"c1","tool":"shell","input":{"command":"rm x"},"call_id":"c1"}
          3 external.input {"request_id":"e1","prompt":"Which?","status":"pending"}
          4 note {"text":"Compacting","about":"notice"}
          5 external.input {"request_id":"e1","prompt":"","status":"received","input":{"a":1}}
    "#]]
    .assert_eq(&desk.told());
}

const OLD: &str = r#"{"description":"Greeting","working_dir":"/home/dev/project","message_count":2}
{"role":"user","created":1767225600,"content":[{"type":"text","text":"hi"}]}
{"role":"user","created":1767225600,"content":[{"type":"text","text":"hi"}]}
{"role":"assistant","created":1767225601,"content":[{"type":"text","text":"yes"}]}
"#;

#[test]
fn an_older_file_is_read_and_its_database_knows_it() {
    let mut home = Home::new();
    home.write(&format!("{FOLDER}/{SESSION}.jsonl"), OLD);
    let before = home.told(&Goose);
    assert_eq!(before.matches("user.prompt").count(), 2, "{before}");
    // Goose takes it over into its database.
    let desk = Desk::new();
    desk.say("user", 0, &text("hi"));
    desk.say("user", 0, &text("hi"));
    desk.say("assistant", 1, &text("yes"));
    let Desk { home: mut other, database: _database } = desk;
    other.write(&format!("{FOLDER}/{SESSION}.jsonl"), OLD);
    other.sink = home.sink;
    other.sink.positions.clear();
    let summary = other.read(&Goose);
    assert_eq!(summary.sources, 1);
    // Only what the file did not say is new.
    let after = told(&other.sink);
    assert_eq!(after.strip_prefix(&before), Some(""), "{after}");
}
