//! What is asked when: tables, and random lives of a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use event::{Event, Kind, Time};
use model::{Ask, Ended, Failure, Next, Purpose, Queue};
use proptest::prelude::*;
use serde_json::json;

use crate::{at, event};

const PER_MINUTE: u32 = 6;

/// A session that is told event by event.
struct Told {
    queue: Queue,
    seqs: BTreeMap<String, u64>,
    position: u64,
}

impl Told {
    fn new() -> Told {
        Told { queue: Queue::begin_at(0, Time::EPOCH), seqs: BTreeMap::new(), position: 0 }
    }

    fn tell(&mut self, session: &str, at: Time, kind: Kind, chars: usize) -> u64 {
        let seq = self.seqs.entry(session.to_owned()).or_default();
        *seq += 1;
        self.position += 1;
        let data = match kind {
            Kind::UserPrompt | Kind::AssistantMessage => json!({"content": "x".repeat(chars)}),
            Kind::ToolCall => json!({"call_id": "c", "tool": "Bash", "input": "x".repeat(chars)}),
            _ => json!({}),
        };
        let event: Event = event(session, *seq, at, kind, &data);
        self.queue.hear(self.position, &event, at);
        *seq
    }

    fn next(&self, now: Time) -> Next {
        self.queue.next(PER_MINUTE, now)
    }

    /// What is asked now.
    #[track_caller]
    fn due(&mut self, now: Time) -> Ask {
        let Next::Ask(ask) = self.next(now) else { panic!("nothing is due: {:?}", self.queue) };
        self.queue.begin(&ask, now);
        ask
    }
}

fn range(ask: &Ask) -> (Purpose, u64, u64) {
    (ask.purpose, ask.from_seq, ask.to_seq)
}

#[test]
fn a_digest_is_asked_for_when_much_is_new_or_at_the_end() {
    let mut told = Told::new();
    told.tell("s", at(0), Kind::UserPrompt, 2_000);
    told.tell("s", at(1), Kind::AssistantMessage, 999);
    assert_eq!(told.next(at(1)), Next::Nothing);
    told.tell("s", at(2), Kind::AssistantMessage, 1);
    let ask = told.due(at(2));
    assert_eq!(range(&ask), (Purpose::Digest, 1, 3));
    told.queue.end(&ask, &Ended::Done, at(3));
    // Little said and much done is much, too.
    told.tell("s", at(4), Kind::ToolCall, 9_000);
    told.tell("s", at(4), Kind::ToolCall, 2_000);
    let ask = told.due(at(5));
    assert_eq!(range(&ask), (Purpose::Digest, 4, 5));
    told.queue.end(&ask, &Ended::Done, at(5));
    told.tell("s", at(6), Kind::AssistantMessage, 2);
    told.tell("s", at(7), Kind::EpochClosed, 0);
    let ask = told.due(at(7));
    assert_eq!(range(&ask), (Purpose::Digest, 6, 7));
    told.queue.end(&ask, &Ended::Done, at(7));
    // A second end has nothing new.
    told.tell("s", at(8), Kind::EpochClosed, 0);
    assert_eq!(told.next(at(8)), Next::Nothing);
}

#[test]
fn a_turn_that_ends_asks_for_the_last_five_every_half_minute() {
    let mut told = Told::new();
    let mut begins = Vec::new();
    for turn in 0..7 {
        begins.push(told.tell("s", at(turn), Kind::UserPrompt, 10));
        told.tell("s", at(turn), Kind::TurnCompleted, 0);
    }
    // One that waits is asked about the newest instead: one question, not seven.
    assert_eq!(told.queue.waiting(), 1);
    let ask = told.due(at(7));
    assert_eq!(range(&ask), (Purpose::Recent, begins[2], begins[6] + 1));
    told.tell("s", at(8), Kind::UserPrompt, 10);
    told.tell("s", at(8), Kind::TurnCompleted, 0);
    told.queue.end(&ask, &Ended::Done, at(9));
    assert_eq!(told.next(at(9)), Next::At(at(30)));
    assert_eq!(told.due(at(30)).purpose, Purpose::Recent);
}

#[test]
fn a_turn_whose_end_nobody_told_ends_with_the_next_prompt_or_the_session() {
    let mut told = Told::new();
    told.tell("s", at(0), Kind::UserPrompt, 10);
    told.tell("s", at(1), Kind::AssistantMessage, 10);
    assert_eq!(told.next(at(1)), Next::Nothing);
    told.tell("s", at(2), Kind::UserPrompt, 10);
    let ask = told.due(at(2));
    assert_eq!(range(&ask), (Purpose::Recent, 1, 2));
    told.queue.end(&ask, &Ended::Done, at(2));
    told.tell("s", at(3), Kind::SessionExited, 0);
    let ask = told.due(at(3));
    assert_eq!(range(&ask), (Purpose::Digest, 1, 4));
    told.queue.end(&ask, &Ended::Done, at(3));
    let ask = told.due(at(40));
    assert_eq!(range(&ask), (Purpose::Recent, 1, 4));
    told.queue.end(&ask, &Ended::Done, at(40));
    // Nothing was done since.
    told.tell("s", at(50), Kind::SessionExited, 0);
    assert_eq!(told.next(at(200)), Next::Nothing);
}

