//! History and news as one stream, without a hole and without a repeat.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::{
    AppendOutcome, Batch, Delivery, FollowError, FollowFrom, ForkPolicy, Journal, OnLag, ReadError,
    Recorded, Selection, Subscription, SubscriptionWaker,
};

use crate::given::{
    PATIENCE, at, fork, host, id, moved, next, next_event, next_events, nothing_more, observe,
    prompt, prompts, read, read_all, recorded_from, session, talk,
};
use crate::world::World;

cases! {
    history_joins_new_events
    session_history_joins_new_events
    follow_now_skips_history
    future_number_is_awaited
    every_subscriber_gets_the_same
    append_needs_no_subscriber
    long_history_is_followed_to_end
    what_was_asked_for_is_never_lag
    lagging_subscriber_catches_up
    lagging_session_subscriber_gets_numbers
    who_skips_is_told_the_exact_gap
    gap_can_be_read_afterwards
    second_lag_is_announced_again
    fork_is_followed_with_inherited_events
    only_what_is_recorded_is_delivered
    delivered_events_are_recorded
    subscribers_come_and_go_during_appends
    session_is_followed_before_it_begins
    deleted_history_is_skipped
    deletion_ends_followers
    closed_stream_drains_first
    nothing_comes_after_closing
    a_dropped_stream_is_not_counted
    waiting_ends_when_something_comes
    waiting_ends_with_its_patience
    who_waits_can_be_woken
}

fn follow(journal: &Journal, from: FollowFrom) -> Subscription {
    journal.follow(from, OnLag::CatchUp).unwrap()
}

fn follow_session(journal: &Journal, name: &str, from: FollowFrom) -> Subscription {
    journal.follow_session(&session(name), from, OnLag::CatchUp).unwrap()
}

fn positions(events: &[Recorded]) -> Vec<u64> {
    events.iter().map(|recorded| recorded.position).collect()
}

fn seqs(events: &[Recorded]) -> Vec<u64> {
    events.iter().map(|recorded| recorded.event.seq).collect()
}

fn history_joins_new_events(world: World) {
    const BEFORE: u64 = 4;
    const AFTER: u64 = 3;
    let mut number = 0;
    let mut say = |count| {
        let first = number + 1;
        number += count;
        world.append(Batch::hosted().with_all(prompts("a", first..=number))).unwrap();
        number
    };
    for begin in 1..=BEFORE + 2 {
        for taken_before in 0..=BEFORE {
            let tail = say(BEFORE);
            let start = tail - BEFORE + begin;
            let mut stream = follow(&world, FollowFrom::At(start));
            let available = (tail + 1).saturating_sub(start).min(taken_before);
            let mut found = next_events(&mut stream, available as usize);
            let tail = say(AFTER);
            found.extend(next_events(&mut stream, (tail + 1 - start - available) as usize));
            assert_eq!(positions(&found), (start..=tail).collect::<Vec<_>>());
            nothing_more(&mut stream);
        }
    }
}

fn session_history_joins_new_events(world: World) {
    let mut number = 0;
    let mut say = || {
        number += 1;
        let drafts = [prompt("b", 2 * number), prompt("a", number), prompt("b", 2 * number + 1)];
        world.append(Batch::hosted().with_all(drafts)).unwrap();
        number
    };
    for _ in 0..4 {
        say();
    }
    for back in 0..=4 {
        for taken in 0..=back {
            let tail = say();
            let start = tail + 1 - back;
            let mut stream = follow_session(&world, "a", FollowFrom::At(start));
            let mut found = next_events(&mut stream, taken as usize);
            say();
            let tail = say();
            found.extend(next_events(&mut stream, (tail + 1 - start - taken) as usize));
            assert_eq!(seqs(&found), (start..=tail).collect::<Vec<_>>());
            assert!(found.iter().all(|recorded| recorded.event.session_id == session("a")));
            nothing_more(&mut stream);
        }
    }
}

fn follow_now_skips_history(world: World) {
    talk(&world, "a", 3);
    let mut all = follow(&world, FollowFrom::Now);
    let mut one = follow_session(&world, "a", FollowFrom::Now);
    let mut later = follow_session(&world, "a", FollowFrom::At(3));
    host(&world, prompt("a", 4));
    for stream in [&mut all, &mut one] {
        assert_eq!(next_event(stream).event, prompt("a", 4).with_seq(4));
        nothing_more(stream);
    }
    assert_eq!(seqs(&next_events(&mut later, 2)), [3, 4]);
}

fn future_number_is_awaited(world: World) {
    talk(&world, "a", 1);
    let mut stream = follow_session(&world, "a", FollowFrom::At(4));
    for n in 2..=5 {
        host(&world, prompt("a", n));
        if n < 4 {
            nothing_more(&mut stream);
        }
    }
    assert_eq!(seqs(&next_events(&mut stream, 2)), [4, 5]);
    nothing_more(&mut stream);
}

