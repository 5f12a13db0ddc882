//! Qwen Code: recordings, and what its own source says of records that were not recorded.

use expect_test::{Expect, expect};

use crate::handmade::Home;
use crate::scenario::{agent, brief, check};
use crate::truth::check_usage;

#[test]
fn a_question_and_its_answer_are_told() {
    check(agent("qwen"), "s1");
}

#[test]
fn tools_are_told_with_their_results() {
    check(agent("qwen"), "s2");
}

#[test]
fn denial_and_interruption_are_told() {
    check(agent("qwen"), "s3_deny_tui");
}

#[test]
fn approvals_are_told() {
    check(agent("qwen"), "s3_approval_tui");
}

#[test]
fn usage_is_what_the_model_was_asked_for() {
    for scenario in ["s1", "s2", "s3_approval_tui"] {
        check_usage(agent("qwen"), scenario, &[]);
    }
}

/// Compares what the lines of one session tell in short.
#[track_caller]
fn check_lines(lines: &[&str], expected: Expect) {
    let mut home = Home::new();
    let lines: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(number, line)| {
            let at = format!(r#""timestamp":"2026-01-01T00:00:{number:02}Z""#);
            format!("{{\"uuid\":\"u{number}\",{at},{line}}}\n")
        })
        .collect();
    home.write(".qwen/projects/-home-dev-project/chats/s.jsonl", &lines.concat());
    home.read(agent("qwen"));
    expected.assert_eq(&brief(&home.sink));
}

