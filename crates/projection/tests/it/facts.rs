//! What a list of sessions shows of one.

use event::{Event, Raw};
use expect_test::{Expect, expect};
use projection::{Basis, Facts, Projection};
use serde_json::json;

use crate::given::{Log, amends, inherited};

fn folded(events: &[Event]) -> Facts {
    let mut facts = Facts::default();
    events.iter().for_each(|event| facts.apply(event));
    facts
}

#[track_caller]
fn check(log: &Log, expected: Expect) {
    let facts = folded(&log.events);
    let counts = facts.counts();
    let mut lines = vec![format!(
        "prompts {} queued {} responses {} calls {} results {} compactions {} events {} unknown {}",
        counts.prompts,
        counts.queued,
        counts.responses,
        counts.tool_calls,
        counts.tool_results,
        counts.compactions,
        counts.events,
        counts.unknown,
    )];
    lines.extend(facts.usage().rows().map(|row| {
        let tokens = row.used.tokens;
        let model = row.key.model.as_deref().unwrap_or("-");
        let cwd = row.key.cwd.as_deref().unwrap_or("-");
        format!(
            "{} {model} {cwd}: {} requests, {} in, {} out, ${}",
            projection::Day::from_time(row.key.quarter.begin()),
            tokens.requests,
            tokens.input,
            tokens.output,
            row.used.told_cost
        )
    }));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_session_is_counted() {
    let mut log = Log::started();
    log.add("context.added", json!({"content": "rules"}));
    log.prompt("Fix the parser");
    log.add("assistant.thinking", json!({"message_id": "m1", "block": 0, "thinking": "hm"}));
    log.add("assistant.message", json!({"message_id": "m1", "block": 1, "content": "I look."}));
    log.use_tool("Read", json!({"file_path": "a.rs"}));
    log.step("opus", 10, 5);
    log.queued("and the lexer");
    log.say("m3", "Done.");
    log.step("opus", 20, 7);
    log.add("compaction", json!({"strategy": "captured"}));
    log.add("epoch.closed", json!({"epoch": 0, "cause": "compaction"}));
    log.add("unknown", json!({"raw": {}, "record_type": "new-thing"}));
    check(
        &log,
        expect![[r#"
        prompts 1 queued 1 responses 3 calls 1 results 1 compactions 1 events 14 unknown 1
        2026-11-16 opus /home/dev/app: 2 requests, 30 in, 12 out, $0"#]],
    );
}

#[test]
fn reasoning_and_calls_without_a_message_are_no_responses() {
    let mut log = Log::new();
    log.add("assistant.thinking", json!({"thinking": "hm"}));
    log.add("tool.call", json!({"call_id": "c1", "tool": "exec", "input": "ls"}));
    log.say("m1", "done");
    assert_eq!(folded(&log.events).counts().responses, 1);
}

#[test]
fn what_a_fork_inherits_is_not_counted() {
    let mut log = Log::started();
    inherited(log.prompt("Port it to Windows"));
    inherited(log.say("m1", "ok"));
    inherited(log.step("opus", 10, 10));
    let step = log.events.last().unwrap().id;
    log.prompt("other way");
    amends(log.step("opus", 99, 99), step);
    log.step("opus", 1, 1);
    check(
        &log,
        expect![[r#"
        prompts 1 queued 0 responses 0 calls 0 results 0 compactions 0 events 3 unknown 0
        2026-11-16 opus /home/dev/app: 1 requests, 1 in, 1 out, $0"#]],
    );
    assert_eq!(folded(&log.events).title(), Some("Port it to Windows"));
}

#[test]
fn a_fuller_account_of_a_request_takes_its_place() {
    let mut log = Log::started();
    let first = log.step("opus", 10, 1).id;
    log.step("opus", 100, 100);
    amends(log.step("opus", 10, 8), first);
    let second = log.events.last().unwrap().id;
    amends(log.step("opus", 10, 9), second);
    amends(log.step("opus", 10, 10), first);
    check(
        &log,
        expect![[r#"
        prompts 0 queued 0 responses 0 calls 0 results 0 compactions 0 events 3 unknown 0
        2026-11-16 opus /home/dev/app: 2 requests, 110 in, 110 out, $0"#]],
    );
    assert_eq!(folded(&log.events).tokens_basis(), Basis::Exact);
}

#[test]
fn a_fuller_account_that_comes_too_late_makes_the_sum_incomplete() {
    let mut log = Log::started();
    let first = log.step("opus", 10, 1).id;
    for _ in 0..100 {
        log.step("opus", 1, 1);
    }
    amends(log.step("opus", 10, 8), first);
    let facts = folded(&log.events);
    assert_eq!(facts.usage().total().tokens.requests, 101);
    assert_eq!(facts.tokens_basis(), Basis::Incomplete);
}

#[test]
fn a_fuller_account_of_anything_is_not_counted_again() {
    let mut log = Log::started();
    let prompt = log.prompt("go").id;
    amends(log.prompt("go and see"), prompt);
    let call_id = log.call("Bash", json!({}));
    let result = log.result(&call_id, "ok").id;
    amends(log.result(&call_id, "ok"), result);
    check(
        &log,
        expect![[r#"
        prompts 1 queued 0 responses 1 calls 1 results 1 compactions 0 events 4 unknown 0"#]],
    );
}

#[test]
fn a_torn_record_counts_until_it_is_mended() {
    let mut log = Log::started();
    let torn = log.add("unknown", json!({"raw": null, "error": "torn"})).id;
    assert_eq!(folded(&log.events).counts().unknown, 1);
    assert_eq!(folded(&log.events).unknown(), []);
    amends(log.say("m1", "the whole of it"), torn);
    let counts = *folded(&log.events).counts();
    assert_eq!((counts.unknown, counts.responses, counts.events), (0, 1, 2));
}

#[test]
fn a_record_that_is_understood_later_is_no_longer_unknown() {
    let mut log = Log::started();
    let unknown = log.add("unknown", json!({"raw": {}, "record_type": "news"})).id;
    log.add("unknown", json!({"raw": {}, "record_type": "news"}));
    let said = log.say("m1", "what it says");
    said.draft.metadata.insert(event::UNDERSTOOD.to_owned(), Raw::from_value("news").unwrap());
    amends(said, unknown);
    let facts = folded(&log.events);
    assert_eq!((facts.counts().unknown, facts.counts().responses), (1, 1));
    let counted: Vec<u64> = facts.unknown().iter().map(|known| known.count).collect();
    assert_eq!(counted, [1]);
}

#[test]
fn use_is_kept_by_day_model_and_folder() {
    let mut log = Log::started();
    log.step("opus", 1, 1);
    log.step("haiku", 2, 2);
    log.add("settings.changed", json!({"cwd": "/home/dev/lib"}));
    log.step("opus", 3, 3);
    log.at = "2026-11-17T00:00:00Z".parse().unwrap();
    log.step("opus", 4, 4);
    log.add("step.completed", json!({"usage": {"input_tokens": 5, "cost": 0.25}}));
    log.add("note", json!({"text": "a bill"})).draft.cost = Some("1".parse().unwrap());
    check(
        &log,
        expect![[r#"
        prompts 0 queued 0 responses 0 calls 0 results 0 compactions 0 events 8 unknown 0
        2026-11-16 opus /home/dev/app: 1 requests, 1 in, 1 out, $0
        2026-11-16 haiku /home/dev/app: 1 requests, 2 in, 2 out, $0
        2026-11-16 opus /home/dev/lib: 1 requests, 3 in, 3 out, $0
        2026-11-17 opus /home/dev/lib: 2 requests, 9 in, 4 out, $1.25"#]],
    );
}

#[test]
fn failed_request_without_usage_counts_nothing() {
    let mut log = Log::started();
    log.add("step.completed", json!({"model": "opus", "error": "overloaded"}));
    assert_eq!(folded(&log.events).usage().total().tokens.requests, 0);
    assert_eq!(folded(&log.events).tokens_basis(), Basis::Exact);
    log.add("step.completed", json!({"model": "opus"}));
    assert_eq!(folded(&log.events).usage().total().tokens.requests, 1);
    assert_eq!(folded(&log.events).tokens_basis(), Basis::Incomplete);
}

#[test]
fn answers_without_any_request_are_incomplete() {
    let mut log = Log::started();
    log.say("m1", "hi");
    assert_eq!(folded(&log.events).tokens_basis(), Basis::Incomplete);
}

#[test]
fn names_are_as_they_were_told_last() {
    let mut log = Log::new();
    log.add(
        "session.started",
        json!({"agent": "claude", "agent_version": "2.1", "cwd": "/home/dev/app", "branch": "main",
            "entry_point": "cli", "model": "opus"}),
    );
    log.add("settings.changed", json!({"branch": "fix", "cwd": "/home/dev/lib", "model": "haiku"}));
    log.add("settings.changed", json!({"branch": "main", "permission_mode": "plan"}));
    log.step("sonnet", 1, 1);
    let facts = folded(&log.events);
    let about = facts.about();
    assert_eq!(about.branch.as_deref(), Some("main"));
    assert_eq!(about.branches, ["main", "fix"]);
    assert_eq!(about.cwds, ["/home/dev/app", "/home/dev/lib"]);
    assert_eq!(
        (about.model.as_deref(), about.entry_point.as_deref()),
        (Some("haiku"), Some("cli"))
    );
    assert_eq!(about.agent_version.as_deref(), Some("2.1"));
}

#[test]
fn unknown_records_are_counted_by_version_and_type() {
    let mut log = Log::started();
    for version in ["2.1", "2.2"] {
        log.add("settings.changed", json!({"agent_version": version}));
        for record_type in ["a", "b", "a"] {
            log.add("unknown", json!({"raw": {}, "record_type": record_type}));
        }
    }
    let facts = folded(&log.events);
    let told: Vec<_> = facts
        .unknown()
        .iter()
        .map(|unknown| {
            let name = |name: &Option<String>| name.clone().unwrap();
            (name(&unknown.agent_version), name(&unknown.record_type), unknown.count)
        })
        .collect();
    let told: Vec<_> = told.iter().map(|(v, t, n)| (v.as_str(), t.as_str(), *n)).collect();
    assert_eq!(told, [("2.1", "a", 2), ("2.1", "b", 1), ("2.2", "a", 2), ("2.2", "b", 1)]);
}

#[test]
fn title_comes_from_first_meaningful_prompt() {
    let title = |prompts: &[&str]| {
        let mut log = Log::started();
        for prompt in prompts {
            log.prompt(prompt);
        }
        folded(&log.events).title().map(str::to_owned)
    };
    assert_eq!(title(&[]), None);
    assert_eq!(title(&["hi"]).as_deref(), Some("hi"));
    assert_eq!(title(&["Hi!", "Fix the parser. It hangs."]).as_deref(), Some("Fix the parser"));
    assert_eq!(
        title(&["# Task\n\nwrite a very long story about ten brave little words and more"])
            .as_deref(),
        Some("Task")
    );
    assert_eq!(
        title(&["write a very long story about ten brave little words and more"]).as_deref(),
        Some("write a very long story about ten brave little words…")
    );
    assert_eq!(title(&["修复解析器"]).as_deref(), Some("修复解析器"));
    assert_eq!(title(&["<div> is not closed"]).as_deref(), Some("<div> is not closed"));
    assert_eq!(title(&["\u{1b}[31mred\u{202e} alert\u{7}"]).as_deref(), Some("[31mred alert"));
    let long = title(&["x".repeat(10_000).as_str()]).unwrap();
    assert_eq!((long.chars().count(), long.ends_with('…')), (80, true));
}

#[test]
fn a_given_title_goes_first() {
    let mut log = Log::started();
    log.prompt("Fix the parser");
    log.add("settings.changed", json!({"title": "Parser\nwork"}));
    assert_eq!(folded(&log.events).title(), Some("Parser work"));
    log.add("settings.changed", json!({"title": ""}));
    assert_eq!(folded(&log.events).title(), Some("Fix the parser"));
}

#[test]
fn a_child_is_called_by_its_task() {
    let mut log = Log::new();
    log.add("session.started", json!({"mode": "child"}));
    log.add("context.added", json!({"content": "Count the lines of notes.txt"}));
    let facts = folded(&log.events);
    assert_eq!(facts.title(), Some("Count the lines of notes.txt"));
    assert_eq!((facts.counts().prompts, facts.ending().as_str()), (0, "open"));
}

#[test]
fn epochs_are_counted_without_empty_ones() {
    let mut log = Log::started();
    assert_eq!(folded(&log.events).epochs(), 1);
    log.prompt("go");
    let close = json!({"epoch": 0, "cause": "compaction"});
    log.add("epoch.closed", close.clone());
    log.add("epoch.closed", close);
    log.step("opus", 1, 1);
    assert_eq!(folded(&log.events).epochs(), 1);
    log.prompt("on");
    assert_eq!(folded(&log.events).epochs(), 2);
}

#[test]
fn a_state_of_another_version_is_not_continued() {
    let mut log = Log::started();
    log.prompt("go");
    let saved = folded(&log.events).save().unwrap();
    assert_eq!(Facts::load(&saved), Some(folded(&log.events)));
    let older = String::from_utf8(saved).unwrap().replace("\"version\":4", "\"version\":3");
    for bytes in [older.as_bytes(), b"{}", b"garbage"] {
        assert_eq!(Facts::load(bytes), None);
    }
}

#[test]
fn an_event_is_applied_once() {
    let mut log = Log::started();
    log.prompt("go");
    let mut facts = folded(&log.events);
    log.events.iter().for_each(|event| facts.apply(event));
    assert_eq!(facts, folded(&log.events));
    assert_eq!(facts.seq(), 2);
}

#[test]
fn state_stays_small_for_any_input() {
    let mut log = Log::started();
    for number in 0..3_000 {
        log.add(
            "settings.changed",
            json!({"cwd": format!("/{number}"), "branch": format!("b{number}")}),
        );
        log.add("unknown", json!({"raw": {}, "record_type": format!("t{number}")}));
        log.call("Bash", json!({}));
        log.step("opus", 1, 1);
    }
    let facts = folded(&log.events);
    assert_eq!(facts.usage().total().tokens.requests, 3_000);
    assert_eq!(facts.unknown().iter().map(|unknown| unknown.count).sum::<u64>(), 3_000);
    assert_eq!((facts.about().cwds.len(), facts.about().branches.len()), (32, 32));
    let bytes = facts.save().unwrap().len();
    assert!(bytes < 1_000_000, "{bytes}");
}
