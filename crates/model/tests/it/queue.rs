//! When the queue asks: tables of cases, and random runs.

use std::collections::BTreeMap;
use std::time::Duration;

use event::{Event, Kind, Time};
use model::{AskError, AskOutcome, NextAsk, PendingAsk, Purpose, QuestionQueue};
use proptest::prelude::*;
use serde_json::json;

use crate::{at, event};

const PER_MINUTE: u32 = 6;

/// A queue that gets events one by one.
struct QueueHarness {
    queue: QuestionQueue,
    seqs: BTreeMap<String, u64>,
    position: u64,
}

impl QueueHarness {
    fn new() -> QueueHarness {
        QueueHarness {
            queue: QuestionQueue::begin_at(0, Time::EPOCH),
            seqs: BTreeMap::new(),
            position: 0,
        }
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
        self.queue.apply(self.position, &event, at);
        *seq
    }

    fn next(&self, now: Time) -> NextAsk {
        self.queue.next_ask(PER_MINUTE, now)
    }

    /// What is asked now.
    #[track_caller]
    fn due(&mut self, now: Time) -> PendingAsk {
        let NextAsk::Ask(ask) = self.next(now) else { panic!("nothing is due: {:?}", self.queue) };
        self.queue.begin_ask(&ask, now);
        ask
    }
}

fn range(ask: &PendingAsk) -> (Purpose, u64, u64) {
    (ask.purpose, ask.from_seq, ask.to_seq)
}

#[test]
fn digest_is_due_when_enough_is_new() {
    let mut told = QueueHarness::new();
    told.tell("s", at(0), Kind::UserPrompt, 2_000);
    told.tell("s", at(1), Kind::AssistantMessage, 999);
    assert_eq!(told.next(at(1)), NextAsk::Nothing);
    told.tell("s", at(2), Kind::AssistantMessage, 1);
    let ask = told.due(at(2));
    assert_eq!(range(&ask), (Purpose::Digest, 1, 3));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(3));
    // Little said and much done is much, too.
    told.tell("s", at(4), Kind::ToolCall, 9_000);
    told.tell("s", at(4), Kind::ToolCall, 2_000);
    let ask = told.due(at(5));
    assert_eq!(range(&ask), (Purpose::Digest, 4, 5));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(5));
    told.tell("s", at(6), Kind::AssistantMessage, 2);
    told.tell("s", at(7), Kind::EpochClosed, 0);
    let ask = told.due(at(7));
    assert_eq!(range(&ask), (Purpose::Digest, 6, 7));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(7));
    // A second end has nothing new.
    told.tell("s", at(8), Kind::EpochClosed, 0);
    assert_eq!(told.next(at(8)), NextAsk::Nothing);
}

#[test]
fn recent_work_is_due_every_half_minute() {
    let mut told = QueueHarness::new();
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
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(9));
    assert_eq!(told.next(at(9)), NextAsk::At(at(30)));
    assert_eq!(told.due(at(30)).purpose, Purpose::Recent);
}

#[test]
fn next_prompt_ends_an_open_turn() {
    let mut told = QueueHarness::new();
    told.tell("s", at(0), Kind::UserPrompt, 10);
    told.tell("s", at(1), Kind::AssistantMessage, 10);
    assert_eq!(told.next(at(1)), NextAsk::Nothing);
    told.tell("s", at(2), Kind::UserPrompt, 10);
    let ask = told.due(at(2));
    assert_eq!(range(&ask), (Purpose::Recent, 1, 2));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(2));
    told.tell("s", at(3), Kind::SessionExited, 0);
    let ask = told.due(at(3));
    assert_eq!(range(&ask), (Purpose::Digest, 1, 4));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(3));
    let ask = told.due(at(40));
    assert_eq!(range(&ask), (Purpose::Recent, 1, 4));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(40));
    // Nothing was done since.
    told.tell("s", at(50), Kind::SessionExited, 0);
    assert_eq!(told.next(at(200)), NextAsk::Nothing);
}

