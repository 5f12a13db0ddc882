//! The newest part of a session is the same from the beginning, from the tail and event by event.

use projection::{HOT_EVENTS_SEEN, Hot, Projection};
use proptest::prelude::*;
use serde_json::json;

use crate::given::Log;

#[derive(Clone, Debug)]
enum Step {
    Prompt(usize),
    Queued,
    Answer(usize),
    Tool { times: usize, fails: bool },
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let long = prop_oneof![8 => 1..200usize, 1 => 30_000..80_000usize];
    let times = prop_oneof![8 => 1..30usize, 1 => 900..1_200usize];
    let step = prop_oneof![
        long.clone().prop_map(Step::Prompt),
        Just(Step::Queued),
        long.prop_map(Step::Answer),
        (times, any::<bool>()).prop_map(|(times, fails)| Step::Tool { times, fails }),
        Just(Step::End),
    ];
    proptest::collection::vec(step, 1..40)
}

fn log(steps: &[Step]) -> Log {
    let mut log = Log::started();
    for step in steps {
        match step {
            Step::Prompt(length) => drop(log.prompt(&"ä".repeat(*length))),
            Step::Queued => drop(log.queued("and this")),
            Step::Answer(length) => drop(log.say("m", &"b".repeat(*length))),
            Step::Tool { times, fails } => {
                for _ in 0..*times {
                    let call = log.call("Bash", json!({"command": "ls"}));
                    match fails {
                        true => log.fail(&call, "no"),
                        false => log.result(&call, "ok"),
                    };
                }
            }
            Step::End => drop(log.add("turn.completed", json!({"stop_reason": "completed"}))),
        }
    }
    log
}

fn folded<'a>(events: impl IntoIterator<Item = &'a event::Event>) -> Hot {
    let mut hot = Hot::default();
    events.into_iter().for_each(|event| hot.apply(event));
    hot
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn tail_gives_the_whole_state(steps in steps()) {
        let log = log(&steps);
        let live = folded(&log.events);
        let seen = usize::try_from(HOT_EVENTS_SEEN).unwrap();
        let tail = &log.events[log.events.len().saturating_sub(seen)..];
        prop_assert_eq!(&folded(tail), &live);
        // What was applied before is left out.
        let mut again = live.clone();
        tail.iter().for_each(|event| again.apply(event));
        prop_assert_eq!(&again, &live);
        prop_assert!(live.events().count() <= 200 && live.turns().count() <= 10);
        prop_assert!(live.spoken_texts().map(|said| said.text.len()).sum::<usize>() <= 64 * 1024);
    }
}

#[test]
fn a_turn_is_told_at_a_glance() {
    let mut log = Log::started();
    log.prompt("do\nit");
    log.queued("and that");
    let call = log.call("Bash", json!({"command": "ls"}));
    log.fail(&call, "no");
    log.add("turn.completed", json!({"stop_reason": "completed"}));
    log.prompt("go on");
    let hot = folded(&log.events);
    let turns: Vec<_> = hot
        .turns()
        .map(|turn| (turn.prompt.as_str(), turn.tool_calls, turn.failures, turn.is_over))
        .collect();
    assert_eq!(turns, [("do it", 1, 1, true), ("go on", 0, 0, false)]);
    let said: Vec<_> = hot.spoken_texts().map(|said| said.text.as_str()).collect();
    assert_eq!(said, ["do\nit", "and that", "go on"]);
}
