//! What callers stamp on their events.

use event::payload::ChildRequested;
use expect_test::expect;
use session::Scope;

use crate::drafts::{drafts, metadata};

fn scope(json: &str) -> Scope {
    Scope::new(metadata(json))
}

fn stamped(scope: &Scope, line: &str, own: &str) -> String {
    let mut draft = drafts(1, line).remove(0);
    draft.metadata = metadata(own);
    let stamped = scope.stamp(draft);
    let metadata = serde_json::to_string(&stamped.metadata).unwrap();
    format!("{metadata} {}", stamped.turn_id.unwrap_or_default())
}

#[test]
fn a_scope_only_adds_keys() {
    let scope = scope(r#"{"kind":"scope","n":2.0}"#).in_turn("t1");
    expect![[r#"{"kind":"own","n":2.0} t1"#]].assert_eq(&stamped(
        &scope,
        "prompt hi",
        r#"{"kind":"own"}"#,
    ));
    expect![[r#"{"kind":"scope","n":2.0} t9"#]].assert_eq(&stamped(
        &scope,
        "[turn=t9] prompt hi",
        "{}",
    ));
}

#[test]
fn nested_scopes_merge_and_the_inner_one_wins() {
    let outer = scope(r#"{"a":1,"b":1}"#).in_turn("t1");
    let inner = outer.nest(&scope(r#"{"b":2,"c":2}"#));
    assert_eq!(*inner.metadata(), metadata(r#"{"a":1,"b":2,"c":2}"#));
    assert_eq!(inner.turn_id(), Some("t1"));
    assert_eq!(outer.nest(&Scope::default()), outer);
    assert_eq!(*outer.metadata(), metadata(r#"{"a":1,"b":1}"#), "maps are copied");
}

#[test]
fn child_scope_has_agent_and_metadata() {
    let request = drafts(
        1,
        r#"child.requested {"child_id":"k","child_session_id":"k","agent_id":"digger","task":"dig","metadata":{"retry_of":"j"}}"#,
    );
    let request: ChildRequested = request[0].payload().unwrap().unwrap();
    assert_eq!(
        *Scope::of_child(&request).metadata(),
        metadata(r#"{"agent_id":"digger","retry_of":"j"}"#)
    );
}
