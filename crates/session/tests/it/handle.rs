//! A session in a journal: appending, reading, many at once.

use std::sync::{Arc, Barrier};

use event::payload::{SettingsChanged, UserPrompt};
use event::{Draft, Event, Metadata, Raw};
use journal::{AppendError, AppendOutcome, Batch, ReadError};
use session::{ChildSpec, Reducer, RuleViolation, Scope, Session, SessionError};

use crate::drafts::{at, drafts_of, id as line_id};
use crate::worlds::{Kept, World, all, every_store, id, kinds, observe, told, write};

/// The texts of prompts, in order.
struct Prompts;

impl Reducer for Prompts {
    type State = Vec<(u64, Metadata)>;

    fn initial_state(&self) -> Self::State {
        Vec::new()
    }

    fn apply(&self, state: &mut Self::State, event: &Event) {
        state.push((event.seq, event.metadata.clone()));
    }
}

fn prompt(session: &Session, text: &str) -> Draft {
    session.draft(&UserPrompt::text(text)).unwrap()
}

every_store! {
    fn nothing_exists_before_the_first_append(world) {
        let session = world.session("s");
        assert!(!world.journal().exists(&id("s")).unwrap());
        assert!(all(&session).is_empty());
        assert!(session.last_event().unwrap().is_none());
        assert_eq!(told(&session), "\n");
        assert!(session.append_batch(Vec::new()).unwrap().is_empty());
        assert!(!world.journal().exists(&id("s")).unwrap());
        session.append_prompt("hello").unwrap();
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        assert_eq!(kinds(&all(&again)), ["user.prompt"]);
        assert_eq!(again.last_event().unwrap().unwrap(), all(&session)[0]);
    }

    fn an_unknown_session_is_not_found(world) {
        let unknown = |result: Result<Session, SessionError>| {
            assert!(matches!(
                result,
                Err(SessionError::Read(ReadError::SessionNotFound(name))) if name == id("s")
            ));
        };
        unknown(Session::open(&world.host, id("s")));
        unknown(Session::at_seq(&world.host, id("s"), 0));
        unknown(Session::at_time(&world.host, id("s"), at(0)));
        unknown(Session::at_event(&world.host, id("s"), line_id(1)));
    }

    fn a_session_is_created_once(world) {
        Session::create(&world.host, id("s")).unwrap().append_prompt("hello").unwrap();
        let second = Session::create(&world.host, id("s"));
        assert!(matches!(second, Err(SessionError::SessionExists(name)) if name == id("s")));
    }

    fn refused_batch_leaves_no_trace(world) {
        let session = world.session("s");
        write(&session, 1, "prompt hello");
        let batch = drafts_of("s", 2, "prompt one \n result c1 ok done \n prompt two");
        let refused = session.append_batch(batch);
        assert!(matches!(refused, Err(SessionError::Refused(RuleViolation::UnmatchedResult { .. }))));
        write(&session, 9, "prompt after");
        assert_eq!(kinds(&all(&session)), ["user.prompt", "user.prompt"]);
        assert_eq!(session.seq(), 2);
    }

    fn an_event_of_another_session_is_stored_nowhere(world) {
        let session = world.session("s");
        let refused = session.append_batch(drafts_of("t", 1, "prompt hello"));
        assert!(matches!(refused, Err(SessionError::Refused(RuleViolation::SessionMismatch { .. }))));
        assert!(!world.journal().exists(&id("s")).unwrap());
        assert!(!world.journal().exists(&id("t")).unwrap());
    }

    fn a_retry_is_recorded_once(world) {
        let session = world.session("s");
        let drafts = drafts_of("s", 1, "prompt hello \n call m1 c1 bash ls \n result c1 ok done");
        let first = session.append_batch(drafts.clone()).unwrap();
        let second = session.append_batch(drafts.clone()).unwrap();
        let seqs = |appended: &[journal::EventReceipt]| {
            appended.iter().map(|appended| appended.seq).collect::<Vec<_>>()
        };
        assert_eq!(seqs(&first), seqs(&second));
        assert!(second.iter().all(|appended| {
            appended.outcome == AppendOutcome::AlreadyRecorded { differs: false }
        }));
        // Part of a retry may be new.
        let mut more = drafts;
        more.extend(drafts_of("s", 4, "say m2 all done"));
        assert_eq!(seqs(&session.append_batch(more).unwrap()), [1, 2, 3, 4]);
        write(&session, 5, "prompt next");
        assert_eq!((session.seq(), all(&session).len()), (5, 5));
    }

    fn another_content_under_a_recorded_id_is_refused(world) {
        let session = world.session("s");
        write(&session, 1, "prompt hello");
        let other = drafts_of("s", 1, "prompt good bye").remove(0);
        let refused = session.append(other);
        assert!(matches!(
            refused,
            Err(SessionError::Append(AppendError::DuplicateId { seq: 1, .. }))
        ));
        write(&session, 2, "prompt next");
        assert_eq!(session.seq(), 2);
    }

    fn wrong_expected_tail_is_a_conflict(world) {
        let (one, other) = (world.session("s"), world.session("s"));
        write(&one, 1, "prompt one");
        let late = other.append_after(0, drafts_of("s", 2, "prompt other"));
        assert!(matches!(
            late,
            Err(SessionError::Append(AppendError::Conflict { expected: 0, actual: 1, .. }))
        ));
        other.refresh().unwrap();
        assert_eq!(all(&one), all(&other));
        other.append_after(1, drafts_of("s", 2, "prompt other")).unwrap();
        // Who knows the end by other means than this handle may name it.
        one.append_after(2, drafts_of("s", 3, "prompt one more")).unwrap();
        other.refresh().unwrap();
        assert_eq!((one.seq(), other.seq()), (3, 3));
        assert_eq!(one.live(), other.live());
        assert_eq!(told(&one), told(&other));
    }

    fn slower_handle_is_checked_again(world) {
        let (one, other) = (world.session("s"), world.session("s"));
        write(&one, 1, "prompt hello \n call m1 c1 bash ls");
        write(&other, 3, "result c1 ok done");
        let second = one.append_batch(drafts_of("s", 4, "result c1 ok done"));
        assert!(matches!(second, Err(SessionError::Refused(RuleViolation::UnmatchedResult { .. }))));
        assert!(one.open_work().calls().is_empty());
        assert_eq!(one.seq(), 3);
    }

    fn stale_handle_can_still_answer(world) {
        let (one, other) = (world.session("s"), world.session("s"));
        write(&one, 1, "prompt hello");
        write(&other, 2, "call m1 c1 bash ls \n approval.requested {\"approval_id\":\"a1\",\"tool\":\"bash\"}");
        write(&one, 4, "approval.resolved {\"approval_id\":\"a1\",\"decision\":\"allow\"} \n result c1 ok done");
        // And go back to what somebody else said.
        write(&other, 6, "prompt other");
        write(&one, 7, "[parent=6] prompt one");
        assert_eq!(one.seq(), 7);
        // An end that is expected and was passed is a conflict, whatever else is wrong.
        let late = other.append_after(6, drafts_of("s", 8, "result c1 ok again"));
        assert!(matches!(late, Err(SessionError::Append(AppendError::Conflict { actual: 7, .. }))));
    }

    fn many_threads_append_through_one_handle(world) {
        let session = Arc::new(world.session("s"));
        let seen = session.reduce(Prompts).unwrap();
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let session = Arc::clone(&session);
                std::thread::spawn(move || {
                    for n in 0..25 {
                        let appended = write(&session, 1_000 * (thread + 1) + n, "prompt hello");
                        // Whoever appended sees it.
                        assert!(session.seq() >= appended[0].seq);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let seqs: Vec<u64> = all(&session).iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
        let folded: Vec<u64> = seen.read(|state| state.iter().map(|(seq, _)| *seq).collect());
        assert_eq!(folded, seqs);
        let fresh = Session::open(&world.reopened(), id("s")).unwrap();
        assert_eq!(fresh.live(), session.live());
        assert_eq!(told(&fresh), told(&session));
    }

    fn threads_with_handles_of_their_own_lose_nothing(world) {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let session = world.session("s");
                std::thread::spawn(move || {
                    for n in 0..25 {
                        write(&session, 1_000 * (thread + 1) + n, "prompt hello");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let session = world.open("s");
        assert_eq!(session.seq(), 100);
        assert_eq!(all(&session).len(), 100);
    }

    fn appends_after_a_failure_are_rechecked(world) {
        // The first id is taken by another session, which only the commit finds out; results are
        // queued on top of calls that may not make it.
        write(&world.session("t"), 500, "prompt taken");
        let session = Arc::new(world.session("s"));
        write(&session, 1, "prompt hello");
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let (session, barrier) = (Arc::clone(&session), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    barrier.wait();
                    for n in 0..20 {
                        let first = 1_000 * (thread + 1) + 10 * n;
                        let text = format!("call m{first} c{first} bash ls");
                        let _ = session.append_batch(drafts_of("s", first, &text));
                        let text = format!("result c{first} ok done");
                        let _ = session.append_batch(drafts_of("s", first + 1, &text));
                        let _ = session.append_batch(drafts_of("s", 500, "prompt doomed"));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let events = all(&session);
        let fresh = world.open("s");
        assert_eq!(session.live(), fresh.live());
        assert_eq!(told(&session), told(&fresh));
        // Each recorded result has its call right before it on the path: the door let none in
        // behind a call that was closed or never came.
        assert_eq!(fresh.open_work().oddity_count(), 0);
        assert!(events.iter().all(|event| event.id != line_id(500)));
        let strict = session::ViewBuilder::default().build(&events).unwrap();
        let unmatched = strict.repairs().filter(|repair| {
            events[repair.seq as usize - 1].kind == event::Kind::ToolResult
        });
        assert_eq!(unmatched.count(), 0);
    }

    fn dropped_handle_loses_nothing(world) {
        let session = world.session("s");
        let ticket = world.journal().submit(Batch::hosted().with(prompt(&session, "hello")));
        drop(ticket.unwrap());
        write(&session, 1, "prompt next");
        assert_eq!(session.seq(), 2);
    }

    fn a_closed_journal_takes_nothing_more(world) {
        let session = world.session("s");
        write(&session, 1, "prompt hello");
        world.journal().close();
        let refused = session.append_prompt("more");
        assert!(matches!(refused, Err(SessionError::Append(AppendError::Closed))));
        assert_eq!(session.seq(), 1);
    }

    fn a_deleted_session_takes_nothing_more(world) {
        let session = world.session("s");
        write(&session, 1, "prompt hello");
        world.journal().delete(&id("s"), at(99), journal::ForkPolicy::Refuse).unwrap();
        assert!(matches!(
            session.append_prompt("more"),
            Err(SessionError::Read(ReadError::SessionNotFound(_)))
        ));
        let again = world.session("s");
        assert!(matches!(
            again.append_prompt("more"),
            Err(SessionError::Append(AppendError::Deleted(..)))
        ));
    }

    fn past_session_is_read_only(world) {
        let session = world.session("s");
        write(&session, 1, "prompt one \n prompt two \n [at=2] prompt three \n prompt four");
        let at_two = Session::at_seq(&world.host, id("s"), 2).unwrap();
        assert!(matches!(at_two.append_prompt("more"), Err(SessionError::ReadOnly(_))));
        assert_eq!((at_two.seq(), all(&at_two).len()), (2, 2));
        at_two.refresh().unwrap();
        assert_eq!(at_two.seq(), 2);
        assert_eq!(at_two.last_event().unwrap().unwrap().seq, 2);
        assert_eq!(told(&at_two), "1 user \"one\"\n2 user \"two\"\n");
        let at_event = Session::at_event(&world.host, id("s"), line_id(3)).unwrap();
        assert_eq!(at_event.seq(), 3);
        // By number, whatever the clock said.
        assert_eq!(Session::at_time(&world.host, id("s"), at(2)).unwrap().seq(), 3);
        assert_eq!(Session::at_time(&world.host, id("s"), at(1)).unwrap().seq(), 1);
        assert_eq!(Session::at_time(&world.host, id("s"), at(-1)).unwrap().seq(), 0);
        assert_eq!(all(&Session::at_seq(&world.host, id("s"), 0).unwrap()).len(), 0);
        assert!(matches!(
            Session::at_seq(&world.host, id("s"), 5),
            Err(SessionError::PointOutOfRange { point: 5, tail: 4, .. })
        ));
        assert!(matches!(
            Session::at_event(&world.host, id("s"), line_id(77)),
            Err(SessionError::Read(ReadError::EventNotFound { .. }))
        ));
    }

    fn past_session_finds_nothing_later(world) {
        let session = world.session("s");
        write(&session, 1, "call m1 c1 bash ls \n started c1 bash reconcile \n result c1 ok done");
        let before = Session::at_seq(&world.host, id("s"), 2).unwrap();
        let found = before.find_execution("key-c1").unwrap().unwrap();
        assert!(found.started.is_some() && found.result.is_none());
        assert!(session.find_execution("key-c1").unwrap().unwrap().result.is_some());
    }

    fn reading_can_begin_behind_any_event(world) {
        let session = world.session("s");
        write(&session, 1, "prompt a \n [turn=t1] prompt b \n prompt c \n [turn=t2] prompt d");
        let again = Session::open(&world.reopened(), id("s")).unwrap();
        let after: Vec<_> = again.events_after(2).unwrap().map(|event| event.unwrap()).collect();
        let seqs: Vec<u64> = after.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, [3, 4]);
        assert_eq!(after[1].turn_id.as_deref(), Some("t2"));
        let back: Vec<u64> = again.events_rev().unwrap().map(|event| event.unwrap().seq).collect();
        assert_eq!(back, [4, 3, 2, 1]);
    }

    fn the_newest_of_everything_is_at_hand(world) {
        let session = world.session("s");
        write(&session, 1, "prompt hi \n say m1 hello \n call m2 c1 bash ls \n result c1 ok done");
        assert_eq!(kinds(&session.last_message().unwrap()), ["tool.result"]);
        assert_eq!(session.last_answer().unwrap()[0].seq, 2);
        observe(&world, "s", 5, "say m3   \n note {\"text\":\"x\"}");
        session.refresh().unwrap();
        assert_eq!(session.last_answer().unwrap()[0].seq, 2);
        assert_eq!(session.last_event().unwrap().unwrap().kind.as_str(), "note");
        let talk: Vec<u64> = session.transcript().unwrap().map(|event| event.unwrap().seq).collect();
        assert_eq!(talk, [1, 2, 3, 4, 5]);
    }

    fn metadata_is_there_on_every_path(world) {
        let session = world.session("s");
        let metadata = |json: &str| crate::drafts::metadata(json);
        let live = session.reduce(Prompts).unwrap();
        let outer = Scope::new(metadata(r#"{"who":"outer","team":1.0}"#));
        let scope = outer.nest(&Scope::new(metadata(r#"{"who":"inner"}"#))).in_turn("t1");
        let mut draft = prompt(&session, "hello");
        draft.metadata = metadata(r#"{"team":2.0}"#);
        session.in_scope(&scope).append(draft).unwrap();
        let expected = metadata(r#"{"team":2.0,"who":"inner"}"#);
        assert_eq!(all(&session)[0].metadata, expected);
        assert_eq!(session.last_event().unwrap().unwrap().metadata, expected);
        assert_eq!(session.last_message().unwrap()[0].metadata, expected);
        assert_eq!(session.last_event().unwrap().unwrap().turn_id.as_deref(), Some("t1"));
        let reopened = Session::open(&world.reopened(), id("s")).unwrap();
        let reloaded = reopened.reduce(Prompts).unwrap();
        assert_eq!(live.read(Clone::clone), reloaded.read(Clone::clone));
        assert_eq!(live.read(Clone::clone), [(1, expected)]);
        let mut replay = session::Replay::with_reducer(Prompts, None);
        replay.run(all(&reopened)).unwrap();
        assert_eq!(*replay.state(), live.read(Clone::clone));
    }

    fn every_append_of_a_scoped_handle_is_stamped(world) {
        let session = world.session("s");
        let scope = Scope::new(crate::drafts::metadata(r#"{"who":"me"}"#)).in_turn("t1");
        let scoped = session.in_scope(&scope);
        assert_eq!(*scoped.scope(), scope);
        scoped.append_prompt("hello").unwrap();
        scoped.append_after(1, vec![prompt(&session, "again")]).unwrap();
        scoped.rename("a title").unwrap();
        scoped.ask_user("q", "which one?").unwrap();
        scoped.cancel_question("q").unwrap();
        scoped.snapshot().unwrap().unwrap();
        let child = ChildSpec { child_id: Some("c".into()), ..ChildSpec::default() };
        let child = ChildSpec { agent_id: "digger".into(), task: "dig".into(), ..child };
        let child = scoped.spawn_child(child).unwrap().session;
        let events = all(&session);
        assert_eq!(events.len(), 7);
        for event in events {
            assert_eq!(event.metadata, *scope.metadata(), "{}", event.kind);
            assert_eq!(event.turn_id.as_deref(), Some("t1"));
        }
        // Both handles are one session; the other one stamps nothing.
        assert_eq!(session.seq(), 7);
        session.append_prompt("plain").unwrap();
        assert!(session.last_event().unwrap().unwrap().metadata.is_empty());
        // A child stamps its own.
        child.append_prompt("mine").unwrap();
        let agent = crate::drafts::metadata(r#"{"agent_id":"digger"}"#);
        assert!(all(&child).iter().all(|event| event.metadata == agent));
    }

    fn a_reducer_sees_each_event_once(world) {
        let (session, other) = (world.session("s"), world.session("s"));
        write(&session, 1, "prompt one");
        let seen = session.reduce(Prompts).unwrap();
        write(&other, 2, "prompt two");
        write(&session, 3, "prompt three");
        write(&session, 3, "prompt three");
        session.refresh().unwrap();
        let seqs: Vec<u64> = seen.read(|state| state.iter().map(|(seq, _)| *seq).collect());
        assert_eq!(seqs, [1, 2, 3]);
        drop(seen);
        write(&session, 4, "prompt four");
    }

    fn costs_are_counted_once_when_amended(world) {
        let session = world.session("s");
        write(&session, 1, "[cost=0.01] prompt a \n [cost=0.05] say m1 b \n note {\"text\":\"c\"}");
        observe(&world, "s", 4, "[cost=0.02 amends=2] say m1 b");
        observe(&world, "s", 5, "[amends=2] say m1 b \n [cost=0.03 amends=4] say m1 b");
        observe(&world, "s", 7, "[cost=0.07 amends=77] say m9 b \n [cost=0.01 amends=77] say m9 b");
        session.refresh().unwrap();
        assert_eq!(session.cost().own.to_string(), "0.12");
        let mut replay = session::Replay::new();
        replay.run(all(&session)).unwrap();
        assert_eq!(replay.session().unwrap().cost, session.cost());
        assert_eq!(session.export_run().unwrap().total_cost, session.cost().total());
    }

    fn a_title_can_be_changed(world) {
        let session = world.session("s");
        write(&session, 1, "session.started {\"title\":\"old\"}");
        session.rename("new").unwrap();
        assert_eq!(session.settings().title.as_deref(), Some("new"));
        assert_eq!(world.journal().stat(&id("s")).unwrap().title.as_deref(), Some("new"));
        let changed = session.last_event().unwrap().unwrap().payload::<SettingsChanged>();
        assert_eq!(changed.unwrap().unwrap().title.as_deref(), Some("new"));
    }

    fn a_session_can_be_followed_before_it_begins(world) {
        use journal::{Delivery, FollowFrom, OnLag};
        let session = world.session("s");
        let mut news = session.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
        write(&session, 1, "prompt hello");
        let Some(Ok(Delivery::Event(first))) = news.next() else { panic!("an event") };
        assert_eq!(first.event, all(&session)[0]);
        let unknown = world.journal().follow_session(&id("t"), FollowFrom::Now, OnLag::CatchUp);
        assert!(matches!(unknown, Err(ReadError::SessionNotFound(_))));
    }

    fn any_name_is_a_session_of_its_own(world) {
        let names = ["ancestry", ".jsonl", "../x", "a/b", "CON", "con", "é", "e\u{301}", "a b"];
        for (n, name) in names.iter().enumerate() {
            let session = world.session(name);
            let text = Raw::from_value(name).unwrap();
            let draft = drafts_of(name, n as u64 + 1, &format!("note {{\"text\":{}}}", text.get()));
            session.append_batch(draft).unwrap();
        }
        let host = world.reopened();
        for name in names {
            let session = Session::open(&host, id(name)).unwrap();
            assert_eq!(all(&session).len(), 1);
            assert!(all(&session)[0].data.get().contains(Raw::from_value(name).unwrap().get()));
        }
    }

    fn what_was_said_is_found(world) {
        let session = world.session("s");
        write(&session, 1, "prompt make me a sandwich \n say m1 no");
        let host = world.reopened();
        let query = journal::Query::new("sandwich");
        let found = host.journal().search(&query).unwrap();
        assert_eq!((found.hits.len(), found.hits[0].seq), (1, 1));
    }
}

#[test]
fn a_session_in_memory_is_a_session() {
    let stamps = World::new(Kept::Memory).stamps();
    let session = Session::in_memory(id("s"), stamps);
    session.append_prompt("hello").unwrap();
    assert_eq!(told(&session), "1 user \"hello\"\n");
}