fn every_subscriber_gets_the_same(world: World) {
    host(&world, prompt("a", 1));
    let mut streams = vec![
        follow(&world, FollowFrom::Now),
        follow(&world, FollowFrom::Now),
        follow_session(&world, "a", FollowFrom::Now),
    ];
    assert_eq!(world.subscriber_count(), 3);
    host(&world, prompt("a", 2));
    for stream in &mut streams {
        let expected = Recorded { position: 2, event: prompt("a", 2).with_seq(2) };
        assert_eq!(next_event(stream), expected);
        nothing_more(stream);
    }
}

fn append_needs_no_subscriber(world: World) {
    host(&world, prompt("a", 1));
    assert_eq!(world.subscriber_count(), 0);
    let mut stream = follow(&world, FollowFrom::Beginning);
    assert_eq!(next_event(&mut stream).position, 1);
}

fn long_history_is_followed_to_end(world: World) {
    talk(&world, "a", 2_500);
    talk(&world, "b", 10);
    let mut all = follow(&world, FollowFrom::Beginning);
    assert_eq!(positions(&next_events(&mut all, 2_510)), (1..=2_510).collect::<Vec<_>>());
    nothing_more(&mut all);
    let mut one = follow_session(&world, "a", FollowFrom::Beginning);
    assert_eq!(seqs(&next_events(&mut one, 2_500)), (1..=2_500).collect::<Vec<_>>());
    nothing_more(&mut one);
    host(&world, prompt("a", 2_501));
    assert_eq!(next_event(&mut all).position, 2_511);
    assert_eq!(next_event(&mut one).event.seq, 2_501);
}

/// Lag is what a subscriber did not take; the history it asks for is none.
fn what_was_asked_for_is_never_lag(world: World) {
    talk(&world, "a", 1_500);
    for on_lag in [OnLag::CatchUp, OnLag::Skip] {
        let mut all = world.follow(FollowFrom::Beginning, on_lag).unwrap();
        assert_eq!(positions(&next_events(&mut all, 1_500)), (1..=1_500).collect::<Vec<_>>());
        let mut one = world.follow_session(&session("a"), FollowFrom::At(100), on_lag).unwrap();
        assert_eq!(seqs(&next_events(&mut one, 1_401)), (100..=1_500).collect::<Vec<_>>());
    }
}

fn lagging_subscriber_catches_up(world: World) {
    let mut stream = follow(&world, FollowFrom::Now);
    for n in 1..=1_100 {
        host(&world, prompt("a", n));
    }
    assert_eq!(next(&mut stream), Delivery::Behind { from: 1, to: 1_100 });
    assert_eq!(positions(&next_events(&mut stream, 1_100)), (1..=1_100).collect::<Vec<_>>());
    nothing_more(&mut stream);
    host(&world, prompt("a", 1_101));
    assert_eq!(next_event(&mut stream).position, 1_101);
}

fn lagging_session_subscriber_gets_numbers(world: World) {
    talk(&world, "b", 7);
    talk(&world, "a", 2);
    let mut stream = follow_session(&world, "a", FollowFrom::Now);
    talk(&world, "c", 1_500);
    world.append(Batch::hosted().with_all(prompts("a", 3..=1_200))).unwrap();
    assert_eq!(next(&mut stream), Delivery::Behind { from: 3, to: 1_200 });
    assert_eq!(seqs(&next_events(&mut stream, 1_198)), (3..=1_200).collect::<Vec<_>>());
    nothing_more(&mut stream);
}

fn who_skips_is_told_the_exact_gap(world: World) {
    host(&world, prompt("a", 1));
    let mut stream = world.follow_session(&session("a"), FollowFrom::Now, OnLag::Skip).unwrap();
    host(&world, prompt("a", 2));
    assert_eq!(next_event(&mut stream).event.seq, 2);
    world.append(Batch::hosted().with_all(prompts("a", 3..=1_102))).unwrap();
    let Delivery::Gap { from, to, count } = next(&mut stream) else {
        panic!("a gap was expected");
    };
    assert_eq!((from, to, count), (3, 1_102 - 1_024, 1_102 - 1_024 - 2));
    let rest = 1_102 - to;
    assert_eq!(
        seqs(&next_events(&mut stream, rest as usize)),
        (to + 1..=1_102).collect::<Vec<_>>()
    );
    nothing_more(&mut stream);
    let missed = read(&world, "a", Selection::after(from - 1).up_to(to));
    assert_eq!(missed.len() as u64, count);
}

