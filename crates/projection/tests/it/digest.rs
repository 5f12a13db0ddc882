//! What is worth keeping of an epoch.

use expect_test::{Expect, expect};
use projection::digest::{self, Digest, DigestFact, Topic};
use serde_json::json;

use crate::given::{Log, inherited};

fn facts(log: &Log) -> Vec<DigestFact> {
    let mut digest = Digest::default();
    log.events.iter().for_each(|event| digest.apply(event));
    digest.flush();
    digest.take_new()
}

#[track_caller]
fn check(tell: impl FnOnce(&mut Log), expected: Expect) {
    let mut log = Log::started();
    tell(&mut log);
    let told: Vec<String> = facts(&log)
        .iter()
        .map(|fact| {
            let DigestFact { topic, text, epoch, from_seq, to_seq, .. } = fact;
            format!("{epoch} {from_seq}-{to_seq} {topic:?}: {text}")
        })
        .collect();
    expected.assert_eq(&told.join("\n"));
}

fn bash(log: &mut Log, command: &str) {
    log.use_tool("Bash", json!({"command": command}));
}

fn bash_fails(log: &mut Log, command: &str, output: &str) {
    let call_id = log.call("Bash", json!({"command": command}));
    log.fail(&call_id, output);
}

#[test]
fn first_meaningful_prompt_is_the_goal() {
    check(
        |log| {
            log.prompt("hi");
            log.prompt("Fix the parser");
            log.say("m1", "ok");
            log.prompt("Add a test for it");
            log.prompt("add a test, for it!");
            log.say("m2", "ok");
        },
        expect![[r#"
            0 3-3 Goal: Fix the parser
            0 5-5 Ask: Add a test for it"#]],
    );
}

#[test]
fn a_session_of_three_lines_has_a_digest() {
    check(
        |log| {
            log.prompt("What is the answer?");
            log.say("m1", "It is 42.");
        },
        expect![[r#"
            0 2-2 Goal: What is the answer?
            0 3-3 Fact: It is 42."#]],
    );
}

#[test]
fn a_person_decides_and_prefers_and_negations_stay() {
    check(
        |log| {
            log.prompt(
                "Work on the lexer. Always run the tests first. Don’t touch the docs. \
                 I prefer tabs! Let's go with a hand-written one instead of nom. \
                 Should I always do that? From now on, answer briefly. An alwaysness is no word.",
            );
            log.say("m1", "done");
        },
        expect![[r#"
            0 2-2 Goal: Work on the lexer. Always run the tests first. Don’t touch the docs. I prefer tabs! Let's go with a hand-written one instead of nom. Should I always do that? From now on, answer briefly. An…
            0 2-2 Preference: Always run the tests first.
            0 2-2 Preference: Don’t touch the docs.
            0 2-2 Preference: I prefer tabs!
            0 2-2 Decision: Let's go with a hand-written one instead of nom.
            0 2-2 Preference: From now on, answer briefly."#]],
    );
}

#[test]
fn an_assistant_decides_only_in_so_many_words() {
    check(
        |log| {
            log.prompt("Work on the lexer");
            log.say(
                "m1",
                "You should always test. I switched to memchr because it is faster.\n\
                 ```\nlet x = 1; // decided by nobody\n```\n- Decided against a table.",
            );
        },
        expect![[r#"
            0 2-2 Goal: Work on the lexer
            0 3-3 Decision: I switched to memchr because it is faster.
            0 3-3 Decision: Decided against a table."#]],
    );
}

#[test]
fn work_is_told_by_files_commands_tests_and_commits() {
    check(
        |log| {
            log.prompt("Work on the lexer");
            log.use_tool("Edit", json!({"file_path": "src/a.rs"}));
            log.use_tool("Edit", json!({"file_path": "src/a.rs"}));
            log.use_tool("Edit", json!({"file_path": "src/b.rs"}));
            let call_id = log.call("Edit", json!({"file_path": "src/never.rs"}));
            log.fail(&call_id, "String to replace not found");
            log.use_tool("Write", json!({"file_path": "src/c.rs"}));
            log.use_tool("Read", json!({"file_path": "src/d.rs"}));
            bash_fails(log, "cargo test -p lexer", "test result: FAILED. 1 failed");
            bash(log, "cd x && cargo test");
            bash(log, "git checkout -b fix/lexer && git commit -am 'lexer: faster'");
            bash(log, "git commit -m \"$(cat <<'EOF'\nlexer: smaller\n\nBody.\nEOF\n)\"");
            bash_fails(log, "git commit -m 'not made'", "nothing to commit");
            let call_id = log.call("Bash", json!({"command": "gh pr create --fill"}));
            log.add(
                "tool.result",
                json!({"call_id": call_id, "outcome": "ok",
                "output": "https://github.com/org/app/pull/42\n"}),
            );
            log.say("m1", "done");
        },
        expect![[r#"
            0 2-2 Goal: Work on the lexer
            0 3-7 Work: Edited src/a.rs ×2, src/b.rs
            0 11-11 Work: Created src/c.rs
            0 15-25 Work: Ran git 3, cargo 2, gh 1
            0 18-18 Work: Tests passed: cargo test
            0 19-19 Work: Committed: lexer: faster
            0 19-19 Work: On branch fix/lexer
            0 21-21 Work: Committed: lexer: smaller
            0 26-26 Work: Pull request #42
            0 16-18 Problem: test result: FAILED. 1 failed → cd x && cargo test"#]],
    );
}

#[test]
fn going_to_another_branch_is_work() {
    check(
        |log| {
            log.add("settings.changed", json!({"branch": "main"}));
            log.add("settings.changed", json!({"branch": "main"}));
            log.add("settings.changed", json!({"branch": "fix/lexer"}));
        },
        expect!["0 4-4 Work: On branch fix/lexer"],
    );
}

#[test]
fn a_test_that_fails_in_a_pipe_has_failed() {
    check(
        |log| {
            let call_id = log.call("Bash", json!({"command": "npm run test:unit 2>&1 | tail"}));
            log.add(
                "tool.result",
                json!({"call_id": call_id, "outcome": "ok", "output": "3 passed, 2 failed"}),
            );
        },
        expect![[r#"
            0 2-2 Work: Ran npm 1
            0 3-3 Work: Tests failed: npm run test:unit (3 passed, 2 failed)"#]],
    );
}

#[test]
fn the_calls_of_a_program_are_counted_in_its_place() {
    check(
        |log| {
            log.call("exec", json!("await tools.exec_command({\"cmd\": \"ls\"})"));
            let program = log.events.last().unwrap().id;
            log.call("exec_command", json!({"command": ["/bin/bash", "-lc", "ls"]}));
            log.events.last_mut().unwrap().draft.parent_id = Some(program);
        },
        expect!["0 3-3 Work: Ran ls 1"],
    );
}

#[test]
fn a_problem_is_told_with_what_fixed_it() {
    check(
        |log| {
            bash_fails(log, "cargo build", "Compiling\nerror[E0425]: cannot find value `x`");
            bash_fails(log, "cargo build", "error[E0308]: mismatched types");
            bash(log, "ls");
            bash(log, "cargo build --release");
            let call_id = log.call("Edit", json!({"file_path": "a.rs"}));
            log.add("tool.result", json!({"call_id": call_id, "outcome": "rejected"}));
            log.use_tool("Edit", json!({"file_path": "a.rs"}));
        },
        expect![[r#"
            0 12-12 Work: Edited a.rs
            0 2-8 Work: Ran cargo 3, ls 1
            0 3-9 Problem: error[E0425]: cannot find value `x` → cargo build --release"#]],
    );
}

#[test]
fn what_came_to_nothing_is_open() {
    check(
        |log| {
            log.prompt("Fix the parser");
            log.say("m1", "Done. Next, the lexer needs a rewrite. todo: remove the old table.");
            log.prompt("Fix the lexer");
            bash_fails(log, "cargo test", "error: no");
            log.end("interrupted");
        },
        expect![[r#"
            0 2-2 Goal: Fix the parser
            0 4-4 Ask: Fix the lexer
            0 5-5 Work: Ran cargo 1
            0 6-6 Work: Tests failed: cargo test (error: no)
            0 4-4 OpenEnd: Fix the lexer"#]],
    );
    check(
        |log| {
            log.prompt("Fix the parser");
            log.say("m1", "Done. Next, the lexer needs a rewrite. I kept the old table.");
        },
        expect![[r#"
            0 2-2 Goal: Fix the parser
            0 3-3 OpenEnd: Next, the lexer needs a rewrite."#]],
    );
}

#[test]
fn sentences_with_values_are_facts() {
    check(
        |log| {
            log.prompt("Look at this. The server listens on port 8443. Nothing else matters.");
            log.say(
                "m1",
                "It needs Rust 1.95. See https://example.org/doc for more. MAX_RETRIES is too small. \
                 The config is in conf/app.toml there. The file node_modules/x/y.js is not ours. \
                 This is plain talk. It takes 15% longer.",
            );
        },
        expect![[r#"
            0 2-2 Goal: Look at this. The server listens on port 8443. Nothing else matters.
            0 2-2 Fact: The server listens on port 8443.
            0 3-3 Fact: It needs Rust 1.95.
            0 3-3 Fact: See https://example.org/doc for more.
            0 3-3 Fact: MAX_RETRIES is too small.
            0 3-3 Fact: The config is in conf/app.toml there.
            0 3-3 Fact: It takes 15% longer."#]],
    );
}

#[test]
fn fifteen_facts_are_kept_and_a_persons_go_first() {
    let mut log = Log::started();
    log.prompt("Look at this. The limit is 10000 rows.");
    for number in 100..140 {
        log.say(&format!("m{number}"), &format!("The row {number} is there."));
    }
    let facts: Vec<DigestFact> =
        facts(&log).into_iter().filter(|fact| fact.topic == Topic::Fact).collect();
    assert_eq!(facts.len(), 15);
    assert_eq!(facts[0].text, "The limit is 10000 rows.");
    assert_eq!(facts[14].text, "The row 139 is there.", "newer before older");
}

#[test]
fn epochs_add_to_each_other() {
    check(
        |log| {
            log.prompt("Fix the parser. Always use tabs.");
            log.say("m1", "done");
            bash(log, "cargo test");
            log.add("compaction", json!({"strategy": "captured"}));
            log.add("epoch.closed", json!({"cause": "compaction"}));
            log.prompt("Fix the parser. Always use tabs.");
            log.prompt("Now the lexer please");
            bash(log, "cargo test");
            log.say("m2", "done");
        },
        expect![[r#"
            0 2-2 Goal: Fix the parser. Always use tabs.
            0 2-2 Preference: Always use tabs.
            0 4-4 Work: Ran cargo 1
            0 5-5 Work: Tests passed: cargo test
            1 9-9 Ask: Now the lexer please
            1 10-10 Work: Ran cargo 1
            1 11-11 Work: Tests passed: cargo test"#]],
    );
}

#[test]
fn what_a_fork_inherits_is_digested_elsewhere() {
    check(
        |log| {
            inherited(log.prompt("Fix the parser"));
            inherited(log.say("m1", "It needs Rust 1.95."));
            log.prompt("Fix the lexer instead");
        },
        expect![[r#"
            0 4-4 Goal: Fix the lexer instead
            0 4-4 OpenEnd: Fix the lexer instead"#]],
    );
}

#[test]
fn title_and_summary_are_made_from_the_facts() {
    let mut log = Log::started();
    log.prompt("Fix the parser. It hangs on an empty line, always at the same place.");
    log.use_tool("Edit", json!({"file_path": "src/parser.rs"}));
    bash_fails(&mut log, "cargo test", "error: test failed");
    bash(&mut log, "cargo test");
    log.say("m1", "It is fixed because the loop now ends. Next: the lexer.");
    log.prompt("Then write it down");
    log.say("m2", "Written.");
    let facts = facts(&log);
    assert_eq!(digest::find_title(&facts).as_deref(), Some("Fix the parser"));
    expect![[r#"
        Goal: Fix the parser. It hangs on an empty line, always at the same place.
        Asked: Then write it down
        Decided: It is fixed because the loop now ends.
        Wanted: It hangs on an empty line, always at the same place.
        Did: Edited src/parser.rs; Ran cargo 2; Tests passed: cargo test
        Solved: error: test failed → cargo test"#]]
    .assert_eq(&digest::summarize(&facts));
    assert_eq!((digest::find_title(&[]), digest::summarize(&[]).as_str()), (None, ""));
}

#[test]
fn hostile_text_is_harmless() {
    let mut log = Log::started();
    log.prompt("\u{1b}]0;x\u{7}always \u{202e}use\u{0} /home/dev/x 12345\n```\nnever closed");
    log.say("m1", &"because ".repeat(100_000));
    for fact in facts(&log) {
        assert!(!fact.text.chars().any(char::is_control) && fact.text.chars().count() <= 200);
    }
}
