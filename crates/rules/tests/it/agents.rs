//! Inputs as real agents write them: fields, forms and names differ, rules do not.

use event::Raw;
use serde_json::{Value, json};

use crate::given::{action, compiled, judge_call, now, word};

#[track_caller]
fn check(rule: &str, tool: &str, input: Value, expected: &str) {
    let verdict = judge_call(rule, tool, input.clone());
    assert_eq!(word(&verdict), expected, "{rule} for {tool} {input}\n{}", verdict.explain());
}

#[test]
fn one_shell_rule_holds_for_every_agent() {
    for (tool, input) in [
        ("Bash", json!({"command": "rm -rf x", "description": "Remove"})),
        ("exec_command", json!({"cmd": "rm -rf x"})),
        ("shell", json!({"command": ["bash", "-lc", "rm -rf x"]})),
        ("shell", json!({"command": ["rm", "-rf", "x y"]})),
        ("run_shell_command", json!({"command": "rm -rf x", "description": "d"})),
        ("Shell", json!({"command": "rm -rf x", "working_directory": "/home/dev"})),
        ("developer__shell", json!({"command": "rm -rf x"})),
        ("bash", json!({"command": "rm -rf x", "yield_time_ms": 60000})),
        ("run_commands", json!({"commands": ["ls", "rm -rf x"]})),
        ("Execute", json!({"command": "rm -rf x", "riskLevel": "low"})),
        ("file_system.bash", json!({"command": "rm -rf x"})),
        ("exec", json!("const r = await tools.exec_command({\"cmd\":\"rm -rf x\"});")),
        ("bash", json!("{\"command\": \"rm -rf x\"}")),
        ("mcp__desktop__start_process", json!({"command": "rm -rf x"})),
    ] {
        check("block shell: rm -rf *", tool, input.clone(), "block");
        check("block Bash: rm -rf *", tool, input, "block");
    }
}

#[test]
fn unknown_tools_are_never_allowed() {
    check("allow shell: ls *", "Execute", json!({"command": "ls"}), "none");
    check("allow shell: ls *", "mcp__desktop__run", json!({"command": "ls"}), "none");
    check("allow shell: ls *", "Bash", json!({"command": "ls"}), "allow");
    check("allow Bash: ls *", "Bash", json!({"command": "ls"}), "allow");
    check("allow Bash: ls *", "exec_command", json!({"cmd": "ls"}), "none");
    check("allow shell: ls *", "shell", json!({"command": ["ls", "a b"]}), "allow");
    check("allow shell: ls *", "Bash", json!({}), "none");
}

#[test]
fn one_path_rule_holds_for_every_agent() {
    let patch = "*** Begin Patch\n*** Add File: src/a.rs\n+a\n*** Move to: db/.env\n*** End Patch";
    for (tool, input) in [
        ("Edit", json!({"file_path": "/home/dev/project/.env", "old_string": "a"})),
        ("write", json!({"filePath": "/home/dev/project/.env", "content": "a"})),
        ("create", json!({"path": "/home/dev/project/.env", "file_text": "a"})),
        ("edit", json!({"path": ".env", "before": "a"})),
        ("str_replace_editor", json!({"command": "create", "path": "/home/dev/project/.env"})),
        ("apply_patch", json!({"command": patch})),
        ("apply_patch", json!({"input": patch})),
        ("apply_patch", json!(patch)),
        ("shell", json!({"command": ["apply_patch", patch]})),
        ("Bash", json!({"command": format!("apply_patch <<'EOF'\n{patch}\nEOF")})),
        ("Bash", json!({"command": "echo A=1 >> .env"})),
        ("MultiEdit", json!({"edits": [{"file_path": "a.rs"}, {"file_path": ".env"}]})),
        ("mcp__files__write_file", json!({"path": "/home/dev/project/.env"})),
        ("mcp__files__put", json!({"path": "/home/dev/project/.env"})),
    ] {
        check("block edit: **/.env", tool, input.clone(), "block");
        check("block edit: .env", tool, input, "block");
    }
    check("block edit: **/.env", "Read", json!({"file_path": ".env"}), "none");
    let view = json!({"command": "view", "path": ".env"});
    check("block edit: **/.env", "str_replace_editor", view.clone(), "none");
    check("block read: **/.env", "str_replace_editor", view, "block");
    check("block read: **/.env", "Grep", json!({"pattern": "A", "path": ".env"}), "block");
    check("block read: **/.env", "read_many_files", json!({"paths": ["a", "b/.env"]}), "block");
    check("block read: **/.env", "Bash", json!({"command": "cat < .env"}), "block");
}

