//! What a journal holds and what the generator of transcripts says it should, in the same words.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::{Transcripts, World};

use crate::json;

/// Everything that is counted, by name.
pub(crate) type Totals = BTreeMap<String, u64>;

/// What is counted of sessions: our word and the generator's.
const COUNTS: &[(&str, &str)] = &[
    ("prompts", "user_prompts"),
    ("queued", "queued_prompts"),
    ("responses", "assistant_messages"),
    ("tool_calls", "tool_calls"),
    ("tool_results", "tool_results"),
    ("compactions", "compactions"),
];

/// The same of how sessions are related.
const RELATIONS: &[(&str, &str)] =
    &[("main", "main_sessions"), ("subagent", "subagent_sessions"), ("fork", "forked_sessions")];

const TOKENS: &[&str] =
    &["requests", "input", "output", "cache_creation", "cache_read", "reasoning"];

/// Words that were planted, and the kind of events they were planted in.
const NEEDLES: &[(&str, &str)] = &[
    ("needleprompt", "user.prompt"),
    ("needlerare", "user.prompt"),
    ("針検索", "user.prompt"),
    ("иголкапоиск", "user.prompt"),
    ("needleassist", "assistant.message"),
    ("get_needleident_value", "assistant.message"),
    ("needlethink", "assistant.thinking"),
    ("needleinput", "tool.call"),
    ("needleresult", "tool.result"),
];

/// The name of a model without its date: names that differ by it are one model.
fn undated(model: &str) -> &str {
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    model.rsplit_once('-').filter(|(_, last)| is_date(last)).map_or(model, |(name, _)| name)
}

/// What the generator says is there.
pub(crate) fn expected(transcripts: &Transcripts) -> Totals {
    let mut totals = Totals::new();
    let manifest = transcripts.manifest();
    for (provider, agent) in manifest["agents"].as_object().unwrap() {
        for (ours, theirs) in COUNTS.iter().chain(RELATIONS) {
            add(&mut totals, format!("{provider} {ours}"), &agent[*theirs]);
        }
        for (ending, count) in agent["termination"].as_object().unwrap() {
            add(&mut totals, format!("{provider} left {}", our_ending(ending)), count);
        }
        for (model, tokens) in agent["tokens_by_model"].as_object().unwrap() {
            for kind in TOKENS {
                add(&mut totals, format!("{} {kind}", undated(model)), &tokens[*kind]);
            }
        }
        for (needle, kind) in NEEDLES {
            add(&mut totals, format!("{needle} in {kind}"), &agent["needles"][*needle]);
            // What an agent moved to a file of its own is part of the result again.
            let moved = format!("{needle}@side_file");
            add(&mut totals, format!("{needle} in {kind}"), &agent["needles"][moved]);
        }
    }
    for session in transcripts.sessions() {
        let id = session["id"].as_str().unwrap();
        for (ours, theirs) in COUNTS {
            add(&mut totals, format!("{id} {ours}"), &session[*theirs]);
        }
        let ending = our_ending(session["termination"].as_str().unwrap());
        add(&mut totals, format!("{id} left {ending}"), &1.into());
    }
    totals
}

/// What the program says is there.
pub(crate) fn counted(world: &World) -> Totals {
    let mut totals = Totals::new();
    for session in json(&world.run(&["--json", "sessions"])) {
        let provider = session["provider"].as_str().unwrap();
        let id = session["provider_session_id"].as_str().unwrap();
        let relation = session["relation"].as_str().unwrap();
        let ending = session["ending"].as_str().unwrap();
        add(&mut totals, format!("{provider} {relation}"), &1.into());
        for whose in [provider, id] {
            add(&mut totals, format!("{whose} left {ending}"), &1.into());
            for (ours, _) in COUNTS {
                add(&mut totals, format!("{whose} {ours}"), &session["counts"][*ours]);
            }
        }
    }
    let usage = json(&world.run(&["--json", "usage", "model"])).remove(0);
    for row in usage["rows"].as_array().unwrap() {
        for kind in TOKENS {
            add(&mut totals, format!("{} {kind}", row["key"].as_str().unwrap()), &row[*kind]);
        }
    }
    for (needle, kind) in NEEDLES {
        // Words in a script without blanks are counted as far as they are shown.
        let found = world.run(&["--json", "search", needle, "--kind", kind, "--limit", "100"]);
        let found = found_in(&found.stdout);
        assert_eq!(found["total_is_exact"], true, "{needle}");
        assert_eq!(found["complete"], true, "{needle}");
        add(&mut totals, format!("{needle} in {kind}"), &found["total"]);
    }
    totals
}

/// What differs, in lines that can be read.
#[track_caller]
pub(crate) fn assert_same(got: &Totals, wanted: &Totals) {
    let names = got.keys().chain(wanted.keys()).collect::<std::collections::BTreeSet<_>>();
    let differences: Vec<String> = names
        .into_iter()
        .filter(|name| got.get(*name) != wanted.get(*name))
        .map(|name| format!("{name}: {:?}, expected {:?}", got.get(name), wanted.get(name)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A search that finds nothing ends with a code of its own; what it says is the same.
fn found_in(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap()
}

/// Adds what is there; nothing counts as none, and none is not listed.
fn add(totals: &mut Totals, name: String, count: &Value) {
    let count = count.as_u64().unwrap_or_default();
    if count > 0 {
        *totals.entry(name).or_default() += count;
    }
}

fn our_ending(theirs: &str) -> &str {
    match theirs {
        "in_turn" => "tool_call_pending",
        "aborted" => "interrupted",
        same => same,
    }
}
