//! The effective history, case by case.

mod paths; // what changes the beginning of a history

use std::cell::Cell;

use event::payload::{
    AssistantThinking, Compaction, Content, ContentPart, ContextAdded, ContextKind, Covers,
    Outcome, Placement, SavedEntry, Snapshot, ToolCall, ToolResult,
};
use event::{Event, EventId, Kind, Raw};
use expect_test::{Expect, expect};
use journal::ReadError;
use session::builder::{Mode, ViewBuilder};
use session::view::{EventLog, Role, SavedView, View, ViewError, ViewOptions};

use crate::log::{TestLog, id_at, result, shown};

#[track_caller]
fn check(write: impl FnOnce(&mut TestLog), expected: Expect) {
    let mut log = TestLog::new();
    write(&mut log);
    expected.assert_eq(&shown(&log));
}

fn strict(log: &TestLog) -> Result<(), ViewError> {
    ViewBuilder { mode: Mode::Strict, files_max: 0 }.build(&log.events).map(drop)
}

fn summary(text: &str) -> SavedEntry {
    SavedEntry {
        role: Some("user".to_owned()),
        context_kind: Some(ContextKind::Summary),
        content: Some(Content::text(text)),
        ..SavedEntry::default()
    }
}

fn at(seq: u64) -> SavedEntry {
    SavedEntry { seq: Some(seq), ..SavedEntry::default() }
}

fn compaction(cutoff_seq: u64, entries: Vec<SavedEntry>) -> Compaction {
    let cutoff_event_id = Some(id_at(cutoff_seq));
    Compaction { cutoff_seq, cutoff_event_id, entries, ..Compaction::default() }
}

fn snapshot(base_seq: Option<u64>, cutoff_seq: u64, entries: Vec<SavedEntry>) -> Snapshot {
    Snapshot { base_seq, cutoff_seq, entries, ..Snapshot::default() }
}

