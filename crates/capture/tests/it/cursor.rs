//! Cursor: its transcripts in both forms, and the editor's store.

use capture::Cursor;
use event::{Confidence, Kind};
use expect_test::expect;
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::tables::open_as_owner;

use crate::handmade::Home;
use crate::mangled::{Random, mangled};
use crate::scenario::told;

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn lines_path() -> String {
    format!(".cursor/projects/home-dev-project/agent-transcripts/{ID}/{ID}.jsonl")
}

fn text_path() -> String {
    format!(".cursor/projects/home-dev-project/agent-transcripts/{ID}.txt")
}

fn user(text: &str) -> String {
    json!({"role": "user", "message": {"content": [{"type": "text", "text": text}]}}).to_string()
}

fn assistant(parts: Value) -> String {
    json!({"role": "assistant", "message": {"content": parts}}).to_string()
}

fn lines(lines: &[String]) -> String {
    let mut home = Home::new();
    home.write(&lines_path(), &(lines.join("\n") + "\n"));
    home.told(&Cursor)
}

#[test]
fn a_turn_in_lines() {
    let told = lines(&[
        user(
            "<timestamp>Friday, May 8, 2026, 3:53 PM (UTC+5:30)</timestamp>\n<user_query>\nfix it\n</user_query>",
        ),
        assistant(
            json!([{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Shell", "input": {"command": "ls", "working_directory": "/home/dev/project"}}]),
        ),
        assistant(json!([{"type": "text", "text": "Done."}])),
        r#"{"type":"turn_ended","status":"success"}"#.to_owned(),
        user("<user_query>again</user_query>"),
        r#"{"type":"turn_ended","status":"error","error":"[invalid_argument] Error"}"#.to_owned(),
        user("<user_query>and again</user_query>"),
        r#"{"type":"turn_ended","status":"aborted"}"#.to_owned(),
    ]);
    expect![[r#"
        == cursor:11111111-2222-4333-8444-555555555555
          1 session.started {"agent":"cursor"}
          2 user.prompt <11111111> {"content":[{"type":"text","text":"fix it"}]}
          3 assistant.message <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.jsonl@165","block":0,"content":[{"type":"text","text":"I look."}]}
          4 settings.changed <11111111> {"cwd":"/home/dev/project"}
          5 tool.call <11111111> {"call_id":"11111111-2222-4333-8444-555555555555.jsonl@165#1","tool":"Shell","input":{"command":"ls","working_directory":"/home/dev/project"},"message_id":"11111111-2222-4333-8444-555555555555.jsonl@165","block":1}
          6 assistant.message <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.jsonl@343","block":0,"content":[{"type":"text","text":"Done."}]}
          7 turn.completed <11111111> {"agent_id":"","stop_reason":"completed"}
          8 user.prompt <11111111> {"content":[{"type":"text","text":"again"}]}
          9 turn.completed <11111111> {"agent_id":"","error":"[invalid_argument] Error"}
         10 user.prompt <11111111> {"content":[{"type":"text","text":"and again"}]}
         11 turn.completed <11111111> {"agent_id":"","stop_reason":"interrupted"}
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_query_goes_from_the_first_to_the_last_mark() {
    let told = lines(&[user(
        "<user_info>linux</user_info>\n<user_query>what does </user_query> mean in <user_query>?</user_query>",
    )]);
    expect![[r#"
        == cursor:11111111-2222-4333-8444-555555555555
          1 session.started {"agent":"cursor"}
          2 context.added {"content":[{"type":"text","text":"<user_info>linux</user_info>"}]}
          3 user.prompt <11111111> {"content":[{"type":"text","text":"what does </user_query> mean in <user_query>?"}]}
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_path_is_a_prompt_and_so_is_markup() {
    for text in ["/home/dev/x is broken", "<div> is not closed", "/plan"] {
        let told = lines(&[user(&format!("<user_query>{text}</user_query>"))]);
        assert!(told.contains("user.prompt") && told.contains(text), "{told}");
        let told = lines(&[user(text)]);
        assert!(told.contains("user.prompt") && told.contains(text), "{told}");
    }
}

#[test]
fn the_time_of_a_prompt_is_that_of_all_that_follows() {
    let mut home = Home::new();
    let prompt = "<timestamp>Jan 1, 2026, 12:00 PM (UTC)</timestamp>\n<user_query>hi</user_query>";
    let text = [user(prompt), assistant(json!([{"type": "text", "text": "yes"}])), String::new()];
    home.write(&lines_path(), &text.join("\n"));
    home.read(&Cursor);
    for event in home.sink.events() {
        assert_eq!(event.created_at, "2026-01-01T12:00:00Z".parse().unwrap());
    }
}

#[test]
fn the_query_of_a_subagent_is_its_parents_task() {
    let mut home = Home::new();
    let path = format!(".cursor/projects/p/agent-transcripts/{ID}/subagents/child-1.jsonl");
    home.write(&path, &(user("<user_query>count</user_query>") + "\n"));
    expect![[r#"
        == cursor:child-1
          1 session.started {"agent":"cursor","parent":{"session_id":"cursor:11111111-2222-4333-8444-555555555555","seq":0},"mode":"child"}
          2 context.added {"content":[{"type":"text","text":"count"}]}
    "#]]
    .assert_eq(&home.told(&Cursor));
}

#[test]
fn unknown_records_are_kept() {
    let mut home = Home::new();
    let text = format!("{}\n{}\n", r#"{"type":"dream"}"#, r#"{"role":"assistant","message":7}"#);
    home.write(&lines_path(), &text);
    let summary = home.read(&Cursor);
    assert_eq!(summary.unknown, 2);
}

#[test]
fn damaged_lines_are_survived() {
    let lines = [
        user(
            "<timestamp>Friday, May 8, 2026, 3:53 PM (UTC+5:30)</timestamp>\n<user_query>x</user_query>",
        ),
        assistant(
            json!([{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}]),
        ),
        r#"{"type":"turn_ended","status":"error","error":"no"}"#.to_owned(),
    ];
    let mut random = Random(1);
    for _ in 0..50 {
        let mut home = Home::new();
        let text: Vec<String> = lines.iter().map(|line| mangled(line, &mut random)).collect();
        home.write(&lines_path(), &text.join("\n"));
        home.read(&Cursor);
    }
}

const OLD: &str = "\
Rules of the house.
user:
<user_query>
What does
assistant:
mean? [Tool call] too.
</user_query>

assistant:
<think>They ask.
Twice.</think>
It is a mark.
[Thinking] Perhaps I look.
[Tool call] Grep
  pattern: assistant:
  path: src
    and more

[Tool result] Grep
src/a.rs: assistant:
  user: here
assistant:
Found it.
";

#[test]
fn a_transcript_in_blocks() {
    let mut home = Home::new();
    home.write(&text_path(), OLD);
    expect![[r#"
        == cursor:11111111-2222-4333-8444-555555555555
          1 session.started {"agent":"cursor"}
          2 context.added {"content":[{"type":"text","text":"Rules of the house."}]}
          3 user.prompt <11111111> {"content":[{"type":"text","text":"What does\nassistant:\nmean? [Tool call] too."}]}
          4 assistant.thinking <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.txt@98","block":0,"thinking":"They ask.\nTwice."}
          5 assistant.message <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.txt@98","block":1,"content":[{"type":"text","text":"It is a mark."}]}
          6 assistant.thinking <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.txt@155","block":0,"thinking":"Perhaps I look."}
          7 tool.call <11111111> {"call_id":"11111111-2222-4333-8444-555555555555.txt@182","tool":"Grep","input":{"path":"src\n    and more","pattern":"assistant:"},"message_id":"11111111-2222-4333-8444-555555555555.txt@182","block":0}
          8 tool.result <11111111> {"call_id":"11111111-2222-4333-8444-555555555555.txt@182","tool":"Grep","outcome":"ok","output":"src/a.rs: assistant:\n  user: here"}
          9 assistant.message <11111111> {"message_id":"11111111-2222-4333-8444-555555555555.txt@300","block":0,"content":[{"type":"text","text":"Found it."}]}
    "#]]
    .assert_eq(&home.told(&Cursor));
    for event in home.sink.events() {
        let is_sure = !matches!(event.kind, Kind::ToolCall | Kind::ToolResult);
        assert_eq!(event.confidence == Confidence::High, is_sure, "{}", event.kind);
    }
}

#[test]
fn blocks_that_grow_tell_the_same_in_any_split() {
    let mut whole = Home::new();
    whole.write(&text_path(), OLD);
    let expected = whole.told(&Cursor);
    for step in [1, 7, 50] {
        let mut home = Home::new();
        for cut in (0..OLD.len()).step_by(step) {
            home.write_now(&text_path(), &OLD[..cut]);
            home.read(&Cursor);
        }
        home.write(&text_path(), OLD);
        assert_eq!(home.told(&Cursor), expected, "{step}");
    }
}

#[test]
fn text_without_a_mark_goes_on_with_its_block() {
    let mut home = Home::new();
    home.write(&text_path(), "user:\nhi\nassistant:\nOne.\n");
    home.read(&Cursor);
    home.write(&text_path(), "user:\nhi\nassistant:\nOne.\nTwo.\n");
    home.read(&Cursor);
    let told = told(&home.sink);
    assert_eq!(told.matches("assistant.message").count(), 2, "{told}");
}

#[test]
fn lines_own_a_session_that_is_told_in_blocks_too() {
    let mut home = Home::new();
    home.write(&text_path(), OLD);
    home.write(&lines_path(), &(user("<user_query>hi</user_query>") + "\n"));
    home.write(".cursor/projects/p/agent-transcripts/notes.txt", "user:\nno session\n");
    let told = home.told(&Cursor);
    assert_eq!(told.matches("user.prompt").count(), 1, "{told}");
}

const STORE: &str = ".config/Cursor/User/globalStorage/state.vscdb";

struct Editor {
    home: Home,
    store: Connection,
}

impl Editor {
    fn new() -> Editor {
        let home = Home::new();
        let store = open_as_owner(&home.path().join(STORE));
        let table = "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)";
        store.execute_batch(table).unwrap();
        Editor { home, store }
    }

    fn put(&self, key: &str, value: Value) {
        let insert = "INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)";
        self.store.execute(insert, (key, value.to_string().into_bytes())).unwrap();
    }

    fn composer(&self, bubbles: &[&str]) {
        let headers: Vec<Value> = bubbles.iter().map(|id| json!({"bubbleId": id})).collect();
        let composer = json!({"composerId": ID, "name": "Greeting", "createdAt": 1_767_225_600_000_i64,
            "modelConfig": {"modelName": "lab-model"}, "fullConversationHeadersOnly": headers,
            "workspaceIdentifier": {"uri": {"fsPath": "/home/dev/project"}}});
        self.put(&format!("composerData:{ID}"), composer);
    }

    fn bubble(&self, id: &str, mut value: Value) {
        value["bubbleId"] = json!(id);
        value["createdAt"] = json!("2026-01-01T00:00:01.000Z");
        self.put(&format!("bubbleId:{ID}:{id}"), value);
    }
}

#[test]
fn a_conversation_in_the_editor_is_told_in_its_own_order() {
    let mut editor = Editor::new();
    editor.bubble("zz", json!({"type": 1, "text": "Make it friendlier."}));
    editor.bubble("mm", json!({"type": 2, "thinking": {"text": "Look first."}, "text": ""}));
    editor.bubble("aa", json!({"type": 2, "toolFormerData": {"toolCallId": "c1", "name": "read_file", "status": "completed",
        "rawArgs": "{\"path\":\"src/app.py\"}", "result": "{\"contents\":\"x\"}"}}));
    editor.bubble(
        "bb",
        json!({"type": 2, "text": "Done.", "tokenCount": {"inputTokens": 10, "outputTokens": 2}}),
    );
    editor.bubble("gone", json!({"type": 1, "text": "Taken back."}));
    editor.composer(&["zz", "mm", "aa", "bb"]);
    expect![[r#"
        == cursor:11111111-2222-4333-8444-555555555555
          1 session.started {"agent":"cursor","model":"lab-model","cwd":"/home/dev/project","title":"Greeting"}
          2 user.prompt <zz> {"content":[{"type":"text","text":"Make it friendlier."}]}
          3 assistant.thinking <zz> {"message_id":"mm","block":0,"thinking":"Look first."}
          4 tool.call <zz> {"call_id":"c1","tool":"read_file","input":{"path":"src/app.py"},"message_id":"aa","block":0}
          5 tool.result <zz> {"call_id":"c1","tool":"read_file","outcome":"ok","output":{"contents":"x"}}
          6 assistant.message <zz> {"message_id":"bb","block":0,"content":[{"type":"text","text":"Done."}]}
          7 step.completed <zz> {"agent_id":"","model":"lab-model","response_id":"bb","usage":{"input_tokens":10,"output_tokens":2}}
    "#]]
    .assert_eq(&editor.home.told(&Cursor));
}

#[test]
fn only_what_changed_in_the_editor_is_read_again() {
    let mut editor = Editor::new();
    editor.bubble("u", json!({"type": 1, "text": "hi"}));
    editor.bubble("a", json!({"type": 2, "text": "Do"}));
    editor.composer(&["u", "a"]);
    editor.home.read(&Cursor);
    editor.bubble("a", json!({"type": 2, "text": "Done."}));
    let summary = editor.home.read(&Cursor);
    assert_eq!(summary.events, 1);
    let told = told(&editor.home.sink);
    assert!(told.contains("Done.") && told.contains(" amends "), "{told}");
    assert_eq!(editor.home.read(&Cursor).sources, 0);
    // Read from the beginning, it is known.
    let before = editor.home.sink.events().count();
    editor.home.sink.positions.clear();
    editor.home.read(&Cursor);
    assert_eq!(editor.home.sink.events().count(), before);
}

#[test]
fn a_conversation_with_a_transcript_is_read_there() {
    let mut editor = Editor::new();
    editor.bubble("u", json!({"type": 1, "text": "hi"}));
    editor.composer(&["u"]);
    editor.home.write(&lines_path(), &(user("<user_query>hi</user_query>") + "\n"));
    let told = editor.home.told(&Cursor);
    assert_eq!(told.matches("user.prompt").count(), 1, "{told}");
}

#[test]
fn an_older_conversation_has_its_bubbles_inside() {
    let mut editor = Editor::new();
    let conversation = json!([{"bubbleId": "u", "type": 1, "text": "hi"}, {"bubbleId": "a", "type": 2, "text": "yes"}]);
    editor.put(
        &format!("composerData:{ID}"),
        json!({"composerId": ID, "conversation": conversation}),
    );
    let told = editor.home.told(&Cursor);
    assert!(told.contains("user.prompt") && told.contains("assistant.message"), "{told}");
}

#[test]
fn damaged_entries_are_survived() {
    let mut random = Random(1);
    let tool = json!({"type": 2, "bubbleId": "a", "thinking": {"text": "x"}, "toolFormerData": {"toolCallId": "c1", "name": "read_file", "status": "completed", "rawArgs": "{}", "result": "{}"}});
    let composer = json!({"composerId": ID, "conversation": [tool.clone()], "fullConversationHeadersOnly": [{"bubbleId": "a"}]});
    let insert = "INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)";
    for _ in 0..30 {
        let mut editor = Editor::new();
        let composer = mangled(&composer.to_string(), &mut random);
        editor.store.execute(insert, (format!("composerData:{ID}"), composer)).unwrap();
        let bubble = mangled(&tool.to_string(), &mut random);
        editor.store.execute(insert, (format!("bubbleId:{ID}:a"), bubble)).unwrap();
        assert_eq!(
            editor
                .home
                .read(&Cursor)
                .warnings
                .iter()
                .filter(|warning| warning.path.is_some())
                .count(),
            0
        );
    }
}

#[test]
fn an_entry_that_is_no_json_is_kept() {
    let mut editor = Editor::new();
    editor.composer(&["u"]);
    let insert = "INSERT INTO cursorDiskKV (key, value) VALUES (?1, 'no json')";
    editor.store.execute(insert, [format!("bubbleId:{ID}:u")]).unwrap();
    assert_eq!(editor.home.read(&Cursor).unknown, 1);
}