fn gap_can_be_read_afterwards(world: World) {
    let mut stream = world.follow(FollowFrom::Now, OnLag::Skip).unwrap();
    talk(&world, "a", 2_000);
    let Delivery::Gap { from, to, count } = next(&mut stream) else {
        panic!("a gap was expected");
    };
    let mut found = recorded_from(&world, from);
    found.truncate(count as usize);
    assert_eq!(found.last().unwrap().position, to);
    found.extend(next_events(&mut stream, 2_000 - found.len()));
    assert_eq!(positions(&found), (1..=2_000).collect::<Vec<_>>());
}

fn second_lag_is_announced_again(world: World) {
    let mut stream = follow(&world, FollowFrom::Now);
    for round in 0..2 {
        let first = round * 1_100 + 1;
        let last = first + 1_099;
        world.append(Batch::hosted().with_all(prompts("a", first..=last))).unwrap();
        assert_eq!(next(&mut stream), Delivery::Behind { from: first, to: last });
        assert_eq!(positions(&next_events(&mut stream, 1_100)), (first..=last).collect::<Vec<_>>());
        nothing_more(&mut stream);
    }
}

fn fork_is_followed_with_inherited_events(world: World) {
    talk(&world, "a", 3);
    host(&world, fork("b", 4, "a", 2));
    let mut stream = follow_session(&world, "b", FollowFrom::Beginning);
    host(&world, prompt("a", 4));
    host(&world, prompt("b", 5));
    let found: Vec<_> = next_events(&mut stream, 4).into_iter().map(|r| r.event).collect();
    assert_eq!(found, read_all(&world, "b"));
    nothing_more(&mut stream);
    let mut own = follow_session(&world, "b", FollowFrom::Now);
    host(&world, prompt("b", 6));
    assert_eq!(next_event(&mut own).event.seq, 5);
}

fn only_what_is_recorded_is_delivered(world: World) {
    talk(&world, "a", 2);
    let mut stream = follow(&world, FollowFrom::Now);
    let mut other = prompt("a", 2);
    other.text = Some("something else".to_owned());
    let refused = Batch::hosted().with_all([prompt("a", 3), other.clone()]);
    assert!(world.append(refused).is_err());
    let already = AppendOutcome::AlreadyRecorded { differs: true };
    assert_eq!(observe(&world, other).outcome, already);
    world.append(Batch::observed().from_source(moved("file", None, "1"))).unwrap();
    world.advance_consumer("me", 1).unwrap();
    nothing_more(&mut stream);
    host(&world, prompt("a", 4));
    assert_eq!(next_event(&mut stream).event.id, id("a", 4));
}

fn delivered_events_are_recorded(world: World) {
    host(&world, prompt("a", 1));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut stream = follow(&world, FollowFrom::Now);
            let world = &world;
            scope.spawn(move || {
                for expected in 2..=300 {
                    let Recorded { position, event } = next_event(&mut stream);
                    assert_eq!(position, expected);
                    assert!(world.tail().unwrap() >= position);
                    assert_eq!(world.event(&session("a"), event.id).unwrap(), event);
                }
            });
        }
        for n in 2..=300 {
            host(&world, prompt("a", n));
        }
    });
}

