//! Events in, messages out; and every start has one end.

use event::payload::{
    AssistantMessage, Content, SessionExited, StepCompleted, StopReason, TokenUsage, TurnCompleted,
    UserPrompt,
};
use event::{Cost, Draft as Fact, EventId, Time};
use projection::status::Reason;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A log in memory.
struct Log(Vec<Recorded>);

impl SessionHistory for Log {
    fn about(&self, _: &SessionId) -> SessionAbout {
        SessionAbout { model: Some("m".to_owned()), ..SessionAbout::default() }
    }

    fn run(&self, session: &SessionId, seq: u64) -> AgentRun {
        let events = self.0.iter().map(|recorded| &recorded.event);
        let before = events.filter(|event| event.session_id == *session && event.seq < seq);
        let mut run = AgentRun::default();
        before.for_each(|event| _ = run.apply(event, &PriceTable::shipped()));
        run
    }

    fn prices(&self) -> PriceTable {
        PriceTable::shipped()
    }
}

/// What an agent does, in a few letters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Prompt,
    Queued,
    Words,
    LastWords,
    /// The tokens of a request.
    Tokens,
    Completed,
    Failed,
    Exit,
    Note,
}

const DEEDS: [Deed; 9] = [
    Deed::Prompt,
    Deed::Queued,
    Deed::Words,
    Deed::LastWords,
    Deed::Tokens,
    Deed::Completed,
    Deed::Failed,
    Deed::Exit,
    Deed::Note,
];

fn fact(deed: Deed, session: usize, number: usize) -> Fact {
    let at = Time::from_millis(1_800_000_000_000 + number as i64);
    let id = EventId::derived(at, "test", "s", number.to_string().as_bytes());
    let session = SessionId::new(format!("s{session}")).expect("a plain id");
    let words = |stop_reason: Option<&str>| AssistantMessage {
        content: Content::text(format!("words {number}")),
        stop_reason: stop_reason.map(str::to_owned),
        ..AssistantMessage::default()
    };
    let completed =
        |stop_reason, error| TurnCompleted { stop_reason, error, ..TurnCompleted::default() };
    let draft = match deed {
        Deed::Prompt => Fact::new(id, session, at, &UserPrompt::text(format!("ask {number}"))),
        Deed::Queued => {
            let prompt = UserPrompt { queued: true, ..UserPrompt::text("and") };
            Fact::new(id, session, at, &prompt)
        }
        Deed::Words => Fact::new(id, session, at, &words(None)),
        Deed::LastWords => Fact::new(id, session, at, &words(Some("end_turn"))),
        Deed::Tokens => {
            let used = |tokens| TokenUsage {
                input_tokens: Some(tokens),
                cost: Some(Cost::from_nanos(250_000_000)),
                ..TokenUsage::default()
            };
            let step = StepCompleted { usage: Some(used(10)), ..StepCompleted::default() };
            Fact::new(id, session, at, &step)
        }
        Deed::Completed => {
            Fact::new(id, session, at, &completed(Some(StopReason::Completed), None))
        }
        Deed::Failed => Fact::new(id, session, at, &completed(None, Some("broke".to_owned()))),
        Deed::Exit => Fact::new(id, session, at, &SessionExited::default()),
        Deed::Note => {
            let note = event::payload::Note { text: "n".to_owned(), about: None };
            Fact::new(id, session, at, &note)
        }
    };
    draft.expect("it encodes")
}

fn log(deeds: &[(Deed, usize)]) -> Log {
    let mut tails = HashMap::new();
    let recorded = deeds.iter().enumerate().map(|(number, (deed, session))| {
        let seq = tails.entry(*session).or_insert(0);
        *seq += 1;
        Recorded {
            position: number as u64 + 1,
            event: fact(*deed, *session, number).with_seq(*seq),
        }
    });
    Log(recorded.collect())
}

/// The messages from an event on.
fn messages_from(log: &Log, from: usize) -> Vec<Value> {
    let mut cortex = Cortex::default();
    let messages = log.0[from..].iter().flat_map(|recorded| cortex.make_messages(recorded, log));
    messages.map(|message| message.to_json()).collect()
}

