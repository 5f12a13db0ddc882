//! Children: asked for, begun, heard of, waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use event::payload::{
    Artifact, ChildMode, ChildProgressed, ChildRequested, Content, SessionStarted, TurnCompleted,
    UserPrompt, WORKSPACE_FILE_REF,
};
use event::{ChildStatus, Raw, Time};
use journal::{FollowFrom, Journal, OnLag};
use session::{ChildSpec, Host, RuleViolation, Session, SessionError, SpawnedChild, Stamps};

use crate::drafts::{drafts_of, metadata};
use crate::worlds::{World, all, every_store, id, kinds, told, write};

/// No patience: what is not there now is not waited for.
const NOW: Duration = Duration::ZERO;
/// As long as it takes.
const LONG: Duration = Duration::from_secs(60);

fn dig(child_id: &str) -> ChildSpec {
    ChildSpec {
        agent_id: "digger".to_owned(),
        task: "dig".to_owned(),
        child_id: Some(child_id.to_owned()),
        ..ChildSpec::default()
    }
}

fn spawn(session: &Session, spec: ChildSpec) -> SpawnedChild {
    session.spawn_child(spec).unwrap()
}

/// The child answers and ends its turn.
fn finish(child: &Session, first: u64) {
    write(
        child,
        first,
        r#"
        turn.started {"agent_id":"digger"}
        say m1 dug a hole
        turn.completed {"agent_id":"digger","stop_reason":"completed"}
    "#,
    );
}

fn prompts(session: &Session) -> Vec<String> {
    let events = all(session);
    let prompts = events.iter().filter(|event| event.fork_origin().is_none());
    prompts
        .filter_map(|event| event.readable::<UserPrompt>())
        .map(|prompt| prompt.content.joined_text())
        .collect()
}

