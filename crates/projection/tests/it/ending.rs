//! How a session stands at the end of its log.

use projection::{Facts, Projection};
use serde_json::json;

use crate::given::{Log, amends};

#[track_caller]
fn check(expected: &str, tell: impl FnOnce(&mut Log)) {
    let mut log = Log::started();
    tell(&mut log);
    let mut facts = Facts::default();
    log.events.iter().for_each(|event| facts.apply(event));
    assert_eq!(facts.ending().as_str(), expected);
}

fn torn(log: &mut Log) -> &mut event::Event {
    log.add("unknown", json!({"raw": null, "error": "torn"}))
}

#[test]
fn a_session_in_which_nothing_happened_is_open() {
    check("open", |_| {});
}

#[test]
fn an_answer_without_open_calls_awaits_the_user() {
    check("awaiting_user", |log| {
        log.prompt("go");
        log.use_tool("Bash", json!({"command": "ls"}));
        log.say("m1", "done");
    });
}

#[test]
fn a_call_without_a_result_is_pending() {
    check("tool_call_pending", |log| {
        log.prompt("go");
        log.call("Bash", json!({}));
        log.step("m", 1, 1);
    });
}

#[test]
fn one_of_two_results_leaves_a_call_pending() {
    check("tool_call_pending", |log| {
        log.prompt("go");
        let first = log.call("Bash", json!({}));
        log.call("Bash", json!({}));
        log.result(&first, "ok");
    });
}

#[test]
fn a_prompt_without_an_answer_is_last() {
    check("user_last", |log| {
        log.say("m1", "hello");
        log.prompt("go");
    });
    check("user_last", |log| {
        log.say("m1", "hello");
        log.queued("and this");
    });
}

#[test]
fn a_call_that_was_lost_ends_with_the_next_prompt() {
    check("awaiting_user", |log| {
        log.prompt("go");
        log.call("Bash", json!({}));
        log.prompt("are you there?");
        log.say("m2", "yes");
    });
}

#[test]
fn a_queued_prompt_does_not_close_a_call() {
    check("tool_call_pending", |log| {
        log.prompt("go");
        log.call("Bash", json!({}));
        log.queued("and this");
    });
}

#[test]
fn a_command_that_outlives_its_turn_changes_nothing() {
    let outlive = |log: &mut Log| {
        let seen = log.events.len();
        log.use_tool("exec_command", json!({"command": "sleep 60"}));
        log.events[seen..].iter_mut().for_each(|event| event.draft.turn_id = Some("t1".to_owned()));
    };
    let turn = |log: &mut Log, stop_reason: &str| {
        log.prompt("go").draft.turn_id = Some("t1".to_owned());
        log.say("m1", "it runs").draft.turn_id = Some("t1".to_owned());
        log.end(stop_reason).draft.turn_id = Some("t1".to_owned());
    };
    check("awaiting_user", |log| {
        turn(log, "completed");
        outlive(log);
    });
    check("interrupted", |log| {
        turn(log, "interrupted");
        outlive(log);
    });
    check("user_last", |log| {
        turn(log, "completed");
        log.prompt("and now?").draft.turn_id = Some("t2".to_owned());
        outlive(log);
    });
}

#[test]
fn interrupted_turn_stays_interrupted_until_work() {
    let interrupt = |log: &mut Log| {
        log.prompt("go");
        log.call("Bash", json!({}));
        log.end("interrupted");
        log.add("note", json!({"text": "/model"}));
    };
    check("interrupted", interrupt);
    check("user_last", |log| {
        interrupt(log);
        log.prompt("again");
    });
}

#[test]
fn results_without_an_answer_are_open() {
    check("open", |log| {
        log.prompt("go");
        log.use_tool("Bash", json!({}));
    });
}

#[test]
fn a_turn_may_end_without_a_closing_word() {
    check("awaiting_user", |log| {
        log.prompt("go");
        log.use_tool("Bash", json!({}));
        log.end("completed");
    });
}

#[test]
fn a_failed_turn_does_not_answer_its_prompt() {
    check("user_last", |log| {
        log.prompt("go");
        log.add("error", json!({"message": "overloaded"}));
        log.add("turn.completed", json!({"agent_id": "a", "error": "overloaded"}));
    });
}

#[test]
fn a_torn_record_at_the_end_is_truncated() {
    check("truncated", |log| {
        log.say("m1", "hello");
        torn(log);
        log.add("epoch.closed", json!({"epoch": 0, "cause": "silence"}));
    });
}

#[test]
fn a_torn_record_that_was_mended_is_what_it_says() {
    check("awaiting_user", |log| {
        log.prompt("go");
        let id = torn(log).id;
        amends(log.say("m1", "hello"), id);
    });
}

#[test]
fn an_exit_is_told_where_nothing_else_is_open() {
    check("exited", |log| {
        log.say("m1", "hello");
        log.add("session.exited", json!({}));
    });
    check("user_last", |log| {
        log.prompt("go");
        log.add("session.exited", json!({}));
    });
    check("awaiting_user", |log| {
        log.add("session.exited", json!({}));
        log.add("session.started", json!({"resumed": true}));
        log.say("m1", "hello");
    });
}

#[test]
fn facts_that_are_no_talk_change_nothing() {
    check("awaiting_user", |log| {
        log.say("m1", "hello");
        log.step("m", 1, 1);
        log.end("completed");
        log.add("context.added", json!({"content": "reminder"}));
        log.add("settings.changed", json!({"model": "m2"}));
        log.add("unknown", json!({"raw": {}, "record_type": "new-thing"}));
        log.add("compaction", json!({"strategy": "captured"}));
        log.add("epoch.closed", json!({"epoch": 0, "cause": "compaction"}));
    });
}

#[test]
fn a_fuller_account_of_a_call_does_not_open_it_again() {
    check("awaiting_user", |log| {
        let call_id = log.call("Bash", json!({}));
        let call = log.events.last().unwrap().id;
        log.result(&call_id, "ok");
        log.say("m2", "done");
        let again = json!({"call_id": call_id, "tool": "Bash", "input": {"command": "ls"}});
        amends(log.add("tool.call", again), call);
    });
}
