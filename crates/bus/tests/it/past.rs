//! Beginning in the past: what was recorded comes first, then the news, as one sequence.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bus::{
    Begin, Client, ClientSettings, Draft, Filter, Item, Message, Page, Record, RecordError,
    Settings, Wanted,
};
use proptest::prelude::*;

use crate::hall::{Guest, Hall, PATIENCE, note, settings};

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

impl Record for Shelf {
    fn page(&self, wanted: Wanted) -> Result<Page, RecordError> {
        if self.is_broken {
            return Err(RecordError("a bad block".into()));
        }
        let Wanted { after, up_to, with_journal } = wanted;
        let events = self.events.lock().unwrap();
        let mut page = Page { messages: Vec::new(), up_to };
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

    fn tail(&self) -> Result<u64, RecordError> {
        Ok(self.tail.load(Ordering::Relaxed))
    }
}

fn told(tract: &str, position: u64, text: &str) -> Message {
    let draft = Draft::new(tract, "info").with("position", position).with("text", text);
    draft.with("ts", 1).build().unwrap()
}

fn hall(shelf: &Arc<Shelf>) -> Hall {
    let record: Arc<dyn Record> = Arc::<Shelf>::clone(shelf);
    Hall::open_with(Settings { record: Some(record), ..settings() })
}

fn subscribe(guest: &mut Guest, rest: &str) {
    guest.say(&format!(r#"{{"tract":"callosum","event":"subscribe",{rest}}}"#));
}

/// Publishes what is recorded.
fn publish(hall: &Hall, shelf: &Shelf, positions: impl IntoIterator<Item = u64>) {
    for position in positions {
        let message = shelf.put(position, "x");
        hall.handle.publish_recorded(vec![message], position).unwrap();
    }
}

#[test]
fn history_comes_first_and_the_join_is_marked() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    publish(&hall, &shelf, 1..=20);
    let mut guest = hall.guest();
    subscribe(&mut guest, r#""from":3"#);
    let answer = guest.hear_json();
    assert_eq!((&answer["event"], &answer["position"]), (&"subscribed".into(), &20.into()));
    guest.say(&note(1));
    for position in 4..=20 {
        assert_eq!(guest.hear_json()["position"], position);
    }
    let join = guest.hear_json();
    assert_eq!((&join["event"], &join["position"]), (&"caught_up".into(), &20.into()));
    assert_eq!(guest.hear(), note(1));
    publish(&hall, &shelf, [21]);
    assert_eq!(guest.hear_json()["position"], 21);
}

#[test]
fn one_who_begins_now_misses_nothing_recorded_from_then_on() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    publish(&hall, &shelf, 1..=5);
    let mut guest = hall.guest();
    subscribe(&mut guest, r#""from":"now""#);
    assert_eq!(guest.hear_json()["position"], 5);
    assert_eq!(guest.hear_json()["event"], "caught_up");
    // Recorded, and not on the bus one by one.
    for position in 6..=9 {
        shelf.put(position, "x");
    }
    hall.handle.recorded_up_to(9).unwrap();
    for position in 6..=9 {
        assert_eq!(guest.hear_json()["position"], position);
    }
}

#[test]
fn whole_events_are_for_those_who_name_their_tract() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    publish(&hall, &shelf, 1..=2);
    let (mut plain, mut guest, mut both) = (hall.guest(), hall.guest(), hall.guest());
    subscribe(&mut guest, r#""tracts":["journal"]"#);
    assert_eq!(guest.hear_json()["event"], "subscribed");
    assert_eq!(guest.hear_json()["event"], "caught_up");
    subscribe(&mut both, r#""tracts":["journal","cortex"],"from":1"#);
    both.hear();
    publish(&hall, &shelf, [3]);
    assert_eq!(plain.hear_json()["tract"], "cortex");
    let heard = guest.hear_json();
    assert_eq!((&heard["tract"], &heard["position"]), (&"journal".into(), &3.into()));
    let heard: Vec<String> = (0..5).map(|_| both.hear_json()["tract"].to_string()).collect();
    let wanted = ["cortex", "journal", "callosum", "cortex", "journal"];
    assert_eq!(heard, wanted.map(|tract| format!("{tract:?}")));
}

#[test]
fn one_who_lags_is_served_from_the_record_and_sees_no_gap() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    let (mut guest, mut other) = (hall.guest(), hall.guest());
    subscribe(&mut guest, r#""from":0"#);
    guest.hear();
    guest.hear();
    let text = "x".repeat(20_000);
    for position in 1..=1_100 {
        let message = shelf.put(position, &text);
        hall.handle.publish_recorded(vec![message], position).unwrap();
        assert_eq!(other.hear_json()["position"], position);
    }
    for position in 1..=1_100 {
        assert_eq!(guest.hear_json()["position"], position, "none missing, none twice");
    }
}

#[test]
fn a_record_that_cannot_be_read_is_told_and_the_news_go_on() {
    let shelf = Arc::new(Shelf { is_broken: true, ..Shelf::default() });
    let hall = hall(&shelf);
    publish(&hall, &shelf, 1..=3);
    let mut guest = hall.guest();
    subscribe(&mut guest, r#""from":1"#);
    guest.hear();
    let refused = guest.hear_json();
    assert_eq!((&refused["reason"], &refused["position"]), (&"unreadable".into(), &1.into()));
    publish(&hall, &shelf, [4]);
    assert_eq!(guest.hear_json()["position"], 4);
}

#[test]
fn where_to_begin_is_a_position_or_now() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    for from in ["-1", "1.5", r#""then""#, "[]"] {
        let mut guest = hall.guest();
        subscribe(&mut guest, &format!(r#""from":{from}"#));
        assert_eq!(guest.hear_json()["reason"], "bad_subscription", "{from}");
    }
}

#[test]
fn one_who_begins_beyond_the_record_is_told_where_it_ends_and_hears_the_news() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    publish(&hall, &shelf, 1..=5);
    let mut guest = hall.guest();
    subscribe(&mut guest, r#""from":500"#);
    assert_eq!(guest.hear_json()["event"], "subscribed");
    let refused = guest.hear_json();
    assert_eq!((&refused["reason"], &refused["position"]), (&"beyond".into(), &5.into()));
    publish(&hall, &shelf, 6..=7);
    assert_eq!(guest.hear_json()["position"], 6);
    assert_eq!(guest.hear_json()["position"], 7);
}

#[test]
fn one_who_has_more_than_the_bus_was_told_goes_on_there() {
    let shelf = Arc::new(Shelf::default());
    let hall = hall(&shelf);
    // A bus that has just started, beside a record that has not.
    for position in 1..=9 {
        shelf.put(position, "x");
    }
    hall.handle.recorded_up_to(4).unwrap();
    let mut guest = hall.guest();
    subscribe(&mut guest, r#""from":7"#);
    assert_eq!(guest.hear_json()["position"], 4);
    let join = guest.hear_json();
    assert_eq!((&join["event"], &join["position"]), (&"caught_up".into(), &7.into()));
    publish(&hall, &shelf, 5..=10);
    for position in 8..=10 {
        assert_eq!(guest.hear_json()["position"], position, "none missing, none twice");
    }
}

#[test]
fn a_client_goes_on_where_it_was_and_waits_for_its_caller() {
    let shelf = Arc::new(Shelf::default());
    let mut hall = hall(&shelf);
    publish(&hall, &shelf, 1..=30_000);
    let filter = Filter { tracts: vec!["cortex".to_owned()], ..Filter::default() };
    let from = Some(Begin::After(0));
    let client =
        Client::start(hall.path(), ClientSettings { filter, from, ..ClientSettings::default() });
    let client = client.unwrap();
    let mut next = 1;
    let mut hear_up_to = |last: u64| {
        while next <= last {
            match client.next(PATIENCE).expect("more was recorded") {
                Item::Message(message) => {
                    let position = message.field("position").unwrap().integer();
                    assert_eq!(position, Some(i64::try_from(next).unwrap()));
                    next += 1;
                }
                Item::Lagged { dropped } => panic!("{dropped} were given up"),
                _ => {}
            }
        }
    };
    hear_up_to(30_000);
    hall.close();
    let record: Arc<dyn Record> = Arc::<Shelf>::clone(&shelf);
    hall.reopen_with(Settings { record: Some(record), ..settings() });
    publish(&hall, &shelf, 30_001..=30_010);
    hear_up_to(30_010);
}

/// What happens to a bus with a record.
#[derive(Clone, Debug)]
enum Act {
    /// So many events are recorded and published.
    News(u64),
    /// So many events are recorded and not published.
    History(u64),
    /// Positions that nobody will ever use.
    Deleted(u64),
    /// Somebody begins at this part of what there is.
    Subscribe(prop::sample::Index),
    /// Everybody hears what there is.
    Hear,
    /// Somebody says something.
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
    fn from_anywhere_everything_recorded_comes_once_and_in_order(acts in acts()) {
        let shelf = Arc::new(Shelf::default());
        let hall = hall(&shelf);
        let mut speaker = hall.guest();
        let mut tail = 0;
        let mut subscribers: Vec<(Guest, u64)> = Vec::new();
        for act in acts.into_iter().chain([Act::Hear]) {
            match act {
                Act::News(count) => {
                    publish(&hall, &shelf, tail + 1..=tail + count);
                    tail += count;
                }
                Act::History(count) => {
                    for position in tail + 1..=tail + count {
                        shelf.put(position, "x");
                    }
                    tail += count;
                    hall.handle.recorded_up_to(tail).unwrap();
                }
                Act::Deleted(count) => {
                    tail += count;
                    shelf.tail.store(tail, Ordering::Relaxed);
                }
                Act::Subscribe(index) => {
                    let from = index.index(usize::try_from(tail).unwrap() + 1) as u64;
                    let mut guest = hall.guest();
                    subscribe(&mut guest, &format!(r#""from":{from},"tracts":["cortex"]"#));
                    while guest.hear_json()["event"] != "subscribed" {}
                    subscribers.push((guest, from));
                }
                Act::Say => speaker.say(&note(1)),
                Act::Hear => {
                    let recorded: Vec<u64> =
                        shelf.events.lock().unwrap().keys().copied().collect();
                    let last = recorded.last().copied().unwrap_or(0);
                    for (guest, at) in &mut subscribers {
                        for position in recorded.iter().filter(|position| **position > *at) {
                            let mut heard = guest.hear_json();
                            while heard["tract"] == "callosum" {
                                prop_assert!(heard["event"] != "lagged");
                                heard = guest.hear_json();
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
