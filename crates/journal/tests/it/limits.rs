//! Every limit one below, at it, and one above.

use std::io::Read;

use event::{Draft, Event, Kind, Raw, Time};
use journal::{
    AppendError, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Batch, Delivery, EVENT_BYTES_MAX, FollowFrom,
    JSON_DEPTH_MAX, METADATA_BYTES_MAX, OnLag, Selection,
};

use crate::given::{
    fact, host, id, moved, next, next_events, nothing_more, observe, prompt, prompts, read,
    read_all, recorded_from, seqs, session, talk,
};
use crate::world::World;

cases! {
    a_batch_holds_so_many_events
    a_batch_holds_so_many_bytes
    a_hosted_event_has_so_many_bytes
    oversized_observed_event_becomes_artifact
    hosted_metadata_has_so_many_bytes
    oversized_observed_metadata_is_raw
    a_hosted_event_is_nested_so_deep
    deeply_nested_event_is_raw
    inline_and_separate_payload_agree
    separate_payload_is_shared
    read_crosses_event_pages
    read_crosses_byte_pages
    full_buffer_makes_subscriber_lag
    appenders_wait_while_the_queue_is_full
}

/// A draft with a `data` of exactly so many bytes.
fn sized(name: &str, n: u64, bytes: usize) -> Draft {
    let filler = "x".repeat(bytes - r#"{"raw":""}"#.len());
    fact(name, n, "unknown", &format!(r#"{{"raw":"{filler}"}}"#))
}

/// Arrays in arrays, so many.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// What an append measured, from its refusal.
#[track_caller]
fn measured(answer: Result<impl std::fmt::Debug, AppendError>, limit: usize) -> usize {
    match answer {
        Err(AppendError::TooLarge { size, max, .. }) if max == limit => size,
        other => panic!("{other:?}"),
    }
}

fn a_batch_holds_so_many_events(world: World) {
    let max = BATCH_EVENTS_MAX as u64;
    let batch = |name, count| Batch::hosted().with_all(prompts(name, 1..=count));
    for (name, count) in [("below", max - 1), ("at", max)] {
        assert_eq!(world.append(batch(name, count)).unwrap().events.len() as u64, count);
        assert_eq!(world.stat(&session(name)).unwrap().events, count);
    }
    let above = batch("above", max + 1).from_source(moved("file", None, "1"));
    assert_eq!(measured(world.append(above), BATCH_EVENTS_MAX), BATCH_EVENTS_MAX + 1);
    assert!(!world.exists(&session("above")).unwrap());
    assert_eq!(world.source_position("file").unwrap(), None);
}

fn a_batch_holds_so_many_bytes(world: World) {
    let half = BATCH_BYTES_MAX / 2;
    let batch =
        |name, bytes| Batch::observed().with_all([sized(name, 1, half), sized(name, 2, bytes)]);
    let over = measured(world.append(batch("x", half)), BATCH_BYTES_MAX) - BATCH_BYTES_MAX;
    let fitting = half - over;
    assert_eq!(
        measured(world.append(batch("x", fitting + 1)), BATCH_BYTES_MAX),
        BATCH_BYTES_MAX + 1
    );
    assert!(!world.exists(&session("x")).unwrap());
    for (name, bytes) in [("y", fitting), ("z", fitting - 1)] {
        world.append(batch(name, bytes)).unwrap();
        assert_eq!(read_all(&world, name)[1].data, sized(name, 2, bytes).data);
    }
}

fn a_hosted_event_has_so_many_bytes(world: World) {
    let append = |bytes| world.append(Batch::hosted().with(sized("a", bytes as u64, bytes)));
    let over = measured(append(EVENT_BYTES_MAX), EVENT_BYTES_MAX) - EVENT_BYTES_MAX;
    let fitting = EVENT_BYTES_MAX - over;
    assert_eq!(measured(append(fitting + 1), EVENT_BYTES_MAX), EVENT_BYTES_MAX + 1);
    assert!(!world.exists(&session("a")).unwrap());
    for bytes in [fitting, fitting - 1] {
        append(bytes).unwrap();
    }
    let lens: Vec<usize> = read_all(&world, "a").iter().map(|e| e.data.get().len()).collect();
    assert_eq!(lens, [fitting, fitting - 1]);
}

fn oversized_observed_event_becomes_artifact(world: World) {
    let batch = Batch::observed().with_all([prompt("a", 1), sized("a", 2, EVENT_BYTES_MAX)]);
    world.append(batch).unwrap();
    let events = read_all(&world, "a");
    assert_eq!(seqs(&events), [1, 2]);
    let members = events[1].data.members().unwrap();
    assert_eq!(members[0].0, "artifact");
    assert!(events[1].data.get().len() < 1_000);
    // The body is there, and stays: an event refers to it.
    let years_later = Time::from_millis(200 * 365 * 24 * 3_600_000);
    let checks = world.doctor(true, years_later).unwrap();
    assert!(checks.iter().all(|check| check.ok), "{checks:?}");
    let mut body = String::new();
    let artifact = members[0].1.text().unwrap();
    world.artifacts().open(&artifact).unwrap().read_to_string(&mut body).unwrap();
    assert_eq!(body, sized("a", 2, EVENT_BYTES_MAX).data.get());
}

fn with_metadata(draft: Draft, bytes: usize) -> Draft {
    let mut draft = draft;
    draft.metadata.insert("k".to_owned(), Raw::from_value(&"x".repeat(bytes)).unwrap());
    draft
}

fn hosted_metadata_has_so_many_bytes(world: World) {
    let append = |bytes| {
        let draft = with_metadata(prompt("a", bytes as u64), bytes);
        world.append(Batch::hosted().with(draft))
    };
    let over = measured(append(METADATA_BYTES_MAX), METADATA_BYTES_MAX) - METADATA_BYTES_MAX;
    let fitting = METADATA_BYTES_MAX - over;
    assert_eq!(measured(append(fitting + 1), METADATA_BYTES_MAX), METADATA_BYTES_MAX + 1);
    for bytes in [fitting, fitting - 1] {
        append(bytes).unwrap();
    }
    let lens =
        read_all(&world, "a").iter().map(|e| e.metadata["k"].get().len() - 2).collect::<Vec<_>>();
    assert_eq!(lens, [fitting, fitting - 1]);
}

/// An observed draft that did not fit stands whole, as text, in an `unknown` event.
#[track_caller]
fn assert_kept_raw(event: &Event, draft: &Draft) {
    assert_eq!(event.kind, Kind::Unknown);
    assert_eq!((event.id, event.created_at), (draft.id, draft.created_at));
    assert!(event.metadata.is_empty());
    let raw = &event.data.members().unwrap()[0];
    assert_eq!(raw.0, "raw");
    assert_eq!(raw.1.read::<String>().unwrap(), draft.encode());
}

fn oversized_observed_metadata_is_raw(mut world: World) {
    let fitting = with_metadata(prompt("a", 1), METADATA_BYTES_MAX - 100);
    let large = with_metadata(prompt("a", 2), METADATA_BYTES_MAX + 1);
    observe(&world, fitting.clone());
    observe(&world, large.clone());
    world.reopen();
    let events = read_all(&world, "a");
    assert_eq!(events[0].draft, fitting);
    assert_kept_raw(&events[1], &large);
    let again = observe(&world, large);
    assert_eq!(again.outcome, journal::AppendOutcome::AlreadyRecorded { differs: false });
}

/// A payload, or a value of the metadata, nested so deep.
fn deep(name: &str, depth: usize, in_metadata: bool) -> Draft {
    let n = depth as u64;
    if !in_metadata {
        return fact(name, n, "weather.changed", &nested(depth));
    }
    let mut draft = prompt(name, n);
    // The map is the first level.
    draft.metadata.insert("k".to_owned(), Raw::parse(nested(depth - 1)).unwrap());
    draft
}

fn a_hosted_event_is_nested_so_deep(mut world: World) {
    for (name, in_metadata) in [("data", false), ("metadata", true)] {
        let draft = |depth| deep(name, depth, in_metadata);
        let fitting = [JSON_DEPTH_MAX - 1, JSON_DEPTH_MAX].map(draft);
        for draft in fitting.clone() {
            host(&world, draft);
        }
        let above = world.append(Batch::hosted().with(draft(JSON_DEPTH_MAX + 1)));
        assert_eq!(measured(above, JSON_DEPTH_MAX), JSON_DEPTH_MAX + 1);
        world.reopen();
        let found: Vec<Draft> = read_all(&world, name).into_iter().map(|e| e.draft).collect();
        assert_eq!(found, fitting);
    }
}

fn deeply_nested_event_is_raw(mut world: World) {
    let depths = [JSON_DEPTH_MAX + 1, 100_000];
    let drafts = depths.map(|depth| deep("a", depth, false));
    for draft in [deep("a", JSON_DEPTH_MAX, true), deep("a", JSON_DEPTH_MAX + 2, true)] {
        observe(&world, draft);
    }
    world.append(Batch::observed().with_all(drafts.clone())).unwrap();
    world.reopen();
    let events = read_all(&world, "a");
    assert_eq!(events[0].draft, deep("a", JSON_DEPTH_MAX, true));
    assert_kept_raw(&events[1], &deep("a", JSON_DEPTH_MAX + 2, true));
    assert_kept_raw(&events[2], &drafts[0]);
    assert_kept_raw(&events[3], &drafts[1]);
}

/// The size at which a payload moves out of its row, which callers cannot see.
const INLINE_DATA_MAX: usize = 16 * 1024;

fn inline_and_separate_payload_agree(mut world: World) {
    let sizes = [INLINE_DATA_MAX - 1, INLINE_DATA_MAX, INLINE_DATA_MAX + 1, 20 * INLINE_DATA_MAX];
    let drafts = sizes.map(|bytes| sized("a", bytes as u64, bytes));
    world.append(Batch::hosted().with_all(drafts.clone())).unwrap();
    world.reopen();
    let expected: Vec<Event> = (1..).zip(&drafts).map(|(seq, d)| d.clone().with_seq(seq)).collect();
    assert_eq!(read_all(&world, "a"), expected);
    let mut backwards = read(&world, "a", Selection::all().newest_first());
    backwards.reverse();
    assert_eq!(backwards, expected);
    let recorded: Vec<Event> = recorded_from(&world, 1).into_iter().map(|r| r.event).collect();
    assert_eq!(recorded, expected);
    for event in &expected {
        assert_eq!(world.event(&session("a"), event.id).unwrap(), *event);
        assert_eq!(
            host(&world, event.draft.clone()).outcome,
            journal::AppendOutcome::AlreadyRecorded { differs: false }
        );
    }
}

fn separate_payload_is_shared(mut world: World) {
    let bytes = 2 * INLINE_DATA_MAX;
    for name in ["a", "b", "c"] {
        host(&world, sized(name, 1, bytes));
        host(&world, sized(name, 2, bytes));
    }
    world.delete(&session("a"), crate::given::at(1), journal::ForkPolicy::Refuse).unwrap();
    world.reopen();
    for name in ["b", "c"] {
        let events = read_all(&world, name);
        assert_eq!(events[0].data, sized(name, 1, bytes).data);
        assert_eq!(events[1].data, events[0].data);
    }
}

/// Events of one page of a reading, and of the buffer of a subscriber.
const PAGE_EVENTS_MAX: u64 = 1_024;

fn read_crosses_event_pages(world: World) {
    let sizes = [PAGE_EVENTS_MAX - 1, PAGE_EVENTS_MAX, PAGE_EVENTS_MAX + 1, 2 * PAGE_EVENTS_MAX];
    for count in sizes {
        let name = count.to_string();
        talk(&world, &name, count);
        let mut expected: Vec<u64> = (1..=count).collect();
        assert_eq!(seqs(&read_all(&world, &name)), expected);
        expected.reverse();
        assert_eq!(seqs(&read(&world, &name, Selection::all().newest_first())), expected);
        let last = read(&world, &name, Selection::after(count - 1));
        assert_eq!(last, [prompt(&name, count).with_seq(count)]);
    }
    let total = sizes.iter().sum::<u64>();
    let positions: Vec<u64> = recorded_from(&world, 1).iter().map(|r| r.position).collect();
    assert_eq!(positions, (1..=total).collect::<Vec<_>>());
}

fn read_crosses_byte_pages(world: World) {
    const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
    let sizes =
        [PAGE_BYTES_MAX + 1, PAGE_BYTES_MAX, 10, PAGE_BYTES_MAX - 1, 10, 3 * PAGE_BYTES_MAX];
    for (n, bytes) in (1..).zip(sizes) {
        host(&world, sized("a", n, bytes));
    }
    let lens = |events: Vec<Event>| events.iter().map(|e| e.data.get().len()).collect::<Vec<_>>();
    assert_eq!(lens(read_all(&world, "a")), sizes);
    let mut backwards = lens(read(&world, "a", Selection::all().newest_first()));
    backwards.reverse();
    assert_eq!(backwards, sizes);
    assert_eq!(recorded_from(&world, 1).len(), sizes.len());
    let mut all = world.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    assert_eq!(next_events(&mut all, sizes.len()).len(), sizes.len());
    nothing_more(&mut all);
}

fn full_buffer_makes_subscriber_lag(world: World) {
    for count in [PAGE_EVENTS_MAX - 1, PAGE_EVENTS_MAX, PAGE_EVENTS_MAX + 1] {
        let name = count.to_string();
        host(&world, prompt(&name, 1));
        let follow =
            |on_lag| world.follow_session(&session(&name), FollowFrom::Now, on_lag).unwrap();
        let mut patient = follow(OnLag::CatchUp);
        let mut hurried = follow(OnLag::Skip);
        world.append(Batch::hosted().with_all(prompts(&name, 2..=count + 1))).unwrap();
        let mut expected: Vec<u64> = (2..=count + 1).collect();
        if count > PAGE_EVENTS_MAX {
            assert_eq!(next(&mut patient), Delivery::Behind { from: 2, to: count + 1 });
            assert_eq!(next(&mut hurried), Delivery::Gap { from: 2, to: 2, count: 1 });
        }
        let seqs = |events: Vec<journal::Recorded>| {
            events.iter().map(|recorded| recorded.event.seq).collect::<Vec<_>>()
        };
        assert_eq!(seqs(next_events(&mut patient, expected.len())), expected);
        nothing_more(&mut patient);
        if count > PAGE_EVENTS_MAX {
            expected.remove(0);
        }
        assert_eq!(seqs(next_events(&mut hurried, expected.len())), expected);
        nothing_more(&mut hurried);
    }
}

fn appenders_wait_while_the_queue_is_full(world: World) {
    const QUEUE_EVENTS_MAX: usize = 65_536;
    let batches = QUEUE_EVENTS_MAX / BATCH_EVENTS_MAX + 1;
    let size = BATCH_EVENTS_MAX as u64;
    let submit = |batch: u64| {
        let numbers = batch * size + 1..=(batch + 1) * size;
        world.submit(Batch::hosted().with_all(prompts("a", numbers))).unwrap()
    };
    let tickets: Vec<_> = (0..batches as u64).map(submit).collect();
    for (batch, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait().unwrap().events[0].seq, batch as u64 * size + 1);
    }
    assert_eq!(world.stat(&session("a")).unwrap().tail_seq, batches as u64 * size);
    assert_eq!(world.seq_of(&session("a"), id("a", size)).unwrap(), Some(size));
}
