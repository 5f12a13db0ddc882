//! However commits and restarts fall, the messages are the journal in its order, each event once.

use std::thread::JoinHandle;

use bus::{Filter, Listener, RunError, Server};
use event::payload::UserPrompt;
use event::{Draft as Fact, EventId, SessionId};
use journal::Batch;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const NOW: i64 = 1_800_000_000_000;

/// A journal, a bus, and a listener on it.
struct Stage {
    journal_handle: JournalHandle,
    bus: Handle,
    heard: Listener,
    thread: JoinHandle<Result<(), RunError>>,
    facts: u64,
    _dir: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let dir = TempDir::new().expect("a folder can be made");
        let journal_handle =
            JournalHandle::open(dir.path().join("journal")).expect("it can be made");
        std::fs::create_dir(health_dir(journal_handle.folder())).expect("it can be made");
        let path = dir.path().join("bus.sock");
        let server = Server::bind(&path, bus::ServerSettings::default()).expect("it can be bound");
        let bus = server.handle();
        let filter = Filter { tracts: vec!["cortex".to_owned()], ..Filter::default() };
        let heard = bus.listen(filter).expect("it listens");
        let thread = std::thread::spawn(move || server.run());
        Stage { journal_handle, bus, heard, thread, facts: 0, _dir: dir }
    }

    fn news(&self) -> BusPublisher {
        let clock = || Time::from_millis(NOW);
        let environment = capture::Environment::new(self._dir.path(), []);
        let status = StatusService::new(self.journal_handle.clone(), environment, clock);
        let (journal_handle, bus) = (self.journal_handle.clone(), self.bus.clone());
        BusPublisher::open(journal_handle, bus, clock, Arc::new(status)).expect("it can be read")
    }

    /// Records so many events of a session in one commit; their positions.
    fn record(&mut self, session: &str, at: i64, count: u64) -> Vec<u64> {
        self.record_seen(session, at, NOW, count)
    }

    /// The same for what was seen at another time.
    fn record_seen(&mut self, session: &str, at: i64, seen: i64, count: u64) -> Vec<u64> {
        let facts = (0..count).map(|_| {
            self.facts += 1;
            let id =
                EventId::derived(Time::from_millis(at), "test", session, &self.facts.to_be_bytes());
            let session = SessionId::new(session).expect("a plain id");
            let prompt = UserPrompt::text(format!("ask {}", self.facts));
            let fact = Fact::new(id, session, Time::from_millis(at), &prompt);
            Fact { observed_at: Time::from_millis(seen), ..fact.expect("it encodes") }
        });
        let batch = Batch::observed().with_all(facts);
        let receipt = self.journal_handle.current().append(batch).expect("it is recorded");
        receipt.events.iter().map(|event| event.position).collect()
    }

    /// The positions that were told.
    fn told(self) -> Vec<u64> {
        self.bus.stop();
        self.thread.join().expect("it does not panic").expect("it ends");
        let told = std::iter::from_fn(|| self.heard.next(Duration::ZERO));
        let position = |message: bus::Message| message.field("position")?.integer();
        told.filter_map(position).filter_map(|position| u64::try_from(position).ok()).collect()
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// An event of now, in one of a few sessions.
    BusPublisher(usize, u64),
    /// An event of long ago is imported.
    History(usize, u64),
    /// What is committed is told, as it is while agents work.
    Follow,
    /// What is committed is told, as it is after a start.
    CatchUp,
    /// The daemon is killed and starts again.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..3_usize, 1..5_u64).prop_map(|(session, count)| Act::BusPublisher(session, count)),
        2 => (0..3_usize, 1..5_u64).prop_map(|(session, count)| Act::History(session, count)),
        2 => Just(Act::Follow),
        1 => Just(Act::CatchUp),
        2 => Just(Act::Restart),
    ];
    prop::collection::vec(act, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn events_are_published_once_in_order(acts in acts()) {
        let mut stage = Stage::new();
        let over = StopFlag::default();
        over.request_stop();
        let mut news = stage.news();
        let mut wanted = Vec::new();
        for act in acts.into_iter().chain([Act::CatchUp]) {
            match act {
                Act::BusPublisher(session, count) => {
                    wanted.extend(stage.record(&format!("new{session}"), NOW, count));
                }
                Act::History(session, count) => {
                    // It is read while catching up, after everything before it was told.
                    news.catch_up(&StopFlag::default()).expect("it can be read");
                    stage.record(&format!("old{session}"), 0, count);
                    news.catch_up(&StopFlag::default()).expect("it can be read");
                }
                Act::Follow => news.follow(&over).expect("it can be read"),
                Act::CatchUp => news.catch_up(&StopFlag::default()).expect("it can be read"),
                Act::Restart => news = stage.news(),
            }
        }
        drop(news);
        prop_assert_eq!(stage.told(), wanted);
    }
}

