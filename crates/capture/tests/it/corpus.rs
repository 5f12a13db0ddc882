//! Generated transcripts with every trap known, and what their generator says is in them.
//!
//! `testkit::Transcripts` are the trees of two agents and, beside them, what a reader has to count:
//! in all, and per session. What is told is counted here once more, without projections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use capture::{AGENTS, Environment, IngestSummary, Ingester, Warning, WarningKind};
use event::payload::{
    AssistantMessage, AssistantThinking, SessionMode, SessionStarted, StepCompleted, StopReason,
    ToolCall, ToolResult, TurnCompleted, Unknown, UserPrompt,
};
use event::{Event, EventId, Kind, Time};
use serde::Deserialize;
use tempfile::TempDir;
use testkit::{Dice, Transcripts};

use crate::late::links;
use crate::memory::Memory;
use crate::scenario::{self, NOW};

/// Makes trees of one agent from several seeds, and compares.
#[track_caller]
pub(crate) fn check_corpus(provider: &str, variable: &str, sizes: &[(&str, u32)]) {
    for (size, seed) in sizes {
        let share = if provider == "claude" { "1" } else { "0" };
        let transcripts = Transcripts::make(size, *seed, share);
        let tree = transcripts.root();
        let told = read(provider, variable, &tree);
        let wanted = Wanted::of(provider, &tree);
        let got = got(&told);
        for (id, session) in &wanted.sessions {
            let place = format!("{size} seed {seed} {provider}:{id}");
            assert_eq!(got.sessions.get(id), Some(session), "{place}");
        }
        assert_eq!(got.sessions.len(), wanted.sessions.len(), "{size} seed {seed}: sessions");
        assert_eq!(got.tokens, wanted.tokens, "{size} seed {seed}: tokens by model");
        assert_eq!(got.needles, wanted.needles, "{size} seed {seed}: needles");
    }
}

#[test]
fn the_totals_of_generated_claude_transcripts_are_exact() {
    let sizes = [("8mb", 1), ("8mb", 2), ("5mb", 3), ("1mb", 4), ("1mb", 5)];
    check_corpus("claude", "CLAUDE_CONFIG_DIR", &sizes);
}

#[test]
fn the_totals_of_generated_codex_transcripts_are_exact() {
    let sizes = [("8mb", 1), ("8mb", 7), ("5mb", 3), ("1mb", 4), ("1mb", 5)];
    check_corpus("codex", "CODEX_HOME", &sizes);
}

/// Files that appear one after the other, a fork perhaps before what it repeats.
#[test]
fn links_are_independent_of_arrival() {
    let claude = [8, 13, 14].map(|seed| ("claude", "CLAUDE_CONFIG_DIR", seed));
    let codex = [9, 15].map(|seed| ("codex", "CODEX_HOME", seed));
    for (provider, variable, seed) in claude.into_iter().chain(codex) {
        let share = if provider == "claude" { "1" } else { "0" };
        let transcripts = Transcripts::make("2mb", seed, share);
        let tree = transcripts.root();
        let wanted = Wanted::of(provider, &tree).sums();
        let whole = read(provider, variable, &tree);
        for order in 0..3 {
            let elsewhere = TempDir::new().unwrap();
            let mut sink = Memory::default();
            for (path, bytes) in in_order(&tree, order) {
                put(elsewhere.path(), &path, &bytes);
                pass(provider, variable, elsewhere.path(), &mut sink);
            }
            assert_eq!(got(&sink).sums(), wanted, "{provider} of {seed} in order {order}");
            assert_eq!(links(&sink), links(&whole), "{provider} of {seed} in order {order}");
        }
    }
}

/// The files of a tree, some sources before others. What lies beside them comes first.
fn in_order(tree: &Path, order: u64) -> Vec<scenario::File> {
    let mut files = scenario::files(tree);
    let is_source = |path: &Path| path.extension().is_some_and(|kind| kind == "jsonl");
    files.sort_by_key(|(path, _)| (is_source(path), Dice::new(order ^ sum(path)).below(u64::MAX)));
    files
}

fn sum(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(*byte))
}

