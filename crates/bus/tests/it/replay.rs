//! Starting in the past: recorded messages first, then live ones, as one sequence.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bus::{
    Client, ClientEvent, ClientSettings, Draft, Filter, Message, PageRequest, ReplayError,
    ReplayPage, ReplaySource, ServerSettings, StartPosition,
};
use proptest::prelude::*;

use crate::harness::{PATIENCE, TestClient, TestServer, note, settings};

/// A record in memory.
#[derive(Default)]
struct Shelf {
    events: Mutex<BTreeMap<u64, String>>,
    /// The last position that was ever used.
    tail: AtomicU64,
    is_broken: bool,
}

impl Shelf {
    fn put(&self, position: u64, text: &str) -> Message {
        self.events.lock().unwrap().insert(position, text.to_owned());
        self.tail.fetch_max(position, Ordering::Relaxed);
        told("cortex", position, text)
    }
}

impl ReplaySource for Shelf {
    fn read_page(&self, wanted: PageRequest) -> Result<ReplayPage, ReplayError> {
        if self.is_broken {
            return Err(ReplayError("a bad block".into()));
        }
        let PageRequest { after, up_to, with_journal } = wanted;
        let events = self.events.lock().unwrap();
        let mut page = ReplayPage { messages: Vec::new(), up_to };
        for (position, text) in events.range(after + 1..=up_to) {
            if page.messages.len() >= 7 {
                page.up_to = position - 1;
                break;
            }
            page.messages.push(told("cortex", *position, text));
            if with_journal {
                page.messages.push(told("journal", *position, text));
            }
        }
        Ok(page)
    }

    fn last_position(&self) -> Result<u64, ReplayError> {
        Ok(self.tail.load(Ordering::Relaxed))
    }
}

fn told(tract: &str, position: u64, text: &str) -> Message {
    let draft = Draft::new(tract, "info").with("position", position).with("text", text);
    draft.with("ts", 1).build().unwrap()
}

fn server(shelf: &Arc<Shelf>) -> TestServer {
    let record: Arc<dyn ReplaySource> = Arc::<Shelf>::clone(shelf);
    TestServer::open_with(ServerSettings { record: Some(record), ..settings() })
}

