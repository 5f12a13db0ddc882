//! GitHub Copilot CLI: recordings, and the traps its logs hold.

use capture::Agent;
use event::payload::ApprovalResolved;
use expect_test::{Expect, expect};

use crate::growth::check_growth;
use crate::handmade::Home;
use crate::mangled::check_mangled;
use crate::scenario::{agent, brief, recordings};
use crate::truth::check_usage;

fn copilot() -> &'static dyn Agent {
    agent("copilot")
}

recordings! { "copilot":
    s1
    s2
    s3_approval_tui
    s3_queue_tui
    s4_resume_headless
    s5_compact_tui
    s6_interrupt
    s6_kill9_stream
    s7_subagent
    s8_errors
    s11_otel
}

#[test]
fn decision_without_source_is_a_persons() {
    let ask = r#"permission.requested {"requestId":"r1","permissionRequest":{"kind":"shell"}}"#;
    let decided = |kind: &str| {
        format!(r#"permission.completed {{"requestId":"r1","result":{{"kind":"{kind}"}}}}"#)
    };
    for (kind, by) in [
        ("approved", "person"),
        ("denied-interactively-by-user", "person"),
        ("denied-no-approval-rule-and-could-not-request-from-user", "rule"),
    ] {
        let mut home = Home::new();
        home.write(ONE, &log(1, &[START, ASKED, ask, &decided(kind)]));
        home.read(copilot());
        let mut events = home.sink.events();
        let resolved = events.find_map(|event| event.readable::<ApprovalResolved>());
        assert_eq!(resolved.unwrap().by.as_deref(), Some(by), "{kind}");
    }
}

#[test]
fn steering_after_the_end_opens_the_turn_again() {
    let steered = r#"user.message {"content":"more","interactionId":"i1","delivery":"steering"}"#;
    check_log(
        &[ASKED, ANSWERED, ENDED, steered, ANSWERED, ENDED],
        expect![[r#"
            == copilot:one
            1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
            2 user.prompt "first"
            3 assistant.message "done"
            4 turn.completed {"agent_id":"","stop_reason":"completed"}
            5 user.prompt "more"
            6 assistant.message "done"
            7 turn.completed {"agent_id":"","stop_reason":"completed"}
        "#]],
    );
}

#[test]
fn any_split_tells_the_same() {
    for scenario in ["s2", "s4_resume_headless", "s7_subagent"] {
        for step in [777, 20_011] {
            check_growth(copilot(), scenario, step);
        }
    }
}

#[test]
fn nothing_in_a_file_is_too_odd_to_be_read() {
    for scenario in RECORDINGS {
        check_mangled(copilot(), scenario);
    }
}

#[test]
fn every_answer_of_the_model_is_counted_once() {
    // Its version, 1.0.80, does not write down what single requests used.
    let is_counted = |scenario: &&&str| **scenario != "s3_queue_tui";
    for scenario in RECORDINGS.iter().filter(is_counted) {
        // Of an answer that was cut off nothing is known.
        let unrecorded: &[&str] = match *scenario {
            "s6_kill9_stream" => &["chatcmpl_lab000001"],
            "s8_errors" => &["chatcmpl_lab000004"],
            _ => &[],
        };
        check_usage(copilot(), scenario, unrecorded);
    }
}

/// A log of these events, each a type and its data; ids count up from `first`.
fn log(first: u64, events: &[&str]) -> String {
    let numbered = |(number, event): (usize, &&str)| {
        let (kind, data) = event.split_once(' ').expect("a type and data");
        let id = first + number as u64;
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"e{id}","timestamp":"2026-11-15T10:00:{id:02}.000Z"}}"#
        ) + "\n"
    };
    events.iter().enumerate().map(numbered).collect()
}

const START: &str =
    r#"session.start {"sessionId":"one","copilotVersion":"1.0.102","context":{"cwd":"/home/dev"}}"#;
const ASKED: &str = r#"user.message {"content":"first","interactionId":"i1"}"#;
const ANSWERED: &str = r#"assistant.message {"messageId":"m1","content":"done"}"#;
const ENDED: &str = r#"assistant.turn_end {"turnId":"0"}"#;

const ONE: &str = ".copilot/session-state/one/events.jsonl";
const TWO: &str = ".copilot/session-state/two/events.jsonl";

#[track_caller]
fn check_log(events: &[&str], expected: Expect) {
    let mut home = Home::new();
    home.write(ONE, &log(0, &[&[START], events].concat()));
    home.read(copilot());
    expected.assert_eq(&brief(&home.sink));
}

