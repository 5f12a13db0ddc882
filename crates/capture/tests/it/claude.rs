//! Claude Code: recordings, and the traps its transcripts have.

use std::fs;

use event::Kind;
use event::payload::{Outcome, StepCompleted, ToolResult};
use expect_test::{Expect, expect};

use crate::handmade::Home;
use crate::memory::Memory;
use crate::scenario::{agent, check, read, short};
use crate::truth::check_usage;

macro_rules! recordings {
    ($($test:ident $scenario:literal)*) => {
        $(#[test]
        fn $test() {
            check(agent("claude"), $scenario);
        })*
    };
}

recordings! {
    a_question_and_its_answer_are_told "s1"
    tools_are_told_with_their_results "s2"
    approvals_and_denials_are_told "s3_approval_tui"
    denials_without_anybody_are_told "s3_headless_denied"
    a_resumed_session_goes_on "s4_resume_tui"
    a_compaction_ends_an_epoch "s5_compact_tui"
    interruptions_end_turns "s6_interrupt"
    a_killed_session_ends_with_its_prompt "s6_kill9_stream"
    subagents_are_sessions_of_their_own "s7_subagent"
    errors_and_retries_are_told "s8_errors"
    a_fork_tells_only_what_is_its_own "s9_fork"
    questions_and_rejections_are_told "s10_edges_tui"
    telemetry_changes_nothing "s11_otel"
    odd_tools_and_long_output_are_told "s13_todo_web"
}

#[test]
fn usage_is_what_the_model_was_asked_for() {
    for scenario in ["s1", "s2", "s3_approval_tui", "s3_headless_denied", "s4_resume_tui"] {
        check_usage(agent("claude"), scenario, &[]);
    }
    for scenario in ["s7_subagent", "s9_fork", "s11_otel", "s13_todo_web"] {
        check_usage(agent("claude"), scenario, &[]);
    }
    // The request for the summary itself is in no transcript; an answer that was cut is there as
    // far as it came, or not at all.
    check_usage(agent("claude"), "s5_compact_tui", &["msg_lab000011"]);
    check_usage(agent("claude"), "s6_interrupt", &["msg_lab000001"]);
    check_usage(agent("claude"), "s6_kill9_stream", &["msg_lab000001"]);
    check_usage(agent("claude"), "s8_errors", &["msg_lab000013"]);
}

/// Writes transcripts below a project's folder, reads them, and compares what they tell in short.
#[track_caller]
fn check_files(files: &[(&str, &[&str])], expected: Expect) -> Memory {
    let home = tempfile::tempdir().unwrap();
    for (name, lines) in files {
        let path = home.path().join(".claude/projects/-home-dev-project").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.concat()).unwrap();
    }
    let mut sink = Memory::default();
    read(agent("claude"), home.path(), &mut sink);
    expected.assert_eq(&short(&sink));
    sink
}

#[track_caller]
fn check_lines(lines: &[&str], expected: Expect) -> Memory {
    check_files(&[("s.jsonl", lines)], expected)
}

/// A record of a person: `(uuid, parent, seconds, content)`, and what else it has.
fn user(uuid: &str, parent: &str, at: u32, content: &str, more: &str) -> String {
    line(
        "user",
        uuid,
        parent,
        at,
        &format!(r#""message":{{"role":"user","content":{content}}}{more}"#),
    )
}

/// A record of the model, with one block.
fn model(uuid: &str, at: u32, message: &str, stop: &str, output: u64, block: &str) -> String {
    let message = format!(
        r#""requestId":"r-{message}","message":{{"id":"{message}","model":"opus","content":[{block}],"stop_reason":{stop},"usage":{{"input_tokens":3,"output_tokens":{output}}}}}"#
    );
    line("assistant", uuid, "", at, &message)
}

fn line(kind: &str, uuid: &str, parent: &str, at: u32, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    format!(
        "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"timestamp\":\"2026-01-01T00:{:02}:{:02}Z\",{rest}}}\n",
        at / 60,
        at % 60
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str, tool: &str, input: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}"#)
}

fn result(id: &str, output: &str) -> String {
    format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"{output}"}}]"#)
}

