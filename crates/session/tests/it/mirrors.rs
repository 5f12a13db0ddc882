//! Sessions copied into a second journal while they grow.

use std::sync::Arc;

use event::Event;
use event::payload::Artifact;
use journal::{AppendError, ArtifactError, FollowFrom, ForkPolicy, Journal, ReadError, Selection};
use session::{ForkOptions, Mirror, Session, SessionError};

use crate::drafts::at;
use crate::worlds::{Kept, World, all, every_store, id, ids, observe, write};

fn copied(target: &Journal, name: &str) -> Vec<Event> {
    match target.events(&id(name), Selection::all()) {
        Err(ReadError::SessionNotFound(_)) => Vec::new(),
        events => events.unwrap().map(Result::unwrap).collect(),
    }
}

fn mirror(session: &Session, target: &World, from: FollowFrom) -> Mirror {
    session.mirror(target.journal(), from).unwrap()
}

every_store! {
    fn what_is_appended_is_copied(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        let mirror = mirror(&session, &target, FollowFrom::Now);
        write(&session, 1, "prompt one \n prompt two");
        mirror.detach().unwrap();
        assert_eq!(copied(target.journal(), "s"), all(&session));
        write(&session, 3, "prompt three");
        assert_eq!(copied(target.journal(), "s").len(), 2, "nothing after detaching");
    }

    fn copying_begins_where_it_is_told_to(world) {
        let session = world.session("s");
        write(&session, 1, "prompt one \n prompt two");
        let begin = |from: FollowFrom| {
            let target = World::new(Kept::Memory);
            let mirror = mirror(&session, &target, from);
            mirror.check_health().unwrap();
            mirror.detach().unwrap();
            ids(&copied(target.journal(), "s"))
        };
        let all = ids(&all(&session));
        assert_eq!(begin(FollowFrom::Beginning), all);
        assert_eq!(begin(FollowFrom::At(2)), all[1..]);
        assert_eq!(begin(FollowFrom::At(3)), []);
        assert_eq!(begin(FollowFrom::Now), []);
        let target = World::new(Kept::Memory);
        let mirror = mirror(&session, &target, FollowFrom::Now);
        write(&session, 3, "prompt three");
        mirror.detach().unwrap();
        assert_eq!(copied(target.journal(), "s").len(), 1);
    }

    fn empty_session_can_be_mirrored(world) {
        let (target, session) = (World::new(Kept::Memory), world.session("s"));
        let late = mirror(&session, &target, FollowFrom::At(3));
        write(&session, 1, "prompt one \n prompt two \n prompt three");
        late.detach().unwrap();
        assert_eq!(ids(&copied(target.journal(), "s")), ids(&all(&session))[2..]);
    }

    fn detaching_waits_for_everything_accepted(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        let mirror = mirror(&session, &target, FollowFrom::Beginning);
        for n in 1..=300 {
            write(&session, n, "prompt hello");
        }
        mirror.detach().unwrap();
        assert_eq!(copied(target.journal(), "s"), all(&session));
    }

    fn concurrent_mirror_has_no_gaps(world) {
        let (target, session) = (World::new(Kept::Memory), Arc::new(world.session("s")));
        let mirror = mirror(&session, &target, FollowFrom::Beginning);
        let threads: Vec<_> = (0..16u64).map(|thread| {
            let session = Arc::clone(&session);
            std::thread::spawn(move || {
                for n in 0..50 {
                    write(&session, 100 * (thread + 1) + n, "prompt hello");
                }
            })
        }).collect();
        mirror.detach().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (copied, all) = (ids(&copied(target.journal(), "s")), ids(&all(&session)));
        assert_eq!(all.len(), 800);
        assert_eq!(copied, all[..copied.len()]);
    }

    fn two_mirrors_copy_nothing_twice(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        write(&session, 1, "prompt one");
        let first = mirror(&session, &target, FollowFrom::Beginning);
        let second = mirror(&session, &target, FollowFrom::Beginning);
        write(&session, 2, "prompt two");
        first.detach().unwrap();
        second.detach().unwrap();
        assert_eq!(copied(target.journal(), "s"), all(&session));
    }

    fn a_mirror_goes_on_where_the_copy_ends(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        let first = session.mirror_on(target.journal()).unwrap();
        write(&session, 1, "prompt one");
        first.detach().unwrap();
        write(&session, 2, "prompt two \n prompt three");
        let session = Session::open(&world.reopened(), id("s")).unwrap();
        let second = session.mirror_on(target.journal()).unwrap();
        write(&session, 4, "prompt four");
        second.detach().unwrap();
        assert_eq!(copied(target.journal(), "s"), all(&session));
    }

    fn a_failing_target_does_not_harm_the_source(world) {
        let (target, session) = (World::new(Kept::Memory), world.session("s"));
        let first = mirror(&session, &target, FollowFrom::Beginning);
        let second = mirror(&session, &target, FollowFrom::Beginning);
        target.journal().close();
        write(&session, 1, "prompt one \n prompt two");
        let closed = |result| matches!(result, Err(SessionError::Append(AppendError::Closed)));
        assert!(closed(first.detach()));
        while second.check_health().is_ok() {
            std::thread::yield_now();
        }
        assert!(closed(second.check_health()), "an error stays");
        assert!(closed(second.detach()));
        assert_eq!(session.seq(), 2);
    }

    fn a_target_that_deleted_the_session_says_so(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        write(&session, 1, "prompt one");
        mirror(&session, &target, FollowFrom::Beginning).detach().unwrap();
        target.journal().delete(&id("s"), at(50), ForkPolicy::Refuse).unwrap();
        write(&session, 2, "prompt two");
        let refused = mirror(&session, &target, FollowFrom::At(2)).detach();
        assert!(matches!(refused, Err(SessionError::Append(AppendError::Deleted(..)))));
    }

    fn a_journal_is_not_mirrored_into_itself(world) {
        let session = world.session("s");
        write(&session, 1, "prompt one");
        for target in [world.journal(), world.reopened().journal()] {
            let refused = session.mirror(target, FollowFrom::Beginning);
            assert!(matches!(refused, Err(SessionError::BadArgument { .. })));
        }
    }

    fn mirror_copies_all_writers(world) {
        let (target, session) = (World::new(Kept::Memory), world.session("s"));
        let mirror = mirror(&session, &target, FollowFrom::Now);
        write(&Session::open_or_create(&world.reopened(), id("s")).unwrap(), 1, "prompt one");
        observe(&world, "s", 2, "result c9 ok orphan");
        mirror.detach().unwrap();
        assert_eq!(copied(target.journal(), "s").len(), 2);
    }

    fn bodies_are_copied_before_the_events_that_name_them(world) {
        let (target, session) = (World::new(world.kept), world.session("s"));
        let patch = Artifact { id: "x".to_owned(), kind: "patch".to_owned(), ..Artifact::default() };
        session.store_artifact(patch, Some(&mut "diff".as_bytes())).unwrap();
        write(&session, 1, r#"artifact.recorded {"artifact":{"id":"https://x/y","kind":"link"}}"#);
        mirror(&session, &target, FollowFrom::Beginning).detach().unwrap();
        assert_eq!(copied(target.journal(), "s"), all(&session));
        assert_eq!(target.journal().artifacts().read("x").unwrap(), b"diff");
        // Other bytes under the same name stop it.
        let other = World::new(world.kept);
        other.journal().artifacts().put("x", "else".as_bytes(), Default::default()).unwrap();
        let refused = mirror(&session, &other, FollowFrom::Beginning).detach();
        assert!(matches!(refused,
            Err(SessionError::Artifact(ArtifactError::ArtifactExists(_)))));
        assert!(copied(other.journal(), "s").is_empty());
    }

    fn fork_is_copied_with_inherited_events(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt one \n say m1 hi");
        parent.fork(id("f"), ForkOptions::default()).unwrap();
        let fork = world.open("f");
        write(&fork, 10, "prompt two");
        let target = World::new(world.kept);
        mirror(&fork, &target, FollowFrom::Beginning).detach().unwrap();
        assert_eq!(copied(target.journal(), "f"), all(&fork));
    }
}

#[test]
fn dropping_a_mirror_finishes_it() {
    let (world, target) = (World::new(Kept::Memory), World::new(Kept::Memory));
    let session = world.session("s");
    let mirror = mirror(&session, &target, FollowFrom::Now);
    write(&session, 1, "prompt one");
    drop(mirror);
    assert_eq!(copied(target.journal(), "s").len(), 1);
    assert_eq!(world.journal().subscriber_count(), 0);
}
