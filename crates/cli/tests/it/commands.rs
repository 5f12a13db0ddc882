//! Each command on the sample.

use expect_test::expect;

use crate::status::session;
use crate::up::up;
use crate::{empty, import, json, sample};

#[test]
fn import_is_idempotent() {
    let world = empty();
    let lines = include_str!("../../../../docs/sample.ndjson");
    expect![[r#"
        recorded 35 events of 3 sessions
    "#]]
    .assert_eq(&import(&world, lines).to_string());
    expect![[r#"
        recorded 0 events of 3 sessions
        35 events already there
    "#]]
    .assert_eq(&import(&world, lines).to_string());
}

#[test]
fn sample_comes_with_the_program() {
    let world = empty();
    let said = world.run(&["import", "--sample"]);
    expect![[r#"
        recorded 35 events of 3 sessions
    "#]]
    .assert_eq(&said.to_string());
    let refused = world.run(&["import", "--sample", "events.ndjson"]);
    assert_eq!(refused.code, Some(2), "{refused}");
}

#[test]
fn sessions_are_listed_newest_activity_first() {
    let said = sample().run(&["sessions"]);
    expect![[r#"
        b20f93ad  2026-03-03 08:17  claude      11    $0.14  project  Move the settings into one file
        019cb04d  2026-03-02 13:44  codex       10    $0.02  project  Greet 用户 by name
        7c1e4b52  2026-03-02 09:14  claude      14    $0.04  project  The total is a cent short
    "#]]
    .assert_eq(&said.to_string());
}

#[test]
fn listing_continues_behind_its_cursor() {
    let world = sample();
    let first = json(&world.run(&["--json", "sessions", "--limit", "2"])).remove(0);
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let after = first["next"].as_str().unwrap();
    let rest =
        json(&world.run(&["--json", "sessions", "--limit", "2", "--after", after])).remove(0);
    assert_eq!(rest["items"][0]["id"], "01KJPX6XZEPC681EKEQYJE5EQ1");
    assert!(rest["next"].is_null());
}

#[test]
fn session_is_found_by_either_id() {
    let world = sample();
    let ours = world.run(&["show", "01KJPX"]);
    let theirs = world.run(&["show", "7c1e4b52"]);
    assert_eq!(ours, theirs);
    assert!(ours.stdout.contains("The total is a cent short"), "{ours}");
}

#[test]
fn show_prints_turns_as_json() {
    let session = json(&sample().run(&["--json", "show", "01KJPX"])).remove(0);
    assert_eq!(session["counts"]["prompts"], 1);
    assert_eq!(session["counts"]["tool_calls"], 3);
    assert_eq!(session["turns"][0]["tools"]["Edit"], 1);
    assert!(session["status"].is_null(), "unknown is null, not absent");
}

#[test]
fn events_are_printed_as_they_were_imported() {
    let world = sample();
    let said = world.run(&["--json", "show", "01KJPX", "--events"]);
    let imported: Vec<&str> = include_str!("../../../../docs/sample.ndjson")
        .lines()
        .filter(|line| line.contains("\"session_id\":\"01KJPX6XZEPC681EKEQYJE5EQ1\""))
        .collect();
    assert_eq!(said.stdout.lines().collect::<Vec<_>>(), imported);
}

#[test]
fn until_shows_an_earlier_state() {
    let world = sample();
    let said = world.run(&["--json", "show", "01KJPX", "--events", "--until", "3"]);
    assert_eq!(said.stdout.lines().count(), 3);
    let said =
        world.run(&["--json", "show", "01KJPX", "--events", "--until", "2026-03-02T09:14:21.402Z"]);
    assert_eq!(said.stdout.lines().count(), 3);
}

#[test]
fn effective_view_starts_at_compaction() {
    let view = json(&sample().run(&["--json", "show", "01KJSB", "--effective"])).remove(0);
    let kinds: Vec<&str> = view["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["context.added", "context.added", "user.prompt", "assistant.message"]);
}

#[test]
fn effective_json_has_calls_and_repairs() {
    let world = sample();
    let line = |seq: u64, kind: &str, data: &str| {
        format!(
            r#"{{"session_id":"calls","seq":{seq},"kind":"{kind}","created_at":"2026-03-01T09:00:0{seq}Z","data":{data}}}"#
        )
    };
    let lines = [
        line(1, "context.added", r#"{"kind":"harness","content":"rules"}"#),
        line(
            2,
            "tool.call",
            r#"{"message_id":"m1","block":0,"call_id":"c1","tool":"read","input":{"path":"a.rs"}}"#,
        ),
        line(
            3,
            "tool.result",
            r#"{"call_id":"c1","outcome":"error","error":"gone","duration_ms":7}"#,
        ),
        line(4, "tool.result", r#"{"call_id":"c9","outcome":"ok"}"#),
    ];
    import(&world, &(lines.join("\n") + "\n"));
    let view = json(&world.run(&["--json", "show", "calls", "--effective"])).remove(0);
    let entries = view["entries"].as_array().unwrap();
    assert_eq!(entries[0]["context_kind"], "harness");
    assert_eq!(entries[0]["calls"], serde_json::json!([]));
    let call = serde_json::json!({"call_id": "c1", "name": "read", "input": {"path": "a.rs"}});
    assert_eq!((&entries[1]["calls"][0], &entries[1]["seq"]), (&call, &2.into()));
    assert_eq!(entries[2]["tool"]["input"], call["input"]);
    assert_eq!(entries[2]["tool"]["error"], "gone");
    assert_eq!(entries[2]["tool"]["duration_ms"], 7);
    let repairs = serde_json::json!([{"seq": 4, "why": "result without a call"}]);
    assert_eq!((&view["repairs"], &view["base_seq"]), (&repairs, &serde_json::Value::Null));
}

#[test]
fn a_session_is_exported_as_run_and_episode() {
    let world = sample();
    let run = json(&world.run(&["export", "01KJPX", "--format", "run"])).remove(0);
    assert!(run["turns"][0]["steps"][0]["step_id"].is_string(), "{run}");
    let tree = json(&world.run(&["export", "01KJPX", "--format", "run", "--tree"])).remove(0);
    assert_eq!(run["turns"], tree["turns"]);
    let episode = json(&world.run(&["export", "01KJPX", "--format", "episode"])).remove(0);
    assert_eq!(episode["session_id"], run["session_id"]);
    assert_eq!(episode["started_at"], run["started_at"]);
    assert_eq!(episode["total_cost"], run["total_cost"]);
    assert!(episode["failed_calls"].is_u64());
}

#[test]
fn search_finds_typed_words() {
    let world = sample();
    for (words, at_least) in [
        (&["foo-bar.rs"][..], 1),
        (&["c++"], 1),
        (&["用户"], 3),
        (&["CENT", "short"], 1),
        (&["\"a cent short"], 0),
        (&["\"a cent short\""], 1),
        (&["a:b"], 0),
        (&[""], 0),
    ] {
        let arguments: Vec<&str> = ["--json", "search"].iter().chain(words).copied().collect();
        let said = world.run(&arguments);
        assert_eq!(said.stderr, "", "{words:?}");
        let found: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert!(found["hits"].as_array().unwrap().len() >= at_least, "{words:?}: {found}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(world.run(&["--json", "search", &long]).stderr, "");
}

#[test]
fn fork_shows_its_parent() {
    let world = sample();
    let forked = json(
        &world.run(&["--json", "fork", "01KJPX", "--at", "5", "--id", "try", "--label", "again"]),
    );
    assert_eq!(forked[0]["fork_point_seq"], 5);
    let events = json(&world.run(&["--json", "show", "try", "--events"]));
    assert_eq!(events.len(), 6);
    assert_eq!(events[0]["metadata"]["fork_origin"]["session_id"], "01KJPX6XZEPC681EKEQYJE5EQ1");
    expect![[r#"
        7c1e4b52
          try  fork at #5 · again
    "#]]
    .assert_eq(&world.run(&["lineage", "try"]).to_string());
}

#[test]
fn replay_equals_stored_state() {
    let world = sample();
    for session in ["01KJPX", "01KJQC", "01KJSB"] {
        let replayed = json(&world.run(&["--json", "replay", session])).remove(0);
        assert_eq!(replayed["equal"], true, "{session}");
    }
}

#[test]
fn bundle_is_equal_from_both_stores() {
    let world = sample();
    world.run(&["fork", "01KJPX", "--id", "try"]);
    let bundle = world.run(&["export", "01KJPX", "--tree"]).stdout;
    for store in ["sqlite", "files"] {
        let other = empty();
        let said = other.run_with_input(&["import", "--store", store], bundle.as_bytes());
        assert_eq!(said.code, Some(0), "{said}");
        assert_eq!(other.run(&["export", "01KJPX", "--tree"]).stdout, bundle, "{store}");
        let again = json(&other.run_with_input(&["--json", "import"], bundle.as_bytes()));
        assert_eq!(again[0]["events"], 0, "{store}");
    }
}

#[test]
fn import_derives_missing_ids() {
    let world = crate::empty();
    let line = r#"{"session_id":"s1","kind":"note","created_at":"2026-01-01T00:00:00Z","data":{"text":"a"}}"#;
    let lines = format!("{line}\n{line}\n{}\n", line.replace("\"a\"", "\"b\""));
    let import = || json(&world.run_with_input(&["--json", "import"], lines.as_bytes())).remove(0);
    let first = import();
    assert_eq!((&first["events"], &first["already_recorded"]), (&3.into(), &0.into()), "{first}");
    let second = import();
    assert_eq!(
        (&second["events"], &second["already_recorded"]),
        (&0.into(), &3.into()),
        "{second}"
    );
}

#[test]
fn deleted_sample_stays_deleted_and_says_so() {
    let world = sample();
    let listed = json(&world.run(&["--json", "sessions", "--limit", "9"])).remove(0);
    for session in listed["items"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        assert_eq!(world.run(&["delete", id, "--yes"]).code, Some(0));
    }
    let said = json(&world.run(&["--json", "import", "--sample"])).remove(0);
    assert_eq!((&said["events"], &said["already_recorded"]), (&0.into(), &0.into()), "{said}");
    assert!(said["deleted"].as_u64() > Some(0), "{said}");
    expect![[r#"
        recorded 0 events of 3 sessions
        35 events of deleted sessions left out
        --- stderr
        what was deleted stays deleted; `--journal DIR` imports into a journal of its own
    "#]]
    .assert_eq(&world.run(&["import", "--sample"]).to_string());
}

#[test]
fn doctor_accepts_a_sound_journal() {
    let report = json(&sample().run(&["--json", "doctor"])).remove(0);
    assert_eq!(report["ok"], true, "{report}");
}

#[test]
fn usage_until_a_day_ends_with_it() {
    let world = sample();
    let days = |until: &str| {
        let said = json(&world.run(&["--json", "usage", "daily", "--until", until])).remove(0);
        let rows = said["rows"].as_array().unwrap().iter();
        rows.filter_map(|row| Some(row["key"].as_str()?.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(days("2026-03-02"), ["2026-03-02"]);
    assert_eq!(days("2026-03-03"), ["2026-03-02", "2026-03-03"]);
}

#[test]
fn digest_groups_a_day_by_project() {
    let world = sample();
    let said = world.run(&["digest", "2026-03-02"]);
    expect![[r#"
        Monday, 2026-03-02

        project
          09:14–09:14  coding, active 100 % of the time
              src/foo-bar.rs
          13:40–13:44  operations, active 100 % of the time
          09:14–09:14  The total is a cent short  7c1e4b52
              Goal: A basket of three items at 0.333 shows 0.99 instead of 1.00. It must be somewhere in foo-bar.rs. Please find it, fix it and add a test.
              Decided: A basket of three items at 0.333 shows 0.99 instead of 1.00.
              Did: Edited /home/dev/project/src/foo-bar.rs; Ran cargo 1; Tests passed: cargo test
          13:40–13:44  Greet 用户 by name  019cb04d
              Goal: The greeting for 用户 is cut after two bytes in the C++ client. Find out why, then push a branch with the fix.
              Did: Ran grep 1, git 1
    "#]].assert_eq(&said.to_string());
    let digest = json(&world.run(&["--json", "digest", "20260302"])).remove(0);
    assert_eq!(digest["day"], "20260302");
    let project = &digest["projects"][0];
    assert_eq!(project["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(project["activities"][0]["facet"], "project");
}

#[test]
fn digest_reports_empty_and_invalid_days() {
    let world = sample();
    let said = world.run(&["digest", "2020-01-01"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("no work is recorded on that day"), "{said}");
    let said = world.run(&["digest", "2026-02-30"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("not a day"), "{said}");
}

#[test]
fn empty_lists_say_what_to_do() {
    let world = empty();
    let lists: [&[&str]; 9] = [
        &["sessions"],
        &["status"],
        &["status", "--all"],
        &["search", "word"],
        &["usage"],
        &["usage", "daily"],
        &["prices", "list"],
        &["approvals"],
        &["digest", "2026-03-02"],
    ];
    for list in lists {
        let said = world.run(list);
        let advice = "hint: `hansard up` creates and fills one, or point `--journal` at another";
        assert_eq!((said.code, said.stderr.contains(advice)), (Some(1), true), "{list:?}: {said}");
    }
    import(&world, "");
    let mut told = String::new();
    for list in lists {
        told += &format!("$ hansard {}\n{}", list.join(" "), world.run(list));
    }
    let daemon = up(&world);
    told += &format!("$ hansard task list\n{}", world.run(&["task", "list"]));
    assert_eq!(daemon.terminate().code, Some(0));
    expect![[r#"
        $ hansard sessions
        --- stderr
        no sessions yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        $ hansard status
        no sessions yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        $ hansard status --all
        no sessions yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        $ hansard search word
        --- stderr
        no sessions yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        --- exit 1
        $ hansard usage
        --- stderr
        no tokens yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        $ hansard usage daily
        --- stderr
        no tokens yet; `hansard up` records what agents write, `hansard import --sample` adds three recorded sessions
        $ hansard prices list
        --- stderr
        no recorded session names a model; `--all` lists every price
        $ hansard approvals
        --- stderr
        no approvals are pending; `hansard status` shows what each session is doing
        $ hansard digest 2026-03-02
        Monday, 2026-03-02
        --- stderr
        no work is recorded on that day; `hansard sessions` lists other days
        --- exit 1
        $ hansard task list
        --- stderr
        no tasks are running or waiting; `hansard task run -- CMD` adds one
    "#]].assert_eq(&told);
}

#[test]
fn digest_shows_no_secret() {
    let world = empty();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let lines = include_str!("../../../../docs/sample.ndjson");
    // In a title, and in a prompt.
    let lines = lines.replace("cent short", secret).replace("three items", secret);
    import(&world, &lines);
    for command in [["digest", "2026-03-02"].as_slice(), &["show", "01KJPX", "--digest"]] {
        let said = world.run(command);
        assert_eq!(said.code, Some(0), "{said}");
        assert!(!said.stdout.contains(secret) && said.stdout.contains("redacted"), "{said}");
    }
}

#[test]
fn follow_prints_last_then_new_events() {
    let world = empty();
    import(&world, &session("33334444", &[]));
    let mut follower = world.start(&["--json", "show", "33334444", "--follow"]);
    let mut kind = || {
        let event: serde_json::Value = serde_json::from_str(&follower.line().unwrap()).unwrap();
        event["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!([kind(), kind()], ["session.started", "user.prompt"]);
    let call = serde_json::json!({"call_id": "c1", "tool": "Bash", "input": {"command": "ls"}});
    import(&world, &session("33334444", &[("tool.call", call)]));
    assert_eq!(kind(), "tool.call");
    let said = follower.terminate();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
}
