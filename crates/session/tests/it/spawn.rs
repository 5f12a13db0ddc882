//! What passes between a session and its child.

use event::Event;
use event::payload::ChildRequested;
use session::{OpenWork, blocked_by_wait, first_prompt, left_behind};

use crate::drafts::{drafts, log, session_id};

fn prompt(more: &str) -> Option<String> {
    let line = format!(
        r#"child.requested {{"child_id":"k","child_session_id":"k","agent_id":"a","task":"dig"{more}}}"#
    );
    first_prompt(&drafts(1, &line)[0].payload::<ChildRequested>().unwrap().unwrap())
}

#[test]
fn only_a_handoff_tells_task_and_context() {
    let told = Some("Task: dig\nContext: behind the house".to_owned());
    assert_eq!(prompt(r#","mode":"handoff","context":"behind the house""#), told);
    assert_eq!(prompt(r#","mode":"handoff""#).as_deref(), Some("Task: dig"));
    assert_eq!(prompt(""), prompt(r#","mode":"handoff""#), "handoff is the default");
    assert_eq!(prompt(r#","mode":"fresh""#), None);
    assert_eq!(prompt(r#","mode":"fork""#), None);
}

fn fold(events: &[Event]) -> OpenWork {
    let mut open = OpenWork::new(session_id("s"));
    events.iter().for_each(|event| open.apply(event));
    open
}

#[test]
fn a_child_is_blocked_by_its_newest_wait() {
    let parent = fold(&log(r#"child.started {"child_id":"k","child_session_id":"k"}"#));
    let reason = |text: &str| {
        let blocked = blocked_by_wait(parent.children()[0], &fold(&log(text)))?;
        Some((blocked.reason, blocked.external_id))
    };
    assert_eq!(reason("prompt dig"), None);
    let waits = r#"
        wait.started {"wait_id":"w1","reason":"rain","external_id":"x1"}
        wait.started {"wait_id":"w2","reason":"sun","external_id":"x2"}
    "#;
    assert_eq!(reason(waits), Some(("sun".to_owned(), Some("x2".to_owned()))));
    let approval = r#"approval.requested {"approval_id":"a1","tool":"bash"}"#;
    assert_eq!(reason(approval), Some(("waiting".to_owned(), None)));
}

#[test]
fn child_file_refs_are_not_recorded() {
    let events = log(r#"
        artifact.recorded {"artifact":{"id":"patch","kind":"patch"}}
        artifact.recorded {"artifact":{"id":"file","kind":"workspace_file_ref"}}
        [origin=p/3] artifact.recorded {"artifact":{"id":"inherited","kind":"patch"}}
    "#);
    let left = left_behind("k", &session_id("s"), &events);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].artifact.id, "patch");
    assert_eq!(left[0].artifact.producer_session_id, Some(session_id("s")));
    assert_eq!(
        (left[0].child_id.as_deref(), &left[0].session_id),
        (Some("k"), &Some(session_id("s")))
    );
}
