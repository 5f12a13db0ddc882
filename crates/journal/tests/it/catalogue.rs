//! What there is, from counters that are kept with every commit.

use std::collections::BTreeSet;

use event::{Cost, SessionId};
use journal::{Journal, ReadError, SessionFilter};

use crate::given::{at, fact, fork, host, observe, prompt, session, talk};
use crate::world::World;

cases! {
    session_begins_with_first_event
    counters_are_kept_with_every_event
    money_is_summed_exactly
    second_tellings_are_not_counted
    a_refused_batch_is_not_counted
    session_start_describes_session
    settings_rename_a_session
    last_activity_is_latest_time
    sessions_are_listed_by_last_activity
    every_page_size_lists_the_same
    filters_select_sessions
    user_records_are_no_sessions
    sparse_filter_scans_all_sessions
    paging_is_stable_during_appends
    foreign_cursor_is_refused
    a_prefix_stands_for_one_session
    provider_id_resolves_session
    exact_provider_id_wins_over_many
    a_prefix_of_several_is_ambiguous
    a_whole_id_is_never_ambiguous
    short_ids_name_one_session
    a_prefix_is_taken_literally
    a_blank_prefix_is_refused
}

fn session_begins_with_first_event(mut world: World) {
    assert!(!world.exists(&session("a")).unwrap());
    talk(&world, "a", 1);
    assert!(world.exists(&session("a")).unwrap());
    world.reopen();
    assert!(world.exists(&session("a")).unwrap());
    assert!(!world.exists(&session("A")).unwrap());
}

fn counters_are_kept_with_every_event(mut world: World) {
    let mut bytes = 0;
    for n in 1..=5 {
        host(&world, prompt("a", n));
        talk(&world, "b", n);
        let stat = world.stat(&session("a")).unwrap();
        assert_eq!((stat.events, stat.tail_seq), (n, n));
        assert_eq!((stat.started_at, stat.last_event_at), (at(1), at(n as i64)));
        assert!(stat.bytes >= bytes + prompt("a", n).data.get().len() as u64);
        bytes = stat.bytes;
    }
    let before = world.stat(&session("a")).unwrap();
    world.reopen();
    assert_eq!(world.stat(&session("a")).unwrap(), before);
}

fn money_is_summed_exactly(mut world: World) {
    let costs = ["0.1", "0.2", "0.000000001", "0", "1234567.000000009"];
    for (n, cost) in (1..).zip(costs) {
        let mut draft = prompt("a", n);
        draft.cost = Some(cost.parse().unwrap());
        host(&world, draft);
    }
    host(&world, prompt("a", 9));
    world.reopen();
    let sum: Cost = "1234567.30000001".parse().unwrap();
    assert_eq!(world.stat(&session("a")).unwrap().cost, sum);
}

fn second_tellings_are_not_counted(world: World) {
    let mut draft = prompt("a", 1);
    draft.cost = Some(Cost::from_nanos(5));
    host(&world, draft.clone());
    let before = world.stat(&session("a")).unwrap();
    host(&world, draft.clone());
    draft.text = Some("something else".to_owned());
    draft.created_at = at(99);
    observe(&world, draft);
    assert_eq!(world.stat(&session("a")).unwrap(), before);
}

fn a_refused_batch_is_not_counted(world: World) {
    talk(&world, "a", 2);
    let before = world.stat(&session("a")).unwrap();
    let mut other = prompt("a", 2);
    other.text = Some("something else".to_owned());
    let batch = journal::Batch::hosted().with_all([prompt("a", 3), other]);
    assert!(world.append(batch).is_err());
    assert_eq!(world.stat(&session("a")).unwrap(), before);
}

fn session_start_describes_session(mut world: World) {
    let data = r#"{"agent":"claude","model":"m","cwd":"/home/dev/x","project":"x","title":"t"}"#;
    let mut draft = fact("a", 1, "session.started", data);
    draft.provider = "claude".to_owned();
    draft.provider_session_id = Some("c0ffee".to_owned());
    observe(&world, draft);
    world.reopen();
    let stat = world.stat(&session("a")).unwrap();
    let told = [&stat.agent, &stat.model, &stat.cwd, &stat.project, &stat.title];
    let told = told.map(|field| field.as_deref().unwrap());
    assert_eq!(told, ["claude", "m", "/home/dev/x", "x", "t"]);
    assert_eq!(stat.provider, "claude");
    assert_eq!(stat.provider_session_id.as_deref(), Some("c0ffee"));
    assert_eq!(stat.mode(), None);
}

