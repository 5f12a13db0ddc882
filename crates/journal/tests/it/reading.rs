//! A session as a range of events, in both orders, while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use event::{Confidence, Cost, Draft, Event, EventId, Kind, Raw, SessionId, Source, Time};
use journal::{
    AppendOutcome, Batch, Delivery, FollowFrom, Journal, LineageError, OnLag, ReadError, Recorded,
    Selection,
};

use crate::given::{
    at, fact, fork, host, id, ids, next, prompt, prompts, read, read_all, recorded_from, seqs,
    session, talk,
};
use crate::world::World;

cases! {
    range_by_seq_is_inclusive
    ranges_by_time_hold_both_ends
    kinds_filter_events
    own_events_of_a_kind_are_found_in_long_sessions
    filters_combine_in_both_orders
    a_reading_can_stop_anywhere
    read_sees_state_at_its_start
    read_beside_writer_has_no_gap
    an_unknown_session_is_not_found
    an_unknown_event_is_not_found
    an_event_is_found_by_its_id
    order_is_the_order_of_appending
    largest_id_is_valid
    every_field_comes_back_as_it_was
    an_empty_field_is_an_absent_one
    payloads_come_back_byte_for_byte
    extreme_times_read_back
    metadata_is_there_on_every_path
    positions_go_over_all_sessions
    read_begins_at_position
}

/// The same session twice: told by itself, and as a fork that inherits a part of it.
fn plain_and_inherited(world: &World) -> [&'static str; 2] {
    talk(world, "plain", 6);
    talk(world, "root", 2);
    world
        .append(Batch::hosted().with(fork("middle", 3, "root", 2)).with(prompt("middle", 4)))
        .unwrap();
    world
        .append(Batch::hosted().with(fork("leaf", 5, "middle", 4)).with(prompt("leaf", 6)))
        .unwrap();
    ["plain", "leaf"]
}

fn range_by_seq_is_inclusive(world: World) {
    for name in plain_and_inherited(&world) {
        let all = read_all(&world, name);
        assert_eq!(seqs(&all), [1, 2, 3, 4, 5, 6]);
        for from in (0..=8).chain([u64::MAX]) {
            for to in (0..=8).chain([u64::MAX]) {
                let selection = Selection { from_seq: from, to_seq: to, ..Selection::all() };
                let inside = |event: &&Event| (from..=to).contains(&event.seq);
                let mut expected: Vec<Event> = all.iter().filter(inside).cloned().collect();
                assert_eq!(read(&world, name, selection.clone()), expected, "{from}..={to}");
                expected.reverse();
                let backwards = read(&world, name, selection.newest_first());
                assert_eq!(backwards, expected, "{from}..={to}");
            }
        }
        assert_eq!(read(&world, name, Selection::after(4)), all[4..]);
        assert_eq!(read(&world, name, Selection::after(u64::MAX)), []);
        assert_eq!(read(&world, name, Selection::all().up_to(2)), all[..2]);
    }
}

fn ranges_by_time_hold_both_ends(world: World) {
    for name in plain_and_inherited(&world) {
        for since in 0..=8 {
            for until in 0..=8 {
                let selection = Selection {
                    since: Some(at(since)),
                    until: Some(at(until)),
                    ..Selection::all()
                };
                let expected: Vec<u64> =
                    (1..=6).filter(|n| (since..=until).contains(&(*n as i64))).collect();
                assert_eq!(seqs(&read(&world, name, selection)), expected);
            }
        }
    }
    let nearly = Time::from_nanos(at(3).nanos() - 1);
    let selection = Selection { until: Some(nearly), ..Selection::all() };
    assert_eq!(seqs(&read(&world, "plain", selection)), [1, 2]);
}

