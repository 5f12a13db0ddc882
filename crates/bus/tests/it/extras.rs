//! Subscriptions and counts: for those who ask, and invisible to others.

use crate::hall::{Hall, NOW, note};

const STATS: &str = r#"{"tract":"callosum","event":"stats"}"#;

#[track_caller]
fn refused(line: &str, reason: &str) {
    let hall = Hall::open();
    let (mut other, mut guest) = (hall.guest(), hall.guest());
    guest.say(line);
    let answer = guest.hear_json();
    assert_eq!((&answer["event"], &answer["reason"]), (&"refused".into(), &reason.into()));
    guest.say(&note(1));
    assert_eq!(other.hear(), note(1));
}

#[test]
fn a_subscriber_hears_what_it_asked_for() {
    let hall = Hall::open();
    let (mut sender, mut guest) = (hall.guest(), hall.guest());
    guest.say(r#"{"tract":"callosum","event":"subscribe","tracts":["a","b"],"events":["x"]}"#);
    let answer = guest.hear_json();
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
    assert_eq!(guest.hear(), r#"{"tract":"b","event":"x","ts":1}"#);
    assert_eq!(guest.hear(), r#"{"tract":"\u0061","event":"x","ts":1}"#);
    guest.say(r#"{"tract":"callosum","event":"unsubscribe"}"#);
    assert_eq!(guest.hear_json()["event"], "subscribed");
    sender.say(&note(1));
    assert_eq!(guest.hear(), note(1));
}

#[test]
fn a_subscription_takes_effect_at_its_place() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    guest.say(&note(1));
    guest.say(r#"{"tract":"callosum","event":"subscribe","tracts":["*"],"events":["other"]}"#);
    guest.say(&note(2));
    guest.say(r#"{"tract":"callosum","event":"subscribe","events":["*"]}"#);
    guest.say(&note(3));
    assert_eq!(guest.hear(), note(1));
    assert_eq!(guest.hear_json()["event"], "subscribed");
    assert_eq!(guest.hear_json()["event"], "subscribed");
    assert_eq!(guest.hear(), note(3));
}

#[test]
fn fields_are_compared_by_value() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    guest.say(r#"{"tract":"callosum","event":"subscribe","fields":{"ref":"r\u0031","day":7}}"#);
    guest.hear();
    guest.say(r#"{"tract":"a","event":"b","ref":"r1","day":"7","ts":1}"#);
    guest.say(r#"{"tract":"a","event":"b","ref":"r2","day":7,"ts":1}"#);
    guest.say(r#"{"tract":"a","event":"b","day":7,"ref":"r2","ref":"r1","ts":1}"#);
    assert_eq!(guest.hear(), r#"{"tract":"a","event":"b","day":7,"ref":"r2","ref":"r1","ts":1}"#);
}

#[test]
fn one_may_ask_not_to_hear_oneself() {
    let hall = Hall::open();
    let (mut other, mut guest) = (hall.guest(), hall.guest());
    guest.say(r#"{"tract":"callosum","event":"subscribe","echo":false}"#);
    guest.hear();
    guest.say(&note(1));
    assert_eq!(other.hear(), note(1));
    other.say(&note(2));
    assert_eq!(guest.hear(), note(2));
}

#[test]
fn others_see_neither_questions_nor_answers() {
    let hall = Hall::open();
    let (mut plain, mut guest) = (hall.guest(), hall.guest());
    guest.say(r#"{"tract":"callosum","event":"subscribe","tracts":["test"]}"#);
    guest.say(STATS);
    guest.say(r#"{"tract":"callosum","event":"lagged","dropped":3}"#);
    guest.say(&note(1));
    assert_eq!(plain.hear(), note(1));
}

#[test]
fn another_event_of_the_tract_is_a_message() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    guest.say(r#"{"tract":"callosum","event":"hello","ts":1}"#);
    assert_eq!(guest.hear(), r#"{"tract":"callosum","event":"hello","ts":1}"#);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
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
fn stats_tell_who_is_there_and_what_went_through() {
    let hall = Hall::open();
    let (mut other, mut guest) = (hall.guest(), hall.guest());
    other.say(r#"{"tract":"callosum","event":"subscribe","tracts":["none"],"name":"o\u00e9"}"#);
    other.hear();
    guest.say(&note(1));
    guest.hear();
    guest.say("oops");
    guest.say(STATS);
    let stats = guest.hear_json();
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
fn stats_tell_what_each_one_missed() {
    let hall = Hall::open();
    let (_stuck, mut guest) = (hall.guest(), hall.guest());
    for number in 0..200 {
        let text = "x".repeat(100_000);
        let line =
            format!(r#"{{"tract":"logs","event":"line","n":{number},"line":"{text}","ts":1}}"#);
        guest.say(&line);
        assert_eq!(guest.hear(), line);
    }
    guest.say(STATS);
    let stats = guest.hear_json();
    let [stuck, guest] = &stats["clients"].as_array().unwrap()[..] else { panic!("{stats}") };
    assert!(stuck["dropped"]["bulk"].as_u64().unwrap() > 0, "{stats}");
    assert!(stuck["behind_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!(guest["dropped"], serde_json::json!({}), "{stats}");
    assert!(guest["sent"].as_u64() > stuck["sent"].as_u64(), "{stats}");
    assert_eq!((&stuck["since"], &guest["since"]), (&NOW.into(), &NOW.into()));
    assert_ne!(stuck["id"], guest["id"]);
    assert!(stats["uptime_seconds"].is_u64());
}

#[test]
fn one_who_hears_no_more_is_said_to_be_deaf_and_still_heard() {
    let hall = Hall::open();
    let (mut deaf, mut guest) = (hall.guest(), hall.guest());
    deaf.stream.shutdown(std::net::Shutdown::Read).unwrap();
    loop {
        guest.say(&note(1));
        assert_eq!(guest.hear(), note(1));
        guest.say(STATS);
        let stats = guest.hear_json();
        if stats["clients"][0]["state"] == "deaf" {
            break;
        }
    }
    deaf.say(&note(2));
    assert_eq!(guest.hear(), note(2));
}

#[test]
fn every_field_of_the_list_can_be_asked_for() {
    let hall = Hall::open();
    let (mut sender, mut guest) = (hall.guest(), hall.guest());
    let names = "ref service command name session_id agent_id import_id day segment stream facet";
    for name in names.split(' ') {
        guest.say(&format!(
            r#"{{"tract":"callosum","event":"subscribe","fields":{{"{name}":"x"}}}}"#
        ));
        assert_eq!(guest.hear_json()["event"], "subscribed", "{name}");
        let line =
            |value: &str| format!(r#"{{"tract":"a","event":"b","{name}":"{value}","ts":1}}"#);
        for line in [line("y"), note(1), line("x")] {
            sender.say(&line);
            assert_eq!(sender.hear(), line);
        }
        assert_eq!(guest.hear(), line("x"));
    }
}

#[test]
fn one_who_asks_and_never_reads_costs_little_and_delays_nobody() {
    const ASKED: u64 = 8_000;
    let hall = Hall::open();
    let (mut deaf, mut other) = (hall.guest(), hall.guest());
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
