//! From a prompt to the end of its answer.

use expect_test::{Expect, expect};
use projection::{Projection, Turn, Turns};
use serde_json::json;

use crate::given::{Log, amends, inherited};

fn turns(log: &Log) -> Vec<Turn> {
    Turns::stream(log.events.iter().cloned().map(Ok::<_, ()>)).collect::<Result<_, _>>().unwrap()
}

#[track_caller]
fn check(log: &Log, expected: Expect) {
    let told: Vec<String> = turns(log)
        .iter()
        .map(|turn| {
            let outcome = turn.outcome.map_or("open", |outcome| outcome.as_str());
            format!(
                "{}-{} {outcome}: {} → {}",
                turn.seq_from,
                turn.seq_to,
                turn.prompt.as_deref().unwrap_or("-"),
                turn.answer.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    expected.assert_eq(&told.join("\n"));
}

#[test]
fn a_prompt_belongs_to_the_turn_behind_it() {
    let mut log = Log::new();
    log.prompt("first");
    log.add("turn.started", json!({"agent_id": "a"})).draft.turn_id = Some("t1".into());
    let call_id = log.call("edit", json!({"path": "a.rs"}));
    log.fail(&call_id, "no");
    log.say("m2", "done");
    log.end("completed");
    log.prompt("second");
    log.add("turn.started", json!({"agent_id": "a"}));
    log.add("turn.completed", json!({"agent_id": "a", "error": "rock"}));
    log.prompt("third");
    check(
        &log,
        expect![[r#"
        1-6 done: first → done
        7-9 failed: second → -
        10-10 open: third → -"#]],
    );
    let first = &turns(&log)[0];
    assert_eq!((first.id.as_str(), first.errors), ("t1", 1));
    assert_eq!((first.tools["edit"].calls, first.tools["edit"].failures), (1, 1));
}

#[test]
fn a_stream_holds_the_last_turns_only() {
    let mut log = Log::new();
    for number in 0..300 {
        let id = Some(format!("t{number}"));
        log.prompt("go").draft.turn_id.clone_from(&id);
        log.add("turn.completed", json!({"agent_id": "a"})).draft.turn_id = id;
        if number == 290 {
            // A result of background work, nine turns late.
            log.fail("c", "no").draft.turn_id = Some("t281".to_owned());
        }
    }
    let mut folded = Turns::default();
    log.events.iter().for_each(|event| folded.apply(event));
    let folded = folded.finish();
    assert_eq!((folded.len(), folded[281].errors), (300, 1));
    let read = std::cell::Cell::new(0);
    let events = log.events.iter().cloned().map(|event| {
        read.set(event.seq);
        Ok::<_, ()>(event)
    });
    let mut held = Vec::new();
    let streamed = Turns::stream(events).map(|turn| {
        let turn = turn.unwrap();
        held.push(read.get() - turn.seq_to);
        turn
    });
    assert_eq!(streamed.collect::<Vec<Turn>>(), folded);
    let held_max = held.into_iter().max().unwrap();
    assert!(held_max < 150, "{held_max} events were read before a turn was handed on");
}

#[test]
fn a_log_without_turns_has_them_by_its_prompts() {
    let mut log = Log::new();
    log.prompt("a");
    log.say("m1", "b");
    log.prompt("c");
    log.prompt("d");
    log.say("m2", "e");
    check(
        &log,
        expect![[r#"
        1-2 done: a → b
        3-3 replaced: c → -
        4-5 open: d → e"#]],
    );
}

#[test]
fn a_log_may_begin_in_the_middle_of_a_turn() {
    let mut log = Log::new();
    log.result("c1", "ok");
    log.say("m1", "b");
    log.end("completed");
    log.add("note", json!({"text": "x"}));
    log.end("completed");
    check(&log, expect!["1-3 done: - → b"]);
}

#[test]
fn each_end_has_its_outcome() {
    let mut log = Log::new();
    for stop_reason in ["completed", "interrupted", "died", "max_turns_hit"] {
        log.prompt(stop_reason);
        log.end(stop_reason);
    }
    log.prompt("exit in the middle");
    log.call("Bash", json!({}));
    log.add("session.exited", json!({}));
    log.prompt("exit behind the answer");
    log.say("m1", "bye");
    log.add("session.exited", json!({}));
    log.prompt("fatal");
    log.add("error", json!({"message": "no", "recoverable": false}));
    log.prompt("still open");
    check(
        &log,
        expect![[r#"
        1-2 done: completed → -
        3-4 interrupted: interrupted → -
        5-6 died: died → -
        7-8 done: max_turns_hit → -
        9-11 died: exit in the middle → -
        12-14 done: exit behind the answer → bye
        15-16 failed: fatal → -
        17-17 open: still open → -"#]],
    );
}

#[test]
fn queued_prompts_belong_to_the_running_turn() {
    let mut log = Log::new();
    log.prompt("go");
    log.use_tool("Bash", json!({"command": "ls"}));
    log.queued("and this");
    log.say("m1", "both done");
    log.end("completed");
    log.queued("alone");
    check(
        &log,
        expect![[r#"
        1-6 done: go → both done
        7-7 open: alone → -"#]],
    );
    assert_eq!(turns(&log)[0].queued, ["and this"]);
}

#[test]
fn children_notes_and_summaries_start_no_turn() {
    let mut log = Log::new();
    log.prompt("go");
    log.say("m1", "done");
    log.end("completed");
    log.add("child.requested", json!({"child_id": "c", "child_session_id": "s", "task": "dig"}));
    log.add("note", json!({"text": "/model"}));
    log.add("compaction", json!({"strategy": "captured"}));
    log.add("context.added", json!({"content": "a summary"}));
    check(&log, expect!["1-3 done: go → done"]);
}

#[test]
fn an_agent_that_goes_on_by_itself_has_a_turn() {
    let mut log = Log::new();
    log.prompt("go");
    log.end("completed");
    log.add("context.added", json!({"content": "the build is done"}));
    log.say("m2", "It failed.");
    check(
        &log,
        expect![[r#"
        1-2 done: go → -
        4-4 open: - → It failed."#]],
    );
}

#[test]
fn another_turn_id_is_another_turn() {
    let mut log = Log::new();
    let is_of = |log: &mut Log, turn_id: &str| {
        log.events.last_mut().unwrap().draft.turn_id = Some(turn_id.to_owned());
    };
    log.prompt("go");
    is_of(&mut log, "t1");
    log.say("m1", "It runs.");
    is_of(&mut log, "t1");
    log.add("context.added", json!({"content": "the build is done"}));
    is_of(&mut log, "t2");
    log.say("m2", "It failed.");
    is_of(&mut log, "t2");
    log.say("m3", "Something from before.");
    is_of(&mut log, "t1");
    log.add("context.added", json!({"content": "rules"}));
    is_of(&mut log, "t3");
    log.prompt("try again");
    is_of(&mut log, "t3");
    check(
        &log,
        expect![[r#"
        1-2 done: go → It runs.
        3-5 done: - → Something from before.
        6-7 open: try again → -"#]],
    );
    let ids: Vec<String> = turns(&log).into_iter().map(|turn| turn.id).collect();
    assert_eq!(ids, ["t1", "t2", "t3"]);
}

#[test]
fn what_a_turn_left_running_begins_no_new_one() {
    let mut log = Log::new();
    let is_of = |log: &mut Log, turn_id: &str| {
        log.events.last_mut().unwrap().draft.turn_id = Some(turn_id.to_owned());
    };
    log.prompt("run it");
    is_of(&mut log, "t1");
    log.end("interrupted");
    is_of(&mut log, "t1");
    log.prompt("go on");
    is_of(&mut log, "t2");
    log.say("m1", "Done.");
    is_of(&mut log, "t2");
    log.end("completed");
    is_of(&mut log, "t2");
    let call = log.call("Bash", json!({"command": "sleep 60"}));
    is_of(&mut log, "t1");
    log.fail(&call, "killed");
    is_of(&mut log, "t1");
    check(
        &log,
        expect![[r#"
        1-2 interrupted: run it → -
        3-5 done: go on → Done."#]],
    );
    let turns = turns(&log);
    assert_eq!((turns[0].tools["Bash"].failures, turns[0].errors), (1, 1));
    assert!(turns[0].completed_at.is_some() && turns[1].tools.is_empty());
}

#[test]
fn files_and_tools_of_every_agent_are_told() {
    let mut log = Log::new();
    log.prompt("go");
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-x\n+y\n*** Add File: src/b.rs\n+z\n*** End Patch";
    log.use_tool("Read", json!({"file_path": "claude.rs"}));
    log.use_tool("NotebookEdit", json!({"notebook_path": "n.ipynb"}));
    log.use_tool("apply_patch", json!(patch));
    log.use_tool(
        "exec",
        json!(format!(
            "const r = await tools.apply_patch({});",
            json!(patch.replace("src/", "lib/"))
        )),
    );
    log.use_tool("shell", json!({"command": ["apply_patch", patch]}));
    log.use_tool("replace", json!({"file_path": "gemini.rs"}));
    log.use_tool("read", json!({"filePath": "opencode.rs"}));
    log.use_tool("view", json!({"path": "copilot.rs"}));
    log.use_tool("edit_file", json!({"target_file": "cursor.rs"}));
    log.use_tool("developer__text_editor", json!({"command": "view", "path": "goose.rs"}));
    log.use_tool("developer__text_editor", json!({"command": "write", "path": "goose.md"}));
    log.use_tool("write_file", json!({"file_path": "qwen.rs"}));
    log.use_tool("read_many_files", json!({"paths": ["p.rs", "q.rs"]}));
    log.use_tool("delete_file", json!({"target_file": "gone.rs"}));
    log.use_tool("Grep", json!({"pattern": "x", "path": "src"}));
    log.use_tool("read", json!("{\"path\": \"pi.rs\"}"));
    let turn = &turns(&log)[0];
    expect!["claude.rs opencode.rs copilot.rs goose.rs p.rs q.rs pi.rs"]
        .assert_eq(&turn.read_files.join(" "));
    expect![
        "n.ipynb src/a.rs src/b.rs lib/a.rs lib/b.rs gemini.rs cursor.rs goose.md qwen.rs gone.rs"
    ]
    .assert_eq(&turn.modified_files.join(" "));
}

#[test]
fn a_file_that_could_not_be_written_is_not_modified() {
    let mut log = Log::new();
    log.prompt("go");
    let mut edit = |path: &str, outcomes: &[&str]| {
        for outcome in outcomes {
            let call = log.call("Edit", json!({"file_path": path}));
            log.result(&call, outcome);
        }
    };
    edit("never.rs", &["error", "error"]);
    edit("later.rs", &["error", "ok"]);
    edit("once.rs", &["ok", "error"]);
    let both = [(); 2].map(|()| log.call("Edit", json!({"file_path": "twice.rs"})));
    log.result(&both[0], "error");
    log.result(&both[1], "ok");
    log.call("Edit", json!({"file_path": "open.rs"}));
    let turn = &turns(&log)[0];
    assert_eq!(turn.modified_files, ["later.rs", "once.rs", "twice.rs", "open.rs"]);
    assert_eq!(turn.failed_files, ["never.rs"]);
}

#[test]
fn waiting_for_a_person_is_measured() {
    let mut log = Log::new();
    log.prompt("go");
    log.add("approval.requested", json!({"approval_id": "a1", "tool": "Bash"}));
    log.at = "2026-11-16T08:00:11Z".parse().unwrap();
    log.add("approval.resolved", json!({"approval_id": "a1", "decision": "deny"}));
    log.add("approval.requested", json!({"approval_id": "a2", "tool": "Bash"}));
    log.add("approval.canceled", json!({"approval_id": "a2", "reason": "exit"}));
    log.add("external.input", json!({"request_id": "q", "prompt": "which?", "status": "pending"}));
    log.add("external.input", json!({"request_id": "q", "status": "received"}));
    let turn = &turns(&log)[0];
    assert_eq!((turn.approval_count, turn.waited_ms), (2, 12_000));
    let allowed: Vec<_> = turn.approvals.iter().map(|asked| asked.is_allowed).collect();
    assert_eq!(allowed, [Some(false), None]);
}

#[test]
fn a_mended_history_is_no_failure() {
    let mut log = Log::new();
    log.prompt("go");
    let call_id = log.call("Bash", json!({}));
    log.add("tool.result", json!({"call_id": call_id, "outcome": "lost", "repair": true}));
    let turn = &turns(&log)[0];
    assert_eq!((turn.errors, turn.tools["Bash"].failures), (0, 0));
}

#[test]
fn use_is_told_by_turn() {
    let mut log = Log::new();
    inherited(log.prompt("elsewhere"));
    inherited(log.step("opus", 100, 100));
    inherited(log.end("completed"));
    log.prompt("go");
    let first = log.step("opus", 1, 1).id;
    amends(log.step("opus", 1, 5), first);
    log.end("completed");
    log.step("opus", 10, 10);
    let turns = turns(&log);
    assert_eq!(turns[0].used.tokens.requests, 0);
    let tokens = turns[1].used.tokens;
    assert_eq!((tokens.requests, tokens.input, tokens.output), (2, 11, 15));
}

#[test]
fn a_fuller_account_stands_in_for_the_first() {
    let mut log = Log::new();
    let prompt = log.prompt("Fix th").id;
    amends(log.prompt("Fix the parser"), prompt);
    log.say("m1", "done");
    check(&log, expect!["1-3 open: Fix the parser → done"]);
}

#[test]
fn an_answer_is_kept_short() {
    let mut log = Log::new();
    log.say("m1", &"größer ".repeat(1_000));
    let answer = turns(&log).remove(0).answer.unwrap();
    assert!(answer.chars().count() <= 2_000 && answer.ends_with("größer…"), "{answer}");
}
