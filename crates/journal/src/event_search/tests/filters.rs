//! Sessions, projects, kinds, tools, times and keys.

use event::payload::ToolCall;
use event::{EventKey, KeyFamily, Kind, Raw, Time};

use super::log::{Log, session};
use crate::event_search::{Query, SearchPage, find_by_key};

const NONE: [u64; 0] = [];

/// What a query finds, with and without the index, oldest first.
#[track_caller]
fn found(log: &Log, query: &Query) -> Vec<u64> {
    let positions = |found: SearchPage| {
        let mut positions: Vec<u64> = found.hits.iter().map(|hit| hit.position).collect();
        positions.sort();
        positions
    };
    let scanned = positions(log.scan(query));
    log.index_all();
    assert_eq!(positions(log.search(query)), scanned, "{query:?}");
    scanned
}

fn call(log: &mut Log, session_id: &str, tool: &str, call_id: &str) -> u64 {
    log.add(
        session_id,
        &ToolCall {
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            input: Raw::parse(r#""needle""#).unwrap(),
            ..ToolCall::default()
        },
    )
}

#[test]
fn each_filter_narrows_hits() {
    let mut log = Log::new();
    log.set_project("a", "/home/dev/one");
    log.set_project("b", "/home/dev/two");
    let prompt = log.prompt("a", "needle");
    let answer = log.answer("b", "needle");
    let bash = call(&mut log, "a", "bash", "1");
    let edit = call(&mut log, "b", "edit", "2");
    let codex =
        log.add_draft("c", Kind::Note, Raw::parse(r#"{"text":"needle"}"#).unwrap(), |draft| {
            draft.provider = "codex".to_owned();
            draft.created_at = Time::from_millis(1_700_000_000_000);
        });
    let needle = || Query::new("needle");
    let all = [prompt, answer, bash, edit, codex];
    assert_eq!(found(&log, &needle()), all);
    assert_eq!(found(&log, &Query { session: Some(session("a")), ..needle() }), [prompt, bash]);
    let project = Some("/home/dev/two".to_owned());
    assert_eq!(found(&log, &Query { project, ..needle() }), [answer, edit]);
    let provider = Some("codex".to_owned());
    assert_eq!(found(&log, &Query { provider, ..needle() }), [codex]);
    let kinds = vec![Kind::UserPrompt, Kind::Note];
    assert_eq!(found(&log, &Query { kinds, ..needle() }), [prompt, codex]);
    assert_eq!(found(&log, &Query { tool: Some("edit".to_owned()), ..needle() }), [edit]);
    let tool = Some("bash".to_owned());
    assert_eq!(found(&log, &Query { tool, session: Some(session("b")), ..needle() }), NONE);
    let kinds = vec![Kind::Note];
    assert_eq!(found(&log, &Query { kinds, ..Query::new("=>") }), NONE);
}

#[test]
fn times_are_compared_as_instants() {
    let mut log = Log::new();
    const DAY: i64 = 86_400_000;
    let times = [-400_000 * DAY, -DAY, 0, 1, DAY - 1, DAY, 31 * DAY, 32 * DAY, 99_999 * DAY];
    let mut positions = Vec::new();
    for millis in times {
        let data = Raw::parse(r#"{"text":"needle"}"#).unwrap();
        positions.push(log.add_draft("s", Kind::Note, data, |draft| {
            draft.created_at = Time::from_millis(millis);
        }));
    }
    for after in times {
        for before in times {
            let query = Query {
                after: Some(Time::from_millis(after)),
                before: Some(Time::from_millis(before)),
                ..Query::new("needle")
            };
            let expected: Vec<u64> = times
                .iter()
                .zip(&positions)
                .filter(|(time, _)| (after..before).contains(*time))
                .map(|(_, position)| *position)
                .collect();
            assert_eq!(found(&log, &query), expected, "{after} {before}");
        }
        let since = Query { after: Some(Time::from_millis(after)), ..Query::new("needle") };
        let expected = times.iter().filter(|time| **time >= after).count();
        assert_eq!(found(&log, &since).len(), expected);
    }
}

#[test]
fn fork_finds_inherited_events_only() {
    let mut log = Log::new();
    let inherited = log.prompt("parent", "needle before");
    log.prompt("parent", "nothing");
    let after = log.prompt("parent", "needle after");
    log.fork("fork", "parent", 2);
    let own = log.prompt("fork", "needle of its own");
    log.fork("grandchild", "fork", 1);
    let of = |name: &str| Query { session: Some(session(name)), ..Query::new("needle") };
    assert_eq!(found(&log, &of("parent")), [inherited, after]);
    assert_eq!(found(&log, &of("fork")), [inherited, own]);
    assert_eq!(found(&log, &of("grandchild")), [inherited]);
    let hit = log.search(&of("grandchild")).hits.remove(0);
    assert_eq!((hit.session_id, hit.seq), (session("parent"), 1));
    assert_eq!(found(&log, &Query::new("needle")).len(), 3);
}

#[test]
fn amendment_replaces_first_account() {
    let mut log = Log::new();
    let first = log.prompt("s", "needle, shortly");
    let id = log.event(first).id;
    let data = Raw::parse(r#"{"content":"needle, at length"}"#).unwrap();
    let amends = Raw::from_value(&id).unwrap();
    assert_eq!(found(&log, &Query::new("needle")), [first]);
    let fuller = log.add_draft("s", Kind::UserPrompt, data, |draft| {
        draft.metadata.insert(event::AMENDS.to_owned(), amends);
    });
    // First with the account in the tail, then with both indexed.
    assert_eq!(log.search(&Query::new("needle")).hits.len(), 1);
    assert_eq!(found(&log, &Query::new("needle")), [fuller]);
    assert_eq!(found(&log, &Query::new("shortly")), NONE);
    assert_eq!(found(&log, &Query::new(",")), [fuller]);
}

#[test]
fn keys_are_found_through_lineage() {
    let mut log = Log::new();
    let first = call(&mut log, "parent", "bash", "call");
    call(&mut log, "parent", "bash", "other");
    let late = call(&mut log, "parent", "bash", "call");
    log.fork("fork", "parent", 2);
    let own = call(&mut log, "fork", "bash", "call");
    call(&mut log, "stranger", "bash", "call");
    let key = EventKey::new(KeyFamily::Call, "call");
    let of = |log: &Log, name: &str| -> Vec<u64> {
        let found = |derived| find_by_key(log, derived, &session(name), &key).unwrap();
        let positions = |found: Vec<crate::Recorded>| -> Vec<u64> {
            found.iter().map(|recorded| recorded.position).collect()
        };
        let scanned = positions(found(None));
        assert_eq!(positions(found(Some(&log.derived))), scanned);
        scanned
    };
    for _ in ["not indexed", "indexed"] {
        assert_eq!(of(&log, "parent"), [first, late]);
        assert_eq!(of(&log, "fork"), [first, own]);
        assert_eq!(of(&log, "unknown"), NONE);
        log.index_all();
    }
    let wrong_family = EventKey::new(KeyFamily::Approval, "call");
    assert_eq!(find_by_key(&log, Some(&log.derived), &session("fork"), &wrong_family).unwrap(), []);
}
