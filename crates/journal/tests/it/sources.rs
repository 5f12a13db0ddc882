//! How far sources were read, together with what was read from them, and how far consumers got.

use journal::{AppendError, AppendOutcome, Batch};

use crate::given::{
    at, fork, host, id, moved, prompt, prompts, read_all, recorded_from, seqs, session, talk,
};
use crate::world::World;

cases! {
    source_position_commits_with_events
    a_position_can_move_without_events
    sources_are_independent
    all_sources_are_listed
    fact_is_located_by_id
    a_fork_shows_the_facts_it_inherits
    batch_from_stale_position_is_refused
    refused_batch_keeps_source_position
    waiting_batches_follow_each_other
    two_readers_record_file_once
    reread_moves_source_again
    consumer_keeps_its_position
    consumers_are_independent
    consumer_resumes_without_gap
}

fn source_position_commits_with_events(mut world: World) {
    assert_eq!(world.source_position("file").unwrap(), None);
    let batch = Batch::observed().with(prompt("a", 1)).from_source(moved("file", None, "10"));
    world.append(batch).unwrap();
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("10"));
    world.reopen();
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("10"));
    let batch = Batch::observed().with(prompt("a", 2)).from_source(moved("file", Some("10"), "20"));
    world.append(batch).unwrap();
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("20"));
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
}

fn a_position_can_move_without_events(world: World) {
    world.append(Batch::observed().from_source(moved("file", None, "10"))).unwrap();
    world.append(Batch::observed().from_source(moved("file", Some("10"), "10"))).unwrap();
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("10"));
    assert_eq!(world.tail().unwrap(), 0);
}

fn sources_are_independent(mut world: World) {
    let names = ["file", "FILE", "/home/dev/x.jsonl", "", " ", "用户\n\u{0}", "'; --"];
    for (n, name) in names.iter().enumerate() {
        let to = format!("{{\"offset\": {n}}}");
        world.append(Batch::observed().from_source(moved(name, None, &to))).unwrap();
    }
    world.append(Batch::observed().from_source(moved("empty", None, ""))).unwrap();
    world.reopen();
    for (n, name) in names.iter().enumerate() {
        let expected = format!("{{\"offset\": {n}}}");
        assert_eq!(world.source_position(name).unwrap(), Some(expected));
    }
    assert_eq!(world.source_position("empty").unwrap().as_deref(), Some(""));
}

fn all_sources_are_listed(mut world: World) {
    assert_eq!(world.sources().unwrap(), []);
    world.append(Batch::observed().from_source(moved("b", None, "1"))).unwrap();
    world.append(Batch::observed().from_source(moved("a", None, "2"))).unwrap();
    world.append(Batch::observed().from_source(moved("b", Some("1"), "3"))).unwrap();
    world.reopen();
    let mut sources = world.sources().unwrap();
    sources.sort();
    assert_eq!(sources, [("a", "2"), ("b", "3")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

fn fact_is_located_by_id(world: World) {
    talk(&world, "a", 3);
    assert_eq!(world.locate(id("a", 2)).unwrap(), Some((session("a"), 2)));
    assert_eq!(world.locate(id("b", 2)).unwrap(), None);
    // The same fact, dated otherwise.
    let later = event::EventId::new(at(9_999), id("a", 3).tail());
    assert_eq!(world.locate(later).unwrap(), None);
    let found = world.find_facts(&session("a"), &[later, id("b", 1), id("a", 1)]).unwrap();
    assert_eq!(found, [Some(3), None, Some(1)]);
}

fn a_fork_shows_the_facts_it_inherits(world: World) {
    talk(&world, "a", 3);
    host(&world, fork("b", 1, "a", 2));
    host(&world, prompt("b", 2));
    let ids = [id("a", 1), id("a", 2), id("a", 3), id("b", 2)];
    let found = world.find_facts(&session("b"), &ids).unwrap();
    assert_eq!(found, [Some(1), Some(2), None, Some(4)]);
}

fn batch_from_stale_position_is_refused(world: World) {
    let batch = |from: Option<&str>, n| {
        Batch::observed().with(prompt("a", n)).from_source(moved("file", from, "next"))
    };
    let refused = |from: Option<&str>, actual: Option<&str>| {
        let error = world.append(batch(from, 9)).unwrap_err();
        let AppendError::SourceMoved { source_id, expected, actual: found } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source_id, "file");
        assert_eq!((expected.as_deref(), found.as_deref()), (from, actual));
    };
    refused(Some("10"), None);
    refused(Some(""), None);
    world.append(Batch::observed().from_source(moved("file", None, "10"))).unwrap();
    refused(None, Some("10"));
    refused(Some("9"), Some("10"));
    refused(Some("010"), Some("10"));
    assert!(!world.exists(&session("a")).unwrap());
    world.append(batch(Some("10"), 1)).unwrap();
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("next"));
}

fn refused_batch_keeps_source_position(world: World) {
    talk(&world, "a", 1);
    let batch = Batch::observed()
        .with(prompt("a", 2))
        .expecting(session("a"), 7)
        .from_source(moved("file", None, "10"));
    assert!(matches!(world.append(batch), Err(AppendError::Conflict { .. })));
    let batch =
        Batch::observed().with_numbered(prompt("a", 2), 7).from_source(moved("file", None, "10"));
    assert!(matches!(world.append(batch), Err(AppendError::BadSeq { .. })));
    assert_eq!(world.source_position("file").unwrap(), None);
}

fn waiting_batches_follow_each_other(world: World) {
    let tickets: Vec<_> = (0..100u64)
        .map(|n| {
            let from = n.to_string();
            let from = (n > 0).then_some(from.as_str());
            let to = (n + 1).to_string();
            let batch = Batch::observed().with(prompt("a", n + 1));
            world.submit(batch.from_source(moved("file", from, &to))).unwrap()
        })
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("100"));
    assert_eq!(world.stat(&session("a")).unwrap().events, 100);
}

