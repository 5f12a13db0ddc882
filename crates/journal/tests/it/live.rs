//! Live events: not stored, merged until they are read, never in the way of recorded ones.

use std::sync::Arc;

use event::Draft;
use journal::{Delivery, FollowFrom, LiveEvent, OnLag, Subscription};

use crate::given::{fact, host, next, next_event, nothing_more, prompt, session};
use crate::world::World;

cases! {
    live_events_are_not_stored
    deltas_of_block_are_merged
    unrelated_deltas_stay_apart
    replacing_tool_delta_stands_alone
    heartbeats_are_merged
    read_live_event_is_final
    late_subscriber_misses_no_live_event
    recorded_event_splits_live_ones
    a_session_hears_only_its_own
    merged_text_stays_bounded
    live_events_evict_no_recorded_ones
    nobody_listening_costs_nothing
}

fn said(name: &str, block: u32, text: &str) -> Draft {
    let data = format!(r#"{{"message_id":"m","block":{block},"text":"{text}"}}"#);
    fact(name, 1, "assistant.delta", &data)
}

fn printed(call: &str, text: &str, replaces: bool) -> Draft {
    let data =
        format!(r#"{{"call_id":"{call}","tool":"bash","text":"{text}","replaces":{replaces}}}"#);
    fact("a", 1, "tool.delta", &data)
}

/// The texts of the live items that wait, with what each was merged from.
#[track_caller]
fn heard(stream: &mut Subscription, count: usize) -> Vec<(String, u64)> {
    #[derive(serde::Deserialize)]
    struct Text {
        text: String,
    }
    let items = (0..count).map(|_| {
        let live = next_live(stream);
        (live.draft.data.read::<Text>().unwrap().text, live.merged)
    });
    let items = items.collect();
    nothing_more(stream);
    items
}

#[track_caller]
fn next_live(stream: &mut Subscription) -> Arc<LiveEvent> {
    match next(stream) {
        Delivery::Live(live) => live,
        other => panic!("a live item was expected, not {other:?}"),
    }
}

fn follow(world: &World) -> Subscription {
    world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap()
}

fn live_events_are_not_stored(world: World) {
    let mut stream = follow(&world);
    let delta = said("a", 0, "hello");
    world.publish_live(delta.clone());
    assert_eq!(*next_live(&mut stream), LiveEvent { draft: delta, merged: 1 });
    assert_eq!(world.tail().unwrap(), 0);
    assert!(!world.exists(&session("a")).unwrap());
}

fn deltas_of_block_are_merged(world: World) {
    let mut stream = follow(&world);
    for text in ["he", "ll", "o"] {
        world.publish_live(said("a", 0, text));
    }
    assert_eq!(heard(&mut stream, 1), [("hello".to_owned(), 3)]);
}

fn unrelated_deltas_stay_apart(world: World) {
    let mut stream = follow(&world);
    world.publish_live(said("a", 0, "1"));
    world.publish_live(said("a", 1, "2"));
    world.publish_live(said("b", 1, "3"));
    world.publish_live(printed("x", "4", false));
    world.publish_live(printed("y", "5", false));
    let expected = ["1", "2", "3", "4", "5"].map(|text| (text.to_owned(), 1));
    assert_eq!(heard(&mut stream, 5), expected);
}

fn replacing_tool_delta_stands_alone(world: World) {
    let mut stream = follow(&world);
    world.publish_live(printed("x", "10 %", false));
    world.publish_live(printed("x", "20 %", true));
    world.publish_live(printed("x", " done", false));
    assert_eq!(heard(&mut stream, 1), [("20 % done".to_owned(), 3)]);
}

fn heartbeats_are_merged(world: World) {
    let mut stream = follow(&world);
    for n in 1..=4 {
        world.publish_live(fact("a", n, "heartbeat", "null"));
    }
    let live = next_live(&mut stream);
    assert_eq!((live.merged, live.draft.created_at), (4, crate::given::at(4)));
    nothing_more(&mut stream);
}

fn read_live_event_is_final(world: World) {
    let mut quick = follow(&world);
    let mut slow = follow(&world);
    world.publish_live(said("a", 0, "1"));
    assert_eq!(heard(&mut quick, 1), [("1".to_owned(), 1)]);
    world.publish_live(said("a", 0, "2"));
    world.publish_live(said("a", 0, "3"));
    assert_eq!(heard(&mut quick, 1), [("23".to_owned(), 2)]);
    assert_eq!(heard(&mut slow, 2), [("1".to_owned(), 1), ("23".to_owned(), 2)]);
}

fn late_subscriber_misses_no_live_event(world: World) {
    let mut first = follow(&world);
    world.publish_live(said("a", 0, "1"));
    let mut second = follow(&world);
    world.publish_live(said("a", 0, "2"));
    assert_eq!(heard(&mut second, 1), [("2".to_owned(), 1)]);
    assert_eq!(heard(&mut first, 2), [("1".to_owned(), 1), ("2".to_owned(), 1)]);
}

fn recorded_event_splits_live_ones(world: World) {
    let mut stream = follow(&world);
    world.publish_live(said("a", 0, "1"));
    host(&world, prompt("a", 1));
    world.publish_live(said("a", 0, "2"));
    next_live(&mut stream);
    assert_eq!(next_event(&mut stream).position, 1);
    assert_eq!(heard(&mut stream, 1), [("2".to_owned(), 1)]);
}

fn a_session_hears_only_its_own(world: World) {
    host(&world, prompt("a", 1));
    let mut stream = world.follow_session(&session("a"), FollowFrom::Now, OnLag::CatchUp).unwrap();
    world.publish_live(said("b", 0, "no"));
    world.publish_live(said("a", 0, "yes"));
    world.publish_live(said("b", 0, "no"));
    assert_eq!(heard(&mut stream, 1), [("yes".to_owned(), 1)]);
}

fn merged_text_stays_bounded(world: World) {
    let mut stream = follow(&world);
    let kilobyte = "~".repeat(1_024);
    for _ in 0..200 {
        world.publish_live(said("a", 0, &kilobyte));
    }
    let (mut text, mut merged) = (0, 0);
    while merged < 200 {
        let live = next_live(&mut stream);
        let len = live.draft.data.get().len();
        assert!(len < 70 * 1_024, "{len}");
        text += live.draft.data.get().matches('~').count();
        merged += live.merged;
    }
    nothing_more(&mut stream);
    assert_eq!((text, merged), (200 * 1_024, 200));
}

fn live_events_evict_no_recorded_ones(world: World) {
    let mut stream = follow(&world);
    host(&world, prompt("a", 1));
    for block in 0..3_000 {
        world.publish_live(said("a", block, "x"));
    }
    assert_eq!(next_event(&mut stream).position, 1);
    next_live(&mut stream);
}

fn nobody_listening_costs_nothing(world: World) {
    world.publish_live(said("a", 0, "unheard"));
    let mut stream = follow(&world);
    nothing_more(&mut stream);
}