#[test]
fn events_before_the_first_start_are_history() {
    let mut stage = Stage::new();
    stage.record("s", NOW, 3);
    let mut news = stage.news();
    let wanted = stage.record("s", NOW, 2);
    news.catch_up(&StopFlag::default()).expect("it can be read");
    drop(news);
    assert_eq!(stage.told(), wanted);
}

#[test]
fn imported_events_are_not_published() {
    let mut stage = Stage::new();
    let mut news = stage.news();
    let over = StopFlag::default();
    over.request_stop();
    stage.record_seen("imported", 0, 0, 3);
    let wanted = stage.record("s", 0, 2);
    news.follow(&over).expect("it can be read");
    drop(news);
    assert_eq!(stage.told(), wanted);
}

#[test]
fn published_run_gets_its_end_after_absence() {
    let mut stage = Stage::new();
    let mut news = stage.news();
    let mut wanted = stage.record("s", NOW, 1);
    news.catch_up(&StopFlag::default()).expect("it can be read");
    // It is old, but it ends a run whose start was published.
    let mut later = stage.news();
    wanted.extend(stage.record("s", 0, 1));
    later.catch_up(&StopFlag::default()).expect("it can be read");
    drop((news, later));
    assert_eq!(stage.told(), wanted);
}

#[test]
fn open_run_is_resumed_after_restart() {
    let mut stage = Stage::new();
    let over = StopFlag::default();
    over.request_stop();
    let mut first = stage.news();
    stage.record("s", NOW, 1);
    first.catch_up(&StopFlag::default()).expect("it can be read");
    drop(first);
    // More than a page of other events waits to be published.
    for _ in 0..30 {
        stage.record_seen("old", 0, 0, 100);
    }
    let mut second = stage.news();
    assert_eq!(second.saved_runs.len(), 1);
    second.catch_up(&StopFlag::default()).expect("it can be read");
    second.follow(&over).expect("it can be read");
    let session = SessionId::new("s").expect("a plain id");
    assert!(second.cortex.open_runs().contains(&session));
    assert!(second.cortex.running_agents(Time::from_millis(NOW)).len() == 1);
}

#[test]
fn unpublished_events_are_not_skipped() {
    let mut stage = Stage::new();
    drop(stage.news());
    // Recorded by a daemon that was killed before it could publish them.
    let wanted = stage.record("s", NOW, 2);
    let mut news = stage.news();
    news.skip_history(&StopFlag::default()).expect("it can be read");
    stage.record("history", 0, 2);
    news.skip_history(&StopFlag::default()).expect("it can be read");
    drop(news);
    assert_eq!(stage.told(), wanted);
}

#[test]
fn bundle_of_fresh_runs_is_not_published() {
    let mut stage = Stage::new();
    let mut news = stage.news();
    // Its prompts were observed when they were typed, long ago and on another machine.
    stage.record_seen("imported", 0, 0, 3);
    let wanted = stage.record("s", NOW, 1);
    news.catch_up(&StopFlag::default()).expect("it can be read");
    drop(news);
    assert_eq!(stage.told(), wanted);
}