#[test]
fn a_mode_with_its_own_price_is_told() {
    let with_usage = |uuid: &str, parent: &str, message: &str, more: &str| {
        let said = model(uuid, 1, message, "\"end_turn\"", 2, &text("done"));
        let said = said.replace("\"parentUuid\":null", &format!("\"parentUuid\":{parent}"));
        said.replace("\"output_tokens\":2", &format!("\"output_tokens\":2,{more}"))
    };
    let sink = check_lines(
        &[
            &with_usage("a1", "null", "m1", r#""service_tier":"batch","speed":"standard""#),
            &with_usage("a2", "\"a1\"", "m2", r#""service_tier":"standard","speed":"fast""#),
            &with_usage("a3", "\"a2\"", "m3", r#""service_tier":"standard","speed":null"#),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude","model":"opus"}
            2 assistant.message done
            3 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":2,"mode":"batch"}}
            4 assistant.message done
            5 step.completed {"agent_id":"","model":"opus","response_id":"m2","usage":{"input_tokens":3,"output_tokens":2,"mode":"fast"}}
            6 assistant.message done
            7 step.completed {"agent_id":"","model":"opus","response_id":"m3","usage":{"input_tokens":3,"output_tokens":2}}
        "#]],
    );
    assert_eq!(sink.events().count(), 7);
}

#[test]
fn sums_of_the_agent_are_told_once() {
    let state = |cost: &str, is_partly_unknown: bool| {
        format!(
            "{{\"type\":\"cost-state\",\"sessionId\":\"s\",\"modelUsage\":{{\"opus\":{{\"inputTokens\":3,\"costUSD\":{cost}}}}},\"hasUnknownModelCost\":{is_partly_unknown}}}\n"
        )
    };
    let sink = check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            &state("0.5", false),
            &state("0.5", false),
            &state("0.25", true),
            "{\"type\":\"cost-state\",\"modelUsage\":{}}\n",
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 usage.reported {"agent_id":"","models":[{"model":"opus","usage":{"input_tokens":3,"cost":0.5}}]}
        "#]],
    );
    assert_eq!(sink.sightings, 0);
}

#[test]
fn growing_usage_is_amended() {
    let sink = check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            &model("a1", 1, "m1", "null", 1, &text("first")),
            &model("a2", 2, "m1", "null", 9, &call("c1", "Bash", r#"{"command":"ls"}"#)),
            &user("u2", "a2", 3, &result("c1", "out"), ""),
            &model("a3", 4, "m1", "\"tool_use\"", 20, &call("c2", "Bash", r#"{"command":"pwd"}"#)),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 settings.changed {"model":"opus"}
            4 assistant.message first
            5 tool.call Bash: ls
            6 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":9}}
            7 tool.result out
            8 tool.call Bash: pwd
            9 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":20}}
        "#]],
    );
    let steps: Vec<StepCompleted> =
        sink.events().filter_map(|event| event.payload().unwrap()).collect();
    let outputs: Vec<_> =
        steps.iter().map(|step| step.usage.as_ref().unwrap().output_tokens.unwrap()).collect();
    assert_eq!(outputs, [9, 20]);
    let amends: Vec<_> = sink.events().filter_map(|event| event.amends()).collect();
    let first = sink.events().find(|event| event.kind == Kind::StepCompleted).unwrap();
    assert_eq!(amends, [first.id]);
}

#[test]
fn usage_at_the_end_of_a_dead_session_is_told() {
    check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            &model("a1", 1, "m1", "null", 7, &text("and then the light went out")),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 settings.changed {"model":"opus"}
            4 assistant.message and then the light went out
            5 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
        "#]],
    );
}

#[test]
fn a_rewind_is_a_prompt_that_goes_back() {
    let sink = check_lines(
        &[
            &user("u1", "", 0, r#""one""#, ""),
            &model("a1", 1, "m1", "\"end_turn\"", 7, &text("first")),
            &user("u2", "a1", 2, r#""two""#, ""),
            &model("a2", 3, "m2", "\"end_turn\"", 7, &text("second")),
            &user("u3", "a1", 4, r#""two, but better""#, ""),
            &model("a3", 5, "m3", "\"end_turn\"", 7, &text("third")),
            &user("u4", "a3", 6, r#""go on""#, ""),
            &user("u5", "", 7, r#""from the beginning""#, ""),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt one
            3 settings.changed {"model":"opus"}
            4 assistant.message first
            5 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
            6 user.prompt two
            7 assistant.message second
            8 step.completed {"agent_id":"","model":"opus","response_id":"m2","usage":{"input_tokens":3,"output_tokens":7}}
            9 user.prompt two, but better
            10 assistant.message third
            11 step.completed {"agent_id":"","model":"opus","response_id":"m3","usage":{"input_tokens":3,"output_tokens":7}}
            12 user.prompt go on
            13 user.prompt from the beginning
        "#]],
    );
    let back: Vec<(String, Option<u64>)> = sink
        .events()
        .filter(|event| event.kind == Kind::UserPrompt)
        .map(|event| {
            let to = event.parent_id.map(|id| sink.events().find(|to| to.id == id).unwrap().seq);
            (event.text.clone().unwrap(), to)
        })
        .collect();
    let expected = [
        ("one", None),
        ("two", None),
        ("two, but better", Some(5)),
        ("go on", None),
        ("from the beginning", Some(1)),
    ];
    assert_eq!(back, expected.map(|(text, to)| (text.to_owned(), to)));
}

#[test]
fn only_what_a_person_typed_is_a_prompt() {
    let said = [
        r#""<div>why is this broken?""#,
        r#""/home/dev/x is broken""#,
        r#"[{"type":"text","text":"<ide_opened_file>a.rs</ide_opened_file>"},{"type":"text","text":"look"}]"#,
        r#"[{"type":"text","text":"what is this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]"#,
        r#""<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args>opus</command-args>""#,
        r#""<command-message>review</command-message>\n<command-name>/review</command-name>""#,
        r#""<local-command-stdout>Set model to opus</local-command-stdout>""#,
        r#""<local-command-caveat>Caveat: not for you</local-command-caveat>""#,
        r#""<bash-input>ls</bash-input>""#,
        r#""<bash-stdout>a b</bash-stdout><bash-stderr></bash-stderr>""#,
        r#""<task-notification><task-id>x</task-id></task-notification>""#,
        r#""<system-reminder>be brief</system-reminder>""#,
        r#""[Request interrupted by user for tool use]""#,
    ];
    let lines: Vec<String> = said
        .iter()
        .enumerate()
        .map(|(at, said)| user(&format!("u{at}"), &format!("p{at}"), at as u32, said, ""))
        .collect();
    let meta = user("m1", "", 50, r#""Base directory for this skill""#, r#","isMeta":true"#);
    let task = user("m2", "", 51, r#""count the lines""#, r#","isSidechain":true"#);
    let told = user("m3", "", 52, r#""done""#, r#","turnOrigin":"task_notification""#);
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.extend([meta.as_str(), &task, &told]);
    check_lines(
        &lines,
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt <div>why is this broken?
            3 user.prompt /home/dev/x is broken
            4 context.added <ide_opened_file>a.rs</ide_opened_file>
            5 user.prompt look
            6 user.prompt what is this?
            7 note /model opus
            8 note /review
            9 note Set model to opus
            10 note Caveat: not for you
            11 note !ls
            12 note a b
            13 context.added <task-notification><task-id>x</task-id></task-notification>
            14 context.added <system-reminder>be brief</system-reminder>
            15 turn.completed {"agent_id":"","stop_reason":"interrupted"}
            16 context.added Base directory for this skill
            17 context.added count the lines
            18 context.added done
        "#]],
    );
}

#[test]
fn a_queued_prompt_counts_when_it_is_handed_over() {
    check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            "{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"timestamp\":\"2026-01-01T00:00:01Z\",\"content\":\"and hurry\"}\n",
            "{\"type\":\"queue-operation\",\"operation\":\"remove\",\"timestamp\":\"2026-01-01T00:00:02Z\"}\n",
            &line(
                "attachment",
                "q1",
                "",
                3,
                r#""attachment":{"type":"queued_command","commandMode":"prompt","prompt":"and hurry"}"#,
            ),
            &line(
                "attachment",
                "q2",
                "",
                4,
                r#""attachment":{"type":"queued_command","commandMode":"task-notification","prompt":"a task is done"}"#,
            ),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 note a prompt waits
            4 user.prompt and hurry
            5 context.added a task is done
        "#]],
    );
}

#[test]
fn what_a_crash_left_open_is_repaired_not_failed() {
    let sink = check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            &model("a1", 1, "m1", "\"tool_use\"", 7, &call("c1", "Bash", r#"{"command":"make"}"#)),
            &user(
                "u2",
                "a1",
                60,
                &result("c1", "interrupted"),
                r#","toolDenialKind":"interrupted""#,
            ),
            &line(
                "assistant",
                "a2",
                "u2",
                61,
                r#""message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"No response requested."}],"usage":{"output_tokens":0}}"#,
            ),
            &user("u3", "a2", 62, r#""go on""#, ""),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 settings.changed {"model":"opus"}
            4 tool.call Bash: make
            5 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
            6 tool.result interrupted
            7 note No response requested.
            8 user.prompt go on
        "#]],
    );
    let result = sink.events().find_map(|event| event.payload::<ToolResult>().unwrap()).unwrap();
    assert!(result.repair);
    assert_eq!(result.outcome, Outcome::Lost);
}

#[test]
fn a_question_waits_for_its_answer() {
    let question = r#"{"questions":[{"question":"Which one?","options":[]}]}"#;
    check_lines(
        &[
            &model("a1", 1, "m1", "\"tool_use\"", 7, &call("c1", "AskUserQuestion", question)),
            &user(
                "u1",
                "a1",
                2,
                &result("c1", "The first."),
                r#","toolUseResult":{"answers":{"Which one?":"The first."}}"#,
            ),
            &model("a2", 3, "m2", "\"tool_use\"", 7, &call("c2", "AskUserQuestion", question)),
            &user("u2", "a2", 4, &result("c2", "No."), r#","toolDenialKind":"user-rejected""#),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude","model":"opus"}
            2 tool.call AskUserQuestion
            3 external.input Which one?
            4 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
            5 tool.result The first.
            6 external.input {"request_id":"c1","prompt":"","status":"received","input":{"answers":{"Which one?":"The first."}}}
            7 tool.call AskUserQuestion
            8 external.input Which one?
            9 step.completed {"agent_id":"","model":"opus","response_id":"m2","usage":{"input_tokens":3,"output_tokens":7}}
            10 tool.result No.
            11 external.input {"request_id":"c2","prompt":"","status":"canceled"}
        "#]],
    );
}

#[test]
fn rejection_in_words_is_a_decision() {
    let rejected = r#","toolUseResult":"User rejected tool use""#;
    check_lines(
        &[
            &user("u1", "", 1, "\"Mark it.\"", r#","permissionMode":"default""#),
            &model("a1", 2, "m1", "\"tool_use\"", 1, &call("c1", "Bash", r#"{"command":"ls"}"#)),
            &user("u2", "a1", 3, &result("c1", "No."), rejected),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude","permission_mode":"default"}
            2 user.prompt Mark it.
            3 settings.changed {"model":"opus"}
            4 tool.call Bash: ls
            5 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":1}}
            6 approval.resolved {"approval_id":"c1","decision":"deny","by":"person","automated":false}
            7 tool.result No.
        "#]],
    );
}

#[test]
fn a_subagent_in_the_background_ends_with_its_notification() {
    let task = r#"{"description":"look","prompt":"look around","subagent_type":"Explore"}"#;
    let launched =
        r#","toolUseResult":{"status":"async_launched","agentId":"a77","agentType":"Explore"}"#;
    let done = r#""<task-notification><task-id>a77</task-id><tool-use-id>c1</tool-use-id><status>completed</status><summary>nothing there</summary></task-notification>""#;
    check_files(
        &[
            (
                "s.jsonl",
                &[
                    &user("u1", "", 0, r#""go""#, ""),
                    &model("a1", 1, "m1", "\"tool_use\"", 7, &call("c1", "Agent", task)),
                    &user("u2", "a1", 2, &result("c1", "It runs."), launched),
                    &user("u3", "u2", 30, done, r#","promptId":"p2""#),
                ],
            ),
            (
                "s/subagents/workflows/run-1/agent-a77.jsonl",
                &[&user("k1", "", 3, r#""look around""#, r#","isSidechain":true,"agentId":"a77""#)],
            ),
            (
                "agent-old.jsonl",
                &[&user(
                    "k2",
                    "",
                    3,
                    r#""an older one""#,
                    r#","isSidechain":true,"sessionId":"s""#,
                )],
            ),
        ],
        expect![[r#"
            == claude:agent-a77
            1 session.started {"agent":"claude","parent":{"session_id":"claude:s","seq":0},"mode":"child"}
            2 context.added look around
            == claude:agent-old
            1 session.started {"agent":"claude","parent":{"session_id":"claude:s","seq":0},"mode":"child"}
            2 context.added an older one
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 settings.changed {"model":"opus"}
            4 tool.call Agent: look around
            5 child.requested {"child_id":"c1","child_session_id":"","agent_id":"Explore","task":"look around","parent_event_id":"01KDVDNAZ8RHXS6YP38M
            6 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
            7 tool.result It runs.
            8 child.started {"child_id":"c1","child_session_id":"claude:agent-a77","agent_id":"Explore"}
            9 context.added <task-notification><task-id>a77</task-id><tool-use-id>c1</tool-use-id><status>completed</status><summary>nothing there</
            10 child.completed {"child_id":"c1","child_session_id":"claude:agent-a77","summary":"nothing there"}
        "#]],
    );
}

#[test]
fn a_persons_title_wins() {
    check_lines(
        &[
            "{\"type\":\"summary\",\"summary\":\"An old one\",\"leafUuid\":\"x\"}\n",
            &user("u1", "", 0, r#""go""#, ""),
            "{\"type\":\"ai-title\",\"aiTitle\":\"Going\"}\n",
            "{\"type\":\"custom-title\",\"customTitle\":\"My work\"}\n",
            "{\"type\":\"ai-title\",\"aiTitle\":\"Going on\"}\n",
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude","title":"An old one"}
            2 user.prompt go
            3 settings.changed {"title":"Going"}
            4 settings.changed {"title":"My work"}
        "#]],
    );
}

#[test]
fn what_is_not_understood_is_kept_and_the_rest_is_read() {
    check_lines(
        &[
            &user("u1", "", 0, r#""go""#, ""),
            &line("teleport", "x1", "", 1, r#""to":"home""#),
            &line("system", "x2", "", 2, r#""subtype":"hiccup""#),
            &line("user", "x3", "", 3, r#""message":"not a message""#),
            &line(
                "assistant",
                "x4",
                "",
                4,
                r#""message":{"id":"m1","model":"opus","content":[{"type":"hologram"},{"type":"text","text":"seen?"}]}"#,
            ),
            "[1, 2]\n",
            "no json at all\n",
            &user("u2", "u1", 9, r#""still there?""#, ""),
        ],
        expect![[r#"
            == claude:s
            1 session.started {"agent":"claude"}
            2 user.prompt go
            3 unknown {"raw":{"type":"teleport","uuid":"x1","parentUuid":null,"timestamp":"2026-01-01T00:00:01Z","to":"home"},"record_type":"t
            4 unknown {"raw":{"type":"system","uuid":"x2","parentUuid":null,"timestamp":"2026-01-01T00:00:02Z","subtype":"hiccup"},"record_typ
            5 unknown {"raw":{"type":"user","uuid":"x3","parentUuid":null,"timestamp":"2026-01-01T00:00:03Z","message":"not a message"},"recor
            6 settings.changed {"model":"opus"}
            7 unknown {"raw":{"type":"assistant","uuid":"x4","parentUuid":null,"timestamp":"2026-01-01T00:00:04Z","message":{"id":"m1","model"
            8 assistant.message seen?
            9 unknown {"raw":[1, 2],"record_type":"no record","error":"it is not an object"}
            10 unknown {"raw":"no json at all","record_type":"no record","error":"it is not an object"}
            11 user.prompt still there?
        "#]],
    );
}

#[test]
fn a_fork_of_a_fork_tells_only_what_is_its_own() {
    let first = [
        user("u1", "", 0, r#""one""#, ""),
        model("a1", 1, "m1", "\"end_turn\"", 7, &text("first")),
    ];
    let second = [
        user("u2", "a1", 60, r#""two""#, ""),
        model("a2", 61, "m2", "\"end_turn\"", 7, &text("second")),
    ];
    let third = [user("u3", "a2", 120, r#""three""#, "")];
    // A copy begins with a mark of its own time.
    let mark = |at: u32| {
        format!(
            "{{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"content\":\"…\",\"timestamp\":\"2026-01-01T00:{at:02}:00Z\"}}\n"
        )
    };
    let (mark_1, mark_2) = (mark(1), mark(2));
    // The times of their files would have them read in the wrong order.
    check_files(
        &[
            ("a-fork.jsonl", &[&mark_2, &first[0], &first[1], &second[0], &second[1], &third[0]]),
            ("b-fork.jsonl", &[&mark_1, &first[0], &first[1], &second[0], &second[1]]),
            ("c-root.jsonl", &[&first[0], &first[1]]),
        ],
        expect![[r#"
            == claude:a-fork
            1 session.started {"agent":"claude","model":"opus","parent":{"session_id":"claude:b-fork","seq":4},"mode":"fork"}
            2 user.prompt three
            == claude:b-fork
            1 session.started {"agent":"claude","model":"opus","parent":{"session_id":"claude:c-root","seq":5},"mode":"fork"}
            2 user.prompt two
            3 assistant.message second
            4 step.completed {"agent_id":"","model":"opus","response_id":"m2","usage":{"input_tokens":3,"output_tokens":7}}
            == claude:c-root
            1 session.started {"agent":"claude"}
            2 user.prompt one
            3 settings.changed {"model":"opus"}
            4 assistant.message first
            5 step.completed {"agent_id":"","model":"opus","response_id":"m1","usage":{"input_tokens":3,"output_tokens":7}}
        "#]],
    );
}

#[test]
fn unknown_records_are_counted_by_version() {
    let mut home = Home::new();
    let line = |kind: &str, version: &str, number: u32| {
        format!(
            r#"{{"type":"{kind}","uuid":"u{number}","version":"{version}","timestamp":"2026-01-01T00:00:0{number}Z","message":{{"content":"go"}}}}"#
        ) + "\n"
    };
    let lines = [line("user", "2.1.1", 0), line("news", "2.2.0", 1), line("news", "2.2.0", 2)];
    home.write(".claude/projects/-home-dev-app/s1.jsonl", &lines.concat());
    let warnings = home.read(agent("claude")).warnings;
    let said: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        said,
        ["2 records of kind `news` from claude 2.2.0 are not understood; they are kept"]
    );
}