fn files(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn bootstrap_context_stands_before_the_prompt() {
    check(
        |log| {
            log.prompt("hello");
            log.context(ContextKind::Bootstrap, "you are in /home/dev");
        },
        expect![[r#"
            2 user (bootstrap, prefix) "you are in /home/dev"
            1 user "hello"
        "#]],
    );
}

#[test]
fn harness_context_is_marked_and_a_prompt_is_not() {
    check(
        |log| {
            log.context(ContextKind::Harness, "rules");
            log.prompt("hello");
        },
        expect![[r#"
            1 user (harness, prefix) "rules"
            2 user "hello"
        "#]],
    );
}

#[test]
fn a_higher_rank_is_shown_as_user() {
    check(
        |log| {
            log.context(ContextKind::Harness, "rules");
            log.last()
                .metadata
                .insert("original_role".to_owned(), Raw::from_value(&"system").unwrap());
        },
        expect![[r#"
            1 user (harness, prefix) "rules"
        "#]],
    );
}

#[test]
fn an_explicit_placement_wins() {
    check(
        |log| {
            log.prompt("first");
            log.context_placed(ContextKind::Generic, Some(Placement::Prefix), "context");
            log.prompt("second");
            log.context_placed(ContextKind::Bootstrap, Some(Placement::History), "late");
        },
        expect![[r#"
            2 user (generic, prefix) "context"
            1 user "first"
            3 user "second"
            4 user (bootstrap, history) "late"
        "#]],
    );
}

#[test]
fn working_set_follows_the_base_prefix() {
    check(
        |log| {
            log.context(ContextKind::Bootstrap, "bootstrap");
            log.prompt("hello");
            log.add(&Compaction {
                read_files: files(&["src/lib.rs"]),
                ..compaction(2, vec![at(1), at(2)])
            });
            log.context(ContextKind::Bootstrap, "added later");
        },
        expect![[r#"
            base 3
            1 user (bootstrap, prefix) "bootstrap"
            - user (working_set, prefix) "<working_set>\nRead-only files:\n- src/lib.rs\n</working_set>"
            4 user (bootstrap, prefix) "added later"
            2 user "hello"
        "#]],
    );
}

#[test]
fn answers_and_their_result_stand_in_log_order() {
    check(
        |log| {
            log.thinking("m1", 0, "plain");
            log.add(&AssistantThinking {
                message_id: "m2".to_owned(),
                signature: Some("signed".to_owned()),
                ..AssistantThinking::default()
            });
            log.call("m3", 0, "a");
            log.result("a", "done");
        },
        expect![[r#"
            1 assistant <plain>
            2 assistant <>
            3 assistant -> a
            4 tool [a run {}] "done"
        "#]],
    );
}

#[test]
fn empty_entries_are_left_out() {
    check(
        |log| {
            log.prompt("hello");
            log.message("m1", 0, " \n\t ");
            log.raw(Kind::Unknown, r#"{"raw":{"content":"no role"}}"#);
            log.context(ContextKind::Generic, "");
        },
        expect![[r#"
            1 user "hello"
            ! 2 empty
            ! 3 unknown record
            ! 4 empty
        "#]],
    );
}

#[test]
fn only_the_right_result_stays() {
    check(
        |log| {
            log.result("a", "orphan");
            log.call("m1", 0, "a");
            log.result("b", "wrong id");
            log.result("a", "right");
            log.result("a", "second");
        },
        expect![[r#"
            2 assistant -> a
            4 tool [a run {}] "right"
            ! 1 result without a call
            ! 3 result without a call
            ! 5 second result
        "#]],
    );
}

#[test]
fn a_late_result_comes_too_late() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.prompt("never mind");
            log.result("a", "late");
        },
        expect![[r#"
            2 user "never mind"
            ! 1 call without a result
            ! 3 result without a call
        "#]],
    );
}

#[test]
fn an_open_call_is_not_shown() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.prompt("hello");
            log.message("m2", 0, "I will look");
            log.call("m2", 1, "b");
        },
        expect![[r#"
            2 user "hello"
            3 assistant "I will look"
            ! 1 call without a result
            ! 4 call without a result
        "#]],
    );
}

#[test]
fn a_result_has_the_data_of_its_call_and_start() {
    check(
        |log| {
            log.call_tool("m1", 0, "a", "run", r#"{"cmd":"ls"}"#);
            log.started("a", "key");
            log.result("a", "files");
        },
        expect![[r#"
            1 assistant -> a
            3 tool [a run {"cmd":"ls"} key=key] "files"
        "#]],
    );
}

#[test]
fn an_error_is_said_once() {
    check(
        |log| {
            let failed = |call_id, output| ToolResult {
                outcome: Outcome::Error,
                error: Some("no such file".to_owned()),
                ..result(call_id, output)
            };
            log.call("m1", 0, "a");
            log.call("m1", 1, "b");
            log.call("m1", 2, "c");
            log.add(&failed("a", "output"));
            log.add(&failed("b", "ls: no such file"));
            log.add(&ToolResult { output: None, ..failed("c", "") });
        },
        expect![[r#"
            1 assistant -> a -> b -> c
            4 tool [a run {} failed] "output\nError: no such file"
            5 tool [b run {} failed] "ls: no such file"
            6 tool [c run {} failed] "Error: no such file"
        "#]],
    );
}

#[test]
fn shown_text_replaces_the_output() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.add(&ToolResult { shown: Some("short".to_owned()), ..result("a", "very long") });
        },
        expect![[r#"
            1 assistant -> a
            2 tool [a run {}] "short"
        "#]],
    );
}

#[test]
fn an_image_of_a_result_is_kept() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.add(&ToolResult {
                parts: vec![ContentPart {
                    kind: "image".to_owned(),
                    artifact: Some("art".to_owned()),
                    ..ContentPart::default()
                }],
                ..result("a", "a picture")
            });
        },
        expect![[r#"
            1 assistant -> a
            2 tool [a run {}] "a picture" image
        "#]],
    );
}

#[test]
fn a_recovered_result_stands_at_its_call() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.started("a", "key");
            log.fact();
            log.add(&ToolResult {
                outcome: Outcome::Lost,
                error: Some("interrupted".to_owned()),
                ..result("a", "partial")
            });
            log.prompt("go on");
        },
        expect![[r#"
            1 assistant -> a
            4 tool [a run {} key=key failed] "partial\nError: interrupted"
            5 user "go on"
        "#]],
    );
}

#[test]
fn empty_answers_of_the_base_and_behind_it_are_left_out() {
    check(
        |log| {
            log.message("m1", 0, "");
            log.message("m2", 0, "kept");
            log.add(&compaction(2, vec![summary("summary"), at(1), at(2)]));
            log.message("m3", 0, " ");
            log.prompt("after");
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            2 assistant "kept"
            5 user "after"
            ! 1 empty
            ! 4 empty
        "#]],
    );
}

#[test]
fn blank_fields_of_a_result_are_filled() {
    check(
        |log| {
            log.call_tool("m1", 0, "a", "", r#"{"path":"x"}"#);
            log.add(&ToolResult {
                tool: Some("read".to_owned()),
                idempotency_key: Some("from the result".to_owned()),
                ..result("a", "text")
            });
        },
        expect![[r#"
            1 assistant -> a
            2 tool [a read {"path":"x"} key=from the result] "text"
        "#]],
    );
}

#[test]
fn the_working_set_names_each_file_once() {
    check(
        |log| {
            log.prompt("old");
            log.prompt("recent");
            log.add(&Compaction {
                read_files: files(&["a", "c", "a"]),
                modified_files: files(&["b", "c"]),
                ..compaction(1, vec![summary("summary")])
            });
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            - user (working_set, prefix) "<working_set>\nModified files:\n- b\n- c\nRead-only files:\n- a\n</working_set>"
            2 user "recent"
        "#]],
    );
}

#[test]
fn the_newest_five_files_are_named_in_alphabetical_order() {
    check(
        |log| {
            log.prompt("old");
            log.add(&Compaction {
                modified_files: files(&["z", "y", "g", "f", "e", "d", "c"]),
                ..compaction(1, vec![summary("summary")])
            });
        },
        expect![[r#"
            base 2
            2 user (summary, prefix) "summary"
            - user (working_set, prefix) "<working_set>\nModified files:\n- c\n- d\n- e\n- f\n- g\n- … and 2 more\n</working_set>"
        "#]],
    );
}

#[test]
fn a_snapshot_with_files_is_a_base() {
    check(
        |log| {
            log.prompt("old");
            log.prompt("recent");
            log.add(&Snapshot {
                modified_files: files(&["a"]),
                ..snapshot(None, 2, vec![summary("summary"), at(2)])
            });
            log.prompt("after");
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            - user (working_set, prefix) "<working_set>\nModified files:\n- a\n</working_set>"
            2 user "recent"
            4 user "after"
        "#]],
    );
}

#[test]
fn a_cutoff_may_be_a_hidden_fact() {
    check(
        |log| {
            log.prompt("old");
            log.fact();
            log.prompt("recent");
            log.add(&compaction(2, vec![summary("summary")]));
        },
        expect![[r#"
            base 4
            4 user (summary, prefix) "summary"
            3 user "recent"
        "#]],
    );
}

#[test]
fn bare_messages_are_a_base_too() {
    check(
        |log| {
            let message = |role: &str, text: &str| SavedEntry {
                role: Some(role.to_owned()),
                content: Some(Content::text(text)),
                ..SavedEntry::default()
            };
            log.prompt("old");
            log.add(&Compaction {
                messages: vec![
                    message("developer", "summary"),
                    message("assistant", "recent"),
                    message("tool", "output of nobody"),
                    SavedEntry { role: None, ..message("", "who says so?") },
                ],
                ..compaction(1, Vec::new())
            });
            log.prompt("after");
        },
        expect![[r#"
            base 2
            2 user "summary"
            2 assistant "recent"
            3 user "after"
            ! 2 entry without a role
            ! 2 result without a call
        "#]],
    );
}

#[test]
fn an_unknown_cutoff_falls_back_to_the_base_before() {
    let mut log = TestLog::new();
    log.prompt("old");
    log.add(&compaction(1, vec![summary("summary")]));
    log.prompt("recent");
    log.add(&Compaction {
        cutoff_event_id: Some(id_at(99)),
        ..compaction(3, vec![summary("of another log")])
    });
    expect![[r#"
        base 2
        2 user (summary, prefix) "summary"
        3 user "recent"
        ! 4 cutoff not found
    "#]]
    .assert_eq(&shown(&log));
    assert!(matches!(strict(&log), Err(ViewError::CutoffNotFound { seq: 4 })));
}

#[test]
fn a_base_that_cannot_be_used_is_skipped() {
    let mut log = TestLog::new();
    log.prompt("first");
    log.add(&compaction(1, Vec::new()));
    log.add(&compaction(3, vec![summary("covers itself")]));
    log.raw(Kind::Compaction, r#"{"entries":"none"}"#);
    expect![[r#"
        1 user "first"
        ! 2 base without entries
        ! 3 cutoff not found
        ! 4 unreadable
    "#]]
    .assert_eq(&shown(&log));
    let Err(ViewError::BadPayload { seq, error }) = strict(&log) else {
        panic!("strict reading does not skip what it cannot read");
    };
    assert_eq!((seq, error.path.as_str()), (4, "entries"));
}

#[test]
fn strict_reading_names_the_event() {
    let mut log = TestLog::new();
    log.prompt("hello");
    log.raw(Kind::AssistantMessage, r#"{"message_id":"m1","content":7}"#);
    log.message("m2", 0, "");
    assert!(matches!(strict(&log), Err(ViewError::BadPayload { seq: 2, .. })));
    log.prompt_after(1, "again");
    log.message("m3", 0, " ");
    assert!(matches!(strict(&log), Err(ViewError::Empty { seq: 5 })));
    log.add(&compaction(5, vec![summary("summary")]));
    assert!(strict(&log).is_ok());
    log.add(&compaction(6, vec![summary("summary"), at(3)]));
    assert!(matches!(strict(&log), Err(ViewError::EntryNotFound { seq: 7 })));
}

#[test]
fn a_threshold_may_be_a_fraction() {
    check(
        |log| {
            log.prompt("hello");
            log.raw(
                Kind::Compaction,
                r#"{"strategy":"summarize","threshold_pct":0.6,"max_tokens":"many",
                    "cutoff_seq":1,"entries":[{"role":"user","content":"so far"}]}"#,
            );
        },
        expect![[r#"
            base 2
            2 user "so far"
        "#]],
    );
}

#[test]
fn one_bad_field_does_not_void_a_compaction() {
    let mut log = TestLog::new();
    log.prompt("hello");
    log.raw(
        Kind::Compaction,
        r#"{"strategy":7,"cutoff_seq":1,"cutoff_event_id":7,"read_files":["a.rs",7],
            "entries":[{"role":"user","content":"so far"},{"seq":"one"},7]}"#,
    );
    log.prompt("and now");
    expect![[r#"
        base 2
        - user (working_set, prefix) "<working_set>\nRead-only files:\n- a.rs\n</working_set>"
        2 user "so far"
        3 user "and now"
        ! 2 unreadable
    "#]]
    .assert_eq(&shown(&log));
    // Before a model is asked, the field is named.
    let Err(ViewError::BadPayload { seq: 2, error }) = strict(&log) else { panic!("it is bad") };
    assert_eq!(error.path, "strategy");
}

#[test]
fn a_compaction_without_a_readable_cutoff_is_skipped() {
    check(
        |log| {
            log.prompt("hello");
            log.raw(Kind::Compaction, r#"{"cutoff_seq":"one","entries":[{"content":"x"}]}"#);
        },
        expect![[r#"
            1 user "hello"
            ! 2 unreadable
        "#]],
    );
}

#[test]
fn a_compaction_shows_calls_and_results_in_full() {
    let call = |call_id: &str| ToolCall {
        call_id: call_id.to_owned(),
        tool: "read".to_owned(),
        input: Raw::parse(r#"{"path":"a.rs"}"#).unwrap(),
        ..ToolCall::default()
    };
    let answer = SavedEntry {
        role: Some("assistant".to_owned()),
        event_id: Some(id_at(2)),
        content: Some(Content::text("I look")),
        thinking: vec![AssistantThinking { thinking: "hm".to_owned(), ..Default::default() }],
        calls: vec![call("a"), call("b")],
        ..SavedEntry::default()
    };
    let given = |call_id: &str, text: Option<&str>| SavedEntry {
        role: Some("tool".to_owned()),
        content: text.map(Content::text),
        result: Some(result(call_id, "the whole file")),
        ..SavedEntry::default()
    };
    check(
        |log| {
            log.prompt("hello");
            log.message("m1", 0, "old answer");
            let results = [given("a", Some("short")), given("x", None), given("a", None)];
            log.add(&compaction(2, [vec![answer], results.to_vec()].concat()));
            log.prompt("and now");
        },
        expect![[r#"
            base 3
            2 assistant <hm> "I look" -> a
            3 tool [a read {"path":"a.rs"}] "short"
            4 user "and now"
            ! 3 call without a result
            ! 3 result without a call
            ! 3 result without a call
        "#]],
    );
}

#[test]
fn an_entry_in_full_comes_from_no_later_event() {
    let later = SavedEntry {
        role: Some("assistant".to_owned()),
        event_id: Some(id_at(3)),
        content: Some(Content::text("so far")),
        ..SavedEntry::default()
    };
    check(
        |log| {
            log.prompt("hello");
            log.add(&compaction(1, vec![later]));
            log.prompt("and now");
        },
        expect![[r#"
            base 2
            2 assistant "so far"
            3 user "and now"
        "#]],
    );
}

#[test]
fn a_call_id_used_again_is_another_call() {
    check(
        |log| {
            log.call_tool("m1", 0, "a", "first", "1");
            log.result("a", "one");
            log.call_tool("m2", 0, "a", "second", "2");
            log.result("a", "two");
            log.prompt("and now");
            log.call_tool("m3", 0, "a", "third", "3");
            log.call_tool("m4", 0, "a", "fourth", "4");
            log.result("a", "four");
        },
        expect![[r#"
            1 assistant -> a
            2 tool [a first 1] "one"
            3 assistant -> a
            4 tool [a second 2] "two"
            5 user "and now"
            7 assistant -> a
            8 tool [a fourth 4] "four"
            ! 6 call without a result
        "#]],
    );
}

#[test]
fn repeated_call_ids_pair_in_order() {
    check(
        |log| {
            log.call_tool("m1", 0, "a", "first", "1");
            log.call_tool("m1", 1, "a", "second", "2");
            log.result("a", "one");
            log.result("a", "two");
        },
        expect![[r#"
            1 assistant -> a -> a
            3 tool [a first 1] "one"
            4 tool [a second 2] "two"
        "#]],
    );
}

#[test]
fn interleaved_calls_and_results_are_one_answer() {
    check(
        |log| {
            log.thinking("m1", 0, "hm");
            log.call("m1", 2, "b");
            log.result("b", "two");
            log.call("m1", 1, "a");
            log.result("a", "one");
        },
        expect![[r#"
            1 assistant <hm> -> a -> b
            5 tool [a run {}] "one"
            3 tool [b run {}] "two"
        "#]],
    );
}

#[test]
fn a_late_part_stands_with_its_answer() {
    check(
        |log| {
            log.message("m1", 0, "one");
            log.prompt("wait");
            log.message("m1", 1, "two");
            log.call("m1", 2, "a");
            log.result("a", "done");
        },
        expect![[r#"
            1 assistant "one" "two" -> a
            5 tool [a run {}] "done"
            2 user "wait"
            ! 3 late part of an answer
            ! 4 late part of an answer
        "#]],
    );
}

#[test]
fn parts_without_id_join_until_a_result() {
    check(
        |log| {
            log.thinking("", 0, "hm");
            log.call("", 0, "a");
            log.call("", 0, "b");
            log.result("b", "two");
            log.result("a", "one");
            log.message("", 0, "done");
        },
        expect![[r#"
            1 assistant <hm> -> a -> b
            5 tool [a run {}] "one"
            4 tool [b run {}] "two"
            6 assistant "done"
        "#]],
    );
}
