//! What is left of a session that is gone, and what stands on it.

use std::sync::Arc;

use event::{Event, Time};
use journal::{
    Ancestry, AppendError, AppendOutcome, Batch, ForkPolicy, Journal, LineageError, ReadError,
    Selection, SessionFilter,
};

use crate::given::{
    at, fork, host, id, moved, observe, prompt, prompts, read_all, recorded_from, seqs, session,
    started, talk,
};
use crate::world::World;

cases! {
    deleted_session_is_never_read
    positions_are_never_used_again
    reread_source_keeps_deletion
    deleted_session_cannot_be_hosted
    imported_ancestry_keeps_deletion
    ids_of_deleted_session_are_free
    only_what_exists_can_be_deleted
    a_session_with_forks_stays
    plain_child_allows_parent_deletion
    forks_are_given_their_own_copies
    forks_of_forks_stand_on_the_copies
    copied_fork_accepts_appends
    a_deleted_fork_frees_its_parent
    deleted_fork_stays_deleted
    read_never_mixes_sessions
    concurrent_fork_and_deletion_agree
    two_deletions_at_once_delete_once
}

const GONE_AT: Time = Time::EPOCH;

#[track_caller]
fn delete(journal: &Journal, name: &str) {
    journal.delete(&session(name), GONE_AT, ForkPolicy::Refuse).unwrap();
}

#[track_caller]
fn is_not_found<T>(answer: Result<T, ReadError>, name: &str) {
    let error = answer.err().expect("it is gone");
    assert!(matches!(&error, ReadError::SessionNotFound(id) if *id == session(name)), "{error:?}");
}

#[track_caller]
fn is_not_in_the_tree<T>(answer: Result<T, LineageError>, name: &str) {
    match answer.err().expect("it is gone") {
        LineageError::Read(error) => is_not_found(Err::<(), _>(error), name),
        other => panic!("{other:?}"),
    }
}

fn deleted_session_is_never_read(mut world: World) {
    talk(&world, "a", 3);
    talk(&world, "b", 2);
    let mut other = prompt("a", 2);
    other.text = Some("something else".to_owned());
    observe(&world, other);
    delete(&world, "a");
    for _ in 0..2 {
        let a = session("a");
        assert!(!world.exists(&a).unwrap());
        is_not_found(world.events(&a, Selection::all()), "a");
        is_not_found(world.stat(&a), "a");
        is_not_found(world.seq_of(&a, id("a", 1)), "a");
        is_not_found(world.event(&a, id("a", 1)), "a");
        is_not_found(world.sightings(&a, 2), "a");
        assert_eq!(world.deleted_at(&a).unwrap(), Some(GONE_AT));
        assert_eq!(world.deleted_at(&session("b")).unwrap(), None);
        is_not_in_the_tree(world.lineage(&a), "a");
        is_not_in_the_tree(world.children(&a), "a");
        assert!(matches!(world.resolve("a"), Err(ReadError::NoSuchPrefix(_))));
        let page = world.sessions(&SessionFilter::default(), None, 10).unwrap();
        assert_eq!(page.items, [world.stat(&session("b")).unwrap()]);
        let left: Vec<u64> = recorded_from(&world, 1).iter().map(|r| r.position).collect();
        assert_eq!(left, [4, 5]);
        assert_eq!(seqs(&read_all(&world, "b")), [1, 2]);
        world.reopen();
    }
}

fn positions_are_never_used_again(mut world: World) {
    talk(&world, "a", 1);
    talk(&world, "b", 3);
    delete(&world, "b");
    assert_eq!(world.tail().unwrap(), 4);
    world.reopen();
    assert_eq!(world.tail().unwrap(), 4);
    assert_eq!(host(&world, prompt("c", 1)).position, 5);
    for name in ["a", "c"] {
        delete(&world, name);
    }
    world.reopen();
    assert_eq!(host(&world, prompt("d", 1)).position, 6);
}

fn reread_source_keeps_deletion(mut world: World) {
    talk(&world, "a", 2);
    delete(&world, "a");
    world.reopen();
    let batch = Batch::observed()
        .with_all([prompt("a", 1), prompt("b", 1), prompt("a", 3)])
        .from_source(moved("file", None, "9"));
    let receipt = world.append(batch).unwrap();
    let outcomes: Vec<_> = receipt.events.iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [AppendOutcome::Ignored, AppendOutcome::Recorded, AppendOutcome::Ignored]);
    assert!(!world.exists(&session("a")).unwrap());
    assert_eq!(seqs(&read_all(&world, "b")), [1]);
    assert_eq!(world.source_position("file").unwrap().as_deref(), Some("9"));
}

