//! What a session finds after a restart, and tools that must not run twice.

use std::sync::{Arc, Barrier};

use event::ChildStatus;
use event::payload::Effect;
use session::execution::CallAction;
use session::{ChildSpec, Left, Session, SessionError};

use crate::drafts::{at, drafts_of};
use crate::worlds::{all, every_store, id, kinds, write};

fn nobody(_: &session::OpenChild) -> bool {
    false
}

const BROKEN_OFF: &str = r#"
    [turn=t1] turn.started {"agent_id":"a"}
    [turn=t1] step.started {"agent_id":"a"}
    call m1 asked bash ls
    call m1 begun bash rm
    started begun bash never_replay
    tool.delta {"call_id":"begun","text":"half of it"}
    approval.requested {"approval_id":"a1","tool":"bash"}
    approval.requested {"approval_id":"a2","tool":"bash","expires_at":"2026-01-01T12:01:00Z"}
    wait.started {"wait_id":"w1"}
    external.input {"request_id":"q1","prompt":"why","status":"pending"}
"#;

every_store! {
    fn everything_open_is_listed_and_closed_once(world) {
        write(&world.session("s"), 1, BROKEN_OFF);
        let session = Session::open(&world.reopened(), id("s")).unwrap();
        let before = all(&session).len();
        let recovery = session.recover(at(3_600), nobody).unwrap();
        assert_eq!(recovery.left_open().len(), 8);
        assert_eq!(all(&session).len(), before, "listing only reads");
        let other = world.open("s");
        let seen_by_other = other.recover(at(7_200), nobody).unwrap();
        session.close_recovered(&recovery).unwrap();
        let closed: Vec<_> = all(&session).into_iter().skip(before).collect();
        assert_eq!(kinds(&closed),
            ["tool.result", "approval.canceled", "step.completed", "turn.completed"]);
        assert!(closed[0].data.get().contains("half of it"));
        other.close_recovered(&seen_by_other).unwrap();
        session.close_recovered(&recovery).unwrap();
        assert_eq!(all(&session).len(), before + 4);
        // What somebody can still answer is left.
        let left = session.recover(at(3_600), nobody).unwrap();
        assert_eq!(left.left_open().len(), 4);
        assert!(session.is_waiting());
        let call = session.open_work().calls()[0].clone();
        assert_eq!(session.begin_tool(&call, Effect::NeverReplay).unwrap().next, CallAction::Run);
    }

    fn concurrent_closing_adds_nothing_twice(world) {
        write(&world.session("s"), 1, BROKEN_OFF);
        let barrier = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4).map(|n| {
            let (barrier, host) = (Arc::clone(&barrier), world.reopened());
            std::thread::spawn(move || {
                let session = Session::open(&host, id("s")).unwrap();
                let recovery = session.recover(at(3_600 + n), nobody).unwrap();
                barrier.wait();
                session.close_recovered(&recovery).unwrap();
            })
        }).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(all(&world.open("s")).len(), 10 + 4);
    }

    fn answered_items_are_not_closed_again(world) {
        let session = world.session("s");
        write(&session, 1, BROKEN_OFF);
        let recovery = session.recover(at(3_600), nobody).unwrap();
        let other = world.open("s");
        write(&other, 20, r#"
            result begun ok done after all
            approval.resolved {"approval_id":"a2","decision":"allow"}
        "#);
        session.close_recovered(&recovery).unwrap();
        assert_eq!(kinds(&all(&session)[12..]), ["step.completed", "turn.completed"]);
    }

    fn a_childs_own_log_decides_after_a_restart(world) {
        let parent = world.session("p");
        let spawn = |name: &str| parent.spawn_child(ChildSpec {
            agent_id: "d".to_owned(), task: "dig".to_owned(),
            child_id: Some(name.to_owned()), ..ChildSpec::default()
        }).unwrap().session;
        let done = spawn("done");
        write(&done, 1, "say m1 dug \n turn.completed {\"agent_id\":\"d\"}");
        let patch = event::payload::Artifact {
            id: "patch".to_owned(), kind: "patch".to_owned(), ..Default::default()
        };
        done.store_artifact(patch, Some(&mut "diff".as_bytes())).unwrap();
        spawn("busy");
        spawn("gone");
        let session = Session::open(&world.reopened(), id("p")).unwrap();
        let recovery = session.recover(at(3_600), |child| child.child_id == "busy").unwrap();
        session.close_recovered(&recovery).unwrap();
        let status = |name: &str| session.child(name).unwrap().status;
        assert_eq!(status("done"), ChildStatus::Completed);
        assert_eq!(status("busy"), ChildStatus::Requested);
        assert_eq!(status("gone"), ChildStatus::Failed);
        assert_eq!(session.child("done").unwrap().artifacts.len(), 1);
        assert_eq!(session.child("gone").unwrap().reason.as_deref(), Some("lost"));
        let left = session.recover(at(3_600), |child| child.child_id == "busy").unwrap();
        assert!(matches!(left.left_open(), [only] if matches!(&only.left, Left::Child { .. })));
    }

    fn a_tool_begins_once(world) {
        let session = world.session("s");
        write(&session, 1, "prompt go \n call m1 c1 bash rm");
        let call = session.open_work().calls()[0].clone();
        let begun = session.begin_tool(&call, Effect::NeverReplay).unwrap();
        assert_eq!(begun.next, CallAction::Run);
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        assert_eq!(again.begin_tool(&call, Effect::NeverReplay).unwrap().next, CallAction::Refuse);
        assert_eq!(again.begin_tool(&call, Effect::Reconcile).unwrap().next, CallAction::Refuse);
        let found = again.find_execution(&begun.key).unwrap().unwrap();
        assert!(found.call.is_some() && found.started.is_some() && found.result.is_none());
        write(&session, 10, "result c1 ok done");
        assert!(session.find_execution(&begun.key).unwrap().unwrap().result.is_some());
        assert!(matches!(session.begin_tool(&call, Effect::NeverReplay),
            Err(SessionError::CallNotOpen { .. })));
        assert_eq!(session.find_execution("  ").unwrap(), None);
        assert_eq!(session.find_execution("unheard of").unwrap(), None);
    }

    fn of_many_that_begin_a_tool_one_runs_it(world) {
        let session = world.session("s");
        write(&session, 1, "prompt go \n call m1 c1 bash rm");
        let call = session.open_work().calls()[0].clone();
        let barrier = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4).map(|_| {
            let (barrier, session, call) = (Arc::clone(&barrier), world.open("s"), call.clone());
            std::thread::spawn(move || {
                barrier.wait();
                session.begin_tool(&call, Effect::NeverReplay).unwrap().next
            })
        }).collect();
        let nexts: Vec<CallAction> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(nexts.iter().filter(|next| **next == CallAction::Run).count(), 1);
        assert_eq!(nexts.iter().filter(|next| **next == CallAction::Refuse).count(), 3);
    }

    fn a_tool_that_may_run_again_does(world) {
        let session = world.session("s");
        write(&session, 1, "prompt go \n call m1 c1 cat a");
        let call = session.open_work().calls()[0].clone();
        for _ in 0..2 {
            assert_eq!(session.begin_tool(&call, Effect::ReplaySafe).unwrap().next, CallAction::Run);
        }
        assert_eq!(session.begin_tool(&call, Effect::Reconcile).unwrap().next, CallAction::AskHost);
    }

    fn partial_output_survives(world) {
        let session = world.session("s");
        write(&session, 1, r#"
            call m1 c1 bash ls
            tool.delta {"call_id":"c1","text":"one "}
            [at=60] tool.delta {"call_id":"c1","text":"two"}
        "#);
        let soon = session.append_batch(drafts_of("s", 20, r#"[at=61] tool.delta {"call_id":"c1","text":"x"}"#));
        assert!(soon.is_err(), "what comes sooner is live only");
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        assert_eq!(again.partial_output("c1").unwrap().as_deref(), Some("one two"));
        assert_eq!(again.partial_output("c9").unwrap(), None);
    }
}
