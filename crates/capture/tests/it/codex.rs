//! Codex: recordings, and the traps its rollouts hold.

use std::fs;

use capture::Agent;
use expect_test::{Expect, expect};

use crate::growth::check_growth;
use crate::handmade::Home;
use crate::mangled::check_mangled;
use crate::scenario::{agent, brief, recordings};
use crate::truth::check_usage;

fn codex() -> &'static dyn Agent {
    agent("codex")
}

recordings! { "codex":
    s1
    s2
    s2_classic
    s3_approval_tui
    s4_resume_headless
    s5_compact_tui
    s6_interrupt
    s6_kill9_stream
    s7_subagent
    s8_errors
    s9_fork
    s11_otel
    s14_appserver
    s15_daemon_tui
}

#[test]
fn any_split_tells_the_same() {
    for scenario in ["s2", "s2_classic", "s5_compact_tui", "s6_interrupt", "s7_subagent", "s9_fork"]
    {
        for step in [777, 20_011] {
            check_growth(codex(), scenario, step);
        }
    }
}

#[test]
fn nothing_in_a_file_is_too_odd_to_be_read() {
    for scenario in RECORDINGS {
        check_mangled(codex(), scenario);
    }
}

#[test]
fn every_answer_of_the_model_is_counted_once() {
    for scenario in RECORDINGS {
        // Of an answer that was cut off nothing is known.
        let unrecorded: &[&str] = match *scenario {
            "s6_interrupt" | "s8_errors" => &["resp_lab000005"],
            "s6_kill9_stream" => &["resp_lab000001"],
            _ => &[],
        };
        check_usage(codex(), scenario, unrecorded);
    }
}

const SESSIONS: &str = ".codex/sessions/2026/11/15";

/// Reads rollouts of these names, and compares what they tell.
#[track_caller]
fn check_told(rollouts: &[(&str, &str)], expected: Expect) {
    let mut home = Home::new();
    for (name, lines) in rollouts {
        home.write(&format!("{SESSIONS}/{name}"), lines);
    }
    home.read(codex());
    expected.assert_eq(&brief(&home.sink));
}

const MAIN: &str = "rollout-2026-11-15T10-00-00-00000000-0000-0000-0000-00000000000a.jsonl";
const LATER: &str = "rollout-2026-11-15T11-00-00-00000000-0000-0000-0000-00000000000b.jsonl";
const CONTINUED: &str = "rollout-2026-11-15T12-00-00-00000000-0000-0000-0000-00000000000a_00000000-0000-0000-0000-0000000000cc.jsonl";

/// A rollout of these lines, each a type and its payload, numbered from `first` on.
fn rollout(first: u64, lines: &[&str]) -> String {
    let number = |(number, line): (usize, &&str)| {
        let (kind, payload) = line.split_once(' ').expect("a type and a payload");
        let ordinal = first + number as u64;
        format!(
            r#"{{"timestamp":"2026-11-15T10:00:{ordinal:02}.000Z","ordinal":{ordinal},"type":"{kind}","payload":{payload}}}"#
        ) + "\n"
    };
    lines.iter().enumerate().map(number).collect()
}

fn two_turns() -> String {
    rollout(
        0,
        &[
            r#"session_meta {"id":"00000000-0000-0000-0000-00000000000a","cwd":"/home/dev"}"#,
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}"#,
            r#"response_item {"type":"message","role":"assistant","content":[{"type":"output_text","text":"answer one"}]}"#,
            r#"event_msg {"type":"task_complete","turn_id":"t1"}"#,
            r#"event_msg {"type":"task_started","turn_id":"t2"}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}"#,
            r#"event_msg {"type":"turn_aborted","turn_id":"t2","reason":"interrupted"}"#,
        ],
    )
}

/// Reads one rollout with these lines behind its head.
#[track_caller]
fn check_lines(lines: &[&str], expected: Expect) {
    let head = r#"session_meta {"id":"00000000-0000-0000-0000-00000000000a"}"#;
    check_told(&[(MAIN, &rollout(0, &[&[head], lines].concat()))], expected);
}

