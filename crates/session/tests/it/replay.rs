//! Streams folded into sessions that exist only in memory.

use event::{Event, Raw};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use session::{LiveState, Reduced, Reducer, Replay, ReplayError};

use crate::drafts::{drafts, id, log, log_of, numbered, session_id};
use crate::open_work::{any_log, cases};

/// Counts events, and adds up the numbers their metadata carries.
#[derive(Clone)]
struct Counting;

impl Reducer for Counting {
    type State = (u64, f64);

    fn initial_state(&self) -> (u64, f64) {
        (0, 0.0)
    }

    fn apply(&self, state: &mut (u64, f64), event: &Event) {
        state.0 += 1;
        let weight = event.metadata.get("weight").and_then(|raw: &Raw| raw.read::<f64>().ok());
        state.1 += weight.unwrap_or_default();
    }
}

#[track_caller]
fn fails(result: Result<(), ReplayError>, expected: Expect) {
    expected.assert_eq(&numbered(&result.unwrap_err().to_string()));
}

#[test]
fn a_blank_target_takes_the_first_events_id() {
    let mut replay = Replay::with_reducer(Counting, None);
    assert!(replay.session().is_none());
    replay.run(log_of("t", "prompt a \n prompt b")).unwrap();
    assert_eq!(*replay.session().unwrap().open_work.session_id(), session_id("t"));
    assert_eq!(replay.state().0, 2);
}

#[test]
fn an_empty_stream_gives_an_empty_session() {
    let mut replay = Replay::for_session(session_id("t"));
    replay.run([]).unwrap();
    assert_eq!(*replay.session().unwrap(), LiveState::new(session_id("t")));
}

#[test]
fn the_first_error_stops_and_names_the_event() {
    let mut replay = Replay::for_session(session_id("s"));
    fails(
        replay.run(log("prompt a \n [session=t] prompt b \n prompt c")),
        expect!["event #2 is of session `t`, not of `s`"],
    );
    assert_eq!(replay.session().unwrap().up_to_seq(), 1);
}

#[test]
fn numbers_must_have_no_gaps() {
    let mut replay = Replay::new();
    fails(
        replay.run(log("prompt a \n prompt b").into_iter().skip(1)),
        expect!["event #2 has seq 2 where 1 must follow"],
    );
    let mut replay = Replay::new();
    let events = log("prompt a \n prompt b \n prompt c");
    fails(
        replay.run([events[0].clone(), events[2].clone()]),
        expect!["event #3 has seq 3 where 2 must follow"],
    );
}

#[test]
fn without_numbers_the_order_counts() {
    let mut replay = Replay::new();
    for draft in drafts(1, "prompt a \n prompt b") {
        replay.apply_draft(draft).unwrap();
    }
    assert_eq!(replay.session().unwrap().up_to_seq(), 2);
}

