//! `hansard rules`, and what they answer at the hooks of agents.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Dice, World};

use crate::hook::{events, failures, ingest, journal, payload, with_session};
use crate::ingest_crash::{crashes, share, timed};
use crate::json as lines;
use crate::up::up;

fn add(world: &World, rules: &[&str]) {
    let said = world.run(&[&["rules", "add"], rules].concat());
    assert_eq!(said.code, Some(0), "{said}");
}

/// What a hook of Claude Code prints about a shell command.
fn answer(world: &World, event: &str, command: &str) -> String {
    let rest = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    let input = payload(world, "s0", &rest).to_string();
    let said = world.run_with_input(&["hook", "claude", event], input.as_bytes());
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    said.stdout
}

#[test]
fn rule_answers_a_hook_without_a_daemon() {
    let world = with_session();
    assert_eq!(answer(&world, "PreToolUse", "rm -rf /"), "");
    add(&world, &["block shell: rm -rf * — use trash", "ask shell: git push *"]);
    assert_eq!(answer(&world, "PreToolUse", "ls"), "");
    expect![[r#"
        {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"use trash. A rule of the user forbids this call (`block shell: rm -rf * — use trash`). Do not work around it."}}
    "#]]
    .assert_eq(&answer(&world, "PreToolUse", "cd a && rm -r -f b"));
    assert!(answer(&world, "PreToolUse", "git -C x push").contains(r#""ask""#));
    // The agent asks already.
    assert_eq!(answer(&world, "PermissionRequest", "git push"), "");
    assert!(answer(&world, "PermissionRequest", "rm -rf /").contains(r#""behavior":"deny""#));
}

#[test]
fn rule_answers_a_hook_beside_a_daemon() {
    let world = with_session();
    let _daemon = up(&world);
    add(&world, &["block shell: rm -rf *"]);
    assert!(answer(&world, "PreToolUse", "rm -rf /").contains("deny"));
    let removed = world.run(&["rules", "remove", "block shell: rm -rf *"]);
    assert_eq!(removed.code, Some(0), "{removed}");
    assert_eq!(answer(&world, "PreToolUse", "rm -rf /"), "");
}

#[test]
fn every_match_is_recorded() {
    let world = with_session();
    add(&world, &["block shell: rm -rf *", "ask shell: rm *", "block shell: git push @dry"]);
    answer(&world, "PreToolUse", "rm -rf /");
    answer(&world, "PreToolUse", "git push");
    answer(&world, "PreToolUse", "ls");
    ingest(&world);
    let matched = events(&world, "rule.matched");
    let told: Vec<Value> = matched
        .iter()
        .map(|event| {
            let data = &event["data"];
            let rules = data["rules"].as_array().unwrap().iter();
            let rules: Vec<Value> = rules.map(|rule| rule["rule"].clone()).collect();
            json!([data["verdict"], data["told"], rules])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["block", "deny", ["block shell: rm -rf *", "ask shell: rm *"]]),
            json!([null, null, ["block shell: git push @dry"]]),
        ]
    );
}

#[test]
fn rules_are_listed_tested_and_removed() {
    let world = with_session();
    add(&world, &["block shell: rm -rf * — use trash", "allow shell: cargo test *"]);
    let listed = lines(&world.run(&["--json", "rules", "list"]));
    let rules: Vec<&str> = listed.iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["block shell: rm -rf * — use trash", "allow shell: cargo test *"]);
    let exported = world.run(&["rules", "export"]).stdout;
    assert_eq!(exported, "block shell: rm -rf * — use trash\nallow shell: cargo test *\n");
    let id = listed[0]["short_id"].as_str().unwrap();
    let tested = world.run(&["rules", "test", "--agent", "codex", "--", "sudo", "rm", "-fr", "x"]);
    expect![[r#"
        part     sudo rm -fr x
        part     rm -fr x
        match    block shell: rm -rf * — use trash (rule ID) by `rm -fr x`
        verdict  block (rule ID)
        codex    deny
        --- exit 1
    "#]]
    .assert_eq(&tested.to_string().replace(id, "ID"));
    let allowed = world.run(&["--json", "rules", "test", "--", "cargo test -p x"]);
    assert_eq!(allowed.code, Some(0), "{allowed}");
    assert_eq!(lines(&allowed)[0]["verdict"], "allow");
    assert_eq!(world.run(&["rules", "remove", id]).code, Some(0));
    assert_eq!(world.run(&["rules", "remove", id]).code, Some(1));
    assert_eq!(lines(&world.run(&["--json", "rules", "list"])).len(), 1);
    // The record of rules is no session.
    let listed = world.run(&["--json", "sessions"]).stdout;
    assert!(listed.contains("claude:s0") && !listed.contains("user:rules"), "{listed}");
}

#[test]
fn line_that_is_no_rule_is_named() {
    let world = with_session();
    expect![[r#"
        --- stderr
        error: `block shel: rm` is no rule: `shel` is no class (shell, edit, read, web, mcp, task, any) and no tool of a known agent
        --- exit 2
    "#]]
    .assert_eq(&world.run(&["rules", "add", "ask shell: git push", "block shel: rm"]).to_string());
    // Of several rules all are added or none.
    assert_eq!(lines(&world.run(&["--json", "rules", "list"])).len(), 0);
    let text = "# mine\nblock shell: rm -rf *\nblock nothing\n\nask shell: git push *\n";
    let said = world.run_with_input(&["rules", "import", "-"], text.as_bytes());
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("line 3: no `tool:` begins it"), "{said}");
    assert_eq!(lines(&world.run(&["--json", "rules", "list"])).len(), 2);
}

#[test]
fn unreadable_rules_let_calls_pass() {
    let world = with_session();
    add(&world, &["block shell: rm -rf *"]);
    let file = journal(&world).join("rules/compiled");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(answer(&world, "PreToolUse", "rm -rf /"), "");
    let [problem] = &crate::hook::failures(&world)[..] else { panic!("one failure is noted") };
    assert!(problem.contains("rules/compiled` cannot be used"), "{problem}");
    assert!(world.run(&["rules", "list"]).stderr.contains("hooks cannot use"));
    fs::write(journal(&world).join("config.toml"), "[rules]\nfail_closed = true\n").unwrap();
    // The next change of rules mends the file and takes the setting over.
    add(&world, &[]);
    assert!(answer(&world, "PreToolUse", "rm -rf /").contains("forbids this call"));
    fs::write(&file, "torn").unwrap();
    assert!(answer(&world, "PreToolUse", "ls").contains("cannot be read"));
    assert_eq!(answer(&world, "PermissionRequest", "ls"), "");
    let _daemon = up(&world);
    assert_eq!(answer(&world, "PreToolUse", "ls"), "");
}

#[test]
fn replay_lists_what_a_rule_would_have_caught() {
    let world = with_session();
    let call = r#"{"type":"assistant","sessionId":"s0","uuid":"c1","timestamp":"2026-11-16T10:00:00Z","cwd":"/home/dev/app","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cd x; rm -fr build"}},{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"ls"}}]}}"#;
    let file = crate::hook::transcript(&world, "s0");
    crate::writer::append(&file, format!("{call}\n").as_bytes());
    ingest(&world);
    let rule = "block shell: rm -rf *";
    let said = world.run(&["rules", "replay", rule, "--since", "2026-01-01"]);
    expect![[r#"
        s0 #4  2026-11-16 10:00  claude
            Bash: cd x; rm -fr build
        --- stderr
        1 of 2 recorded calls
    "#]]
    .assert_eq(&said.to_string());
    let none = world.run(&["rules", "replay", rule, "--since", "1s"]);
    assert!(none.stderr.contains("0 of 0"), "{none}");
}

#[test]
fn killed_change_is_handed_out_by_the_next() {
    let world = with_session();
    add(&world, &["block shell: first"]);
    let time = timed(|| add(&world, &["block shell: second"]));
    // Each run does little, so it is killed less often than `ingest`.
    let rounds = crashes().div_ceil(5);
    let mut dice = Dice::from_environment();
    println!("{rounds} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for round in 0..rounds {
        let program = format!("program{round}");
        let rule = format!("block shell: {program}");
        let mut running = world.start(&["rules", "add", &rule]);
        let is_added = running.ends_within(share(time, &mut dice));
        if !is_added {
            running.kill();
        }
        // Hooks have the rules of before or those of after, never a torn file.
        assert!(answer(&world, "PreToolUse", "first").contains("deny"));
        let listed = lines(&world.run(&["--json", "rules", "list"]));
        let is_recorded = listed.iter().any(|listed| listed["rule"] == rule);
        assert!(is_recorded || !is_added, "{rule}");
        add(&world, &[]);
        assert_eq!(answer(&world, "PreToolUse", &program).contains("deny"), is_recorded, "{rule}");
    }
    assert_eq!(failures(&world), [""; 0]);
}
