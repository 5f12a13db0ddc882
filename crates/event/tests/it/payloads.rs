//! The payloads of the kinds.

use event::payload::*;
use event::{BadPayload, Kind, Raw};

use crate::{draft, golden};

/// The fields of `data`, in the order they are written.
const FIELDS: &[(&str, &str)] = &[
    ("session.started", "agent model cwd project title parent mode label reason"),
    ("session.exited", "reason exit_code signal"),
    ("status.changed", "status reason evidence"),
    ("error", "message code scope recoverable"),
    ("turn.started", "agent_id"),
    ("turn.completed", "agent_id steps usage stop_reason error"),
    ("step.started", "agent_id model prompt_cache"),
    ("step.completed", "agent_id usage error"),
    ("usage.reported", "agent_id models"),
    ("retry", "agent_id scope target attempt error"),
    ("user.prompt", "content"),
    ("assistant.message", "message_id block content name stop_reason"),
    ("assistant.thinking", "message_id block thinking signature redacted"),
    ("assistant.delta", "message_id block text"),
    ("context.added", "kind placement content covers"),
    ("external.input", "request_id prompt status input"),
    ("handoff", "target_agent_id reason context"),
    ("tool.call", "call_id tool input message_id block index idempotency_key"),
    ("tool.started", "call_id tool idempotency_key effect"),
    ("tool.delta", "call_id tool text replaces"),
    ("tool.result", "call_id tool idempotency_key outcome output parts error shown duration_ms"),
    (
        "approval.requested",
        "approval_id tool input call_id category operation resource expires_at metadata",
    ),
    ("approval.resolved", "approval_id decision reason by automated"),
    ("approval.canceled", "approval_id tool reason"),
    ("wait.started", "wait_id reason external_id"),
    ("wait.resolved", "wait_id reason external_id"),
    ("compaction.started", "strategy max_tokens threshold_pct current_tokens"),
    (
        "compaction",
        "strategy max_tokens threshold_pct current_tokens cutoff_seq cutoff_event_id entries \
         messages read_files modified_files",
    ),
    ("snapshot", "strategy base_seq cutoff_seq cutoff_event_id entries read_files modified_files"),
    ("epoch.closed", "epoch cause from_seq to_seq day stream segment"),
    ("settings.changed", "provider model thinking tools permission_mode title"),
    (
        "child.requested",
        "child_id child_session_id metadata agent_id mode task parent_event_id context \
         shared_prefix_key",
    ),
    ("child.started", "child_id child_session_id metadata agent_id"),
    ("child.progressed", "child_id child_session_id metadata status message"),
    ("child.blocked", "child_id child_session_id metadata reason external_id"),
    ("child.completed", "child_id child_session_id metadata summary artifact_ids episode_id usage"),
    ("child.failed", "child_id child_session_id metadata error"),
    ("child.canceled", "child_id child_session_id metadata reason"),
    ("child.merged", "child_id child_session_id metadata artifact_ids note"),
    ("artifact.recorded", "artifact child_id session_id"),
    ("note", "text about"),
    ("unknown", "raw"),
    ("rule.added", "rule origin"),
    ("rule.removed", "rule_id"),
    ("rule.matched", "tool call_id verdict told rules"),
];

/// The payload of the golden line of its kind, read as `P` and written again.
fn rewritten<P: Payload>() -> (Kind, Raw, Raw) {
    let event = golden::event(&P::KIND);
    let payload: P = event.payload().expect("its shape fits").expect("it is of this kind");
    (P::KIND, event.data.clone(), Raw::from_value(&payload).expect("a payload can be written"))
}

macro_rules! all_rewritten {
    ($($payload:ident)*) => { [$(rewritten::<$payload>()),*] };
}

#[test]
fn payloads_keep_every_field() {
    let payloads = for_each_payload!(all_rewritten);
    let kinds: Vec<&str> = payloads.iter().map(|(kind, ..)| kind.as_str()).collect();
    let listed: Vec<&str> = FIELDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), listed.len());
    for (kind, read, written) in &payloads {
        let (_, fields) = FIELDS.iter().find(|(listed, _)| listed == &kind.as_str()).unwrap();
        let names: Vec<String> =
            read.members().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.join(" "), *fields, "{kind}");
        assert_eq!(written, read, "{kind}");
    }
}

