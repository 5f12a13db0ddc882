//! What models cost, and newer prices from a file.

use std::fs;

use expect_test::expect;
use testkit::World;

use crate::chain_crash::journal;
use crate::{import, json, sample};

/// Writes a file into the home of a world and returns its path.
fn file(world: &World, name: &str, text: &str) -> String {
    let path = world.home().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const NEWER: &str = r#"{"claude-opus-9": {"litellm_provider": "anthropic", "mode": "chat",
        "input_cost_per_token": 7e-06, "output_cost_per_token": 3.5e-05},
    "gpt-5": {"litellm_provider": "openai", "mode": "chat",
        "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-05},
    "bedrock/claude-opus-9": {"litellm_provider": "bedrock", "mode": "chat"}}"#;

/// One request to a model that no table knows.
fn with_unknown_model() -> World {
    let world = sample();
    let line = r#"{"session_id":"s","kind":"step.completed","created_at":"2026-11-16T08:00:00Z","data":{"agent_id":"main","model":"claude-opus-9-20271201","usage":{"input_tokens":1000000}}}"#;
    assert_eq!(import(&world, line).code, Some(0));
    world
}

#[test]
fn prices_say_where_they_come_from() {
    let world = with_unknown_model();
    let listed = json(&world.run(&["--json", "prices", "list", "opus"])).remove(0);
    let found = &listed["prices"][0];
    assert_eq!(found["model"], "claude-opus-9");
    assert_eq!(
        (&found["source"], &found["priced_as"]),
        (&"family".into(), &"claude-opus-5-5".into())
    );
    let usage = json(&world.run(&["--json", "usage", "model"])).remove(0);
    let rows = usage["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["key"] == "claude-opus-9").unwrap();
    assert_eq!(row["usd_parts"].to_string(), r#"{"computed":0,"estimated":4,"reported":0}"#);
    let all = json(&world.run(&["--json", "prices", "list", "--all"])).remove(0);
    assert!(all["prices"].as_array().unwrap().len() > 100);
    assert_eq!(world.run(&["prices", "list", "nothing-like-it"]).code, Some(0));
}

#[test]
fn newer_prices_are_taken_from_a_file() {
    let world = with_unknown_model();
    let path = file(&world, "litellm.json", NEWER);
    let dry = world.run(&["prices", "update", "--dry-run", &path]);
    expect![[r#"
        + claude-opus-9                      $7.00 in, $35.00 out
        ~ gpt-5                              $1.00 in, $10.00 out, was $1.25 in, $10.00 out
        --- stderr
        2 would change, 0 as before, 1 left out (hosts, and models without a price by token)
    "#]]
    .assert_eq(&dry.to_string());
    let listed = |world: &World| json(&world.run(&["--json", "prices", "list", "opus"])).remove(0);
    assert!(listed(&world)["own_file"].is_null());
    let done = json(&world.run(&["--json", "prices", "update", &path])).remove(0);
    assert_eq!((&done["form"], &done["written"]), (&"litellm".into(), &true.into()));
    assert_eq!(listed(&world)["prices"][0]["source"], "own");
    assert_eq!(listed(&world)["prices"][0]["usd"], 7);
    let again = json(&world.run(&["--json", "prices", "update", &path])).remove(0);
    assert_eq!((&again["unchanged"], &again["written"]), (&2.into(), &false.into()));
    // The file that was written is one that is read.
    let own = journal(&world).join("prices.json");
    let own = own.to_str().unwrap();
    assert_eq!(json(&world.run(&["--json", "prices", "update", own]))[0]["form"], "own");
}

#[test]
fn aliases_are_taken_from_a_file() {
    let world = with_unknown_model();
    let list = r#"{"version": 1, "models": {}, "aliases": {"best": "claude-opus-5-5"}}"#;
    let path = file(&world, "own.json", list);
    let done = json(&world.run(&["--json", "prices", "update", &path])).remove(0);
    assert_eq!(
        (&done["written"], &done["aliases"]["best"]),
        (&true.into(), &"claude-opus-5-5".into())
    );
    let other = file(&world, "litellm.json", NEWER);
    expect![[r#"
        + claude-opus-9                      $7.00 in, $35.00 out
        ~ gpt-5                              $1.00 in, $10.00 out, was $1.25 in, $10.00 out
        --- stderr
        2 changed, 0 as before, 1 left out (hosts, and models without a price by token)
        written to `~/.local/share/hansard/prices.json`
    "#]]
    .assert_eq(&world.run(&["prices", "update", &other]).to_string());
    let again = json(&world.run(&["--json", "prices", "update", &path])).remove(0);
    assert_eq!((&again["written"], &again["aliases"]), (&false.into(), &serde_json::json!({})));
}

#[test]
fn a_bad_price_is_refused_and_named() {
    let world = with_unknown_model();
    let path = file(&world, "bad.json", &NEWER.replace("7e-06", "\"cheap\""));
    let refused = world.run(&["prices", "update", &path]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("the entry `claude-opus-9` cannot be read"), "{refused}");
    let listed = json(&world.run(&["--json", "prices", "list"])).remove(0);
    assert!(listed["own_file"].is_null(), "nothing was written");
    let missing = world.run(&["prices", "update", "no-such-file.json"]);
    assert_eq!(missing.code, Some(1), "{missing}");
}

#[test]
fn budgets_of_today_are_shown() {
    let world = sample();
    let now = time_now();
    let line = format!(
        r#"{{"session_id":"s","kind":"step.completed","created_at":"{now}","data":{{"agent_id":"main","model":"claude-opus-5-5","usage":{{"input_tokens":1000000}}}}}}"#
    );
    assert_eq!(import(&world, &line).code, Some(0));
    let usage = || json(&world.run(&["--json", "usage", "daily"])).remove(0);
    assert_eq!(usage()["budgets"], serde_json::json!([]));
    let folder = journal(&world);
    fs::write(folder.join("config.toml"), "[budget]\nday = 3.5\nsession = 100\n").unwrap();
    let budgets = usage()["budgets"].clone();
    assert_eq!(budgets.as_array().unwrap().len(), 1, "{budgets}");
    assert_eq!((&budgets[0]["scope"], &budgets[0]["usd"]), (&"day".into(), &4.into()));
    assert_eq!(budgets[0]["exceeded"], true);
    let shown = world.run(&["usage"]);
    assert!(shown.stdout.contains("budget, today: $4.00 of $3.50 (114 %, over budget)"), "{shown}");
    let status = world.run(&["status"]);
    assert!(status.stderr.contains("budget, today: $4.00 of $3.50"), "{status}");
    fs::write(folder.join("config.toml"), "[budget]\nday = \"much\"\n").unwrap();
    let shown = world.run(&["usage"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    assert!(shown.stderr.contains("the budgets are not known"), "{shown}");
}

/// The time of the machine: the program has no other clock.
fn time_now() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    event::Time::from_nanos(i128::try_from(since.as_nanos()).unwrap()).to_string()
}
