//! Slow clients: the bus drops the least important messages first and reports exactly what.

use bus::ServerSettings;
use proptest::prelude::*;
use serde_json::Value;

use crate::harness::{TestClient, TestServer, note, settings};

/// Names of one message of each class, in the order classes are given up.
const NAMES: [(&str, &str); 4] =
    [("logs", "line"), ("part", "status"), ("test", "ordinary"), ("supervisor", "stopped")];
const CLASSES: [&str; 4] = ["bulk", "status", "ordinary", "lifecycle"];

const LAST: &str = r#"{"tract":"test","event":"last","ts":0}"#;

fn line(class: usize, number: usize, len: usize) -> String {
    let (tract, event) = NAMES[class];
    let text = "x".repeat(len);
    format!(r#"{{"tract":"{tract}","event":"{event}","n":{number},"c":"{text}","ts":1}}"#)
}

/// Says it and waits until it has gone through.
fn say(sender: &mut TestClient, line: &str) {
    sender.say(line);
    assert_eq!(sender.hear(), line);
}

/// What a client receives that has not read until now.
struct Account {
    /// Class and number of each message, in order.
    heard: Vec<(usize, usize)>,
    /// Messages reported as dropped, by class.
    dropped: [u64; 4],
    lifecycle_lost: u64,
    gaps: usize,
}

fn account(client: TestClient, sender: &mut TestClient) -> Account {
    account_until(LAST, client, sender)
}

/// The same up to a line that is said now, and was never said before.
fn account_until(last: &str, mut client: TestClient, sender: &mut TestClient) -> Account {
    let last = last.to_owned();
    let reader = std::thread::spawn({
        let last = last.clone();
        move || {
            let mut lines = Vec::new();
            loop {
                let line = client.hear();
                if line == last {
                    return lines;
                }
                lines.push(serde_json::from_str::<Value>(&line).unwrap());
            }
        }
    });
    say(sender, &last);
    let mut account = Account { heard: Vec::new(), dropped: [0; 4], lifecycle_lost: 0, gaps: 0 };
    for message in reader.join().unwrap() {
        if message["event"] == "lagged" {
            account.gaps += 1;
            let mut total = 0;
            for (class, name) in CLASSES.iter().enumerate() {
                let count = message["by"][name].as_u64().unwrap_or(0);
                account.dropped[class] += count;
                total += count;
            }
            let lost = message["lifecycle_lost"].as_u64().unwrap_or(0);
            account.lifecycle_lost += lost;
            assert_eq!(message["dropped"], total + lost, "{message}");
            assert!(message["since"].as_u64() <= message["until"].as_u64(), "{message}");
            continue;
        }
        let is = |names: &(&str, &str)| message["tract"] == names.0 && message["event"] == names.1;
        // What the client has said itself is none of them.
        let Some(class) = NAMES.iter().position(is) else { continue };
        account.heard.push((class, usize::try_from(message["n"].as_u64().unwrap()).unwrap()));
    }
    account
}

#[test]
fn slightly_slow_client_misses_nothing() {
    let server = TestServer::open();
    let (client, mut sender) = (server.client(), server.client());
    for number in 0..100 {
        say(&mut sender, &line(number % 4, number, 5_000));
    }
    let account = account(client, &mut sender);
    assert_eq!(account.heard.len(), 100);
    assert_eq!(account.gaps, 0);
}

#[test]
fn bulk_is_skipped_first_and_counted() {
    let server = TestServer::open();
    let (client, mut sender) = (server.client(), server.client());
    for number in 0..300 {
        say(&mut sender, &line(if number % 3 == 0 { 2 } else { 0 }, number, 20_000));
    }
    let account = account(client, &mut sender);
    let ordinary = account.heard.iter().filter(|(class, _)| *class == 2).count();
    assert_eq!(ordinary, 100, "only bulk was skipped");
    assert!(account.dropped[0] > 0);
    assert_eq!(account.heard.len() as u64 + account.dropped[0], 300);
    assert_eq!(account.gaps, 1);
}

#[test]
fn gap_report_comes_between_lines() {
    let server = TestServer::open();
    let (client, mut sender) = (server.client(), server.client());
    // Bulk to be skipped, then lines that are longer than what a socket takes at a time.
    for number in 0..250 {
        let (class, len) = if number < 100 { (0, 20_000) } else { (2, 70_001) };
        say(&mut sender, &line(class, number, len));
    }
    let account = account(client, &mut sender);
    assert!(account.dropped[0] > 0);
    assert_eq!(account.heard.len() as u64 + account.dropped[0], 250);
    assert_eq!(account.gaps, 1);
}

#[test]
fn lifecycle_survives_a_flood() {
    let server = TestServer::open();
    let (client, mut sender) = (server.client(), server.client());
    for number in 0..3_000 {
        say(&mut sender, &line(if number % 100 == 0 { 3 } else { 0 }, number, 10_000));
    }
    let account = account(client, &mut sender);
    let kept: Vec<usize> =
        account.heard.iter().filter(|(class, _)| *class == 3).map(|(_, number)| *number).collect();
    assert_eq!(kept, (0..3_000).step_by(100).collect::<Vec<_>>());
    assert_eq!(account.lifecycle_lost, 0);
}

#[test]
fn half_sent_line_does_not_count_as_retained() {
    let server = TestServer::open();
    let (mut client, mut sender) = (server.client(), server.client());
    // A client with a filter gets copies, not slices of the tape.
    client.say(r#"{"tract":"callosum","event":"subscribe","echo":false}"#);
    assert_eq!(client.hear_json()["event"], "subscribed");
    say(&mut sender, &line(2, 0, 2 << 20));
    for number in 1..201 {
        say(&mut sender, &line(if number % 10 == 0 { 3 } else { 2 }, number, 100_000));
    }
    let account = account(client, &mut sender);
    let kept = account.heard.iter().filter(|(class, _)| *class == 3).count();
    assert_eq!((kept, account.lifecycle_lost), (20, 0));
    assert!(account.dropped[2] > 0, "the tape has gone past it");
}

#[test]
fn retained_bytes_have_a_shared_limit() {
    let server = TestServer::open_with(ServerSettings { retained_max: 1_700_000, ..settings() });
    let guests = [server.client(), server.client(), server.client()];
    let mut sender = server.client();
    for number in 0..250 {
        say(&mut sender, &line(if number < 9 { 3 } else { 2 }, number, 100_000));
    }
    let mut lost = 0;
    for (number, client) in guests.into_iter().enumerate() {
        let last = format!(r#"{{"tract":"test","event":"last","n":{number},"ts":0}}"#);
        let account = account_until(&last, client, &mut sender);
        let kept = account.heard.iter().filter(|(class, _)| *class == 3).count() as u64;
        assert_eq!(kept + account.lifecycle_lost, 9);
        lost += usize::from(account.lifecycle_lost > 0);
    }
    assert_eq!(lost, 1, "there is room for two");
}

#[test]
fn classes_match_the_documented_table() {
    use bus::Class::{Bulk, Lifecycle, Ordinary, Status};
    for (class, names) in [
        (Bulk, "logs.line journal.assistant.delta journal.tool.delta"),
        (Status, "supervisor.status cortex.status observe.status anything.status logs.status"),
        (Lifecycle, "supervisor.request supervisor.stopped supervisor.queue logs.exec logs.exit"),
        (Lifecycle, "cortex.request cortex.start cortex.finish cortex.error"),
        (Lifecycle, "observe.observed importer.completed dream.started activity.recorded"),
        (Lifecycle, "notification.show notification.any navigate.request callosum.any"),
        (Ordinary, "activity.live cortex.info cortex.thinking cortex.tool_end logs.other"),
        (Ordinary, "journal.user.prompt unknown.event sync.state"),
    ] {
        for name in names.split(' ') {
            let (tract, event) = name.split_once('.').unwrap();
            assert_eq!(bus::Class::for_event(tract, event), class, "{name}");
        }
    }
}

#[test]
fn newest_status_per_sender_is_retained() {
    let server = TestServer::open();
    let mut client = server.client();
    let mut senders = [server.client(), server.client()];
    let status = |tract: &str, of: usize, number: usize| {
        format!(r#"{{"tract":"{tract}","event":"status","of":{of},"n":{number},"ts":1}}"#)
    };
    let mut say = |sender: usize, line: &str| {
        senders[sender].say(line);
        senders.iter_mut().for_each(|it| assert_eq!(it.hear(), line));
    };
    // Enough that nothing of what follows is in the client's socket, then much more than the tape.
    let ordinary = line(2, 0, 100_000);
    for _ in 0..20 {
        say(0, &ordinary);
    }
    for number in 0..5 {
        for (sender, tract) in [(0, "a"), (1, "a"), (0, "b")] {
            say(sender, &status(tract, sender, number));
        }
    }
    for _ in 0..200 {
        say(0, &ordinary);
    }
    say(0, LAST);
    let mut kept = Vec::new();
    let mut dropped = 0;
    loop {
        let line = client.hear();
        let heard: Value = serde_json::from_str(&line).unwrap();
        match heard["event"].as_str().unwrap() {
            "status" => kept.push(line),
            "lagged" => dropped += heard["by"]["status"].as_u64().unwrap_or(0),
            "last" => break,
            _ => {}
        }
    }
    assert_eq!(kept, [status("a", 0, 4), status("a", 1, 4), status("b", 0, 4)]);
    assert_eq!(dropped, 12, "the others are counted");
}

#[test]
fn tape_is_bounded_and_freed() {
    let server = TestServer::open();
    let stuck: Vec<TestClient> = (0..20).map(|_| server.client()).collect();
    let mut sender = server.client();
    let text = line(2, 0, 1_000_000);
    let mut tape_bytes = 0;
    for _ in 0..40 {
        say(&mut sender, &text);
        let stats = bus::query_stats(server.path()).unwrap().to_json();
        tape_bytes = stats["tape_bytes"].as_u64().unwrap();
        assert!(tape_bytes <= (16 << 20) + 2 * 1_000_100, "{tape_bytes}");
    }
    assert!(tape_bytes > 15 << 20, "what fits is kept for them: {tape_bytes}");
    drop(stuck);
    // They are gone once the server has seen it.
    while bus::query_stats(server.path()).unwrap().to_json()["tape_bytes"] != 0 {}
}

#[test]
fn stuck_clients_do_not_slow_others() {
    const COUNT: usize = 4_000;
    let server = TestServer::open();
    let stuck: Vec<TestClient> = (0..20).map(|_| server.client()).collect();
    let (mut crawling, mut fast, mut sender) = (server.client(), server.client(), server.client());
    let mut crawled = 0;
    for number in 0..COUNT {
        let line = line(2, number, 2_000);
        say(&mut sender, &line);
        assert_eq!(fast.hear(), line, "all of them, in order");
        // One in forty.
        if number % 40 == 0 {
            crawling.hear();
            crawled += 1;
        }
    }
    assert_eq!(crawled, COUNT / 40, "it is far behind, and nobody has waited for it");
    let stats = bus::query_stats(server.path()).unwrap().to_json();
    let clients = stats["clients"].as_array().unwrap();
    let behind = clients.iter().filter(|it| it["behind_bytes"].as_u64() > Some(0)).count();
    assert_eq!(behind, stuck.len() + 1, "{stats}");
    let has_lost = |it: &&Value| it["dropped"] != serde_json::json!({});
    assert_eq!(clients.iter().filter(has_lost).count(), 0, "they lag, and lose nothing yet");
}

#[test]
fn stalled_client_is_still_read() {
    let server = TestServer::open();
    let (mut client, mut sender) = (server.client(), server.client());
    for number in 0..2_400 {
        say(&mut sender, &line(3, number, 10_000));
    }
    sender.say(r#"{"tract":"callosum","event":"stats"}"#);
    let stats = sender.hear_json();
    assert_eq!(stats["clients"][0]["state"], "stalled", "{stats}");
    client.say(&note(1));
    assert_eq!(sender.hear(), note(1));
    let account = account(client, &mut sender);
    assert!(account.lifecycle_lost > 0);
    assert_eq!(account.heard.len() as u64 + account.lifecycle_lost, 2_400);
}

/// Every message since a client connected arrives in order or is counted.
fn check(account: &Account, said: &[(usize, usize)]) -> Result<(), TestCaseError> {
    let mut numbers: Vec<usize> = account.heard.iter().map(|(_, number)| *number).collect();
    prop_assert!(numbers.is_sorted(), "one order for all");
    numbers.dedup();
    prop_assert_eq!(numbers.len(), account.heard.len());
    for (class, name) in CLASSES.iter().enumerate() {
        let said = said.iter().filter(|(is, _)| *is == class).count() as u64;
        let heard = account.heard.iter().filter(|(is, _)| *is == class).count() as u64;
        let lost = if class == 3 { account.lifecycle_lost } else { account.dropped[class] };
        prop_assert_eq!(heard + lost, said, "{}", name);
    }
    prop_assert_eq!(account.lifecycle_lost, 0);
    Ok(())
}

/// Lifecycle in moderation: it is kept aside up to a limit.
fn moderate(class: usize, len: usize) -> usize {
    if class == 3 { len / 12 } else { len }
}

/// What happens on a bus.
#[derive(Clone, Debug)]
enum Act {
    /// A client connects and reads nothing until `CatchUp`.
    Come,
    /// A connected client sends a message of a class and a length.
    Say(prop::sample::Index, usize, usize),
    /// A client leaves in mid-line with everything unread.
    HangUp(prop::sample::Index),
    /// A client reads everything and leaves.
    CatchUp(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    let who = any::<prop::sample::Index>;
    prop_oneof![
        1 => Just(Act::Come),
        300 => (who(), 0..4_usize, 1_000..12_000_usize)
            .prop_map(|(who, class, len)| Act::Say(who, class, len)),
        1 => who().prop_map(Act::HangUp),
        1 => who().prop_map(Act::CatchUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Order, and every message either heard or counted, for whatever was said.
    #[test]
    fn every_message_arrives_or_is_counted(
        classes in prop::collection::vec((0..4_usize, 1_000..12_000_usize), 3_500),
    ) {
        let server = TestServer::open();
        let (client, mut sender) = (server.client(), server.client());
        let mut said = Vec::new();
        for (number, (class, len)) in classes.iter().enumerate() {
            said.push((*class, number));
            say(&mut sender, &line(*class, number, moderate(*class, *len)));
        }
        check(&account(client, &mut sender), &said)?;
    }

    /// The same while clients connect, send without ever reading, hang up or catch up.
    #[test]
    fn late_joiners_get_or_count_every_message(
        acts in prop::collection::vec(act(), 3_500),
    ) {
        let server = TestServer::open();
        let mut witness = server.client();
        let mut said = Vec::new();
        // Each with what had been said when it came.
        let mut guests: Vec<(TestClient, usize)> = vec![(server.client(), 0)];
        let mut caught_up = 0;
        for act in acts {
            match act {
                Act::Come => guests.push((server.client(), said.len())),
                Act::Say(who, class, len) => {
                    let line = line(class, said.len(), moderate(class, len));
                    said.push((class, said.len()));
                    // The witness sends nothing.
                    let who = who.index(guests.len() + 1);
                    let speaker = guests.get_mut(who);
                    speaker.map_or(&mut witness, |(client, _)| client).say(&line);
                    prop_assert_eq!(witness.hear(), line, "whoever reads hears it at once");
                }
                Act::HangUp(who) if !guests.is_empty() => {
                    let (mut client, _) = guests.swap_remove(who.index(guests.len()));
                    client.say_bytes(br#"{"tract":"half"#);
                }
                Act::CatchUp(who) if !guests.is_empty() => {
                    let (client, from) = guests.swap_remove(who.index(guests.len()));
                    caught_up += 1;
                    let last = note(caught_up);
                    check(&account_until(&last, client, &mut witness), &said[from..])?;
                }
                Act::HangUp(_) | Act::CatchUp(_) => {}
            }
        }
        for (client, from) in guests {
            caught_up += 1;
            check(&account_until(&note(caught_up), client, &mut witness), &said[from..])?;
        }
    }
}
