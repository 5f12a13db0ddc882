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

impl Log {
    /// The events of a session before one of them.
    fn before(&self, session: &SessionId, seq: u64) -> impl DoubleEndedIterator<Item = &Event> {
        let events = self.0.iter().map(|recorded| &recorded.event);
        events.filter(move |event| event.session_id == *session && event.seq < seq)
    }
}

impl SessionHistory for Log {
    fn look_back(&self, session: &SessionId, seq: u64) -> (SessionAbout, AgentRun) {
        let (mut about, mut run) = (SessionAbout::default(), AgentRun::default());
        for event in self.before(session, seq) {
            about.apply(event);
            run.apply(event, &PriceTable::shipped());
        }
        (about, run)
    }

    fn tool(&self, session: &SessionId, call_id: &str, seq: u64) -> Option<String> {
        let mut calls = self.before(session, seq).filter_map(|event| event.readable::<ToolCall>());
        calls.rfind(|call| call.call_id == call_id).map(|call| call.tool)
    }

    fn info(&self, _: &SessionId) -> Option<SessionInfo> {
        None
    }

    fn is_deleted(&self, session: &SessionId) -> bool {
        self.before(session, u64::MAX).next().is_none()
    }

    fn prices(&self) -> PriceTable {
        PriceTable::shipped()
    }
}

/// A cortex that goes on live with these open runs.
fn live(open_runs: &BTreeSet<SessionId>) -> Cortex {
    Cortex::live(open_runs.clone())
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
    /// The end of a turn that leaves work in the background.
    LeftWork,
    Failed,
    Exit,
    Note,
}

