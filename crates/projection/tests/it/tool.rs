//! What calls do, and to what.

use event::Raw;
use expect_test::{Expect, expect};
use projection::ToolUse;
use serde_json::{Value, json};

#[track_caller]
fn check(tool: &str, input: Value, expected: Expect) {
    let used = ToolUse::from_call(tool, &Raw::from_value(&input).unwrap());
    expected.assert_eq(&format!("{:?} {:?}", used.deed, used.object));
}

#[test]
fn a_command_is_its_first_line() {
    check(
        "Bash",
        json!({"command": "cargo test\necho done", "description": "x"}),
        expect![[r#"Run Command("cargo test")"#]],
    );
    check(
        "shell",
        json!({"command": ["bash", "-lc", "ls -la"]}),
        expect![[r#"Run Command("ls -la")"#]],
    );
    check(
        "shell",
        json!({"command": ["git", "status"]}),
        expect![[r#"Run Command("git status")"#]],
    );
    check("exec_command", json!("{\"cmd\":\"rg x\"}"), expect![[r#"Run Command("rg x")"#]]);
    check(
        "exec",
        json!("const r = await tools.exec_command({\"cmd\": \"wc -l\"});\ntext(r);"),
        expect![[r#"Run Command("wc -l")"#]],
    );
    check("exec", json!("let x = 1;\nf(x)"), expect![[r#"Run Command("let x = 1;")"#]]);
}

#[test]
fn a_search_has_a_pattern_and_a_place() {
    check(
        "Grep",
        json!({"pattern": "fn main", "path": "src"}),
        expect![[r#"Search Pattern { pattern: "fn main", place: Some("src") }"#]],
    );
    check(
        "glob",
        json!({"pattern": "**/*.rs"}),
        expect![[r#"Search Pattern { pattern: "**/*.rs", place: None }"#]],
    );
    check(
        "codebase_search",
        json!({"query": "where?", "target_directories": ["src"]}),
        expect![[r#"Search Pattern { pattern: "where?", place: Some("src") }"#]],
    );
}

#[test]
fn an_address_is_told_by_its_host() {
    check(
        "WebFetch",
        json!({"url": "https://user:pw@example.org:8080/a?b#c", "prompt": "p"}),
        expect![[r#"Visit Host("example.org:8080")"#]],
    );
    check(
        "web_fetch",
        json!({"prompt": "read https://example.org/x please"}),
        expect![[r#"Visit Host("example.org")"#]],
    );
    check(
        "webfetch",
        json!({"url": "file:///etc/passwd"}),
        expect![[r#"Visit Host("/etc/passwd")"#]],
    );
    check("fetch", json!({"url": "not a url"}), expect![[r#"Visit Host("not a url")"#]]);
}

#[test]
fn anything_else_is_told_by_its_first_text() {
    check("WebSearch", json!({"query": "rust 2024"}), expect![[r#"WebSearch Text("rust 2024")"#]]);
    check(
        "Task",
        json!({"description": "dig", "prompt": "long"}),
        expect![[r#"Delegate Text("dig")"#]],
    );
    check(
        "mcp__linear__create",
        json!({"n": 1, "title": "Bug\nmore"}),
        expect![[r#"Other Text("Bug")"#]],
    );
    check("Unheard", json!({}), expect!["Other Nothing"]);
    check("Unheard", json!(null), expect!["Other Nothing"]);
    check("Read", json!({}), expect!["Read Nothing"]);
    check("Read", json!([1, 2]), expect!["Read Nothing"]);
}
