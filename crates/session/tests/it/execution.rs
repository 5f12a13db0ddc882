//! Whether a tool may run, by what is recorded of it.

use event::payload::{Effect, ToolResult};
use event::{ForkOrigin, Raw};
use expect_test::expect;
use session::execution::{
    CallAction, decide_call, idempotency_key, input_digest, lost_result, partial_output,
};
use session::{OpenWork, find_execution};

use crate::drafts::{Recorded, id, log, session_id};

fn next(text: &str, key: &str, effect: Effect) -> String {
    let events = log(text);
    let execution = find_execution(&Recorded(&events), key).unwrap();
    match decide_call(execution.as_ref(), &effect) {
        CallAction::Return(result) => format!("return {}", result.seq),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[test]
fn the_key_names_session_answer_tool_index_and_input() {
    let answer = ForkOrigin { session_id: session_id("s"), event_id: id(7) };
    let digest = input_digest(&Raw::parse(r#"{"cmd": "ls"}"#).unwrap());
    expect!["s:01KDWPVNG00000000000000007:bash:1:9cf7c90cf3e0a9de7efc768c1a9e2e18"]
        .assert_eq(&idempotency_key(&answer, "bash", 1, &digest[..32]));
    assert_eq!(digest.len(), 64);
    assert_ne!(digest, input_digest(&Raw::parse(r#"{"cmd":"ls"}"#).unwrap()), "raw bytes count");
}

#[test]
fn the_key_does_not_depend_on_the_call_id() {
    let key = |call_id: &str| {
        let mut open = OpenWork::new(session_id("s"));
        log(&format!("say m1 on it \n call m1 {call_id} bash ls"))
            .iter()
            .for_each(|e| open.apply(e));
        open.calls()[0].execution_key(&open.answer_origin().unwrap())
    };
    assert_eq!(key("c1"), key("toolu_99"));
    assert!(key("c1").starts_with(&format!("s:{}:bash:0:", id(1))));
}

#[test]
fn a_recorded_key_wins_over_a_derived_one() {
    let mut open = OpenWork::new(session_id("s"));
    log("call m1 c1 bash ls \n started c1 bash reconcile").iter().for_each(|e| open.apply(e));
    assert_eq!(open.calls()[0].execution_key(&open.answer_origin().unwrap()), "key-c1");
}

#[test]
fn an_inherited_answer_has_the_keys_of_its_origin() {
    let mut parent = OpenWork::new(session_id("p"));
    crate::drafts::log_of("p", "call m1 c1 bash ls").iter().for_each(|e| parent.apply(e));
    let mut fork = OpenWork::new(session_id("s"));
    let mut shown = log("[origin=p/1] call m1 c1 bash ls");
    shown[0].draft.id = id(50);
    shown.iter().for_each(|e| fork.apply(e));
    let key = |open: &OpenWork| open.calls()[0].execution_key(&open.answer_origin().unwrap());
    assert_eq!(key(&fork), key(&parent));
}

const ASKED: &str = "call m1 c1 bash ls";
const STARTED: &str = "call m1 c1 bash ls \n started c1 bash reconcile";

#[test]
fn nothing_recorded_runs() {
    assert_eq!(next("", "key-c1", Effect::NeverReplay), "run");
    assert_eq!(next(ASKED, "key-c1", Effect::NeverReplay), "run");
    assert_eq!(next(STARTED, "", Effect::NeverReplay), "run", "a blank key names nothing");
}

#[test]
fn a_recorded_result_is_returned_also_an_error() {
    let done = format!(
        "{STARTED} \n tool.result {{\"call_id\":\"c1\",\"idempotency_key\":\"key-c1\",\"outcome\":\"error\",\"error\":\"no\"}}"
    );
    for effect in [Effect::ReplaySafe, Effect::Reconcile, Effect::NeverReplay] {
        assert_eq!(next(&done, "key-c1", effect), "return 3");
    }
}

#[test]
fn a_start_alone_goes_by_effect() {
    let started = |effect: &str| format!("{ASKED} \n started c1 bash {effect}");
    assert_eq!(next(&started("replay_safe"), "key-c1", Effect::ReplaySafe), "run");
    assert_eq!(next(&started("reconcile"), "key-c1", Effect::Reconcile), "askhost");
    assert_eq!(next(&started("never_replay"), "key-c1", Effect::NeverReplay), "refuse");
}

#[test]
fn the_more_careful_effect_counts() {
    assert_eq!(next(STARTED, "key-c1", Effect::ReplaySafe), "askhost");
    assert_eq!(next(STARTED, "key-c1", Effect::NeverReplay), "refuse");
    assert_eq!(next(STARTED, "key-c1", Effect::Other("odd".into())), "refuse");
}

#[test]
fn execution_is_of_the_newest_call() {
    let events = log(r#"
        call m1 c1 bash ls
        started c1 bash replay_safe
        prompt again
        call m2 c1 bash ls
        started c1 bash replay_safe
        started c1 bash replay_safe
        tool.result {"call_id":"c1","idempotency_key":"key-c1","outcome":"ok"}
        tool.result {"call_id":"c1","idempotency_key":"key-c1","outcome":"error"}
    "#);
    let found = find_execution(&Recorded(&events), "key-c1").unwrap().unwrap();
    let seq = |event: Option<event::Event>| event.map(|event| event.seq);
    assert_eq!(
        (seq(found.call), seq(found.started), seq(found.result)),
        (Some(4), Some(6), Some(7))
    );
}

#[test]
fn the_model_is_told_what_was_lost() {
    let result: ToolResult = lost_result("c1", "bash", Some("k".to_owned()), Some("half"));
    expect![[r#"{"call_id":"c1","tool":"bash","idempotency_key":"k","outcome":"lost","output":"half","error":"the call was interrupted; what it did is not known and it was not run again"}"#]]
        .assert_eq(Raw::from_value(&result).unwrap().get());
}

#[test]
fn partial_output_is_of_the_newest_call() {
    let events = log(r#"
        call m1 c1 bash ls
        tool.delta {"call_id":"c1","text":"old"}
        prompt again
        call m2 c1 bash ls
        tool.delta {"call_id":"c1","text":"a"}
        tool.delta {"call_id":"c1","text":"b"}
    "#);
    let output = |upto: usize| partial_output(&Recorded(&events[..upto]), "c1").unwrap();
    assert_eq!(output(6).as_deref(), Some("ab"));
    assert_eq!(output(4), None);
    let replaced = log(r#"
        call m1 c1 bash ls
        tool.delta {"call_id":"c1","text":"a"}
        tool.delta {"call_id":"c1","text":"all","replaces":true}
    "#);
    assert_eq!(partial_output(&Recorded(&replaced), "c1").unwrap().as_deref(), Some("all"));
}