#[test]
fn a_new_start_forgives_all_but_a_wish_for_time() {
    let failures = [
        (Failure::KeyRefused { status: 401 }, true),
        (Failure::Unreachable("refused".to_owned()), true),
        (Failure::Busy { status: 429, retry_after: Some(Duration::from_secs(90)) }, false),
    ];
    for (failure, is_forgiven) in failures {
        let mut told = Told::new();
        told.queue.turn_to("https://one.example/v1", at(0));
        told.tell("s", at(0), Kind::UserPrompt, 5_000);
        let ask = told.due(at(0));
        told.queue.end(&ask, &Ended::Failed(failure), at(0));
        told.queue = Queue::load(&told.queue.save()).unwrap();
        told.queue.turn_to("https://one.example/v1", at(0));
        assert_eq!(told.queue.trouble().is_none(), is_forgiven);
        // Another endpoint has done nothing wrong.
        told.queue.turn_to("https://two.example/v1", at(1));
        assert_eq!(told.queue.trouble(), None);
        // What was meant for somebody else, and was said before, is not sent there.
        assert_eq!(told.next(at(200)), Next::Nothing);
        told.tell("t", at(0), Kind::UserPrompt, 5_000);
        assert_eq!(told.next(at(200)), Next::Nothing);
        told.tell("t", at(2), Kind::UserPrompt, 5_000);
        told.due(at(2));
    }
}

#[test]
fn history_is_not_asked_about() {
    let mut told = Told::new();
    let ago = |hours: i64| at(-hours * 60 * 60);
    for hours in [1_000, 24] {
        let event =
            event("old", 1, ago(hours), Kind::UserPrompt, &json!({"content": "x".repeat(5_000)}));
        told.queue.hear(1, &event, at(0));
    }
    assert_eq!(told.next(at(0)), Next::Nothing);
    assert_eq!(told.queue.position(), 1);
}

#[test]
fn a_question_that_was_out_is_asked_once_more_and_no_more() {
    let mut told = Told::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let first = told.due(at(0));
    // Killed.
    told.queue = Queue::load(&told.queue.save()).unwrap();
    let again = told.due(at(1));
    assert_eq!(range(&first), range(&again));
    told.queue = Queue::load(&told.queue.save()).unwrap();
    assert_eq!(told.next(at(100)), Next::Nothing);
    assert_eq!(told.queue.given_up(), 1);
    // What only waited was never out.
    told.tell("s", at(2), Kind::AssistantMessage, 5_000);
    for _ in 0..5 {
        told.queue = Queue::load(&told.queue.save()).unwrap();
    }
    assert_eq!(range(&told.due(at(200))), (Purpose::Digest, 2, 2));
    assert_eq!(Queue::load(b"{\"version\":99}"), None);
    assert_eq!(Queue::load(b"\0torn"), None);
}

#[test]
fn an_endpoint_that_fails_is_left_alone_longer_each_time() {
    let mut told = Told::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let unreachable = Ended::Failed(Failure::Unreachable("refused".to_owned()));
    let mut now = 0;
    for pause in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        let ask = told.due(at(now));
        told.queue.end(&ask, &unreachable, at(now));
        assert_eq!(told.queue.trouble(), Some("it cannot be reached: refused"));
        now += pause;
        assert_eq!(told.next(at(now - 1)), Next::At(at(now)), "after {pause} s");
    }
    // Nobody was asked, so nothing is given up; and once it answers all is well.
    let ask = told.due(at(now));
    told.queue.end(&ask, &Ended::Done, at(now));
    assert_eq!((told.queue.trouble(), told.queue.answered(), told.queue.given_up()), (None, 1, 0));
}

#[test]
fn who_asks_for_time_gets_it() {
    let mut told = Told::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let end = |told: &mut Told, now, retry_after: Option<u64>| {
        let ask = told.due(at(now));
        let retry_after = retry_after.map(Duration::from_secs);
        let busy = Failure::Busy { status: 429, retry_after };
        told.queue.end(&ask, &Ended::Failed(busy), at(now));
        told.next(at(now))
    };
    assert_eq!(end(&mut told, 0, Some(90)), Next::At(at(90)));
    assert_eq!(end(&mut told, 90, Some(0)), Next::At(at(91)));
    assert_eq!(end(&mut told, 200, Some(1_000_000)), Next::At(at(200 + 3_600)));
    assert_eq!(end(&mut told, 4_000, None), Next::At(at(4_000 + 40)));
}

