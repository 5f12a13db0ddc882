//! The bus from inside the process.

use std::sync::Arc;
use std::time::Duration;

use bus::{Draft, Filter, Message, PublishError, Server};

use crate::harness::{NOW, PATIENCE, TestServer, note, settings};

fn message(line: &str) -> Message {
    Message::parse(line.as_bytes()).unwrap()
}

#[test]
fn published_messages_keep_one_order() {
    let server = TestServer::open();
    let mut client = server.client();
    let listener = server.handle.listen(Filter::default()).unwrap();
    client.say(&note(1));
    assert_eq!(listener.next(PATIENCE).unwrap().line(), note(1).as_bytes());
    server.handle.publish(Draft::new("a", "b").with("c", "\u{e9}").build().unwrap()).unwrap();
    let line = format!(r#"{{"tract":"a","event":"b","c":"\u00e9","ts":{NOW}}}"#);
    assert_eq!(client.hear(), note(1));
    assert_eq!(client.hear(), line);
    assert_eq!(listener.next(PATIENCE).unwrap().line(), line.as_bytes());
}

#[test]
fn listener_gets_what_it_names() {
    let server = TestServer::open();
    let filter = Filter { tracts: vec!["supervisor".to_owned()], ..Filter::default() };
    let listener = server.handle.listen(filter).unwrap();
    server.handle.publish(message(&note(1))).unwrap();
    let wanted = r#"{"tract":"supervisor","event":"request","ts":1}"#;
    server.handle.publish(message(wanted)).unwrap();
    assert_eq!(listener.next(PATIENCE).unwrap().line(), wanted.as_bytes());
    assert_eq!(listener.missed(), 0);
}

#[test]
fn full_listener_counts_missed_messages() {
    let server = TestServer::open();
    let slow = server.handle.listen(Filter::default()).unwrap();
    let other = server.handle.listen(Filter::default()).unwrap();
    for number in 0..66_000 {
        server.handle.publish(message(&note(number))).unwrap();
        assert!(other.next(PATIENCE).is_some());
    }
    assert_eq!(slow.missed(), 66_000 - 65_536);
    assert_eq!(slow.next(PATIENCE).unwrap().line(), note(0).as_bytes());
}

#[test]
fn overflow_receives_missed_messages() {
    let server = TestServer::open();
    let bus = server.handle.clone();
    let sorry = move |missed: &Message| {
        let number = missed.field("n").and_then(|field| field.integer()).unwrap();
        let answer = Draft::new("test", "sorry").with("n", number).build().unwrap();
        bus.publish(answer).unwrap();
    };
    let wanted = |event: &str| Filter { events: vec![event.to_owned()], ..Filter::default() };
    let _slow = server.handle.listen_with_overflow(wanted("note"), sorry).unwrap();
    let notes = server.handle.listen(wanted("note")).unwrap();
    let answers = server.handle.listen(wanted("sorry")).unwrap();
    for number in 0..65_540 {
        server.handle.publish(message(&note(number))).unwrap();
        assert!(notes.next(PATIENCE).is_some());
    }
    let number = |message: Message| message.field("n").and_then(|field| field.integer());
    let answered: Vec<_> = (0..4).map(|_| answers.next(PATIENCE).and_then(number)).collect();
    assert_eq!(answered, [65_536, 65_537, 65_538, 65_539].map(Some));
}

#[test]
fn handle_knows_if_lines_are_wanted() {
    let server = TestServer::open();
    let bus = &server.handle;
    assert!(!bus.wants_log_lines());
    let wanted = |tract: &str| Filter { tracts: vec![tract.to_owned()], ..Filter::default() };
    let _other = bus.listen(wanted("supervisor")).unwrap();
    assert!(!bus.wants_log_lines());
    let listener = bus.listen(wanted("logs")).unwrap();
    assert!(bus.wants_log_lines());
    drop(listener);
    assert!(!bus.wants_log_lines());
    let mut client = server.client();
    assert!(bus.wants_log_lines());
    client.say(r#"{"tract":"callosum","event":"subscribe","tracts":["supervisor"]}"#);
    while bus.wants_log_lines() {}
    client.say(r#"{"tract":"callosum","event":"subscribe","events":["exec","line"]}"#);
    while !bus.wants_log_lines() {}
    drop(client);
    while bus.wants_log_lines() {}
}

#[test]
fn full_inbox_refuses_without_blocking() {
    let server = TestServer::open();
    // The server is bound and does not run, so the inbox stays full.
    let server = Server::bind(&server.folder().join("idle.sock"), settings()).unwrap();
    let handle = server.handle();
    let one = message(&note(1));
    let taken = (0..70_000).take_while(|_| handle.publish(one.clone()).is_ok()).count();
    assert_eq!(taken, 65_536);
    assert_eq!(handle.publish(one), Err(PublishError::Full));
}

#[test]
fn bulk_flood_leaves_room_for_lifecycle() {
    let server = TestServer::open();
    let server = Server::bind(&server.folder().join("idle.sock"), settings()).unwrap();
    let handle = server.handle();
    let line = message(r#"{"tract":"logs","event":"line","line":"x","ts":1}"#);
    let taken = (0..70_000).take_while(|_| handle.publish(line.clone()).is_ok()).count();
    assert_eq!(taken, 65_536 / 2);
    let exit = message(r#"{"tract":"logs","event":"exit","ts":1}"#);
    assert_eq!(handle.publish(exit), Ok(()));
    assert_eq!(handle.publish(line), Err(PublishError::Full));
}

#[test]
fn closed_listener_returns_at_once() {
    let server = TestServer::open();
    let listener = Arc::new(server.handle.listen(Filter::default()).unwrap());
    let waiting = Arc::clone(&listener);
    let thread = std::thread::spawn(move || waiting.next(PATIENCE * 60));
    listener.close();
    assert_eq!(thread.join().unwrap(), None);
    assert!(!listener.is_open());
}

#[test]
fn stopped_bus_accepts_nothing() {
    let mut server = TestServer::open();
    let listener = server.handle.listen(Filter::default()).unwrap();
    let client = server.client();
    assert_eq!(server.handle.clients(), 1);
    server.handle.publish(message(&note(1))).unwrap();
    server.close();
    assert_eq!(client.hear_all(), [note(1)], "what was published before the end goes out");
    assert!(listener.next(PATIENCE).is_some());
    assert_eq!(listener.next(PATIENCE), None);
    assert_eq!(server.handle.publish(message(&note(2))), Err(PublishError::Stopped));
}

#[test]
fn gap_report_names_journal_position() {
    let server = TestServer::open();
    let (mut client, mut other) = (server.client(), server.client());
    let text = "x".repeat(10_000);
    for position in 1..=2_500 {
        let draft = Draft::new("note", "added").with("position", position).with("c", &text);
        server.handle.publish_recorded(vec![draft.build().unwrap()], position).unwrap();
        assert_eq!(other.hear_json()["position"], position);
    }
    let mut last = 0;
    loop {
        let heard = client.hear_json();
        if heard["event"] == "lagged" {
            assert_eq!(heard["position"], last, "read on behind what was heard last");
            assert_eq!(heard["by"]["recorded"], heard["dropped"]);
            last += heard["dropped"].as_u64().unwrap();
        } else {
            last += 1;
            assert_eq!(heard["position"], last);
        }
        if last == 2_500 {
            break;
        }
    }
}

#[test]
fn publish_within_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::bind(&folder.path().join("bus.sock"), settings()).unwrap();
    let handle = server.handle();
    let listener = handle.listen(Filter::default()).unwrap();
    // The server does not run yet, so the inbox stays full.
    let long = Draft::new("test", "long").with("text", "x".repeat(15 << 20)).build().unwrap();
    while handle.publish(long.clone()).is_ok() {}
    assert_eq!(handle.publish_within(long.clone(), Duration::ZERO), Err(PublishError::Full));
    let patient = handle.clone();
    let told = std::thread::spawn(move || patient.publish_within(long, PATIENCE));
    let last = Draft::new("test", "last").build().unwrap();
    let runs = std::thread::spawn(move || server.run().unwrap());
    assert_eq!(told.join().unwrap(), Ok(()));
    handle.publish_within(last, PATIENCE).unwrap();
    let heard = std::iter::from_fn(|| listener.next(PATIENCE));
    let heard = heard.take_while(|message| !message.is_event("test", "last")).count();
    assert_eq!(heard, 4 + 1, "those for which there was room, and the one that waited");
    handle.stop();
    runs.join().unwrap();
}

#[test]
fn escaped_long_message_reaches_listeners() {
    let server = TestServer::open();
    let mut client = server.client();
    let listener = server.handle.listen(Filter::default()).unwrap();
    // Each letter has three bytes, and six when it is escaped.
    let letters = "\u{7528}".repeat(3 << 20);
    client.say(&format!(r#"{{"tract":"a","event":"b","c":"{letters}","ts":1}}"#));
    let heard = listener.next(PATIENCE).unwrap();
    assert!(heard.line().len() > bus::LINE_MAX);
    assert_eq!(heard.field("c").unwrap().text().unwrap(), letters);
}

#[test]
fn deep_nesting_is_read_whole() {
    let (open, close) = ("[".repeat(500), "]".repeat(500));
    let line = format!(r#"{{"tract":"a","event":"b","c":{open}NaN,1.5,"x"{close},"d":{{"e":2}}}}"#);
    let mut value = message(&line).to_json();
    assert_eq!(value["d"]["e"], 2);
    value = value["c"].take();
    for _ in 1..500 {
        value = value[0].take();
    }
    assert_eq!(value, serde_json::json!([null, 1.5, "x"]));
}
