//! Random logs: whatever comes, in any split, the result is the same.

use event::{Event, Time};
use projection::status::{
    Life, Process, ProcessEvidence, Reason, Registry, RegistryWord, Status, StatusState, Verdict,
    stands_until, verdict,
};
use projection::{
    CHUNK_CHARS_MAX, CallStyle, Chronicle, Digest, Epochs, Facts, Projection, SessionText, Turns,
};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::given::{Log, amends, inherited};

/// One event to come: its kind, its payload, and what it is said to stand in for.
#[derive(Clone, Debug)]
struct Line {
    kind: &'static str,
    data: Value,
    /// Events back, if it amends one.
    amends: Option<usize>,
    is_inherited: bool,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("Fix the parser, please. It never ends.".to_owned()),
        Just("always use tabs; never spaces".to_owned()),
        Just("ok".to_owned()),
        "\\PC{0,30}",
        any::<String>(),
    ]
}

fn id() -> impl Strategy<Value = String> {
    (0..4).prop_map(|number| format!("x{number}"))
}

fn tool() -> impl Strategy<Value = (&'static str, Value)> {
    let name = || "[a-c]\\.rs";
    prop_oneof![
        name().prop_map(|path| ("Read", json!({"file_path": format!("/home/dev/app/src/{path}")}))),
        name().prop_map(|path| ("Edit", json!({"file_path": path}))),
        Just(("Bash", json!({"command": "cargo test"}))),
        Just(("Bash", json!({"command": "git commit -m 'parser: fixed'"}))),
        text().prop_map(|text| ("Grep", json!({"pattern": text, "path": "src"}))),
        text().prop_map(|text| ("mcp__x__y", json!({"what": text}))),
        text().prop_map(|text| ("apply_patch", json!(text))),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    let number = || 0u64..1_000;
    let content = prop_oneof![
        (text(), any::<bool>())
            .prop_map(|(text, queued)| ("user.prompt", json!({"content": text, "queued": queued}))),
        (text(), id(), 0..3u32).prop_map(|(text, id, block)| {
            ("assistant.message", json!({"content": text, "message_id": id, "block": block}))
        }),
        (tool(), id()).prop_map(|((tool, input), id)| {
            ("tool.call", json!({"call_id": id, "tool": tool, "input": input, "message_id": id}))
        }),
        (id(), "ok|error|rejected", text()).prop_map(|(id, outcome, output)| {
            ("tool.result", json!({"call_id": id, "outcome": outcome, "output": output}))
        }),
        (number(), number(), "opus|haiku").prop_map(|(input, output, model)| {
            let usage = json!({"input_tokens": input, "output_tokens": output});
            ("step.completed", json!({"model": model, "usage": usage}))
        }),
        "completed|interrupted|died"
            .prop_map(|why| ("turn.completed", json!({"stop_reason": why}))),
        Just(("turn.started", json!({}))),
        text().prop_map(|text| ("note", json!({"text": text, "about": "command"}))),
        (text(), 0..70u64, any::<bool>()).prop_map(|(text, to_seq, is_digest)| {
            let fact = json!({"topic": "goal", "text": text, "replaces": ["goal:2-2:x"]});
            let words = match is_digest {
                true => json!({"to_seq": to_seq, "title": text, "facts": [fact], "tags": [text]}),
                false => json!({"to_seq": to_seq, "recent": text}),
            };
            ("note", json!({"text": "told", "about": {"model": words}}))
        }),
        text().prop_map(|text| ("error", json!({"message": text}))),
        text().prop_map(|text| ("context.added", json!({"content": text}))),
        Just(("compaction", json!({"strategy": "captured"}))),
        Just(("epoch.closed", json!({"epoch": 0, "cause": "compaction"}))),
        Just(("settings.changed", json!({"cwd": "/home/dev/lib", "branch": "fix"}))),
        (0..60u64).prop_map(|secs| {
            let started_at =
                Time::from_nanos(Log::new().at.nanos() + i128::from(secs) * 1_000_000_000);
            let process = json!({"pid": 7, "start": {"ticks": secs}, "started_at": started_at});
            ("settings.changed", json!({"process": process}))
        }),
        Just(("session.exited", json!({}))),
        Just(("unknown", json!({"raw": 1, "error": "torn"}))),
        id().prop_map(|id| ("approval.requested", json!({"approval_id": id, "tool": "Bash"}))),
        id().prop_map(|id| ("approval.resolved", json!({"approval_id": id, "decision": "deny"}))),
        (id(), "pending|received").prop_map(|(id, status)| {
            ("external.input", json!({"request_id": id, "prompt": "Which?", "status": status}))
        }),
        id().prop_map(|id| ("child.started", json!({"child_id": id}))),
        id().prop_map(|id| ("child.completed", json!({"child_id": id}))),
        Just(("session.started", json!({"entry_point": "cli", "resumed": true}))),
        Just(("retry", json!({"attempt": 1}))),
        Just(("approval.requested", json!({"approval_id": "a"}))),
        Just(("approval.resolved", json!({"approval_id": "a", "decision": "allow"}))),
        Just(("tool.call", json!([1, 2, 3]))),
        Just(("something.new", json!({"x": 1}))),
    ];
    let amends = prop_oneof![9 => Just(None), 1 => (1..4usize).prop_map(Some)];
    let is_inherited = prop_oneof![9 => Just(false), 1 => Just(true)];
    (content, amends, is_inherited).prop_map(|((kind, data), amends, is_inherited)| Line {
        kind,
        data,
        amends,
        is_inherited,
    })
}

fn log() -> impl Strategy<Value = Vec<Event>> {
    vec(line(), 0..60).prop_map(|lines| {
        let mut log = Log::started();
        for line in lines {
            let len = log.events.len();
            let amended =
                line.amends.and_then(|back| Some(log.events.get(len.checked_sub(back)?)?.id));
            let event = log.add(line.kind, line.data);
            if let Some(amended) = amended {
                amends(event, amended);
            }
            if line.is_inherited {
                inherited(event);
            }
        }
        log.events
    })
}

/// Whatever may be seen beside a session whose events begin at eight o'clock.
fn observed() -> impl Strategy<Value = ProcessEvidence> {
    let word = prop_oneof![
        Just(None),
        Just(Some(RegistryWord::Busy)),
        Just(Some(RegistryWord::Shell)),
        Just(Some(RegistryWord::Permission)),
        Just(Some(RegistryWord::Question)),
        Just(Some(RegistryWord::Idle)),
    ];
    let life = prop_oneof![Just(Life::Alive), Just(Life::Gone), Just(Life::Unknown)];
    (word, life, 0..90i128, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(word, life, secs, has_registry, has_process, has_start)| {
            let path = "sessions/7.json".to_owned();
            let updated_at = Time::from_nanos(Log::new().at.nanos() + secs * 1_000_000_000);
            ProcessEvidence {
                registry: has_registry.then_some(Registry { path, word, updated_at }),
                process: has_process.then_some(Process {
                    pid: 7,
                    life,
                    is_certain: true,
                    started_at: has_start.then_some(updated_at),
                }),
                ..ProcessEvidence::default()
            }
        },
    )
}

/// Folds with a state that is written down and read again at random places.
fn folded<T: Default + Serialize + DeserializeOwned>(
    events: &[Event],
    saves: &[bool],
    apply: impl Fn(&mut T, &Event),
) -> T {
    folded_from(T::default(), events, saves, apply)
}

fn folded_from<T: Serialize + DeserializeOwned>(
    mut state: T,
    events: &[Event],
    saves: &[bool],
    apply: impl Fn(&mut T, &Event),
) -> T {
    let saves = saves.iter().chain(std::iter::repeat(&false));
    for (event, is_saved) in events.iter().zip(saves) {
        if *is_saved {
            state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        }
        apply(&mut state, event);
    }
    state
}

#[test]
fn session_without_a_known_time_is_not_due() {
    let (state, observed) = (StatusState::default(), ProcessEvidence::default());
    assert_eq!(stands_until(&state, &observed, Log::new().at), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn facts_are_the_same_in_any_split(events in log(), saves in vec(any::<bool>(), 60)) {
        let apply = |facts: &mut Facts, event: &Event| facts.apply(event);
        let facts = folded(&events, &saves, apply);
        assert_eq!(facts, folded(&events, &[], apply));
        assert_eq!(Facts::load(&facts.save().unwrap()), Some(facts));
    }

    #[test]
    fn turns_are_the_same_in_any_split(events in log(), saves in vec(any::<bool>(), 60)) {
        let apply = |turns: &mut Turns, event: &Event| turns.apply(event);
        let turns: Turns = folded(&events, &saves, apply);
        assert_eq!(turns, folded(&events, &[], apply));
        let turns = turns.finish();
        for pair in turns.windows(2) {
            assert!(pair[0].seq_from < pair[1].seq_from, "in order");
            assert!(pair[0].outcome.is_some(), "only the last one is open");
        }
    }

    #[test]
    fn signs_are_the_same_in_any_split(events in log(), saves in vec(any::<bool>(), 60)) {
        let state: StatusState = folded(&events, &saves, StatusState::apply);
        assert_eq!(state, folded(&events, &[], StatusState::apply));
        assert_eq!(StatusState::load(&state.save().unwrap()), Some(state));
    }

    #[test]
    fn a_verdict_stands_until_it_says(
        events in log(),
        observed in observed(),
        quiet_millis in 0..5_000_000i128,
        later_millis in 0..5_000_000i128,
    ) {
        let state: StatusState = folded(&events, &[], StatusState::apply);
        let after = |time: Time, millis| Time::from_nanos(time.nanos() + millis * 1_000_000);
        let now = after(Log::new().at, quiet_millis);
        let until = stands_until(&state, &observed, now).unwrap_or(Time::MAX);
        let later = after(now, later_millis).min(after(until, -1));
        let (later, now) = (verdict(&state, &observed, later.max(now)), verdict(&state, &observed, now));
        // Without a known time what is said is said as of now.
        if state.last_at().is_none() && observed.grown_at.is_none() {
            let said = |it: &Verdict| (it.status, it.reason, it.confidence.clone());
            assert_eq!(said(&later), said(&now));
        } else {
            assert_eq!(later, now);
        }
    }

    #[test]
    fn every_verdict_has_its_reasons(
        events in log(),
        observed in observed(),
        secs in prop_oneof![0..200i128, 0..10_000i128],
    ) {
        let state: StatusState = folded(&events, &[], StatusState::apply);
        let now = Time::from_nanos(Log::new().at.nanos() + secs * 1_000_000_000);
        let verdict = verdict(&state, &observed, now);
        assert!(verdict.status == Status::Unknown || !verdict.evidence.is_empty(), "{verdict:?}");
        assert!(verdict.evidence.iter().all(|evidence| evidence.says == verdict.status));
        if let Some(first) = verdict.evidence.first() {
            assert_eq!((first.reason, first.at), (verdict.reason, verdict.since));
        }
        // What asks a person and stands is never passed over for work that goes on.
        let is_passed_over = |status: Status| {
            verdict.overruled.iter().any(|other| {
                other.evidence.says == status && other.why.contains("takes precedence")
            })
        };
        if verdict.status == Status::Running {
            assert!(!is_passed_over(Status::WaitingApproval), "{verdict:#?}");
        }
        let is_gone = observed.process.is_some_and(|process| process.life == Life::Gone);
        assert!(!is_gone || verdict.status == Status::Exited, "{verdict:#?}");
    }

    #[test]
    fn an_approval_that_is_asked_for_now_is_never_passed_over(events in log()) {
        let mut state: StatusState = folded(&events, &[], StatusState::apply);
        let at = events.last().map_or(Log::new().at, |event| event.created_at);
        let mut log = Log { events, at };
        log.add("approval.requested", json!({"approval_id": "now", "tool": "Edit"}));
        state.apply(log.events.last().unwrap());
        let verdict = verdict(&state, &ProcessEvidence::default(), log.at);
        assert_eq!(verdict.status, Status::WaitingApproval);
        assert_eq!(verdict.pending_approvals.last().map(String::as_str), Some("now"));
    }

    #[test]
    fn next_prompt_closes_open_questions(events in log()) {
        let mut state: StatusState = folded(&events, &[], StatusState::apply);
        let mut log = Log { events, at: Log::new().at };
        log.at = log.events.last().map_or(log.at, |event| event.created_at);
        log.prompt("next");
        state.apply(log.events.last().unwrap());
        let verdict = verdict(&state, &ProcessEvidence::default(), log.at);
        assert_eq!((verdict.status, verdict.reason), (Status::Running, Reason::Turn));
        assert!(verdict.pending_approvals.is_empty());
    }

    #[test]
    fn every_call_is_told_in_one_turn(events in log()) {
        let turns = folded(&events, &[], Turns::apply).finish();
        let tools = turns.iter().flat_map(|turn| turn.tools.values());
        let told: u64 = tools.map(|tool| tool.calls).sum();
        let is_call =
            |event: &&Event| event.kind.as_str() == "tool.call" && event.data.members().is_some();
        let calls = events.iter().filter(is_call).count() as u64;
        // One that amends something is a call of its own only if that was torn.
        let amending = |event: &&Event| event.amends().is_some();
        let amending = events.iter().filter(is_call).filter(amending).count() as u64;
        assert!((calls - amending..=calls).contains(&told), "{told} of {calls}");
    }

    #[test]
    fn text_is_the_same_in_any_split(
        events in log(),
        saves in vec(any::<bool>(), 60),
        chunk_chars_max in 1..3_000usize,
        is_activity in any::<bool>(),
    ) {
        let calls = if is_activity { CallStyle::AsActivity } else { CallStyle::OneByOne };
        let new = || SessionText::new(calls, chunk_chars_max);
        let in_one = folded_from(new(), &events, &[], SessionText::apply).finish();
        let in_parts = folded_from(new(), &events, &saves, SessionText::apply).finish();
        assert_eq!(in_parts, in_one);
        // Taking full chunks early does not change what is in them.
        let mut text = new();
        let mut taken = Vec::new();
        for event in &events {
            text.apply(event);
            taken.extend(text.take_full());
        }
        taken.extend(text.finish());
        assert_eq!(taken, in_one);
        assert!(taken.iter().all(|chunk| chunk.chars().count() <= chunk_chars_max));
    }

    #[test]
    fn no_word_of_a_person_is_missing_from_the_text(events in log()) {
        let new = SessionText::new(CallStyle::AsActivity, CHUNK_CHARS_MAX);
        let text = folded_from(new, &events, &[], SessionText::apply).finish().concat();
        let prompts = text.lines().filter(|line| line.starts_with("[USER]: ")).count();
        let is_prompt = |event: &&Event| event.kind.as_str() == "user.prompt";
        let asked = events.iter().filter(is_prompt).filter(|event| event.amends().is_none()).count();
        assert!(prompts >= asked, "{prompts} of {asked}");
    }

    #[test]
    fn a_digest_is_the_same_in_any_split(events in log(), saves in vec(any::<bool>(), 60)) {
        let mut in_one = folded(&events, &[], Digest::apply);
        in_one.flush();
        let mut in_parts = folded(&events, &saves, Digest::apply);
        in_parts.flush();
        assert_eq!(in_parts, in_one);
        // Facts that are taken early are the same facts.
        let mut digest = Digest::default();
        let mut taken = Vec::new();
        for event in &events {
            digest.apply(event);
            taken.extend(digest.take_new());
        }
        digest.flush();
        taken.extend(digest.take_new());
        assert_eq!(taken, in_one.take_new());
        // Nothing is told twice, and every fact has its place.
        digest.flush();
        assert_eq!(digest.take_new(), []);
        for fact in &taken {
            assert!(fact.from_seq >= 1 && fact.from_seq <= fact.to_seq);
            assert!(fact.text.chars().count() <= 200 && !fact.text.contains('\n'));
        }
    }

    #[test]
    fn epochs_do_not_overlap(events in log(), saves in vec(any::<bool>(), 60)) {
        let apply = |epochs: &mut Epochs, event: &Event| {
            epochs.apply(event);
        };
        let epochs: Epochs = folded(&events, &saves, apply);
        assert_eq!(epochs, folded(&events, &[], apply));
        for (number, epoch) in epochs.list().iter().enumerate() {
            assert_eq!(epoch.number, number as u64);
            assert!(epoch.from_seq <= epoch.to_seq);
        }
        for pair in epochs.list().windows(2) {
            assert!(pair[0].to_seq < pair[1].from_seq);
            assert!(pair[0].closed.is_some());
        }
    }

    #[test]
    fn a_chronicle_is_the_same_in_any_split(events in log(), saves in vec(any::<bool>(), 60)) {
        let mut in_one = Chronicle::default();
        let mut in_parts = Chronicle::default();
        for (number, event) in events.iter().enumerate() {
            in_one.apply(event);
            in_parts.apply(event);
            if saves.get(number) == Some(&true) {
                in_parts = Chronicle::load(&in_parts.save().unwrap()).unwrap();
            }
        }
        assert_eq!(in_parts, in_one);
        for chapter in in_one.chapters() {
            for stretch in &chapter.stretches {
                assert!(stretch.from <= stretch.to && stretch.from_seq <= stretch.to_seq);
                assert!(stretch.turns > 0);
                let span = (stretch.to.nanos() - stretch.from.nanos()) / 1_000_000;
                assert!(i128::from(stretch.busy_millis) <= span);
            }
        }
    }
}
