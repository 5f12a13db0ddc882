//! What agents are told: every recorded call that may be answered, with every answer it takes.

use std::collections::BTreeMap;
use std::fmt::Write;

use capture::{AGENTS, AnswerableCall, HookAnswer, Payload};
use expect_test::expect_file;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::hooks::recordings;

const ANSWERS: [HookAnswer; 4] =
    [HookAnswer::Deny, HookAnswer::Ask, HookAnswer::Allow, HookAnswer::Note];

/// `UPDATE_EXPECT=1` writes the table anew.
#[test]
fn every_recorded_call_has_its_answers() {
    let mut rows: BTreeMap<(String, String, String, Vec<String>), u32> = BTreeMap::new();
    for (agent, event, payload) in recorded_calls() {
        let Some(call) = AnswerableCall::read(&agent, &event, &payload) else { continue };
        let lines = ANSWERS.iter().filter_map(|answer| call.line(*answer, "because")).collect();
        *rows.entry((agent, event, call.tool, lines)).or_default() += 1;
    }
    let mut table = String::new();
    for ((agent, event, tool, lines), count) in rows {
        writeln!(table, "{agent} {event} {tool}: {count}").unwrap();
        lines.iter().for_each(|line| writeln!(table, "    {line}").unwrap());
    }
    expect_file!["../fixtures/answers.txt"].assert_eq(&table);
}

#[test]
fn every_answer_is_what_its_agent_takes() {
    let mut answered = 0;
    for (agent, event, payload) in recorded_calls() {
        let Some(call) = AnswerableCall::read(&agent, &event, &payload) else { continue };
        for answer in ANSWERS {
            let Some(line) = call.line(answer, "it is \"not\" for\nan agent") else { continue };
            check_contract(&agent, &event, answer, &line);
            answered += 1;
        }
    }
    assert!(answered > 300, "{answered} answers were checked");
}

#[test]
fn questions_to_the_user_are_not_answered() {
    let asked = json!({ "session_id": "s", "tool_name": "AskUserQuestion", "tool_input": {} });
    for event in ["PreToolUse", "PermissionRequest"] {
        assert!(read("claude", event, &asked).is_none(), "{event}");
    }
    let copilot = json!({ "sessionId": "s", "toolName": "ask_user", "toolArgs": {} });
    assert!(read("copilot", "preToolUse", &copilot).is_none());
}

#[test]
fn other_events_are_not_answered() {
    let payload = json!({ "session_id": "s", "tool_name": "Bash", "tool_input": {} });
    for event in ["UserPromptSubmit", "PostToolUse", "Stop", "SessionStart", "Unknown"] {
        assert!(read("claude", event, &payload).is_none(), "{event}");
    }
    assert!(read("other", "PreToolUse", &payload).is_none());
}

