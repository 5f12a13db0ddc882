//! The bus from inside the process.

use std::sync::Arc;
use std::time::Duration;

use bus::{Draft, Filter, Message, PublishError, Server};

use crate::hall::{Hall, NOW, PATIENCE, note, settings};

fn message(line: &str) -> Message {
    Message::parse(line.as_bytes()).unwrap()
}

#[test]
fn what_is_published_goes_to_everybody_in_one_order() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let listener = hall.handle.listen(Filter::default()).unwrap();
    guest.say(&note(1));
    assert_eq!(listener.next(PATIENCE).unwrap().line(), note(1).as_bytes());
    hall.handle.publish(Draft::new("a", "b").with("c", "\u{e9}").build().unwrap()).unwrap();
    let line = format!(r#"{{"tract":"a","event":"b","c":"\u00e9","ts":{NOW}}}"#);
    assert_eq!(guest.hear(), note(1));
    assert_eq!(guest.hear(), line);
    assert_eq!(listener.next(PATIENCE).unwrap().line(), line.as_bytes());
}

#[test]
fn a_listener_hears_what_it_names() {
    let hall = Hall::open();
    let filter = Filter { tracts: vec!["supervisor".to_owned()], ..Filter::default() };
    let listener = hall.handle.listen(filter).unwrap();
    hall.handle.publish(message(&note(1))).unwrap();
    let wanted = r#"{"tract":"supervisor","event":"request","ts":1}"#;
    hall.handle.publish(message(wanted)).unwrap();
    assert_eq!(listener.next(PATIENCE).unwrap().line(), wanted.as_bytes());
    assert_eq!(listener.missed(), 0);
}

#[test]
fn a_listener_that_takes_nothing_is_told_how_much_it_missed() {
    let hall = Hall::open();
    let slow = hall.handle.listen(Filter::default()).unwrap();
    let other = hall.handle.listen(Filter::default()).unwrap();
    for number in 0..66_000 {
        hall.handle.publish(message(&note(number))).unwrap();
        assert!(other.next(PATIENCE).is_some());
    }
    assert_eq!(slow.missed(), 66_000 - 65_536);
    assert_eq!(slow.next(PATIENCE).unwrap().line(), note(0).as_bytes());
}

#[test]
fn what_finds_no_room_can_still_be_answered() {
    let hall = Hall::open();
    let bus = hall.handle.clone();
    let sorry = move |missed: &Message| {
        let number = missed.field("n").and_then(|field| field.integer()).unwrap();
        let answer = Draft::new("test", "sorry").with("n", number).build().unwrap();
        bus.publish(answer).unwrap();
    };
    let wanted = |event: &str| Filter { events: vec![event.to_owned()], ..Filter::default() };
    let _slow = hall.handle.listen_or(wanted("note"), sorry).unwrap();
    let notes = hall.handle.listen(wanted("note")).unwrap();
    let answers = hall.handle.listen(wanted("sorry")).unwrap();
    for number in 0..65_540 {
        hall.handle.publish(message(&note(number))).unwrap();
        assert!(notes.next(PATIENCE).is_some());
    }
    let number = |message: Message| message.field("n").and_then(|field| field.integer());
    let answered: Vec<_> = (0..4).map(|_| answers.next(PATIENCE).and_then(number)).collect();
    assert_eq!(answered, [65_536, 65_537, 65_538, 65_539].map(Some));
}

