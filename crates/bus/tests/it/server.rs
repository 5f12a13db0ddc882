//! Who hears what, and who waits for whom.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus::{Message, Sent, Settings, send};

use crate::hall::{Guest, Hall, note, settings};

#[test]
fn everybody_hears_a_message_once_the_sender_too() {
    let hall = Hall::open();
    let mut guests: Vec<Guest> = (0..4).map(|_| hall.guest()).collect();
    guests[0].say(&note(1));
    guests[0].say(&note(2));
    for guest in &mut guests {
        assert_eq!(guest.hear(), note(1));
        assert_eq!(guest.hear(), note(2));
    }
}

#[test]
fn all_listeners_see_one_order() {
    const EACH: usize = 100;
    let hall = Hall::open();
    let mut listeners: Vec<Guest> = (0..3).map(|_| hall.guest()).collect();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let mut guest = Guest::connect(hall.path());
            std::thread::spawn(move || {
                (0..EACH).for_each(|number| guest.say(&note(sender * 1_000 + number)));
                guest.leave();
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut heard = listeners
        .iter_mut()
        .map(|guest| (0..4 * EACH).map(|_| guest.hear()).collect::<Vec<String>>());
    let first = heard.next().unwrap();
    for other in heard {
        assert_eq!(other, first);
    }
    for sender in 0..4 {
        let expected: Vec<String> = (0..EACH).map(|number| note(sender * 1_000 + number)).collect();
        let own: Vec<&String> = first.iter().filter(|line| expected.contains(line)).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_line_in_pieces_is_put_together() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let line = format!("{}\n", note(7));
    for piece in line.as_bytes().chunks(17) {
        guest.say_bytes(piece);
    }
    assert_eq!(guest.hear(), note(7));
}

#[test]
fn many_lines_in_one_write_come_in_order() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let lines: String = (0..100).map(|number| note(number) + "\n").collect();
    guest.say_bytes(lines.as_bytes());
    for number in 0..100 {
        assert_eq!(guest.hear(), note(number));
    }
}

#[test]
fn clients_that_vanish_in_mid_line_are_nobodys_business() {
    let hall = Hall::open();
    let mut listener = hall.guest();
    for number in 0..200 {
        let mut guest = Guest::connect(hall.path());
        guest.say(&note(number));
        guest.say_bytes(b"{\"tract\":\"half");
        // Every other one leaves with what it was sent unread.
        if number % 2 == 0 {
            guest.hear();
        }
    }
    let mut heard: Vec<String> = (0..200).map(|_| listener.hear()).collect();
    heard.sort();
    let mut expected: Vec<String> = (0..200).map(note).collect();
    expected.sort();
    assert_eq!(heard, expected);
    listener.say(&note(1_000));
    assert_eq!(listener.hear(), note(1_000));
}

#[test]
fn a_sender_that_is_gone_before_it_is_read_is_heard() {
    let hall = Hall::open();
    let mut listener = hall.guest();
    for number in 0..1_000 {
        let mut stream = UnixStream::connect(hall.path()).unwrap();
        stream.write_all((note(number) + "\n").as_bytes()).unwrap();
    }
    let mut heard: Vec<String> = (0..1_000).map(|_| listener.hear()).collect();
    let mut expected: Vec<String> = (0..1_000).map(note).collect();
    heard.sort();
    expected.sort();
    assert_eq!(heard, expected);
}

#[test]
fn no_one_shot_message_of_ten_thousand_is_lost() {
    const THREADS: usize = 16;
    const EACH: usize = 625;
    let hall = Hall::open();
    let path = Arc::new(hall.path().to_owned());
    let listener = std::thread::spawn({
        let mut guest = hall.guest();
        move || {
            let mut heard: Vec<String> = (0..THREADS * EACH).map(|_| guest.hear()).collect();
            heard.sort();
            heard
        }
    });
    // Somebody who never reads what is sent.
    let mut stuck = hall.guest();
    stuck.say(r#"{"tract":"callosum","event":"subscribe","tracts":["test"]}"#);
    let senders: Vec<_> = (0..THREADS)
        .map(|thread| {
            let path = Arc::clone(&path);
            std::thread::spawn(move || {
                for number in 0..EACH {
                    let line = note(thread * EACH + number);
                    let message = Message::parse(line.as_bytes()).unwrap();
                    let sent = send(&path, &[message]);
                    assert!(matches!(sent, Sent::Taken | Sent::Written), "{sent:?}");
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut expected: Vec<String> = (0..THREADS * EACH).map(note).collect();
    expected.sort();
    assert!(listener.join().unwrap() == expected, "each came once");
}

#[test]
fn one_who_never_reads_holds_up_nobody_and_is_heard() {
    let hall = Hall::open();
    let mut stuck = Guest::connect(hall.path());
    let mut sender = hall.guest();
    let mut listener = hall.guest();
    // More than any socket takes.
    let text = "x".repeat(10_000);
    for number in 0..1_000 {
        let line = format!(r#"{{"tract":"test","event":"note","n":{number},"c":"{text}","ts":1}}"#);
        sender.say(&line);
        assert_eq!(listener.hear(), line);
        assert_eq!(sender.hear(), line);
    }
    stuck.say(&note(1));
    assert_eq!(listener.hear(), note(1));
}

#[test]
fn long_messages_arrive_whole() {
    let hall = Hall::open();
    let mut listener = hall.guest();
    for mib in [1, 4, 15] {
        let text = "y".repeat(mib << 20);
        let line = format!(r#"{{"tract":"test","event":"long","c":"{text}","ts":1}}"#);
        let sender = std::thread::spawn({
            let (path, message) =
                (hall.path().to_owned(), Message::parse(line.as_bytes()).unwrap());
            move || send(&path, &[message])
        });
        assert!(listener.hear() == line, "{mib} MiB are whole");
        assert!(matches!(sender.join().unwrap(), Sent::Taken));
    }
}

#[test]
fn the_end_of_input_is_answered_by_the_end_of_output() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    guest.say(&note(1));
    guest.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(guest.hear_all(), [note(1)]);
}

#[test]
fn a_newcomer_hears_nothing_from_before() {
    let hall = Hall::open();
    let mut early = hall.guest();
    early.say(&note(1));
    assert_eq!(early.hear(), note(1));
    let mut late = hall.guest();
    early.say(&note(2));
    assert_eq!(late.hear(), note(2));
}

#[test]
fn when_all_places_are_taken_a_newcomer_is_closed() {
    let hall = Hall::open();
    let mut guests: Vec<Guest> = (0..1_024).map(|_| hall.guest()).collect();
    let newcomer = Guest::connect(hall.path());
    assert_eq!(newcomer.hear_all(), [""; 0]);
    // However much of a message was written by then, it was not sent.
    let message = Message::parse(note(0).as_bytes()).unwrap();
    for _ in 0..200 {
        let sent = send(hall.path(), std::slice::from_ref(&message));
        assert!(matches!(sent, Sent::NotSent(_)), "{sent:?}");
    }
    guests[0].say(&note(1));
    for guest in &mut guests {
        assert_eq!(guest.hear(), note(1));
    }
    guests[0].say(r#"{"tract":"callosum","event":"stats"}"#);
    assert_eq!(guests[0].hear_json()["refused_clients"], 201);
    guests.pop().unwrap().leave();
    hall.guest();
}

#[test]
fn one_who_takes_nothing_does_not_hold_up_the_end() {
    let mut hall = Hall::open();
    let (stuck, mut guest) = (hall.guest(), hall.guest());
    for number in 0..20 {
        let text = "x".repeat(100_000);
        let line = format!(r#"{{"tract":"test","event":"long","n":{number},"c":"{text}","ts":1}}"#);
        guest.say(&line);
        assert_eq!(guest.hear(), line);
    }
    guest.say(&note(1));
    hall.close();
    assert_eq!(guest.hear_all(), [note(1)]);
    drop(stuck);
}

#[test]
fn a_newcomer_gets_the_place_of_the_one_that_has_stalled_longest() {
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW_MS.load(Ordering::SeqCst);
    let hall = Hall::open_with(Settings { clock, ..settings() });
    let (mut late, early, mut sender) = (hall.guest(), hall.guest(), hall.guest());
    // More than the tape and what is kept aside, twice.
    let text = "x".repeat(100_000);
    let line = format!(r#"{{"tract":"supervisor","event":"stopped","c":"{text}","ts":1}}"#);
    for number in 0..480 {
        sender.say(&line);
        assert_eq!(sender.hear(), line);
        if number < 240 {
            assert_eq!(late.hear(), line);
        } else {
            NOW_MS.store(1, Ordering::SeqCst);
        }
    }
    let _others: Vec<Guest> = (3..1_024).map(|_| hall.guest()).collect();
    let mut newcomer = hall.guest();
    sender.say(&note(1));
    assert_eq!((newcomer.hear(), sender.hear()), (note(1), note(1)));
    // It has been cut off: what is in its socket is all there is.
    assert!(early.hear_all().len() < 240);
    late.say(&note(2));
    assert_eq!(sender.hear(), note(2));
}

#[test]
fn stopping_sends_what_is_pending_and_removes_the_socket() {
    let mut hall = Hall::open();
    let mut sender = hall.guest();
    let listener = hall.guest();
    for number in 0..500 {
        sender.say(&note(number));
    }
    hall.close();
    assert!(!hall.path().exists());
    let expected: Vec<String> = (0..500).map(note).collect();
    assert_eq!(listener.hear_all(), expected);
}
