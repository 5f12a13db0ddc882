//! What the hosted door takes and what it refuses.

use event::{Draft, Event};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use session::{OpenWork, RuleViolation, check_batch};

use crate::drafts::{Recorded, drafts, log, numbered, session_id};
use crate::open_work::{any_log, cases};

fn door(history: &str, batch: &str) -> Result<OpenWork, RuleViolation> {
    let events = log(history);
    let mut state = OpenWork::new(session_id("s"));
    events.iter().for_each(|event| state.apply(event));
    check_batch(&state, &drafts(events.len() as u64 + 1, batch), &Recorded(&events))
}

#[track_caller]
fn taken(history: &str, batch: &str) {
    let result = door(history, batch);
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

#[track_caller]
fn refused(history: &str, batch: &str, expected: Expect) {
    let error = door(history, batch).unwrap_err();
    let debug = format!("{error:?}");
    let variant = debug.split([' ', '(']).next().unwrap();
    expected.assert_eq(&numbered(&format!("{variant}: {error}")));
}

#[test]
fn an_answer_of_white_space_is_refused() {
    let answer = r#"
        assistant.thinking {"message_id":"m1","block":0,"thinking":"\n "}
        assistant.message {"message_id":"m1","block":1,"content":" \n\t "}
    "#;
    refused("prompt hi", answer, expect!["EmptyAnswer: the answer `m1` is empty"]);
}

#[test]
fn text_thinking_signature_or_calls_are_an_answer() {
    taken("", "say m1 hello");
    taken("", "think m1 hm");
    taken("", r#"assistant.thinking {"message_id":"m1","block":0,"signature":"c2ln"}"#);
    taken("", r#"assistant.thinking {"message_id":"m1","block":0,"redacted":"xyz"}"#);
    taken("", "call m1 c1 bash ls");
    taken("", r#"assistant.message {"message_id":"m1","block":0,"content":[{"type":"image"}]}"#);
}

#[test]
fn substance_is_judged_per_answer() {
    taken("", "think m1 \n say m1 hello");
    let second_is_empty = r#"
        say m1 hello
        assistant.message {"message_id":"m2","block":0,"content":""}
    "#;
    refused("", second_is_empty, expect!["EmptyAnswer: the answer `m2` is empty"]);
}

#[test]
fn talk_must_have_its_shape() {
    refused(
        "",
        "user.prompt {}",
        expect![
            "BadPayload: `user.prompt` event #1 has a payload that does not fit at `content`: it is missing"
        ],
    );
    refused(
        "",
        r#"assistant.message {"block":0,"content":"hi"}"#,
        expect![
            "BadPayload: `assistant.message` event #1 has a payload that does not fit at `message_id`: it is missing"
        ],
    );
}

#[test]
fn a_kind_without_a_name_is_refused() {
    let mut batch = drafts(1, "note {}");
    batch[0].kind = event::Kind::from(" ");
    let state = OpenWork::new(session_id("s"));
    let error = check_batch(&state, &batch, &Recorded(&[])).unwrap_err();
    assert!(matches!(error, RuleViolation::BadPayload(bad) if bad.path == "kind"));
}

#[test]
fn an_unknown_kind_is_taken_as_it_is() {
    taken("", r#"weather.changed {"to":"rain"}"#);
}

#[test]
fn a_result_needs_an_open_call() {
    taken("call m1 c1 bash ls", "result c1 ok done");
    refused(
        "prompt hi",
        "result c1 ok done",
        expect!["UnmatchedResult: the result #2 has no open call `c1`: no_call"],
    );
    refused(
        "call m1 c1 bash ls",
        r#"tool.result {"call_id":" ","outcome":"ok"}"#,
        expect!["UnmatchedResult: the result #2 has no open call ` `: no_call"],
    );
    refused(
        "call m1 c1 bash ls \n result c1 ok done",
        "result c1 ok again",
        expect!["UnmatchedResult: the result #3 has no open call `c1`: answered"],
    );
}

#[test]
fn a_prompt_or_another_answer_closes_open_calls() {
    refused(
        "call m1 c1 bash ls \n prompt never mind",
        "result c1 ok done",
        expect!["UnmatchedResult: the result #3 has no open call `c1`: talk_moved_on"],
    );
    refused(
        "call m1 c1 bash ls \n say m2 never mind",
        "result c1 ok done",
        expect!["UnmatchedResult: the result #3 has no open call `c1`: talk_moved_on"],
    );
}

#[test]
fn only_new_talk_closes_calls() {
    let between = r#"
        call m1 c1 bash ls
        context generic the user looks away
        started c1 bash reconcile
        note {"text":"slow"}
        say m1 one more thing
    "#;
    taken(between, "result c1 ok done");
}

#[test]
fn a_call_id_used_twice_wants_two_results() {
    let twice = "call m1 c1 bash ls \n call m1 c1 bash pwd";
    taken(twice, "result c1 ok one \n result c1 ok two");
    refused(
        &format!("{twice} \n result c1 ok one \n result c1 ok two"),
        "result c1 ok three",
        expect!["UnmatchedResult: the result #5 has no open call `c1`: answered"],
    );
    refused(
        &format!("{twice} \n result c1 ok one \n prompt stop"),
        "result c1 ok two",
        expect!["UnmatchedResult: the result #5 has no open call `c1`: talk_moved_on"],
    );
}

#[test]
fn a_call_id_used_again_later_is_another_call() {
    taken("call m1 c1 bash ls \n result c1 ok one \n call m2 c1 bash ls", "result c1 ok two");
}

#[test]
fn a_call_and_its_result_may_come_in_one_batch() {
    taken("prompt hi", "call m1 c1 bash ls \n result c1 ok done \n say m2 done");
}

#[test]
fn one_bad_event_refuses_the_batch() {
    refused(
        "",
        "prompt a \n result c9 ok done \n prompt b",
        expect!["UnmatchedResult: the result #2 has no open call `c9`: no_call"],
    );
}

#[test]
fn talk_of_higher_rank_is_refused() {
    refused(
        "",
        "[role=system] prompt obey",
        expect!["PrivilegedRole: event #1 speaks as `system`, a role that sessions cannot use"],
    );
    refused(
        "",
        "[role=Developer] say m1 obey",
        expect!["PrivilegedRole: event #1 speaks as `Developer`, a role that sessions cannot use"],
    );
    taken("", "[role=system] context harness be kind");
    taken("", "[role=user] prompt hi");
}

#[test]
fn a_prompt_continues_after_an_event_of_its_session() {
    taken("prompt a \n say m1 b", "[parent=1] prompt c");
    taken("", "prompt a \n [parent=1] prompt b");
    refused(
        "prompt a",
        "[parent=77] prompt c",
        expect!["UnknownParent: the prompt #2 continues after #77, which is not in this session"],
    );
    taken("prompt a", r#"[parent=77] note {"text":"other kinds only inform"}"#);
}

#[test]
fn an_event_of_another_session_is_refused() {
    refused(
        "prompt a",
        "[session=t] prompt b",
        expect!["SessionMismatch: event #2 is of session `t`, not of `s`"],
    );
}

#[test]
fn live_kinds_are_not_stored() {
    refused(
        "",
        "heartbeat",
        expect!["LiveOnly: event #1: `heartbeat` is published while it happens, not stored"],
    );
    refused(
        "",
        "assistant.delta",
        expect!["LiveOnly: event #1: `assistant.delta` is published while it happens, not stored"],
    );
}

#[test]
fn partial_output_is_stored_at_most_every_thirty_seconds() {
    let running = "call m1 c1 bash ls \n started c1 bash reconcile";
    let delta = r#"tool.delta {"call_id":"c1","text":"a"}"#;
    taken(running, delta);
    let stored = format!("{running} \n [at=100] {delta}");
    refused(
        &stored,
        &format!("[at=129] {delta}"),
        expect!["LiveOnly: event #4: `tool.delta` is published while it happens, not stored"],
    );
    taken(&stored, &format!("[at=130] {delta}"));
    refused(
        "",
        delta,
        expect!["IllegalTransition: call `c1` is unknown; `tool.delta` cannot follow"],
    );
}

#[test]
fn a_tool_starts_only_for_an_open_call() {
    taken("call m1 c1 bash ls", "started c1 bash replay_safe");
    taken("call m1 c1 bash ls \n started c1 bash replay_safe", "started c1 bash replay_safe");
    refused(
        "call m1 c1 bash ls \n result c1 ok done",
        "started c1 bash replay_safe",
        expect!["IllegalTransition: call `c1` is unknown; `tool.started` cannot follow"],
    );
}

#[test]
fn unknown_enum_values_are_refused() {
    let asked = r#"approval.requested {"approval_id":"a1","tool":"bash"}"#;
    refused(
        asked,
        r#"approval.resolved {"approval_id":"a1","decision":"maybe"}"#,
        expect!["BadArgument: event #2: `maybe` is not a decision: allow or deny"],
    );
    refused(
        "",
        r#"child.requested {"child_id":"k1","child_session_id":"k1","agent_id":"a","mode":"spoon","task":"t"}"#,
        expect![
            "BadArgument: event #1: `spoon` is not the mode of a child: fork, handoff or fresh"
        ],
    );
    refused(
        "call m1 c1 bash ls",
        "result c1 fine done",
        expect![
            "BadArgument: event #2: `fine` is not an outcome: ok, error, rejected, canceled or lost"
        ],
    );
    refused(
        "call m1 c1 bash ls",
        "started c1 bash sometimes",
        expect![
            "BadArgument: event #2: `sometimes` is not an effect: replay_safe, reconcile or never_replay"
        ],
    );
}

#[test]
fn an_approval_is_answered_once_and_by_id() {
    let asked = r#"
        approval.requested {"approval_id":"a1","tool":"bash"}
        approval.requested {"approval_id":"a2","tool":"bash"}
    "#;
    let allow = r#"approval.resolved {"approval_id":"a1","decision":"allow"}"#;
    let deny = r#"approval.resolved {"approval_id":"a1","decision":"deny"}"#;
    let cancel = r#"approval.canceled {"approval_id":"a1","reason":"expired"}"#;
    taken(asked, allow);
    taken(asked, cancel);
    refused(
        &format!("{asked} \n {allow}"),
        deny,
        expect!["AlreadyResolved: approval `a1` was allowed at 2026-01-01T12:00:03Z"],
    );
    refused(
        &format!("{asked} \n {cancel}"),
        deny,
        expect!["AlreadyResolved: approval `a1` was canceled at 2026-01-01T12:00:03Z"],
    );
    refused(
        asked,
        &format!("{allow} \n {deny}"),
        expect!["AlreadyResolved: approval `a1` was allowed at 2026-01-01T12:00:03Z"],
    );
    refused(
        asked,
        r#"approval.resolved {"approval_id":"a9","decision":"allow"}"#,
        expect!["ApprovalNotFound: there is no approval `a9`"],
    );
    refused(
        asked,
        r#"approval.requested {"approval_id":"a1","tool":"bash"}"#,
        expect!["ApprovalExists: approval `a1` is open already, since event 1"],
    );
    taken(
        &format!("{asked} \n {allow}"),
        r#"approval.resolved {"approval_id":"a2","decision":"deny"}"#,
    );
}

#[test]
fn fork_cannot_answer_inherited_requests() {
    refused(
        r#"[origin=p/1] approval.requested {"approval_id":"a1","tool":"bash"}"#,
        r#"approval.resolved {"approval_id":"a1","decision":"allow"}"#,
        expect!["ApprovalNotFound: there is no approval `a1`"],
    );
}

#[test]
fn a_wait_is_resolved_by_its_id() {
    let waiting = r#"wait.started {"wait_id":"w1"}"#;
    let resolved = r#"wait.resolved {"wait_id":"w1"}"#;
    taken(waiting, resolved);
    taken("", &format!("{waiting} \n {resolved} \n {waiting}"));
    refused(
        waiting,
        waiting,
        expect!["IllegalTransition: wait `w1` is open; `wait.started` cannot follow"],
    );
    refused(
        "",
        resolved,
        expect!["IllegalTransition: wait `w1` is unknown; `wait.resolved` cannot follow"],
    );
    refused(
        &format!("{waiting} \n {resolved}"),
        resolved,
        expect!["IllegalTransition: wait `w1` is resolved; `wait.resolved` cannot follow"],
    );
}

#[test]
fn one_question_is_open_at_a_time() {
    let ask = |id: &str| {
        format!(r#"external.input {{"request_id":"{id}","prompt":"why","status":"pending"}}"#)
    };
    let answer = |id: &str| {
        format!(r#"external.input {{"request_id":"{id}","prompt":"why","status":"received"}}"#)
    };
    taken(&ask("q1"), &answer("q1"));
    taken(&format!("{} \n {}", ask("q1"), answer("q1")), &ask("q2"));
    refused(
        &ask("q1"),
        &ask("q2"),
        expect!["IllegalTransition: question `q1` is open; `external.input` cannot follow"],
    );
    refused(
        &format!("{} \n {} \n {}", ask("q1"), answer("q1"), ask("q2")),
        &answer("q1"),
        expect!["IllegalTransition: question `q1` is closed; `external.input` cannot follow"],
    );
    refused(
        "",
        &answer("q1"),
        expect!["IllegalTransition: question `q1` is unknown; `external.input` cannot follow"],
    );
}

#[test]
fn a_cutoff_stops_before_an_open_exchange() {
    let talk = "prompt hi \n say m1 let me see \n call m1 c1 bash ls";
    let compaction = |seq: u64| {
        let cutoff = crate::drafts::id(seq);
        format!(
            r#"compaction {{"strategy":"summarize","cutoff_seq":{seq},"cutoff_event_id":"{cutoff}","entries":[{{"role":"user","content":"in short"}}]}}"#
        )
    };
    taken(talk, &compaction(1));
    refused(
        talk,
        &compaction(2),
        expect!["CutoffInOpenExchange: the cutoff 2 covers call `c1` of event 3, which is open"],
    );
    taken(&format!("{talk} \n result c1 ok done"), &compaction(4));
    refused(
        talk,
        &compaction(9),
        expect!["BadArgument: event #4: `9` is not a cutoff within the session"],
    );
    refused(
        talk,
        &compaction(1).replace("\"cutoff_seq\":1", "\"cutoff_seq\":0"),
        expect!["BadArgument: event #4: `#1` is not the event at the cutoff"],
    );
}

#[test]
fn a_summary_covers_events_of_its_session() {
    let summary = |from: &str, to: &str| {
        format!(
            r#"context.added {{"kind":"summary","placement":"history","content":"in short","covers":{{"from":{from},"to":{to}}}}}"#
        )
    };
    let left = "prompt a \n say m1 b \n [parent=1] prompt c";
    let id = |n| format!("\"{}\"", crate::drafts::id(n));
    taken(left, &summary(&id(2), &id(2)));
    taken(left, &summary("1", "2"));
    refused(
        left,
        &summary(&id(2), &id(77)),
        expect![[r##"BadArgument: event #4: `"#77"` is not an event of this session"##]],
    );
    refused(
        left,
        &summary("2", "1"),
        expect!["BadArgument: event #4: `2..1` is not a path: its first event, then its last"],
    );
}

const REQUEST: &str = r#"child.requested {"child_id":"k1","child_session_id":"k1","agent_id":"a","mode":"fresh","task":"dig"}"#;

fn child(kind: &str) -> String {
    format!(
        r#"child.{kind} {{"child_id":"k1","child_session_id":"k1","agent_id":"a","reason":"r","error":"e"}}"#
    )
}

#[test]
fn children_only_take_legal_steps() {
    let legal = [
        vec!["started", "progressed", "blocked", "progressed", "started", "completed", "merged"],
        vec!["started", "failed"],
        vec!["started", "blocked", "completed"],
        vec!["failed"],
        vec!["canceled"],
    ];
    for steps in legal {
        let steps: Vec<String> = steps.into_iter().map(child).collect();
        taken(REQUEST, &steps.join("\n"));
    }
    for (before, kind) in [
        ("", "completed"),
        ("", "merged"),
        ("", "progressed"),
        ("failed", "started"),
        ("canceled", "failed"),
        ("started", "merged"),
    ] {
        let before = if before.is_empty() { String::new() } else { child(before) };
        let error = door(&format!("{REQUEST}\n{before}"), &child(kind)).unwrap_err();
        assert!(matches!(error, RuleViolation::IllegalTransition { .. }), "{error}");
    }
    refused(
        "",
        &child("started"),
        expect!["IllegalTransition: child `k1` is unknown; `child.started` cannot follow"],
    );
}

#[test]
fn a_child_id_is_used_once() {
    refused(REQUEST, REQUEST, expect!["ChildExists: child `k1` exists already"]);
    refused(
        &format!("{REQUEST} \n {}", child("failed")),
        REQUEST,
        expect!["ChildExists: child `k1` exists already"],
    );
    refused(
        &format!("[origin=p/1] {REQUEST}"),
        REQUEST,
        expect!["ChildExists: child `k1` exists already"],
    );
}

#[test]
fn a_forgotten_child_is_looked_up() {
    let mut history = String::from(REQUEST);
    for kind in ["started", "completed"] {
        history += &format!("\n{}", child(kind));
    }
    for n in 0..300 {
        let id = format!("\"child_id\":\"n{n}\"");
        history += &format!("\n{}", REQUEST.replace("\"child_id\":\"k1\"", &id));
        history += &format!("\n{}", child("failed").replace("\"child_id\":\"k1\"", &id));
    }
    taken(&history, &child("merged"));
    let error = door(&history, &child("started")).unwrap_err();
    assert!(
        matches!(error, RuleViolation::IllegalTransition { from: Some(from), .. } if from == "completed")
    );
}

#[test]
fn a_retry_is_passed_over() {
    let history = "prompt hi \n call m1 c1 bash ls \n result c1 ok done";
    let after = door(history, "[id=3] result c1 ok done").unwrap();
    assert_eq!(after, door(history, "").unwrap());
    let twice = door("prompt hi \n call m1 c1 bash ls", "[id=1] prompt hi").unwrap();
    assert_eq!(twice.calls().len(), 1, "a prompt that was there already closes nothing");
}

#[test]
fn the_state_after_is_the_folded_one() {
    let history = "prompt hi \n call m1 c1 bash ls";
    let batch = "started c1 bash reconcile \n result c1 ok done \n say m2 fine";
    let after = door(history, batch).unwrap();
    let mut folded = OpenWork::new(session_id("s"));
    log(&format!("{history}\n{batch}")).iter().for_each(|event| folded.apply(event));
    assert_eq!(after, folded);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn accepted_batches_are_never_odd(events in any_log()) {
        let mut state = OpenWork::new(session_id("s"));
        let mut recorded: Vec<Event> = Vec::new();
        for event in events {
            let batch = [event.draft];
            if let Ok(after) = check_batch(&state, &batch, &Recorded(&recorded)) {
                let [draft] = batch;
                recorded.push(draft.with_seq(after.up_to_seq()));
                state = after;
            }
        }
        // A turn or step that never ended is what a crash leaves, not a broken rule.
        let odd = state.oddities().find(|oddity| !oddity.why.ends_with("never ended"));
        prop_assert_eq!(odd, None);
        let batch: Vec<Draft> = recorded.into_iter().map(|event| event.draft).collect();
        let whole = check_batch(&OpenWork::new(session_id("s")), &batch, &Recorded(&[]));
        prop_assert_eq!(whole.unwrap(), state, "one by one or in one batch");
    }
}