#[test]
fn who_makes_lines_knows_whether_somebody_may_hear_them() {
    let hall = Hall::open();
    let bus = &hall.handle;
    assert!(!bus.hears_lines());
    let wanted = |tract: &str| Filter { tracts: vec![tract.to_owned()], ..Filter::default() };
    let _other = bus.listen(wanted("supervisor")).unwrap();
    assert!(!bus.hears_lines());
    let listener = bus.listen(wanted("logs")).unwrap();
    assert!(bus.hears_lines());
    drop(listener);
    assert!(!bus.hears_lines());
    let mut guest = hall.guest();
    assert!(bus.hears_lines());
    guest.say(r#"{"tract":"callosum","event":"subscribe","tracts":["supervisor"]}"#);
    while bus.hears_lines() {}
    guest.say(r#"{"tract":"callosum","event":"subscribe","events":["exec","line"]}"#);
    while !bus.hears_lines() {}
    drop(guest);
    while bus.hears_lines() {}
}

#[test]
fn publishing_never_waits_and_says_when_there_is_no_room() {
    let hall = Hall::open();
    // It is bound and does not run: nobody takes anything.
    let server = Server::bind(&hall.folder().join("idle.sock"), settings()).unwrap();
    let handle = server.handle();
    let one = message(&note(1));
    let taken = (0..70_000).take_while(|_| handle.publish(one.clone()).is_ok()).count();
    assert_eq!(taken, 65_536);
    assert_eq!(handle.publish(one), Err(PublishError::Full));
}

#[test]
fn a_flood_of_output_leaves_room_for_what_somebody_waits_for() {
    let hall = Hall::open();
    let server = Server::bind(&hall.folder().join("idle.sock"), settings()).unwrap();
    let handle = server.handle();
    let line = message(r#"{"tract":"logs","event":"line","line":"x","ts":1}"#);
    let taken = (0..70_000).take_while(|_| handle.publish(line.clone()).is_ok()).count();
    assert_eq!(taken, 65_536 / 2);
    let exit = message(r#"{"tract":"logs","event":"exit","ts":1}"#);
    assert_eq!(handle.publish(exit), Ok(()));
    assert_eq!(handle.publish(line), Err(PublishError::Full));
}

#[test]
fn a_listener_that_is_closed_keeps_nobody_waiting() {
    let hall = Hall::open();
    let listener = Arc::new(hall.handle.listen(Filter::default()).unwrap());
    let waiting = Arc::clone(&listener);
    let thread = std::thread::spawn(move || waiting.next(PATIENCE * 60));
    listener.close();
    assert_eq!(thread.join().unwrap(), None);
    assert!(!listener.is_open());
}

#[test]
fn after_the_end_nothing_is_taken() {
    let mut hall = Hall::open();
    let listener = hall.handle.listen(Filter::default()).unwrap();
    let guest = hall.guest();
    assert_eq!(hall.handle.clients(), 1);
    hall.handle.publish(message(&note(1))).unwrap();
    hall.close();
    assert_eq!(guest.hear_all(), [note(1)], "what was published before the end goes out");
    assert!(listener.next(PATIENCE).is_some());
    assert_eq!(listener.next(PATIENCE), None);
    assert_eq!(hall.handle.publish(message(&note(2))), Err(PublishError::Stopped));
}

#[test]
fn one_who_missed_recorded_messages_is_told_from_where_to_read() {
    let hall = Hall::open();
    let (mut guest, mut other) = (hall.guest(), hall.guest());
    let text = "x".repeat(10_000);
    for position in 1..=2_500 {
        let draft = Draft::new("note", "added").with("position", position).with("c", &text);
        hall.handle.publish_recorded(vec![draft.build().unwrap()], position).unwrap();
        assert_eq!(other.hear_json()["position"], position);
    }
    let mut last = 0;
    loop {
        let heard = guest.hear_json();
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
fn one_who_may_wait_is_heard_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::bind(&folder.path().join("bus.sock"), settings()).unwrap();
    let handle = server.handle();
    let listener = handle.listen(Filter::default()).unwrap();
    // Nobody takes anything yet.
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
    let heard = heard.take_while(|message| !message.is("test", "last")).count();
    assert_eq!(heard, 4 + 1, "those for which there was room, and the one that waited");
    handle.stop();
    runs.join().unwrap();
}

#[test]
fn what_escapes_have_made_longer_is_heard_inside_too() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let listener = hall.handle.listen(Filter::default()).unwrap();
    // Each letter has three bytes, and six when it is escaped.
    let letters = "\u{7528}".repeat(3 << 20);
    guest.say(&format!(r#"{{"tract":"a","event":"b","c":"{letters}","ts":1}}"#));
    let heard = listener.next(PATIENCE).unwrap();
    assert!(heard.line().len() > bus::LINE_MAX);
    assert_eq!(heard.field("c").unwrap().text().unwrap(), letters);
}

#[test]
fn what_is_nested_deeply_is_read_whole() {
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
