//! The children a log tells of.

use std::fmt::Write;

use expect_test::{Expect, expect};
use session::children;

use crate::drafts::log;

#[track_caller]
fn check(text: &str, expected: Expect) {
    let mut out = String::new();
    for child in children(&log(text)) {
        write!(out, "{} {} in {}", child.child_id, child.status, child.child_session_id).unwrap();
        for note in [&child.summary, &child.reason].into_iter().flatten() {
            write!(out, ": {note}").unwrap();
        }
        writeln!(out).unwrap();
        for artifact in &child.artifacts {
            writeln!(out, "  left {}", artifact.id).unwrap();
        }
        for oddity in &child.oddities {
            writeln!(out, "  odd {}: {}", oddity.seq, oddity.why).unwrap();
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn children_are_listed_by_time_of_request_then_id() {
    check(
        r#"
        [at=30] child.requested {"child_id":"b","child_session_id":"sb"}
        [at=20] child.requested {"child_id":"c","child_session_id":"sc"}
        [at=30] child.requested {"child_id":"a","child_session_id":"sa"}
        "#,
        expect![[r#"
            c requested in sc
            a requested in sa
            b requested in sb
        "#]],
    );
}

#[test]
fn a_child_goes_its_way() {
    check(
        r#"
        child.requested {"child_id":"a","child_session_id":"sa","agent_id":"x","mode":"handoff","task":"dig"}
        child.started {"child_id":"a","child_session_id":"sa"}
        child.blocked {"child_id":"a","child_session_id":"sa","reason":"waiting"}
        child.requested {"child_id":"b","child_session_id":"sb"}
        child.started {"child_id":"b","child_session_id":"sb"}
        child.completed {"child_id":"b","child_session_id":"sb","summary":"dug"}
        child.merged {"child_id":"b","child_session_id":"sb"}
        child.requested {"child_id":"c","child_session_id":"sc"}
        child.canceled {"child_id":"c","child_session_id":"sc","reason":"no slot"}
        "#,
        expect![[r#"
            a blocked in sa: waiting
            b merged in sb: dug
            c canceled in sc: no slot
        "#]],
    );
}

#[test]
fn a_child_first_seen_running_is_running() {
    check(
        r#"child.progressed {"child_id":"a","child_session_id":"sa"}"#,
        expect![[r#"
            a running in sa
        "#]],
    );
}

#[test]
fn an_impossible_step_is_named_and_not_taken() {
    check(
        r#"
        child.requested {"child_id":"a","child_session_id":"sa"}
        child.merged {"child_id":"a","child_session_id":"sa"}
        child.failed {"child_id":"a","child_session_id":"sa","error":"rock"}
        child.started {"child_id":"a","child_session_id":"sa"}
        "#,
        expect![[r#"
            a failed in sa: rock
              odd 2: it is requested; `child.merged` cannot follow
              odd 4: it is failed; `child.started` cannot follow
        "#]],
    );
}

#[test]
fn artifacts_belong_to_their_child() {
    check(
        r#"
        artifact.recorded {"artifact":{"id":"patch","kind":"patch"},"child_id":"a"}
        child.requested {"child_id":"a","child_session_id":"sa"}
        artifact.recorded {"artifact":{"id":"file","kind":"workspace_file_ref"},"child_id":"a"}
        artifact.recorded {"artifact":{"id":"mine","kind":"patch"}}
        "#,
        expect![[r#"
            a requested in sa
              left patch
        "#]],
    );
}
