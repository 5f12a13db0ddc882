//! Forks, snapshots, replay and lineage over a journal.

use event::payload::{
    Compaction, ContextAdded, Covers, SavedEntry, SessionMode, SessionParent, SessionStarted,
};
use event::{Event, EventId, ForkOrigin, Raw};
use journal::{Ancestry, ForkPolicy, LineageError, ReadError, ReadMode, Selection};
use session::compaction::CompactionOptions;
use session::snapshot::SnapshotPolicy;
use session::{ForkOptions, Replay, Session, SessionError, fork};

use crate::drafts::{at, drafts_of, id as line_id};
use crate::log::render;
use crate::worlds::{World, all, every_store, id, ids, kinds, told, write};

fn fork_at(session: &Session, name: &str, at: u64) {
    session.fork(id(name), ForkOptions { at: Some(at), ..ForkOptions::default() }).unwrap();
}

fn fork_of(session: &Session, name: &str) {
    session.fork(id(name), ForkOptions::default()).unwrap();
}

/// The first event of a fork that a host writes itself.
fn begun_from(parent: &str, seq: u64) -> SessionStarted {
    SessionStarted {
        parent: Some(SessionParent { session_id: id(parent), seq, event_id: None }),
        mode: Some(SessionMode::Fork),
        ..SessionStarted::default()
    }
}

fn root(name: &str) -> Ancestry {
    Ancestry::root(id(name), at(0))
}

fn names(lineage: &[Ancestry]) -> Vec<(&str, u32)> {
    lineage.iter().map(|step| (step.session_id.as_str(), step.depth)).collect()
}

/// The same event apart from what a fork may change.
fn same_but_for_ids(mut shown: Event, parent: &Event) -> bool {
    shown.draft.id = parent.id;
    shown.draft.session_id = parent.session_id.clone();
    shown.draft.metadata = parent.metadata.clone();
    shown == *parent
}

const TALK: &str = r#"
    [cost=0.01] prompt hello
    think m1 hm
    say m1 on it
    call m1 c1 bash ls
    started c1 bash never_replay
    [cost=0.05] result c1 ok done
    say m2 all done
"#;

