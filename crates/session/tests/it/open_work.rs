//! What is begun and not ended, folded from all kinds of logs.

use std::fmt::Write;

use event::{Event, EventId, ForkOrigin, Raw};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use session::{DENIALS_MAX, OpenWork};

use crate::drafts::{log, session_id};

fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> OpenWork {
    let mut open = OpenWork::new(session_id("s"));
    events.into_iter().for_each(|event| open.apply(event));
    open
}

fn render(open: &OpenWork) -> String {
    let mut out = String::new();
    if let Some(turn) = open.turn() {
        writeln!(out, "turn {} by {}", turn.opened.seq, turn.agent_id).unwrap();
    }
    if let Some(step) = open.step() {
        writeln!(out, "step {} by {}", step.opened.seq, step.agent_id).unwrap();
    }
    for call in open.calls() {
        write!(out, "call {} {} {}", call.opened.seq, call.call_id, call.tool).unwrap();
        match &call.started {
            Some(started) => writeln!(out, ", started {} {}", started.opened.seq, started.effect),
            None => writeln!(out),
        }
        .unwrap();
    }
    for waiting in open.waiting_on() {
        writeln!(out, "{:?} {} since {}", waiting.family, waiting.id, waiting.since.seq).unwrap();
    }
    for child in open.children() {
        writeln!(out, "child {} {}", child.child_id, child.status).unwrap();
    }
    for oddity in open.oddities() {
        writeln!(out, "odd {}: {}", oddity.seq, oddity.why).unwrap();
    }
    out
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&render(&fold(&log(text))));
}