fn deleted_session_cannot_be_hosted(mut world: World) {
    talk(&world, "a", 1);
    world.delete(&session("a"), at(77), ForkPolicy::Refuse).unwrap();
    world.reopen();
    for draft in [prompt("a", 1), prompt("a", 2)] {
        let error = world.append(Batch::hosted().with(draft)).unwrap_err();
        let AppendError::Deleted(id, when) = error else {
            panic!("{error:?}");
        };
        assert_eq!((id, when), (session("a"), at(77)));
    }
}

fn imported_ancestry_keeps_deletion(world: World) {
    talk(&world, "a", 1);
    let ancestry: Vec<Ancestry> = world.lineage(&session("a")).unwrap();
    delete(&world, "a");
    world.import_ancestry(ancestry).unwrap();
    assert!(!world.exists(&session("a")).unwrap());
}

fn ids_of_deleted_session_are_free(world: World) {
    talk(&world, "a", 2);
    delete(&world, "a");
    let mut draft = prompt("b", 1);
    draft.id = id("a", 1);
    assert_eq!(host(&world, draft).outcome, AppendOutcome::Recorded);
}

fn only_what_exists_can_be_deleted(world: World) {
    talk(&world, "a", 1);
    for name in ["nobody", "a", "a"] {
        let answer = world.delete(&session(name), GONE_AT, ForkPolicy::Copy);
        if name == "a" && answer.is_ok() {
            continue;
        }
        is_not_in_the_tree(answer, name);
    }
}

fn a_session_with_forks_stays(world: World) {
    talk(&world, "a", 2);
    host(&world, fork("f", 3, "a", 2));
    host(&world, fork("g", 4, "a", 1));
    host(&world, fork("zero", 5, "a", 0));
    host(&world, fork("ff", 6, "f", 3));
    let error = world.delete(&session("a"), GONE_AT, ForkPolicy::Refuse).unwrap_err();
    let LineageError::HasForks { session_id, mut forks } = error else {
        panic!("{error:?}");
    };
    forks.sort();
    assert_eq!((session_id, forks), (session("a"), vec![session("f"), session("g")]));
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
    assert_eq!(seqs(&read_all(&world, "f")), [1, 2, 3]);
}

fn plain_child_allows_parent_deletion(world: World) {
    talk(&world, "a", 2);
    host(&world, started("c", 3, "a", 2, event::payload::SessionMode::Child));
    host(&world, fork("zero", 4, "a", 0));
    delete(&world, "a");
    assert_eq!(seqs(&read_all(&world, "c")), [1]);
    assert_eq!(seqs(&read_all(&world, "zero")), [1]);
    let error = world.parent(&session("c")).unwrap_err();
    assert!(matches!(error, LineageError::DanglingParent { .. }));
}

fn forks_are_given_their_own_copies(mut world: World) {
    let mut naming = prompt("a", 3);
    naming.parent_id = Some(id("a", 1));
    world.append(Batch::hosted().with_all(prompts("a", 1..=2)).with(naming)).unwrap();
    host(&world, fork("f", 4, "a", 3));
    host(&world, fork("g", 5, "a", 1));
    let before: Vec<Vec<Event>> = ["f", "g"].map(|name| read_all(&world, name)).into();
    world.delete(&session("a"), GONE_AT, ForkPolicy::Copy).unwrap();
    for _ in 0..2 {
        assert!(!world.exists(&session("a")).unwrap());
        for (name, shown) in ["f", "g"].iter().zip(&before) {
            assert_eq!(world.stat(&session(name)).unwrap().events, 1, "copies are not counted");
            assert_eq!(read_all(&world, name), *shown);
            for event in shown {
                assert_eq!(world.seq_of(&session(name), event.id).unwrap(), Some(event.seq));
            }
        }
        world.reopen();
    }
}