#[test]
fn paths_are_resolved_before_they_match() {
    let read = |path: &str| json!({ "file_path": path });
    for (rule, path, expected) in [
        ("block read: ~/.ssh/**", "/home/dev/.ssh/id_rsa", "block"),
        ("block read: ~/.ssh/**", "~/.ssh/id_rsa", "block"),
        ("block read: ~/.ssh/**", "$HOME/.ssh/config", "block"),
        ("block read: ~/.ssh/**", "../.ssh/id_rsa", "block"),
        ("block read: ~/.ssh/**", "/srv/dev/.ssh/id_rsa", "none"),
        ("block read: /etc/**", "../../../etc/passwd", "block"),
        ("block read: /etc/**", "/home/dev/project/../../../../etc/passwd", "block"),
        ("block read: /etc/**", "file:///etc/passwd", "block"),
        ("block read: **/.env", "x/.ENV", "block"),
        ("block read: src/*.rs", "/home/dev/project/src/a.rs", "block"),
        ("block read: src/*.rs", "src/a/b.rs", "none"),
        ("block read: src/**/*.rs", "src/b.rs", "block"),
        ("block read: src/**/*.rs", "src/a/x/b.rs", "block"),
        ("block read: src/", "src/a/b.rs", "block"),
        ("block read: *", "/anything/at/all", "block"),
        ("allow read: src/**", "src/a.rs", "allow"),
        ("allow read: src/**", "src/../secret", "none"),
        ("allow read: src/**", "/home/dev/src/a.rs", "none"),
        ("allow read: src/**", "SRC/a.rs", "none"),
        ("allow read: a.rs", "x/a.rs", "none"),
        ("block read: ** @except:\"src/**\"", "src/a.rs", "none"),
        ("block read: ** @except:\"src/**\"", "src/../a.rs", "block"),
    ] {
        check(rule, "Read", read(path), expected);
    }
}

#[test]
fn every_file_of_a_patch_has_to_be_allowed() {
    let patch = |second: &str| {
        let text = format!(
            "*** Begin Patch\n*** Update File: src/a.rs\n@@\n*** Update File: {second}\n@@\n*** End Patch"
        );
        json!({ "input": text })
    };
    check("allow edit: src/**", "apply_patch", patch("src/b.rs"), "allow");
    check("allow edit: src/**", "apply_patch", patch("b.rs"), "none");
    check("allow edit: src/**\nallow edit: *.rs", "apply_patch", patch("b.rs"), "allow");
    check("allow edit: src/**", "Edit", json!({}), "none");
}

#[test]
fn servers_are_found_in_the_names_of_tools() {
    let rule = "block mcp: db/drop_*";
    for tool in [
        "mcp__db__drop_table",
        "MCP__db__drop_table",
        "db_drop_table",
        "db-drop_table",
        "db__drop_table",
        "db.drop_table",
        "mcp__DB__DROP_TABLE",
    ] {
        check(rule, tool, json!({"name": "users"}), "block");
    }
    check(rule, "mcp__db__query", json!({}), "none");
    check(
        "block mcp: db/query sql=*DROP*",
        "mcp__db__query",
        json!({"sql": "drop table a"}),
        "block",
    );
    check("block mcp: db/query sql=*DROP*", "mcp__db__query", json!({"sql": "select"}), "none");
    check("block mcp: db/* filter.id=7", "mcp__db__find", json!({"filter": {"id": 7}}), "block");
    check("allow mcp: db/query", "mcp__db__query", json!({}), "allow");
    check("allow mcp: db/query", "mcp__db__Query", json!({}), "none");
    check("allow mcp: db/query", "db_query", json!({}), "none");
    check("allow mcp: db/*", "mcp__db__x__y", json!({}), "none");
}

