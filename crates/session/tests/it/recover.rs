//! What a crash leaves open, and how it is closed.

use std::fmt::Write;

use event::{Draft, Event};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use session::{ChildFate, Left, LeftOpen, OpenChild, OpenWork, Recovery, check_batch, recover};

use crate::drafts::{Recorded, at, log, session_id};
use crate::open_work::{any_log, cases};

fn fold(events: &[Event]) -> OpenWork {
    let mut open = OpenWork::new(session_id("s"));
    events.iter().for_each(|event| open.apply(event));
    open
}

/// A child's fate follows from its name.
fn fate(child: &OpenChild) -> ChildFate {
    match child.child_id.as_str() {
        "done" => ChildFate::Completed {
            summary: Some("dug".to_owned()),
            artifact_ids: Vec::new(),
            usage: None,
        },
        "broken" => ChildFate::Failed { error: "hit a rock".to_owned() },
        "stopped" => ChildFate::Canceled { reason: None },
        "busy" => ChildFate::Running,
        _ => ChildFate::Lost,
    }
}

fn recovery(events: &[Event]) -> Recovery {
    recover(&fold(events), at(3_600), fate)
}

fn name(left: &LeftOpen) -> String {
    match &left.left {
        Left::Turn { .. } => "turn".to_owned(),
        Left::Step { .. } => "step".to_owned(),
        Left::Call(call) => format!("call {}", call.call_id),
        Left::Approval { approval_id, .. } => format!("approval {approval_id}"),
        Left::Wait { wait_id } => format!("wait {wait_id}"),
        Left::Question { request_id, .. } => format!("question {request_id}"),
        Left::Child { child, .. } => format!("child {}", child.child_id),
    }
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    let events = log(text);
    let recovery = recovery(&events);
    let mut out = String::new();
    for left in recovery.left_open() {
        let (seq, age) = (left.opened.seq, left.age.as_secs());
        writeln!(out, "{seq} {}, {age} s: {:?}", name(left), left.remedy()).unwrap();
    }
    for draft in recovery.closing_drafts(&Recorded(&events)).unwrap() {
        writeln!(out, "+ {} {}", draft.kind, draft.data.get()).unwrap();
    }
    expected.assert_eq(&out);
}

fn append(events: &[Event], drafts: Vec<Draft>) -> Vec<Event> {
    let next = events.len() as u64 + 1;
    let new = drafts.into_iter().zip(next..).map(|(draft, seq)| draft.with_seq(seq));
    events.iter().cloned().chain(new).collect()
}

