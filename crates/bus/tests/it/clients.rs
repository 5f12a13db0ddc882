//! What our clients promise, to our server and to a plain one.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::{
    Client, ClientEvent, ClientSettings, EmitError, Filter, Message, SendOutcome, send, send_within,
};
use serde_json::{Value, json};

use crate::harness::{NOW, PATIENCE, TestServer, note, plain_server, rude_server};

fn start(path: &Path, settings: ClientSettings) -> Client {
    Client::start(path, settings).unwrap()
}

#[track_caller]
fn hear(client: &Client) -> ClientEvent {
    client.next(PATIENCE).unwrap()
}

#[track_caller]
fn hear_line(client: &Client) -> String {
    match hear(client) {
        ClientEvent::Message(message) => String::from_utf8(message.line().to_vec()).unwrap(),
        item => panic!("no message but {item:?}"),
    }
}

/// A server by hand: what it does with each connection, one after the other.
fn server<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&UnixListener) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || work(&listener))
}

#[test]
fn client_receives_and_sends() {
    let test_server = TestServer::open();
    let mut peer = test_server.client();
    let defaults = vec![("who".to_owned(), json!("me")), ("gone".to_owned(), json!(null))];
    let client =
        start(test_server.path(), ClientSettings { defaults, ..ClientSettings::default() });
    assert_eq!(hear(&client), ClientEvent::Connected);
    client.emit("a", "b", &[("n", json!(1))]).unwrap();
    let line = format!(r#"{{"tract":"a","event":"b","who":"me","n":1,"ts":{NOW}}}"#);
    assert_eq!(hear_line(&client), line);
    assert_eq!(peer.hear(), line);
    client.emit("a", "b", &[("who", json!("you"))]).unwrap();
    assert_eq!(peer.hear(), format!(r#"{{"tract":"a","event":"b","who":"you","ts":{NOW}}}"#));
    assert_eq!(client.stop(PATIENCE), 0);
}

#[test]
fn clients_follow_the_link_of_a_long_path() {
    let test_server = TestServer::open();
    let path = test_server.long_path();
    let client = start(&path, ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    let message = Message::parse(note(1).as_bytes()).unwrap();
    assert!(matches!(send(&path, &[message]), SendOutcome::Delivered));
    hear_line(&client);
    bus::query_stats(&path).unwrap();
}

#[test]
fn client_outlives_its_server() {
    let mut test_server = TestServer::open();
    test_server.close();
    let client = start(test_server.path(), ClientSettings::default());
    client.emit("test", "early", &[]).unwrap();
    assert_eq!(hear(&client), ClientEvent::Disconnected);
    test_server.reopen();
    assert_eq!(hear(&client), ClientEvent::Connected);
    assert_eq!(hear_line(&client), format!(r#"{{"tract":"test","event":"early","ts":{NOW}}}"#));
    test_server.close();
    assert_eq!(hear(&client), ClientEvent::Disconnected);
    test_server.reopen();
    assert_eq!(hear(&client), ClientEvent::Connected);
    let mut peer = test_server.client();
    peer.say(&note(1));
    assert_eq!(hear_line(&client), note(1));
}

#[test]
fn handlers_get_what_they_name() {
    let test_server = TestServer::open();
    let client = start(test_server.path(), ClientSettings::default());
    let (tell, told) = std::sync::mpsc::sync_channel(100);
    let handlers: Vec<_> = [("a", "b"), ("a", "*"), ("*", "b"), ("*", "*")]
        .into_iter()
        .map(|(tract, event)| {
            let tell = tell.clone();
            let handle = move |message: &Message| {
                tell.send((tract, event, message.to_json()["n"].as_u64())).unwrap();
            };
            client.on(tract, event, handle).unwrap()
        })
        .collect();
    client.emit("a", "b", &[("n", json!(1))]).unwrap();
    client.emit("a", "c", &[("n", json!(2))]).unwrap();
    let mut heard: Vec<_> = (0..6).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    heard.sort_by_key(|(tract, event, number)| (*number, *tract, *event));
    let one = [("*", "*"), ("*", "b"), ("a", "*"), ("a", "b")]
        .map(|(tract, event)| (tract, event, Some(1)));
    let two = [("*", "*"), ("a", "*")].map(|(tract, event)| (tract, event, Some(2)));
    assert_eq!(heard, [&one[..], &two].concat());
    drop(handlers);
    drop(tell);
    client.emit("a", "b", &[]).unwrap();
    assert!(told.recv_timeout(PATIENCE).is_err(), "undone");
}

#[test]
fn slow_or_failing_handler_delays_none() {
    let test_server = TestServer::open();
    let client = start(test_server.path(), ClientSettings::default());
    let (open, shut) = std::sync::mpsc::sync_channel::<()>(0);
    let slow = client.on("a", "*", move |_| assert!(shut.recv().is_err())).unwrap();
    let failing = client.on("a", "*", |_| panic!("on purpose")).unwrap();
    let (tell, told) = std::sync::mpsc::sync_channel(1_000);
    let _counting = client.on("a", "*", move |_| tell.send(()).unwrap()).unwrap();
    // One is being handled, 256 wait, and the rest is counted. In steps: the others keep up.
    for _ in 0..300 {
        client.emit("a", "b", &[]).unwrap();
        told.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(slow.missed(), 300 - 257);
    drop(open);
    drop(slow);
    assert_eq!(client.stop(PATIENCE), 0);
    let failed = failing.failed() + failing.missed();
    drop(failing);
    assert!(failed > 0);
}

#[test]
fn requests_get_their_own_answers() {
    let test_server = TestServer::open();
    let answering = Arc::new(start(test_server.path(), ClientSettings::default()));
    let client = start(test_server.path(), ClientSettings::default());
    for client in [&*answering, &client] {
        assert_eq!(hear(client), ClientEvent::Connected);
    }
    let emitting = Arc::clone(&answering);
    let _tasks = answering
        .on("supervisor", "request", move |asked| {
            let asked = asked.to_json();
            let other = [("ref", json!("of another")), ("exit_code", json!(7))];
            emitting.emit("supervisor", "stopped", &other).unwrap();
            let count = json!(asked["cmd"].as_array().unwrap().len());
            let own = [("ref", asked["ref"].clone()), ("exit_code", count)];
            emitting.emit("supervisor", "stopped", &own).unwrap();
        })
        .unwrap();
    let stopped = client.request_task(&["a", "b"], &[], PATIENCE).unwrap().unwrap();
    assert_eq!(stopped.to_json()["exit_code"], 2);
    let named = client.request_task(&["a"], &[("ref", json!("mine"))], PATIENCE).unwrap().unwrap();
    assert_eq!(named.to_json()["ref"], "mine");
    let emitting = Arc::clone(&answering);
    let agents = answering
        .on("cortex", "request", move |asked| {
            let asked = asked.to_json();
            let own =
                [("agent_id", asked["agent_id"].clone()), ("result", asked["prompt"].clone())];
            emitting.emit("cortex", "finish", &own).unwrap();
        })
        .unwrap();
    let finished = client.request_agent("Hello", &[], PATIENCE).unwrap().unwrap();
    assert_eq!(finished.to_json()["result"], "Hello");
    drop(agents);
    let unanswered = client.request_agent("Hello", &[], Duration::from_millis(50)).unwrap();
    assert_eq!(unanswered, None);
}

#[test]
fn brief_clients_lose_nothing() {
    let test_server = TestServer::open();
    let listening = start(test_server.path(), ClientSettings::default());
    assert_eq!(hear(&listening), ClientEvent::Connected);
    for number in 0..1_000 {
        let client = start(test_server.path(), ClientSettings::default());
        client.emit("a", "brief", &[("n", json!(number))]).unwrap();
        assert_eq!(client.stop(PATIENCE), 0);
    }
    // Each came over a connection of its own, so their order is free.
    let number = |line: String| serde_json::from_str::<Value>(&line).unwrap()["n"].as_u64();
    let heard: BTreeSet<_> = (0..1_000).map(|_| number(hear_line(&listening))).collect();
    assert_eq!(heard, (0..1_000).map(Some).collect());
}

#[test]
fn subscription_survives_reconnect() {
    let mut test_server = TestServer::open();
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = start(test_server.path(), ClientSettings { filter, ..ClientSettings::default() });
    for _ in 0..2 {
        assert_eq!(hear(&client), ClientEvent::Connected);
        client.emit("other", "x", &[]).unwrap();
        client.emit("test", "x", &[]).unwrap();
        assert!(hear_line(&client).contains(r#""tract":"test""#));
        test_server.close();
        assert_eq!(hear(&client), ClientEvent::Disconnected);
        test_server.reopen();
    }
}

#[test]
fn emit_reports_what_happened() {
    let mut test_server = TestServer::open();
    test_server.close();
    let client =
        start(test_server.path(), ClientSettings { no_hold: true, ..ClientSettings::default() });
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Down));
    let client = start(test_server.path(), ClientSettings::default());
    let taken = (0..2_000).take_while(|_| client.emit("a", "b", &[]).is_ok()).count();
    assert_eq!(taken, 1_000);
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Full));
    let long = "x".repeat(bus::LINE_MAX);
    assert_eq!(client.emit("a", "b", &[("c", json!(long))]), Err(EmitError::TooLong));
    assert_eq!(client.stop(Duration::ZERO), 1_000, "not written, and said so");
}

#[test]
fn slow_caller_lags_alone() {
    let test_server = TestServer::open();
    let client = start(test_server.path(), ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    let mut peer = test_server.client();
    for number in 0..12_000 {
        peer.say(&note(number));
        assert_eq!(peer.hear(), note(number));
    }
    // What the server holds for it is nothing: it has drained its socket all the time.
    let stats = loop {
        let stats = bus::query_stats(test_server.path()).unwrap().to_json();
        if stats["clients"][0]["behind_bytes"] == 0 {
            break stats;
        }
    };
    assert_eq!(stats["clients"][0]["dropped"], json!({}));
    let mut heard = 0;
    let mut dropped = 0;
    while heard + dropped < 12_000 {
        match hear(&client) {
            ClientEvent::Message(_) => heard += 1,
            ClientEvent::Lagged { dropped: more } => dropped += more,
            item => panic!("{item:?}"),
        }
    }
    assert!(dropped > 0);
    assert_eq!(heard + dropped, 12_000);
}

#[test]
fn plain_server_works() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("plain.sock");
    plain_server(&path);
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = start(&path, ClientSettings { filter, ..ClientSettings::default() });
    assert_eq!(hear(&client), ClientEvent::Connected);
    client.emit("other", "x", &[]).unwrap();
    client.emit("test", "x", &[]).unwrap();
    assert_eq!(hear_line(&client), r#"{"tract":"test","event":"x"}"#, "it chooses by itself");
    let message = Message::parse(note(1).as_bytes()).unwrap();
    assert!(matches!(send(&path, &[message]), SendOutcome::Delivered));
    assert_eq!(hear_line(&client), note(1));
    assert!(matches!(bus::query_stats(&path), Err(bus::StatsError::NoAnswer { .. })));
}

#[test]
fn send_without_server_creates_nothing() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("none.sock");
    let message = Message::parse(note(1).as_bytes()).unwrap();
    assert!(matches!(send(&path, &[message]), SendOutcome::NotSent(_)));
    assert!(!path.exists());
    assert!(matches!(bus::query_stats(&path), Err(bus::StatsError::NotRunning { .. })));
}

#[test]
fn send_is_delivered_on_receipt() {
    let test_server = TestServer::open();
    let mut peer = test_server.client();
    let messages: Vec<Message> =
        (0..3).map(|number| Message::parse(note(number).as_bytes()).unwrap()).collect();
    assert!(matches!(send(test_server.path(), &messages), SendOutcome::Delivered));
    for number in 0..3 {
        assert_eq!(peer.hear(), note(number));
    }
}

#[test]
fn send_without_receipt_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.sock");
    // This server never reads.
    let _listener = UnixListener::bind(&path).unwrap();
    let message = Message::parse(note(1).as_bytes()).unwrap();
    let sent = send_within(&path, &[message], Duration::from_millis(1));
    assert!(matches!(sent, SendOutcome::Written), "{sent:?}");
}

#[test]
fn unread_message_counts_as_not_sent() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("rude.sock");
    rude_server(&path);
    let message = Message::parse(note(1).as_bytes()).unwrap();
    let sent = send(&path, &[message]);
    assert!(matches!(sent, SendOutcome::NotSent(_)), "{sent:?}");
}

#[test]
fn expired_messages_are_reported_lost() {
    let test_server = TestServer::open();
    let client = start(&test_server.folder().join("none.sock"), ClientSettings::default());
    for _ in 0..3 {
        client.emit("a", "b", &[]).unwrap();
    }
    assert_eq!(hear(&client), ClientEvent::Disconnected);
    // The message is held for a while; no server comes.
    let mut lost = 0;
    while lost < 3 {
        match hear(&client) {
            ClientEvent::Lost(more) => lost += more,
            item => panic!("{item:?}"),
        }
    }
    assert_eq!(lost, 3);
    assert_eq!(client.flush(Duration::ZERO), 0, "nothing is held any more");
}

#[test]
fn broken_connection_loses_one_message() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("breaks.sock");
    let server = server(&path, move |listener| {
        // Of the first connection it takes one byte, of the second everything.
        let (mut first, _) = listener.accept().unwrap();
        first.read_exact(&mut [0]).unwrap();
        drop(first);
        let (second, _) = listener.accept().unwrap();
        let number = |line: String| {
            let message: serde_json::Value = serde_json::from_str(&line).unwrap();
            message["n"].as_u64().unwrap()
        };
        let lines = BufReader::new(second).lines().map_while(Result::ok);
        lines.map(number).take(9).collect::<Vec<u64>>()
    });
    let client = start(&path, ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    // More than a socket takes: the writer is in the middle of it.
    client.emit("a", "b", &[("n", json!(0)), ("c", json!("x".repeat(3 << 20)))]).unwrap();
    for number in 1..10 {
        client.emit("a", "b", &[("n", json!(number))]).unwrap();
    }
    let mut heard = [hear(&client), hear(&client), hear(&client)];
    heard.sort_by_key(|item| format!("{item:?}"));
    assert_eq!(heard, [ClientEvent::Connected, ClientEvent::Disconnected, ClientEvent::Lost(1)]);
    assert_eq!(server.join().unwrap(), (1..10).collect::<Vec<u64>>(), "all that waited");
}

#[test]
fn emit_is_limited_by_bytes() {
    let test_server = TestServer::open();
    let client = start(&test_server.folder().join("none.sock"), ClientSettings::default());
    let text = json!("x".repeat(1 << 20));
    let emit = || client.emit("a", "b", &[("c", text.clone())]);
    assert_eq!([emit(), emit(), emit()], [Ok(()); 3]);
    assert_eq!(emit(), Err(EmitError::Full), "four of them are over 4 MiB");
    assert_eq!(client.emit("a", "b", &[]), Ok(()), "there is room for a short one");
}

#[test]
fn stopped_client_says_so() {
    let test_server = TestServer::open();
    let client = start(test_server.path(), ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    client.emit("a", "b", &[]).unwrap();
    assert_eq!(client.flush(PATIENCE), 0, "it is written");
    client.stopper().stop();
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Stopped));
    while client.next(PATIENCE).is_some() {}
    assert!(client.is_stopped());
}

#[test]
fn half_line_of_old_connection_is_discarded() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("half.sock");
    let server = server(&path, |listener| {
        let say = |text: String| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream
        };
        let (half, rest) = (&note(1)[..20], &note(1)[20..]);
        drop(say(format!("{}\n{half}", note(0))));
        let mut stream = say(format!("{rest}\n{}\n", note(2)));
        // Until the client leaves.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let client = start(&path, ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    assert_eq!(hear_line(&client), note(0));
    assert_eq!(hear(&client), ClientEvent::Disconnected);
    assert_eq!(hear(&client), ClientEvent::Connected);
    assert_eq!(hear_line(&client), note(2));
    drop(client);
    server.join().unwrap();
}

#[test]
fn server_gap_is_passed_on() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("gap.sock");
    let server = server(&path, |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(br#"{"tract":"callosum","event":"lagged","dropped":7}"#).unwrap();
        stream.write_all(b"\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let client = start(&path, ClientSettings::default());
    assert_eq!(hear(&client), ClientEvent::Connected);
    assert_eq!(hear(&client), ClientEvent::Lagged { dropped: 7 });
    drop(client);
    server.join().unwrap();
}

#[test]
fn plain_server_is_asked_once() {
    let test_server = TestServer::open();
    let path = test_server.folder().join("asked.sock");
    let server = server(&path, |listener| {
        let (first, _) = listener.accept().unwrap();
        // Longer than a server may take to confirm; then it relays the request like any message.
        first.set_read_timeout(Some(Duration::from_millis(1_200))).unwrap();
        let mut first = BufReader::new(first);
        let mut asked = String::new();
        first.read_line(&mut asked).unwrap();
        first.get_mut().write_all(asked.as_bytes()).unwrap();
        assert!(first.read_line(&mut String::new()).is_err(), "once");
        drop(first);
        let (second, _) = listener.accept().unwrap();
        let mut said = String::new();
        BufReader::new(second).read_line(&mut said).unwrap();
        (asked, said)
    });
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = start(&path, ClientSettings { filter, ..ClientSettings::default() });
    for item in [ClientEvent::Connected, ClientEvent::Disconnected, ClientEvent::Connected] {
        assert_eq!(hear(&client), item);
    }
    client.emit("test", "x", &[]).unwrap();
    let (asked, said) = server.join().unwrap();
    assert!(asked.contains(r#""event":"subscribe""#), "{asked}");
    assert_eq!(said, "{\"tract\":\"test\",\"event\":\"x\"}\n");
}