#[track_caller]
fn check(deeds: &[Deed], expected: &[&str]) {
    let deeds: Vec<(Deed, usize)> = deeds.iter().map(|deed| (*deed, 0)).collect();
    let messages = messages_from(&log(&deeds), 0);
    let shown = messages.iter().map(|message| {
        let text = |name: &str| message[name].as_str().unwrap_or("-").to_owned();
        match text("event").as_str() {
            "start" => format!("start {}", text("prompt")),
            "finish" => format!("finish {} {}", text("outcome"), text("result")),
            "error" => format!("error {} {}", text("outcome"), text("error")),
            other => format!("{other} {}", text("kind")),
        }
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn recorded_end_ends_a_run() {
    check(
        &[Deed::Prompt, Deed::Words, Deed::Completed],
        &["start ask 0", "info assistant.message", "finish done words 1"],
    );
    check(&[Deed::Prompt, Deed::Failed], &["start ask 0", "error failed broke"]);
}

#[test]
fn inferred_end_waits_for_its_record() {
    check(
        &[Deed::Prompt, Deed::LastWords, Deed::Tokens, Deed::Completed],
        &["start ask 0", "info assistant.message", "info step.completed", "finish done words 1"],
    );
    check(
        &[Deed::Prompt, Deed::LastWords, Deed::Tokens, Deed::Note],
        &[
            "start ask 0",
            "info assistant.message",
            "info step.completed",
            "finish done words 1",
            "info note",
        ],
    );
}

#[test]
fn end_has_the_sum_of_its_run() {
    let deeds = [Deed::Tokens, Deed::Prompt, Deed::Tokens, Deed::Tokens, Deed::Completed];
    let messages = messages_from(&log(&deeds.map(|deed| (deed, 0))), 0);
    let end = messages.last().expect("there are messages");
    assert_eq!((&end["event"], &end["usage"]["input_tokens"]), (&"finish".into(), &20.into()));
    assert_eq!(end["cost"].to_string(), "0.5");
}

/// The messages after these events and what the status service says then, second by second.
#[track_caller]
fn check_statuses(deeds: &[Deed], statuses: &[(Status, Reason)], expected: &[&str]) {
    let deeds: Vec<(Deed, usize)> = deeds.iter().map(|deed| (*deed, 0)).collect();
    let log = log(&deeds);
    let mut cortex = Cortex::default();
    for recorded in &log.0 {
        cortex.make_messages(recorded, &log);
    }
    let mut shown = Vec::new();
    for (second, (status, reason)) in statuses.iter().enumerate() {
        let now = Time::from_millis(1_800_000_000_000 + second as i64 * 1_000);
        let assessed = AssessedStatus {
            session: SessionId::new("s0").expect("a plain id"),
            seq: deeds.len() as u64,
            status: *status,
            reason: *reason,
            confidence: event::Confidence::High,
            source: "process".to_owned(),
            what: "its process is gone".to_owned(),
        };
        let messages = cortex.apply_status(&assessed, now);
        for message in messages.into_iter().chain(cortex.end_settled_runs(now)) {
            let message = message.to_json();
            let text = |name: &str| message[name].as_str().unwrap_or("-").to_owned();
            let word = if text("outcome") == "-" { text("status") } else { text("outcome") };
            shown.push(format!("{second} {} {word}", text("event")));
        }
    }
    assert_eq!(shown, expected);
    assert_eq!(cortex.follows_statuses(), !expected.iter().any(|it| !it.contains("updated")));
}

#[test]
fn status_ends_a_run_without_an_event() {
    let gone = (Status::Exited, Reason::Gone);
    let ready = (Status::Waiting, Reason::Prompt);
    let asks = (Status::WaitingApproval, Reason::Permission);
    let runs = (Status::Running, Reason::Turn);
    // Its last answer was read, so there is nothing to wait for.
    check_statuses(
        &[Deed::Prompt, Deed::LastWords, Deed::Tokens],
        &[ready],
        &["0 agent_updated waiting", "0 finish done"],
    );
    // A killed agent: what it wrote last may be read a moment later.
    check_statuses(
        &[Deed::Prompt],
        &[runs, gone, gone, gone],
        &["1 agent_updated exited", "3 error died"],
    );
    check_statuses(
        &[Deed::Prompt],
        &[ready, ready, ready],
        &["0 agent_updated waiting", "2 finish interrupted"],
    );
    // A status that changes back ends nothing.
    check_statuses(
        &[Deed::Prompt],
        &[asks, ready, runs, runs, runs],
        &["0 agent_updated waiting_approval", "1 agent_updated waiting", "2 agent_updated running"],
    );
}

#[test]
fn imported_run_is_not_followed() {
    let mut log = log(&[(Deed::Prompt, 0), (Deed::Words, 0)]);
    for recorded in &mut log.0 {
        recorded.event.draft.observed_at = Time::from_millis(1_900_000_000_000);
    }
    let mut cortex = Cortex::default();
    cortex.run_before(&log.0[1].event, &log);
    cortex.skip_event(&log.0[1].event, &log);
    assert!(!cortex.follows_statuses());
    cortex.make_messages(&log.0[1], &log);
    let assessed = gone_after(2);
    assert!(cortex.apply_status(&assessed, Time::from_millis(0)).len() <= 1);
    assert_eq!(cortex.next_settled(), None);
}

#[test]
fn early_status_counts_with_its_event() {
    let log = log(&[(Deed::Prompt, 0), (Deed::LastWords, 0)]);
    let now = Time::from_millis(0);
    let mut cortex = Cortex::default();
    cortex.make_messages(&log.0[0], &log);
    assert!(cortex.apply_status(&gone_after(2), now).is_empty());
    assert!(cortex.apply_early_statuses(now).is_empty());
    cortex.make_messages(&log.0[1], &log);
    let names: Vec<String> = cortex
        .apply_early_statuses(now)
        .iter()
        .map(|message| message.to_json()["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(names, ["agent_updated", "finish"]);
}

#[test]
fn status_from_before_an_event_is_ignored() {
    let log = log(&[(Deed::Prompt, 0), (Deed::Words, 0)]);
    let mut cortex = Cortex::default();
    for recorded in &log.0 {
        cortex.make_messages(recorded, &log);
    }
    assert!(cortex.apply_status(&gone_after(1), Time::from_millis(0)).is_empty());
}

/// The status of a session whose process is gone, as of its event with this number.
fn gone_after(seq: u64) -> AssessedStatus {
    AssessedStatus {
        session: SessionId::new("s0").expect("a plain id"),
        seq,
        status: Status::Exited,
        reason: Reason::Gone,
        confidence: event::Confidence::High,
        source: String::new(),
        what: String::new(),
    }
}

#[test]
fn next_prompt_ends_an_open_run() {
    check(
        &[Deed::Prompt, Deed::Queued, Deed::Prompt, Deed::Words, Deed::Prompt],
        &[
            "start ask 0",
            "info user.prompt",
            "finish replaced -",
            "start ask 2",
            "info assistant.message",
            "finish done words 3",
            "start ask 4",
        ],
    );
}

#[test]
fn exit_ends_a_run() {
    check(&[Deed::Prompt, Deed::Exit], &["start ask 0", "error died -", "info session.exited"]);
}

#[test]
fn long_texts_are_cut() {
    let mut log = log(&[(Deed::Prompt, 0)]);
    let long = UserPrompt::text("é".repeat(5_000));
    log.0[0].event.draft.data = event::Raw::from_value(&long).expect("it encodes");
    let prompt = messages_from(&log, 0)[0]["prompt"].as_str().expect("a text").to_owned();
    assert_eq!(prompt.chars().count(), 2_001);
}

#[test]
fn overlong_names_are_cut() {
    let mut log = log(&[(Deed::Prompt, 0), (Deed::Note, 0)]);
    let long = "x".repeat(17 << 20);
    for recorded in &mut log.0 {
        recorded.event.draft.turn_id = Some(long.clone());
        recorded.event.draft.provider.clone_from(&long);
    }
    log.0[1].event.draft.kind = Kind::Other(long.into());
    let messages = messages_from(&log, 0);
    assert_eq!((&messages[0]["position"], &messages[1]["position"]), (&1.into(), &2.into()));
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, usize)>> {
    prop::collection::vec((prop::sample::select(DEEDS.to_vec()), 0..3_usize), 1..60)
}

proptest! {
    #[test]
    fn every_start_has_one_end(deeds in deeds()) {
        let log = log(&deeds);
        let messages = messages_from(&log, 0);
        let positions: Vec<u64> = messages.iter().filter_map(|one| one["position"].as_u64()).collect();
        prop_assert_eq!(positions, (1..=deeds.len() as u64).collect::<Vec<_>>());
        let mut open = HashMap::new();
        for message in &messages {
            let session = message["session_id"].to_string();
            match message["event"].as_str().expect("a name") {
                "start" => prop_assert_eq!(open.insert(session, ()), None),
                "finish" | "error" => prop_assert_eq!(open.remove(&session), Some(())),
                _ => {}
            }
        }
    }

    #[test]
    fn replay_from_anywhere_is_the_same(deeds in deeds(), from in any::<prop::sample::Index>()) {
        let log = log(&deeds);
        let from = from.index(deeds.len());
        let all = messages_from(&log, 0);
        let rest = messages_from(&log, from);
        prop_assert_eq!(&all[all.len() - rest.len()..], &rest[..]);
    }
}

/// What is said of an event of a kind, without what all messages have.
#[track_caller]
fn said_of(kind: Kind, data: Value) -> (String, Value) {
    let data = event::Raw::from_value(&data).expect("it encodes");
    let event = Fact { kind, data, ..fact(Deed::Note, 0, 0) }.with_seq(1);
    let told = Cortex::default().make_messages(&Recorded { position: 1, event }, &log(&[]));
    let [message] = &told[..] else { panic!("one event, one message: {told:?}") };
    let mut fields = message.to_json();
    let common = fields.as_object_mut().expect("a message is an object");
    let names =
        "agent_id session_id provider name facet hosted turn_id event_id seq position tract ts rev";
    for name in names.split(' ') {
        assert!(common.remove(name).is_some(), "`{name}` is in every message");
    }
    let event = common.remove("event").and_then(|event| event.as_str().map(str::to_owned));
    (event.expect("every message has a name"), fields)
}

#[test]
fn every_kind_has_its_message() {
    use serde_json::json;
    let updated = |status: Value, reason: Value, more: Value| {
        let mut fields = json!({"agent": "s0", "status": status, "from": "native",
            "reason": reason, "confidence": "high"});
        let fields_of = fields.as_object_mut().expect("it is an object");
        fields_of.extend(more.as_object().cloned().unwrap_or_default());
        fields
    };
    let rows = [
        (
            Kind::AssistantThinking,
            json!({"thinking": "hm"}),
            ("thinking", json!({"summary": "hm"})),
        ),
        (
            Kind::ToolCall,
            json!({"call_id": "c", "tool": "Bash", "input": {"command": "ls"}}),
            ("tool_start", json!({"tool": "Bash", "call_id": "c", "args": {"command": "ls"}})),
        ),
        (
            Kind::ToolResult,
            json!({"call_id": "c", "tool": "Bash", "outcome": "ok", "output": "a.rs"}),
            ("tool_end", json!({"tool": "Bash", "call_id": "c", "ok": true, "result": "a.rs"})),
        ),
        (
            Kind::ToolResult,
            json!({"call_id": "c", "outcome": "error", "error": "no such file"}),
            (
                "tool_end",
                json!({"tool": null, "call_id": "c", "ok": false, "result": "no such file"}),
            ),
        ),
        (
            Kind::StatusChanged,
            json!({"status": "running", "reason": "it works"}),
            ("agent_updated", updated(json!("running"), json!("it works"), json!({}))),
        ),
        (
            Kind::ApprovalRequested,
            json!({"approval_id": "a", "tool": "Bash", "operation": "rm -r x"}),
            (
                "agent_updated",
                updated(
                    json!("waiting_approval"),
                    json!("Bash asks for approval"),
                    json!({"approval": {"id": "a", "tool": "Bash", "action": "rm -r x"}}),
                ),
            ),
        ),
        (
            Kind::SettingsChanged,
            json!({"model": "m"}),
            (
                "agent_updated",
                updated(json!(null), json!(null), json!({"settings": {"model": "m"}})),
            ),
        ),
        (
            Kind::Handoff,
            json!({"target_agent_id": "b"}),
            ("agent_updated", updated(json!(null), json!("handed over to b"), json!({}))),
        ),
        (
            Kind::Error,
            json!({"message": "it broke"}),
            ("info", json!({"kind": "error", "message": "it broke", "severity": "error"})),
        ),
        (Kind::Note, json!({"text": "n"}), ("info", json!({"kind": "note", "message": "n"}))),
    ];
    for (kind, data, (name, fields)) in rows {
        assert_eq!(said_of(kind.clone(), data), (name.to_owned(), fields), "{kind}");
    }
}
