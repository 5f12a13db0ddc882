//! Compactions: what they keep, what they replace, what they refuse.

use event::Kind;
use event::payload::{Compaction, Content, ContextKind, Placement, ToolResult};
use expect_test::{Expect, expect};
use session::compaction::{self, CompactionOptions, CutoffError};
use session::view::{FileTools, Touch, View, ViewOptions};

use crate::log::{TestLog, id_at, result, shown};

/// A session with its view.
struct Hosted {
    log: TestLog,
    view: View,
    options: CompactionOptions,
}

impl Hosted {
    fn new(write: impl FnOnce(&mut TestLog)) -> Hosted {
        let options = CompactionOptions { keep: 1, output_max: 20, ..Default::default() };
        let view = View::new(ViewOptions::default());
        let mut hosted = Hosted { log: TestLog::new(), view, options };
        hosted.write(write);
        hosted
    }

    fn write(&mut self, write: impl FnOnce(&mut TestLog)) {
        let known = self.log.events.len();
        write(&mut self.log);
        for event in &self.log.events[known..] {
            self.view.apply(event, &self.log).unwrap();
        }
    }

    fn add(&mut self, compaction: Option<Compaction>) -> bool {
        let is_some = compaction.is_some();
        self.write(|log| {
            compaction.map(|compaction| log.add(&compaction));
        });
        is_some
    }

    fn summarize(&mut self, text: &str) -> bool {
        let built = compaction::summarize(&mut self.view, &self.log, text, &self.options).unwrap();
        self.add(built)
    }

    fn offload(&mut self) -> bool {
        let long = compaction::long_outputs(&mut self.view, &self.log, &self.options).unwrap();
        let replaced: Vec<_> = long.iter().map(|output| output.replaced_by("art1")).collect();
        let built =
            compaction::offload_outputs(&mut self.view, &self.log, &replaced, &self.options)
                .unwrap();
        self.add(built)
    }

    fn captured(&mut self, text: Option<&str>) -> bool {
        let built = compaction::captured(&mut self.view, &self.log, text, &self.options).unwrap();
        self.add(built)
    }

    /// The payload of the last event.
    fn last(&self) -> &str {
        self.log.events.last().unwrap().data.get()
    }

    #[track_caller]
    fn check(&self, expected: Expect) {
        expected.assert_eq(&shown(&self.log));
    }
}

const LONG: &str = "a long output, longer than twenty bytes";