#[test]
fn only_heartbeat_has_no_payload() {
    let listed: Vec<Kind> = FIELDS.iter().map(|(kind, _)| Kind::from(*kind)).collect();
    let without: Vec<_> = Kind::KNOWN.iter().filter(|kind| !listed.contains(kind)).collect();
    assert_eq!(without, [&Kind::Heartbeat]);
}

#[test]
fn other_kinds_decode_to_none() {
    macro_rules! matching {
        ($($payload:ident)*) => {
            |event: &event::Event| {
                let mut kinds = Vec::new();
                $(if event.payload::<$payload>().unwrap().is_some() {
                    kinds.push($payload::KIND);
                })*
                kinds
            }
        };
    }
    let matching = for_each_payload!(matching);
    for line in golden::V1.lines() {
        let event = event::Event::decode(line).unwrap();
        let has_payload = event.kind.code() != 0 && event.kind != Kind::Heartbeat;
        let expected: Vec<Kind> = has_payload.then(|| event.kind.clone()).into_iter().collect();
        assert_eq!(matching(&event), expected, "{}", event.kind);
    }
}

#[track_caller]
fn misfit<P: Payload + std::fmt::Debug>(data: &str) -> BadPayload {
    let draft = draft(P::KIND.as_str(), data);
    let error = draft.payload::<P>().expect_err("its shape does not fit");
    assert_eq!((&error.kind, error.event_id), (&draft.kind, draft.id));
    assert_eq!(draft.readable::<P>().map(|_| ()), None);
    error
}