#[test]
fn restart_keeps_only_requested_pauses() {
    let failures = [
        (AskError::KeyRefused { status: 401 }, true),
        (AskError::Unreachable("refused".to_owned()), true),
        (AskError::Busy { status: 429, retry_after: Some(Duration::from_secs(90)) }, false),
    ];
    for (failure, is_forgiven) in failures {
        let mut told = QueueHarness::new();
        told.queue.switch_endpoint("https://one.example/v1", at(0));
        told.tell("s", at(0), Kind::UserPrompt, 5_000);
        let ask = told.due(at(0));
        told.queue.finish_ask(&ask, &AskOutcome::Failed(failure), at(0));
        told.queue = QuestionQueue::load(&told.queue.save()).unwrap();
        told.queue.switch_endpoint("https://one.example/v1", at(0));
        assert_eq!(told.queue.trouble().is_none(), is_forgiven);
        // A new endpoint starts without failures.
        told.queue.switch_endpoint("https://two.example/v1", at(1));
        assert_eq!(told.queue.trouble(), None);
        // Questions for the old endpoint are not sent to the new one.
        assert_eq!(told.next(at(200)), NextAsk::Nothing);
        told.tell("t", at(0), Kind::UserPrompt, 5_000);
        assert_eq!(told.next(at(200)), NextAsk::Nothing);
        told.tell("t", at(2), Kind::UserPrompt, 5_000);
        told.due(at(2));
    }
}

#[test]
fn history_is_not_asked_about() {
    let mut told = QueueHarness::new();
    let ago = |hours: i64| at(-hours * 60 * 60);
    for hours in [1_000, 24] {
        let event =
            event("old", 1, ago(hours), Kind::UserPrompt, &json!({"content": "x".repeat(5_000)}));
        told.queue.apply(1, &event, at(0));
    }
    assert_eq!(told.next(at(0)), NextAsk::Nothing);
    assert_eq!(told.queue.position(), 1);
}

#[test]
fn interrupted_question_is_asked_once_more() {
    let mut told = QueueHarness::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let first = told.due(at(0));
    // Killed.
    told.queue = QuestionQueue::load(&told.queue.save()).unwrap();
    let again = told.due(at(1));
    assert_eq!(range(&first), range(&again));
    told.queue = QuestionQueue::load(&told.queue.save()).unwrap();
    assert_eq!(told.next(at(100)), NextAsk::Nothing);
    assert_eq!(told.queue.given_up(), 1);
    // A question that only waited was never in flight.
    told.tell("s", at(2), Kind::AssistantMessage, 5_000);
    for _ in 0..5 {
        told.queue = QuestionQueue::load(&told.queue.save()).unwrap();
    }
    assert_eq!(range(&told.due(at(200))), (Purpose::Digest, 2, 2));
    assert_eq!(QuestionQueue::load(b"{\"version\":99}"), None);
    assert_eq!(QuestionQueue::load(b"\0torn"), None);
}

#[test]
fn failing_endpoint_is_paused_longer() {
    let mut told = QueueHarness::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let unreachable = AskOutcome::Failed(AskError::Unreachable("refused".to_owned()));
    let mut now = 0;
    for pause in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        let ask = told.due(at(now));
        told.queue.finish_ask(&ask, &unreachable, at(now));
        assert_eq!(told.queue.trouble(), Some("the endpoint cannot be reached: refused"));
        now += pause;
        assert_eq!(told.next(at(now - 1)), NextAsk::At(at(now)), "after {pause} s");
    }
    // No request was sent, so no question is given up; the first answer clears the trouble.
    let ask = told.due(at(now));
    told.queue.finish_ask(&ask, &AskOutcome::Done, at(now));
    assert_eq!((told.queue.trouble(), told.queue.answered(), told.queue.given_up()), (None, 1, 0));
}

