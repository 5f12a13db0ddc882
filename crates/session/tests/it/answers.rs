//! Approvals, waits and questions: answered once, by whoever is first.

use std::sync::{Arc, Barrier};

use event::Raw;
use event::payload::{ApprovalRequested, ApprovalResolved, Decision, WaitResolved, WaitStarted};
use session::{ApprovalVerdict, DENIALS_MAX, RuleViolation, Session, SessionError};

use crate::drafts::at;
use crate::worlds::{all, every_store, id, kinds, write};

fn request(session: &Session, approval_id: &str) {
    session
        .record(&ApprovalRequested {
            approval_id: approval_id.to_owned(),
            tool: "bash".to_owned(),
            ..ApprovalRequested::default()
        })
        .unwrap();
}

fn allow(session: &Session, approval_id: &str) -> Result<(), SessionError> {
    session.resolve_approval(approval_id, Decision::Allow, ApprovalVerdict::default()).map(drop)
}

fn wait(wait_id: &str) -> WaitStarted {
    WaitStarted { wait_id: wait_id.to_owned(), ..WaitStarted::default() }
}

every_store! {
    fn an_answer_goes_to_the_request_it_names(world) {
        let session = world.session("s");
        request(&session, "a1");
        request(&session, "a2");
        session.start_wait(&wait("w1")).unwrap();
        allow(&session, "a1").unwrap();
        let open: Vec<String> = session.waiting_on().into_iter().map(|open| open.id).collect();
        assert_eq!(open, ["a2", "w1"]);
        assert!(session.is_waiting());
        allow(&session, "a2").unwrap();
        assert!(session.is_waiting(), "an approval does not end a wait");
        session.resolve_wait(&WaitResolved { wait_id: "w1".to_owned(), ..Default::default() }).unwrap();
        assert!(!session.is_waiting());
    }

    fn a_request_is_answerable_after_a_restart(world) {
        request(&world.session("s"), "a1");
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        assert_eq!(again.waiting_on()[0].id, "a1");
        allow(&again, "a1").unwrap();
        let late = allow(&world.session("s"), "a1");
        assert!(matches!(late, Err(SessionError::Refused(RuleViolation::AlreadyResolved {
            decision: Some(Decision::Allow), ..
        }))));
    }

    fn unanswerable_requests_are_refused(world) {
        let session = world.session("s");
        request(&session, "a1");
        let unknown = allow(&session, "a9");
        assert!(matches!(unknown, Err(SessionError::Refused(RuleViolation::ApprovalNotFound { .. }))));
        let neither = session.resolve_approval("a1", Decision::Other("maybe".into()), ApprovalVerdict::default());
        assert!(matches!(neither, Err(SessionError::Refused(RuleViolation::BadArgument { .. }))));
        let again = session.record(&ApprovalRequested {
            approval_id: "a1".to_owned(), tool: "bash".to_owned(), ..Default::default()
        });
        assert!(matches!(again, Err(SessionError::Refused(RuleViolation::ApprovalExists { .. }))));
        session.cancel_approval("a1", "changed my mind").unwrap();
        let late = allow(&session, "a1");
        assert!(matches!(late, Err(SessionError::Refused(RuleViolation::AlreadyResolved {
            decision: None, ..
        }))));
        assert_eq!(kinds(&all(&session)), ["approval.requested", "approval.canceled"]);
    }

    fn of_two_answers_at_once_exactly_one_wins(world) {
        for round in 0..20 {
            let name = format!("a{round}");
            request(&world.session("s"), &name);
            let barrier = Arc::new(Barrier::new(4));
            let shared = Arc::new(world.session("s"));
            let threads: Vec<_> = (0..4).map(|n| {
                let (barrier, name) = (Arc::clone(&barrier), name.clone());
                // Two through one handle, one through its own, one as another process would.
                let session = match n {
                    0 | 1 => Arc::clone(&shared),
                    2 => Arc::new(world.session("s")),
                    _ => Arc::new(Session::open(&world.reopened(), id("s")).unwrap()),
                };
                std::thread::spawn(move || {
                    barrier.wait();
                    let decision = if n % 2 == 0 { Decision::Allow } else { Decision::Deny };
                    session.resolve_approval(&name, decision, ApprovalVerdict::default())
                })
            }).collect();
            let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            let won = answers.iter().filter(|answer| answer.is_ok()).count();
            assert_eq!(won, 1, "{answers:?}");
            assert!(answers.iter().filter(|answer| answer.is_err()).all(|answer| matches!(
                answer, Err(SessionError::Refused(RuleViolation::AlreadyResolved { .. }))
            )));
        }
        let session = world.open("s");
        let resolved = all(&session).iter()
            .filter(|event| event.payload::<ApprovalResolved>().unwrap().is_some()).count();
        assert_eq!(resolved, 20);
        assert_eq!(session.open_work().oddity_count(), 0);
    }

    fn expired_requests_are_canceled_once(world) {
        let session = world.session("s");
        write(&session, 1, r#"
            approval.requested {"approval_id":"a1","tool":"bash","expires_at":"2026-01-01T12:00:30Z"}
            approval.requested {"approval_id":"a2","tool":"bash","expires_at":"2026-01-01T12:10:00Z"}
            approval.requested {"approval_id":"a3","tool":"bash"}
        "#);
        assert!(session.expire_approvals(at(29)).unwrap().is_empty());
        let other = world.session("s");
        assert_eq!(session.expire_approvals(at(30)).unwrap(), ["a1"]);
        assert!(other.expire_approvals(at(31)).unwrap().is_empty());
        let late = allow(&other, "a1");
        assert!(matches!(late, Err(SessionError::Refused(RuleViolation::AlreadyResolved {
            decision: None, ..
        }))));
        assert_eq!(session.waiting_on().len(), 2);
        assert!(session.last_event().unwrap().unwrap().data.get().contains("expired"));
    }

    fn a_policy_that_only_denies_is_switched_off(world) {
        let session = world.session("s");
        let deny = |name: &str| {
            request(&session, name);
            let verdict = ApprovalVerdict { by: Some("rule".to_owned()), is_automated: true, reason: None };
            session.resolve_approval(name, Decision::Deny, verdict).unwrap();
        };
        deny("a1");
        deny("a2");
        assert!(!session.open_work().denials().policy_is_off(DENIALS_MAX));
        deny("a3");
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        assert!(again.open_work().denials().policy_is_off(DENIALS_MAX));
        request(&again, "a4");
        let person = ApprovalVerdict { by: Some("person".to_owned()), ..ApprovalVerdict::default() };
        again.resolve_approval("a4", Decision::Allow, person).unwrap();
        assert!(!again.open_work().denials().policy_is_off(DENIALS_MAX));
    }

    fn stale_answer_is_refused(world) {
        let session = world.session("s");
        session.ask_user("q1", "why?").unwrap();
        assert!(session.ask_user("q2", "how?").is_err(), "one question at a time");
        session.cancel_question("q1").unwrap();
        session.ask_user("q2", "how?").unwrap();
        let stale = session.answer_user("q1", Raw::from_value("because").unwrap());
        assert!(matches!(stale, Err(SessionError::Refused(RuleViolation::IllegalTransition { .. }))));
        assert_eq!(session.waiting_on()[0].id, "q2");
        let other = Session::open(&world.reopened(), id("s")).unwrap();
        other.answer_user("q2", Raw::from_value("like this").unwrap()).unwrap();
        session.refresh().unwrap();
        assert!(!session.is_waiting());
        assert!(session.answer_user("q2", Raw::from_value("again").unwrap()).is_err());
        assert!(session.answer_user("q9", Raw::null()).is_err());
    }

    fn waits_begin_and_end_once(world) {
        let session = world.session("s");
        session.start_wait(&wait("w1")).unwrap();
        assert!(session.start_wait(&wait("w1")).is_err());
        let resolved = WaitResolved { wait_id: "w1".to_owned(), ..Default::default() };
        session.resolve_wait(&resolved).unwrap();
        assert!(session.resolve_wait(&resolved).is_err());
        session.start_wait(&wait("w1")).unwrap();
    }
}