fn kinds_filter_events(world: World) {
    for (n, kind) in (1..).zip(["note", "user.prompt", "weather.changed", "note", "error"]) {
        host(&world, fact("a", n, kind, "{}"));
    }
    let of = |kinds: &[&str]| {
        let kinds = kinds.iter().map(|kind| Kind::from(*kind));
        seqs(&read(&world, "a", Selection::all().of_kinds(kinds)))
    };
    assert_eq!(of(&["note"]), [1, 4]);
    assert_eq!(of(&["weather.changed", "error"]), [3, 5]);
    assert_eq!(of(&["compaction"]), [0; 0]);
    assert_eq!(of(&[]), [1, 2, 3, 4, 5]);
}

fn own_events_of_a_kind_are_found_in_long_sessions(world: World) {
    let asked = |name: &str, n: u64| fact(name, n, "child.requested", r#"{"child_id":"c"}"#);
    for name in ["long", "other"] {
        host(&world, asked(name, 9_001));
        talk(&world, name, 2_100);
        host(&world, asked(name, 9_002));
    }
    world.append(Batch::hosted().with(fork("leaf", 1, "long", 2_102))).unwrap();
    host(&world, asked("leaf", 9_003));
    let found = |name: &str| {
        seqs(
            &world.own_events(&session(name), &[Kind::ChildRequested, Kind::ChildStarted]).unwrap(),
        )
    };
    // First while the index may not have reached the end, then with all of it.
    for _ in 0..2 {
        assert_eq!(found("long"), [1, 2_102]);
        assert_eq!(found("leaf"), [2_104], "what is inherited was asked for by the parent");
        while world.index().unwrap().is_some() {}
    }
    host(&world, asked("long", 9_004));
    assert_eq!(found("long"), [1, 2_102, 2_103]);
}

fn filters_combine_in_both_orders(world: World) {
    for n in 1..=40 {
        let kind = if n % 3 == 0 { "note" } else { "user.prompt" };
        host(&world, fact("a", n, kind, "{}"));
    }
    let selection = Selection {
        from_seq: 5,
        to_seq: 35,
        since: Some(at(8)),
        until: Some(at(22)),
        ..Selection::all().of_kinds([Kind::Note])
    };
    assert_eq!(seqs(&read(&world, "a", selection.clone())), [9, 12, 15, 18, 21]);
    assert_eq!(seqs(&read(&world, "a", selection.newest_first())), [21, 18, 15, 12, 9]);
}

fn a_reading_can_stop_anywhere(world: World) {
    talk(&world, "a", 2_000);
    let mut events = world.events(&session("a"), Selection::all()).unwrap();
    assert_eq!(events.next().unwrap().unwrap().seq, 1);
    drop(events);
    let newest = world.events(&session("a"), Selection::all().newest_first()).unwrap().next();
    assert_eq!(newest.unwrap().unwrap().seq, 2_000);
    host(&world, prompt("a", 2_001));
}

fn read_sees_state_at_its_start(world: World) {
    talk(&world, "a", 1_500);
    let forwards = world.events(&session("a"), Selection::all()).unwrap();
    let backwards = world.events(&session("a"), Selection::all().newest_first()).unwrap();
    let mut begun = world.events(&session("a"), Selection::all()).unwrap();
    begun.next().unwrap().unwrap();
    world.append(Batch::hosted().with_all(prompts("a", 1_501..=3_000))).unwrap();
    assert_eq!(forwards.count(), 1_500);
    assert_eq!(backwards.map(|event| event.unwrap().seq).max(), Some(1_500));
    assert_eq!(begun.count(), 1_499);
    assert_eq!(read_all(&world, "a").len(), 3_000);
}

fn read_beside_writer_has_no_gap(world: World) {
    host(&world, prompt("a", 1));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for newest_first in [false, true] {
            let (world, is_done) = (&world, &is_done);
            scope.spawn(move || {
                let mut last = 0;
                while !is_done.load(Ordering::Acquire) {
                    let mut selection = Selection::all();
                    if newest_first {
                        selection = selection.newest_first();
                    }
                    let mut found = seqs(&read(world, "a", selection));
                    if newest_first {
                        found.reverse();
                    }
                    assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
                    assert!(found.len() >= last, "what was there stays");
                    last = found.len();
                }
            });
        }
        for batch in 0..60 {
            let numbers = 2 + batch * 25..=1 + (batch + 1) * 25;
            world.append(Batch::hosted().with_all(prompts("a", numbers))).unwrap();
        }
        is_done.store(true, Ordering::Release);
    });
    assert_eq!(read_all(&world, "a").len(), 1_501);
}

