//! pi: recordings, and the traps its trees hold.

use capture::Agent;
use expect_test::{Expect, expect};

use crate::growth::check_growth;
use crate::handmade::Home;
use crate::mangled::check_mangled;
use crate::scenario::{agent, brief, check};
use crate::truth::check_usage;

fn pi() -> &'static dyn Agent {
    agent("pi")
}

#[test]
fn s1() {
    check(pi(), "s1");
}

#[test]
fn s2() {
    check(pi(), "s2");
}

#[test]
fn s5_compact_tree_tui() {
    check(pi(), "s5_compact_tree_tui");
}

#[test]
fn any_split_tells_the_same() {
    for scenario in ["s2", "s5_compact_tree_tui"] {
        check_growth(pi(), scenario, 97);
    }
}

#[test]
fn nothing_in_a_file_is_too_odd_to_be_read() {
    for scenario in ["s1", "s2", "s5_compact_tree_tui"] {
        check_mangled(pi(), scenario);
    }
}

#[test]
fn every_answer_of_the_model_is_counted_once() {
    check_usage(pi(), "s1", &[]);
    // What a summary used is not written down.
    check_usage(pi(), "s5_compact_tree_tui", &["chatcmpl_lab000011"]);
}

const ONE: &str = ".pi/agent/sessions/--home-dev--/2026-11-15T10-00-00-000Z_one.jsonl";
const TWO: &str = ".pi/agent/sessions/--home-dev--/2026-11-15T11-00-00-000Z_two.jsonl";

/// A tree of these entries, each an id, its parent's id, a type and the rest.
fn tree(head: &str, entries: &[&str]) -> String {
    let numbered = |(number, entry): (usize, &&str)| {
        let mut words = entry.splitn(4, ' ');
        let mut word = || words.next().expect("id, parent, type and the rest");
        let (id, parent, kind, rest) = (word(), word(), word(), word());
        let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(
            r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"2026-11-15T10:00:{number:02}.000Z",{rest}}}"#
        ) + "\n"
    };
    format!("{head}\n") + &entries.iter().enumerate().map(numbered).collect::<String>()
}

const HEAD: &str = r#"{"type":"session","version":3,"id":"one","timestamp":"2026-11-15T10:00:00.000Z","cwd":"/home/dev"}"#;

const TALK: [&str; 5] = [
    r#"m - model_change "provider":"lab","modelId":"lab-model""#,
    r#"a m message "message":{"role":"user","content":"one"}"#,
    r#"b a message "message":{"role":"assistant","content":[{"type":"text","text":"first"}],"stopReason":"stop","usage":{"input":3,"output":1}}"#,
    r#"c b message "message":{"role":"user","content":[{"type":"text","text":"two"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#,
    r#"d c message "message":{"role":"assistant","content":[],"stopReason":"aborted","usage":{"input":0,"output":0}}"#,
];

#[track_caller]
fn check_tree(entries: &[&str], expected: Expect) {
    let mut home = Home::new();
    home.write(ONE, &tree(HEAD, &[&TALK, entries].concat()));
    home.read(pi());
    expected.assert_eq(&brief(&home.sink));
}

