//! Too much and too slow: the line is cut, and nobody else notices.

use std::io::{Read, Write};
use std::sync::mpsc;

use serde_json::json;

use crate::given::{House, WITHIN};

#[test]
fn endless_headers_are_cut_off() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let long = format!("X-Long: {}", "x".repeat(200_000));
    let said = house.ask("GET /api/health HTTP/1.1", &[&token, &long]);
    assert!(said.status == 431 || said.status == 0, "{said:?}");
    let many: Vec<String> = (0..500).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let said = house.ask("GET /api/health HTTP/1.1", &many);
    assert!(said.status == 431 || said.status == 400, "{said:?}");
    let path = format!("GET /{} HTTP/1.1", "a".repeat(100_000));
    let said = house.ask(&path, &[&token]);
    assert!(matches!(said.status, 0 | 414 | 431), "{said:?}");
    assert_eq!(house.get("/api/health").0, 200);
}

#[test]
fn slow_headers_time_out() {
    let house = House::open();
    let mut slow = house.connect();
    slow.write_all(b"GET /api/health HTTP/1.1\r\nHost: 127").unwrap();
    let mut silent = house.connect();
    assert_eq!(house.get("/api/health").0, 200);
    let mut heard = Vec::new();
    let _ = slow.read_to_end(&mut heard);
    assert!(!String::from_utf8_lossy(&heard).contains("200"), "{heard:?}");
    let _ = silent.read_to_end(&mut heard);
}

#[test]
fn unexpected_bodies_are_not_read() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let said = house.ask("GET /api/health HTTP/1.1", &[&token, "Content-Length: 99999999999"]);
    assert_eq!(said.status, 200);
    let said = house.ask("POST /api/health HTTP/1.1", &[&token, "Content-Length: 99999999999"]);
    assert_eq!((said.status, said.kind().as_str()), (405, "bad_method"));
}

#[test]
fn oversized_message_ends_only_its_socket() {
    let house = House::open();
    let mut good = house.socket("/api/ws");
    let mut bad = house.socket("/api/ws");
    bad.say(json!({"type": "subscribe-stream", "session_id": "x".repeat(100_000)}));
    assert_eq!(bad.next(), None);
    good.say(json!({"type": "subscribe-stream"}));
    good.hear("stream-init");
}

#[test]
fn streams_per_connection_are_limited() {
    let house = House::open();
    let mut socket = house.socket("/api/ws");
    for number in 0..64 {
        house.record(&format!("s{number:03}"), ["one".to_owned()]);
        let id = format!("made-up:s{number:03}");
        socket.say(json!({"type": "subscribe-stream", "session_id": id}));
        socket.hear("stream-init");
        socket.hear("stream-status");
    }
    socket.say(json!({"type": "subscribe-stream"}));
    assert!(socket.hear("refused")["message"].as_str().unwrap().contains("64"));
    socket.say(json!({"type": "unsubscribe-stream", "session_id": "made-up:s000"}));
    socket.say(json!({"type": "subscribe-stream"}));
    socket.hear("stream-init");
}

#[test]
fn long_queries_block_only_queries() {
    /// Those that are answered, those that wait, and one more.
    const ASKING: usize = 8 + 64 + 1;
    let house = House::open();
    house.record("s", (0..3).map(|number| number.to_string()));
    let (tell, told) = mpsc::sync_channel(ASKING);
    let shut = house.slow.write().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..ASKING {
            let (house, tell) = (&house, tell.clone());
            scope.spawn(move || tell.send(house.get("/api/usage?by=slow")));
        }
        let (status, refused) = told.recv_timeout(WITHIN).unwrap();
        assert_eq!((status, &refused["error"]["kind"]), (503, &json!("busy")), "{refused}");
        assert!(refused["error"]["hint"].is_string(), "{refused}");
        assert_eq!(house.get("/api/health").0, 200);
        assert!(house.cookie().starts_with("Cookie: "));
        let token = format!("Authorization: Bearer {}", house.token());
        assert_eq!(house.ask("POST /api/sample HTTP/1.1", &[&token]).status, 200);
        let mut socket = house.socket("/api/ws");
        let session = "made-up:s";
        socket.say(json!({"type": "subscribe-stream", "session_id": session, "after": 0}));
        assert_eq!(socket.positions(3), [1, 2, 3]);
        drop(shut);
        for _ in 1..ASKING {
            assert_eq!(told.recv_timeout(WITHIN).unwrap().0, 400);
        }
    });
}

#[test]
fn half_open_connections_leave_room_for_the_owner() {
    /// More than all places.
    const STRANGERS: usize = 1_100;
    let house = House::open();
    let mut streaming = house.socket("/api/ws");
    let strangers: Vec<_> = (0..STRANGERS)
        .map(|_| {
            let mut stranger = house.connect();
            // A stranger whose place was taken cannot write any more.
            let _ = stranger.write_all(b"GET /api/health HTTP/1.1\r\nHost: 127");
            stranger
        })
        .collect();
    for asked in 0..15 {
        assert_eq!(house.get("/api/health").0, 200, "request {asked}");
    }
    // A connection that has shown its token outlasts them.
    streaming.say(json!({"type": "subscribe-stream"}));
    streaming.hear("stream-init");
    drop(strangers);
}