#[test]
fn a_continuation_takes_back_what_it_supersedes() {
    let continued = rollout(
        5,
        &[
            r#"session_meta {"id":"00000000-0000-0000-0000-00000000000a","cwd":"/home/dev"}"#,
            r#"event_msg {"type":"task_started","turn_id":"t3"}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"two again"}]}"#,
        ],
    );
    check_told(
        &[(CONTINUED, &continued), (MAIN, &two_turns())],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","cwd":"/home/dev"}
        2 turn.started {"agent_id":""}
        3 user.prompt "one"
        4 assistant.message "answer one"
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
        6 turn.started {"agent_id":""}
        7 user.prompt "two"
        8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
        9 note {"text":"rewound to 01M7FACM50HASSZPCAD29YRD0S","about":"rewind"} behind 5
        10 turn.started {"agent_id":""}
        11 user.prompt "two again" behind 5
    "#]],
    );
}

#[test]
fn a_fork_shows_its_parent_up_to_where_it_left() {
    let fork = rollout(
        5,
        &[
            r#"session_meta {"id":"00000000-0000-0000-0000-00000000000b","forked_from_id":"00000000-0000-0000-0000-00000000000a","forked_from_ordinal_exclusive":5}"#,
            r#"event_msg {"type":"task_started","turn_id":"t3"}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"another two"}]}"#,
        ],
    );
    check_told(
        &[(LATER, &fork), (MAIN, &two_turns())],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","cwd":"/home/dev"}
        2 turn.started {"agent_id":""}
        3 user.prompt "one"
        4 assistant.message "answer one"
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
        6 turn.started {"agent_id":""}
        7 user.prompt "two"
        8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
        == codex:00000000-0000-0000-0000-00000000000b
        1 session.started {"agent":"codex","parent":{"session_id":"codex:00000000-0000-0000-0000-00000000000a","seq":5},"mode":"fork"}
        2 turn.started {"agent_id":""}
        3 user.prompt "another two"
    "#]],
    );
}

#[test]
fn a_fork_that_repeats_its_parent_tells_only_its_own() {
    let fork = r#"{"timestamp":"2026-11-15T11:00:00.000Z","type":"session_meta","payload":{"id":"00000000-0000-0000-0000-00000000000b","forked_from_id":"00000000-0000-0000-0000-00000000000a"}}"#;
    let copy = two_turns().replace("T10:00", "T11:00").replace("\"ordinal\"", "\"was\"");
    let own = rollout(
        0,
        &[
            r#"event_msg {"type":"task_started","turn_id":"t3"}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"three"}]}"#,
        ],
    );
    let own = own.replace("\"ordinal\"", "\"was\"");
    let fork = format!("{fork}\n{copy}{own}");
    check_told(
        &[(LATER, &fork), (MAIN, &two_turns())],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","cwd":"/home/dev"}
        2 turn.started {"agent_id":""}
        3 user.prompt "one"
        4 assistant.message "answer one"
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
        6 turn.started {"agent_id":""}
        7 user.prompt "two"
        8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
        == codex:00000000-0000-0000-0000-00000000000b
        1 session.started {"agent":"codex","parent":{"session_id":"codex:00000000-0000-0000-0000-00000000000a","seq":8},"mode":"fork"}
        2 turn.started {"agent_id":""}
        3 user.prompt "three"
    "#]],
    );
}

#[test]
fn a_subagent_that_repeats_its_parent_works_for_it() {
    let head = r#"{"timestamp":"2026-11-15T11:00:00.000Z","type":"session_meta","payload":{"id":"00000000-0000-0000-0000-00000000000b","forked_from_id":"00000000-0000-0000-0000-00000000000a","parent_thread_id":"00000000-0000-0000-0000-00000000000a","thread_source":"subagent"}}"#;
    let lines = two_turns()
        + &rollout(
            8,
            &[
                r#"event_msg {"type":"task_started","turn_id":"t3"}"#,
                r#"response_item {"type":"message","role":"user","content":"the task"}"#,
            ],
        );
    let lines = lines.replace("T10:00", "T11:00").replace("\"ordinal\"", "\"was\"");
    let subagent = format!("{head}\n{lines}");
    check_told(
        &[(LATER, &subagent), (MAIN, &two_turns())],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex","cwd":"/home/dev"}
            2 turn.started {"agent_id":""}
            3 user.prompt "one"
            4 assistant.message "answer one"
            5 turn.completed {"agent_id":"","stop_reason":"completed"}
            6 turn.started {"agent_id":""}
            7 user.prompt "two"
            8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
            == codex:00000000-0000-0000-0000-00000000000b
            1 session.started {"agent":"codex","parent":{"session_id":"codex:00000000-0000-0000-0000-00000000000a","seq":0},"mode":"child"}
            2 turn.started {"agent_id":""}
            3 context.added "the task"
        "#]],
    );
}

