//! Reading in any number of growing pieces, and in any order of sources, tells the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use capture::Agent;
use event::payload::{StepCompleted, UserPrompt};
use event::{Event, Kind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{File, agent, files, fixtures, read, stamp};

/// The recordings of every agent that are written line by line.
fn recordings() -> Vec<(&'static dyn Agent, PathBuf)> {
    let mut recordings = Vec::new();
    for provider in ["claude", "codex", "copilot", "gemini", "pi", "qwen"] {
        let Ok(scenarios) = fs::read_dir(fixtures().join(provider)) else { continue };
        let homes = scenarios.map(|scenario| scenario.unwrap().path().join("home"));
        recordings.extend(homes.filter(|home| home.is_dir()).map(|home| (agent(provider), home)));
    }
    recordings.sort_by(|(_, one), (_, other)| one.cmp(other));
    recordings
}

#[test]
fn a_source_read_in_any_split_tells_the_same() {
    let recordings = recordings();
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let cuts = prop::collection::vec(0.0..1.0_f64, 0..8);
    let cases = (0..recordings.len(), cuts);
    let checked = runner.run(&cases, |(recording, cuts)| {
        let (agent, home) = &recordings[recording];
        let mut whole = Memory::default();
        read(*agent, home, &mut whole);
        prop_assert_eq!(facts(&grown(*agent, home, &cuts)), facts(&whole), "{}", home.display());
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn sources_in_any_order_add_up_to_the_same() {
    let recordings = recordings();
    let mut runner = TestRunner::new(Config { cases: 40, ..Config::default() });
    let cases = (0..recordings.len(), any::<u64>());
    let checked = runner.run(&cases, |(recording, seed)| {
        let (agent, home) = &recordings[recording];
        let mut whole = Memory::default();
        read(*agent, home, &mut whole);
        let (mut files, beside) = transcripts(home);
        // Any order will do, as long as it is not always the same.
        files.sort_by_key(|(path, _)| fold(seed, path));
        let dir = TempDir::new().unwrap();
        put(dir.path(), &beside);
        let mut sink = Memory::default();
        for file in &files {
            put(dir.path(), std::slice::from_ref(file));
            read(*agent, dir.path(), &mut sink);
        }
        prop_assert_eq!(sums(&sink), sums(&whole), "{}", home.display());
        Ok(())
    });
    checked.unwrap();
}

/// Reads a home whose transcripts grow, one after the other, cut at these parts of their length.
fn grown(agent: &dyn Agent, home: &Path, cuts: &[f64]) -> Memory {
    let (files, beside) = transcripts(home);
    let dir = TempDir::new().unwrap();
    put(dir.path(), &beside);
    let mut sink = Memory::default();
    for (path, bytes) in files {
        let mut cuts: Vec<usize> =
            cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
        cuts.sort_unstable();
        for cut in cuts {
            put(dir.path(), &[(path.clone(), bytes[..cut].to_vec())]);
            // What is not finished is still being written.
            stamp(&dir.path().join(&path));
            read(agent, dir.path(), &mut sink);
        }
        put(dir.path(), &[(path, bytes)]);
        read(agent, dir.path(), &mut sink);
    }
    sink
}

/// The transcripts of a home, and what lies beside them.
fn transcripts(home: &Path) -> (Vec<File>, Vec<File>) {
    let is_transcript = |path: &Path| path.extension().is_some_and(|kind| kind == "jsonl");
    files(home).into_iter().partition(|(path, _)| is_transcript(path))
}

fn put(home: &Path, files: &[File]) {
    for (path, bytes) in files {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Everything that is told, but for when and where it was read.
fn facts(sink: &Memory) -> Vec<String> {
    let fact = |event: &Event| {
        let Event { seq, draft } = event;
        format!(
            "{} {seq} {} {} {} {:?} {:?} {:?} {} {:?}",
            draft.session_id,
            draft.id,
            draft.kind,
            draft.created_at,
            draft.turn_id,
            draft.parent_id,
            draft.text,
            draft.data.get(),
            draft.amends(),
        )
    };
    sink.events().map(fact).collect()
}

/// What may not depend on who was read first: prompts, and tokens by model.
fn sums(sink: &Memory) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for event in sink.events() {
        *sums.entry(event.kind.to_string()).or_default() +=
            u64::from(event.kind.is_answer() || event.kind == Kind::ToolResult);
        if let Some(prompt) = event.payload::<UserPrompt>().unwrap() {
            *sums.entry(format!("queued: {}", prompt.queued)).or_default() += 1;
        }
        if let Some(step) = event.payload::<StepCompleted>().unwrap() {
            let usage = step.usage.unwrap_or_default();
            let model = step.model.unwrap_or_default();
            *sums.entry(model).or_default() += usage.output_tokens.unwrap_or_default();
        }
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

fn fold(seed: u64, path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(seed, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte).wrapping_mul(0x9E37))
}