fn an_unknown_session_is_not_found(world: World) {
    talk(&world, "a", 1);
    let nobody = session("nobody");
    let is_not_found = |error: ReadError| {
        assert!(matches!(&error, ReadError::SessionNotFound(id) if *id == nobody), "{error:?}");
    };
    for selection in [Selection::all(), Selection::all().up_to(1), Selection::after(9)] {
        is_not_found(world.events(&nobody, selection).err().unwrap());
    }
    is_not_found(world.stat(&nobody).unwrap_err());
    is_not_found(world.event(&nobody, id("a", 1)).unwrap_err());
    is_not_found(world.seq_of(&nobody, id("a", 1)).unwrap_err());
    is_not_found(world.sightings(&nobody, 1).unwrap_err());
    for from in [FollowFrom::Now, FollowFrom::Beginning, FollowFrom::At(1)] {
        is_not_found(world.follow_session(&nobody, from, OnLag::CatchUp).err().unwrap());
    }
    assert_eq!(world.subscriber_count(), 0);
    assert!(!world.exists(&nobody).unwrap());
    type Query = fn(&Journal, &SessionId) -> Result<(), LineageError>;
    let queries: [Query; 3] = [
        |journal, id| journal.parent(id).map(drop),
        |journal, id| journal.children(id).map(drop),
        |journal, id| journal.lineage(id).map(drop),
    ];
    for query in queries {
        match query(&world, &nobody).unwrap_err() {
            LineageError::Read(error) => is_not_found(error),
            other => panic!("{other:?}"),
        }
    }
}

fn an_unknown_event_is_not_found(world: World) {
    talk(&world, "a", 2);
    talk(&world, "b", 1);
    for missing in [id("nobody", 1), id("b", 1), EventId::new(at(1), [9; 10])] {
        assert_eq!(world.seq_of(&session("a"), missing).unwrap(), None);
        let error = world.event(&session("a"), missing).unwrap_err();
        let ReadError::EventNotFound { session_id, event_id } = error else {
            panic!("{error:?}");
        };
        assert_eq!((session_id, event_id), (session("a"), missing));
    }
}

fn an_event_is_found_by_its_id(mut world: World) {
    for name in plain_and_inherited(&world) {
        for event in read_all(&world, name) {
            assert_eq!(world.seq_of(&session(name), event.id).unwrap(), Some(event.seq));
            assert_eq!(world.event(&session(name), event.id).unwrap(), event);
        }
    }
    world.reopen();
    let last = id("leaf", 6);
    assert_eq!(world.seq_of(&session("leaf"), last).unwrap(), Some(6));
}

fn order_is_the_order_of_appending(mut world: World) {
    let numbers = [5, 1, 9, 3, 3_000_000_000_000, 2];
    for n in numbers {
        host(&world, prompt("a", n));
    }
    world.reopen();
    let events = read_all(&world, "a");
    assert_eq!(ids(&events), numbers.map(|n| id("a", n)));
    assert_eq!(seqs(&events), [1, 2, 3, 4, 5, 6]);
    let point = world.seq_of(&session("a"), id("a", 9)).unwrap().unwrap();
    let up_to = read(&world, "a", Selection::all().up_to(point));
    assert_eq!(ids(&up_to), numbers[..3].iter().map(|n| id("a", *n)).collect::<Vec<_>>());
}