#[test]
fn injected_text_is_no_prompt() {
    check_lines(
        &[
            r##"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /home/dev\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"},{"type":"input_text","text":"<environment_context>\n</environment_context>"}]}"##,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context> what does this tag mean?"}]}"#,
            r##"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"# Context from my IDE setup:\n\n## Open tabs:\n- a.rs\n\n## My request for Codex:\nFix it."},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}"##,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"<turn_aborted>\nOn purpose.\n</turn_aborted>"}]}"#,
            r#"response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"hook says so"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["hook.text"]}}"#,
        ],
        expect![[r##"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 context.added "# AGENTS.md instructions for /home/dev\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>\n<environment_context>\n</environment_context>"
            3 user.prompt "<environment_context> what does this tag mean?"
            4 context.added "# Context from my IDE setup:\n\n## Open tabs:\n- a.rs"
            5 user.prompt "Fix it."
            6 context.added "<turn_aborted>\nOn purpose.\n</turn_aborted>"
            7 context.added "hook says so"
        "##]],
    );
}

#[test]
fn screen_messages_stand_in_for_talk() {
    check_lines(
        &[
            r#"event_msg {"type":"task_started","model_context_window":1}"#,
            r#"event_msg {"type":"user_message","message":"hello"}"#,
            r#"event_msg {"type":"agent_reasoning","text":"greet back"}"#,
            r#"event_msg {"type":"exec_command_begin","call_id":"c1","command":["bash","-lc","ls"]}"#,
            r#"event_msg {"type":"exec_command_end","call_id":"c1","command":["bash","-lc","ls"],"stdout":"a\n","exit_code":2,"duration":{"secs":1,"nanos":5000000}}"#,
            r#"event_msg {"type":"agent_message","message":"hi"}"#,
            r#"event_msg {"type":"task_complete","last_agent_message":"hi"}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 user.prompt "hello"
            4 assistant.thinking "greet back"
            5 tool.call "exec_command: ls"
            6 tool.result "a\n" behind 5
            7 assistant.message "hi"
            8 turn.completed {"agent_id":"","stop_reason":"completed"}
        "#]],
    );
}

#[test]
fn the_first_versions_are_read() {
    let old = r#"{"id":"00000000-0000-0000-0000-00000000000a","timestamp":"2025-05-07T17:24:21.597Z","instructions":null,"git":{"branch":"main"}}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"list"}]}
{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Use ls."}]}
{"type":"function_call","id":"fc_1","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1"}
{"record_type":"state"}
{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"a\\nb\",\"metadata\":{\"exit_code\":1,\"duration_seconds\":0.1}}"}
{"type":"local_shell_call","call_id":"c2","status":"completed","action":{"type":"exec","command":["pwd"]}}
{"type":"function_call_output","call_id":"c2","output":{"content":"/home/dev","success":true}}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Two files."}]}
"#;
    check_told(
        &[(MAIN, old)],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","branch":"main"}
        2 user.prompt "list"
        3 assistant.thinking "Use ls."
        4 tool.call "shell: ls"
        5 tool.result "a\nb" behind 4
        6 tool.call "local_shell: pwd"
        7 tool.result "/home/dev" behind 6
        8 assistant.message "Two files."
    "#]],
    );
}

#[test]
fn usage_is_counted_once_in_either_form() {
    const COUNT: &str = r#"event_msg {"type":"token_count","info":{"total_token_usage":{"total_tokens":15},"last_token_usage":{"input_tokens":12,"cached_input_tokens":2,"output_tokens":3,"reasoning_output_tokens":1,"total_tokens":15}},"rate_limits":{"primary":{"used_percent":5.0}}}"#;
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"event_msg {"type":"token_count","info":null,"rate_limits":{"primary":null}}"#,
            COUNT,
            COUNT,
            r#"event_msg {"type":"task_started","turn_id":"t2"}"#,
            COUNT,
            r#"token_usage_record {"turn_id":"t2","response_id":"r2","usage":{"input_tokens":20,"cached_input_tokens":5,"output_tokens":4,"total_tokens":24},"thread_token_usage":{"total_tokens":39}}"#,
            r#"token_usage_record {"turn_id":"t2","response_id":"r2","usage":{"input_tokens":20,"cached_input_tokens":5,"output_tokens":4,"total_tokens":24},"thread_token_usage":{"total_tokens":39}}"#,
            r#"event_msg {"type":"token_count","info":{"total_token_usage":{"total_tokens":39},"last_token_usage":{"input_tokens":20,"cached_input_tokens":5,"output_tokens":4,"total_tokens":24}}}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 step.completed {"agent_id":"","usage":{"input_tokens":10,"output_tokens":3,"cache_read_tokens":2,"reasoning_tokens":1}}
            4 turn.started {"agent_id":""}
            5 step.completed {"agent_id":"","response_id":"r2","usage":{"input_tokens":15,"output_tokens":4,"cache_read_tokens":5,"reasoning_tokens":0}}
        "#]],
    );
}

#[test]
fn the_tier_of_a_thread_is_the_mode_of_its_requests() {
    let settings = |tier: &str| {
        format!(
            r#"event_msg {{"type":"thread_settings_applied","thread_settings":{{"service_tier":{tier}}}}}"#
        )
    };
    let count = |total: u64| {
        format!(
            r#"event_msg {{"type":"token_count","info":{{"total_token_usage":{{"total_tokens":{total}}},"last_token_usage":{{"input_tokens":12,"output_tokens":3,"total_tokens":15}}}}}}"#
        )
    };
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            &settings("\"priority\""),
            &count(15),
            &settings("\"default\""),
            &count(30),
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 step.completed {"agent_id":"","usage":{"input_tokens":12,"output_tokens":3,"cache_read_tokens":0,"reasoning_tokens":0,"mode":"priority"}}
            4 step.completed {"agent_id":"","usage":{"input_tokens":12,"output_tokens":3,"cache_read_tokens":0,"reasoning_tokens":0}}
        "#]],
    );
}

#[test]
fn turns_that_are_taken_back_leave_a_mark() {
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"response_item {"type":"message","role":"user","content":"one"}"#,
            r#"response_item {"type":"message","role":"assistant","content":"first"}"#,
            r#"event_msg {"type":"task_started","turn_id":"t2"}"#,
            r#"response_item {"type":"message","role":"user","content":"two"}"#,
            r#"response_item {"type":"message","role":"assistant","content":"second"}"#,
            r#"event_msg {"type":"task_started","turn_id":"t3"}"#,
            r#"response_item {"type":"message","role":"user","content":"three"}"#,
            r#"event_msg {"type":"thread_rolled_back","num_turns":2}"#,
            r#"event_msg {"type":"task_started","turn_id":"t4"}"#,
            r#"response_item {"type":"message","role":"user","content":"two, better"}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 user.prompt "one"
            4 assistant.message "first"
            5 turn.started {"agent_id":""}
            6 user.prompt "two"
            7 assistant.message "second"
            8 turn.started {"agent_id":""}
            9 user.prompt "three"
            10 note {"text":"rewound to 01M7FACK5RN8M5NAPVZHKFT71E","about":"rewind"} behind 4
            11 turn.started {"agent_id":""}
            12 user.prompt "two, better" behind 4
        "#]],
    );
}

#[test]
fn the_task_of_a_subagent_is_no_prompt() {
    let lines = rollout(
        0,
        &[
            r#"session_meta {"id":"00000000-0000-0000-0000-00000000000a","thread_source":"subagent","source":{"subagent":{"thread_spawn":{"parent_thread_id":"00000000-0000-0000-0000-00000000000f"}}},"originator":"codex_cli_rs"}"#,
            r#"response_item {"type":"message","role":"user","content":"count the lines"}"#,
            r#"response_item {"type":"message","role":"assistant","content":"three"}"#,
            r#"response_item {"type":"message","role":"user","content":"now the words"}"#,
        ],
    );
    check_told(
        &[(MAIN, &lines)],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","entry_point":"codex_cli_rs","parent":{"session_id":"codex:00000000-0000-0000-0000-00000000000f","seq":0},"mode":"child"}
        2 context.added "count the lines"
        3 assistant.message "three"
        4 user.prompt "now the words"
    "#]],
    );
}

#[test]
fn calls_end_with_their_results() {
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"response_item {"type":"web_search_call","status":"completed","action":{"type":"search","query":"rust"}}"#,
            r#"response_item {"type":"function_call","name":"request_user_input","call_id":"q1","arguments":"{\"questions\":[{\"question\":\"Which one?\"}]}"}"#,
            r#"response_item {"type":"function_call_output","call_id":"q1","output":"{\"answers\":{}}"}"#,
            r#"response_item {"type":"function_call","name":"exec_command","call_id":"c1","arguments":"{\"cmd\":\"sleep 9\"}"}"#,
            r#"response_item {"type":"function_call_output","call_id":"c1","output":"Process running with session ID 1\nOutput:\n"}"#,
            r#"event_msg {"type":"item_completed","turn_id":"t1","item":{"type":"CommandExecution","id":"c1","command":["sleep","9"],"status":"completed","exit_code":0}}"#,
            r#"response_item {"type":"custom_tool_call","name":"apply_patch","call_id":"p1","input":"*** Begin Patch\n*** Delete File: a.rs\n*** End Patch"}"#,
            r#"event_msg {"type":"item_completed","turn_id":"t1","item":{"type":"FileChange","id":"p1","changes":{},"status":"declined"}}"#,
            r#"response_item {"type":"custom_tool_call_output","call_id":"p1","output":"patch rejected by user"}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 tool.call "web_search: rust"
            4 tool.result {"call_id":"rollout-2026-11-15T10-00-00-00000000-0000-0000-0000-00000000000a.jsonl@252","outcome":"ok"} behind 3
            5 tool.call "request_user_input"
            6 external.input {"request_id":"q1","prompt":"Which one?","status":"pending"}
            7 tool.result "{\"answers\":{}}" behind 5
            8 external.input {"request_id":"q1","prompt":"","status":"received","input":"{\"answers\":{}}"}
            9 tool.call "exec_command: sleep 9"
            10 tool.result "Process running with session ID 1\nOutput:\n" behind 9
            11 tool.call "apply_patch: a.rs"
            12 tool.result "patch rejected by user" behind 11
        "#]],
    );
}