#[test]
fn end_waits_for_room_on_the_bus() {
    let dir = TempDir::new().expect("a folder can be made");
    let journal_handle = JournalHandle::open(dir.path().join("journal")).expect("it can be made");
    std::fs::create_dir(health_dir(journal_handle.folder())).expect("it can be made");
    let path = dir.path().join("bus.sock");
    let server = Server::bind(&path, bus::ServerSettings::default()).expect("it can be bound");
    let bus = server.handle();
    let clock = || Time::from_millis(NOW);
    let environment = capture::Environment::new(dir.path(), []);
    let status = Arc::new(StatusService::new(journal_handle.clone(), environment, clock));
    let mut publisher = BusPublisher::open(journal_handle.clone(), bus.clone(), clock, status)
        .expect("it can be read");
    let session = SessionId::new("claude:s").expect("a plain id");
    let message = || bus::Draft::new("cortex", "finish").build().expect("it is short");
    // Nothing takes the messages yet.
    while bus.publish(message()).is_ok() {}
    let end = StatusMessage { ends: Some(session.clone()), message: message() };
    publisher.unsent_ends.push_back(end);
    publisher.send_ends();
    assert_eq!((publisher.unsent_ends.len(), publisher.saved_runs.contains(&session)), (1, true));
    assert_eq!(publisher.patience(), END_AGAIN_AFTER);
    let thread = std::thread::spawn(move || server.run());
    while !bus.wait_taken(ROOM_WITHIN) {}
    publisher.send_ends();
    assert_eq!((publisher.unsent_ends.len(), publisher.saved_runs.len()), (0, 0));
    bus.stop();
    thread.join().expect("it does not panic").expect("it ends");
}

#[test]
fn start_does_not_overtake_a_waiting_end() {
    let mut stage = Stage::new();
    let mut publisher = stage.news();
    stage.record("s", NOW, 1);
    publisher.catch_up(&StopFlag::default()).expect("it can be read");
    let session = SessionId::new("s").expect("a plain id");
    let end = bus::Draft::new("cortex", "finish").with("result", "late").build();
    let end = StatusMessage { ends: Some(session), message: end.expect("it is short") };
    publisher.unsent_ends.push_back(end);
    stage.record("s", NOW, 1);
    publisher.catch_up(&StopFlag::default()).expect("it can be read");
    assert!(publisher.unsent_ends.is_empty());
    drop(publisher);
    stage.bus.stop();
    stage.thread.join().expect("it does not panic").expect("it ends");
    let told = std::iter::from_fn(|| stage.heard.next(Duration::ZERO));
    let told: Vec<serde_json::Value> = told.map(|message| message.to_json()).collect();
    let place = |is_it: &dyn Fn(&serde_json::Value) -> bool| told.iter().position(is_it);
    let end = place(&|message| message["result"] == "late");
    let start = place(&|message| message["prompt"] == "ask 2");
    assert!(end.is_some() && end < start, "{told:#?}");
}

#[test]
fn every_one_of_many_runs_gets_its_end() {
    let mut stage = Stage::new();
    let mut publisher = stage.news();
    let names: Vec<String> = (0..1_100).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| _ = stage.record(name, NOW, 1));
    publisher.catch_up(&StopFlag::default()).expect("it can be read");
    assert_eq!(publisher.cortex.open_runs().len(), names.len());
    let journal = stage.journal_handle.current();
    let (mut ends, mut rounds) = (0, 0);
    while !publisher.cortex.open_runs().is_empty() && rounds < 10 {
        rounds += 1;
        publisher.resume_runs(&journal);
        let now = Time::from_millis(NOW + rounds * 60_000);
        for name in &names {
            let assessed = crate::status::AssessedStatus {
                session: SessionId::new(name.as_str()).expect("a plain id"),
                seq: 1,
                status: projection::status::Status::Exited,
                reason: projection::status::Reason::Gone,
                confidence: event::Confidence::High,
                source: "processes".to_owned(),
                what: "it is gone".to_owned(),
            };
            publisher.cortex.apply_status(&assessed, now);
        }
        let settled = Time::from_millis(NOW + rounds * 60_000 + 30_000);
        ends += publisher.cortex.end_settled_runs(settled).len();
    }
    assert_eq!((ends, publisher.cortex.open_runs().len()), (names.len(), 0), "{rounds} rounds");
}
