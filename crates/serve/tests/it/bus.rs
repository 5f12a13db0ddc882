//! The bus for pages: everything is heard, little may be said.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use bus::{Draft, Filter, Message, PageRequest, ReplayError, ReplayPage, ReplaySource};
use serde_json::{Value, json};

use crate::given::{House, WITHIN};

#[test]
fn page_gets_its_subscription() {
    let house = House::open();
    let mut page = house.socket("/api/bus?tract=cortex");
    assert_eq!(page.next().unwrap()["event"], "subscribed");
    house.bus.publish(Draft::new("observe", "status").build().unwrap()).unwrap();
    let draft = Draft::new("cortex", "info").with_raw("n", "NaN").unwrap();
    house.bus.publish(draft.build().unwrap()).unwrap();
    let heard = page.next().unwrap();
    assert_eq!((&heard["tract"], &heard["n"]), (&json!("cortex"), &json!(null)));
}

/// A record that goes as far as somebody wants.
struct Endless;

impl ReplaySource for Endless {
    fn read_page(
        &self,
        PageRequest { after, up_to, .. }: PageRequest,
    ) -> Result<ReplayPage, ReplayError> {
        Ok(ReplayPage { messages: (after + 1..=up_to).map(recorded).collect(), up_to })
    }

    fn last_position(&self) -> Result<u64, ReplayError> {
        Ok(u64::MAX)
    }
}

fn recorded(position: u64) -> Message {
    Draft::new("cortex", "info").with("position", position).build().unwrap()
}

/// What an event stream of the bus says: the id, if there is one, and the message.
fn stream(
    house: &House,
    query: &str,
    header: &str,
) -> impl Iterator<Item = (Option<u64>, Value)> + use<> {
    let token = house.token();
    let head = format!(
        "GET /api/bus/stream?{query} HTTP/1.1\r\nHost: {}\r\n{header}\
         Authorization: Bearer {token}\r\n\r\n",
        house.address()
    );
    let mut stream = house.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    std::iter::from_fn(move || {
        let (mut id, mut message) = (None, None);
        loop {
            let line = lines.next()?;
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.parse().unwrap());
            } else if let Some(text) = line.strip_prefix("data: ") {
                message = Some(serde_json::from_str(text).unwrap());
            } else if line.is_empty()
                && let Some(message) = message.take()
            {
                return Some((id, message));
            }
        }
    })
}

#[test]
fn bus_event_stream_resumes() {
    let record: Arc<dyn ReplaySource> = Arc::new(Endless);
    let settings = bus::ServerSettings { record: Some(record), ..bus::ServerSettings::default() };
    let house = House::open_with(settings);
    house.bus.publish_recorded(vec![recorded(5)], 5).unwrap();
    for (query, header, first) in [
        ("tract=cortex&from=2", "", 3),
        // A browser that comes back says how far it got.
        ("tract=cortex&from=2", "Last-Event-ID: 4\r\n", 5),
        ("tract=cortex", "Last-Event-ID: 3\r\n", 4),
    ] {
        let mut heard = stream(&house, query, header);
        let (id, subscribed) = heard.next().unwrap();
        assert_eq!(
            (id, &subscribed["event"]),
            (None, &json!("subscribed")),
            "nothing got there yet"
        );
        for position in first..=5 {
            let (id, message) = heard.next().unwrap();
            assert_eq!((id, &message["position"]), (Some(position), &json!(position)));
        }
        let (id, join) = heard.next().unwrap();
        assert_eq!((id, &join["event"]), (Some(5), &json!("caught_up")));
    }
}

#[test]
fn pages_publish_only_listed_messages() {
    let house = House::open();
    let listener = house.bus.listen(Filter::default()).unwrap();
    let (token, origin) = (house.token(), format!("http://{}", house.address()));
    let headers = [("authorization", &*format!("Bearer {token}")), ("origin", &*origin)];
    let mut page = house.socket_with("/api/bus?tract=none", &headers).unwrap();
    page.next().unwrap();
    for (said, is_allowed) in [
        (json!({"tract": "notification", "event": "show", "message": "<b>hi</b>"}), true),
        (json!({"tract": "notification", "event": "any", "action": "/sessions"}), true),
        (json!({"tract": "navigate", "event": "request", "path": "/x"}), true),
        (json!({"tract": "cortex", "event": "request", "prompt": "x"}), true),
        (json!({"tract": "supervisor", "event": "restart", "service": "x"}), true),
        (json!({"tract": "supervisor", "event": "cancel", "ref": "x"}), true),
        (json!({"tract": "supervisor", "event": "request", "cmd": ["sh"]}), false),
        (json!({"tract": "supervisor", "event": "stopped"}), false),
        (json!({"tract": "navigate", "event": "other"}), false),
        (json!({"tract": "navigate", "event": "request", "path": "//evil.example"}), false),
        (json!({"tract": "notification", "event": "show", "action": "javascript:x"}), false),
        (json!({"tract": "observe", "event": "observed"}), false),
        (json!({"tract": "cortex", "event": "finish"}), false),
        (json!({"tract": "callosum", "event": "unsubscribe"}), false),
        (json!({"event": "show"}), false),
        (json!(["notification", "show"]), false),
    ] {
        page.say(said.clone());
        if is_allowed {
            let heard = listener.next(WITHIN).unwrap();
            assert_eq!(heard.tract().as_deref(), said["tract"].as_str(), "{said}");
            assert_eq!(heard.event().as_deref(), said["event"].as_str(), "{said}");
        } else {
            assert_eq!(page.hear("refused")["kind"], "not_allowed", "{said}");
        }
    }
    // Whoever opened the door knows how often, and is told ever more rarely.
    let told = || house.refused.lock().unwrap().clone();
    house.until("it is told four times", || told().len() == 4);
    let counts: Vec<u64> = told().iter().map(|it| it.count).collect();
    assert_eq!(counts, [1, 2, 4, 8]);
    assert_eq!(told()[0].why, "a page may not say `supervisor.request`");
    assert_eq!(told()[0].origin.as_deref(), Some(&*origin));
}