#[test]
fn cursor_names_no_shell() {
    let payload = json!({ "conversation_id": "c", "command": "git push", "cwd": "/home/dev" });
    let call = read("cursor", "beforeShellExecution", &payload).unwrap();
    assert_eq!(call.tool, "Shell");
    assert_eq!(call.input.get(), r#"{"command":"git push"}"#);
    // What another event answers better is not refused before.
    let before = json!({ "conversation_id": "c", "tool_name": "Shell", "tool_input": {} });
    assert!(read("cursor", "preToolUse", &before).is_none());
    let edit = json!({ "conversation_id": "c", "tool_name": "Write", "tool_input": {} });
    assert!(read("cursor", "preToolUse", &edit).is_some());
    let mcp = json!({ "conversation_id": "c", "tool_name": "query", "tool_input": r#"{"a":1}"# });
    let call = read("cursor", "beforeMCPExecution", &mcp).unwrap();
    // Not to be taken for a tool of Cursor with the same name.
    assert_eq!((call.tool.as_str(), call.input.get()), ("MCP:query", r#"{"a":1}"#));
    assert_eq!(call.line(HookAnswer::Allow, ""), None);
}

proptest! {
    #[test]
    fn any_text_stays_within_its_answer(text in any::<String>()) {
        for agent in AGENTS {
            for row in agent.hook_map().map_or(&[][..], |map| map.answers) {
                for line in ANSWERS.iter().filter_map(|answer| row.line(*answer, &text)) {
                    prop_assert!(!line.contains('\n'));
                    serde_json::from_str::<Value>(&line).unwrap();
                }
            }
        }
    }
}

fn read(agent: &str, event: &str, payload: &Value) -> Option<AnswerableCall> {
    AnswerableCall::read(agent, event, &Payload::parse(&payload.to_string()).unwrap())
}

/// Every recorded call of a hook, as our entries would get it.
fn recorded_calls() -> impl Iterator<Item = (String, String, Payload)> {
    recordings().into_iter().flat_map(|(agent, _, calls)| {
        calls.into_iter().map(move |call| {
            // The recorder of OpenCode's plugin named what came by the bus.
            let event = call.event.strip_prefix("event:").unwrap_or(&call.event).to_owned();
            (agent.clone(), event, Payload::parse(&call.stdin.to_string()).unwrap())
        })
    })
}

/// The contracts of the agents, written down a second time: closed shapes, so that a member too
/// many is found.
#[track_caller]
fn check_contract(agent: &str, event: &str, answer: HookAnswer, line: &str) {
    let is_valid = match agent {
        "claude" | "codex" | "qwen" => claude_takes(agent, event, answer, line),
        "gemini" => gemini_takes(event, answer, line),
        "copilot" => {
            #[derive(Deserialize)]
            #[serde(deny_unknown_fields, rename_all = "camelCase")]
            struct Copilot {
                permission_decision: String,
                permission_decision_reason: String,
            }
            serde_json::from_str::<Copilot>(line).is_ok_and(|said| {
                ["allow", "deny", "ask"].contains(&said.permission_decision.as_str())
                    && !said.permission_decision_reason.is_empty()
            })
        }
        "opencode" => {
            #[derive(Deserialize)]
            #[serde(deny_unknown_fields)]
            struct Plugin {
                answer: String,
                reason: String,
            }
            serde_json::from_str::<Plugin>(line).is_ok_and(|said| {
                ["allow", "deny"].contains(&said.answer.as_str()) && !said.reason.is_empty()
            })
        }
        _ => false,
    };
    assert!(is_valid, "{agent} {event} {answer:?}: {line}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Outer<T> {
    hook_specific_output: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Note {
    hook_event_name: String,
    additional_context: String,
}

fn claude_takes(agent: &str, event: &str, answer: HookAnswer, line: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Gate {
        hook_event_name: String,
        permission_decision: String,
        permission_decision_reason: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Request {
        hook_event_name: String,
        decision: Behavior,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Behavior {
        behavior: String,
        message: Option<String>,
    }
    // Codex runs the tool after `ask`, and after an `allow` that changes no input.
    let is_codex_gate = agent == "codex" && event == "PreToolUse";
    match (event, answer) {
        ("PreToolUse", HookAnswer::Note) => is_note(event, line),
        ("PreToolUse", _) => serde_json::from_str::<Outer<Gate>>(line).is_ok_and(|said| {
            let said = said.hook_specific_output;
            let words: &[&str] = if is_codex_gate { &["deny"] } else { &["allow", "deny", "ask"] };
            said.hook_event_name == event
                && words.contains(&said.permission_decision.as_str())
                && !said.permission_decision_reason.is_empty()
        }),
        ("PermissionRequest", _) => {
            serde_json::from_str::<Outer<Request>>(line).is_ok_and(|said| {
                let Request { hook_event_name, decision } = said.hook_specific_output;
                let is_known = match decision.behavior.as_str() {
                    "allow" => decision.message.is_none(),
                    "deny" => decision.message.is_some_and(|message| !message.is_empty()),
                    _ => false,
                };
                is_known && hook_event_name == event
            })
        }
        _ => false,
    }
}

fn gemini_takes(event: &str, answer: HookAnswer, line: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Deny {
        decision: String,
        reason: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Shown {
        system_message: String,
    }
    match (event, answer) {
        ("BeforeTool", HookAnswer::Deny) => serde_json::from_str::<Deny>(line)
            .is_ok_and(|said| said.decision == "deny" && !said.reason.is_empty()),
        ("BeforeTool", HookAnswer::Note) => {
            serde_json::from_str::<Shown>(line).is_ok_and(|said| !said.system_message.is_empty())
        }
        ("AfterTool", HookAnswer::Note) => is_note(event, line),
        _ => false,
    }
}

fn is_note(event: &str, line: &str) -> bool {
    serde_json::from_str::<Outer<Note>>(line).is_ok_and(|said| {
        let said = said.hook_specific_output;
        said.hook_event_name == event && !said.additional_context.is_empty()
    })
}