every_store! {
    fn a_fork_shows_its_parent_under_fresh_ids(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        fork_of(&parent, "f");
        let (fork, parents) = (world.open("f"), all(&parent));
        let shown = all(&fork);
        assert_eq!(shown.len(), parents.len() + 1);
        for (shown, parent) in shown.iter().zip(&parents) {
            assert!(same_but_for_ids(shown.clone(), parent));
            assert_eq!(shown.session_id, id("f"));
            assert_ne!(shown.id, parent.id);
            let origin = ForkOrigin { session_id: id("p"), event_id: parent.id };
            assert_eq!(shown.fork_origin(), Some(origin));
            assert_eq!(world.journal().event(&id("f"), shown.id).unwrap(), *shown);
        }
        let mut fresh = ids(&shown);
        fresh.sort();
        fresh.dedup();
        assert_eq!(fresh.len(), shown.len());
        let started = shown.last().unwrap();
        assert_eq!(started.kind.as_str(), "session.started");
        assert!(started.fork_origin().is_none());
        assert_eq!(fork.cost().inherited.to_string(), "0.06");
        assert_eq!(fork.cost().own.to_string(), "0");
        assert_eq!(fork.cost().total(), parent.cost().total());
    }

    fn the_first_append_can_begin_a_fork(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        let fork = Session::create(&world.host, id("f")).unwrap();
        let appended = fork.append(fork.draft(&begun_from("p", 7)).unwrap()).unwrap();
        assert_eq!((appended.seq, fork.seq()), (8, 8));
        assert_eq!(told(&fork), told(&parent));
        assert_eq!(fork.cost().inherited.to_string(), "0.06");
        assert_eq!(fork.cost().own.to_string(), "0");
        fork.append_prompt("go on").unwrap();
        assert_eq!(fork.live(), world.open("f").live());
        assert_eq!(told(&fork), told(&world.open("f")));
        // Only the first event can name a parent, and only another session.
        let again = fork.append(fork.draft(&begun_from("p", 7)).unwrap());
        assert!(matches!(again, Err(SessionError::SessionExists(name)) if name == id("f")));
        let own = Session::create(&world.host, id("g")).unwrap();
        let own = own.append(own.draft(&begun_from("g", 0)).unwrap());
        assert!(matches!(own, Err(SessionError::SameSession(name)) if name == id("g")));
        let beyond = Session::create(&world.host, id("h")).unwrap();
        let beyond = beyond.append(beyond.draft(&begun_from("p", 8)).unwrap());
        assert!(matches!(beyond, Err(SessionError::PointOutOfRange { point: 8, tail: 7, .. })));
    }

    fn the_first_batch_of_a_fork_answers_an_inherited_call(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt hello \n call m1 c1 bash ls");
        let fork = Session::create(&world.host, id("f")).unwrap();
        let mut batch = vec![fork.draft(&begun_from("p", 2)).unwrap()];
        batch.extend(drafts_of("f", 20, "result c1 ok done \n say m2 all done"));
        fork.append_batch(batch).unwrap();
        assert_eq!(fork.effective().unwrap().len(), 4);
        assert!(fork.open_work().calls().is_empty());
        assert_eq!(fork.live(), world.open("f").live());
    }

    fn a_long_fork_begun_by_append_has_the_inherited_cost(world) {
        let parent = world.session("p");
        let paid = drafts_of("p", 1, &"[cost=0.01] prompt again \n".repeat(300));
        parent.append_batch(paid).unwrap();
        let fork = Session::create(&world.host, id("f")).unwrap();
        fork.append(fork.draft(&begun_from("p", 300)).unwrap()).unwrap();
        let cost = world.open("f").cost();
        assert_eq!((cost.inherited.to_string(), cost.own.to_string()), ("3".into(), "0".into()));
    }

    fn a_fork_of_a_fork_names_its_immediate_source(world) {
        let grand = world.session("g");
        write(&grand, 1, "prompt one \n prompt two \n prompt three");
        fork_at(&grand, "p", 2);
        let parent = world.open("p");
        write(&parent, 10, "prompt four");
        fork_of(&parent, "f");
        let (parents, shown) = (all(&parent), all(&world.open("f")));
        assert_eq!(kinds(&shown)[2..], ["session.started", "user.prompt", "session.started"]);
        for (shown, parent) in shown.iter().zip(&parents) {
            let origin = shown.fork_origin().unwrap();
            assert_eq!((origin.session_id, origin.event_id), (id("p"), parent.id));
        }
        let lineage = world.journal().lineage(&id("f")).unwrap();
        assert_eq!(names(&lineage), [("g", 0), ("p", 1), ("f", 2)]);
    }

    fn an_empty_session_is_forked_without_a_fork_point(world) {
        world.journal().import_ancestry(vec![root("p")]).unwrap();
        fork(&world.host, &id("p"), id("f"), ForkOptions::default()).unwrap();
        write(&world.session("q"), 1, "prompt hello");
        fork_at(&world.open("q"), "g", 0);
        for name in ["f", "g"] {
            let fork = world.open(name);
            assert_eq!(kinds(&all(&fork)), ["session.started"]);
            let ancestry = world.journal().stat(&id(name)).unwrap().ancestry;
            assert_eq!((ancestry.fork_point_seq, ancestry.fork_point_event_id), (0, None));
            assert_eq!(ancestry.depth, 1);
        }
        assert!(matches!(
            world.session("never written").fork(id("h"), ForkOptions::default()),
            Err(SessionError::Read(ReadError::SessionNotFound(_)))
        ));
    }

    fn an_open_call_can_be_answered_in_the_fork(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt hello \n call m1 c1 bash ls");
        fork_of(&parent, "f");
        let fork = world.open("f");
        let key = parent.call_key(&parent.open_work().calls()[0]).unwrap();
        assert_eq!(fork.call_key(&fork.open_work().calls()[0]).unwrap(), key);
        fork_of(&fork, "ff");
        let second = world.open("ff");
        assert_eq!(second.call_key(&second.open_work().calls()[0]).unwrap(), key);
        write(&fork, 10, "result c1 ok done");
        assert!(fork.open_work().calls().is_empty());
        assert_eq!(parent.open_work().calls().len(), 1);
        assert_eq!(second.open_work().calls().len(), 1);
        assert!(told(&fork).contains("c1"));
    }

    fn fork_never_waits_for_inherited_requests(world) {
        let parent = world.session("p");
        write(&parent, 1, r#"
            turn.started {"agent_id":"a"}
            approval.requested {"approval_id":"a1","tool":"bash"}
            wait.started {"wait_id":"w1"}
            external.input {"request_id":"q1","prompt":"why","status":"pending"}
        "#);
        assert!(parent.is_waiting());
        fork_of(&parent, "f");
        let fork = world.open("f");
        assert!(!fork.is_waiting());
        assert!(fork.open_work().turn().is_none());
        let answer = drafts_of("f", 10, r#"approval.resolved {"approval_id":"a1","decision":"allow"}"#);
        assert!(fork.append_batch(answer).is_err());
        // Its own question has the same name as the parent's, and is another one.
        write(&fork, 20, r#"
            approval.requested {"approval_id":"a1","tool":"bash"}
            approval.resolved {"approval_id":"a1","decision":"allow"}
        "#);
        assert_eq!(parent.open_work().approvals().len(), 1);
    }

    fn inherited_executions_are_found(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        fork_of(&parent, "f");
        fork_of(&world.open("f"), "ff");
        for name in ["f", "ff"] {
            let found = world.open(name).find_execution("key-c1").unwrap().unwrap();
            let seqs = [found.call, found.started, found.result].map(|event| event.unwrap().seq);
            assert_eq!(seqs, [4, 5, 6]);
        }
    }

    fn earlier_fork_has_the_earlier_state(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        fork_at(&parent, "f", 4);
        let then = Session::at_seq(&world.host, id("p"), 4).unwrap();
        let fork = world.open("f");
        assert_eq!(told(&fork), told(&then));
        // A session as it was is forked where it ends.
        then.fork(id("g"), ForkOptions::default()).unwrap();
        assert_eq!(told(&world.open("g")), told(&then));
        assert_eq!(fork.open_work().calls().len(), 1);
    }

    fn appends_on_one_side_are_invisible_on_the_other(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt shared");
        fork_of(&parent, "f");
        let fork = world.open("f");
        write(&parent, 10, "prompt parent");
        write(&fork, 20, "prompt fork");
        let host = world.reopened();
        let texts = |name: &str| {
            let session = Session::open(&host, id(name)).unwrap();
            let entries = session.effective().unwrap();
            entries.entries().map(|entry| entry.text()).collect::<Vec<_>>()
        };
        assert_eq!(texts("p"), ["shared", "parent"]);
        assert_eq!(texts("f"), ["shared", "fork"]);
    }

    fn reopened_fork_has_its_whole_history(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        fork_of(&parent, "f");
        let fork = world.open("f");
        write(&fork, 20, "prompt more \n say m3 sure");
        let again = Session::open(&world.reopened(), id("f")).unwrap();
        assert_eq!(all(&again), all(&fork));
        assert_eq!(all(&again).len(), 10);
        assert_eq!(again.live(), fork.live());
        assert_eq!(told(&again), told(&fork));
        assert_eq!(world.journal().parent(&id("f")).unwrap().unwrap().session_id, id("p"));
    }

    fn live_fork_has_all_acknowledged_events(world) {
        let parent = world.session("p");
        for n in 1..=40 {
            write(&parent, n, "prompt hello");
            fork_of(&parent, &format!("f{n}"));
            assert_eq!(all(&world.open(&format!("f{n}"))).len() as u64, n + 1);
        }
        assert_eq!(world.journal().children(&id("p")).unwrap().len(), 40);
    }

    fn references_are_shown_translated(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt one \n prompt two \n [parent=1] prompt three");
        let mut artifact = r#"artifact.recorded {"artifact":{"id":"x","kind":"patch","producer_event_id":"ID"}}"#.to_owned();
        artifact = artifact.replace("ID", &line_id(2).to_string());
        write(&parent, 4, &artifact);
        let covers = Covers { from: Raw::from_value(&line_id(2)).unwrap(), to: Raw::parse("2").unwrap() };
        let mut context: ContextAdded =
            Raw::parse(r#"{"kind":"summary","placement":"history","content":"left"}"#)
                .unwrap().read().unwrap();
        context.covers = Some(covers);
        parent.append_context(&context).unwrap();
        parent.record(&Compaction {
            strategy: "summarize".to_owned(),
            cutoff_seq: 3,
            cutoff_event_id: Some(line_id(3)),
            entries: vec![SavedEntry {
                seq: Some(1), event_id: Some(line_id(1)), ..SavedEntry::default()
            }],
            ..Compaction::default()
        }).unwrap();
        crate::worlds::observe(&world, "p", 20, "[amends=2] prompt two, fuller");
        parent.refresh().unwrap();
        fork_of(&parent, "f");
        fork_of(&world.open("f"), "ff");
        for name in ["f", "ff"] {
            let fork = world.open(name);
            let shown = all(&fork);
            let fresh = |n: usize| shown[n - 1].id;
            assert_eq!(shown[2].parent_id, Some(fresh(1)));
            let artifact = shown[3].data.get();
            assert!(artifact.contains(&fresh(2).to_string()), "{artifact}");
            let covers = shown[4].payload::<ContextAdded>().unwrap().unwrap().covers.unwrap();
            assert_eq!(covers.from.read::<EventId>().unwrap(), fresh(2));
            assert_eq!(covers.to.get(), "2");
            let compaction = shown[5].payload::<Compaction>().unwrap().unwrap();
            assert_eq!(compaction.cutoff_event_id, Some(fresh(3)));
            assert_eq!(compaction.entries[0].event_id, Some(fresh(1)));
            assert_eq!(shown[6].amends(), Some(fresh(2)));
            assert_eq!(told(&fork), told(&parent));
        }
    }

    fn a_fork_of_a_compacted_session_has_the_same_view(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        parent.summarize("they said hello", &CompactionOptions { keep: 1, ..Default::default() })
            .unwrap().unwrap();
        write(&parent, 20, "prompt next");
        parent.snapshot().unwrap().unwrap();
        write(&parent, 21, "prompt last");
        fork_of(&parent, "f");
        assert_eq!(told(&world.open("f")), told(&parent));
        assert!(told(&parent).contains("they said hello"));
    }

    fn fork_can_rewind_into_inherited_events(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt one \n prompt two \n prompt three");
        fork_of(&parent, "f");
        let fork = world.open("f");
        let first = all(&fork)[0].id;
        let mut draft = drafts_of("f", 10, "prompt other").remove(0);
        draft.parent_id = Some(first);
        fork.append(draft.clone()).unwrap();
        let texts: Vec<String> =
            fork.effective().unwrap().entries().map(|entry| entry.text()).collect();
        assert_eq!(texts, ["one", "other"]);
        // The parent's own id names nothing in the fork.
        draft.id = line_id(11);
        draft.parent_id = Some(line_id(1));
        assert!(fork.append(draft).is_err());
    }

    fn label_and_reason_are_kept(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt one \n prompt two");
        let options = ForkOptions {
            at: None, label: Some("try".to_owned()), reason: Some("what if".to_owned()),
        };
        parent.fork(id("f"), options).unwrap();
        let children = world.journal().children(&id("p")).unwrap();
        assert_eq!(children.len(), 1);
        let child = &children[0];
        assert_eq!((child.depth, child.label.as_deref(), child.reason.as_deref()),
            (1, Some("try"), Some("what if")));
        assert_eq!((child.fork_point_seq, child.fork_point_event_id), (2, Some(line_id(2))));
        let shown = all(&world.open("f"));
        assert_eq!(shown[1].fork_origin().unwrap().event_id, line_id(2));
        let started = shown[2].payload::<SessionStarted>().unwrap().unwrap();
        assert_eq!(started.label.as_deref(), Some("try"));
        assert!(world.journal().parent(&id("p")).unwrap().is_none());
        assert_eq!(names(&world.journal().lineage(&id("p")).unwrap()), [("p", 0)]);
        assert_eq!(names(&world.journal().lineage(&id("f")).unwrap()), [("p", 0), ("f", 1)]);
    }

    fn invalid_forks_are_refused(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt one");
        write(&world.session("q"), 10, "prompt other");
        let unknown = fork(&world.host, &id("nobody"), id("f"), ForkOptions::default());
        assert!(matches!(unknown, Err(SessionError::Read(ReadError::SessionNotFound(_)))));
        let existing = parent.fork(id("q"), ForkOptions::default());
        assert!(matches!(existing, Err(SessionError::SessionExists(name)) if name == id("q")));
        let itself = parent.fork(id("p"), ForkOptions::default());
        assert!(matches!(itself, Err(SessionError::SameSession(name)) if name == id("p")));
        let beyond = parent.fork(id("f"), ForkOptions { at: Some(2), ..Default::default() });
        assert!(matches!(beyond, Err(SessionError::PointOutOfRange { point: 2, tail: 1, .. })));
        assert!(!world.journal().exists(&id("f")).unwrap());
        assert_eq!((all(&parent).len(), all(&world.open("q")).len()), (1, 1));
    }

    fn parent_is_deletable_after_forks_copied(world) {
        let grand = world.session("g");
        write(&grand, 1, TALK);
        fork_at(&grand, "p", 6);
        fork_of(&world.open("p"), "f");
        let (before, view) = (all(&world.open("p")), told(&world.open("p")));
        let fork_before = all(&world.open("f"));
        let refused = world.journal().delete(&id("g"), at(99), ForkPolicy::Refuse);
        assert!(matches!(refused, Err(LineageError::HasForks { .. })));
        world.journal().delete(&id("g"), at(99), ForkPolicy::Copy).unwrap();
        let host = world.reopened();
        let parent = Session::open(&host, id("p")).unwrap();
        assert_eq!(all(&parent), before);
        assert_eq!(told(&parent), view);
        assert_eq!(all(&Session::open(&host, id("f")).unwrap()), fork_before);
        write(&parent, 50, "prompt goes on");
        assert_eq!(parent.find_execution("key-c1").unwrap().unwrap().result.unwrap().seq, 6);
        assert_eq!(host.journal().stat(&id("p")).unwrap().inherited_seq, 0);
    }

    fn a_session_in_the_middle_can_be_deleted_too(world) {
        let grand = world.session("g");
        write(&grand, 1, TALK);
        fork_at(&grand, "p", 4);
        write(&world.open("p"), 30, "prompt p");
        fork_of(&world.open("p"), "f");
        let before = all(&world.open("f"));
        world.journal().delete(&id("p"), at(99), ForkPolicy::Copy).unwrap();
        assert_eq!(all(&Session::open(&world.reopened(), id("f")).unwrap()), before);
        assert_eq!(all(&world.open("g")).len(), 7);
    }

    fn imported_ancestry_survives_an_append(world) {
        let child = Ancestry {
            parent_session_id: Some(id("p")), created_at: at(1), ..root("c")
        };
        world.journal().import_ancestry(vec![root("p"), child.clone()]).unwrap();
        world.journal().import_ancestry(vec![child]).unwrap();
        write(&world.session("c"), 1, "prompt hello");
        let lineage = world.journal().lineage(&id("c")).unwrap();
        assert_eq!(names(&lineage), [("p", 0), ("c", 1)]);
        assert_eq!(all(&world.open("c")).len(), 1);
    }

    fn appends_and_imports_run_together(world) {
        let threads: Vec<_> = (0..32u64).map(|n| {
            let (session, journal) = (world.session("s"), world.journal().clone());
            std::thread::spawn(move || {
                write(&session, n + 1, "prompt hello");
                journal.import_ancestry(vec![root(&format!("r{n}"))]).unwrap();
            })
        }).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(world.open("s").seq(), 32);
        assert!((0..32).all(|n| world.journal().exists(&id(&format!("r{n}"))).unwrap()));
    }

    fn a_snapshot_is_made_when_it_is_due(world) {
        let session = world.session("s");
        assert!(session.snapshot().unwrap().is_none());
        assert!(!world.journal().exists(&id("s")).unwrap());
        let policy = SnapshotPolicy { events_max: 2, age_max: None };
        write(&session, 1, "prompt one");
        assert!(session.snapshot_if_needed(policy, at(5)).unwrap().is_none());
        write(&session, 2, "prompt two");
        session.snapshot_if_needed(policy, at(5)).unwrap().unwrap();
        let snapshot = session.last_event().unwrap().unwrap();
        let snapshot = snapshot.payload::<event::payload::Snapshot>().unwrap().unwrap();
        assert_eq!((snapshot.strategy.as_str(), snapshot.cutoff_seq), ("count", 2));
        write(&session, 3, "prompt three");
        assert!(session.snapshot_if_needed(policy, at(5)).unwrap().is_none());
        let old = SnapshotPolicy { events_max: 99, age_max: Some(std::time::Duration::from_secs(60)) };
        session.snapshot_if_needed(old, at(3 + 120)).unwrap().unwrap();
        let texts: Vec<String> =
            session.effective().unwrap().entries().map(|entry| entry.text()).collect();
        assert_eq!(texts, ["one", "two", "three"]);
    }

    fn concurrent_append_survives_snapshot(world) {
        let (session, other) = (world.session("s"), world.session("s"));
        write(&session, 1, "prompt one");
        write(&other, 2, "prompt two");
        // Built on what this handle knows: one prompt.
        session.snapshot().unwrap().unwrap();
        assert!(told(&session).ends_with("1 user \"one\"\n2 user \"two\"\n"), "{}", told(&session));
        other.refresh().unwrap();
        assert_eq!(told(&other), told(&session));
    }

    fn long_outputs_move_to_artifacts(world) {
        let session = world.session("s");
        let long = "x".repeat(2_000);
        write(&session, 1, &format!("prompt go \n call m1 c1 bash ls \n result c1 ok {long}"));
        write(&session, 4, "say m2 a \n prompt b \n say m3 c \n prompt d");
        session.offload(&CompactionOptions::default()).unwrap().unwrap();
        let view = session.effective().unwrap();
        assert!(view.entries().all(|entry| entry.text().len() < 500));
        let body = world.journal().artifacts().read(&format!("output-{}", line_id(3))).unwrap();
        assert_eq!(body, long.as_bytes());
        assert!(session.offload(&CompactionOptions::default()).unwrap().is_none());
        assert_eq!(told(&world.open("s")), told(&session));
    }

    fn compacted_log_replays_alike(world) {
        let session = world.session("s");
        write(&session, 1, "prompt a \n say m1 b \n prompt c \n say m2 d");
        let options = CompactionOptions { keep: 1, ..Default::default() };
        session.summarize("so far", &options).unwrap().unwrap();
        let events = all(&session);
        let mut replay = Replay::new();
        replay.run(events.clone()).unwrap();
        assert_eq!(*replay.session().unwrap(), session.live());
        let built = session::ViewBuilder::default().build(&events).unwrap();
        assert_eq!(render(&built), told(&session));
        assert_eq!(built.len(), 2);
    }

    fn strict_reading_and_kinds_work_through_a_fork(world) {
        let parent = world.session("p");
        write(&parent, 1, TALK);
        fork_of(&parent, "f");
        let fork = world.open("f");
        let selection = Selection { mode: ReadMode::Strict, since: Some(at(6)), ..Selection::all() };
        let seqs: Vec<u64> = fork.select(selection).unwrap().map(|event| event.unwrap().seq).collect();
        assert_eq!(seqs[..2], [6, 7]);
        let calls = fork.select(Selection::all().of_kinds([event::Kind::ToolCall])).unwrap();
        assert_eq!(calls.count(), 1);
    }
}

#[test]
fn reading_through_many_generations_is_the_same_everywhere() {
    let tell = |world: &World| {
        write(&world.session("s0"), 1, TALK);
        for n in 1..=10u64 {
            let parent = world.open(&format!("s{}", n - 1));
            fork_of(&parent, &format!("s{n}"));
            write(&world.open(&format!("s{n}")), 100 * n, "prompt deeper");
        }
        let deepest = world.open("s10");
        let events: Vec<String> = all(&deepest).iter().map(|event| event.encode()).collect();
        (events, told(&deepest), deepest.live())
    };
    let told = crate::worlds::STORES.map(|kept| tell(&World::new(kept)));
    assert_eq!(told[0].0.len(), 7 + 20);
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}