#[test]
fn a_question_nobody_can_answer_is_given_up() {
    let failed = || Ended::Failed(Failure::Failed("status 500".to_owned()));
    let refused = || Ended::Failed(Failure::Refused { status: 413 });
    for (ended, tries) in [(failed(), 4), (Ended::Junk, 2), (refused(), 1)] {
        let mut told = Told::new();
        told.tell("s", at(0), Kind::UserPrompt, 5_000);
        for hour in 0..tries {
            let ask = told.due(at(hour * 3_600));
            told.queue.end(&ask, &ended, at(hour * 3_600));
        }
        assert_eq!(told.next(at(100 * 3_600)), Next::Nothing, "{ended:?}");
        assert_eq!(told.queue.given_up(), 1, "{ended:?}");
    }
}

#[test]
fn what_cannot_be_read_holds_up_nobody_and_what_is_moot_counts_for_nothing() {
    let mut told = Told::new();
    told.tell("broken", at(0), Kind::UserPrompt, 5_000);
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    // Nobody is asked, so nothing is sent.
    let end = |told: &mut Told, hour: i64, session: &str, ended: Ended| {
        let Next::Ask(ask) = told.next(at(hour * 3_600)) else { panic!("nothing is due") };
        assert_eq!(ask.session.as_str(), session);
        told.queue.end(&ask, &ended, at(hour * 3_600));
    };
    end(&mut told, 0, "claude:broken", Ended::Unread);
    end(&mut told, 0, "claude:s", Ended::Moot);
    (1..4).for_each(|hour| end(&mut told, hour, "claude:broken", Ended::Unread));
    assert_eq!(told.next(at(100 * 3_600)), Next::Nothing);
    assert_eq!((told.queue.answered(), told.queue.given_up()), (0, 1));
    assert_eq!(told.queue.trouble(), None);
}

#[test]
fn what_waits_is_bounded() {
    let mut told = Told::new();
    for number in 0..2_000 {
        told.tell(&format!("s{number}"), at(number), Kind::UserPrompt, 10);
    }
    assert!(told.queue.waiting() <= 256, "{}", told.queue.waiting());
    assert!(told.queue.save().len() < 400_000, "{}", told.queue.save().len());
}

#[derive(Clone, Debug)]
enum Act {
    Tell { session: u8, kind: u8, chars: usize },
    Wait(u8),
    Send(u8),
    Kill,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3_u8, 0..5_u8, 0..4_000_usize)
            .prop_map(|(session, kind, chars)| Act::Tell { session, kind, chars }),
        2 => (0..120_u8).prop_map(Act::Wait),
        3 => (0..6_u8).prop_map(Act::Send),
        1 => Just(Act::Kill),
    ]
}

proptest! {
    #[test]
    fn nothing_is_asked_too_often_or_twice(acts in prop::collection::vec(act(), 1..200)) {
        let mut told = Told::new();
        let mut now = 0;
        let mut sent: Vec<i64> = Vec::new();
        let mut digests: BTreeMap<(String, u64, u64), (u32, u32)> = BTreeMap::new();
        let mut answered: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Tell { session, kind, chars } => {
                    let kinds = [
                        Kind::UserPrompt,
                        Kind::AssistantMessage,
                        Kind::ToolCall,
                        Kind::TurnCompleted,
                        Kind::EpochClosed,
                    ];
                    let kind = kinds[usize::from(kind)].clone();
                    told.tell(&format!("s{session}"), at(now), kind, chars);
                }
                Act::Wait(seconds) => now += i64::from(seconds),
                Act::Send(how) => {
                    let Next::Ask(ask) = told.next(at(now)) else { continue };
                    told.queue.begin(&ask, at(now));
                    sent.push(now);
                    let id = (ask.session.to_string(), ask.from_seq, ask.to_seq);
                    if ask.purpose == Purpose::Digest {
                        digests.entry(id.clone()).or_default().0 += 1;
                    }
                    let ended = match how {
                        0 => {
                            // Killed while it is out.
                            told.queue = Queue::load(&told.queue.save()).unwrap();
                            continue;
                        }
                        1 => Ended::Junk,
                        2 => Ended::Failed(Failure::Failed("x".to_owned())),
                        3 => Ended::Failed(Failure::Busy { status: 429, retry_after: None }),
                        _ => Ended::Done,
                    };
                    if ended == Ended::Done && ask.purpose == Purpose::Digest {
                        answered.entry(id.0.clone()).or_default().push((id.1, id.2));
                    }
                    if matches!(ended, Ended::Failed(Failure::Busy { .. })) {
                        digests.entry(id.clone()).or_default().1 += 1;
                    }
                    told.queue.end(&ask, &ended, at(now));
                }
                Act::Kill => told.queue = Queue::load(&told.queue.save()).unwrap(),
            }
        }
        for (place, first) in sent.iter().enumerate() {
            let within = sent[place..].iter().filter(|later| **later < first + 60).count();
            prop_assert!(within <= PER_MINUTE as usize, "{within} in a minute");
        }
        for (id, (times, not_heard)) in &digests {
            prop_assert!(times - not_heard.min(times) <= 5, "{id:?} was asked {times} times");
        }
        for ranges in answered.values() {
            let mut ranges = ranges.clone();
            ranges.sort_unstable();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].1 < pair[1].0, "{pair:?} is told twice");
            }
        }
    }
}