#[test]
fn going_back_replaces_the_log_and_takes_nothing_from_ours() {
    let mut home = Home::new();
    let kept = log(0, &[START, ASKED, ANSWERED, ENDED]);
    let dropped = log(4, &[r#"user.message {"content":"second","interactionId":"i2"}"#]);
    home.write(ONE, &format!("{kept}{dropped}"));
    home.read(copilot());
    let after = log(
        10,
        &[
            r#"session.info {"infoType":"rewind","message":"Rewound"}"#,
            r#"user.message {"content":"second, better","interactionId":"i3"}"#,
        ],
    );
    home.write(ONE, &format!("{kept}{after}"));
    home.read(copilot());
    expect![[r#"
        == copilot:one
        1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
        2 user.prompt "first"
        3 assistant.message "done"
        4 turn.completed {"agent_id":"","stop_reason":"completed"}
        5 user.prompt "second"
        6 note {"text":"rewound to 01M7FACK5R9PWE161CH1J33SCV","about":"rewind"} behind 4
        7 user.prompt "second, better" behind 4
    "#]]
    .assert_eq(&brief(&home.sink));
}

#[test]
fn a_fork_is_told_from_where_it_leaves() {
    let fork = log(
        4,
        &[
            r#"session.info {"infoType":"fork","message":"Forked from one"}"#,
            r#"session.resume {"selectedModel":"m"}"#,
            r#"user.message {"content":"another way","interactionId":"i2"}"#,
        ],
    );
    let copied = log(0, &[START, ASKED, ANSWERED, ENDED]);
    let parent_goes_on =
        log(20, &[r#"user.message {"content":"the same way","interactionId":"i9"}"#]);
    let told = |own: &str| {
        let mut home = Home::new();
        home.write(ONE, &format!("{copied}{parent_goes_on}"));
        home.read(copilot());
        home.write(TWO, &format!("{own}{fork}"));
        home.read(copilot());
        brief(&home.sink)
    };
    expect![[r#"
        == copilot:one
        1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
        2 user.prompt "first"
        3 assistant.message "done"
        4 turn.completed {"agent_id":"","stop_reason":"completed"}
        5 user.prompt "the same way"
        == copilot:two
        1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev","parent":{"session_id":"copilot:one","seq":4},"mode":"fork"}
        2 note "Forked from one"
        3 session.started {"agent":"copilot","resumed":true}
        4 settings.changed {"model":"m"}
        5 user.prompt "another way"
    "#]].assert_eq(&told(&copied));
    // Whether a copy keeps the name of its parent or not, its events are known.
    assert_eq!(told(&copied.replace(r#""one""#, r#""two""#)), told(&copied));
}

#[test]
fn results_after_a_crash_are_made_up() {
    check_log(
        &[
            ASKED,
            r#"assistant.message {"messageId":"m1","content":"","toolRequests":[{"toolCallId":"c1","name":"bash","arguments":{"command":"sleep 60"}}]}"#,
            r#"tool.execution_start {"toolCallId":"c1","toolName":"bash","arguments":{"command":"sleep 60"}}"#,
            r#"session.resume {"sessionWasActive":true}"#,
            r#"tool.execution_complete {"toolCallId":"c1","model":"resumed","success":false,"error":{"message":"interrupted"}}"#,
            r#"session.warning {"warningType":"interrupted_tools","message":"One tool was interrupted."}"#,
        ],
        expect![[r#"
            == copilot:one
            1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
            2 user.prompt "first"
            3 tool.call "bash: sleep 60"
            4 tool.started "bash"
            5 epoch.closed {"epoch":0,"cause":"exit","from_seq":0,"to_seq":0,"day":"20261115","stream":"session:copilot:one","segment":"100001_2"}
            6 session.started {"agent":"copilot","resumed":true}
            7 tool.result "interrupted" behind 3
            8 note "One tool was interrupted."
        "#]],
    );
}

#[test]
fn questions_and_refusals_are_told() {
    check_log(
        &[
            ASKED,
            r#"tool.execution_start {"toolCallId":"q1","toolName":"ask_user","arguments":{"question":"Which?"}}"#,
            r#"tool.execution_complete {"toolCallId":"q1","success":true,"result":{"content":"this one"}}"#,
            r#"permission.requested {"requestId":"p1","permissionRequest":{"kind":"url","url":"https://example.org"}}"#,
            r#"permission.completed {"requestId":"p1","result":{"kind":"denied-no-approval-rule-and-could-not-request-from-user"},"decisionSource":"unattended_fallback"}"#,
            r#"future.event {"a":1}"#,
            r#"user.message {"content":"the skill's text","source":"skill-pdf"}"#,
        ],
        expect![[r#"
            == copilot:one
            1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
            2 user.prompt "first"
            3 tool.call "ask_user: Which?"
            4 external.input {"request_id":"q1","prompt":"Which?","status":"pending"}
            5 tool.started "ask_user"
            6 tool.result "this one" behind 3
            7 external.input {"request_id":"q1","prompt":"","status":"received","input":"this one"}
            8 approval.requested "https://example.org"
            9 approval.resolved "denied-no-approval-rule-and-could-not-request-from-user"
            10 unknown {"raw":{"type":"future.event","data":{"a":1},"id":"e6","timestamp":"2026-11-15T10:00:06.000Z"},"record_type":"future.event"}
            11 context.added "the skill's text"
        "#]],
    );
}

#[test]
fn a_log_without_a_folder_is_an_older_one() {
    let mut home = Home::new();
    home.write(".copilot/session-state/one.jsonl", &log(0, &[START, ASKED]));
    home.write(".copilot/session-state/one/session.jsonl", "no log");
    home.read(copilot());
    expect![[r#"
        == copilot:one
        1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
        2 user.prompt "first"
    "#]]
    .assert_eq(&brief(&home.sink));
}

#[test]
fn a_name_that_a_person_gave_is_the_title() {
    let mut home = Home::new();
    home.write(ONE, &log(0, &[START, ASKED]));
    home.write(
        ".copilot/session-state/one/workspace.yaml",
        "id: one\nname: \"My work\"\nuser_named: true\n",
    );
    home.read(copilot());
    expect![[r#"
        == copilot:one
        1 session.started {"agent":"copilot","agent_version":"1.0.102","cwd":"/home/dev"}
        2 settings.changed {"title":"My work"}
        3 user.prompt "first"
    "#]]
    .assert_eq(&brief(&home.sink));
}
