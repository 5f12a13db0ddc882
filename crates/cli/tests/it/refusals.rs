//! Errors in words, as JSON, and as exit codes.

use expect_test::expect;

use crate::{empty, import, sample};

#[test]
fn missing_journal_error_has_a_hint() {
    expect![[r#"
        --- stderr
        error: there is no journal at `~/.local/share/hansard`
        hint: `hansard up` creates and fills one, or point `--journal` at another folder
        --- exit 1
    "#]]
    .assert_eq(&empty().run(&["sessions"]).to_string());
}

#[test]
fn ambiguous_prefix_lists_candidates() {
    expect![[r#"
        --- stderr
        error: `01KJ` matches 3 sessions
        hint: one of: 01KJPX6XZEPC681EKEQYJE5EQ1, 01KJQCE6MNC5AE0W0CK1PA4S44, 01KJSBFQNM5WMB2PQR1JDPCZT2
        --- exit 1
    "#]]
    .assert_eq(&sample().run(&["show", "01KJ"]).to_string());
}

#[test]
fn usage_errors_are_json_too() {
    expect![[r#"
        --- stderr
        {"error":{"kind":"usage","message":"the following required arguments were not provided: <SESSION>","causes":[],"hint":"`hansard help` lists the commands"}}
        --- exit 2
    "#]]
    .assert_eq(&empty().run(&["--json", "show"]).to_string());
    let said = empty().run(&["show"]);
    assert!(said.stderr.contains("<SESSION>"), "{said}");
    assert_eq!((said.code, empty().run(&["--json", "--help"]).code), (Some(2), Some(0)));
}

#[test]
fn errors_are_json_with_json_option() {
    expect![[r#"
        --- stderr
        {"error":{"kind":"session_not_found","message":"no session id begins with `x`","causes":[],"hint":"`hansard sessions` lists all sessions"}}
        --- exit 1
    "#]]
    .assert_eq(&sample().run(&["--json", "show", "x"]).to_string());
}

#[test]
fn bad_line_is_named() {
    let world = empty();
    let good = include_str!("../../../../docs/sample.ndjson").lines().next().unwrap();
    let said = import(&world, &format!("{good}\nnot an event\n"));
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("line 2 is not an event"), "{said}");
}

#[test]
fn point_beyond_the_end_is_refused() {
    let said = sample().run(&["fork", "01KJPX", "--at", "99"]);
    expect![[r#"
        --- stderr
        error: session `01KJPX6XZEPC681EKEQYJE5EQ1` has 14 events; 99 is beyond its end
        --- exit 1
    "#]]
    .assert_eq(&said.to_string());
}

#[test]
fn wrong_usage_is_exit_2() {
    assert_eq!(sample().run(&["show"]).code, Some(2));
    assert_eq!(sample().run(&["nonsense"]).code, Some(2));
}

#[test]
fn no_matches_is_exit_1() {
    let said = sample().run(&["search", "nowhere-to-be-found"]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stdout, "");
}

#[test]
fn truncated_bundle_changes_nothing() {
    let world = sample();
    let bundle = world.run(&["export", "01KJPX"]).stdout;
    let other = empty();
    let cut = &bundle[..bundle.len() - 20];
    let said = other.run_with_input(&["import"], cut.as_bytes());
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(other.run(&["sessions"]).stdout, "");
}