#[test]
fn summary_replaces_all_but_newest_entries() {
    let mut hosted = Hosted::new(|log| {
        log.context(ContextKind::Bootstrap, "bootstrap");
        log.prompt("old");
        log.context(ContextKind::Generic, "other context");
        log.call_tool("m1", 0, "a", "read", r#"{"path":"src/lib.rs"}"#);
        log.result("a", "text");
        log.prompt("recent");
    });
    assert!(hosted.summarize("what happened"));
    hosted.check(expect![[r#"
        base 7
        1 user (bootstrap, prefix) "bootstrap"
        7 user (summary, prefix) "what happened"
        - user (working_set, prefix) "<working_set>\nRead-only files:\n- src/lib.rs\n</working_set>"
        3 user (generic, history) "other context"
        6 user "recent"
    "#]]);
    expect![[r#"{"strategy":"summarize","cutoff_seq":6,"cutoff_event_id":"00000005VG0000000000000006","entries":[{"seq":1},{"role":"user","context_kind":"summary","placement":"prefix","content":[{"type":"text","text":"what happened"}]},{"seq":3},{"seq":6}],"read_files":["src/lib.rs"]}"#]].assert_eq(hosted.last());
}

#[test]
fn kept_results_keep_their_answer() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("old");
        log.thinking("m1", 0, "hm");
        log.call("m1", 1, "a");
        log.started("a", "key");
        log.result("a", "done");
    });
    assert!(hosted.summarize("what happened"));
    hosted.check(expect![[r#"
        base 6
        6 user (summary, prefix) "what happened"
        2 assistant <hm> -> a
        5 tool [a run {} key=key] "done"
    "#]]);
}

#[test]
fn a_new_summary_replaces_the_one_before() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("one");
        log.call_tool("m1", 0, "a", "edit", r#"{"file_path":"a.rs"}"#);
        log.result("a", "ok");
        log.prompt("two");
    });
    assert!(hosted.summarize("first summary"));
    hosted.write(|log| {
        log.call_tool("m2", 0, "b", "write", r#""{\"path\":\"b.rs\"}""#);
        log.result("b", "ok");
        log.prompt("three");
    });
    assert!(hosted.summarize("second summary"));
    hosted.check(expect![[r#"
        base 9
        9 user (summary, prefix) "second summary"
        - user (working_set, prefix) "<working_set>\nModified files:\n- a.rs\n- b.rs\n</working_set>"
        8 user "three"
    "#]]);
}

#[test]
fn offloading_keeps_summary_and_files() {
    let mut hosted = Hosted::new(|log| {
        log.call_tool("m1", 0, "a", "read", r#"{"path":"a.rs"}"#);
        log.result("a", "text");
        log.prompt("one");
    });
    assert!(hosted.summarize("summary"));
    hosted.write(|log| {
        log.call("m2", 0, "b");
        log.result("b", LONG);
        log.prompt("two");
    });
    assert!(hosted.offload());
    hosted.check(expect![[r#"
        base 8
        4 user (summary, prefix) "summary"
        - user (working_set, prefix) "<working_set>\nRead-only files:\n- a.rs\n</working_set>"
        3 user "one"
        5 assistant -> b
        6 tool [b run {}] "[The output of `run` (39 bytes) is kept as artifact `art1`.]"
        7 user "two"
    "#]]);
    expect![[r#"{"strategy":"offload","cutoff_seq":7,"cutoff_event_id":"00000006TR0000000000000007","entries":[{"seq":4},{"seq":4,"to_seq":7},{"seq":6,"shown":"[The output of `run` (39 bytes) is kept as artifact `art1`.]","artifact":"art1"}],"read_files":["a.rs"]}"#]].assert_eq(hosted.last());
    assert!(!hosted.offload(), "what is replaced is not replaced again");
}

#[test]
fn an_output_of_the_base_can_be_offloaded_in_its_place() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("old");
        log.call("m1", 0, "a");
        log.result("a", LONG);
    });
    assert!(hosted.summarize("summary"));
    hosted.write(|log| {
        log.prompt("two");
    });
    assert!(hosted.offload());
    hosted.check(expect![[r#"
        base 6
        4 user (summary, prefix) "summary"
        2 assistant -> a
        3 tool [a run {}] "[The output of `run` (39 bytes) is kept as artifact `art1`.]"
        5 user "two"
    "#]]);
    // And what was replaced stays so when it is kept once more.
    hosted.options.keep = 2;
    hosted.write(|log| {
        log.fact();
    });
    assert!(hosted.summarize("newer summary"));
    hosted.check(expect![[r#"
        base 8
        8 user (summary, prefix) "newer summary"
        2 assistant -> a
        3 tool [a run {}] "[The output of `run` (39 bytes) is kept as artifact `art1`.]"
        5 user "two"
    "#]]);
}

#[test]
fn the_newest_outputs_are_not_offloaded() {
    let mut hosted = Hosted::new(|log| {
        log.call("m1", 0, "a");
        log.result("a", LONG);
    });
    assert!(!hosted.offload());
}

#[test]
fn errors_stay_visible_when_the_output_moves() {
    let mut hosted = Hosted::new(|log| {
        log.call("m1", 0, "a");
        log.add(&ToolResult {
            outcome: event::payload::Outcome::Error,
            error: Some("exit 1".to_owned()),
            ..result("a", LONG)
        });
        log.prompt("go on");
    });
    assert!(hosted.offload());
    hosted.check(expect![[r#"
        base 4
        1 assistant -> a
        2 tool [a run {} failed] "[The output of `run` (53 bytes) is kept as artifact `art1`.]\nError: exit 1"
        3 user "go on"
    "#]]);
}

#[test]
fn a_compaction_stops_before_an_open_answer() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("old");
        log.message("m1", 0, "on it");
        log.call("m1", 1, "a");
        log.context(ContextKind::Generic, "meanwhile");
    });
    assert!(hosted.summarize("summary"));
    hosted.write(|log| {
        log.result("a", "done");
    });
    hosted.check(expect![[r#"
        base 5
        5 user (summary, prefix) "summary"
        1 user "old"
        2 assistant "on it" -> a
        6 tool [a run {}] "done"
        4 user (generic, history) "meanwhile"
        ! 4 moved behind the results
    "#]]);
}

#[test]
fn nothing_to_cover_gives_no_compaction() {
    let mut empty = Hosted::new(|_| {});
    assert!(!empty.summarize("summary"));
    assert!(!empty.offload());
    assert!(!empty.captured(Some("summary")));
    let mut open = Hosted::new(|log| {
        log.call("m1", 0, "a");
    });
    assert!(!open.summarize("summary"));
    let mut unsaid = Hosted::new(|log| {
        log.prompt("hello");
    });
    assert!(!unsaid.captured(None));
}

#[test]
fn captured_compaction_needs_no_cutoff() {
    let hosted = Hosted::new(|log| {
        log.prompt("old");
        log.raw(
            Kind::Compaction,
            r#"{"strategy":"captured","entries":[{"role":"user","content":"its summary"}]}"#,
        );
        log.prompt("new");
    });
    hosted.check(expect![[r#"
        base 2
        2 user "its summary"
        3 user "new"
    "#]]);
}

#[test]
fn captured_compaction_covers_everything() {
    let mut hosted = Hosted::new(|log| {
        log.context(ContextKind::Bootstrap, "bootstrap");
        log.prompt("old");
        log.message("m1", 0, "on it");
        log.call("m1", 1, "a");
    });
    assert!(hosted.captured(Some("its summary")));
    hosted.check(expect![[r#"
        base 5
        1 user (bootstrap, prefix) "bootstrap"
        5 user (summary, prefix) "its summary"
    "#]]);
    hosted.write(|log| {
        log.result("a", "done");
    });
    hosted.check(expect![[r#"
        base 5
        1 user (bootstrap, prefix) "bootstrap"
        5 user (summary, prefix) "its summary"
        3 assistant "on it" -> a
        6 tool [a run {}] "done"
    "#]]);
}

#[test]
fn path_summary_survives_compaction() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("old");
        log.context_placed(ContextKind::Summary, Some(Placement::History), "of the left path");
        log.prompt("recent");
    });
    assert!(hosted.summarize("summary"));
    hosted.check(expect![[r#"
        base 4
        4 user (summary, prefix) "summary"
        2 user (summary, history) "of the left path"
        3 user "recent"
    "#]]);
}

#[test]
fn cutoff_keeps_call_and_result_together() {
    let hosted = Hosted::new(|log| {
        log.prompt("do it");
        log.call("m1", 0, "a");
        log.fact();
        log.result("a", "done");
        log.prompt("left");
        log.prompt_after(4, "more");
        log.call("m2", 0, "b");
    });
    let check = |seq| compaction::check_cutoff(&hosted.view, seq, &hosted.log);
    assert!(check(1).is_ok());
    assert!(matches!(
        check(2),
        Err(CutoffError::InOpenExchange { cutoff_seq: 2, call_seq: 2, call_id }) if call_id == "a"
    ));
    assert!(matches!(check(3), Err(CutoffError::InOpenExchange { call_seq: 2, .. })));
    assert!(check(4).is_ok());
    assert!(matches!(check(5), Err(CutoffError::NotFound { cutoff_seq: 5 })));
    assert!(check(6).is_ok());
    assert!(matches!(check(7), Err(CutoffError::InOpenExchange { call_seq: 7, .. })));
    assert!(matches!(check(8), Err(CutoffError::NotFound { .. })));
}

#[test]
fn a_long_way_back_to_an_open_call_is_found() {
    let hosted = Hosted::new(|log| {
        log.prompt("do it");
        log.call("m1", 0, "a");
        (0..500).for_each(|_| {
            log.fact();
        });
    });
    let refused = compaction::check_cutoff(&hosted.view, 502, &hosted.log);
    assert!(matches!(refused, Err(CutoffError::InOpenExchange { call_seq: 2, .. })));
}

#[test]
fn failed_calls_touch_no_files() {
    let mut hosted = Hosted::new(|log| {
        log.call_tool("m1", 0, "a", "edit", r#"{"path":"refused.rs"}"#);
        log.add(&ToolResult { outcome: event::payload::Outcome::Rejected, ..result("a", "no") });
        log.call_tool("m2", 0, "b", "run", r#"{"path":"no file tool"}"#);
        log.result("b", "ok");
        log.call_tool("m3", 0, "c", "grep", r#"{"pattern":"no path"}"#);
        log.result("c", "ok");
    });
    assert!(hosted.summarize("summary"));
    assert!(!shown(&hosted.log).contains("working_set"));
}

#[test]
fn adapters_add_the_names_their_agents_use() {
    let mut tools = FileTools::default();
    tools.add_tool("NotebookEdit", Touch::Modified);
    tools.add_path_field("notebook_path");
    let mut hosted = Hosted::new(|log| {
        let input = r#"{"notebook_path":"/home/dev/a.ipynb"}"#;
        log.call_tool("m1", 0, "a", "NotebookEdit", input);
        log.result("a", "ok");
    });
    hosted.options.tools = tools;
    assert!(hosted.summarize("summary"));
    assert!(shown(&hosted.log).contains("Modified files:\\n- /home/dev/a.ipynb"));
}

#[test]
fn a_new_compaction_keeps_calls_and_origin_of_entries_in_full() {
    let in_full = r#"[
        {"role":"assistant","event_id":"AT_2","content":"on it",
         "calls":[{"call_id":"a","tool":"edit","input":{"path":"a.rs"}}]},
        {"role":"tool","content":"done","result":{"call_id":"a","outcome":"error","error":"full"}}
    ]"#
    .replace("AT_2", &id_at(2).to_string());
    let mut hosted = Hosted::new(|log| {
        log.prompt("hello");
        log.message("m1", 0, "on it");
        log.raw(Kind::Compaction, &format!(r#"{{"cutoff_seq":2,"entries":{in_full}}}"#));
        log.prompt("recent");
    });
    hosted.options.keep = 3;
    assert!(hosted.summarize("summary"));
    hosted.check(expect![[r#"
        base 5
        5 user (summary, prefix) "summary"
        2 assistant "on it" -> a
        5 tool [a edit {"path":"a.rs"} failed] "done"
        4 user "recent"
    "#]]);
}

#[test]
fn an_inline_entry_of_the_base_is_kept_in_full() {
    let mut hosted = Hosted::new(|log| {
        log.prompt("old");
        log.add(&Compaction {
            cutoff_seq: 1,
            entries: vec![event::payload::SavedEntry {
                context_kind: Some(ContextKind::Harness),
                content: Some(Content::text("rules nobody recorded")),
                ..Default::default()
            }],
            ..Compaction::default()
        });
        log.prompt("recent");
        log.raw(Kind::TurnCompleted, "{}");
    });
    assert!(hosted.summarize("summary"));
    hosted.check(expect![[r#"
        base 5
        5 user (harness, prefix) "rules nobody recorded"
        5 user (summary, prefix) "summary"
        3 user "recent"
    "#]]);
}
