//! What our clients promise, to our server and to a plain one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::{Client, ClientSettings, EmitError, Filter, Item, Message, Sent, send};
use serde_json::json;

use crate::hall::{Hall, NOW, PATIENCE, note};

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

/// A server that knows nothing but the plain protocol.
fn plain_server(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    let clients: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            clients.lock().unwrap().push(stream.try_clone().unwrap());
            let clients = Arc::clone(&clients);
            std::thread::spawn(move || {
                for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                    let mut clients = clients.lock().unwrap();
                    clients.retain_mut(|client| {
                        client.write_all(format!("{line}\n").as_bytes()).is_ok()
                    });
                }
                let _ = stream.shutdown(std::net::Shutdown::Both);
            });
        }
    });
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
