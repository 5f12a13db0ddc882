//! The state beside the log: opening with it, without it, and with a damaged one.

use journal::Journal;
use session::Session;

use crate::drafts::drafts_of;
use crate::worlds::{Kept, World, all, every_store, id, told, write};

/// Enough events that the state is saved.
fn long_session(world: &World, name: &str, first: u64) -> Session {
    let session = world.session(name);
    for n in 0..60 {
        let lines = format!(
            "prompt p{n} \n call m{n} c{n} bash ls \n result c{n} ok done \n say n{n} fine \n note {{\"text\":\"x\"}}"
        );
        session.append_batch(drafts_of(name, first + 10 * n, &lines)).unwrap();
    }
    session
}

fn saved(journal: &Journal, name: &str) -> Option<(u64, Vec<u8>)> {
    journal.saved_view(&id(name), "session").unwrap()
}

every_store! {
    fn opening_with_and_without_saved_state_is_the_same(world) {
        let session = long_session(&world, "s", 1);
        write(&session, 9_001, "prompt last \n call z1 z1 bash ls");
        let host = world.reopened();
        let with = Session::open(&host, id("s")).unwrap();
        if world.kept != Kept::Memory {
            let (up_to_seq, bytes) = saved(host.journal(), "s").unwrap();
            assert!(up_to_seq >= 256);
            assert!(bytes.len() < 4_096, "{} bytes", bytes.len());
            // Damaged in any way it only means that the log is read.
            for damage in [vec![], vec![0; 7], bytes[..bytes.len() / 2].to_vec(), vec![255; 99]] {
                host.journal().save_view(&id("s"), "session", up_to_seq, &damage).unwrap();
                let again = Session::open(&host, id("s")).unwrap();
                assert_eq!(again.live(), session.live());
                host.journal().save_view(&id("s"), "session", up_to_seq, &damage).unwrap();
                assert_eq!(told(&again), told(&session));
            }
            // One that claims to cover what is not there, or belongs to another session.
            host.journal().save_view(&id("s"), "session", 100_000, &bytes).unwrap();
            assert_eq!(Session::open(&host, id("s")).unwrap().live(), session.live());
            long_session(&world, "t", 20_000);
            host.journal().save_view(&id("t"), "session", up_to_seq, &bytes).unwrap();
            assert_eq!(Session::open(&host, id("t")).unwrap().live(), world.open("t").live());
        }
        assert_eq!(with.live(), session.live());
        assert_eq!(told(&with), told(&session));
    }

    fn earlier_point_ignores_saved_state(world) {
        let session = long_session(&world, "s", 1);
        let then = Session::at_seq(&world.host, id("s"), 7).unwrap();
        let mut replay = session::Replay::new();
        replay.run(all(&session).into_iter().take(7)).unwrap();
        assert_eq!(*replay.session().unwrap(), then.live());
        // And one behind it goes on from there.
        let then = Session::at_seq(&world.host, id("s"), 299).unwrap();
        let mut replay = session::Replay::new();
        replay.run(all(&session).into_iter().take(299)).unwrap();
        assert_eq!(*replay.session().unwrap(), then.live());
    }

    fn a_long_fork_opens_like_any_other(world) {
        long_session(&world, "p", 1);
        world.open("p").fork(id("f"), Default::default()).unwrap();
        let first = world.open("f");
        write(&first, 50_000, "prompt own");
        let host = world.reopened();
        let second = Session::open(&host, id("f")).unwrap();
        assert_eq!(first.live(), second.live());
        assert_eq!(told(&first), told(&second));
    }

    fn inherited_state_equals_the_folded_one(world) {
        let parent = long_session(&world, "p", 1);
        // An open call, an open answer and a row of denials are inherited; a request is not.
        write(&parent, 9_001, "prompt on \n call z1 z1 bash ls \n approval.requested {\"approval_id\":\"a1\",\"tool\":\"bash\"}");
        parent.fork(id("f"), Default::default()).unwrap();
        // The parent goes on, and its state with it.
        long_session(&world, "p", 30_000);
        let fork = world.open("f");
        write(&fork, 50_000, "note {\"text\":\"own\"}");
        fork.fork(id("g"), Default::default()).unwrap();
        let with: Vec<_> = ["f", "g"].map(|name| world.open(name)).into();
        for name in ["p", "f", "g"] {
            world.journal().save_view(&id(name), "session", 1, b"damaged").unwrap();
        }
        for (name, with) in ["f", "g"].iter().zip(with) {
            let without = world.open(name);
            assert_eq!(with.live(), without.live(), "{name}");
            assert_eq!(told(&with), told(&without), "{name}");
        }
    }

    fn deleted_sessions_state_is_not_reused(world) {
        long_session(&world, "s", 1);
        world.journal().delete(&id("s"), crate::drafts::at(0), journal::ForkPolicy::Refuse).unwrap();
        assert!(saved(world.journal(), "s").is_none());
    }
}