fn subscribe(client: &mut TestClient, rest: &str) {
    client.say(&format!(r#"{{"tract":"callosum","event":"subscribe",{rest}}}"#));
}

/// Publishes what is recorded.
fn publish(server: &TestServer, shelf: &Shelf, positions: impl IntoIterator<Item = u64>) {
    for position in positions {
        let message = shelf.put(position, "x");
        server.handle.publish_recorded(vec![message], position).unwrap();
    }
}

#[test]
fn history_precedes_caught_up() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    publish(&server, &shelf, 1..=20);
    let mut client = server.client();
    subscribe(&mut client, r#""from":3"#);
    let answer = client.hear_json();
    assert_eq!((&answer["event"], &answer["position"]), (&"subscribed".into(), &20.into()));
    client.say(&note(1));
    for position in 4..=20 {
        assert_eq!(client.hear_json()["position"], position);
    }
    let join = client.hear_json();
    assert_eq!((&join["event"], &join["position"]), (&"caught_up".into(), &20.into()));
    assert_eq!(client.hear(), note(1));
    publish(&server, &shelf, [21]);
    assert_eq!(client.hear_json()["position"], 21);
}

#[test]
fn start_now_misses_nothing_recorded() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    publish(&server, &shelf, 1..=5);
    let mut client = server.client();
    subscribe(&mut client, r#""from":"now""#);
    assert_eq!(client.hear_json()["position"], 5);
    assert_eq!(client.hear_json()["event"], "caught_up");
    // Recorded, and not on the bus one by one.
    for position in 6..=9 {
        shelf.put(position, "x");
    }
    server.handle.announce_position(9).unwrap();
    for position in 6..=9 {
        assert_eq!(client.hear_json()["position"], position);
    }
}

#[test]
fn journal_tract_must_be_named() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    publish(&server, &shelf, 1..=2);
    let (mut plain, mut client, mut both) = (server.client(), server.client(), server.client());
    subscribe(&mut client, r#""tracts":["journal"]"#);
    assert_eq!(client.hear_json()["event"], "subscribed");
    assert_eq!(client.hear_json()["event"], "caught_up");
    subscribe(&mut both, r#""tracts":["journal","cortex"],"from":1"#);
    both.hear();
    publish(&server, &shelf, [3]);
    assert_eq!(plain.hear_json()["tract"], "cortex");
    let heard = client.hear_json();
    assert_eq!((&heard["tract"], &heard["position"]), (&"journal".into(), &3.into()));
    let heard: Vec<String> = (0..5).map(|_| both.hear_json()["tract"].to_string()).collect();
    let wanted = ["cortex", "journal", "callosum", "cortex", "journal"];
    assert_eq!(heard, wanted.map(|tract| format!("{tract:?}")));
}

#[test]
fn slow_subscriber_is_replayed_without_gap() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    let (mut client, mut other) = (server.client(), server.client());
    subscribe(&mut client, r#""from":0"#);
    client.hear();
    client.hear();
    let text = "x".repeat(20_000);
    for position in 1..=1_100 {
        let message = shelf.put(position, &text);
        server.handle.publish_recorded(vec![message], position).unwrap();
        assert_eq!(other.hear_json()["position"], position);
    }
    for position in 1..=1_100 {
        assert_eq!(client.hear_json()["position"], position, "none missing, none twice");
    }
}

#[test]
fn unreadable_record_is_reported() {
    let shelf = Arc::new(Shelf { is_broken: true, ..Shelf::default() });
    let server = server(&shelf);
    publish(&server, &shelf, 1..=3);
    let mut client = server.client();
    subscribe(&mut client, r#""from":1"#);
    client.hear();
    let refused = client.hear_json();
    assert_eq!((&refused["reason"], &refused["position"]), (&"unreadable".into(), &1.into()));
    publish(&server, &shelf, [4]);
    assert_eq!(client.hear_json()["position"], 4);
}

#[test]
fn start_is_a_position_or_now() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    for from in ["-1", "1.5", r#""then""#, "[]"] {
        let mut client = server.client();
        subscribe(&mut client, &format!(r#""from":{from}"#));
        assert_eq!(client.hear_json()["reason"], "bad_subscription", "{from}");
    }
}

#[test]
fn start_beyond_the_record_is_refused() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    publish(&server, &shelf, 1..=5);
    let mut client = server.client();
    subscribe(&mut client, r#""from":500"#);
    assert_eq!(client.hear_json()["event"], "subscribed");
    let refused = client.hear_json();
    assert_eq!((&refused["reason"], &refused["position"]), (&"beyond".into(), &5.into()));
    publish(&server, &shelf, 6..=7);
    assert_eq!(client.hear_json()["position"], 6);
    assert_eq!(client.hear_json()["position"], 7);
}

#[test]
fn start_beyond_the_announced_position_works() {
    let shelf = Arc::new(Shelf::default());
    let server = server(&shelf);
    // A bus that has just started, beside a record that has not.
    for position in 1..=9 {
        shelf.put(position, "x");
    }
    server.handle.announce_position(4).unwrap();
    let mut client = server.client();
    subscribe(&mut client, r#""from":7"#);
    assert_eq!(client.hear_json()["position"], 4);
    let join = client.hear_json();
    assert_eq!((&join["event"], &join["position"]), (&"caught_up".into(), &7.into()));
    publish(&server, &shelf, 5..=10);
    for position in 8..=10 {
        assert_eq!(client.hear_json()["position"], position, "none missing, none twice");
    }
}

#[test]
fn client_resumes_and_blocks_for_its_caller() {
    let shelf = Arc::new(Shelf::default());
    let mut server = server(&shelf);
    publish(&server, &shelf, 1..=30_000);
    let filter = Filter { tracts: vec!["cortex".to_owned()], ..Filter::default() };
    let from = Some(StartPosition::After(0));
    let client =
        Client::start(server.path(), ClientSettings { filter, from, ..ClientSettings::default() });
    let client = client.unwrap();
    let mut next = 1;
    let mut hear_up_to = |last: u64| {
        while next <= last {
            match client.next(PATIENCE).expect("more was recorded") {
                ClientEvent::Message(message) => {
                    let position = message.field("position").unwrap().integer();
                    assert_eq!(position, Some(i64::try_from(next).unwrap()));
                    next += 1;
                }
                ClientEvent::Lagged { dropped } => panic!("{dropped} were given up"),
                _ => {}
            }
        }
    };
    hear_up_to(30_000);
    server.close();
    let record: Arc<dyn ReplaySource> = Arc::<Shelf>::clone(&shelf);
    server.reopen_with(ServerSettings { record: Some(record), ..settings() });
    publish(&server, &shelf, 30_001..=30_010);
    hear_up_to(30_010);
}

/// What happens to a bus with a record.
#[derive(Clone, Debug)]
enum Act {
    /// So many events are recorded and published.
    News(u64),
    /// So many events are recorded and not published.
    History(u64),
    /// Positions that stay without messages.
    Deleted(u64),
    /// A client starts at this part of the record.
    Subscribe(prop::sample::Index),
    /// All clients read what there is.
    Hear,
    /// A client sends a message.
    Say,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (1..30_u64).prop_map(Act::News),
        2 => (1..30_u64).prop_map(Act::History),
        1 => (1..3_u64).prop_map(Act::Deleted),
        2 => any::<prop::sample::Index>().prop_map(Act::Subscribe),
        1 => Just(Act::Hear),
        1 => Just(Act::Say),
    ];
    prop::collection::vec(act, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn recorded_messages_come_once_in_order(acts in acts()) {
        let shelf = Arc::new(Shelf::default());
        let server = server(&shelf);
        let mut speaker = server.client();
        let mut tail = 0;
        let mut subscribers: Vec<(TestClient, u64)> = Vec::new();
        for act in acts.into_iter().chain([Act::Hear]) {
            match act {
                Act::News(count) => {
                    publish(&server, &shelf, tail + 1..=tail + count);
                    tail += count;
                }
                Act::History(count) => {
                    for position in tail + 1..=tail + count {
                        shelf.put(position, "x");
                    }
                    tail += count;
                    server.handle.announce_position(tail).unwrap();
                }
                Act::Deleted(count) => {
                    tail += count;
                    shelf.tail.store(tail, Ordering::Relaxed);
                }
                Act::Subscribe(index) => {
                    let from = index.index(usize::try_from(tail).unwrap() + 1) as u64;
                    let mut client = server.client();
                    subscribe(&mut client, &format!(r#""from":{from},"tracts":["cortex"]"#));
                    while client.hear_json()["event"] != "subscribed" {}
                    subscribers.push((client, from));
                }
                Act::Say => speaker.say(&note(1)),
                Act::Hear => {
                    let recorded: Vec<u64> =
                        shelf.events.lock().unwrap().keys().copied().collect();
                    let last = recorded.last().copied().unwrap_or(0);
                    for (client, at) in &mut subscribers {
                        for position in recorded.iter().filter(|position| **position > *at) {
                            let mut heard = client.hear_json();
                            while heard["tract"] == "callosum" {
                                prop_assert!(heard["event"] != "lagged");
                                heard = client.hear_json();
                            }
                            prop_assert_eq!(&heard["position"], position);
                        }
                        *at = (*at).max(last);
                    }
                }
            }
        }
    }
}