fn put(tree: &Path, path: &Path, bytes: &[u8]) {
    let path = tree.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn read(provider: &str, variable: &str, tree: &Path) -> Memory {
    let mut sink = Memory::default();
    let summary = pass(provider, variable, tree, &mut sink);
    // Some sessions end in the middle of a line.
    let is_torn = |warning: &Warning| warning.kind == WarningKind::Torn;
    assert!(summary.warnings.iter().all(is_torn), "{:?}", summary.warnings);
    assert_eq!(sink.sightings, 0, "everything is told once");
    sink
}

fn pass(provider: &str, variable: &str, tree: &Path, sink: &mut Memory) -> IngestSummary {
    let folder = tree.join(provider).to_str().unwrap().to_owned();
    let environment = Environment::new(tree.join("home"), [(variable.to_owned(), folder)]);
    let agents: Vec<_> =
        AGENTS.iter().copied().filter(|agent| agent.provider() == provider).collect();
    let clock = || Time::from_millis(NOW);
    Ingester::new(&agents, &environment, &clock).ingest_all(sink, &mut |_| {}).unwrap()
}

/// What is counted of one session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    role: String,
    termination: String,
    user_prompts: u64,
    queued_prompts: u64,
    assistant_messages: u64,
    tool_calls: u64,
    tool_results: u64,
    compactions: u64,
    output_tokens: u64,
}

/// What was used of one model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
struct Tokens {
    requests: u64,
    input: u64,
    output: u64,
    cache_creation: u64,
    cache_read: u64,
    reasoning: u64,
}

/// What is in a tree.
#[derive(Default)]
struct Wanted {
    sessions: BTreeMap<String, Counts>,
    tokens: BTreeMap<String, Tokens>,
    /// How many things said have a planted word.
    needles: BTreeMap<String, u64>,
}

impl Wanted {
    /// As the generator says it.
    fn of(provider: &str, tree: &Path) -> Wanted {
        #[derive(Deserialize)]
        struct Row {
            agent: String,
            id: String,
            #[serde(flatten)]
            counts: Counts,
        }
        #[derive(Deserialize)]
        struct Manifest {
            agents: BTreeMap<String, Totals>,
        }
        #[derive(Deserialize)]
        struct Totals {
            tokens_by_model: BTreeMap<String, Tokens>,
            needles: BTreeMap<String, u64>,
        }
        let rows = fs::read_to_string(tree.join("sessions.jsonl")).unwrap();
        let rows = rows.lines().map(|row| serde_json::from_str::<Row>(row).unwrap());
        let sessions = rows
            .filter(|row| row.agent == provider)
            .map(|row| {
                let termination = match row.counts.termination.as_str() {
                    "in_turn" => "tool_call_pending".to_owned(),
                    "aborted" => "interrupted".to_owned(),
                    other => other.to_owned(),
                };
                (row.id, Counts { termination, ..row.counts })
            })
            .collect();
        let manifest = fs::read_to_string(tree.join("manifest.json")).unwrap();
        let mut manifest: Manifest = serde_json::from_str(&manifest).unwrap();
        let totals = manifest.agents.remove(provider).unwrap();
        let mut needles: BTreeMap<String, u64> = BTreeMap::new();
        for (needle, count) in totals.needles.into_iter().filter(|(_, count)| *count > 0) {
            // What was moved to a file is part of its result again.
            let word = needle.trim_end_matches("@side_file").to_owned();
            *needles.entry(word).or_default() += count;
        }
        Wanted { sessions, tokens: totals.tokens_by_model, needles }
    }
}

impl Wanted {
    /// What does not depend on who was read first: of sessions all together.
    fn sums(self) -> (usize, Counts, BTreeMap<String, Tokens>, BTreeMap<String, u64>) {
        let mut sums = Counts::default();
        for session in self.sessions.values() {
            sums.user_prompts += session.user_prompts;
            sums.queued_prompts += session.queued_prompts;
            sums.assistant_messages += session.assistant_messages;
            sums.tool_calls += session.tool_calls;
            sums.tool_results += session.tool_results;
            sums.compactions += session.compactions;
            sums.output_tokens += session.output_tokens;
        }
        (self.sessions.len(), sums, self.tokens, self.needles)
    }
}

/// The same, as it was told.
fn got(told: &Memory) -> Wanted {
    let amended: BTreeSet<EventId> = told.events().filter_map(|event| event.amends()).collect();
    let mut got = Wanted::default();
    for (id, events) in &told.sessions {
        let (_, id) = id.as_str().split_once(':').unwrap();
        let events: Vec<&Event> =
            events.iter().filter(|event| !amended.contains(&event.id)).collect();
        let mut counts = count(&events);
        for event in &events {
            if let Some(step) = event.payload::<StepCompleted>().unwrap() {
                counts.output_tokens += got.add(step);
            }
            for word in planted(event) {
                *got.needles.entry(word).or_default() += 1;
            }
        }
        got.sessions.insert(id.to_owned(), counts);
    }
    got
}