#[test]
fn what_the_agent_says_in_a_persons_place_is_no_prompt() {
    check_lines(
        &[
            r#""type":"user","message":{"parts":[{"text":"go"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}"#,
            r#""type":"user","subtype":"mid_turn_user_message","message":{"parts":[{"text":"and hurry"}]}"#,
            r#""type":"user","subtype":"notification","message":{"parts":[{"text":"a task is done"}]}"#,
            r#""type":"user","isSidechain":true,"message":{"parts":[{"text":"count lines"}]}"#,
            r#""type":"system","subtype":"slash_command","systemPayload":{"phase":"invocation","rawCommand":"/model"}"#,
            r#""type":"system","subtype":"slash_command","systemPayload":{"phase":"result","rawCommand":"/model"}"#,
        ],
        expect![[r#"
            == qwen:s
            1 session.started {"agent":"qwen"}
            2 user.prompt "go"
            3 user.prompt "and hurry"
            4 context.added "a task is done"
            5 context.added "count lines"
            6 note "/model"
        "#]],
    );
}

#[test]
fn a_compression_and_a_rewind_are_told() {
    check_lines(
        &[
            r#""type":"user","parentUuid":null,"message":{"parts":[{"text":"one"}]}"#,
            r#""type":"assistant","parentUuid":"u0","model":"m","message":{"parts":[{"text":"first"}]}"#,
            r#""type":"user","parentUuid":"u1","message":{"parts":[{"text":"two"}]}"#,
            r#""type":"system","subtype":"rewind","parentUuid":"u1","systemPayload":{"truncatedCount":1}"#,
            r#""type":"user","parentUuid":"u3","message":{"parts":[{"text":"two again"}]}"#,
            r#""type":"system","subtype":"chat_compression","systemPayload":{"info":{"originalTokenCount":900},"compressedHistory":[{"parts":[{"text":"the short of it"}]}]}"#,
            r#""type":"system","subtype":"custom_title","systemPayload":{"customTitle":"Mine"}"#,
            r#""type":"system","subtype":"custom_title","systemPayload":{"customTitle":"Its","titleSource":"auto"}"#,
            r#""type":"system","subtype":"of_tomorrow","systemPayload":{}"#,
            r#""type":"system","subtype":"custom_title","systemPayload":{"customTitle":7}"#,
        ],
        expect![[r#"
            == qwen:s
            1 session.started {"agent":"qwen"}
            2 user.prompt "one"
            3 settings.changed {"model":"m"}
            4 assistant.message "first"
            5 user.prompt "two"
            6 note {"text":"rewound to 01KDVDNAZ85KAH2QTTH52NNJYH","about":"rewind"} behind 4
            7 user.prompt "two again" behind 4
            8 compaction {"strategy":"captured","current_tokens":900,"cutoff_seq":0,"entries":[{"role":"user","context_kind":"summary","placement":"prefix","content":[{"type":"text","text":"the short of it"}]}]}
            9 epoch.closed {"epoch":0,"cause":"compaction","from_seq":0,"to_seq":0,"day":"20260101","stream":"session:qwen:s","segment":"000000_5"}
            10 settings.changed {"title":"Mine"}
            11 unknown {"raw":{"uuid":"u8","timestamp":"2026-01-01T00:00:08Z","type":"system","subtype":"of_tomorrow","systemPayload":{}},"record_type":"system of_tomorrow"}
            12 unknown {"raw":{"uuid":"u9","timestamp":"2026-01-01T00:00:09Z","type":"system","subtype":"custom_title","systemPayload":{"customTitle":7}},"record_type":"custom_title","error":"invalid type: integer `7`, expected a string at line 1 column 16"}
        "#]],
    );
}

#[test]
fn compression_that_was_given_up_is_told() {
    let result = |status: u64| {
        let items = format!(
            r#"[{{"type":"info","text":"…"}},{{"type":"compression","compression":{{"compressionStatus":{status}}}}}]"#
        );
        format!(
            r#""type":"system","subtype":"slash_command","systemPayload":{{"phase":"result","rawCommand":"/compress","outputHistoryItems":{items}}}"#
        )
    };
    check_lines(
        &[
            r#""type":"user","message":{"parts":[{"text":"one"}]}"#,
            r#""type":"system","subtype":"slash_command","systemPayload":{"phase":"invocation","rawCommand":"/compress"}"#,
            &result(2),
            &result(1),
        ],
        expect![[r#"
            == qwen:s
            1 session.started {"agent":"qwen"}
            2 user.prompt "one"
            3 note "/compress"
            4 note "the history was not compressed"
        "#]],
    );
}

#[test]
fn question_waits_for_its_answer() {
    check_lines(
        &[
            r#""type":"assistant","model":"m","message":{"parts":[{"functionCall":{"id":"c1","name":"ask_user_question","args":{"questions":[{"question":"Which port?"}]}}}]}"#,
            r#""type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.tool_call","function_name":"ask_user_question","decision":"accept"}}"#,
            r#""type":"tool_result","message":{"parts":[{"functionResponse":{"id":"c1","name":"ask_user_question","response":{"output":"8080"}}}]}"#,
        ],
        expect![[r#"
            == qwen:s
            1 session.started {"agent":"qwen","model":"m"}
            2 tool.call "ask_user_question"
            3 external.input {"request_id":"c1","prompt":"Which port?","status":"pending"}
            4 tool.result "8080" behind 2
            5 external.input {"request_id":"c1","prompt":"","status":"received","input":"8080"}
        "#]],
    );
}

#[test]
fn a_denied_call_is_rejected_by_a_person() {
    check_lines(
        &[
            r#""type":"assistant","model":"m","message":{"parts":[{"functionCall":{"id":"c1","name":"edit","args":{"file_path":"a.rs"}}}]}"#,
            r#""type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.tool_call","function_name":"edit","decision":"reject","duration_ms":5}}"#,
            r#""type":"tool_result","message":{"parts":[{"functionResponse":{"id":"c1","name":"edit","response":{"error":"[Operation Cancelled]"}}}]},"toolCallResult":{"callId":"c1","status":"cancelled"}"#,
            r#""type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_error","error_message":"no credit","status_code":402}}"#,
        ],
        expect![[r#"
            == qwen:s
            1 session.started {"agent":"qwen","model":"m"}
            2 tool.call "edit: a.rs"
            3 approval.resolved {"approval_id":"c1","decision":"deny","by":"person","automated":false}
            4 tool.result "[Operation Cancelled]" behind 2
            5 error "no credit"
        "#]],
    );
}
