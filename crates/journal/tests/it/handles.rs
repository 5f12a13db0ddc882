//! One journal on disk opened twice: what two processes would see of each other.

use std::sync::Barrier;

use event::Time;
use journal::{
    AppendError, AppendOutcome, Batch, ClaimError, Delivery, Durability, FollowFrom, ForkPolicy,
    Journal, LineageError, OnLag, OpenError, Options, ReadError,
};

use crate::given::{
    PATIENCE, fact, fork, host, id, moved, next, next_events, observe, prompt, prompts, read_all,
    recorded_from, seqs, session, talk,
};
use crate::world::World;

durable_cases! {
    both_continue_one_numbering
    two_handles_share_numbering
    retry_through_other_handle_is_recorded
    expected_seq_sees_other_handle
    two_readers_record_file_once
    fork_sees_other_handles_events
    other_handle_respects_deletion
    other_handle_cannot_fork_deleted
    deleted_number_is_not_reused
    other_handles_fork_holds_parent
    each_follows_what_the_other_writes
    waiting_subscribers_see_other_handle
    two_writers_have_one_order
    live_events_stay_with_their_own
    consumers_and_sightings_are_shared
    who_only_reads_cannot_append
    reopening_leaks_nothing
    many_may_make_it_at_once
    a_task_is_claimed_by_one_at_a_time
    relaxed_durability_is_refused_where_it_is_ignored
}

fn relaxed_durability_is_refused_where_it_is_ignored(world: World) {
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    let opened = Journal::open(world.dir().expect("it is on disk"), &options).map(drop);
    match world.capabilities().name {
        "files" => assert!(matches!(opened, Err(OpenError::Unsupported { store: "files", .. }))),
        _ => assert!(opened.is_ok()),
    }
}

fn both_continue_one_numbering(world: World) {
    let other = world.another();
    for n in 1..=20 {
        let journal: &Journal = if n % 2 == 0 { &other } else { &world };
        let appended = host(journal, prompt("a", n));
        assert_eq!((appended.seq, appended.position), (n, n));
    }
    assert_eq!(read_all(&world, "a"), read_all(&other, "a"));
    assert_eq!(world.stat(&session("a")).unwrap(), other.stat(&session("a")).unwrap());
    assert_eq!(world.stat(&session("a")).unwrap().events, 20);
}

fn two_handles_share_numbering(world: World) {
    const EACH: u64 = 100;
    let other = world.another();
    std::thread::scope(|scope| {
        for appender in 0..4 {
            let journal: &Journal = if appender % 2 == 0 { &other } else { &world };
            scope.spawn(move || {
                for n in 1..=EACH {
                    host(journal, prompt("a", appender * 1_000 + n));
                }
            });
        }
    });
    let all = recorded_from(&world, 1);
    assert_eq!(all, recorded_from(&other, 1));
    let positions: Vec<u64> = all.iter().map(|recorded| recorded.position).collect();
    assert_eq!(positions, (1..=4 * EACH).collect::<Vec<_>>());
    assert!(all.iter().all(|recorded| recorded.event.seq == recorded.position));
}

fn retry_through_other_handle_is_recorded(world: World) {
    let other = world.another();
    talk(&world, "a", 2);
    talk(&other, "a", 4);
    let receipt = world.append(Batch::hosted().with_all(prompts("a", 1..=5))).unwrap();
    let recorded = receipt.events.iter().filter(|event| event.outcome == AppendOutcome::Recorded);
    assert_eq!(recorded.map(|event| event.seq).collect::<Vec<_>>(), [5]);
    let mut taken = prompt("b", 1);
    taken.id = id("a", 5);
    let answer = other.append(Batch::hosted().with(taken));
    assert!(matches!(answer, Err(AppendError::DuplicateId { seq: 5, .. })));
}

fn expected_seq_sees_other_handle(world: World) {
    let other = world.another();
    talk(&world, "a", 1);
    let batch = |n| Batch::hosted().with(prompt("a", n)).expecting(session("a"), 1);
    other.append(batch(2)).unwrap();
    let answer = world.append(batch(3));
    assert!(matches!(answer, Err(AppendError::Conflict { expected: 1, actual: 2, .. })));
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
}