const DEEDS: [Deed; 10] = [
    Deed::Prompt,
    Deed::Queued,
    Deed::Words,
    Deed::LastWords,
    Deed::Tokens,
    Deed::Completed,
    Deed::LeftWork,
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
        Deed::LeftWork => {
            let data = event::Raw::from_value(&serde_json::json!({"background": 1}));
            Ok(Fact::with_data(id, session, at, Kind::TurnCompleted, data.expect("it encodes")))
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
    let mut cortex = live(&BTreeSet::new());
    for recorded in &log.0 {
        cortex.make_messages(recorded, &log);
    }
    let mut shown = Vec::new();
    for (second, (status, reason)) in statuses.iter().enumerate() {
        let now = Time::from_millis(1_800_000_000_000 + second as i64 * 1_000);
        let assessed = assessed(deeds.len() as u64, *status, *reason);
        let messages = cortex.apply_status(&assessed, now);
        for message in messages.into_iter().chain(cortex.end_settled_runs(now)) {
            let message = message.message.to_json();
            let text = |name: &str| message[name].as_str().unwrap_or("-").to_owned();
            let word = if text("outcome") == "-" { text("status") } else { text("outcome") };
            shown.push(format!("{second} {} {word}", text("event")));
        }
    }
    assert_eq!(shown, expected);
    assert_eq!(cortex.follows_statuses(), !expected.iter().any(|it| !it.contains("updated")));
}

#[test]
fn background_work_goes_on_after_the_end() {
    let log = log(&[(Deed::Prompt, 0), (Deed::LeftWork, 0)]);
    let mut cortex = live(&BTreeSet::new());
    let told = log.0.iter().flat_map(|recorded| cortex.make_messages(recorded, &log));
    let names: Vec<Value> = told.map(|message| message.to_json()["event"].clone()).collect();
    assert_eq!(names, ["start", "finish"]);
    let now = Time::from_millis(1_800_000_000_000);
    let mut say = |status, reason| {
        let messages = cortex.apply_status(&assessed(2, status, reason), now);
        let shown = messages.iter().map(|it| it.message.to_json()["status"].clone()).collect();
        (shown, cortex.running_agents(now).len())
    };
    // The page says so, and so does the bus.
    let running: Vec<Value> = vec!["running".into()];
    assert_eq!(say(Status::Running, Reason::Background), (running, 1));
    assert_eq!(say(Status::Waiting, Reason::Prompt), (vec!["waiting".into()], 0));
    assert!(!cortex.follows_statuses());
}

#[test]
fn finished_qwen_run_ends_with_its_status() {
    let mut log = log(&[(Deed::Prompt, 0), (Deed::Words, 0), (Deed::Tokens, 0)]);
    for recorded in &mut log.0 {
        recorded.event.draft.provider = "qwen".to_owned();
    }
    let mut cortex = live(&BTreeSet::new());
    log.0.iter().for_each(|recorded| _ = cortex.make_messages(recorded, &log));
    // Qwen records no end of a turn. The status has waited for its last records already.
    let said = assessed(3, Status::Exited, Reason::RunOver);
    let messages = cortex.apply_status(&said, Time::from_millis(0));
    let end = messages.last().expect("there are messages").message.to_json();
    assert_eq!((&end["event"], &end["outcome"]), (&"finish".into(), &"done".into()));
    assert_eq!((&end["usage"]["input_tokens"], &end["cost"]), (&10.into(), &0.25.into()));
}

#[test]
fn status_end_is_not_repeated_after_restart() {
    let log = log(&[(Deed::Prompt, 0), (Deed::Words, 0), (Deed::Prompt, 0)]);
    let mut first = live(&BTreeSet::new());
    first.make_messages(&log.0[0], &log);
    first.make_messages(&log.0[1], &log);
    let mut second = live(first.open_runs());
    first.apply_status(&gone_after(2), Time::from_millis(0));
    let ends = first.end_settled_runs(Time::from_millis(60_000));
    assert_eq!(ends.len(), 1);
    assert!(first.open_runs().is_empty());
    let names = |cortex: &mut Cortex| -> Vec<String> {
        let told = cortex.make_messages(&log.0[2], &log);
        told.iter().map(|it| it.to_json()["event"].as_str().unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(names(&mut live(first.open_runs())), ["start"]);
    // A daemon that was killed before the end ends the run itself.
    assert_eq!(names(&mut second), ["finish", "start"]);
}

#[test]
fn run_of_unlisted_session_ends() {
    let log = log(&[(Deed::Prompt, 0), (Deed::Prompt, 1)]);
    let mut cortex = live(&BTreeSet::from([SessionId::new("s2").expect("a plain id")]));
    log.0.iter().for_each(|recorded| _ = cortex.make_messages(recorded, &log));
    let ended = |cortex: &mut Cortex, listed: &[&str], hours: i64| -> Vec<Value> {
        let listed = listed.iter().map(|id| SessionId::new(*id).expect("a plain id")).collect();
        let now = Time::from_millis(1_800_000_000_000 + hours * 60 * 60 * 1_000);
        let ended = cortex.end_unlisted_runs(&listed, now, &log);
        ended.iter().map(|end| end.message.to_json()["session_id"].clone()).collect()
    };
    // The log has no event of the third: it was deleted while no daemon ran.
    assert_eq!(ended(&mut cortex, &[], 1), ["s2"]);
    assert_eq!(ended(&mut cortex, &["s1"], 25), ["s0"]);
    assert_eq!(cortex.open_runs().len(), 1);
    let mut of_deleted = live(cortex.open_runs());
    of_deleted.make_messages(&log.0[1], &log);
    let none = Log(Vec::new());
    let ended = of_deleted.end_unlisted_runs(&BTreeSet::new(), Time::from_millis(0), &none);
    assert_eq!(ended[0].message.to_json()["error"], "the session was deleted");
    assert!(!of_deleted.follows_statuses());
}

#[test]
fn run_that_cannot_be_read_ends() {
    let log = log(&[(Deed::Prompt, 0)]);
    let mut cortex = live(&BTreeSet::from([SessionId::new("s0").expect("a plain id")]));
    let mut ends = Vec::new();
    let mut tries = 0;
    // `info` of this log always fails.
    while ends.is_empty() && tries < 100 {
        tries += 1;
        assert!(cortex.has_absent_runs() && cortex.follows_statuses());
        ends = cortex.resume_runs(Time::from_millis(0), &log).ends;
    }
    assert_eq!((ends.len(), tries), (1, RESUME_TRIES));
    assert_eq!(ends[0].message.to_json()["error"], "its events cannot be read");
    assert!(!cortex.follows_statuses(), "and nothing is watched for it");
}

#[test]
fn replay_knows_what_was_before() {
    let row = |kind: Kind, data: Value, number: usize| {
        let data = event::Raw::from_value(&data).expect("it encodes");
        let seq = number as u64 + 1;
        let event = Fact { kind, data, ..fact(Deed::Note, 0, number) }.with_seq(seq);
        Recorded { position: seq, event }
    };
    use serde_json::json;
    let log = Log(vec![
        row(Kind::SessionStarted, json!({"agent": "a", "model": "old"}), 0),
        row(Kind::ToolCall, json!({"call_id": "c", "tool": "Bash", "input": {}}), 1),
        row(Kind::UserPrompt, json!({"content": "first"}), 2),
        row(Kind::ToolResult, json!({"call_id": "c", "outcome": "ok"}), 3),
        row(Kind::SettingsChanged, json!({"model": "new"}), 4),
        row(Kind::UserPrompt, json!({"content": "second"}), 5),
    ]);
    for from in 0..log.0.len() {
        let messages = messages_from(&log, from);
        let field = |event: &str, name: &str| -> Vec<Value> {
            let of_name = messages.iter().filter(|message| message["event"] == event);
            of_name.map(|message| message[name].clone()).collect()
        };
        let models = ["old", "new"].map(Value::from);
        assert_eq!(field("start", "model"), models[models.len() - field("start", "model").len()..]);
        assert!(field("tool_end", "tool").iter().all(|tool| tool == "Bash"), "from {from}");
    }
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
    let mut cortex = live(&BTreeSet::new());
    cortex.skip_event(&log.0[0].event, &log);
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
    let mut cortex = live(&BTreeSet::new());
    cortex.make_messages(&log.0[0], &log);
    assert!(cortex.apply_status(&gone_after(2), now).is_empty());
    assert!(cortex.apply_early_statuses(now).is_empty());
    cortex.make_messages(&log.0[1], &log);
    let names: Vec<String> = cortex
        .apply_early_statuses(now)
        .iter()
        .map(|it| it.message.to_json()["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(names, ["agent_updated", "finish"]);
}

#[test]
fn status_from_before_an_event_is_ignored() {
    let log = log(&[(Deed::Prompt, 0), (Deed::Words, 0)]);
    let mut cortex = live(&BTreeSet::new());
    for recorded in &log.0 {
        cortex.make_messages(recorded, &log);
    }
    assert!(cortex.apply_status(&gone_after(1), Time::from_millis(0)).is_empty());
}

/// The status of a session whose process is gone, as of its event with this number.
fn gone_after(seq: u64) -> AssessedStatus {
    assessed(seq, Status::Exited, Reason::Gone)
}

fn assessed(seq: u64, status: Status, reason: Reason) -> AssessedStatus {
    AssessedStatus {
        session: SessionId::new("s0").expect("a plain id"),
        seq,
        status,
        reason,
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

    #[test]
    fn restart_changes_no_message(deeds in deeds(), at in any::<prop::sample::Index>()) {
        let log = log(&deeds);
        let at = at.index(deeds.len());
        let mut first = live(&BTreeSet::new());
        let mut messages: Vec<Value> = Vec::new();
        for recorded in &log.0[..at] {
            messages.extend(first.make_messages(recorded, &log).iter().map(|it| it.to_json()));
        }
        let mut second = live(first.open_runs());
        for recorded in &log.0[at..] {
            messages.extend(second.make_messages(recorded, &log).iter().map(|it| it.to_json()));
        }
        prop_assert_eq!(messages, messages_from(&log, 0));
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