#[test]
fn a_command_in_the_background_ends_once_however_that_is_told() {
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"event_msg {"type":"item_completed","turn_id":"t1","item":{"type":"UserMessage","id":"u1","content":[]}}"#,
            r#"response_item {"type":"function_call","name":"exec_command","call_id":"c1","arguments":"{\"cmd\":\"npm start\"}"}"#,
            r#"response_item {"type":"function_call_output","call_id":"c1","output":"Process running with session ID 7\nOutput:\n"}"#,
            r#"response_item {"type":"function_call","name":"write_stdin","call_id":"w1","arguments":"{\"session_id\":7,\"chars\":\"\"}"}"#,
            r#"response_item {"type":"function_call_output","call_id":"w1","output":"Process running with session ID 7\nOutput:\nhi"}"#,
            r#"response_item {"type":"function_call","name":"write_stdin","call_id":"w2","arguments":"{\"session_id\":7,\"chars\":\"\"}"}"#,
            r#"response_item {"type":"function_call_output","call_id":"w2","output":"Process exited with code 3\nOutput:\n"}"#,
            r#"event_msg {"type":"item_completed","turn_id":"t1","item":{"type":"CommandExecution","id":"c1","command":["npm","start"],"status":"failed","exit_code":3}}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 user.prompt ""
            4 tool.call "exec_command: npm start"
            5 tool.result "Process running with session ID 7\nOutput:\n" behind 4
            6 tool.call "write_stdin"
            7 tool.result "Process running with session ID 7\nOutput:\nhi" behind 6
            8 tool.call "write_stdin"
            9 tool.result "Process exited with code 3\nOutput:\n" behind 8
            10 tool.result {"call_id":"c1","outcome":"error","exit_code":3} behind 4
        "#]],
    );
}

