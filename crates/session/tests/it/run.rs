//! Logs as runs.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use event::{Event, Kind, SessionId};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use session::{Run, RunInput, TreeError, export_run, export_run_tree};

use crate::drafts::{log, log_of, session_id};
use crate::open_work::{any_log, cases};

fn render(run: &Run) -> String {
    let mut out = String::new();
    render_run(&mut out, run, "");
    out
}

fn render_run(out: &mut String, run: &Run, indent: &str) {
    let agent = run.agent_id.as_deref().unwrap_or("?");
    let (own, tree) = (run.total_cost, run.tree_cost);
    writeln!(out, "{indent}run {} by {agent}, cost {own}, tree {tree}", run.session_id).unwrap();
    for turn in &run.turns {
        write!(out, "{indent}  turn {}", turn.turn_id.as_deref().unwrap_or("-")).unwrap();
        let stop_reason = turn.stop_reason.as_ref().map(ToString::to_string);
        for end in [stop_reason, turn.error.clone()].into_iter().flatten() {
            write!(out, ", {end}").unwrap();
        }
        writeln!(out).unwrap();
        for step in &turn.steps {
            write!(out, "{indent}    step {:?} cost {}", step.output.joined_text(), step.cost)
                .unwrap();
            let metrics = &step.metrics;
            if let Some(usage) = &metrics.usage {
                write!(out, " tokens {}", usage.output_tokens.unwrap()).unwrap();
            }
            if let Some(duration_ms) = metrics.duration_ms {
                write!(out, " took {duration_ms}").unwrap();
            }
            if metrics.retries > 0 {
                write!(out, " retries {}", metrics.retries).unwrap();
            }
            writeln!(out).unwrap();
            step.input.iter().for_each(|input| render_input(out, input, indent, "in"));
            for call in &step.calls {
                writeln!(out, "{indent}      call {} {}", call.call_id, call.tool).unwrap();
            }
            for result in &step.results {
                let (call_id, outcome) = (&result.result.call_id, &result.result.outcome);
                writeln!(out, "{indent}      result {call_id} {outcome}").unwrap();
            }
        }
    }
    run.pending_input.iter().for_each(|input| render_input(out, input, indent, "pending"));
    for skipped in &run.skipped {
        writeln!(out, "{indent}  skipped {} {}: {}", skipped.seq, skipped.kind, skipped.why)
            .unwrap();
    }
    for child in &run.children {
        write!(out, "{indent}  child {} {}", child.child_id, child.status).unwrap();
        let artifacts: Vec<&str> = child.artifacts.iter().map(|left| left.id.as_str()).collect();
        writeln!(out, " {:?} {artifacts:?}", child.summary).unwrap();
        if let Some(child_run) = &child.run {
            render_run(out, child_run, &format!("{indent}    "));
        }
    }
}

fn render_input(out: &mut String, input: &RunInput, indent: &str, word: &str) {
    write!(out, "{indent}      {word} {} {}", input.seq, input.role).unwrap();
    if let (Some(kind), Some(placement)) = (&input.context_kind, &input.placement) {
        write!(out, " ({kind}, {placement})").unwrap();
    }
    writeln!(out, " {:?}", input.content.joined_text()).unwrap();
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&render(&export_run(session_id("s"), &log(text))));
}