#[test]
fn cursor_names_the_server_beside_the_tool() {
    let input = Raw::from_value(&json!("{\"sql\": \"DROP TABLE a\"}")).unwrap();
    let mut call = action("MCP:query", &input);
    call.server = Some("db");
    for rule in ["block mcp: db/query", "block mcp: db/* sql=*drop*"] {
        assert_eq!(word(&compiled(rule).judge(&call, now())), "block", "{rule}");
    }
    assert_eq!(word(&compiled("block mcp: other/*").judge(&call, now())), "none");
}

#[test]
fn hosts_are_compared() {
    for (rule, url, expected) in [
        ("block web: evil.example", "https://evil.example/x", "block"),
        ("block web: evil.example", "http://user:pw@EVIL.example:8080/x?y#z", "block"),
        ("block web: evil.example", "evil.example/x", "block"),
        ("block web: evil.example", "https://evil.example./", "block"),
        ("block web: evil.example", "https://good.example/?u=https.evil.example", "none"),
        ("block web: *.example", "https://a.b.example/", "block"),
        ("allow web: docs.rs", "https://docs.rs/event", "allow"),
        ("allow web: docs.rs", "https://docs.rs.evil.example/", "none"),
        ("allow web: docs.rs", "https://docs.rs@evil.example/", "none"),
        ("allow web: docs.rs", "https://evil.example\\@docs.rs/", "none"),
    ] {
        check(rule, "WebFetch", json!({"url": url, "prompt": "what is it"}), expected);
    }
    // Some programs drop the tab and open another host.
    let tabbed = json!({"url": "https://docs.rs\t.evil.example/"});
    check("allow web: docs.rs", "WebFetch", tabbed, "none");
    let prompt = json!({"prompt": "Compare https://docs.rs/a and https://evil.example/b"});
    check("block web: evil.example", "web_fetch", prompt.clone(), "block");
    check("allow web: docs.rs", "web_fetch", prompt, "none");
    check("block web: *", "WebSearch", json!({"query": "x"}), "block");
    check("allow web: docs.rs", "WebSearch", json!({"query": "docs.rs"}), "none");
}

#[test]
fn field_beside_the_command_hides_nothing() {
    for input in [
        json!({"command": "ls", "cmd": "rm -rf x"}),
        json!({"Command": "ls", "command": "rm -rf x"}),
        json!({"command": "rm -rf x", "COMMAND": "ls"}),
        json!({"script": "ls", "commands": ["ls", "rm -rf x"]}),
    ] {
        check("block shell: rm -rf *", "Bash", input.clone(), "block");
        check("allow shell: ls", "Bash", input.clone(), "none");
        check("allow shell: rm *", "Bash", input, "none");
    }
    let edit = json!({"file_path": "/home/dev/a", "command": "view"});
    check("block edit: **", "Edit", edit.clone(), "block");
    check("allow read: **", "Edit", edit, "none");
}

#[test]
fn leaving_the_sandbox_is_not_allowed() {
    for input in [
        json!({"command": "cargo test", "dangerouslyDisableSandbox": true}),
        json!({"command": "cargo test", "sandbox_permissions": "require_escalated"}),
        json!({"command": "cargo test", "with_escalated_permissions": true}),
    ] {
        check("allow shell: cargo test *", "Bash", input, "none");
    }
    let inside = json!({"command": "cargo test", "dangerouslyDisableSandbox": false});
    check("allow shell: cargo test *", "Bash", inside, "allow");
}

#[test]
fn texts_match_on_word_borders() {
    let rule = "ask any: \"prod db\"";
    check(rule, "Bash", json!({"command": "psql 'PROD DB'"}), "ask");
    check(rule, "mcp__db__query", json!({"where": {"name": ["the prod db."]}}), "ask");
    check(rule, "Bash", json!({"command": "psql prod dbs"}), "none");
    check(rule, "Bash", json!({"command": "psql nonprod db"}), "none");
    check("ask task: *", "Task", json!({"prompt": "count lines"}), "ask");
    check("ask task: deploy", "spawn_agent", json!({"message": "Deploy it"}), "ask");
    check("allow task: *", "Agent", json!({"prompt": "x"}), "allow");
    check("allow task: review", "Agent", json!({"prompt": "review, then push"}), "none");
}