fn settings_rename_a_session(mut world: World) {
    host(&world, fact("a", 1, "session.started", r#"{"title":"old","model":"m1"}"#));
    host(&world, fact("a", 2, "settings.changed", r#"{"title":"new"}"#));
    let named = |journal: &Journal| {
        let stat = journal.stat(&session("a")).unwrap();
        (stat.title.unwrap(), stat.model.unwrap())
    };
    assert_eq!(named(&world), ("new".to_owned(), "m1".to_owned()));
    host(&world, fact("a", 3, "settings.changed", r#"{"model":"m2"}"#));
    world.reopen();
    assert_eq!(named(&world), ("new".to_owned(), "m2".to_owned()));
}

fn last_activity_is_latest_time(world: World) {
    for n in [5, 9, 2] {
        host(&world, prompt("a", n));
    }
    let stat = world.stat(&session("a")).unwrap();
    assert_eq!((stat.started_at, stat.last_event_at), (at(5), at(9)));
}

/// The whole listing, in pages of `limit`.
#[track_caller]
fn list(journal: &Journal, filter: &SessionFilter, limit: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let page = journal.sessions(filter, cursor.as_deref(), limit).unwrap();
        assert!(page.items.len() <= limit);
        names.extend(page.items.into_iter().map(|info| info.id.as_str().to_owned()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return names,
        }
    }
}

fn sessions_are_listed_by_last_activity(mut world: World) {
    for (name, n) in [("a", 5), ("b", 9), ("c", 7), ("ancient", 1), ("d", 8)] {
        host(&world, prompt(name, n));
    }
    host(&world, prompt("a", 10));
    host(&world, prompt("c", 3));
    world.reopen();
    let listed = list(&world, &SessionFilter::default(), 100);
    assert_eq!(listed, ["a", "b", "d", "c", "ancient"]);
    let page = world.sessions(&SessionFilter::default(), None, 1).unwrap();
    assert_eq!(page.items, [world.stat(&session("a")).unwrap()]);
}

fn every_page_size_lists_the_same(world: World) {
    for n in 0..12 {
        // Several with one instant: the listing has to go on between them.
        host(&world, prompt(&format!("s{n}"), 1 + n / 4));
    }
    let whole = list(&world, &SessionFilter::default(), 100);
    assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 12);
    for limit in 1..=13 {
        assert_eq!(list(&world, &SessionFilter::default(), limit), whole);
    }
}

fn filters_select_sessions(world: World) {
    for (name, n, provider, data) in [
        ("a", 10, "claude", r#"{"project":"x","cwd":"/home/dev/x"}"#),
        ("b", 20, "codex", r#"{"project":"y","cwd":"/home/dev/x"}"#),
        ("c", 30, "claude", r#"{"cwd":"/home/dev/z"}"#),
        ("d", 40, "codex", "{}"),
    ] {
        let mut draft = fact(name, n, "session.started", data);
        draft.provider = provider.to_owned();
        observe(&world, draft);
    }
    host(&world, prompt("a", 35));
    let listed = |filter: SessionFilter| list(&world, &filter, 2).join(" ");
    let all = SessionFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(listed(all()), "d a c b");
    assert_eq!(listed(SessionFilter { provider: text("claude"), ..all() }), "a c");
    assert_eq!(listed(SessionFilter { provider: text("nobody"), ..all() }), "");
    assert_eq!(listed(SessionFilter { project: text("x"), ..all() }), "a");
    assert_eq!(listed(SessionFilter { project: text("z"), ..all() }), "c");
    assert_eq!(listed(SessionFilter { project: text("dev/x"), ..all() }), "");
    assert_eq!(listed(SessionFilter { project: text("/home/dev/x"), ..all() }), "a b");
    assert_eq!(listed(SessionFilter { active_since: Some(at(35)), ..all() }), "d a");
    assert_eq!(listed(SessionFilter { active_since: Some(at(36)), ..all() }), "d");
    assert_eq!(listed(SessionFilter { active_until: Some(at(20)), ..all() }), "a b");
    let between = SessionFilter { active_since: Some(at(30)), active_until: Some(at(30)), ..all() };
    assert_eq!(listed(between), "a c");
}

fn user_records_are_no_sessions(world: World) {
    observe(&world, fact("a", 1, "session.started", "{}"));
    let mut rule = fact("user:rules", 2, "rule.added", r#"{"rule":"block shell: rm"}"#);
    rule.provider = event::USER_RECORDS.to_owned();
    observe(&world, rule);
    observe(&world, fact("user;", 3, "session.started", "{}"));
    assert_eq!(list(&world, &SessionFilter::default(), 2).join(" "), "user; a");
    assert_eq!(world.session_count().unwrap(), 2);
    let records = Some(event::USER_RECORDS.to_owned());
    let records = SessionFilter { provider: records, ..SessionFilter::default() };
    assert_eq!(list(&world, &records, 2), ["user:rules"]);
}

fn sparse_filter_scans_all_sessions(world: World) {
    let mut batch = journal::Batch::observed();
    for n in 0..1_000 {
        let mut draft = prompt(&format!("s{n:04}"), n + 1);
        if n % 333 == 0 {
            draft.provider = "rare".to_owned();
        }
        batch = batch.with(draft);
    }
    world.append(batch).unwrap();
    let rare = SessionFilter { provider: Some("rare".to_owned()), ..SessionFilter::default() };
    assert_eq!(list(&world, &rare, 1), ["s0999", "s0666", "s0333", "s0000"]);
    assert_eq!(list(&world, &SessionFilter::default(), 300).len(), 1_000);
}

fn paging_is_stable_during_appends(world: World) {
    for n in 1..=9 {
        host(&world, prompt(&format!("s{n}"), n));
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    for news in 100.. {
        let page = world.sessions(&SessionFilter::default(), cursor.as_deref(), 2).unwrap();
        seen.extend(page.items.into_iter().map(|info| info.id));
        // One that is still to come, one that was listed, and one that is new move to the front.
        host(&world, prompt("s4", news));
        host(&world, prompt("s9", news));
        host(&world, prompt(&format!("new{news}"), news));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let quiet = [9, 8, 7, 6, 5, 3, 2, 1].map(|n| session(&format!("s{n}")));
    assert_eq!(seen, quiet);
}

fn foreign_cursor_is_refused(world: World) {
    talk(&world, "a", 1);
    for cursor in
        ["", "x", ":", "1", "1:", ":1", "1:x", "99999999999999999999999999999999999999999:1"]
    {
        let error = world.sessions(&SessionFilter::default(), Some(cursor), 10).unwrap_err();
        assert!(matches!(&error, ReadError::BadArgument { argument, .. } if argument == cursor));
    }
}

fn provided(journal: &Journal, name: &str, provider_id: &str) {
    let mut draft = prompt(name, 1);
    draft.provider_session_id = Some(provider_id.to_owned());
    observe(journal, draft);
}

#[track_caller]
fn resolved(journal: &Journal, prefix: &str) -> String {
    journal.resolve(prefix).unwrap().id.as_str().to_owned()
}

#[track_caller]
fn assert_no_such(journal: &Journal, prefix: &str) {
    let error = journal.resolve(prefix).unwrap_err();
    assert!(matches!(&error, ReadError::NoSuchPrefix(found) if found == prefix), "{error:?}");
}

fn a_prefix_stands_for_one_session(mut world: World) {
    for name in ["alpha", "beta", "用户-1"] {
        talk(&world, name, 1);
    }
    host(&world, fork("gamma", 1, "alpha", 1));
    world.reopen();
    for prefix in ["a", "alp", "alpha"] {
        assert_eq!(resolved(&world, prefix), "alpha");
    }
    assert_eq!(resolved(&world, "g"), "gamma");
    assert_eq!(resolved(&world, "用"), "用户-1");
    for missing in ["alphas", "lpha", "x"] {
        assert_no_such(&world, missing);
    }
}

fn provider_id_resolves_session(mut world: World) {
    provided(&world, "claude-one", "c0ffee-1");
    provided(&world, "claude-two", "decaf-2");
    world.reopen();
    assert_eq!(resolved(&world, "c0f"), "claude-one");
    assert_eq!(resolved(&world, "decaf-2"), "claude-two");
    // A session that fits in both ways is one session.
    provided(&world, "same", "same-as-ours");
    assert_eq!(resolved(&world, "sam"), "same");
}

fn exact_provider_id_wins_over_many(world: World) {
    for number in 0..30 {
        provided(&world, &format!("longer-{number}"), &format!("c0ffee-{number}"));
    }
    provided(&world, "exact", "c0ffee");
    assert_eq!(resolved(&world, "c0ffee"), "exact");
}

fn a_prefix_of_several_is_ambiguous(world: World) {
    talk(&world, "ab1", 1);
    talk(&world, "ab2", 1);
    provided(&world, "x", "ab3");
    let error = world.resolve("ab").unwrap_err();
    let ReadError::Ambiguous { prefix, candidates } = error else {
        panic!("{error:?}");
    };
    assert_eq!(prefix, "ab");
    let candidates: BTreeSet<SessionId> = candidates.into_iter().collect();
    assert_eq!(candidates, ["ab1", "ab2", "x"].map(session).into());
}

fn short_ids_name_one_session(world: World) {
    for number in 0..50 {
        provided(&world, &format!("claude:{number}"), &format!("0198f00d-bead-{number:02}-rest"));
    }
    provided(&world, "claude:alone", "c0ffee00-1111-2222");
    provided(&world, "claude:part", "c0ffee11");
    provided(&world, "claude:whole", "c0ffee11-2222");
    // Copies of one session, which share their provider's id.
    provided(&world, "claude:copy-one", "cafecafe-1234");
    provided(&world, "claude:copy-two", "cafecafe-1234");
    talk(&world, "ulid0000000000", 1);
    let short = |id: &str| {
        let info = world.stat(&session(id)).unwrap();
        world.short_id(&info.id, info.provider_session_id.as_deref()).unwrap()
    };
    assert_eq!(short("claude:alone"), "c0ffee00");
    assert_eq!(short("claude:7"), "0198f00d-bead-07");
    assert_eq!(short("claude:part"), "c0ffee11");
    assert_eq!(short("claude:whole"), "c0ffee11-");
    assert_eq!(short("claude:copy-one"), "claude:copy-one");
    assert_eq!(short("claude:copy-two"), "claude:copy-two");
    assert_eq!(short("ulid0000000000"), "ulid0000");
    let all = ["claude:7", "claude:42", "claude:alone", "claude:part", "claude:whole"];
    for id in all.into_iter().chain(["claude:copy-one", "claude:copy-two", "ulid0000000000"]) {
        assert_eq!(resolved(&world, &short(id)), id);
    }
}

fn a_whole_id_is_never_ambiguous(world: World) {
    talk(&world, "ab", 1);
    talk(&world, "abc", 1);
    assert_eq!(resolved(&world, "ab"), "ab");
    provided(&world, "x", "pq");
    provided(&world, "y", "pqr");
    assert_eq!(resolved(&world, "pq"), "x");
}

fn a_prefix_is_taken_literally(world: World) {
    for name in ["ab", "AX", "a%b", "z_", "z*", "z[q]", "\u{10FFFF}x"] {
        talk(&world, name, 1);
    }
    assert_eq!(resolved(&world, "a%"), "a%b");
    assert_eq!(resolved(&world, "A"), "AX");
    assert_eq!(resolved(&world, "z_"), "z_");
    assert_eq!(resolved(&world, "z*"), "z*");
    assert_eq!(resolved(&world, "z["), "z[q]");
    assert_eq!(resolved(&world, "\u{10FFFF}"), "\u{10FFFF}x");
    for missing in ["%", "_", "*", "?", "a_", "AB", "z?", "[", "'", "\"", "\\"] {
        assert_no_such(&world, missing);
    }
}

fn a_blank_prefix_is_refused(world: World) {
    talk(&world, "a", 1);
    for blank in ["", " ", "\t\n"] {
        let error = world.resolve(blank).unwrap_err();
        assert!(matches!(error, ReadError::BadArgument { .. }), "{error:?}");
    }
}