#[test]
fn opening_reads_the_tail_and_not_the_log() {
    // Two sessions with the same ids and other costs: whoever opens one with the saved state of
    // the other believes it, because the log behind it is not read.
    let (cheap, dear) = (World::new(Kept::Sqlite), World::new(Kept::Sqlite));
    let session = long_session(&cheap, "s", 1);
    let (up_to_seq, bytes) = saved(cheap.journal(), "s").unwrap();
    for event in all(&session) {
        let mut draft = event.draft.clone();
        draft.cost = Some("1".parse().unwrap());
        dear.session("s").append(draft).unwrap();
    }
    dear.journal().save_view(&id("s"), "session", up_to_seq, &bytes).unwrap();
    let tail = session.seq() - up_to_seq;
    assert_eq!(dear.open("s").cost().own.to_string(), tail.to_string());
}

#[test]
fn a_fork_does_not_read_what_its_parent_has_folded() {
    // As above: the state that was saved for the parent costs nothing, its log does.
    let (cheap, dear) = (World::new(Kept::Sqlite), World::new(Kept::Sqlite));
    let session = long_session(&cheap, "p", 1);
    let (up_to_seq, bytes) = saved(cheap.journal(), "p").unwrap();
    for event in all(&session) {
        let mut draft = event.draft.clone();
        draft.cost = Some("1".parse().unwrap());
        dear.session("p").append(draft).unwrap();
    }
    dear.journal().save_view(&id("p"), "session", up_to_seq, &bytes).unwrap();
    let parent = dear.open("p");
    let tail = (session.seq() - up_to_seq).to_string();
    parent.fork(id("f"), Default::default()).unwrap();
    assert_eq!(dear.open("f").cost().inherited.to_string(), tail);
    let spec = session::ChildSpec {
        agent_id: "a".to_owned(),
        task: "look".to_owned(),
        session_id: Some(id("c")),
        mode: Some(event::payload::ChildMode::Fork),
        ..Default::default()
    };
    let child = parent.spawn_child(spec).unwrap();
    assert_eq!(child.session.cost().inherited.to_string(), tail, "a child that is a fork");
}

#[test]
fn few_events_are_folded_at_any_length() {
    let world = World::new(Kept::Sqlite);
    let session = world.session("s");
    let mut unsaved = 0;
    for n in 0..120 {
        let lines = "note {\"text\":\"x\"} \n".repeat(50);
        session.append_batch(drafts_of("s", 1 + 100 * n, &lines)).unwrap();
        let saved_seq = saved(world.journal(), "s").map_or(0, |(up_to_seq, _)| up_to_seq);
        unsaved = unsaved.max(session.seq() - saved_seq);
    }
    assert_eq!(session.seq(), 6_000);
    assert!(unsaved <= 256 + 100, "{unsaved} events were folded by no saved state");
}

#[test]
fn derived_state_is_rebuilt_when_deleted() {
    for kept in [Kept::Sqlite, Kept::Files] {
        let world = World::new(kept);
        let session = long_session(&world, "s", 1);
        session.fork(id("f"), Default::default()).unwrap();
        let before = (told(&session), session.live(), all(&world.open("f")));
        world.journal().close();
        let dir = world.journal().dir().unwrap().to_owned();
        for file in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if file.file_name().to_string_lossy().starts_with("derived.db") {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
        let host = world.reopened();
        assert!(saved(host.journal(), "s").is_none());
        let again = Session::open(&host, id("s")).unwrap();
        let fork = Session::open(&host, id("f")).unwrap();
        assert_eq!((told(&again), again.live(), all(&fork)), before);
        // Keyed lookups need the index.
        assert!(again.find_execution("nothing").unwrap().is_none());
        assert!(again.append_batch(drafts_of("s", 70_000, "result c7 ok late")).is_err());
        assert!(saved(host.journal(), "s").is_some(), "saved again");
    }
}