#[test]
fn misfit_payload_is_named_by_path() {
    let check = |error: BadPayload, path: &str| assert_eq!(error.path, path, "{error}");
    check(misfit::<UserPrompt>("null"), ".");
    check(misfit::<UserPrompt>("{}"), ".");
    check(misfit::<UserPrompt>(r#"{"content":5}"#), "content");
    check(misfit::<UserPrompt>(r#"{"content":[{"type":"text"},7]}"#), "content[1]");
    check(misfit::<AssistantMessage>(r#"{"content":"x","block":-1}"#), "block");
    check(misfit::<ToolCall>(r#"{"call_id":7}"#), "call_id");
    check(misfit::<ToolResult>(r#"{"outcome":"ok","parts":[{}]}"#), "parts[0]");
    check(misfit::<TurnCompleted>(r#"{"usage":{"cost":"x"}}"#), "usage.cost");
    check(misfit::<Compaction>(r#"{"entries":[{},{"seq":"x"}]}"#), "entries[1].seq");
    check(misfit::<Snapshot>(r#"{"cutoff_event_id":"x"}"#), "cutoff_event_id");
    check(misfit::<SessionStarted>(r#"{"parent":{"session_id":""}}"#), "parent.session_id");
    check(misfit::<ApprovalRequested>(r#"{"expires_at":"soon"}"#), "expires_at");
    check(misfit::<ArtifactRecorded>(r#"{"artifact":{"size":-1}}"#), "artifact.size");
    check(misfit::<ChildStarted>(r#"{"child_id":"a","child_id":"b"}"#), ".");
}

#[test]
fn plain_string_is_one_text_part() {
    let prompt: UserPrompt =
        draft("user.prompt", r#"{"content":"a\"b"}"#).payload().unwrap().unwrap();
    assert_eq!(prompt.content, Content::text("a\"b"));
    assert_eq!(
        Raw::from_value(&prompt).unwrap().get(),
        r#"{"content":[{"type":"text","text":"a\"b"}]}"#
    );
}

#[test]
fn lone_surrogates_do_not_break_payloads() {
    let data = r#"{"content":[{"type":"text","text":"cut \ud83d\\ud83d"}],"name":"\udc00"}"#;
    let message: AssistantMessage = draft("assistant.message", data).payload().unwrap().unwrap();
    assert_eq!(message.content.joined_text(), "cut \u{FFFD}\\ud83d");
    assert_eq!(message.name.as_deref(), Some("\u{FFFD}"));
    let data = r#"{"call_id":"c","tool":"bash","input":"\ud800"}"#;
    let call: ToolCall = draft("tool.call", data).payload().unwrap().unwrap();
    assert_eq!(call.input.get(), r#""\ud800""#, "what is raw stays as written");
}

#[test]
fn unknown_fields_do_not_break_payloads() {
    let data = r#"{"call_id":"c","outcome":"paused","raw":{"x":[1e999]},"later":{"a":1}}"#;
    let result: ToolResult = draft("tool.result", data).payload().unwrap().unwrap();
    assert_eq!(result.outcome, Outcome::Other("paused".into()));
    assert!(result.is_error());
}

#[test]
fn context_has_default_kind_and_placement() {
    for (fields, kind, placement) in [
        ("", "generic", "history"),
        (r#""kind":"generic","#, "generic", "history"),
        (r#""kind":"bootstrap","#, "bootstrap", "prefix"),
        (r#""kind":"harness","#, "harness", "prefix"),
        (r#""kind":"summary","#, "summary", "prefix"),
        (r#""kind":"working_set","#, "working_set", "prefix"),
        (r#""kind":"weather","#, "weather", "history"),
        (r#""placement":"prefix","#, "generic", "prefix"),
        (r#""kind":"summary","placement":"history","#, "summary", "history"),
        (r#""kind":"generic","placement":"prefix","#, "generic", "prefix"),
        (r#""kind":null,"placement":null,"#, "generic", "history"),
    ] {
        let data = format!(r#"{{{fields}"content":"x"}}"#);
        let read: ContextAdded = draft("context.added", &data).payload().unwrap().unwrap();
        assert_eq!((read.kind().as_str(), read.placement().as_str()), (kind, placement), "{data}");
        let built = ContextAdded {
            kind: fields.contains("kind").then(|| ContextKind::from(kind)),
            placement: fields.contains("placement").then(|| Placement::from(placement)),
            content: Content::text("x"),
            covers: None,
        };
        assert_eq!((built.kind(), built.placement()), (read.kind(), read.placement()), "{data}");
    }
}

#[test]
fn any_part_gives_an_answer_substance() {
    for (content, has_substance) in [
        (r#""""#, false),
        (r#"" \n\t ""#, false),
        ("[]", false),
        (r#"[{"type":"text"},{"type":"text","text":"\u3000"}]"#, false),
        (r#"[{"type":"text","text":" "},{"type":"text","text":"x"}]"#, true),
        (r#"[{"type":"image","artifact":"a"}]"#, true),
    ] {
        let content: Content = Raw::parse(content).unwrap().read().unwrap();
        assert_eq!(content.has_substance(), has_substance, "{content:?}");
    }
    for (data, has_substance) in [
        ("{}", false),
        (r#"{"thinking":" \n"}"#, false),
        (r#"{"signature":""}"#, false),
        (r#"{"thinking":"hm"}"#, true),
        (r#"{"signature":"s"}"#, true),
        (r#"{"redacted":"r"}"#, true),
    ] {
        let thinking: AssistantThinking =
            draft("assistant.thinking", data).payload().unwrap().unwrap();
        assert_eq!(thinking.has_substance(), has_substance, "{data}");
    }
}

#[test]
fn output_text_falls_back_to_json() {
    for (output, text) in [
        (r#""a\nb""#, Some("a\nb")),
        (r#"{"rows": 2.0}"#, Some(r#"{"rows": 2.0}"#)),
        (r#""cut \ud83d""#, Some("cut \u{FFFD}")),
        ("null", None),
    ] {
        let data = format!(r#"{{"outcome":"ok","output":{output}}}"#);
        let result: ToolResult = draft("tool.result", &data).payload().unwrap().unwrap();
        assert_eq!(result.output_text().as_deref(), text);
        assert!(!result.is_error());
    }
}
