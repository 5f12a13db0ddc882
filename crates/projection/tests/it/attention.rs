//! What a session wants of a person, and how urgent that is.

use projection::status::{AttentionKind, Life, RegistryWord, attention};
use serde_json::json;

use crate::given::Log;
use crate::status::{Case, MINUTE};

/// What a session wants so many seconds after its last event.
fn wanted(case: &Case, secs: i64) -> Option<AttentionKind> {
    let verdict = case.verdict(secs);
    attention(&case.state(), &case.observed, &verdict, case.later(secs)).map(|wanted| wanted.want)
}

#[test]
fn what_is_wanted_of_a_person_follows_from_what_is_so() {
    let asks = |command: &str| {
        let input = json!({"command": command});
        let asked = json!({"approval_id": "a1", "tool": "Bash", "input": input});
        Case::prompted().add("approval.requested", asked)
    };
    assert_eq!(wanted(&asks("git push --force"), 0), Some(AttentionKind::RiskyApproval));
    assert_eq!(wanted(&asks("cargo test"), 0), Some(AttentionKind::Approval));
    let question = json!({"request_id": "q1", "prompt": "Which?", "status": "pending"});
    let question = Case::prompted().add("external.input", question);
    assert_eq!(wanted(&question, 0), Some(AttentionKind::Question));
    let failed = json!({"agent_id": "", "error": "overloaded"});
    let failed = Case::prompted().add("turn.completed", failed);
    assert_eq!(wanted(&failed, 0), Some(AttentionKind::Failed));
    let open = Case::prompted().process(Life::Alive);
    assert_eq!(wanted(&open, 9 * MINUTE), None);
    assert_eq!(wanted(&open, 10 * MINUTE), Some(AttentionKind::Stuck));
    // A tool may take as long as it likes, and an agent that says that it is busy is not stuck.
    let building = Case::prompted().call("Bash", json!({"command": "make"})).process(Life::Alive);
    assert_eq!(wanted(&building, 30 * MINUTE), None);
    let busy = open.registry(Some(RegistryWord::Busy), 9 * MINUTE);
    assert_eq!(wanted(&busy, 10 * MINUTE), None);
    let exited = Case::prompted().end("completed").add("session.exited", json!({}));
    assert_eq!(wanted(&exited, 0), None);
    let ordered = [
        AttentionKind::RiskyApproval,
        AttentionKind::Approval,
        AttentionKind::Question,
        AttentionKind::Failed,
        AttentionKind::Looping,
        AttentionKind::Stuck,
    ];
    assert!(ordered.is_sorted() && ordered.iter().all(|want| *want < AttentionKind::Finished));
}

#[test]
fn approval_without_an_event_is_that_of_its_call() {
    let command = "terraform destroy -auto-approve && rm -rf state";
    let asks = Case::prompted().call("Bash", json!({"command": "ls"}));
    let asks = asks.call("Bash", json!({"command": command})).process(Life::Alive);
    let asks = asks.registry(Some(RegistryWord::Permission), 1);
    assert_eq!(wanted(&asks, 5), Some(AttentionKind::RiskyApproval));
    assert_eq!(asks.state().likely_request(), Some(asks.log.events.last().unwrap().id));
    asks.current(5, &format!("waits for approval, probably to run {command}"));
}

#[test]
fn equal_failures_without_an_edit_are_a_loop() {
    let fails = |case: &mut Case, seconds: u32| {
        let call = case.log.call("Bash", json!({"command": "cargo test"}));
        case.log.fail(&call, &format!("2 failed in {seconds}.1s"));
        case.log.step("opus", 100, 10);
    };
    let mut case = Case::prompted().process(Life::Alive);
    for run in 0..4 {
        fails(&mut case, run);
        case.log.use_tool("Read", json!({"file_path": "a.rs"}));
    }
    assert_eq!(wanted(&case, 1), None);
    fails(&mut case, 4);
    assert_eq!(wanted(&case, 1), Some(AttentionKind::Looping));
    let state = case.state();
    let repeated = state.find_loop().unwrap();
    assert_eq!((repeated.count(), repeated.doing()), (5, "ran cargo test"));
    assert_eq!((repeated.used().0, repeated.used().1.input), (Some("opus"), 500));
    let mut other = Case { log: Log { events: case.log.events.clone(), ..Log::new() }, ..case };
    other.log.at = other.log.events.last().unwrap().created_at;
    let call = other.log.call("Bash", json!({"command": "cargo test"}));
    other.log.fail(&call, "another failure");
    assert_eq!(wanted(&other, 1), None, "another result is progress");
    let mut edited = Case::prompted();
    for run in 0..9 {
        fails(&mut edited, run);
        edited.log.use_tool("Edit", json!({"file_path": "a.rs"}));
    }
    assert_eq!(wanted(&edited, 1), None, "edits are progress");
    let mut edited = Case::prompted();
    for run in 0..9 {
        fails(&mut edited, run);
        edited.log.use_tool("Bash", json!({"command": "sed -i s/a/b/ a.rs"}));
    }
    assert_eq!(wanted(&edited, 1), None, "a command may edit, too");
}

#[test]
fn fewer_failures_are_no_loop() {
    let mut case = Case::prompted().process(Life::Alive);
    for failures in (1..9).rev() {
        let call = case.log.call("Bash", json!({"command": "cargo test"}));
        case.log.fail(&call, &format!("{failures} failed"));
    }
    assert_eq!(wanted(&case, 1), None);
}

#[test]
fn loop_is_over_with_another_command() {
    let run = |case: &mut Case, command: &str| {
        let call = case.log.call("Bash", json!({"command": command}));
        case.log.fail(&call, "1 failed");
    };
    let mut case = Case::prompted().process(Life::Alive);
    for _ in 0..5 {
        run(&mut case, "cargo test");
        run(&mut case, "cargo check");
    }
    assert_eq!(wanted(&case, 1), Some(AttentionKind::Looping), "two commands in turn");
    run(&mut case, "cargo build");
    assert_eq!(wanted(&case, 1), None);
}

#[test]
fn finished_work_wants_attention_until_seen() {
    let case = Case::prompted().end("completed");
    assert_eq!(wanted(&case, 0), Some(AttentionKind::Finished));
    assert_eq!(wanted(&case, 10 * MINUTE), Some(AttentionKind::Finished));
    let note = json!({"text": "seen", "about": "seen"});
    let seen = case.add("note", note);
    assert_eq!(wanted(&seen, 0), None);
    let mut again = seen;
    again.log.prompt("And now?");
    assert_eq!(wanted(&again.end("completed"), 0), Some(AttentionKind::Finished));
}
