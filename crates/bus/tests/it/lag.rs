//! Who falls behind is told, exactly, and loses what matters least first.

use bus::Settings;
use proptest::prelude::*;
use serde_json::Value;

use crate::hall::{Guest, Hall, note, settings};

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
fn say(sender: &mut Guest, line: &str) {
    sender.say(line);
    assert_eq!(sender.hear(), line);
}

/// What somebody hears who has not read until now.
struct Account {
    /// Class and number of each message, in order.
    heard: Vec<(usize, usize)>,
    /// Messages that were told as missing, by class.
    dropped: [u64; 4],
    lifecycle_lost: u64,
    gaps: usize,
}

fn account(guest: Guest, sender: &mut Guest) -> Account {
    account_until(LAST, guest, sender)
}

/// The same up to a line that is said now, and was never said before.
fn account_until(last: &str, mut guest: Guest, sender: &mut Guest) -> Account {
    let last = last.to_owned();
    let reader = std::thread::spawn({
        let last = last.clone();
        move || {
            let mut lines = Vec::new();
            loop {
                let line = guest.hear();
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
        // What the guest has said itself is none of them.
        let Some(class) = NAMES.iter().position(is) else { continue };
        account.heard.push((class, usize::try_from(message["n"].as_u64().unwrap()).unwrap()));
    }
    account
}

#[test]
fn one_who_lags_a_little_misses_nothing() {
    let hall = Hall::open();
    let (guest, mut sender) = (hall.guest(), hall.guest());
    for number in 0..100 {
        say(&mut sender, &line(number % 4, number, 5_000));
    }
    let account = account(guest, &mut sender);
    assert_eq!(account.heard.len(), 100);
    assert_eq!(account.gaps, 0);
}

#[test]
fn bulk_is_skipped_first_and_counted() {
    let hall = Hall::open();
    let (guest, mut sender) = (hall.guest(), hall.guest());
    for number in 0..300 {
        say(&mut sender, &line(if number % 3 == 0 { 2 } else { 0 }, number, 20_000));
    }
    let account = account(guest, &mut sender);
    let ordinary = account.heard.iter().filter(|(class, _)| *class == 2).count();
    assert_eq!(ordinary, 100, "only bulk was skipped");
    assert!(account.dropped[0] > 0);
    assert_eq!(account.heard.len() as u64 + account.dropped[0], 300);
    assert_eq!(account.gaps, 1);
}

#[test]
fn a_gap_is_told_between_lines() {
    let hall = Hall::open();
    let (guest, mut sender) = (hall.guest(), hall.guest());
    // Bulk to be skipped, then lines that are longer than what a socket takes at a time.
    for number in 0..250 {
        let (class, len) = if number < 100 { (0, 20_000) } else { (2, 70_001) };
        say(&mut sender, &line(class, number, len));
    }
    let account = account(guest, &mut sender);
    assert!(account.dropped[0] > 0);
    assert_eq!(account.heard.len() as u64 + account.dropped[0], 250);
    assert_eq!(account.gaps, 1);
}

#[test]
fn lifecycle_outlives_a_flood() {
    let hall = Hall::open();
    let (guest, mut sender) = (hall.guest(), hall.guest());
    for number in 0..3_000 {
        say(&mut sender, &line(if number % 100 == 0 { 3 } else { 0 }, number, 10_000));
    }
    let account = account(guest, &mut sender);
    let kept: Vec<usize> =
        account.heard.iter().filter(|(class, _)| *class == 3).map(|(_, number)| *number).collect();
    assert_eq!(kept, (0..3_000).step_by(100).collect::<Vec<_>>());
    assert_eq!(account.lifecycle_lost, 0);
}

#[test]
fn a_long_message_on_its_way_takes_no_place_of_what_is_kept() {
    let hall = Hall::open();
    let (mut guest, mut sender) = (hall.guest(), hall.guest());
    // One who chooses has what it is sent copied for it.
    guest.say(r#"{"tract":"callosum","event":"subscribe","echo":false}"#);
    assert_eq!(guest.hear_json()["event"], "subscribed");
    say(&mut sender, &line(2, 0, 2 << 20));
    for number in 1..201 {
        say(&mut sender, &line(if number % 10 == 0 { 3 } else { 2 }, number, 100_000));
    }
    let account = account(guest, &mut sender);
    let kept = account.heard.iter().filter(|(class, _)| *class == 3).count();
    assert_eq!((kept, account.lifecycle_lost), (20, 0));
    assert!(account.dropped[2] > 0, "the tape has gone past it");
}

#[test]
fn what_is_kept_for_all_has_a_limit() {
    let hall = Hall::open_with(Settings { kept_max: 1_700_000, ..settings() });
    let guests = [hall.guest(), hall.guest(), hall.guest()];
    let mut sender = hall.guest();
    for number in 0..250 {
        say(&mut sender, &line(if number < 9 { 3 } else { 2 }, number, 100_000));
    }
    let mut lost = 0;
    for (number, guest) in guests.into_iter().enumerate() {
        let last = format!(r#"{{"tract":"test","event":"last","n":{number},"ts":0}}"#);
        let account = account_until(&last, guest, &mut sender);
        let kept = account.heard.iter().filter(|(class, _)| *class == 3).count() as u64;
        assert_eq!(kept + account.lifecycle_lost, 9);
        lost += usize::from(account.lifecycle_lost > 0);
    }
    assert_eq!(lost, 1, "there is room for two");
}

#[test]
fn what_matters_most_is_as_the_table_says() {
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
            assert_eq!(bus::Class::of(tract, event), class, "{name}");
        }
    }
}

#[test]
fn of_each_sender_and_tract_the_newest_status_is_kept() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let mut senders = [hall.guest(), hall.guest()];
    let status = |tract: &str, of: usize, number: usize| {
        format!(r#"{{"tract":"{tract}","event":"status","of":{of},"n":{number},"ts":1}}"#)
    };
    let mut say = |sender: usize, line: &str| {
        senders[sender].say(line);
        senders.iter_mut().for_each(|it| assert_eq!(it.hear(), line));
    };
    // Enough that nothing of what follows is in the guest's socket, then much more than the tape.
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
        let line = guest.hear();
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
fn the_tape_is_bounded_however_many_are_stuck_and_empty_when_they_are_gone() {
    let hall = Hall::open();
    let stuck: Vec<Guest> = (0..20).map(|_| hall.guest()).collect();
    let mut sender = hall.guest();
    let text = line(2, 0, 1_000_000);
    let mut tape_bytes = 0;
    for _ in 0..40 {
        say(&mut sender, &text);
        let stats = bus::stats(hall.path()).unwrap().to_json();
        tape_bytes = stats["tape_bytes"].as_u64().unwrap();
        assert!(tape_bytes <= (16 << 20) + 2 * 1_000_100, "{tape_bytes}");
    }
    assert!(tape_bytes > 15 << 20, "what fits is kept for them: {tape_bytes}");
    drop(stuck);
    // They are gone once the server has seen it.
    while bus::stats(hall.path()).unwrap().to_json()["tape_bytes"] != 0 {}
}

#[test]
fn those_who_stand_still_or_crawl_set_nobodys_pace() {
    const COUNT: usize = 4_000;
    let hall = Hall::open();
    let stuck: Vec<Guest> = (0..20).map(|_| hall.guest()).collect();
    let (mut crawling, mut fast, mut sender) = (hall.guest(), hall.guest(), hall.guest());
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
    let stats = bus::stats(hall.path()).unwrap().to_json();
    let clients = stats["clients"].as_array().unwrap();
    let behind = clients.iter().filter(|it| it["behind_bytes"].as_u64() > Some(0)).count();
    assert_eq!(behind, stuck.len() + 1, "{stats}");
    let has_lost = |it: &&Value| it["dropped"] != serde_json::json!({});
    assert_eq!(clients.iter().filter(has_lost).count(), 0, "they lag, and lose nothing yet");
}

#[test]
fn one_whose_kept_messages_overflow_is_stalled_and_still_heard() {
    let hall = Hall::open();
    let (mut guest, mut sender) = (hall.guest(), hall.guest());
    for number in 0..2_400 {
        say(&mut sender, &line(3, number, 10_000));
    }
    sender.say(r#"{"tract":"callosum","event":"stats"}"#);
    let stats = sender.hear_json();
    assert_eq!(stats["clients"][0]["state"], "stalled", "{stats}");
    guest.say(&note(1));
    assert_eq!(sender.hear(), note(1));
    let account = account(guest, &mut sender);
    assert!(account.lifecycle_lost > 0);
    assert_eq!(account.heard.len() as u64 + account.lifecycle_lost, 2_400);
}

/// Everything that was said since somebody came is heard, in order, or counted.
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
    /// Somebody comes, and reads nothing until it is asked to.
    Come,
    /// Somebody who is there says something of a class and a length.
    Say(prop::sample::Index, usize, usize),
    /// Somebody leaves in mid-line, with everything unread.
    HangUp(prop::sample::Index),
    /// Somebody reads everything, and leaves.
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
    fn every_message_is_heard_or_counted(
        classes in prop::collection::vec((0..4_usize, 1_000..12_000_usize), 3_500),
    ) {
        let hall = Hall::open();
        let (guest, mut sender) = (hall.guest(), hall.guest());
        let mut said = Vec::new();
        for (number, (class, len)) in classes.iter().enumerate() {
            said.push((*class, number));
            say(&mut sender, &line(*class, number, moderate(*class, *len)));
        }
        check(&account(guest, &mut sender), &said)?;
    }

    /// The same for whoever comes, speaks without ever reading, hangs up or catches up meanwhile.
    #[test]
    fn whoever_comes_and_goes_hears_or_is_told_of_everything(
        acts in prop::collection::vec(act(), 3_500),
    ) {
        let hall = Hall::open();
        let mut witness = hall.guest();
        let mut said = Vec::new();
        // Each with what had been said when it came.
        let mut guests: Vec<(Guest, usize)> = vec![(hall.guest(), 0)];
        let mut caught_up = 0;
        for act in acts {
            match act {
                Act::Come => guests.push((hall.guest(), said.len())),
                Act::Say(who, class, len) => {
                    let line = line(class, said.len(), moderate(class, len));
                    said.push((class, said.len()));
                    // The witness speaks for nobody.
                    let who = who.index(guests.len() + 1);
                    let speaker = guests.get_mut(who);
                    speaker.map_or(&mut witness, |(guest, _)| guest).say(&line);
                    prop_assert_eq!(witness.hear(), line, "whoever reads hears it at once");
                }
                Act::HangUp(who) if !guests.is_empty() => {
                    let (mut guest, _) = guests.swap_remove(who.index(guests.len()));
                    guest.say_bytes(br#"{"tract":"half"#);
                }
                Act::CatchUp(who) if !guests.is_empty() => {
                    let (guest, from) = guests.swap_remove(who.index(guests.len()));
                    caught_up += 1;
                    let last = note(caught_up);
                    check(&account_until(&last, guest, &mut witness), &said[from..])?;
                }
                Act::HangUp(_) | Act::CatchUp(_) => {}
            }
        }
        for (guest, from) in guests {
            caught_up += 1;
            check(&account_until(&note(caught_up), guest, &mut witness), &said[from..])?;
        }
    }
}
