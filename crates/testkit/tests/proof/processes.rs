//! Several processes on one journal: no event is lost, doubled or missed.

use std::collections::BTreeSet;

use event::payload::ApprovalRequested;
use event::{Draft, EventId, SessionId, Time};
use journal::{Batch, Selection, StoreKind};
use testkit::numbered;

use crate::account::Account;
use crate::test_journal::TestJournal;
use crate::worker::Worker;
use crate::{in_every_store, setting};

/// Events each of two writers adds to one session.
const EVENTS_EACH: u64 = 10_000;

/// How long a writer and its followers run.
const SECONDS: u64 = 60;
const FOLLOWERS: usize = 3;

/// Events two readers of one source get through together.
const SOURCE_EVENTS: u64 = 2_000;

/// Approvals two people answer at once.
const APPROVALS: usize = 100;

in_every_store![
    two_writers_fill_one_session_without_a_gap,
    followers_miss_nothing_of_a_busy_writer,
    two_readers_of_one_source_record_it_once,
    an_approval_is_answered_once,
];

fn two_writers_fill_one_session_without_a_gap(store: StoreKind) {
    let place = TestJournal::new(store);
    let count = EVENTS_EACH.to_string();
    let mut workers =
        ["1", "2"].map(|writer| Worker::start(&place, "add", &["shared", writer, &count]));
    workers.iter_mut().for_each(|worker| worker.wait_for("ready"));
    workers.iter_mut().for_each(Worker::go);
    // Both outputs are read in parallel, so that no writer blocks on its pipe.
    let readers = workers.map(|worker| std::thread::spawn(move || worker.finish()));
    let said = readers.map(|reader| reader.join().unwrap());
    let mut acknowledged = BTreeSet::new();
    for line in said.iter().flatten() {
        if let ["ack", _, seq] = line.split(' ').collect::<Vec<_>>()[..] {
            assert!(acknowledged.insert(seq.parse::<u64>().unwrap()), "{line}: told twice");
        }
    }
    assert!(acknowledged.iter().copied().eq(1..=2 * EVENTS_EACH));

    let journal = place.open();
    let shared = SessionId::new("shared").unwrap();
    let mut ids = BTreeSet::new();
    let mut turns = 0;
    let mut last_writer = 0;
    for (event, seq) in journal.events(&shared, Selection::all().strict()).unwrap().zip(1..) {
        let event = event.unwrap();
        assert_eq!(event.seq, seq);
        let writer = event.id.tail()[1];
        turns += u64::from(writer != last_writer);
        last_writer = writer;
        assert!(ids.insert((writer, numbered::number_of(event.id))), "{} is there twice", event.id);
    }
    let all = (1..=2).flat_map(|writer| (1..=EVENTS_EACH).map(move |number| (writer, number)));
    assert!(ids.iter().copied().eq(all));
    println!("{store:?}: 2 writers, {} events in one session, {turns} turns", ids.len());
}

fn followers_miss_nothing_of_a_busy_writer(store: StoreKind) {
    let place = TestJournal::new(store);
    drop(place.open());
    let seconds = setting("HANSARD_TEST_SECONDS", SECONDS).to_string();
    let mut followers: Vec<Worker> =
        (0..FOLLOWERS).map(|_| Worker::start(&place, "follow", &[])).collect();
    followers.iter_mut().for_each(|follower| follower.wait_for("opened"));
    let wrote = Worker::start(&place, "write", &[&seconds]).finish();
    let wrote = wrote.last().and_then(|line| line.strip_prefix("wrote ")).unwrap().to_owned();
    for follower in followers {
        let said = follower.finish();
        let last: Vec<&str> = said.last().unwrap().split(' ').collect();
        assert_eq!(last[..2], ["followed", wrote.as_str()]);
        println!("{store:?}: followed {wrote} events in {seconds} s, {} times behind", last[2]);
    }
}

fn two_readers_of_one_source_record_it_once(store: StoreKind) {
    let place = TestJournal::new(store);
    drop(place.open());
    let last = SOURCE_EVENTS.to_string();
    let readers = [(); 2].map(|()| Worker::start(&place, "append", &[&last]));
    let readers = readers.map(|worker| std::thread::spawn(move || worker.finish()));
    let recorded = readers.map(|reader| {
        let said = reader.join().unwrap();
        said.iter().filter(|line| line.starts_with("ack")).count() as u64
    });
    assert_eq!(recorded.iter().sum::<u64>(), SOURCE_EVENTS, "each event is one reader's");
    let journal = place.open();
    let mut account = Account::default();
    account.look(&journal, &[]);
    assert_eq!(journal.tail().unwrap(), SOURCE_EVENTS);
    println!("{store:?}: one source, recorded once by two readers: {recorded:?}");
}

fn an_approval_is_answered_once(store: StoreKind) {
    let place = TestJournal::new(store);
    let session_id = SessionId::new("asking").unwrap();
    let approvals: Vec<String> =
        (0..APPROVALS).map(|number| format!("approval-{number}")).collect();
    let requests = approvals.iter().map(|approval_id| {
        let at = Time::from_millis(1_800_000_000_000);
        let id = EventId::derived(at, "proof", "asking", approval_id.as_bytes());
        let requested = ApprovalRequested {
            approval_id: approval_id.clone(),
            tool: "bash".to_owned(),
            ..ApprovalRequested::default()
        };
        Draft::new(id, session_id.clone(), at, &requested).unwrap()
    });
    place.open().append(Batch::hosted().with_all(requests)).unwrap();

    let mut workers = ["ann", "bob"].map(|by| {
        let rest: Vec<&str> =
            ["asking", by].into_iter().chain(approvals.iter().map(String::as_str)).collect();
        Worker::start(&place, "answer", &rest)
    });
    workers.iter_mut().for_each(|worker| worker.wait_for("ready"));
    let mut won = [0; 2];
    for approval_id in &approvals {
        // Both get the line at once.
        workers.iter_mut().for_each(Worker::go);
        let answers = workers.each_mut().map(|worker| worker.line().unwrap());
        let yes = format!("won {approval_id}");
        let no = format!("lost {approval_id} ");
        match answers.each_ref().map(|answer| (*answer == yes, answer.starts_with(&no))) {
            [(true, _), (_, true)] => won[0] += 1,
            [(_, true), (true, _)] => won[1] += 1,
            _ => panic!("{answers:?}"),
        }
    }
    let journal = place.open();
    assert_eq!(journal.stat(&session_id).unwrap().tail_seq, 2 * APPROVALS as u64);
    println!("{store:?}: {APPROVALS} approvals answered once each: {won:?}");
}