fn two_readers_record_file_once(world: World) {
    const LINES: u64 = 60;
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let world = &world;
            scope.spawn(move || {
                loop {
                    let from = world.source_position("file").unwrap();
                    let read = from.as_deref().map_or(0, |from| from.parse::<u64>().unwrap());
                    if read == LINES {
                        return;
                    }
                    // Each reads other pieces of the file.
                    let to = (read + 1 + reader * 2).min(LINES);
                    let batch = Batch::observed().with_all(prompts("a", read + 1..=to));
                    let source = moved("file", from.as_deref(), &to.to_string());
                    match world.append(batch.from_source(source)) {
                        Ok(receipt) => {
                            let outcomes = receipt.events.iter().map(|event| event.outcome);
                            outcomes
                                .for_each(|outcome| assert_eq!(outcome, AppendOutcome::Recorded));
                        }
                        Err(AppendError::SourceMoved { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
    });
    let expected: Vec<_> = prompts("a", 1..=LINES).map(|draft| draft.id).collect();
    assert_eq!(crate::given::ids(&read_all(&world, "a")), expected);
    assert_eq!(world.sightings(&session("a"), 1).unwrap(), []);
}

fn reread_moves_source_again(world: World) {
    let batch = |from, to| {
        Batch::observed().with_all(prompts("a", 1..=3)).from_source(moved("file", from, to))
    };
    world.append(batch(None, "30")).unwrap();
    // The file was replaced by a copy of itself: its position starts anew.
    let receipt = world.append(batch(Some("30"), "copy:30")).unwrap();
    let already = AppendOutcome::AlreadyRecorded { differs: false };
    assert!(receipt.events.iter().all(|event| event.outcome == already));
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("copy:30"));
    assert_eq!(world.tail().unwrap(), 3);
}

fn consumer_keeps_its_position(mut world: World) {
    talk(&world, "a", 3);
    assert_eq!(world.consumer("search").unwrap(), 0);
    world.advance_consumer("search", 2).unwrap();
    assert_eq!(world.consumer("search").unwrap(), 2);
    world.advance_consumer("search", 3).unwrap();
    world.reopen();
    assert_eq!(world.consumer("search").unwrap(), 3);
    assert_eq!(world.tail().unwrap(), 3);
}

fn consumers_are_independent(world: World) {
    world.advance_consumer("search", 2).unwrap();
    world.advance_consumer("Search", 5).unwrap();
    world.advance_consumer("", 7).unwrap();
    assert_eq!(
        ["search", "Search", "", "x"].map(|name| world.consumer(name).unwrap()),
        [2, 5, 7, 0]
    );
}

fn consumer_resumes_without_gap(mut world: World) {
    let mut seen = Vec::new();
    for round in 1..=4 {
        for n in 1..=5 {
            host(&world, prompt(&format!("s{n}"), round * 10));
        }
        let from = world.consumer("shipper").unwrap() + 1;
        // It dies after two of what it finds, of which one is confirmed, and comes back.
        let found = recorded_from(&world, from);
        seen.extend(found[..1].iter().map(|recorded| recorded.position));
        world.advance_consumer("shipper", found[0].position).unwrap();
        world.reopen();
    }
    seen.extend(
        recorded_from(&world, world.consumer("shipper").unwrap() + 1).iter().map(|r| r.position),
    );
    assert_eq!(seen, (1..=20).collect::<Vec<u64>>());
    assert_eq!(world.stat(&session("s1")).unwrap().last_event_at, at(40));
}