#[test]
fn a_prompt_further_back_in_the_tree_is_a_rewind() {
    check_tree(
        &[
            r#"e b message "message":{"role":"user","content":"two, better"}"#,
            r#"f m message "message":{"role":"user","content":"one, better"}"#,
            r#"s d branch_summary "fromId":"f","summary":"It was tried.""#,
            r#"g s message "message":{"role":"user","content":"three"}"#,
        ],
        expect![[r#"
            == pi:one
            1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev"}
            2 user.prompt "one"
            3 assistant.message "first"
            4 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":3,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0}}
            5 turn.completed {"agent_id":"","stop_reason":"completed"}
            6 user.prompt "two"
            7 step.completed {"agent_id":"","model":"lab-model"}
            8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
            9 note {"text":"rewound to 01M7FACJ6GQ6JJ60KWT44H8K8W","about":"rewind"} behind 5
            10 user.prompt "two, better" behind 5
            11 note {"text":"rewound to 01M7FACH78NES5Y2CWJ17CSTCZ","about":"rewind"} behind 1
            12 user.prompt "one, better" behind 1
            13 note {"text":"rewound to 01M7FACM50NDM5VYS4ATDC3FG0","about":"rewind"} behind 8
            14 context.added "It was tried."
            15 user.prompt "three" behind 8
        "#]],
    );
}

#[test]
fn failures_notes_and_unknown_records() {
    check_tree(
        &[
            r#"e d message "message":{"role":"bashExecution","command":"ls","output":"a\nb\n","exitCode":0}"#,
            r#"f e session_info "name":"My work""#,
            r#"g f message "message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"false"}}],"stopReason":"toolUse","usage":{"input":1,"output":1,"cost":{"total":0.00125}}}"#,
            r#"h g message "message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"no\n\nCommand exited with code 1"}],"isError":true}"#,
            r#"i h message "message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"overloaded"}"#,
            r#"j i custom_message "customType":"x","content":"from an extension","display":true"#,
            r#"k j label "targetId":"a","label":"start""#,
            r#"l k future_entry "a":1"#,
            r#"n l message "message":{"role":"future"}"#,
        ],
        expect![[r#"
            == pi:one
            1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev"}
            2 user.prompt "one"
            3 assistant.message "first"
            4 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":3,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0}}
            5 turn.completed {"agent_id":"","stop_reason":"completed"}
            6 user.prompt "two"
            7 step.completed {"agent_id":"","model":"lab-model"}
            8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
            9 note "! ls\na\nb"
            10 settings.changed {"title":"My work"}
            11 tool.call "bash: false"
            12 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":1,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0,"cost":0.00125}}
            13 tool.result "no\n\nCommand exited with code 1" behind 11
            14 step.completed {"agent_id":"","model":"lab-model","error":"overloaded"}
            15 error "overloaded"
            16 turn.completed {"agent_id":"","error":"overloaded"}
            17 context.added "from an extension"
            18 note "start"
            19 unknown {"raw":{"type":"future_entry","id":"l","parentId":"k","timestamp":"2026-11-15T10:00:12.000Z","a":1},"record_type":"future_entry"}
            20 unknown {"raw":{"type":"message","id":"n","parentId":"l","timestamp":"2026-11-15T10:00:13.000Z","message":{"role":"future"}},"record_type":"message future"}
        "#]],
    );
}

#[test]
fn block_of_unknown_type_is_kept() {
    check_tree(
        &[
            r#"e d message "message":{"role":"assistant","content":[{"type":"future","a":1},{"type":"text","text":"seen"}],"stopReason":"stop"}"#,
        ],
        expect![[r#"
            == pi:one
            1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev"}
            2 user.prompt "one"
            3 assistant.message "first"
            4 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":3,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0}}
            5 turn.completed {"agent_id":"","stop_reason":"completed"}
            6 user.prompt "two"
            7 step.completed {"agent_id":"","model":"lab-model"}
            8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
            9 assistant.message "seen"
            10 step.completed {"agent_id":"","model":"lab-model"}
            11 turn.completed {"agent_id":"","stop_reason":"completed"}
            12 unknown {"raw":{"type":"message","id":"e","parentId":"d","timestamp":"2026-11-15T10:00:05.000Z","message":{"role":"assistant","content":[{"type":"future","a":1},{"type":"text","text":"seen"}],"stopReason":"stop"}},"record_type":"assistant future"}
        "#]],
    );
}

#[test]
fn a_fork_is_told_from_where_it_leaves() {
    let mut home = Home::new();
    home.write(ONE, &tree(HEAD, &TALK));
    let head = format!(
        r#"{{"type":"session","version":3,"id":"two","timestamp":"2026-11-15T11:00:00.000Z","cwd":"/home/dev","parentSession":"/home/dev/{ONE}"}}"#
    );
    let own = [r#"x b message "message":{"role":"user","content":"another two"}"#];
    home.write(TWO, &tree(&head, &[&TALK[..3], &own].concat()));
    home.read(pi());
    expect![[r#"
        == pi:one
        1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev"}
        2 user.prompt "one"
        3 assistant.message "first"
        4 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":3,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0}}
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
        6 user.prompt "two"
        7 step.completed {"agent_id":"","model":"lab-model"}
        8 turn.completed {"agent_id":"","stop_reason":"interrupted"}
        == pi:two
        1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev","parent":{"session_id":"pi:one","seq":5},"mode":"fork"}
        2 user.prompt "another two"
    "#]].assert_eq(&brief(&home.sink));
}

#[test]
fn the_first_version_has_no_tree() {
    let mut home = Home::new();
    let lines = r#"{"type":"session","id":"one","timestamp":"2024-12-03T14:00:00.000Z","cwd":"/home/dev","provider":"lab","modelId":"lab-model","thinkingLevel":"off"}
{"type":"message","timestamp":"2024-12-03T14:00:01.000Z","message":{"role":"user","content":"Hello"}}
{"type":"message","timestamp":"2024-12-03T14:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Hi!"}],"stopReason":"stop","usage":{"input":1,"output":1}}}
"#;
    home.write(ONE, lines);
    home.read(pi());
    expect![[r#"
        == pi:one
        1 session.started {"agent":"pi","model":"lab-model","cwd":"/home/dev"}
        2 user.prompt "Hello"
        3 assistant.message "Hi!"
        4 step.completed {"agent_id":"","model":"lab-model","usage":{"input_tokens":1,"output_tokens":1,"cache_read_tokens":0,"cache_creation_tokens":0}}
        5 turn.completed {"agent_id":"","stop_reason":"completed"}
    "#]].assert_eq(&brief(&home.sink));
}
