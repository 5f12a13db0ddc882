//! What fuzzing begins with: the repository's own recordings, as each target takes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::home::{AT_ONCE, Taken};
use super::rows;
use super::transcript::FORMS;

/// Bytes of one seed. Short ones are tried more often.
const SEED_BYTES_MAX: usize = 3 * 1024;

/// Where a seed is cut in two when it is read.
const CUT: u8 = 100;

/// Fills a folder for every target, and `words` with the words that agents write, for a fuzzer to
/// put together anew.
pub(super) fn write(corpus: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/capture/tests/fixtures");
    let mut words = BTreeSet::new();
    for (number, form) in FORMS.iter().enumerate() {
        let texts = match written(form.name) {
            "" => recorded(&fixtures.join(form.provider)),
            text => vec![text.to_owned()],
        };
        for (seed, text) in texts.iter().enumerate() {
            words.extend(text.split('"').filter(|word| is_word(word)).map(str::to_owned));
            put(&corpus.join(form.name), seed, &[&[CUT], text.as_bytes()].concat());
            // How far it was read when it was read to its end.
            let mut taken = Taken::default();
            form.home(text.as_bytes()).read(form.agent(), AT_ONCE, &mut taken);
            for (_, position) in taken.positions {
                let known = [&[number as u8], position.as_bytes(), b"\n", text.as_bytes()];
                put(&corpus.join("position"), number * 100_000 + seed, &known.concat());
            }
            put(&corpus.join("redact"), number * 100_000 + seed, text.as_bytes());
            for (line, draft) in taken.drafts.iter().enumerate().take(4) {
                let number = number * 100_000 + seed * 10 + line;
                put(&corpus.join("decode"), number, draft.encode().as_bytes());
            }
        }
    }
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"\n")).collect();
    fs::write(corpus.join("words"), words.concat()).expect("the corpus can be written");
}

/// Whether a fuzzer can use it: the name of a member, a kind, a mark.
fn is_word(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.$/<>".contains(c);
    (2..=32).contains(&word.len()) && word.chars().all(is_plain) && {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        digits <= 2
    }
}

fn put(folder: &Path, number: usize, bytes: &[u8]) {
    fs::create_dir_all(folder).expect("the corpus can be written");
    fs::write(folder.join(format!("seed-{number:07}")), bytes).expect("the corpus can be written");
}

/// The recordings below a folder, in pieces of whole lines.
fn recorded(folder: &Path) -> Vec<String> {
    let mut pieces = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return pieces };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is ours").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("lab") {
            pieces.extend(recorded(&path));
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let text = match extension {
            Some("jsonl") => fs::read_to_string(&path).expect("recordings are text"),
            Some("db") => dumped(&path),
            _ => continue,
        };
        let mut piece = String::new();
        for line in text.lines().filter(|line| line.len() < SEED_BYTES_MAX) {
            if piece.len() + line.len() > SEED_BYTES_MAX {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.extend([line, "\n"]);
        }
        pieces.push(piece);
    }
    pieces
}

/// A database as lines of rows.
fn dumped(path: &Path) -> String {
    let database = Connection::open(path).expect("recordings can be opened");
    let mut lines = String::new();
    for (table, _) in rows::TABLES {
        let Ok(mut statement) = database.prepare(&format!("SELECT * FROM {table}")) else {
            continue;
        };
        let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = statement.query([]).expect("recordings can be read");
        while let Some(row) = rows.next().expect("recordings can be read") {
            let member = |(index, name): (usize, &String)| {
                let value = match row.get_ref(index).expect("it has this column") {
                    ValueRef::Null => "null".to_owned(),
                    ValueRef::Integer(number) => number.to_string(),
                    ValueRef::Real(number) => number.to_string(),
                    ValueRef::Text(text) | ValueRef::Blob(text) => quoted(text),
                };
                format!("\"{name}\":{value}")
            };
            let members: Vec<String> = names.iter().enumerate().map(member).collect();
            lines += &format!("{{\"table\":\"{table}\",\"row\":{{{}}}}}\n", members.join(","));
        }
    }
    lines
}

fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    event::Raw::from_value(&*text).expect("a text encodes").get().to_owned()
}