every_store! {
    fn a_child_has_defaults(world) {
        let parent = world.session("p");
        parent.append_prompt("hello").unwrap();
        let spec = ChildSpec { child_id: None, ..dig("") };
        let spawned = spawn(&parent, spec);
        assert_eq!(spawned.session.session_id().as_str(), spawned.child_id);
        let request = parent.last_event().unwrap().unwrap();
        let request = request.payload::<ChildRequested>().unwrap().unwrap();
        assert_eq!(request.mode, Some(ChildMode::Handoff));
        assert_eq!(request.child_session_id, request.child_id);
        assert_eq!(prompts(&spawned.session), ["Task: dig"]);
        let listed = parent.children().unwrap();
        assert_eq!((listed.len(), &listed[0].status), (1, &ChildStatus::Requested));
        let ancestry = world.journal().stat(spawned.session.session_id()).unwrap().ancestry;
        assert_eq!(ancestry.parent_session_id, Some(id("p")));
        assert_eq!((ancestry.fork_point_seq, ancestry.depth), (2, 1));
        assert_eq!(ancestry.fork_point_event_id, Some(parent.last_event().unwrap().unwrap().id));
    }

    fn a_child_is_given_what_its_mode_says(world) {
        let parent = world.session("p");
        write(&parent, 1, "prompt hello \n say m1 hi");
        let context = Some(Raw::from_value("the garden").unwrap());
        let handoff = spawn(&parent, ChildSpec { context: context.clone(), ..dig("handoff") });
        assert_eq!(prompts(&handoff.session), ["Task: dig\nContext: the garden"]);
        let fresh = ChildSpec { mode: Some(ChildMode::Fresh), context: context.clone(), ..dig("fresh") };
        assert_eq!(kinds(&all(&spawn(&parent, fresh).session)), ["session.started"]);
        let view = told(&parent);
        let fork = spawn(&parent, ChildSpec { mode: Some(ChildMode::Fork), ..dig("fork") });
        assert_eq!(told(&fork.session), view);
        assert!(prompts(&fork.session).is_empty());
        let info = world.journal().stat(&id("fork")).unwrap();
        assert_eq!(info.inherited_seq, 4);
        assert_eq!(info.ancestry.parent_session_id, Some(id("p")));
        // What the caller brings wins.
        let messages = vec![Content::text("one"), Content::text("two")];
        let given = spawn(&parent, ChildSpec { messages, context, ..dig("given") });
        assert_eq!(prompts(&given.session), ["one", "two"]);
    }

    fn everything_a_child_begins_with_has_its_stamp(world) {
        let parent = world.session("p");
        let metadata_of = Some(Raw::parse(r#"{"team":"blue"}"#).unwrap());
        let spawned = spawn(&parent, ChildSpec { metadata: metadata_of, ..dig("c") });
        let stamp = metadata(r#"{"agent_id":"digger","team":"blue"}"#);
        assert!(all(&spawned.session).iter().all(|event| event.metadata == stamp));
        assert_eq!(*spawned.session.scope().metadata(), stamp);
        assert_eq!(parent.child("c").unwrap().metadata.unwrap().get(), r#"{"team":"blue"}"#);
        let started = all(&spawned.session)[0].payload::<SessionStarted>().unwrap().unwrap();
        assert_eq!(started.agent.as_deref(), Some("digger"));
    }

    fn a_session_is_not_its_own_child(world) {
        let parent = world.session("p");
        let own_id = |parent: &Session| parent.spawn_child(dig("p")).map(drop);
        // Before its first event and after it.
        assert!(matches!(own_id(&parent), Err(SessionError::SameSession(name)) if name == id("p")));
        parent.append_prompt("hello").unwrap();
        assert!(matches!(own_id(&parent), Err(SessionError::SameSession(name)) if name == id("p")));
        assert_eq!(kinds(&all(&parent)), ["user.prompt"]);
    }

    fn a_child_progresses_and_is_merged(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c"));
        let early = parent.progress_child("c", None, None);
        assert!(matches!(early, Err(SessionError::Refused(RuleViolation::IllegalTransition { .. }))));
        parent.start_child("c").unwrap();
        parent.progress_child("c", Some("half".into()), Some("one meter".into())).unwrap();
        let told = parent.last_event().unwrap().unwrap().payload::<ChildProgressed>();
        let told = told.unwrap().unwrap();
        assert_eq!((told.child_session_id.as_str(), told.message.as_deref()), ("c", Some("one meter")));
        let early = parent.merge_child("c", Vec::new(), None);
        assert!(matches!(early, Err(SessionError::Refused(RuleViolation::IllegalTransition { .. }))));
        finish(&child.session, 50);
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Completed);
        parent.merge_child("c", vec!["patch".into()], Some("all of it".into())).unwrap();
        assert_eq!(parent.child("c").unwrap().status, ChildStatus::Merged);
        let unknown = parent.merge_child("x", Vec::new(), None);
        assert!(matches!(unknown, Err(SessionError::ChildNotFound { .. })));
    }

    fn invalid_child_is_refused_whole(world) {
        let parent = world.session("p");
        parent.append_prompt("hello").unwrap();
        world.session("taken").append_prompt("mine").unwrap();
        let exists = parent.spawn_child(dig("taken"));
        assert!(matches!(exists, Err(SessionError::SessionExists(name)) if name == id("taken")));
        let mode = Some(ChildMode::Other("clone".into()));
        let unknown = parent.spawn_child(ChildSpec { mode, ..dig("c") });
        assert!(matches!(unknown, Err(SessionError::Refused(RuleViolation::BadArgument { .. }))));
        let nobody = parent.spawn_child(ChildSpec { agent_id: String::new(), ..dig("c") });
        assert!(matches!(nobody, Err(SessionError::Refused(RuleViolation::BadPayload(_)))));
        let no_object = ChildSpec { metadata: Some(Raw::from_value("x").unwrap()), ..dig("c") };
        assert!(matches!(parent.spawn_child(no_object), Err(SessionError::BadArgument { .. })));
        assert!(!world.journal().exists(&id("c")).unwrap());
        spawn(&parent, dig("c"));
        let session_id = Some(id("d"));
        let twice = parent.spawn_child(ChildSpec { session_id, ..dig("c") });
        assert!(matches!(twice, Err(SessionError::Refused(RuleViolation::ChildExists { .. }))));
        assert!(!world.journal().exists(&id("d")).unwrap());
        assert_eq!(kinds(&all(&parent)), ["user.prompt", "child.requested"]);
    }

    fn the_end_of_a_child_is_told_once(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        parent.start_child("c").unwrap();
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Running);
        finish(&child, 1);
        let other = Session::open(&world.reopened(), id("p")).unwrap();
        let settled = parent.settle_child("c").unwrap();
        assert_eq!((settled.status.clone(), settled.summary.as_deref()),
            (ChildStatus::Completed, Some("dug a hole")));
        assert_eq!(other.settle_child("c").unwrap(), settled);
        assert_eq!(parent.wait_child("c", NOW).unwrap(), Some(settled.clone()));
        assert_eq!(parent.wait_child("c", NOW).unwrap(), Some(settled));
        assert_eq!(kinds(&all(&parent)), ["child.requested", "child.started", "child.completed"]);
    }

    fn unstarted_child_can_complete(world) {
        let parent = world.session("p");
        finish(&spawn(&parent, dig("c")).session, 1);
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Completed);
        assert_eq!(kinds(&all(&parent)), ["child.requested", "child.started", "child.completed"]);
    }

    fn a_failed_child_says_why(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        write(&child, 1, r#"turn.completed {"agent_id":"digger","error":"hit a rock"}"#);
        let settled = parent.settle_child("c").unwrap();
        assert_eq!((settled.status, settled.reason.as_deref()),
            (ChildStatus::Failed, Some("hit a rock")));
    }

    fn the_turns_a_fork_inherited_do_not_end_it(world) {
        let parent = world.session("p");
        finish(&parent, 1);
        spawn(&parent, ChildSpec { mode: Some(ChildMode::Fork), ..dig("c") });
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Requested);
    }

    fn artifacts_precede_the_childs_end(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        for (name, kind) in [("patch", "patch"), ("a.rs", WORKSPACE_FILE_REF), ("notes", "text")] {
            let artifact =
                Artifact { id: name.to_owned(), kind: kind.to_owned(), ..Artifact::default() };
            child.store_artifact(artifact, Some(&mut name.as_bytes())).unwrap();
        }
        finish(&child, 1);
        let settled = parent.settle_child("c").unwrap();
        let ids: Vec<&str> = settled.artifacts.iter().map(|artifact| artifact.id.as_str()).collect();
        assert_eq!(ids, ["patch", "notes"]);
        assert!(settled.artifacts.iter().all(|artifact| {
            artifact.producer_session_id == Some(id("c"))
        }));
        let events = all(&parent);
        assert_eq!(kinds(&events), ["child.requested", "artifact.recorded", "artifact.recorded",
            "child.started", "child.completed"]);
        assert!(events[4].data.get().contains(r#""artifact_ids":["patch","notes"]"#));
        assert!(events[1].data.get().contains(r#""child_id":"c""#));
    }

    fn waiting_child_blocks_and_resumes(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        parent.start_child("c").unwrap();
        write(&child, 1, r#"
            turn.started {"agent_id":"digger"}
            wait.started {"wait_id":"w1","reason":"rain","external_id":"weather"}
            turn.completed {"agent_id":"digger","stop_reason":"waiting"}
        "#);
        let blocked = parent.wait_child("c", LONG).unwrap().unwrap();
        assert_eq!((blocked.status, blocked.reason.as_deref()),
            (ChildStatus::Blocked, Some("rain")));
        let told = parent.last_event().unwrap().unwrap();
        assert!(told.data.get().contains(r#""external_id":"weather""#));
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Blocked);
        write(&child, 10, r#"wait.resolved {"wait_id":"w1"}"#);
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Running);
        write(&child, 20, r#"approval.requested {"approval_id":"a1","tool":"bash"}"#);
        let blocked = parent.settle_child("c").unwrap();
        assert_eq!(blocked.reason.as_deref(), Some("waiting"));
        write(&child, 30, r#"approval.resolved {"approval_id":"a1","decision":"allow"}"#);
        finish(&child, 40);
        assert_eq!(parent.settle_child("c").unwrap().status, ChildStatus::Completed);
        assert_eq!(parent.open_work().oddity_count(), 0);
    }

    fn a_waiter_hears_of_the_end(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        let waiter = Session::open(&world.reopened(), id("p")).unwrap();
        let watched = waiter.journal().clone();
        let thread = std::thread::spawn(move || waiter.wait_child("c", LONG));
        while watched.subscriber_count() == 0 {
            std::thread::yield_now();
        }
        world.session("unrelated").append_prompt("noise").unwrap();
        finish(&child, 1);
        let ended = thread.join().unwrap().unwrap().unwrap();
        assert_eq!(ended.status, ChildStatus::Completed);
        parent.refresh().unwrap();
        assert_eq!(parent.child("c").unwrap(), ended);
    }

    fn timed_out_wait_can_be_repeated(world) {
        let parent = world.session("p");
        let child = spawn(&parent, dig("c")).session;
        assert_eq!(parent.wait_child("c", NOW).unwrap(), None);
        assert_eq!(world.journal().subscriber_count(), 0);
        finish(&child, 1);
        assert!(parent.wait_child("c", NOW).unwrap().is_some());
        let unknown = parent.wait_child("nobody", NOW);
        assert!(matches!(unknown, Err(SessionError::ChildNotFound { .. })));
        assert!(matches!(parent.start_child("nobody"), Err(SessionError::ChildNotFound { .. })));
    }

    fn attached_children_are_canceled_with_their_parent(world) {
        let parent = world.session("p");
        spawn(&parent, dig("running"));
        parent.start_child("running").unwrap();
        spawn(&parent, dig("queued"));
        spawn(&parent, ChildSpec { is_detached: true, ..dig("detached") });
        let done = spawn(&parent, dig("done")).session;
        finish(&done, 1);
        parent.settle_child("done").unwrap();
        let canceled = parent.cancel_attached(Some("parent stopped".to_owned())).unwrap();
        assert_eq!(canceled, ["running", "queued"]);
        let status = |name: &str| parent.child(name).unwrap().status;
        assert_eq!(status("running"), ChildStatus::Canceled);
        assert_eq!(status("queued"), ChildStatus::Canceled);
        assert_eq!(status("detached"), ChildStatus::Requested);
        assert_eq!(status("done"), ChildStatus::Completed);
        let queued = all(&parent).into_iter().filter(|event| event.data.get().contains("queued"));
        assert_eq!(kinds(&queued.collect::<Vec<_>>()), ["child.requested", "child.canceled"]);
        // Canceled is final, and waiting for it gives that.
        assert!(matches!(parent.start_child("queued"),
            Err(SessionError::Refused(RuleViolation::IllegalTransition { .. }))));
        let ended = parent.wait_child("queued", NOW).unwrap().unwrap();
        assert_eq!(ended.reason.as_deref(), Some("parent stopped"));
    }

    fn children_are_listed_by_time_of_request(world) {
        let parent = world.session("p");
        for name in ["b", "a", "c"] {
            spawn(&parent, dig(name));
        }
        let names = |session: &Session| {
            session.children().unwrap().into_iter().map(|child| child.child_id).collect::<Vec<_>>()
        };
        assert_eq!(names(&parent), ["b", "a", "c"]);
        let ancestry = world.journal().children(&id("p")).unwrap();
        assert_eq!(ancestry.len(), 3);
        // They are not the children of a fork.
        parent.fork(id("f"), Default::default()).unwrap();
        assert!(names(&world.open("f")).is_empty());
        let again = world.open("f").append_batch(drafts_of("f", 1,
            r#"child.requested {"child_id":"a","child_session_id":"x","agent_id":"d","mode":"fresh","task":"t"}"#));
        assert!(again.is_err(), "the parent of the fork has that name");
    }

    fn spawning_while_others_append_is_still_whole(world) {
        let threads: Vec<_> = (0..4u64).map(|thread| {
            let parent = world.session("p");
            std::thread::spawn(move || {
                for n in 0..10 {
                    write(&parent, 1_000 * (thread + 1) + n, "prompt hello");
                    let mode = if n % 2 == 0 { ChildMode::Fork } else { ChildMode::Handoff };
                    spawn(&parent, ChildSpec { mode: Some(mode), ..dig(&format!("c{thread}-{n}")) });
                }
            })
        }).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let parent = world.open("p");
        let events = all(&parent);
        assert_eq!(events.len(), 80);
        assert_eq!(parent.open_work().oddity_count(), 0);
        for child in parent.children().unwrap() {
            let info = world.journal().stat(&id(&child.child_id)).unwrap();
            let request = events.iter().find(|event| event.data.get().contains(
                &format!(r#""child_id":"{}""#, child.child_id)
            )).unwrap();
            let point = info.ancestry.fork_point_seq;
            let expected = if info.inherited_seq > 0 { request.seq - 1 } else { request.seq };
            assert_eq!(point, expected, "{}", child.child_id);
            let at_point = events.get(point as usize - 1).map(|event| event.id);
            assert_eq!(info.ancestry.fork_point_event_id, at_point);
        }
    }
}

#[test]
fn a_turn_that_ended_tells_its_usage() {
    let world = World::new(crate::worlds::Kept::Memory);
    let parent = world.session("p");
    let child = spawn(&parent, dig("c")).session;
    let usage = Raw::parse(r#"{"agent_id":"d","usage":{"input_tokens":7}}"#).unwrap();
    child.record(&usage.read::<TurnCompleted>().unwrap()).unwrap();
    let settled = parent.settle_child("c").unwrap();
    assert_eq!(settled.usage.unwrap().input_tokens, Some(7));
    assert!(parent.follow(FollowFrom::Now, OnLag::Skip).is_ok());
}

/// A clock on which every look takes ten milliseconds.
struct TickingClock(AtomicU64);

impl Stamps for TickingClock {
    fn now(&self) -> Time {
        Time::from_millis(10 * self.0.fetch_add(1, Ordering::SeqCst) as i64)
    }

    fn tail(&self) -> [u8; 10] {
        let mut tail = [2; 10];
        tail[2..].copy_from_slice(&self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        tail
    }
}

#[test]
fn patience_ends_while_others_write() {
    /// More than the patience lasts for, by far.
    const WRITES_MAX: u64 = 5_000;
    let host = Host::new(Journal::in_memory(), Arc::new(TickingClock(AtomicU64::new(0))));
    let parent = Session::create(&host, id("p")).unwrap();
    spawn(&parent, dig("c"));
    let busy = Session::create(&host, id("busy")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            let mut writes = 0;
            while writes < WRITES_MAX && !is_over.load(Ordering::SeqCst) {
                busy.append_prompt(writes.to_string()).unwrap();
                writes += 1;
            }
            writes
        });
        assert!(parent.wait_child("c", LONG).unwrap().is_none());
        is_over.store(true, Ordering::SeqCst);
        assert!(writes.join().unwrap() < WRITES_MAX);
    });
}
