//! What the model itself counted, against what is told.

use std::fs;

use capture::Agent;
use event::payload::{StepCompleted, TokenUsage};
use serde_json::Value;

use crate::memory::Memory;
use crate::scenario::{fixtures, read};

/// Compares what every request used with what the model says, but for the answers the agent does
/// not write down, or not whole.
#[track_caller]
pub(crate) fn check_usage(agent: &dyn Agent, scenario: &str, unrecorded: &[&str]) {
    let dir = fixtures().join(agent.provider()).join(scenario);
    let mut sink = Memory::default();
    read(agent, &dir.join("home"), &mut sink);
    check_usage_of(&sink, &dir.join("lab/model_log.jsonl"), unrecorded);
}

#[track_caller]
pub(crate) fn check_usage_of(sink: &Memory, log: &std::path::Path, unrecorded: &[&str]) {
    let steps = sink.events().filter_map(|event| event.payload::<StepCompleted>().unwrap());
    let is_recorded = |id: &str| !unrecorded.contains(&id);
    let mut told: Vec<[u64; 3]> = steps
        .filter(|step| step.response_id.as_deref().is_none_or(is_recorded))
        .map(|step| counts(&step.usage.unwrap()))
        .collect();
    let log = fs::read_to_string(log).unwrap();
    let mut said = Vec::new();
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let reply = &entry["reply"];
        // What an agent asks for itself, such as a title, is in no session.
        let is_own = entry["rule"] == "aux";
        if !is_own && reply["id"].as_str().is_some_and(is_recorded) {
            let usage = &reply["usage"];
            said.push(["input", "output", "cache_read"].map(|name| usage[name].as_u64().unwrap()));
        }
    }
    told.sort_unstable();
    said.sort_unstable();
    assert_eq!(told, said);
}

fn counts(usage: &TokenUsage) -> [u64; 3] {
    [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens]
        .map(Option::unwrap_or_default)
}