#[test]
fn a_compaction_is_told_once() {
    check_lines(
        &[
            r#"event_msg {"type":"task_started","turn_id":"t1"}"#,
            r#"response_item {"type":"message","role":"user","content":"go"}"#,
            r#"compacted {"message":"It went."}"#,
            r#"event_msg {"type":"context_compacted"}"#,
            r#"response_item {"type":"message","role":"assistant","content":"on"}"#,
            r#"event_msg {"type":"item_completed","item":{"type":"ContextCompaction","id":"i1"}}"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 turn.started {"agent_id":""}
            3 user.prompt "go"
            4 compaction {"strategy":"captured","cutoff_seq":0,"entries":[{"role":"user","context_kind":"summary","placement":"prefix","content":[{"type":"text","text":"It went."}]}]}
            5 epoch.closed {"epoch":0,"cause":"compaction","from_seq":0,"to_seq":0,"day":"20261115","stream":"session:codex:00000000-0000-0000-0000-00000000000a","segment":"100002_1"}
            6 assistant.message "on"
            7 compaction {"strategy":"captured","cutoff_seq":0,"entries":[]}
            8 epoch.closed {"epoch":1,"cause":"compaction","from_seq":0,"to_seq":0,"day":"20261115","stream":"session:codex:00000000-0000-0000-0000-00000000000a","segment":"100005_1"}
        "#]],
    );
}

#[test]
fn unparsed_records_are_kept() {
    check_lines(
        &[
            r#"future_record {"a":1}"#,
            r#"event_msg {"type":"future_event"}"#,
            r#"event_msg {"type":"item_completed","item":{"type":"FutureItem"}}"#,
            r#"response_item {"type":"future_item"}"#,
            r#"response_item {"type":"message","role":7}"#,
            r#"turn_context []"#,
            r#"session_meta 3"#,
            r#"event_msg null"#,
        ],
        expect![[r#"
            == codex:00000000-0000-0000-0000-00000000000a
            1 session.started {"agent":"codex"}
            2 unknown {"raw":{"timestamp":"2026-11-15T10:00:01.000Z","ordinal":1,"type":"future_record","payload":{"a":1}},"record_type":"future_record"}
            3 unknown {"raw":{"timestamp":"2026-11-15T10:00:02.000Z","ordinal":2,"type":"event_msg","payload":{"type":"future_event"}},"record_type":"future_event"}
            4 unknown {"raw":{"timestamp":"2026-11-15T10:00:03.000Z","ordinal":3,"type":"event_msg","payload":{"type":"item_completed","item":{"type":"FutureItem"}}},"record_type":"item_completed FutureItem"}
            5 unknown {"raw":{"timestamp":"2026-11-15T10:00:04.000Z","ordinal":4,"type":"response_item","payload":{"type":"future_item"}},"record_type":"future_item"}
            6 unknown {"raw":{"timestamp":"2026-11-15T10:00:05.000Z","ordinal":5,"type":"response_item","payload":{"type":"message","role":7}},"record_type":"response_item","error":"invalid type: integer `7`, expected a string at line 1 column 26"}
            7 unknown {"raw":{"timestamp":"2026-11-15T10:00:06.000Z","ordinal":6,"type":"turn_context","payload":[]},"record_type":"turn_context","error":"invalid length 0, expected struct TurnContext with 5 elements at line 1 column 2"}
            8 unknown {"raw":{"timestamp":"2026-11-15T10:00:07.000Z","ordinal":7,"type":"session_meta","payload":3},"record_type":"session_meta","error":"invalid type: integer `3`, expected struct Meta at line 1 column 1"}
            9 unknown {"raw":{"timestamp":"2026-11-15T10:00:08.000Z","ordinal":8,"type":"event_msg","payload":null},"record_type":"event_msg"}
        "#]],
    );
}

#[test]
fn a_name_without_a_thread_gets_it_from_the_head() {
    check_told(
        &[("rollout-copy.jsonl", &two_turns())],
        expect![[r#"
        == codex:00000000-0000-0000-0000-00000000000a
        1 session.started {"agent":"codex","cwd":"/home/dev"}
        2 turn.started {"agent_id":""}
        3 user.prompt "one"
        4 assistant.message "answer one"
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
        6 turn.started {"agent_id":""}
        7 user.prompt "two"
        8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
    "#]],
    );
}

#[test]
fn a_rollout_that_is_archived_or_packed_is_the_same() {
    let mut home = Home::new();
    let live = home.path().join(SESSIONS).join(MAIN);
    let archived = home.path().join(".codex/archived_sessions").join(MAIN);
    let lines = format!("{}{}", two_turns(), rollout(8, &[r#"future_record {"a":1}"#]));
    home.write(&format!("{SESSIONS}/{MAIN}"), &lines);
    home.read(codex());
    let before = brief(&home.sink);
    fs::create_dir_all(archived.parent().unwrap()).unwrap();
    fs::rename(&live, &archived).unwrap();
    home.read(codex());
    assert_eq!(brief(&home.sink), before);
    let packed = zstd::encode_all(lines.as_bytes(), 3).unwrap();
    fs::write(archived.with_extension("jsonl.zst"), &packed).unwrap();
    fs::remove_file(&archived).unwrap();
    home.read(codex());
    assert_eq!(brief(&home.sink), before);
}
