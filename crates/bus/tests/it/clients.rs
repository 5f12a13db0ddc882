//! What our clients promise, to our server and to a plain one.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use bus::{Client, ClientSettings, EmitError, Filter, Item, Message, Sent, send, send_within};
use serde_json::json;

use crate::hall::{Hall, NOW, PATIENCE, note, plain_server, rude_server};

fn start(path: &Path, settings: ClientSettings) -> Client {
    Client::start(path, settings).unwrap()
}

#[track_caller]
fn hear(client: &Client) -> Item {
    client.next(PATIENCE).unwrap()
}

#[track_caller]
fn hear_line(client: &Client) -> String {
    match hear(client) {
        Item::Message(message) => String::from_utf8(message.line().to_vec()).unwrap(),
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
fn a_client_hears_and_says() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let defaults = vec![("who".to_owned(), json!("me")), ("gone".to_owned(), json!(null))];
    let client = start(hall.path(), ClientSettings { defaults, ..ClientSettings::default() });
    assert_eq!(hear(&client), Item::Connected);
    client.emit("a", "b", &[("n", json!(1))]).unwrap();
    let line = format!(r#"{{"tract":"a","event":"b","who":"me","n":1,"ts":{NOW}}}"#);
    assert_eq!(hear_line(&client), line);
    assert_eq!(guest.hear(), line);
    client.emit("a", "b", &[("who", json!("you"))]).unwrap();
    assert_eq!(guest.hear(), format!(r#"{{"tract":"a","event":"b","who":"you","ts":{NOW}}}"#));
    assert_eq!(client.stop(PATIENCE), 0);
}

#[test]
fn a_client_comes_before_its_server_and_survives_it() {
    let mut hall = Hall::open();
    hall.close();
    let client = start(hall.path(), ClientSettings::default());
    client.emit("test", "early", &[]).unwrap();
    assert_eq!(hear(&client), Item::Disconnected);
    hall.reopen();
    assert_eq!(hear(&client), Item::Connected);
    assert_eq!(hear_line(&client), format!(r#"{{"tract":"test","event":"early","ts":{NOW}}}"#));
    hall.close();
    assert_eq!(hear(&client), Item::Disconnected);
    hall.reopen();
    assert_eq!(hear(&client), Item::Connected);
    let mut guest = hall.guest();
    guest.say(&note(1));
    assert_eq!(hear_line(&client), note(1));
}

#[test]
fn a_subscription_is_taken_up_again() {
    let mut hall = Hall::open();
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = start(hall.path(), ClientSettings { filter, ..ClientSettings::default() });
    for _ in 0..2 {
        assert_eq!(hear(&client), Item::Connected);
        client.emit("other", "x", &[]).unwrap();
        client.emit("test", "x", &[]).unwrap();
        assert!(hear_line(&client).contains(r#""tract":"test""#));
        hall.close();
        assert_eq!(hear(&client), Item::Disconnected);
        hall.reopen();
    }
}

#[test]
fn emit_tells_the_truth() {
    let mut hall = Hall::open();
    hall.close();
    let client = start(hall.path(), ClientSettings { no_hold: true, ..ClientSettings::default() });
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Down));
    let client = start(hall.path(), ClientSettings::default());
    let taken = (0..2_000).take_while(|_| client.emit("a", "b", &[]).is_ok()).count();
    assert_eq!(taken, 1_000);
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Full));
    let long = "x".repeat(bus::LINE_MAX);
    assert_eq!(client.emit("a", "b", &[("c", json!(long))]), Err(EmitError::TooLong));
    assert_eq!(client.stop(Duration::ZERO), 1_000, "not written, and said so");
}

#[test]
fn a_slow_taker_lags_by_itself() {
    let hall = Hall::open();
    let client = start(hall.path(), ClientSettings::default());
    assert_eq!(hear(&client), Item::Connected);
    let mut guest = hall.guest();
    for number in 0..12_000 {
        guest.say(&note(number));
        assert_eq!(guest.hear(), note(number));
    }
    // What the server holds for it is nothing: it has drained its socket all the time.
    let stats = loop {
        let stats = bus::stats(hall.path()).unwrap().to_json();
        if stats["clients"][0]["behind_bytes"] == 0 {
            break stats;
        }
    };
    assert_eq!(stats["clients"][0]["dropped"], json!({}));
    let mut heard = 0;
    let mut dropped = 0;
    while heard + dropped < 12_000 {
        match hear(&client) {
            Item::Message(_) => heard += 1,
            Item::Lagged { dropped: more } => dropped += more,
            item => panic!("{item:?}"),
        }
    }
    assert!(dropped > 0);
    assert_eq!(heard + dropped, 12_000);
}

#[test]
fn a_plain_server_is_served_too() {
    let hall = Hall::open();
    let path = hall.folder().join("plain.sock");
    plain_server(&path);
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = start(&path, ClientSettings { filter, ..ClientSettings::default() });
    assert_eq!(hear(&client), Item::Connected);
    client.emit("other", "x", &[]).unwrap();
    client.emit("test", "x", &[]).unwrap();
    assert_eq!(hear_line(&client), r#"{"tract":"test","event":"x"}"#, "it chooses by itself");
    let message = Message::parse(note(1).as_bytes()).unwrap();
    assert!(matches!(send(&path, &[message]), Sent::Taken));
    assert_eq!(hear_line(&client), note(1));
    assert!(matches!(bus::stats(&path), Err(bus::AskError::NoAnswer { .. })));
}

#[test]
fn one_shot_without_a_server_creates_nothing() {
    let hall = Hall::open();
    let path = hall.folder().join("none.sock");
    let message = Message::parse(note(1).as_bytes()).unwrap();
    assert!(matches!(send(&path, &[message]), Sent::NotSent(_)));
    assert!(!path.exists());
    assert!(matches!(bus::stats(&path), Err(bus::AskError::Nobody { .. })));
}

#[test]
fn a_one_shot_message_is_taken_when_the_server_says_so() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let messages: Vec<Message> =
        (0..3).map(|number| Message::parse(note(number).as_bytes()).unwrap()).collect();
    assert!(matches!(send(hall.path(), &messages), Sent::Taken));
    for number in 0..3 {
        assert_eq!(guest.hear(), note(number));
    }
}

#[test]
fn what_a_server_says_nothing_of_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.sock");
    // It never gets round to anybody.
    let _listener = UnixListener::bind(&path).unwrap();
    let message = Message::parse(note(1).as_bytes()).unwrap();
    let sent = send_within(&path, &[message], Duration::from_millis(1));
    assert!(matches!(sent, Sent::Written), "{sent:?}");
}

#[test]
fn what_a_server_did_not_read_was_not_sent() {
    let hall = Hall::open();
    let path = hall.folder().join("rude.sock");
    rude_server(&path);
    let message = Message::parse(note(1).as_bytes()).unwrap();
    let sent = send(&path, &[message]);
    assert!(matches!(sent, Sent::NotSent(_)), "{sent:?}");
}

#[test]
fn what_was_queued_and_never_written_is_told_as_lost() {
    let hall = Hall::open();
    let client = start(&hall.folder().join("none.sock"), ClientSettings::default());
    for _ in 0..3 {
        client.emit("a", "b", &[]).unwrap();
    }
    assert_eq!(hear(&client), Item::Disconnected);
    // It is held for a while; nobody comes.
    let mut lost = 0;
    while lost < 3 {
        match hear(&client) {
            Item::Lost(more) => lost += more,
            item => panic!("{item:?}"),
        }
    }
    assert_eq!(lost, 3);
    assert_eq!(client.flush(Duration::ZERO), 0, "nothing is held any more");
}

#[test]
fn of_a_connection_that_breaks_only_the_message_in_hand_is_lost() {
    let hall = Hall::open();
    let path = hall.folder().join("breaks.sock");
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
    assert_eq!(hear(&client), Item::Connected);
    // More than a socket takes: the writer is in the middle of it.
    client.emit("a", "b", &[("n", json!(0)), ("c", json!("x".repeat(3 << 20)))]).unwrap();
    for number in 1..10 {
        client.emit("a", "b", &[("n", json!(number))]).unwrap();
    }
    let mut heard = [hear(&client), hear(&client), hear(&client)];
    heard.sort_by_key(|item| format!("{item:?}"));
    assert_eq!(heard, [Item::Connected, Item::Disconnected, Item::Lost(1)]);
    assert_eq!(server.join().unwrap(), (1..10).collect::<Vec<u64>>(), "all that waited");
}

#[test]
fn too_many_bytes_are_too_many() {
    let hall = Hall::open();
    let client = start(&hall.folder().join("none.sock"), ClientSettings::default());
    let text = json!("x".repeat(1 << 20));
    let emit = || client.emit("a", "b", &[("c", text.clone())]);
    assert_eq!([emit(), emit(), emit()], [Ok(()); 3]);
    assert_eq!(emit(), Err(EmitError::Full), "four of them are over 4 MiB");
    assert_eq!(client.emit("a", "b", &[]), Ok(()), "there is room for a short one");
}

#[test]
fn one_that_was_stopped_says_so() {
    let hall = Hall::open();
    let client = start(hall.path(), ClientSettings::default());
    assert_eq!(hear(&client), Item::Connected);
    client.emit("a", "b", &[]).unwrap();
    assert_eq!(client.flush(PATIENCE), 0, "it is written");
    client.stopper().stop();
    assert_eq!(client.emit("a", "b", &[]), Err(EmitError::Stopped));
    while client.next(PATIENCE).is_some() {}
    assert!(client.is_stopped());
}

#[test]
fn half_a_line_of_the_old_connection_is_thrown_away() {
    let hall = Hall::open();
    let path = hall.folder().join("half.sock");
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
    assert_eq!(hear(&client), Item::Connected);
    assert_eq!(hear_line(&client), note(0));
    assert_eq!(hear(&client), Item::Disconnected);
    assert_eq!(hear(&client), Item::Connected);
    assert_eq!(hear_line(&client), note(2));
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_gap_that_the_server_tells_of_is_told_on() {
    let hall = Hall::open();
    let path = hall.folder().join("gap.sock");
    let server = server(&path, |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(br#"{"tract":"callosum","event":"lagged","dropped":7}"#).unwrap();
        stream.write_all(b"\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let client = start(&path, ClientSettings::default());
    assert_eq!(hear(&client), Item::Connected);
    assert_eq!(hear(&client), Item::Lagged { dropped: 7 });
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_plain_server_is_asked_once_and_never_again() {
    let hall = Hall::open();
    let path = hall.folder().join("asked.sock");
    let server = server(&path, |listener| {
        let (first, _) = listener.accept().unwrap();
        // Longer than it may take to answer; it gives back what it was told, as to everybody.
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
    for item in [Item::Connected, Item::Disconnected, Item::Connected] {
        assert_eq!(hear(&client), item);
    }
    client.emit("test", "x", &[]).unwrap();
    let (asked, said) = server.join().unwrap();
    assert!(asked.contains(r#""event":"subscribe""#), "{asked}");
    assert_eq!(said, "{\"tract\":\"test\",\"event\":\"x\"}\n");
}
