//! Every reader sees a batch whole or not at all, at any moment.

use std::sync::atomic::{AtomicBool, Ordering};

use journal::{Batch, FollowFrom, Journal, OnLag, Recorded, Selection};

use crate::given::{
    fork, host, moved, next_event, prompt, prompts, read, recorded_from, session, talk,
};
use crate::world::World;

cases! {
    readers_see_batch_whole
    readers_see_long_batch_whole
    event_and_source_position_agree
    counters_agree_with_events
    a_fork_is_seen_with_its_ancestry
    waiting_batches_stay_whole
}

const ROUNDS: u64 = 120;

/// Runs `read` over and over on two threads while `write` works.
fn beside(journal: &Journal, read: impl Fn(&Journal) + Sync, write: impl FnOnce(&Journal)) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    // The last reading begins when everything is written.
                    let is_last = is_done.load(Ordering::Acquire);
                    read(journal);
                    if is_last {
                        return;
                    }
                }
            });
        }
        write(journal);
        is_done.store(true, Ordering::Release);
    });
}

fn tail_of(journal: &Journal, name: &str) -> u64 {
    let exists = journal.exists(&session(name)).unwrap();
    if exists { journal.stat(&session(name)).unwrap().tail_seq } else { 0 }
}

fn readers_see_batch_whole(world: World) {
    beside(
        &world,
        |journal| {
            assert_eq!(journal.tail().unwrap() % 3, 0);
            let page = journal.recorded_from(1).unwrap();
            assert!(page.len() % 3 == 0 || page.len() == 1_024, "{}", page.len());
            // Read one after the other, none may be behind the one before.
            let mut before = 0;
            for name in ["a", "b", "c", "a", "b", "c"] {
                let tail = tail_of(journal, name);
                assert!(tail >= before, "{name} ends at {tail} when another ended at {before}");
                before = tail;
            }
        },
        |journal| {
            for n in 1..=ROUNDS {
                let drafts = ["b", "c", "a"].map(|name| prompt(name, n));
                journal.append(Batch::observed().with_all(drafts)).unwrap();
            }
        },
    );
    assert_eq!(world.tail().unwrap(), 3 * ROUNDS);
}

fn readers_see_long_batch_whole(world: World) {
    const LONG: u64 = 1_500;
    beside(
        &world,
        |journal| {
            let tail = tail_of(journal, "a");
            assert_eq!(tail % LONG, 0);
            if tail > 0 {
                let seen = journal.events(&session("a"), Selection::all()).unwrap();
                assert_eq!(seen.map(Result::unwrap).count() as u64 % LONG, 0);
            }
        },
        |journal| {
            for round in 0..4 {
                let numbers = round * LONG + 1..=(round + 1) * LONG;
                journal.append(Batch::observed().with_all(prompts("a", numbers))).unwrap();
            }
        },
    );
}

fn event_and_source_position_agree(world: World) {
    let read_up_to = |journal: &Journal| {
        let position = journal.source_position("file").unwrap();
        position.map_or(0, |position| position.parse::<u64>().unwrap())
    };
    let mut stream = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    std::thread::scope(|scope| {
        let follower = scope.spawn({
            let world = &world;
            move || {
                for _ in 1..=2 * ROUNDS {
                    let Recorded { position, .. } = next_event(&mut stream);
                    assert!(read_up_to(world) >= position);
                }
            }
        });
        beside(
            &world,
            |journal| {
                let seen = journal.tail().unwrap();
                assert!(read_up_to(journal) >= seen, "events before their position");
                let read = read_up_to(journal);
                assert!(journal.tail().unwrap() >= read, "a position before its events");
            },
            |journal| {
                for n in 1..=ROUNDS {
                    let from = (2 * (n - 1)).to_string();
                    let from = (n > 1).then_some(from.as_str());
                    let source = moved("file", from, &(2 * n).to_string());
                    let drafts = [prompt("a", n), prompt("b", n)];
                    journal.append(Batch::observed().with_all(drafts).from_source(source)).unwrap();
                }
            },
        );
        follower.join().unwrap();
    });
}

fn counters_agree_with_events(world: World) {
    talk(&world, "a", 2);
    beside(
        &world,
        |journal| {
            let before = journal.stat(&session("a")).unwrap();
            let events = read(journal, "a", Selection::all());
            let after = journal.stat(&session("a")).unwrap();
            assert!((before.events..=after.events).contains(&(events.len() as u64)));
            assert_eq!(before.events, before.tail_seq);
            assert_eq!(before.events % 2, 0);
        },
        |journal| {
            for n in 2..=ROUNDS {
                journal.append(Batch::hosted().with_all(prompts("a", 2 * n - 1..=2 * n))).unwrap();
            }
        },
    );
}

fn a_fork_is_seen_with_its_ancestry(world: World) {
    talk(&world, "p", 3);
    beside(
        &world,
        |journal| {
            for recorded in recorded_from(journal, 4) {
                let id = &recorded.event.session_id;
                let way = journal.lineage(id).unwrap();
                assert_eq!(way.len(), 2);
                assert_eq!(way[1].fork_point_seq, 3);
                let shown = journal.events(id, Selection::all().strict()).unwrap();
                assert_eq!(shown.map(Result::unwrap).count(), 4);
            }
        },
        |journal| {
            for n in 0..40 {
                host(journal, fork(&format!("f{n}"), 10 + n, "p", 3));
            }
        },
    );
    assert_eq!(world.children(&session("p")).unwrap().len(), 40);
}

fn waiting_batches_stay_whole(world: World) {
    let submit = |writer: u64, n: u64| {
        let drafts = ["a", "b"].map(|name| prompt(name, writer * 1_000 + n));
        world.submit(Batch::observed().with_all(drafts)).unwrap()
    };
    std::thread::scope(|scope| {
        for writer in 1..=4 {
            let submit = &submit;
            scope.spawn(move || {
                let tickets: Vec<_> = (1..=50).map(|n| submit(writer, n)).collect();
                tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            });
        }
    });
    let all = recorded_from(&world, 1);
    assert_eq!(all.len(), 400);
    for pair in all.chunks(2) {
        let [first, second] = pair else { unreachable!("chunks of two") };
        assert_eq!(first.event.created_at, second.event.created_at);
        assert_eq!(first.event.seq, second.event.seq);
    }
}
