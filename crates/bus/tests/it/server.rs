//! Which client receives which message, and that no client waits for another.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bus::{Filter, Message, Notice, SendOutcome, Server, ServerSettings, send};

use crate::harness::{PATIENCE, TestClient, TestServer, note, settings};

#[test]
fn every_client_gets_a_message_once() {
    let server = TestServer::open();
    let mut guests: Vec<TestClient> = (0..4).map(|_| server.client()).collect();
    guests[0].say(&note(1));
    guests[0].say(&note(2));
    for client in &mut guests {
        assert_eq!(client.hear(), note(1));
        assert_eq!(client.hear(), note(2));
    }
}

#[test]
fn all_clients_see_one_order() {
    const EACH: usize = 100;
    let server = TestServer::open();
    let mut listeners: Vec<TestClient> = (0..3).map(|_| server.client()).collect();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let mut client = TestClient::connect(server.path());
            std::thread::spawn(move || {
                (0..EACH).for_each(|number| client.say(&note(sender * 1_000 + number)));
                client.leave();
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut heard = listeners
        .iter_mut()
        .map(|client| (0..4 * EACH).map(|_| client.hear()).collect::<Vec<String>>());
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
fn split_line_is_joined() {
    let server = TestServer::open();
    let mut client = server.client();
    let line = format!("{}\n", note(7));
    for piece in line.as_bytes().chunks(17) {
        client.say_bytes(piece);
    }
    assert_eq!(client.hear(), note(7));
}

#[test]
fn many_lines_in_one_write_keep_order() {
    let server = TestServer::open();
    let mut client = server.client();
    let lines: String = (0..100).map(|number| note(number) + "\n").collect();
    client.say_bytes(lines.as_bytes());
    for number in 0..100 {
        assert_eq!(client.hear(), note(number));
    }
}

#[test]
fn client_may_vanish_in_mid_line() {
    let server = TestServer::open();
    let mut listener = server.client();
    for number in 0..200 {
        let mut client = TestClient::connect(server.path());
        client.say(&note(number));
        client.say_bytes(b"{\"tract\":\"half");
        // Every other one leaves with what it was sent unread.
        if number % 2 == 0 {
            client.hear();
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
fn message_of_gone_sender_is_relayed() {
    let server = TestServer::open();
    let mut listener = server.client();
    for number in 0..1_000 {
        let mut stream = UnixStream::connect(server.path()).unwrap();
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
    let server = TestServer::open();
    let path = Arc::new(server.path().to_owned());
    let listener = std::thread::spawn({
        let mut client = server.client();
        move || {
            let mut heard: Vec<String> = (0..THREADS * EACH).map(|_| client.hear()).collect();
            heard.sort();
            heard
        }
    });
    // A client that never reads.
    let mut stuck = server.client();
    stuck.say(r#"{"tract":"callosum","event":"subscribe","tracts":["test"]}"#);
    let senders: Vec<_> = (0..THREADS)
        .map(|thread| {
            let path = Arc::clone(&path);
            std::thread::spawn(move || {
                for number in 0..EACH {
                    let line = note(thread * EACH + number);
                    let message = Message::parse(line.as_bytes()).unwrap();
                    let sent = send(&path, &[message]);
                    assert!(
                        matches!(sent, SendOutcome::Delivered | SendOutcome::Written),
                        "{sent:?}"
                    );
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
fn client_that_never_reads_delays_no_other() {
    let server = TestServer::open();
    let mut stuck = TestClient::connect(server.path());
    let mut sender = server.client();
    let mut listener = server.client();
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
    let server = TestServer::open();
    let mut listener = server.client();
    for mib in [1, 4, 15] {
        let text = "y".repeat(mib << 20);
        let line = format!(r#"{{"tract":"test","event":"long","c":"{text}","ts":1}}"#);
        let sender = std::thread::spawn({
            let (path, message) =
                (server.path().to_owned(), Message::parse(line.as_bytes()).unwrap());
            move || send(&path, &[message])
        });
        assert!(listener.hear() == line, "{mib} MiB are whole");
        assert!(matches!(sender.join().unwrap(), SendOutcome::Delivered));
    }
}

#[test]
fn end_of_input_closes_output() {
    let server = TestServer::open();
    let mut client = server.client();
    client.say(&note(1));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.hear_all(), [note(1)]);
}

#[test]
fn new_client_gets_no_old_messages() {
    let server = TestServer::open();
    let mut early = server.client();
    early.say(&note(1));
    assert_eq!(early.hear(), note(1));
    let mut late = server.client();
    early.say(&note(2));
    assert_eq!(late.hear(), note(2));
}

/// The kernel makes the table longer step by step, and a process with threads waits at each step.
#[test]
#[cfg(target_os = "linux")]
fn table_of_descriptors_is_long_before_a_burst() {
    let _server = TestServer::open();
    let read = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap()
    };
    let allowed = read("/proc/self/limits", "Max open files");
    let held = read("/proc/self/status", "FDSize:");
    assert!(held >= allowed.min(10_240), "{held} of {allowed}");
}

#[test]
fn burst_beyond_the_limit_arrives_whole() {
    const THREADS: usize = 16;
    const EACH: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.sock");
    let (tell, told) = mpsc::sync_channel(8);
    let notice = Box::new(move |notice| tell.try_send(notice).unwrap());
    let server = Server::bind(&path, ServerSettings { notice, ..settings() }).unwrap();
    let handle = server.handle();
    let listener = handle.listen(Filter::default()).unwrap();
    // The server does not run yet, so that all of them wait, with their messages, when it does.
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let path = &path;
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut stream = UnixStream::connect(path).unwrap();
                    let line = note(thread * EACH + number) + "\n";
                    stream.write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
    let thread = std::thread::spawn(move || server.run().unwrap());
    let mut heard: Vec<String> = (0..THREADS * EACH)
        .map(|_| listener.next(PATIENCE).unwrap())
        .map(|message| String::from_utf8_lossy(message.line()).trim_end().to_owned())
        .collect();
    heard.sort();
    let mut expected: Vec<String> = (0..THREADS * EACH).map(note).collect();
    expected.sort();
    assert!(heard == expected, "each came once");
    handle.stop();
    thread.join().unwrap();
    assert_eq!(told.try_iter().count(), 0, "senders that leave are no crowd");
}

#[test]
fn connection_beyond_the_limit_waits() {
    let (tell, told) = mpsc::sync_channel(8);
    let notice = Box::new(move |notice| tell.try_send(notice).unwrap());
    let server = TestServer::open_with(ServerSettings { notice, ..settings() });
    let mut guests: Vec<TestClient> = (0..1_024).map(|_| server.client()).collect();
    let newcomers: Vec<TestClient> = (0..200)
        .map(|number| {
            let mut newcomer = TestClient::connect(server.path());
            newcomer.say(&note(number));
            newcomer
        })
        .collect();
    // A full bus serves the clients that it has.
    guests[0].say(&note(1_000));
    for client in &mut guests {
        assert_eq!(client.hear(), note(1_000));
    }
    guests[0].say(r#"{"tract":"callosum","event":"stats"}"#);
    assert_eq!(guests[0].hear_json()["is_full"], true);
    for newcomer in &newcomers {
        newcomer.stream.shutdown(Shutdown::Write).unwrap();
    }
    guests.pop().unwrap().leave();
    for number in 0..200 {
        assert_eq!(guests[0].hear(), note(number));
    }
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Notice::TooManyClients], "told once");
}

#[test]
fn stop_relays_what_was_written_before() {
    let mut server = TestServer::open();
    let listener = server.handle.listen(Filter::default()).unwrap();
    let written = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4_usize)
            .map(|sender| {
                let path = server.path().to_owned();
                // Half of them stay connected, half of them connect for each message.
                let mut staying = TestClient::connect(&path);
                scope.spawn(move || {
                    let mut written = 0_u64;
                    for number in (sender * 1_000_000).. {
                        let line = note(number) + "\n";
                        let sent = if sender % 2 == 0 {
                            staying.stream.write_all(line.as_bytes())
                        } else {
                            UnixStream::connect(&path)
                                .and_then(|mut stream| stream.write_all(line.as_bytes()))
                        };
                        match sent {
                            Ok(()) => written += 1,
                            Err(_) => break,
                        }
                    }
                    written
                })
            })
            .collect();
        for _ in 0..1_000 {
            listener.next(PATIENCE).unwrap();
        }
        server.close();
        senders.into_iter().map(|sender| sender.join().unwrap()).sum::<u64>()
    });
    let mut relayed = 1_000;
    while listener.next(Duration::ZERO).is_some() {
        relayed += 1;
    }
    assert_eq!(relayed + listener.missed(), written);
}

#[test]
fn stuck_client_does_not_delay_stop() {
    let mut server = TestServer::open();
    let (stuck, mut client) = (server.client(), server.client());
    for number in 0..20 {
        let text = "x".repeat(100_000);
        let line = format!(r#"{{"tract":"test","event":"long","n":{number},"c":"{text}","ts":1}}"#);
        client.say(&line);
        assert_eq!(client.hear(), line);
    }
    client.say(&note(1));
    server.close();
    assert_eq!(client.hear_all(), [note(1)]);
    drop(stuck);
}

#[test]
fn new_client_replaces_longest_stalled() {
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW_MS.load(Ordering::SeqCst);
    let server = TestServer::open_with(ServerSettings { clock, ..settings() });
    let (mut late, early, mut sender) = (server.client(), server.client(), server.client());
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
    let _others: Vec<TestClient> = (3..1_024).map(|_| server.client()).collect();
    let mut newcomer = server.client();
    sender.say(&note(1));
    assert_eq!((newcomer.hear(), sender.hear()), (note(1), note(1)));
    // It has been cut off: what is in its socket is all there is.
    assert!(early.hear_all().len() < 240);
    late.say(&note(2));
    assert_eq!(sender.hear(), note(2));
}

#[test]
fn stop_flushes_and_removes_socket() {
    let mut server = TestServer::open();
    let mut sender = server.client();
    let listener = server.client();
    for number in 0..500 {
        sender.say(&note(number));
    }
    server.close();
    assert!(!server.path().exists());
    let expected: Vec<String> = (0..500).map(note).collect();
    assert_eq!(listener.hear_all(), expected);
}