#[test]
fn result_is_output_and_next_input() {
    check(
        r#"
        [cost=.01] prompt look
        [cost=.05] call m1 c1 bash ls
        [cost=0] result c1 ok a.txt
        [cost=.02] say m2 one file
        "#,
        expect![[r#"
            run s by ?, cost 0.08, tree 0.08
              turn -
                step "" cost 0.05
                  in 1 user "look"
                  call c1 bash
                  result c1 ok
                step "one file" cost 0.02
                  in 3 tool "a.txt"
        "#]],
    );
}

#[test]
fn an_empty_log_has_no_times_and_no_turns() {
    let run = export_run(session_id("s"), &[]);
    assert!(run.turns.is_empty() && run.started_at.is_none() && run.ended_at.is_none());
    check(
        "",
        expect![[r#"
        run s by ?, cost 0, tree 0
    "#]],
    );
}

#[test]
fn context_is_input_with_its_markers() {
    check(
        r#"
        prompt hello
        context bootstrap you are here
        context generic it rains
        say m1 hi
        "#,
        expect![[r#"
            run s by ?, cost 0, tree 0
              turn -
                step "hi" cost 0
                  in 2 user (bootstrap, prefix) "you are here"
                  in 1 user "hello"
                  in 3 user (generic, history) "it rains"
        "#]],
    );
}

#[test]
fn higher_rank_is_shown_as_user() {
    check(
        "[role=system] prompt obey \n [role=developer] prompt me too \n say m1 no",
        expect![[r#"
            run s by ?, cost 0, tree 0
              turn -
                step "no" cost 0
                  in 1 user "obey"
                  in 2 user "me too"
        "#]],
    );
}

#[test]
fn turns_are_told_or_follow_from_prompts() {
    check(
        r#"
        session.started {"agent":"fallback"}
        prompt one
        [turn=t1] turn.started {"agent_id":"digger"}
        [turn=t1] step.started {"agent_id":"digger"}
        [turn=t1] retry {"agent_id":"digger","scope":"model","attempt":1,"error":"busy"}
        [turn=t1] call m1 c1 bash ls
        [turn=t1] retry {"agent_id":"digger","scope":"tool","attempt":1,"error":"busy"}
        [turn=t1] result c1 ok done
        [turn=t1] step.completed {"agent_id":"digger","usage":{"output_tokens":7}}
        prompt steer left
        [turn=t1] say m2 done
        [turn=t1] turn.completed {"agent_id":"digger","stop_reason":"completed"}
        [turn=t2] turn.started {"agent_id":"digger"}
        [turn=t2] turn.completed {"agent_id":"digger","error":"no model"}
        prompt two
        say m3 yes
        prompt three
        say m4 yes
        "#,
        expect![[r#"
            run s by digger, cost 0, tree 0
              turn t1, completed
                step "" cost 0 tokens 7 took 5000 retries 2
                  in 2 user "one"
                  call c1 bash
                  result c1 ok
                step "done" cost 0
                  in 8 tool "done"
                  in 10 user "steer left"
              turn t2, no model
              turn -
                step "yes" cost 0
                  in 15 user "two"
              turn -
                step "yes" cost 0
                  in 17 user "three"
        "#]],
    );
}

#[test]
fn agent_defaults_to_the_sessions() {
    let run = export_run(session_id("s"), &log(r#"session.started {"agent":"digger"}"#));
    assert_eq!(run.agent_id.as_deref(), Some("digger"));
}

#[test]
fn unplaced_events_are_listed() {
    check(
        r#"
        result c0 ok early
        prompt hello
        user.prompt {"content":7}
        tool.call 7
        unknown {"raw":"?"}
        say m1 hi
        prompt still there?
        "#,
        expect![[r#"
            run s by ?, cost 0, tree 0
              turn -
                step "hi" cost 0
                  in 2 user "hello"
                  pending 7 user "still there?"
              skipped 1 tool.result: it stands before any answer
              skipped 3 user.prompt: `content` cannot be read: invalid type: integer `7`, expected a text or a list of parts at line 1 column 12
              skipped 4 tool.call: it cannot be read
              skipped 5 unknown: this version does not understand it
        "#]],
    );
}

#[test]
fn interleaved_parts_are_one_step() {
    check(
        r#"
        call m1 c1 bash ls
        result c1 ok a
        say m1 both
        call m1 c2 bash pwd
        result c2 error b
        say m2 done
        "#,
        expect![[r#"
            run s by ?, cost 0, tree 0
              turn -
                step "both" cost 0
                  call c1 bash
                  call c2 bash
                  result c1 ok
                  result c2 error
                step "done" cost 0
                  in 2 tool "a"
                  in 5 tool "b"
        "#]],
    );
}

#[test]
fn compaction_and_left_paths_do_not_change_the_run() {
    let before = "prompt a \n say m1 b";
    let cut = r#"compaction {"strategy":"summarize","cutoff_seq":2,"entries":[]}"#;
    check(
        &format!("{before} \n {cut} \n [parent=1] prompt c \n say m2 d"),
        expect![[r#"
            run s by ?, cost 0, tree 0
              turn -
                step "b" cost 0
                  in 1 user "a"
              turn -
                step "d" cost 0
                  in 4 user "c"
        "#]],
    );
}

#[test]
fn amended_entry_keeps_its_place() {
    check(
        "prompt a \n [cost=.1] say m1 b \n prompt c \n [cost=.2 amends=2] say m1 b, in full",
        expect![[r#"
            run s by ?, cost 0.2, tree 0.2
              turn -
                step "b, in full" cost 0.2
                  in 1 user "a"
                  pending 3 user "c"
        "#]],
    );
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the disk said no")]
struct Broken;

fn tree(logs: &[(&str, &str)]) -> Result<Run, TreeError<Broken>> {
    let logs: HashMap<SessionId, Vec<Event>> =
        logs.iter().map(|(id, text)| (session_id(id), log_of(id, text))).collect();
    let root = session_id("s");
    export_run_tree(root.clone(), &logs[&root], |id| match id.as_str() {
        "broken" => Err(Broken),
        _ => Ok(logs.get(id).cloned()),
    })
}

fn requested(child: &str, session: &str) -> String {
    format!(
        r#"child.requested {{"child_id":"{child}","child_session_id":"{session}","agent_id":"a","mode":"fresh","task":"t"}}"#
    )
}

#[test]
fn a_tree_has_its_childrens_runs_and_artifacts() {
    let root = format!(
        r#"
        [cost=.1] prompt go
        artifact.recorded {{"artifact":{{"id":"early","kind":"patch"}},"child_id":"k1"}}
        {}
        child.started {{"child_id":"k1","child_session_id":"c1"}}
        artifact.recorded {{"artifact":{{"id":"ref","kind":"workspace_file_ref"}},"child_id":"k1"}}
        artifact.recorded {{"artifact":{{"id":"patch","kind":"patch"}},"child_id":"k1"}}
        child.completed {{"child_id":"k1","child_session_id":"c1","summary":"dug"}}
        {}
        "#,
        requested("k1", "c1"),
        requested("k2", "nowhere"),
    );
    let run = tree(&[("s", &root), ("c1", "prompt dig \n [cost=.2] say m1 dug")]).unwrap();
    expect![[r#"
        run s by ?, cost 0.1, tree 0.3
              pending 1 user "go"
          child k1 completed Some("dug") ["early", "patch"]
            run c1 by ?, cost 0.2, tree 0.2
              turn -
                step "dug" cost 0.2
                  in 1 user "dig"
          child k2 requested None []
    "#]]
    .assert_eq(&render(&run));
}

#[test]
fn a_loader_error_names_the_child() {
    let error = tree(&[("s", &requested("k1", "broken"))]).unwrap_err();
    assert_eq!((error.child_id.as_str(), error.source), ("k1", Broken));
}

#[test]
fn repeated_session_has_no_children() {
    let run = tree(&[
        ("s", &format!("[cost=.1] prompt a \n {}", requested("k1", "c1"))),
        ("c1", &format!("[cost=.2] prompt b \n {}", requested("k2", "s"))),
    ]);
    expect![[r#"
        run s by ?, cost 0.1, tree 0.3
              pending 1 user "a"
          child k1 requested None []
            run c1 by ?, cost 0.2, tree 0.2
                  pending 1 user "b"
              child k2 requested None []
                run s by ?, cost 0.1, tree 0
                      pending 1 user "a"
    "#]]
    .assert_eq(&render(&run.unwrap()));
}

#[test]
fn the_tree_counts_what_forks_share_once() {
    let run = tree(&[
        ("s", &format!("[cost=.1] prompt a \n [cost=.2] say m1 b \n {}", requested("k1", "f"))),
        (
            "f",
            "[cost=.1 origin=s/1] prompt a \n [cost=.2 origin=s/2] say m1 b \n [cost=.4] say m2 c",
        ),
    ])
    .unwrap();
    assert_eq!(run.tree_cost.to_string(), "0.7");
    assert_eq!(run.children[0].run.as_ref().unwrap().total_cost.to_string(), "0.7");
}

#[test]
fn run_json_has_documented_names() {
    let run = export_run(session_id("s"), &log("prompt a \n call m1 c1 bash ls \n result c1 ok x"));
    let json = serde_json::to_value(&run).unwrap();
    let step = &json["turns"][0]["steps"][0];
    assert_eq!(step["calls"][0]["tool"], "bash");
    assert_eq!(step["results"][0]["result"]["outcome"], "ok");
    assert_eq!(json["last_seq"], 3);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn run_contains_all_messages(mut events in any_log()) {
        // A fuller account stands where another stood, so that one is missing on purpose.
        events.retain(|event| event.amends().is_none());
        let run = export_run(session_id("s"), &events);
        let steps = run.turns.iter().flat_map(|turn| &turn.steps);
        let mut places: BTreeSet<u64> = run.pending_input.iter().map(|input| input.seq).collect();
        places.extend(run.skipped.iter().map(|skipped| skipped.seq));
        for step in steps {
            places.extend(step.input.iter().map(|input| input.seq));
            places.extend(step.calls.iter().map(|call| call.seq));
            places.extend(step.results.iter().map(|result| result.seq));
        }
        let said = events.iter().filter(|event| {
            matches!(event.kind, Kind::UserPrompt | Kind::ToolCall | Kind::ToolResult)
        });
        let missing: Vec<u64> =
            said.map(|event| event.seq).filter(|seq| !places.contains(seq)).collect();
        prop_assert_eq!(missing, Vec::<u64>::new());
        let total: event::Cost = events.iter().filter_map(|event| event.cost).sum();
        prop_assert_eq!(run.total_cost, total);
    }
}
