//! The end of a journal: what was accepted is recorded, then nothing more is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event::Time;
use journal::{
    AppendError, Batch, FollowError, FollowFrom, ForkPolicy, Journal, LineageError, OnLag,
};

use crate::given::{host, next_event, next_events, prompt, prompts, read_all, seqs, session, talk};
use crate::world::World;

cases! {
    closing_drains_what_was_accepted
    closed_journal_refuses_changes
    closing_twice_is_fine
    every_clone_is_closed
    appends_during_close_are_answered
    streams_drain_before_end
    close_ends_waiting_stream
    last_drop_ends_stream
    thousand_handles_leak_nothing
}

fn closing_drains_what_was_accepted(mut world: World) {
    let tickets: Vec<_> = (0..50)
        .map(|n| {
            let numbers = n * 10 + 1..=(n + 1) * 10;
            world.submit(Batch::hosted().with_all(prompts("a", numbers))).unwrap()
        })
        .collect();
    world.close();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    world.reopen();
    assert_eq!(seqs(&read_all(&world, "a")), (1..=500).collect::<Vec<_>>());
}

fn closed_journal_refuses_changes(world: World) {
    talk(&world, "a", 1);
    let ancestry = world.lineage(&session("a")).unwrap();
    world.close();
    let batch = || Batch::observed().with(prompt("a", 2));
    assert!(matches!(world.append(batch()), Err(AppendError::Closed)));
    assert!(matches!(world.submit(batch()), Err(AppendError::Closed)));
    assert!(matches!(world.advance_consumer("me", 1), Err(AppendError::Closed)));
    let is_closed = |answer| matches!(answer, Err(LineageError::Append(AppendError::Closed)));
    assert!(is_closed(world.import_ancestry(ancestry)));
    assert!(is_closed(world.delete(&session("a"), Time::EPOCH, ForkPolicy::Refuse)));
}

fn closing_twice_is_fine(world: World) {
    talk(&world, "a", 1);
    world.close();
    world.close();
    assert!(matches!(world.append(Batch::hosted()), Err(AppendError::Closed)));
}

fn every_clone_is_closed(world: World) {
    let clone: Journal = world.clone();
    world.close();
    let answer = clone.append(Batch::hosted().with(prompt("a", 1)));
    assert!(matches!(answer, Err(AppendError::Closed)));
}

fn appends_during_close_are_answered(mut world: World) {
    let recorded = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for appender in 0..4 {
            let (world, recorded) = (&world, &recorded);
            scope.spawn(move || {
                for n in 0.. {
                    match world.append(Batch::hosted().with(prompt("a", appender << 32 | n))) {
                        Ok(_) => recorded.fetch_add(1, Ordering::Relaxed),
                        Err(AppendError::Closed) => return,
                        Err(error) => panic!("{error:?}"),
                    };
                }
            });
        }
        while recorded.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        world.close();
    });
    world.reopen();
    assert_eq!(read_all(&world, "a").len() as u64, recorded.into_inner());
}

fn streams_drain_before_end(world: World) {
    let mut news = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    talk(&world, "a", 3);
    let mut history = world.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    world.close();
    for stream in [&mut news, &mut history] {
        assert_eq!(next_events(stream, 3).len(), 3);
        assert!(stream.next().is_none());
        assert!(matches!(stream.next_within(Duration::ZERO), Err(FollowError::Closed)));
    }
}

fn close_ends_waiting_stream(world: World) {
    talk(&world, "a", 1);
    let mut stream = world.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    let (told, is_waiting) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            next_event(&mut stream);
            told.send(()).unwrap();
            stream.next().is_none()
        });
        is_waiting.recv().unwrap();
        world.close();
        assert!(waiting.join().unwrap());
    });
}

fn last_drop_ends_stream(mut world: World) {
    host(&world, prompt("a", 1));
    let mut stream = world.follow(FollowFrom::Beginning, OnLag::CatchUp).unwrap();
    world.let_go();
    assert_eq!(next_event(&mut stream).position, 1);
    assert!(stream.next().is_none());
}

fn thousand_handles_leak_nothing(world: World) {
    for n in 1..=1_000 {
        let journal: Journal = world.clone();
        let name = format!("s{}", n % 10);
        host(&journal, prompt(&name, n));
        let stream =
            journal.follow_session(&session(&name), FollowFrom::Now, OnLag::CatchUp).unwrap();
        drop(journal);
        drop(stream);
    }
    assert_eq!(world.subscriber_count(), 0);
    assert_eq!(host(&world, prompt("s0", 2_000)).position, 1_001);
}