fn subscribers_come_and_go_during_appends(world: World) {
    const APPENDERS: u64 = 8;
    const EACH: u64 = 200;
    let mut staying = follow(&world, FollowFrom::Now);
    let is_done = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let staying = scope.spawn(move || {
            let mut found = Vec::new();
            while found.len() < (APPENDERS * EACH) as usize {
                match next(&mut staying) {
                    Delivery::Event(recorded) => found.push(Recorded::clone(&recorded)),
                    Delivery::Behind { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            found
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    let mut stream = follow(&world, FollowFrom::Now);
                    let mut last = None;
                    for _ in 0..5 {
                        match stream.next_within(Duration::from_millis(1)).unwrap() {
                            Some(Delivery::Event(recorded)) => {
                                assert!(last.is_none_or(|last| recorded.position == last + 1));
                                last = Some(recorded.position);
                            }
                            Some(Delivery::Behind { .. }) | None => {}
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
        let appenders: Vec<_> = (0..APPENDERS)
            .map(|appender| {
                let world = &world;
                scope.spawn(move || {
                    let name = format!("s{}", appender % 3);
                    for n in 1..=EACH {
                        host(world, prompt(&name, appender * 1_000 + n));
                    }
                })
            })
            .collect();
        for appender in appenders {
            appender.join().unwrap();
        }
        is_done.store(true, Ordering::Release);
        staying.join().unwrap()
    });
    assert_eq!(found, recorded_from(&world, 1));
    assert_eq!(positions(&found), (1..=APPENDERS * EACH).collect::<Vec<_>>());
    assert_eq!(world.subscriber_count(), 0);
}

fn session_is_followed_before_it_begins(world: World) {
    talk(&world, "other", 1);
    let mut stream =
        world.follow_when_begun(&session("a"), FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    nothing_more(&mut stream);
    talk(&world, "other", 2);
    nothing_more(&mut stream);
    talk(&world, "a", 2);
    assert_eq!(seqs(&next_events(&mut stream, 2)), [1, 2]);
    nothing_more(&mut stream);
}

fn deletion_ends_followers(world: World) {
    talk(&world, "a", 2);
    let mut stream = follow_session(&world, "a", FollowFrom::Beginning);
    next_events(&mut stream, 2);
    world.delete(&session("a"), at(9), ForkPolicy::Refuse).unwrap();
    talk(&world, "b", 1);
    match stream.next_within(PATIENCE) {
        Err(FollowError::Failed(ReadError::SessionNotFound(id))) => assert_eq!(id, session("a")),
        other => panic!("{other:?}"),
    }
}

fn deleted_history_is_skipped(world: World) {
    talk(&world, "a", 2);
    talk(&world, "b", 3);
    talk(&world, "c", 1);
    talk(&world, "d", 2);
    for name in ["b", "d"] {
        world.delete(&session(name), at(9), ForkPolicy::Refuse).unwrap();
    }
    let mut stream = follow(&world, FollowFrom::Beginning);
    assert_eq!(positions(&next_events(&mut stream, 3)), [1, 2, 6]);
    nothing_more(&mut stream);
    host(&world, prompt("a", 3));
    assert_eq!(positions(&next_events(&mut stream, 1)), [9]);
    nothing_more(&mut stream);
}

fn closed_stream_drains_first(world: World) {
    host(&world, prompt("a", 1));
    for from in [FollowFrom::Now, FollowFrom::Beginning] {
        let mut stream = follow(&world, from);
        if from == FollowFrom::Beginning {
            next_event(&mut stream);
        }
        let tail = world.tail().unwrap();
        host(&world, prompt("a", tail + 1));
        host(&world, prompt("a", tail + 2));
        stream.close();
        stream.close();
        if from == FollowFrom::Now {
            assert_eq!(positions(&next_events(&mut stream, 2)), [tail + 1, tail + 2]);
        } else {
            assert_eq!(next_events(&mut stream, tail as usize + 1).len() as u64, tail + 1);
        }
        assert!(stream.next().is_none());
        assert!(stream.next().is_none());
    }
}

fn nothing_comes_after_closing(world: World) {
    host(&world, prompt("a", 1));
    let mut one = follow_session(&world, "a", FollowFrom::Now);
    let mut all = follow(&world, FollowFrom::Now);
    one.close();
    all.close();
    host(&world, prompt("a", 2));
    for stream in [&mut one, &mut all] {
        assert!(matches!(stream.next_within(Duration::ZERO), Err(FollowError::Closed)));
    }
}

fn a_dropped_stream_is_not_counted(world: World) {
    host(&world, prompt("a", 1));
    let mut streams: Vec<_> =
        (0..100).map(|_| follow_session(&world, "a", FollowFrom::Now)).collect();
    assert_eq!(world.subscriber_count(), 100);
    streams.truncate(1);
    assert_eq!(world.subscriber_count(), 1);
    streams.clear();
    assert_eq!(world.subscriber_count(), 0);
}

fn waiting_ends_when_something_comes(world: World) {
    let mut stream = follow(&world, FollowFrom::Now);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || stream.next().unwrap().unwrap());
        host(&world, prompt("a", 1));
        let Delivery::Event(recorded) = waiting.join().unwrap() else {
            panic!("an event was expected");
        };
        assert_eq!(recorded.position, 1);
    });
}

fn waiting_ends_with_its_patience(world: World) {
    let mut stream = follow(&world, FollowFrom::Now);
    assert_eq!(stream.next_within(Duration::from_millis(5)).unwrap(), None);
    assert_eq!(stream.next_within(Duration::ZERO).unwrap(), None);
}

fn who_waits_can_be_woken(world: World) {
    let waker = SubscriptionWaker::default();
    let mut stream = follow(&world, FollowFrom::Now).with_waker(&waker);
    let for_ever = Duration::from_secs(3_600);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| stream.next_within(for_ever).unwrap());
        waker.wake();
        assert_eq!(waiting.join().unwrap(), None);
    });
    waker.wake();
    assert_eq!(stream.next_within(for_ever).unwrap(), None, "before it waits");
    host(&world, prompt("a", 1));
    waker.wake();
    assert!(
        matches!(stream.next_within(for_ever).unwrap(), Some(Delivery::Event(_))),
        "news first"
    );
}