#[test]
fn retry_after_is_respected() {
    let mut told = QueueHarness::new();
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    let end = |told: &mut QueueHarness, now, retry_after: Option<u64>| {
        let ask = told.due(at(now));
        let retry_after = retry_after.map(Duration::from_secs);
        let busy = AskError::Busy { status: 429, retry_after };
        told.queue.finish_ask(&ask, &AskOutcome::Failed(busy), at(now));
        told.next(at(now))
    };
    assert_eq!(end(&mut told, 0, Some(90)), NextAsk::At(at(90)));
    assert_eq!(end(&mut told, 90, Some(0)), NextAsk::At(at(91)));
    assert_eq!(end(&mut told, 200, Some(1_000_000)), NextAsk::At(at(200 + 3_600)));
    assert_eq!(end(&mut told, 4_000, None), NextAsk::At(at(4_000 + 40)));
}

#[test]
fn unanswerable_question_is_given_up() {
    let failed = || AskOutcome::Failed(AskError::Failed("status 500".to_owned()));
    let refused = || AskOutcome::Failed(AskError::Refused { status: 413 });
    for (ended, tries) in [(failed(), 4), (AskOutcome::Junk, 2), (refused(), 1)] {
        let mut told = QueueHarness::new();
        told.tell("s", at(0), Kind::UserPrompt, 5_000);
        for hour in 0..tries {
            let ask = told.due(at(hour * 3_600));
            told.queue.finish_ask(&ask, &ended, at(hour * 3_600));
        }
        assert_eq!(told.next(at(100 * 3_600)), NextAsk::Nothing, "{ended:?}");
        assert_eq!(told.queue.given_up(), 1, "{ended:?}");
    }
}

#[test]
fn unread_question_blocks_no_other() {
    let mut told = QueueHarness::new();
    told.tell("broken", at(0), Kind::UserPrompt, 5_000);
    told.tell("s", at(0), Kind::UserPrompt, 5_000);
    // No request is sent.
    let end = |told: &mut QueueHarness, hour: i64, session: &str, ended: AskOutcome| {
        let NextAsk::Ask(ask) = told.next(at(hour * 3_600)) else { panic!("nothing is due") };
        assert_eq!(ask.session.as_str(), session);
        told.queue.finish_ask(&ask, &ended, at(hour * 3_600));
    };
    end(&mut told, 0, "claude:broken", AskOutcome::Unread);
    end(&mut told, 0, "claude:s", AskOutcome::Moot);
    (1..4).for_each(|hour| end(&mut told, hour, "claude:broken", AskOutcome::Unread));
    assert_eq!(told.next(at(100 * 3_600)), NextAsk::Nothing);
    assert_eq!((told.queue.answered(), told.queue.given_up()), (0, 1));
    assert_eq!(told.queue.trouble(), None);
}

#[test]
fn pending_questions_are_bounded() {
    let mut told = QueueHarness::new();
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
    fn no_range_is_asked_twice(acts in prop::collection::vec(act(), 1..200)) {
        let mut told = QueueHarness::new();
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
                    let NextAsk::Ask(ask) = told.next(at(now)) else { continue };
                    told.queue.begin_ask(&ask, at(now));
                    sent.push(now);
                    let id = (ask.session.to_string(), ask.from_seq, ask.to_seq);
                    if ask.purpose == Purpose::Digest {
                        digests.entry(id.clone()).or_default().0 += 1;
                    }
                    let ended = match how {
                        0 => {
                            // Killed while the question is in flight.
                            told.queue = QuestionQueue::load(&told.queue.save()).unwrap();
                            continue;
                        }
                        1 => AskOutcome::Junk,
                        2 => AskOutcome::Failed(AskError::Failed("x".to_owned())),
                        3 => AskOutcome::Failed(AskError::Busy { status: 429, retry_after: None }),
                        _ => AskOutcome::Done,
                    };
                    if ended == AskOutcome::Done && ask.purpose == Purpose::Digest {
                        answered.entry(id.0.clone()).or_default().push((id.1, id.2));
                    }
                    if matches!(ended, AskOutcome::Failed(AskError::Busy { .. })) {
                        digests.entry(id.clone()).or_default().1 += 1;
                    }
                    told.queue.finish_ask(&ask, &ended, at(now));
                }
                Act::Kill => told.queue = QuestionQueue::load(&told.queue.save()).unwrap(),
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
