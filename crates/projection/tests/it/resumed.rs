//! What a later process finds of the work of the one before: nothing of it goes on.

use projection::status::{Life, Reason, Status};
use serde_json::json;

use crate::status::{Case, MINUTE};

/// What a process can leave open when it is killed.
fn left_open() -> [(&'static str, Case); 6] {
    let background = json!({"call_id": "c", "outcome": "ok", "background": true});
    let question = json!({"request_id": "q", "prompt": "Which?", "status": "pending"});
    [
        ("a turn", Case::prompted()),
        ("a call", Case::prompted().call("Bash", json!({"command": "make"}))),
        ("an approval", Case::prompted().ask("a")),
        ("a question", Case::prompted().add("external.input", question)),
        ("background work", Case::prompted().add("tool.result", background)),
        ("a compaction", Case::prompted().add("compaction.started", json!({"strategy": "x"}))),
    ]
}

#[test]
fn later_process_finds_nothing_open() {
    for (what, case) in left_open() {
        let verdict = case.process_since(5).verdict(7);
        assert_eq!((verdict.status, verdict.reason), (Status::Waiting, Reason::Resumed), "{what}");
        let why = "its process ended, a new one resumed the session";
        assert!(verdict.overruled.iter().any(|it| it.why == why), "{what}: {verdict:#?}");
        assert!(verdict.pending_approvals.is_empty() && verdict.turn_id.is_none(), "{what}");
    }
}

#[test]
fn process_named_later_finds_nothing_open() {
    for (_, case) in left_open() {
        let case = case.opened_by(8, 1).check(7, Status::Waiting, Reason::Resumed);
        let case = case.check(3 * MINUTE, Status::Idle, Reason::Quiet);
        case.add("user.prompt", json!({"content": "Go on."})).check(
            7,
            Status::Running,
            Reason::Turn,
        );
    }
}

#[test]
fn start_told_after_its_process_is_still_a_resume() {
    for (_, case) in left_open() {
        let case = case.opened_by(8, 1).add("session.started", json!({"resumed": true}));
        case.check(9, Status::Waiting, Reason::Resumed);
    }
}

#[test]
fn process_that_was_there_keeps_its_work() {
    for (what, case) in left_open() {
        let (status, reason) = (case.verdict(7).status, case.verdict(7).reason);
        let case = case.opened_by(8, -MINUTE).process_since(-MINUTE);
        let verdict = case.verdict(7);
        assert_eq!((verdict.status, verdict.reason), (status, reason), "{what}: {verdict:#?}");
    }
}

#[test]
fn resumed_agent_closes_old_calls_without_a_turn() {
    let case = Case::prompted().call("Bash", json!({"command": "make"})).of("copilot");
    case.add("session.started", json!({"resumed": true}))
        .add("tool.result", json!({"call_id": "c3", "outcome": "error"}))
        .of("copilot")
        .process(Life::Alive)
        .check(7, Status::Waiting, Reason::Resumed);
}

#[test]
fn later_process_opens_an_ended_session() {
    let exited = || Case::prompted().end("completed").add("session.exited", json!({}));
    exited().process_since(-MINUTE).check(7, Status::Exited, Reason::Shutdown);
    exited().process_since(5).check(7, Status::Waiting, Reason::Prompt);
    exited().opened_by(8, 1).check(7, Status::Waiting, Reason::Prompt);
}