#[test]
fn turn_and_step_are_closed_as_interrupted() {
    check(
        r#"
        [turn=t1] turn.started {"agent_id":"a"}
        [turn=t1] step.started {"agent_id":"a"}
        "#,
        expect![[r#"
            1 turn, 3599 s: Close
            2 step, 3598 s: Close
            + step.completed {"agent_id":"a","error":"interrupted"}
            + turn.completed {"agent_id":"a","error":"interrupted"}
        "#]],
    );
}

#[test]
fn remedy_depends_on_start_and_effect() {
    check(
        r#"
        call m1 asked bash ls
        call m1 safe bash ls
        call m1 unsure bash ls
        call m1 never bash ls
        started safe bash replay_safe
        started unsure bash reconcile
        started never bash never_replay
        tool.delta {"call_id":"never","text":"half of "}
        tool.delta {"call_id":"never","text":"it"}
        "#,
        expect![[r#"
            1 call asked, 3599 s: MayRun
            2 call safe, 3598 s: RunAgain
            3 call unsure, 3597 s: AskHost
            4 call never, 3596 s: Close
            + tool.result {"call_id":"never","tool":"bash","idempotency_key":"key-never","outcome":"lost","output":"half of it","error":"the call was interrupted; what it did is not known and it was not run again"}
        "#]],
    );
}

#[test]
fn a_host_can_give_up_any_call() {
    let events = log("call m1 c1 bash ls \n started c1 bash replay_safe");
    let recovery = recovery(&events);
    let drafts = recovery.give_up_drafts(&recovery.left_open()[0], &Recorded(&events)).unwrap();
    assert!(check_batch(&fold(&events), &drafts, &Recorded(&events)).unwrap().calls().is_empty());
}

#[test]
fn requests_stay_open_unless_they_expired() {
    check(
        r#"
        approval.requested {"approval_id":"a1","tool":"bash"}
        approval.requested {"approval_id":"a2","tool":"bash","expires_at":"2026-01-01T13:00:00Z"}
        approval.requested {"approval_id":"a3","tool":"bash","expires_at":"2026-01-01T13:00:01Z"}
        wait.started {"wait_id":"w1"}
        external.input {"request_id":"q1","prompt":"why","status":"pending"}
        "#,
        expect![[r#"
            1 approval a1, 3599 s: LeaveOpen
            2 approval a2, 3598 s: Close
            3 approval a3, 3597 s: LeaveOpen
            4 wait w1, 3596 s: LeaveOpen
            5 question q1, 3595 s: LeaveOpen
            + approval.canceled {"approval_id":"a2","tool":"bash","reason":"expired"}
        "#]],
    );
}

#[test]
fn the_childs_own_log_decides() {
    let requested = |id: &str| {
        format!(
            r#"child.requested {{"child_id":"{id}","child_session_id":"{id}","agent_id":"a","mode":"fresh","task":"dig"}}"#
        )
    };
    let children = ["done", "broken", "stopped", "busy", "gone"].map(requested).join("\n");
    check(
        &children,
        expect![[r#"
            1 child done, 3599 s: Close
            2 child broken, 3598 s: Close
            3 child stopped, 3597 s: Close
            4 child busy, 3596 s: LeaveOpen
            5 child gone, 3595 s: Close
            + child.started {"child_id":"done","child_session_id":"done","agent_id":"a"}
            + child.completed {"child_id":"done","child_session_id":"done","summary":"dug"}
            + child.failed {"child_id":"broken","child_session_id":"broken","error":"hit a rock"}
            + child.canceled {"child_id":"stopped","child_session_id":"stopped"}
            + child.failed {"child_id":"gone","child_session_id":"gone","error":"lost"}
        "#]],
    );
}

#[test]
fn closing_is_dated_at_the_last_sign_of_life() {
    let events = log("turn.started {\"agent_id\":\"a\"} \n [at=40] prompt hi \n [at=20] note {}");
    let drafts = recovery(&events).closing_drafts(&Recorded(&events)).unwrap();
    assert_eq!((drafts[0].created_at, drafts[0].observed_at), (at(40), at(3_600)));
}

#[test]
fn two_processes_close_with_the_same_events() {
    let events = log("[turn=t1] turn.started {\"agent_id\":\"a\"} \n call m1 c1 bash ls");
    let one = recover(&fold(&events), at(100), fate).closing_drafts(&Recorded(&events)).unwrap();
    let two = recover(&fold(&events), at(200), fate).closing_drafts(&Recorded(&events)).unwrap();
    assert_eq!(one.len(), 1);
    assert!(one[0].id == two[0].id && one[0].has_same_content(&two[0]));
}

#[test]
fn child_completes_with_its_turn() {
    let fate = |text: &str, is_running| ChildFate::from_log(&log(text), is_running);
    let done = r#"
        prompt dig
        turn.started {"agent_id":"a"}
        say m1 let me see
        call m1 c1 bash ls
        result c1 ok done
        say m2 dug a hole
        turn.completed {"agent_id":"a","stop_reason":"completed"}
    "#;
    let completed = ChildFate::Completed {
        summary: Some("dug a hole".to_owned()),
        artifact_ids: Vec::new(),
        usage: None,
    };
    assert_eq!(fate(done, false), completed);
    assert_eq!(fate(done, true), completed);
    assert_eq!(fate(&format!("{done}\nprompt deeper"), true), ChildFate::Running);
    assert_eq!(fate(&format!("{done}\nprompt deeper"), false), ChildFate::Lost);
    assert_eq!(fate("", false), ChildFate::Lost);
    let failed = r#"turn.completed {"agent_id":"a","error":"rock"}"#;
    assert_eq!(fate(failed, false), ChildFate::Failed { error: "rock".to_owned() });
    let waiting = r#"turn.completed {"agent_id":"a","stop_reason":"waiting"}"#;
    assert_eq!(fate(waiting, false), ChildFate::Running, "somebody can still answer it");
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn closing_is_legal_and_closing_twice_adds_nothing(events in any_log()) {
        let first = recovery(&events).closing_drafts(&Recorded(&events)).unwrap();
        let checked = check_batch(&fold(&events), &first, &Recorded(&events));
        prop_assert!(checked.is_ok(), "{:?}", checked);
        let closed = append(&events, first);
        let second = recovery(&closed).closing_drafts(&Recorded(&closed)).unwrap();
        prop_assert!(second.is_empty(), "{:?}", second);
    }
}