/// Forms of which there is no recording.
fn written(form: &str) -> &'static str {
    match form {
        "cursor-lines" => concat!(
            r#"{"role":"user","message":{"content":[{"type":"text","text":"<timestamp>Friday, May 8, 2026, 3:53 PM (UTC+5:30)</timestamp>\n<user_query>\nfix it\n</user_query>"}]}}"#,
            "\n",
            r#"{"role":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Shell","input":{"command":"ls","working_directory":"/home/dev/project"}}]}}"#,
            "\n",
            r#"{"type":"turn_ended","status":"error","error":"[invalid_argument] Error"}"#,
            "\n",
        ),
        "cursor-text" => concat!(
            "user:\n<user_query>\nfix it\n</user_query>\n\nassistant:\n[Thinking] hm\n",
            "<think>\nmore\n</think>\nI look.\n[Tool call] Shell\n  command: ls\n  timeout: 3\n\n",
            "[Tool result] Shell\nsrc\n\nassistant:\nDone.\n",
        ),
        "cursor-store" => concat!(
            r#"{"table":"cursorDiskKV","row":{"key":"composerData:c1","value":"{\"name\":\"Fix it\",\"createdAt\":1767225600000,\"modelConfig\":{\"modelName\":\"lab\"},\"subagentInfo\":{\"parentComposerId\":\"c0\"},\"fullConversationHeadersOnly\":[{\"bubbleId\":\"b1\",\"type\":1},{\"bubbleId\":\"b2\",\"type\":2}],\"conversation\":[{\"bubbleId\":\"b0\",\"type\":1,\"text\":\"old\"}]}"}}"#,
            "\n",
            r#"{"table":"cursorDiskKV","row":{"key":"bubbleId:c1:b1","value":"{\"bubbleId\":\"b1\",\"type\":1,\"text\":\"fix it\",\"createdAt\":\"2026-01-01T00:00:00.000Z\"}"}}"#,
            "\n",
            r#"{"table":"cursorDiskKV","row":{"key":"bubbleId:c1:b2","value":"{\"bubbleId\":\"b2\",\"type\":2,\"capabilityType\":15,\"text\":\"I look.\",\"thinking\":{\"text\":\"hm\"},\"toolFormerData\":{\"toolCallId\":\"t1\",\"name\":\"run_terminal_cmd\",\"status\":\"completed\",\"rawArgs\":\"{}\",\"params\":\"{}\",\"result\":\"{}\",\"error\":null},\"tokenCount\":{\"inputTokens\":1,\"outputTokens\":2},\"errorDetails\":{}}"}}"#,
            "\n",
        ),
        "gemini-document" => concat!(
            r#"{"sessionId":"5f0b1d7e-0000-4000-8000-000000000000","projectHash":"p","startTime":"2026-01-01T00:00:00.000Z","lastUpdated":"2026-01-01T00:00:01.000Z","messages":["#,
            r#"{"id":"m1","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":"fix it"},"#,
            r#"{"id":"m2","timestamp":"2026-01-01T00:00:01.000Z","type":"gemini","content":"I look.","thoughts":[{"subject":"s","description":"d","timestamp":"2026-01-01T00:00:01.000Z"}],"tokens":{"input":1,"output":2,"cached":0,"thoughts":0,"tool":0,"total":3},"model":"lab","toolCalls":[{"id":"t1","name":"run_shell_command","args":{"command":"ls"},"status":"success","timestamp":"2026-01-01T00:00:01.000Z","resultDisplay":"src","result":[{"functionResponse":{"id":"t1","name":"run_shell_command","response":{"output":"src"}}}]}]}"#,
            "]}",
        ),
        "goose-lines" => concat!(
            r#"{"working_dir":"/home/dev/project","description":"Greeting","message_count":2,"total_tokens":3,"accumulated_total_tokens":3}"#,
            "\n",
            r#"{"role":"user","created":1767225600,"content":[{"type":"text","text":"fix it"}]}"#,
            "\n",
            r#"{"role":"assistant","created":1767225601,"content":[{"type":"thinking","thinking":"hm"},{"type":"toolRequest","id":"t1","toolCall":{"status":"success","value":{"name":"developer__shell","arguments":{"command":"ls"}}}}]}"#,
            "\n",
            r#"{"role":"user","created":1767225602,"content":[{"type":"toolResponse","id":"t1","toolResult":{"status":"success","value":[{"type":"text","text":"src"}]}}]}"#,
            "\n",
        ),
        "goose-rows" => concat!(
            r#"{"table":"sessions","row":{"id":"20260101_1","description":"Greeting","session_type":"user","working_dir":"/home/dev/project","created_at":"2026-01-01 00:00:00","updated_at":"2026-01-01 00:00:00","accumulated_total_tokens":3,"model_config_json":"{\"model_name\":\"lab\"}"}}"#,
            "\n",
            r#"{"table":"messages","row":{"session_id":"20260101_1","role":"user","content_json":"[{\"type\":\"text\",\"text\":\"fix it\"}]","created_timestamp":1767225600}}"#,
            "\n",
            r#"{"table":"messages","row":{"session_id":"20260101_1","role":"assistant","message_id":"m1","content_json":"[{\"type\":\"toolRequest\",\"id\":\"t1\",\"toolCall\":{\"status\":\"success\",\"value\":{\"name\":\"developer__shell\",\"arguments\":{\"command\":\"ls\"}}}}]","created_timestamp":1767225601,"metadata_json":"{\"userVisible\":true,\"agentVisible\":true}"}}"#,
            "\n",
        ),
        _ => "",
    }
}