fn forks_of_forks_stand_on_the_copies(mut world: World) {
    talk(&world, "a", 3);
    host(&world, fork("f", 4, "a", 3));
    host(&world, fork("deep", 5, "f", 4));
    host(&world, fork("shallow", 6, "f", 2));
    let names = ["f", "deep", "shallow"];
    let before = names.map(|name| read_all(&world, name));
    for gone in ["a", "f"] {
        world.delete(&session(gone), GONE_AT, ForkPolicy::Copy).unwrap();
        world.reopen();
        for (name, shown) in names.iter().zip(&before) {
            if world.exists(&session(name)).unwrap() {
                assert_eq!(read_all(&world, name), *shown, "{name} without {gone}");
            }
        }
    }
    assert!(!world.exists(&session("f")).unwrap());
}

fn copied_fork_accepts_appends(mut world: World) {
    talk(&world, "a", 2);
    host(&world, fork("f", 3, "a", 2));
    world.delete(&session("a"), GONE_AT, ForkPolicy::Copy).unwrap();
    let shown = read_all(&world, "f");
    let again = host(&world, shown[0].draft.clone());
    assert_eq!((again.seq, again.outcome), (1, AppendOutcome::AlreadyRecorded { differs: false }));
    assert_eq!(host(&world, prompt("f", 9)).seq, 4);
    host(&world, fork("ff", 10, "f", 4));
    world.reopen();
    let deeper = read_all(&world, "ff");
    assert_eq!(seqs(&deeper), [1, 2, 3, 4, 5]);
    for (inherited, source) in deeper.iter().zip(&shown) {
        let origin = inherited.fork_origin().unwrap();
        assert_eq!((origin.session_id, origin.event_id), (session("f"), source.id));
    }
}

fn a_deleted_fork_frees_its_parent(world: World) {
    talk(&world, "a", 2);
    host(&world, fork("f", 3, "a", 2));
    delete(&world, "f");
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
    assert_eq!(world.children(&session("a")).unwrap(), []);
    delete(&world, "a");
}

fn deleted_fork_stays_deleted(world: World) {
    talk(&world, "a", 2);
    host(&world, fork("f", 3, "a", 2));
    delete(&world, "f");
    let answer = world.append(Batch::hosted().with(fork("f", 3, "a", 2)));
    assert!(matches!(answer, Err(AppendError::Deleted(..))));
    let answer = world.append(Batch::hosted().with(fork("g", 3, "f", 2)));
    assert!(matches!(answer, Err(AppendError::SessionNotFound(_))));
}

fn read_never_mixes_sessions(world: World) {
    talk(&world, "b", 1);
    talk(&world, "a", 3);
    let reading = world.events(&session("a"), Selection::all()).unwrap();
    delete(&world, "a");
    talk(&world, "c", 3);
    for event in reading.flatten() {
        assert_eq!(event.session_id, session("a"));
        assert!(!event.encode().contains("prompt"), "{event:?}");
    }
}

fn concurrent_fork_and_deletion_agree(world: World) {
    for round in 0..100 {
        let (parent, name) = (format!("p{round}"), format!("f{round}"));
        talk(&world, &parent, 2);
        let forks = if round % 2 == 0 { ForkPolicy::Refuse } else { ForkPolicy::Copy };
        std::thread::scope(|scope| {
            let forking =
                scope.spawn(|| world.append(Batch::hosted().with(fork(&name, 3, &parent, 2))));
            let deleting = scope.spawn(|| world.delete(&session(&parent), GONE_AT, forks));
            let (forked, deleted) = (forking.join().unwrap(), deleting.join().unwrap());
            match forked {
                Ok(_) => assert_eq!(seqs(&read_all(&world, &name)), [1, 2, 3]),
                Err(error) => {
                    assert!(matches!(error, AppendError::SessionNotFound(_)), "{error:?}")
                }
            }
            match deleted {
                Ok(()) => assert!(!world.exists(&session(&parent)).unwrap()),
                Err(error) => assert!(matches!(error, LineageError::HasForks { .. }), "{error:?}"),
            }
        });
    }
}

fn two_deletions_at_once_delete_once(world: World) {
    for round in 0..20 {
        let (parent, name) = (format!("p{round}"), format!("f{round}"));
        talk(&world, &parent, 2);
        host(&world, fork(&name, 3, &parent, 2));
        let journal: Arc<Journal> = Arc::new(world.clone());
        let deleted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| journal.delete(&session(&parent), GONE_AT, ForkPolicy::Copy))
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).count()
        });
        assert_eq!(deleted, 1);
        assert_eq!(seqs(&read_all(&world, &name)), [1, 2, 3]);
    }
    host(&world, prompt("still", 1));
}
