//! Followers get everything behind their place, in order, each once, however slow they are.

use std::time::Duration;

use event::Kind;
use journal::Batch;
use serde_json::json;

use crate::given::{House, Socket, of_kind};

fn follow(house: &House, session: Option<&str>, after: Option<u64>) -> Socket {
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-stream", "session_id": session, "after": after}));
    socket.hear("stream-init");
    socket
}

#[test]
fn no_followers_hold_no_events() {
    let house = House::open();
    house.record("s", (0..10).map(|number| format!("text {number}")));
    let held = || {
        let (_, told) = house.get("/api/stream/status");
        (told["cached_after"].as_u64().unwrap(), told["position"].as_u64().unwrap())
    };
    house.until("the journal is read", || held().1 == 10);
    assert_eq!(held(), (10, 10));
    let mut socket = follow(&house, None, Some(8));
    assert_eq!(socket.positions(2), [9, 10]);
    house.record("s", ["one more".to_owned()]);
    assert_eq!(socket.positions(1), [11]);
    house.until("it is held for the next one", || held() == (10, 11));
}

#[test]
fn history_and_new_events_are_one_stream() {
    let house = House::open();
    house.record("a", (0..3).map(|number| format!("before {number}")));
    house.record("b", ["other".to_owned()]);
    let mut all = follow(&house, None, Some(1));
    assert_eq!(all.positions(3), [2, 3, 4]);
    assert_eq!(all.hear("stream-status")["state"], "live");
    let mut one = follow(&house, Some("made-up:a"), Some(0));
    assert_eq!(one.positions(3), [1, 2, 3]);
    assert_eq!(one.hear("stream-status")["seq"], 3);
    let mut from_now = follow(&house, Some("made-up:a"), None);
    assert_eq!(from_now.hear("stream-status")["position"], 4);
    house.record("b", ["not theirs".to_owned()]);
    house.record("a", ["news".to_owned()]);
    assert_eq!(all.positions(2), [5, 6]);
    assert_eq!(one.hear("stream-event")["event"]["data"]["content"], "news");
    assert_eq!(from_now.hear("stream-event")["event"]["seq"], 4);
    let (_, status) = house.get("/api/stream/status");
    assert_eq!(status["followers"].as_array().unwrap().len(), 3, "{status}");
    drop((all, one, from_now));
    house.until("they are gone", || {
        house.get("/api/stream/status").1["followers"].as_array().unwrap().is_empty()
    });
}

#[test]
fn event_stream_resumes() {
    use std::io::{BufRead, BufReader, Write};
    let house = House::open();
    house.record("a", (1..=3).map(|number| format!("{number}")));
    let token = format!("Authorization: Bearer {}", house.token());
    let head = format!(
        "GET /api/sessions/made-up:a/stream HTTP/1.1\r\nHost: {}\r\n{token}\r\n\
         Last-Event-ID: 1\r\n\r\n",
        house.address()
    );
    let mut stream = house.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut ids = Vec::new();
    while ids.len() < 2 {
        ids.extend(lines.next().unwrap().strip_prefix("id: ").map(str::to_owned));
    }
    house.record("a", ["4".to_owned()]);
    while ids.len() < 3 {
        ids.extend(lines.next().unwrap().strip_prefix("id: ").map(str::to_owned));
    }
    assert_eq!(ids, ["2", "3", "4"]);
}

#[test]
fn decision_follows_its_event() {
    let house = House::open();
    house.record("a", ["one".to_owned()]);
    let mut socket = follow(&house, Some("made-up:a"), None);
    socket.hear("stream-status");
    let data = json!({"approval_id": "p", "decision": "deny", "by": "person"});
    let resolved = of_kind("a", "resolved", Kind::ApprovalResolved, data);
    house.journal.append(Batch::observed().with(resolved)).unwrap();
    socket.hear("stream-event");
    let decision = socket.hear("approval-decision");
    assert_eq!((&decision["approval_id"], &decision["decision"]), (&json!("p"), &json!("deny")));
}

#[test]
fn deleted_session_ends_its_stream() {
    let house = House::open();
    house.record("a", ["one".to_owned()]);
    let id = event::SessionId::new("made-up:a").unwrap();
    house.journal.delete(&id, event::Time::EPOCH, journal::ForkPolicy::Refuse).unwrap();
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-stream", "session_id": "made-up:a", "after": 0}));
    assert_eq!(socket.hear("refused")["kind"], "session_not_found");
    socket.say(json!({"type": "dance"}));
    assert_eq!(socket.hear("refused")["kind"], "bad_argument");
}

#[test]
fn slow_followers_block_no_others() {
    const FOLLOWERS: usize = 200;
    const STUCK: usize = 20;
    const EVENTS: usize = 1_000;
    let house = House::open();
    let mut reading: Vec<Socket> =
        (0..FOLLOWERS - STUCK).map(|_| follow(&house, None, None)).collect();
    let mut stuck: Vec<Socket> = (0..STUCK).map(|_| follow(&house, None, None)).collect();
    // Far more than sockets and memory hold: those who do not read have to fall behind.
    let text = "x".repeat(16_000);
    let wanted: Vec<u64> = (1..=EVENTS as u64).collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> = reading
            .chunks_mut(30)
            .map(|sockets| {
                let wanted = &wanted;
                scope.spawn(move || {
                    for socket in sockets {
                        socket
                            .0
                            .get_ref()
                            .set_read_timeout(Some(Duration::from_secs(120)))
                            .unwrap();
                        assert_eq!(socket.positions(EVENTS), *wanted);
                    }
                })
            })
            .collect();
        for portion in 0..EVENTS / 20 {
            let texts = (0..20).map(|number| format!("{portion} {number} {text}"));
            house.record("a", texts);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let (_, status) = house.get("/api/stream/status");
    let behind = status["followers"].as_array().unwrap().iter();
    let behind = behind.filter(|follower| follower["behind"].as_u64().unwrap() > 0).count();
    assert!(behind >= STUCK, "{behind} of {STUCK} are behind");
    for socket in &mut stuck {
        let mut positions = Vec::new();
        let mut lagged = 0;
        while positions.len() < EVENTS {
            let told = socket.heard().expect("there is more");
            match told.kind.as_str() {
                "stream-event" => positions.push(told.position),
                "lagged" => {
                    lagged += 1;
                    assert_eq!(told.position, positions.len() as u64);
                }
                _ => {}
            }
        }
        assert_eq!(positions, wanted);
        assert!(lagged > 0, "it was told that it is slow");
    }
}