fn two_readers_record_file_once(world: World) {
    const LINES: u64 = 40;
    let other = world.another();
    std::thread::scope(|scope| {
        for journal in [&*world, &other] {
            scope.spawn(move || {
                loop {
                    let from = journal.source_position("file").unwrap();
                    let read = from.as_deref().map_or(0, |from| from.parse::<u64>().unwrap());
                    if read == LINES {
                        return;
                    }
                    let batch = Batch::observed().with(prompt("a", read + 1));
                    let source = moved("file", from.as_deref(), &(read + 1).to_string());
                    match journal.append(batch.from_source(source)) {
                        Ok(receipt) => {
                            assert_eq!(receipt.events[0].outcome, AppendOutcome::Recorded)
                        }
                        Err(AppendError::SourceMoved { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(seqs(&read_all(&other, "a")), (1..=LINES).collect::<Vec<_>>());
}

fn fork_sees_other_handles_events(world: World) {
    let other = world.another();
    talk(&world, "a", 2);
    talk(&other, "a", 3);
    assert_eq!(host(&world, fork("f", 9, "a", 3)).seq, 4);
    assert_eq!(host(&other, prompt("f", 10)).seq, 5);
    assert_eq!(read_all(&world, "f"), read_all(&other, "f"));
}

fn other_handle_respects_deletion(world: World) {
    let other = world.another();
    talk(&world, "a", 2);
    other.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse).unwrap();
    let answer = world.append(Batch::hosted().with(prompt("a", 4)));
    assert!(matches!(answer, Err(AppendError::Deleted(..))), "{answer:?}");
    assert_eq!(observe(&world, prompt("a", 4)).outcome, AppendOutcome::Ignored);
    assert!(matches!(world.stat(&session("a")), Err(ReadError::SessionNotFound(_))));
}

fn other_handle_cannot_fork_deleted(world: World) {
    let other = world.another();
    talk(&world, "a", 2);
    other.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse).unwrap();
    let answer = world.append(Batch::hosted().with(fork("f", 9, "a", 2)));
    assert!(matches!(answer, Err(AppendError::SessionNotFound(_))), "{answer:?}");
}

/// A cached session must not be taken for another that came later.
fn deleted_number_is_not_reused(world: World) {
    let other = world.another();
    talk(&world, "a", 3);
    other.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse).unwrap();
    let mut draft = prompt("b", 1);
    draft.id = id("a", 1);
    host(&other, draft);
    let mut same_tail = prompt("b", 2);
    same_tail.id = id("a", 2);
    assert_eq!(observe(&world, same_tail).outcome, AppendOutcome::Recorded);
    assert_eq!(seqs(&read_all(&world, "b")), [1, 2]);
}

fn other_handles_fork_holds_parent(world: World) {
    let other = world.another();
    talk(&world, "a", 2);
    host(&other, fork("f", 9, "a", 2));
    let answer = world.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse);
    assert!(matches!(answer, Err(LineageError::HasForks { .. })), "{answer:?}");
    let shown = read_all(&other, "f");
    world.delete(&session("a"), Time::EPOCH, ForkPolicy::Copy).unwrap();
    assert_eq!(read_all(&other, "f"), shown);
    assert_eq!(host(&other, prompt("f", 10)).seq, 4);
}

fn each_follows_what_the_other_writes(world: World) {
    let other = world.another();
    talk(&world, "a", 1);
    let mut all = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    let mut one =
        world.follow_session(&session("a"), FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    for n in 2..=4 {
        host(&other, prompt("b", n));
        host(&other, prompt("a", n));
    }
    let positions: Vec<u64> = next_events(&mut all, 6).iter().map(|r| r.position).collect();
    assert_eq!(positions, [2, 3, 4, 5, 6, 7]);
    let numbers: Vec<u64> = next_events(&mut one, 4).iter().map(|r| r.event.seq).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

/// One waiting subscriber polls for all of them, and another takes over when it goes.
fn waiting_subscribers_see_other_handle(world: World) {
    const FOLLOWERS: u64 = 3;
    let other = world.another();
    talk(&world, "quiet", 1);
    let (told, heard) = std::sync::mpsc::sync_channel(16);
    let mut got: Vec<(u64, u64)> = Vec::new();
    std::thread::scope(|scope| {
        // The poller may find events that only the others want.
        let quiet =
            world.follow_session(&session("quiet"), FollowFrom::Now, OnLag::CatchUp).unwrap();
        scope.spawn(move || assert_eq!(quiet.count(), 0));
        for follower in 0..FOLLOWERS {
            let told = told.clone();
            let stream = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
            // The first goes after one event, the second after two.
            scope.spawn(move || {
                for followed in stream.take(follower as usize + 1) {
                    let Delivery::Event(recorded) = followed.unwrap() else { panic!("no event") };
                    told.send((recorded.event.seq, follower)).unwrap();
                }
            });
        }
        for n in 1..=FOLLOWERS {
            host(&other, prompt("a", n));
            // Those who still follow have it before the next one is written. None of them looks by
            // itself before long, so what is not told does not come.
            let all = (n..=FOLLOWERS).map_while(|_| heard.recv_timeout(PATIENCE).ok());
            got.extend(all);
        }
        world.close();
    });
    got.sort_unstable();
    let expected = (1..=FOLLOWERS).flat_map(|n| (n - 1..FOLLOWERS).map(move |who| (n, who)));
    assert_eq!(got, expected.collect::<Vec<_>>());
}

fn two_writers_have_one_order(world: World) {
    const EACH: u64 = 100;
    let other = world.another();
    let mut stream = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    std::thread::scope(|scope| {
        for (name, journal) in [("a", &*world), ("b", &other)] {
            scope.spawn(move || {
                for n in 1..=EACH {
                    host(journal, prompt(name, n));
                }
            });
        }
        let found = next_events(&mut stream, 2 * EACH as usize);
        assert_eq!(found, recorded_from(&other, 1));
    });
}

fn live_events_stay_with_their_own(world: World) {
    let other = world.another();
    let mut stream = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    other.publish_live(fact("a", 1, "heartbeat", "null"));
    host(&other, prompt("a", 1));
    assert!(matches!(next(&mut stream), Delivery::Event(_)));
}

fn consumers_and_sightings_are_shared(world: World) {
    let other = world.another();
    talk(&world, "a", 1);
    let mut told = prompt("a", 1);
    told.text = Some("something else".to_owned());
    observe(&other, told);
    other.advance_consumer("search", 7).unwrap();
    assert_eq!(world.consumer("search").unwrap(), 7);
    assert_eq!(world.sightings(&session("a"), 1).unwrap().len(), 1);
}

fn who_only_reads_cannot_append(world: World) {
    talk(&world, "a", 2);
    let reader = world.another_for_reading();
    assert_eq!(seqs(&read_all(&reader, "a")), [1, 2]);
    let answer = reader.append(Batch::hosted().with(prompt("a", 3)));
    assert!(matches!(answer, Err(AppendError::ReadOnly)));
    let answer = reader.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse);
    assert!(matches!(answer, Err(LineageError::Append(AppendError::ReadOnly))));
    let mut stream = reader.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    host(&world, prompt("a", 3));
    assert_eq!(next_events(&mut stream, 3).len(), 3);
}

/// Processes that create files at once replace none of each other's.
fn many_may_make_it_at_once(world: World) {
    const PROCESSES: u64 = 4;
    for round in 0..50 {
        let home = world.elsewhere();
        let start = Barrier::new(PROCESSES as usize);
        std::thread::scope(|scope| {
            for n in 1..=PROCESSES {
                let (home, start) = (&home, &start);
                scope.spawn(move || {
                    start.wait();
                    let journal = home.open();
                    let read = moved(&format!("file-{n}"), None, "9");
                    let batch = Batch::observed().with(prompt("a", n)).from_source(read);
                    journal.append(batch).unwrap();
                });
            }
        });
        let journal = home.open();
        assert_eq!(read_all(&journal, "a").len() as u64, PROCESSES, "round {round}");
        assert_eq!(journal.sources().unwrap().len() as u64, PROCESSES, "round {round}");
    }
}

fn a_task_is_claimed_by_one_at_a_time(world: World) {
    let other = world.another();
    let claim = world.claim("reading").unwrap();
    match other.claim("reading") {
        Err(ClaimError::Held { holder }) => assert_eq!(holder, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    other.claim("something else").unwrap();
    drop(claim);
    other.claim("reading").unwrap();
}

fn reopening_leaks_nothing(world: World) {
    for n in 1..=30 {
        let other = world.another();
        host(&other, prompt("a", n));
        drop(other);
        assert_eq!(world.stat(&session("a")).unwrap().tail_seq, n);
    }
    host(&world, prompt("a", 31));
}
