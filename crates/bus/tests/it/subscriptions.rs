//! Subscriptions and stats: answered to the client that asks, invisible to others.

use crate::harness::{NOW, TestServer, note};

const STATS: &str = r#"{"tract":"callosum","event":"stats"}"#;

#[track_caller]
fn refused(line: &str, reason: &str) {
    let server = TestServer::open();
    let (mut other, mut client) = (server.client(), server.client());
    client.say(line);
    let answer = client.hear_json();
    assert_eq!((&answer["event"], &answer["reason"]), (&"refused".into(), &reason.into()));
    client.say(&note(1));
    assert_eq!(other.hear(), note(1));
}

#[test]
fn subscriber_gets_what_it_asked_for() {
    let server = TestServer::open();
    let (mut sender, mut client) = (server.client(), server.client());
    client.say(r#"{"tract":"callosum","event":"subscribe","tracts":["a","b"],"events":["x"]}"#);
    let answer = client.hear_json();
    assert_eq!(answer["event"], "subscribed");
    assert_eq!(answer["server"], "hansard");
    for line in [
        r#"{"tract":"a","event":"y","ts":1}"#,
        r#"{"tract":"c","event":"x","ts":1}"#,
        r#"{"tract":"b","event":"x","ts":1}"#,
        r#"{"tract":7,"event":"x","ts":1}"#,
        r#"{"tract":"\u0061","event":"x","ts":1}"#,
    ] {
        sender.say(line);
        assert_eq!(sender.hear(), line);
    }
    assert_eq!(client.hear(), r#"{"tract":"b","event":"x","ts":1}"#);
    assert_eq!(client.hear(), r#"{"tract":"\u0061","event":"x","ts":1}"#);
    client.say(r#"{"tract":"callosum","event":"unsubscribe"}"#);
    assert_eq!(client.hear_json()["event"], "subscribed");
    sender.say(&note(1));
    assert_eq!(client.hear(), note(1));
}

#[test]
fn subscription_takes_effect_in_order() {
    let server = TestServer::open();
    let mut client = server.client();
    client.say(&note(1));
    client.say(r#"{"tract":"callosum","event":"subscribe","tracts":["*"],"events":["other"]}"#);
    client.say(&note(2));
    client.say(r#"{"tract":"callosum","event":"subscribe","events":["*"]}"#);
    client.say(&note(3));
    assert_eq!(client.hear(), note(1));
    assert_eq!(client.hear_json()["event"], "subscribed");
    assert_eq!(client.hear_json()["event"], "subscribed");
    assert_eq!(client.hear(), note(3));
}

#[test]
fn fields_are_compared_by_value() {
    let server = TestServer::open();
    let mut client = server.client();
    client.say(r#"{"tract":"callosum","event":"subscribe","fields":{"ref":"r\u0031","day":7}}"#);
    client.hear();
    client.say(r#"{"tract":"a","event":"b","ref":"r1","day":"7","ts":1}"#);
    client.say(r#"{"tract":"a","event":"b","ref":"r2","day":7,"ts":1}"#);
    client.say(r#"{"tract":"a","event":"b","day":7,"ref":"r2","ref":"r1","ts":1}"#);
    assert_eq!(client.hear(), r#"{"tract":"a","event":"b","day":7,"ref":"r2","ref":"r1","ts":1}"#);
}

#[test]
fn echo_can_be_turned_off() {
    let server = TestServer::open();
    let (mut other, mut client) = (server.client(), server.client());
    client.say(r#"{"tract":"callosum","event":"subscribe","echo":false}"#);
    client.hear();
    client.say(&note(1));
    assert_eq!(other.hear(), note(1));
    other.say(&note(2));
    assert_eq!(client.hear(), note(2));
}

#[test]
fn control_lines_are_not_relayed() {
    let server = TestServer::open();
    let (mut plain, mut client) = (server.client(), server.client());
    client.say(r#"{"tract":"callosum","event":"subscribe","tracts":["test"]}"#);
    client.say(STATS);
    client.say(r#"{"tract":"callosum","event":"lagged","dropped":3}"#);
    client.say(&note(1));
    assert_eq!(plain.hear(), note(1));
}

#[test]
fn unknown_callosum_event_is_relayed() {
    let server = TestServer::open();
    let mut client = server.client();
    client.say(r#"{"tract":"callosum","event":"hello","ts":1}"#);
    assert_eq!(client.hear(), r#"{"tract":"callosum","event":"hello","ts":1}"#);
}

#[test]
fn refusal_names_its_reason() {
    for event in ["lagged", "subscribed", "caught_up", "refused"] {
        refused(&format!(r#"{{"tract":"callosum","event":"{event}"}}"#), "reserved");
    }
    let subscribe = |rest: &str| format!(r#"{{"tract":"callosum","event":"subscribe",{rest}}}"#);
    refused(&subscribe(r#""from":12"#), "no_journal");
    refused(&subscribe(r#""tracts":["journal"]"#), "no_journal");
    refused(&subscribe(r#""tracts":"a""#), "bad_subscription");
    refused(&subscribe(r#""fields":{"color":"red"}"#), "unknown_field");
    refused(&subscribe(r#""fields":{"ref":["r1"]}"#), "bad_subscription");
    let many = vec!["\"a\""; 65].join(",");
    refused(&subscribe(&format!(r#""tracts":[{many}]"#)), "too_many_filters");
    let long = "x".repeat(64 << 10);
    refused(&subscribe(&format!(r#""name":"{long}""#)), "too_long");
}

#[test]
fn stats_list_clients_and_counts() {
    let server = TestServer::open();
    let (mut other, mut client) = (server.client(), server.client());
    other.say(r#"{"tract":"callosum","event":"subscribe","tracts":["none"],"name":"o\u00e9"}"#);
    other.hear();
    client.say(&note(1));
    client.hear();
    client.say("oops");
    client.say(STATS);
    let stats = client.hear_json();
    assert_eq!(stats["ts"], NOW);
    assert_eq!(stats["messages"]["test"], 1);
    assert_eq!(stats["bytes"]["test"], note(1).len() + 1);
    assert_eq!(stats["ignored"]["malformed"], 1);
    assert_eq!((&stats["refused_peers"], &stats["tape_bytes"]), (&0.into(), &0.into()));
    let clients = stats["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 2);
    assert_eq!(clients[0]["name"], "oé");
    assert_eq!((&clients[1]["received"], &clients[1]["state"]), (&1.into(), &"current".into()));
    assert_eq!(clients[1]["pid"], std::process::id());
}

#[test]
fn stats_count_dropped_messages() {
    let server = TestServer::open();
    let (_stuck, mut client) = (server.client(), server.client());
    for number in 0..200 {
        let text = "x".repeat(100_000);
        let line =
            format!(r#"{{"tract":"logs","event":"line","n":{number},"line":"{text}","ts":1}}"#);
        client.say(&line);
        assert_eq!(client.hear(), line);
    }
    client.say(STATS);
    let stats = client.hear_json();
    let [stuck, client] = &stats["clients"].as_array().unwrap()[..] else { panic!("{stats}") };
    assert!(stuck["dropped"]["bulk"].as_u64().unwrap() > 0, "{stats}");
    assert!(stuck["behind_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!(client["dropped"], serde_json::json!({}), "{stats}");
    assert!(client["sent"].as_u64() > stuck["sent"].as_u64(), "{stats}");
    assert_eq!((&stuck["since"], &client["since"]), (&NOW.into(), &NOW.into()));
    assert_ne!(stuck["id"], client["id"]);
    assert!(stats["uptime_seconds"].is_u64());
}

#[test]
fn deaf_client_is_still_read() {
    let server = TestServer::open();
    let (mut deaf, mut client) = (server.client(), server.client());
    deaf.stream.shutdown(std::net::Shutdown::Read).unwrap();
    loop {
        client.say(&note(1));
        assert_eq!(client.hear(), note(1));
        client.say(STATS);
        let stats = client.hear_json();
        if stats["clients"][0]["state"] == "deaf" {
            break;
        }
    }
    deaf.say(&note(2));
    assert_eq!(client.hear(), note(2));
}

#[test]
fn every_header_field_can_be_filtered() {
    let server = TestServer::open();
    let (mut sender, mut client) = (server.client(), server.client());
    let names = "ref service command name session_id agent_id import_id day segment stream facet";
    for name in names.split(' ') {
        client.say(&format!(
            r#"{{"tract":"callosum","event":"subscribe","fields":{{"{name}":"x"}}}}"#
        ));
        assert_eq!(client.hear_json()["event"], "subscribed", "{name}");
        let line =
            |value: &str| format!(r#"{{"tract":"a","event":"b","{name}":"{value}","ts":1}}"#);
        for line in [line("y"), note(1), line("x")] {
            sender.say(&line);
            assert_eq!(sender.hear(), line);
        }
        assert_eq!(client.hear(), line("x"));
    }
}

#[test]
fn unread_replies_are_bounded() {
    const ASKED: u64 = 8_000;
    let server = TestServer::open();
    let (mut deaf, mut other) = (server.client(), server.client());
    for _ in 1..ASKED {
        deaf.say(r#"{"tract":"callosum","event":"subscribe","tracts":["none"]}"#);
    }
    deaf.say(r#"{"tract":"callosum","event":"subscribe","tracts":["test"]}"#);
    other.say(STATS);
    assert_eq!(other.hear_json()["event"], "stats");
    other.say(r#"{"tract":"none","event":"x"}"#);
    other.say(&note(1));
    // The answers that were kept, and a count of those that were not.
    let (mut answers, mut lost) = (0, 0);
    loop {
        let heard = deaf.hear_json();
        match heard["event"].as_str().unwrap() {
            "subscribed" => answers += 1,
            "lagged" => lost += heard["lifecycle_lost"].as_u64().unwrap(),
            "note" => break,
            _ => panic!("{heard}"),
        }
    }
    assert_eq!(answers + lost, ASKED);
    assert!(lost > 0, "there is a limit");
}