#[test]
fn a_line_may_lack_session_and_seq() {
    let line = |n: u64, more: &str| {
        format!(
            r#"{{"id":"{}","kind":"user.prompt","created_at":"2026-01-01T12:00:00Z","data":{{"content":"hi"}}{more}}}"#,
            id(n)
        )
    };
    let mut replay = Replay::for_session(session_id("s"));
    replay.apply_line(&line(1, "")).unwrap();
    replay.apply_line(&line(2, r#","session_id":"","seq":2"#)).unwrap();
    replay.apply_line(&line(3, r#","session_id":"s""#)).unwrap();
    let live = replay.session().unwrap();
    assert_eq!((live.up_to_seq(), live.latest.event()), (3, Some((3, id(3)))));
    fails(
        replay.apply_line(&line(4, r#","seq":9"#)),
        expect!["event #4 has seq 9 where 4 must follow"],
    );
    fails(replay.apply_line("{"), expect!["the event after 3 cannot be read"]);
    fails(
        replay.apply_line(&line(4, r#","session_id":"t""#)),
        expect!["event #4 is of session `t`, not of `s`"],
    );
    fails(
        Replay::new().apply_line(&line(1, "")),
        expect!["event #1 names no session, and neither does the replay"],
    );
}

fn live(text: &str) -> LiveState {
    let mut replay = Replay::for_session(session_id("s"));
    replay.run(log(text)).unwrap();
    replay.session().unwrap().clone()
}

#[test]
fn costs_are_own_inherited_and_total() {
    let cost = live("[origin=p/1 cost=0.1] prompt a \n [cost=0.2] say m1 b \n prompt c").cost;
    let cost = (cost.own.to_string(), cost.inherited.to_string(), cost.total().to_string());
    assert_eq!(cost, ("0.2".to_owned(), "0.1".to_owned(), "0.3".to_owned()));
}

#[test]
fn amendment_replaces_the_cost() {
    let total = |text: &str| live(text).cost.total().to_string();
    assert_eq!(total("[cost=0.1] say m1 a \n [cost=0.3 amends=1] say m1 ab"), "0.3");
    assert_eq!(total("[cost=0.1] say m1 a \n [amends=1] say m1 ab"), "0.1");
    assert_eq!(total("say m1 a \n [cost=0.3 amends=1] say m1 ab"), "0.3");
    let chain = "[cost=0.1] say m1 a \n [cost=0.2 amends=1] say m1 ab \n";
    assert_eq!(total(&format!("{chain} [cost=0.3 amends=1] say m1 abc")), "0.3");
    assert_eq!(total(&format!("{chain} [cost=0.3 amends=2] say m1 abc")), "0.3");
}

#[test]
fn the_last_answer_has_substance_and_no_calls() {
    let answer = |text: &str| {
        let live = live(text);
        live.latest.answer().map(|place| (place.first_seq, place.last_seq))
    };
    let valid = "prompt a \n think m1 hm \n say m1 b";
    assert_eq!(answer(""), None);
    assert_eq!(answer("prompt a \n call m1 c1 bash ls"), None);
    assert_eq!(answer(valid), Some((2, 3)));
    let empty = r#"assistant.message {"message_id":"m2","block":0,"content":" "}"#;
    assert_eq!(answer(&format!("{valid} \n {empty}")), Some((2, 3)));
    assert_eq!(answer(&format!("{valid} \n say m2 c \n call m2 c1 bash ls")), Some((2, 3)));
    assert_eq!(answer(&format!("{valid} \n prompt d \n say m2 e")), Some((5, 5)));
    assert_eq!(answer(&format!("{valid} \n [amends=3] say m1 b, in full")), Some((2, 4)));
}

#[test]
fn the_last_message_is_the_newest_of_the_talk() {
    let message = |text: &str| {
        let live = live(text);
        let place = live.latest.message().unwrap();
        (place.kind.to_string(), place.first_seq, place.last_seq)
    };
    let talk = "prompt a \n say m1 b \n call m1 c1 bash ls";
    assert_eq!(message(talk), ("assistant.message".to_owned(), 2, 3));
    let result = format!("{talk} \n result c1 ok done \n note {{}} \n context generic x");
    assert_eq!(message(&result), ("tool.result".to_owned(), 4, 4));
    let amended = format!("{talk} \n [amends=1] prompt a, in full");
    assert_eq!(message(&amended), ("assistant.message".to_owned(), 2, 3));
}

#[test]
fn two_reducers_see_the_same_events() {
    let mut reduced = Reduced::new((Counting, Counting));
    let events = log("prompt a \n prompt b");
    events.iter().chain(&events).for_each(|event| reduced.apply(event));
    assert_eq!(reduced.state().0.0, 2, "what was seen is not seen again");
    assert_eq!(reduced.state().0, reduced.state().1);
    assert_eq!(reduced.up_to_seq(), 2);
}

#[test]
fn a_reducer_sees_metadata_live_and_replayed() {
    let mut events = log("prompt a \n prompt b");
    events[1].draft.metadata.insert("weight".to_owned(), Raw::parse("2.0").unwrap());
    let mut live = Reduced::new(Counting);
    events.iter().for_each(|event| live.apply(event));
    let mut replay = Replay::with_reducer(Counting, None);
    for event in &events {
        replay.apply_line(&event.encode()).unwrap();
    }
    assert_eq!(live.into_state(), (2, 2.0));
    assert_eq!(replay.into_state(), (2, 2.0));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn live_and_replayed_state_are_equal(events in any_log(), split in 0..40usize) {
        let mut whole = Replay::with_reducer(Counting, Some(session_id("s")));
        whole.run(events.clone()).unwrap();

        // One state is saved on the way and loaded again; the other is replayed from lines.
        let split = split.min(events.len());
        let mut live = Replay::for_session(session_id("s"));
        live.run(events[..split].to_vec()).unwrap();
        let saved = serde_json::to_string(live.session().unwrap()).unwrap();
        let mut live: LiveState = serde_json::from_str(&saved).unwrap();
        for event in &events[split..] {
            let instead_of = event.amends().and_then(|first| counted(&events, event.seq, first));
            live.apply(event, instead_of);
        }
        prop_assert_eq!(whole.session().unwrap(), &live);

        let mut lines = Replay::with_reducer(Counting, Some(session_id("s")));
        for event in &events {
            lines.apply_line(&event.encode()).unwrap();
        }
        prop_assert_eq!(lines.session().unwrap(), &live);
        prop_assert_eq!(lines.state(), whole.state());
    }
}

/// What was counted for an event before `seq`, told from the whole log.
fn counted(events: &[Event], seq: u64, first: event::EventId) -> Option<event::Cost> {
    let before = &events[..seq as usize - 1];
    before
        .iter()
        .filter(|event| event.id == first || event.amends() == Some(first))
        .fold(None, |cost, event| event.cost.or(cost))
}