#[test]
fn calls_are_open_until_their_results() {
    check(
        r#"
        prompt look around
        say m1 on it
        call m1 c1 bash ls
        call m1 c2 bash pwd
        started c2 bash never_replay
        result c1 ok done
        "#,
        expect![[r#"
            call 4 c2 bash, started 5 never_replay
        "#]],
    );
}

#[test]
fn a_rewind_leaves_no_call_open() {
    check("prompt a \n call m1 c1 bash ls \n [parent=1] prompt b", expect![""]);
}

#[test]
fn unnamed_parts_join_until_a_result() {
    check(
        r#"
        tool.call {"call_id":"c1","tool":"bash"}
        tool.call {"call_id":"c2","tool":"bash"}
        result c1 ok done
        "#,
        expect![[r#"
            call 2 c2 bash
        "#]],
    );
    check(
        r#"
        tool.call {"call_id":"c1","tool":"bash"}
        tool.call {"call_id":"c2","tool":"bash"}
        result c1 ok done
        tool.call {"call_id":"c3","tool":"bash"}
        "#,
        expect![[r#"
            call 4 c3 bash
        "#]],
    );
}

#[test]
fn two_calls_of_one_id_start_and_end_one_by_one() {
    check(
        r#"
        call m1 c1 bash ls
        call m1 c1 bash pwd
        tool.started {"call_id":"c1","idempotency_key":"k1","effect":"reconcile"}
        tool.started {"call_id":"c1","idempotency_key":"k2","effect":"never_replay"}
        tool.result {"call_id":"c1","idempotency_key":"k2","outcome":"ok"}
        "#,
        expect![[r#"
            call 1 c1 bash, started 3 reconcile
        "#]],
    );
}

#[test]
fn amendment_replaces_the_call() {
    check(
        r#"
        call m1 c1 ? ?
        [amends=1] call m1 c1 bash ls
        "#,
        expect![[r#"
            call 1 c1 bash
        "#]],
    );
    check("call m1 c1 bash ls \n result c1 ok a \n [amends=2] result c1 ok ab", expect![""]);
    check(
        "prompt a \n call m1 c1 bash ls \n [amends=1] prompt a, in full",
        expect![[r#"
            call 2 c1 bash
        "#]],
    );
}

#[test]
fn waiting_goes_by_id() {
    let text = r#"
        approval.requested {"approval_id":"a1","tool":"bash"}
        wait.started {"wait_id":"w1"}
        approval.requested {"approval_id":"a2","tool":"bash"}
        external.input {"request_id":"q1","prompt":"why","status":"pending"}
        approval.resolved {"approval_id":"a1","decision":"allow"}
    "#;
    check(
        text,
        expect![[r#"
            Wait w1 since 2
            Approval a2 since 3
            Question q1 since 4
        "#]],
    );
    assert!(fold(&log(text)).is_waiting());
    let answered = format!(
        r#"{text}
        approval.canceled {{"approval_id":"a2","reason":"gone"}}
        wait.resolved {{"wait_id":"w1"}}
        external.input {{"request_id":"q1","prompt":"why","status":"canceled"}}"#
    );
    check(&answered, expect![""]);
    assert!(!fold(&log(&answered)).is_waiting());
}

#[test]
fn stale_answer_is_refused() {
    check(
        r#"
        external.input {"request_id":"q1","prompt":"why","status":"pending"}
        external.input {"request_id":"q2","prompt":"how","status":"pending"}
        external.input {"request_id":"q1","prompt":"why","status":"received","input":"because"}
        "#,
        expect![[r#"
            Question q2 since 2
            odd 2: question `q1` was never answered
            odd 3: question `q1` is not open
        "#]],
    );
}

#[test]
fn impossible_events_change_nothing() {
    check(
        r#"
        approval.resolved {"approval_id":"a1","decision":"allow"}
        wait.resolved {"wait_id":"w1"}
        child.requested {"child_id":"k1","child_session_id":"k1"}
        child.completed {"child_id":"k1","child_session_id":"k1"}
        child.started {"child_id":"k2","child_session_id":"k2"}
        child.merged {"child_id":"k2","child_session_id":"k2"}
        turn.started {"agent_id":"a"}
        turn.started {"agent_id":"a"}
        "#,
        expect![[r#"
            turn 8 by a
            child k1 requested
            child k2 running
            odd 1: approval `a1` is not open
            odd 2: wait `w1` is not open
            odd 4: child `k1` is requested; `child.completed` cannot follow
            odd 6: child `k2` is running; `child.merged` cannot follow
            odd 8: the turn begun at 7 never ended
        "#]],
    );
}

#[test]
fn a_child_that_has_ended_stays_ended() {
    check(
        r#"
        child.started {"child_id":"k1","child_session_id":"k1"}
        child.failed {"child_id":"k1","child_session_id":"k1","error":"e"}
        child.progressed {"child_id":"k1","child_session_id":"k1"}
        "#,
        expect![[r#"
            odd 3: child `k1` is failed; `child.progressed` cannot follow
        "#]],
    );
}

#[test]
fn turns_and_steps_are_open_until_completed() {
    check(
        r#"
        [turn=t1] turn.started {"agent_id":"a"}
        [turn=t1] step.started {"agent_id":"a"}
        "#,
        expect![[r#"
            turn 1 by a
            step 2 by a
        "#]],
    );
    check(
        r#"
        turn.started {"agent_id":"a"}
        step.started {"agent_id":"a"}
        turn.completed {"agent_id":"a"}
        "#,
        expect![""],
    );
}

#[test]
fn unreadable_events_open_nothing() {
    check(
        r#"
        tool.call []
        approval.requested 7
        child.requested {"child_id":3}
        wait.started null
        "#,
        expect![""],
    );
}

#[test]
fn lists_are_bounded() {
    let mut text = String::new();
    for n in 0..1_100 {
        text += &format!("approval.requested {{\"approval_id\":\"a{n}\",\"tool\":\"bash\"}}\n");
    }
    let open = fold(&log(&text));
    assert_eq!(open.approvals().len(), 1_024);
    assert!(open.approvals().contains_key("a1099") && !open.approvals().contains_key("a0"));
    assert_eq!(open.oddity_count(), 76);
    assert_eq!(open.oddities().count(), 64);
}

fn decisions(words: &str) -> OpenWork {
    let mut text = String::new();
    for (n, word) in words.split_whitespace().enumerate() {
        let (decision, automated, by) = match word {
            "auto-deny" => ("deny", true, "rule"),
            "auto-allow" => ("allow", true, "rule"),
            "person-deny" => ("deny", false, "person"),
            "person-allow" => ("allow", false, "person"),
            _ => panic!("no such decision"),
        };
        text += &format!("approval.requested {{\"approval_id\":\"a{n}\",\"tool\":\"bash\"}}\n");
        text += &format!(
            "approval.resolved {{\"approval_id\":\"a{n}\",\"decision\":\"{decision}\",\"automated\":{automated},\"by\":\"{by}\"}}\n"
        );
    }
    fold(&log(&text))
}

#[test]
fn three_automated_denials_in_a_row_switch_the_policy_off() {
    let is_off = |words: &str| decisions(words).denials().policy_is_off(DENIALS_MAX);
    assert!(!is_off(""));
    assert!(!is_off("auto-deny auto-deny"));
    assert!(is_off("auto-deny auto-deny auto-deny"));
    assert!(!is_off("auto-deny auto-deny auto-allow auto-deny"));
    assert!(is_off("auto-deny auto-deny auto-deny person-deny"));
    assert!(is_off("auto-deny auto-deny auto-deny auto-allow"), "only a person switches it on");
    assert!(!is_off("auto-deny auto-deny auto-deny person-allow"));
    assert!(!is_off("auto-deny auto-deny auto-deny person-allow auto-deny auto-deny"));
    assert!(decisions("auto-deny").denials().policy_is_off(1));
}

/// The events as a fork of `s` called `f` shows them.
fn inherited(events: &[Event]) -> Vec<Event> {
    let mut shown = events.to_vec();
    for event in &mut shown {
        let origin = ForkOrigin { session_id: session_id("s"), event_id: event.id };
        event.draft.metadata.insert("fork_origin".to_owned(), Raw::from_value(&origin).unwrap());
        event.draft.session_id = session_id("f");
        event.draft.id = fresh(event.draft.id);
        event.draft.translate_references(&|id| Some(fresh(id)));
    }
    shown
}

fn fresh(id: EventId) -> EventId {
    let mut tail = id.tail();
    tail[0] ^= 0xFF;
    id.with_tail(tail)
}

#[test]
fn fork_inherits_calls_but_no_requests() {
    let events = log(r#"
        turn.started {"agent_id":"a"}
        call m1 c1 bash ls
        started c1 bash reconcile
        approval.requested {"approval_id":"a1","tool":"bash"}
        wait.started {"wait_id":"w1"}
        external.input {"request_id":"q1","prompt":"why","status":"pending"}
        child.started {"child_id":"k1","child_session_id":"k1"}
    "#);
    let fork = fold(&events).inherit(session_id("f"), &fresh);
    expect![[r#"
        call 2 c1 bash, started 3 reconcile
    "#]]
    .assert_eq(&render(&fork));
    assert!(!fork.is_waiting());
    assert_eq!(fork.answer_origin().unwrap().session_id, session_id("s"));
}

/// Lines that make sense together often enough, and often enough do not.
fn any_line() -> impl Strategy<Value = String> {
    let id = 1..4u8;
    let children = [
        "requested",
        "started",
        "progressed",
        "blocked",
        "completed",
        "failed",
        "canceled",
        "merged",
    ];
    prop_oneof![
        Just("prompt hi".to_owned()),
        (1..4u8).prop_map(|parent| format!("[parent={parent}] prompt again")),
        id.clone().prop_map(|m| format!("say m{m} hello")),
        (id.clone(), id.clone()).prop_map(|(m, c)| format!("call m{m} c{c} bash ls")),
        id.clone().prop_map(|c| format!("tool.call {{\"call_id\":\"c{c}\",\"tool\":\"bash\"}}")),
        id.clone().prop_map(|c| format!("started c{c} bash reconcile")),
        id.clone().prop_map(|c| format!("result c{c} ok done")),
        (id.clone(), 1..9u8).prop_map(|(c, n)| format!("[amends={n}] call m1 c{c} bash pwd")),
        id.clone().prop_map(|c| format!("[cost=0.01] tool.delta {{\"call_id\":\"c{c}\"}}")),
        id.clone().prop_map(|a| format!(
            "approval.requested {{\"approval_id\":\"a{a}\",\"tool\":\"bash\"}}"
        )),
        (id.clone(), any::<bool>(), any::<bool>()).prop_map(|(a, allow, automated)| {
            let decision = if allow { "allow" } else { "deny" };
            format!(
                "approval.resolved {{\"approval_id\":\"a{a}\",\"decision\":\"{decision}\",\"automated\":{automated}}}"
            )
        }),
        id.clone().prop_map(|a| format!("approval.canceled {{\"approval_id\":\"a{a}\",\"reason\":\"r\"}}")),
        id.clone().prop_map(|w| format!("wait.started {{\"wait_id\":\"w{w}\"}}")),
        id.clone().prop_map(|w| format!("wait.resolved {{\"wait_id\":\"w{w}\"}}")),
        (id.clone(), prop::sample::select(vec!["pending", "received", "canceled"])).prop_map(
            |(q, status)| format!(
                "external.input {{\"request_id\":\"q{q}\",\"prompt\":\"why\",\"status\":\"{status}\"}}"
            )
        ),
        (id.clone(), prop::sample::select(children.to_vec())).prop_map(|(k, kind)| format!(
            "child.{kind} {{\"child_id\":\"k{k}\",\"child_session_id\":\"k{k}\",\"agent_id\":\"a\",\"mode\":\"fresh\",\"task\":\"t\",\"error\":\"e\",\"reason\":\"r\"}}"
        )),
        prop::sample::select(vec!["turn.started", "turn.completed", "step.started", "step.completed"])
            .prop_map(|kind| format!("{kind} {{\"agent_id\":\"a\"}}")),
        Just("[cost=0.02] weather.changed {}".to_owned()),
        Just("settings.changed {\"model\":\"m\"}".to_owned()),
        Just("tool.result 7".to_owned()),
    ]
}

/// Few, because each is a whole log; without a file of failures, because every failure becomes a
/// test of its own.
pub(crate) fn cases() -> ProptestConfig {
    ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn any_log() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(any_line(), 0..40).prop_map(|lines| log(&lines.join("\n")))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn folding_in_any_split_gives_the_same(events in any_log(), split in 0..40usize) {
        let split = split.min(events.len());
        let mut open = fold(&events[..split]);
        let saved = serde_json::to_string(&open).unwrap();
        open = serde_json::from_str(&saved).unwrap();
        // What was folded before may come again.
        events[split / 2..].iter().for_each(|event| open.apply(event));
        prop_assert_eq!(open.is_waiting(), !open.waiting_on().is_empty());
        prop_assert_eq!(open, fold(&events));
    }

    #[test]
    fn fork_state_equals_folded_events(events in any_log()) {
        let mut folded = OpenWork::new(session_id("f"));
        inherited(&events).iter().for_each(|event| folded.apply(event));
        prop_assert_eq!(fold(&events).inherit(session_id("f"), &fresh), folded);
    }
}