fn largest_id_is_valid(mut world: World) {
    let largest: EventId = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
    let mut draft = prompt("a", 1);
    draft.id = largest;
    host(&world, draft);
    host(&world, prompt("a", 2));
    world.reopen();
    assert_eq!(world.seq_of(&session("a"), largest).unwrap(), Some(1));
    assert_eq!(ids(&read_all(&world, "a")), [largest, id("a", 2)]);
    assert_eq!(ids(&read(&world, "a", Selection::all().up_to(1))), [largest]);
    host(&world, fork("b", 3, "a", 2));
    let shown = read_all(&world, "b");
    assert_eq!(shown[0].fork_origin().unwrap().event_id, largest);
    assert_eq!(world.seq_of(&session("b"), shown[0].id).unwrap(), Some(1));
}

/// A draft in which every field says something.
fn full(n: u64) -> Draft {
    let line = r#"{"created_at":"2026-03-01T10:00:00.123456789Z","observed_at":"2026-03-01T10:00:01.5Z","kind":"tool.result","provider":"claude","provider_session_id":"p-1","source":"transcript","confidence":"medium","turn_id":"t1","text":"done é\u0000","data":{"call_id":"c", "output" : "x"},"metadata":{"b":2.0,"a":{"z":1,"y":[null]}},"cost":0.000000001,"future":{"k":1},"position":"mine","check":[0],"payload":null}"#;
    let line = format!(r#"{{"id":"{}","session_id":"a",{}"#, id("a", n), &line[1..]);
    let (mut draft, seq) = Draft::decode(&line).unwrap();
    assert_eq!(seq, None);
    draft.parent_id = Some(id("a", 99));
    assert_eq!(draft.extra.len(), 4);
    draft
}

fn every_field_comes_back_as_it_was(mut world: World) {
    let mut other = full(2);
    other.source = Source::Other("carrier pigeon".into());
    other.confidence = Confidence::Other("perhaps".into());
    other.kind = Kind::Other("weather.changed".into());
    other.cost = Some(Cost::ZERO);
    let bare = prompt("a", 3);
    let drafts = [full(1), other, bare];
    let receipt = world.append(Batch::observed().with_all(drafts.clone())).unwrap();
    let before: Vec<Event> = read_all(&world, "a");
    world.reopen();
    let events = read_all(&world, "a");
    assert_eq!(events, before);
    for ((event, draft), appended) in events.iter().zip(&drafts).zip(&receipt.events) {
        assert_eq!(event.draft, *draft);
        assert_eq!(event.encode(), draft.clone().with_seq(appended.seq).encode());
    }
}

fn an_empty_field_is_an_absent_one(mut world: World) {
    let mut draft = prompt("a", 1);
    draft.text = Some(String::new());
    draft.turn_id = Some(String::new());
    draft.provider_session_id = Some(String::new());
    draft.provider = String::new();
    host(&world, draft.clone());
    world.reopen();
    assert_eq!(read_all(&world, "a"), [prompt("a", 1).with_seq(1)]);
    let again = host(&world, draft);
    assert_eq!(again.outcome, AppendOutcome::AlreadyRecorded { differs: false });
}

fn payloads_come_back_byte_for_byte(mut world: World) {
    let payloads = [
        "null",
        "[]",
        r#""""#,
        "-0.0",
        "1e400",
        "18446744073709551616000000000001",
        "0.1000000000000000055511151231257827021181583404541015625",
        r#"{"b":1,"a":2,"b":3}"#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        r#""\ud800 alone, \u0000, \/ and \u00e9""#,
        r#"{"":"","\u0061":"é"}"#,
        "\"\u{2028}\u{FEFF}\u{10FFFF}\"",
    ];
    for (n, data) in (1..).zip(payloads) {
        host(&world, fact("a", n, "weather.changed", data));
    }
    world.reopen();
    let events = read_all(&world, "a");
    let found: Vec<&str> = events.iter().map(|event| event.data.get()).collect();
    assert_eq!(found, payloads);
}

fn extreme_times_read_back(mut world: World) {
    let times = [
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00.000000001Z",
        "-00043-03-15T12:00:00Z",
        "+12000-01-01T00:00:00Z",
        "+12000-01-01T00:00:00.000000001Z",
    ]
    .map(|time| time.parse::<Time>().unwrap());
    for (n, time) in (1..).zip(times) {
        let mut draft = prompt("a", n);
        draft.created_at = time;
        draft.observed_at = time;
        draft.id = EventId::derived(time, "suite", "a", &[n as u8]);
        host(&world, draft);
    }
    host(&world, fork("b", 9, "a", times.len() as u64));
    world.reopen();
    for name in ["a", "b"] {
        let found: Vec<Time> = read_all(&world, name).iter().map(|e| e.created_at).collect();
        assert_eq!(found[..times.len()], times);
    }
    let ancient = Selection { until: Some(Time::EPOCH), ..Selection::all() };
    assert_eq!(seqs(&read(&world, "a", ancient)), [1, 2, 3, 4]);
    let stat = world.stat(&session("a")).unwrap();
    assert_eq!((stat.started_at, stat.last_event_at), (times[0], times[5]));
}

fn metadata_is_there_on_every_path(mut world: World) {
    let mut draft = prompt("a", 1);
    draft.metadata.insert("seq".to_owned(), Raw::parse("2.0").unwrap());
    draft.metadata.insert("kind".to_owned(), Raw::parse(r#""mine""#).unwrap());
    let mut news = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    host(&world, draft.clone());
    let expected = Recorded { position: 1, event: draft.clone().with_seq(1) };
    assert_eq!(next(&mut news), Delivery::Event(expected.clone().into()));
    drop(news);
    world.reopen();
    assert_eq!(read_all(&world, "a"), std::slice::from_ref(&expected.event));
    let backwards = read(&world, "a", Selection::all().newest_first());
    assert_eq!(backwards, std::slice::from_ref(&expected.event));
    assert_eq!(world.event(&session("a"), draft.id).unwrap(), expected.event);
    assert_eq!(recorded_from(&world, 1), std::slice::from_ref(&expected));
    let mut history = world.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    assert_eq!(next(&mut history), Delivery::Event(expected.into()));
    host(&world, fork("b", 2, "a", 1));
    let inherited = &read_all(&world, "b")[0];
    assert_eq!(inherited.metadata["seq"].get(), "2.0");
    assert_eq!(inherited.metadata["kind"].get(), r#""mine""#);
    assert_eq!(inherited.fork_origin().unwrap().event_id, draft.id);
}

fn positions_go_over_all_sessions(mut world: World) {
    let drafts = [prompt("a", 1), prompt("b", 1), prompt("a", 2), prompt("c", 1)];
    world.append(Batch::hosted().with_all(drafts)).unwrap();
    host(&world, fork("d", 1, "a", 2));
    world.reopen();
    let all = recorded_from(&world, 0);
    let found: Vec<_> =
        all.iter().map(|r| (r.position, r.event.session_id.as_str(), r.event.seq)).collect();
    assert_eq!(found, [(1, "a", 1), (2, "b", 1), (3, "a", 2), (4, "c", 1), (5, "d", 3)]);
    assert_eq!(world.tail().unwrap(), 5);
    let of_a: Vec<Recorded> = world
        .events(&session("a"), Selection::all())
        .unwrap()
        .recorded()
        .map(Result::unwrap)
        .collect();
    assert_eq!(of_a, [all[0].clone(), all[2].clone()]);
}

fn read_begins_at_position(world: World) {
    talk(&world, "a", 5);
    let all = recorded_from(&world, 1);
    for position in 0..=7 {
        let from = (position as usize).max(1) - 1;
        assert_eq!(recorded_from(&world, position), all.get(from..).unwrap_or_default());
    }
}