impl Wanted {
    fn add(&mut self, step: StepCompleted) -> u64 {
        let usage = step.usage.unwrap_or_default();
        let tokens = self.tokens.entry(step.model.unwrap_or_default()).or_default();
        let output = usage.output_tokens.unwrap_or_default();
        tokens.requests += 1;
        tokens.input += usage.input_tokens.unwrap_or_default();
        tokens.output += output;
        tokens.cache_creation += usage.cache_creation_tokens.unwrap_or_default();
        tokens.cache_read += usage.cache_read_tokens.unwrap_or_default();
        tokens.reasoning += usage.reasoning_tokens.unwrap_or_default();
        output
    }
}

fn count(events: &[&Event]) -> Counts {
    let mut counts = Counts { termination: ending(events).to_owned(), ..Counts::default() };
    for event in events {
        match event.kind {
            Kind::SessionStarted => {
                let started: SessionStarted = event.payload().unwrap().unwrap();
                counts.role = match started.mode {
                    Some(SessionMode::Fork) => "forked",
                    Some(SessionMode::Child) => "subagent",
                    _ => "main",
                }
                .to_owned();
            }
            Kind::UserPrompt => {
                let prompt: UserPrompt = event.payload().unwrap().unwrap();
                counts.queued_prompts += u64::from(prompt.queued);
                counts.user_prompts += u64::from(!prompt.queued);
            }
            Kind::ToolResult => counts.tool_results += 1,
            Kind::Compaction => counts.compactions += 1,
            _ => {}
        }
        counts.tool_calls += u64::from(event.kind == Kind::ToolCall);
        counts.assistant_messages += u64::from(begins_answer(event));
    }
    counts
}

/// The first block of a response.
fn begins_answer(event: &Event) -> bool {
    let place = match event.kind {
        Kind::AssistantMessage => {
            let message: AssistantMessage = event.payload().unwrap().unwrap();
            (message.message_id, message.block)
        }
        Kind::AssistantThinking => {
            let thinking: AssistantThinking = event.payload().unwrap().unwrap();
            (thinking.message_id, thinking.block)
        }
        Kind::ToolCall => {
            let call: ToolCall = event.payload().unwrap().unwrap();
            (call.message_id, call.block)
        }
        _ => return false,
    };
    !place.0.is_empty() && place.1 == 0
}

/// How a session was left.
fn ending(events: &[&Event]) -> &'static str {
    let mut open = BTreeSet::new();
    let mut ending = "open";
    for event in events {
        match event.kind {
            Kind::Unknown => {
                let unknown: Unknown = event.payload().unwrap().unwrap();
                if unknown.error.as_deref() == Some("torn") {
                    ending = "truncated";
                }
            }
            Kind::TurnCompleted => {
                let turn: TurnCompleted = event.payload().unwrap().unwrap();
                if turn.stop_reason == Some(StopReason::Interrupted) {
                    ending = "interrupted";
                }
            }
            Kind::UserPrompt => ending = "user_last",
            Kind::ToolCall => {
                open.insert(event.payload::<ToolCall>().unwrap().unwrap().call_id);
                ending = "tool_call_pending";
            }
            Kind::ToolResult => {
                open.remove(&event.payload::<ToolResult>().unwrap().unwrap().call_id);
                ending = if open.is_empty() { "open" } else { "tool_call_pending" };
            }
            Kind::AssistantMessage | Kind::AssistantThinking if open.is_empty() => {
                ending = "awaiting_user";
            }
            _ => {}
        }
    }
    ending
}

/// The planted words an event has, where they were planted.
fn planted(event: &Event) -> Vec<String> {
    let words: &[&str] = match event.kind {
        Kind::UserPrompt => &["needleprompt", "needlerare", "針検索", "иголкапоиск"],
        Kind::AssistantMessage => &["needleassist", "get_needleident_value"],
        Kind::AssistantThinking => &["needlethink"],
        Kind::ToolCall => &["needleinput"],
        Kind::ToolResult => &["needleresult"],
        _ => &[],
    };
    let data = event.data.get();
    words.iter().filter(|word| data.contains(**word)).map(|word| (*word).to_owned()).collect()
}
