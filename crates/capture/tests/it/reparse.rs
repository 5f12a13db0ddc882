//! Reading again from what was kept: what was not understood is told, and nothing twice.

use std::fs;
use std::path::{Path, PathBuf};

use capture::{
    Agent, DatabaseSchema, Environment, EventBuilder, IngestSummary, Ingester, LineageHint, Parser,
    RecognizedSource, Source, SourceRecord, SourceRoot,
};
use event::{Event, Kind, Time};
use tempfile::TempDir;

use crate::files::Failing;
use crate::handmade::Home;
use crate::memory::Memory;
use crate::opencode;
use crate::scenario::{NOW, agent, fixtures, read};

/// An agent of ours as an earlier version knew it, which did not understand some records.
struct Forgetful(&'static dyn Agent, &'static str);

struct ForgetfulParser(Box<dyn Parser>, &'static str);

impl Agent for Forgetful {
    fn provider(&self) -> &'static str {
        self.0.provider()
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        self.0.source_roots(environment)
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        self.0.recognise(path)
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        self.0.lineage_hint(head)
    }

    fn database_schemas(&self) -> &'static [DatabaseSchema] {
        self.0.database_schemas()
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        Box::new(ForgetfulParser(self.0.create_parser(source, saved), self.1))
    }
}

impl Parser for ForgetfulParser {
    fn read_record(&mut self, record: &SourceRecord<'_>, told: &mut EventBuilder<'_>) {
        match record.text.contains(self.1) {
            true => told.add_unknown(record, "news", None),
            false => self.0.read_record(record, told),
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.0.session_id()
    }

    fn holds_event(&self) -> bool {
        self.0.holds_event()
    }

    fn flush_held(&mut self, told: &mut EventBuilder<'_>) {
        self.0.flush_held(told);
    }

    fn own_begins(&mut self) {
        self.0.own_begins();
    }

    fn save_state(&self) -> String {
        self.0.save_state()
    }
}

fn again(agent: &dyn Agent, home: &Path, sink: &mut Memory) -> IngestSummary {
    let environment = Environment::new(home, []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent];
    let pump = Ingester::new(&agents, &environment, &clock);
    pump.reparse(agent.provider(), sink, &mut |_| {}).unwrap()
}

/// A copy of a recording that a test may change.
pub(crate) fn home(agent: &dyn Agent, scenario: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    let kept = fixtures().join(agent.provider()).join(scenario).join("home");
    let (_made, from) = match agent.provider() {
        "opencode" => opencode::recording(scenario),
        _ => (None, kept),
    };
    copy(&from, dir.path());
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub(crate) fn scenarios(agent: &dyn Agent) -> Vec<String> {
    let folders = fs::read_dir(fixtures().join(agent.provider()));
    let folders = folders.into_iter().flatten().map(Result::unwrap);
    let with_home = folders.filter(|folder| folder.path().join("home").is_dir());
    let mut names: Vec<_> =
        with_home.map(|folder| folder.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn ids(sink: &Memory) -> Vec<String> {
    let told = sink.events().filter(|event| event.kind != Kind::Unknown);
    let mut ids: Vec<_> =
        told.map(|event| format!("{} {} {}", event.session_id, event.kind, event.id)).collect();
    ids.sort();
    ids
}

#[test]
fn with_the_same_parser_it_tells_nothing() {
    for provider in ["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"] {
        let agent = agent(provider);
        for scenario in scenarios(agent) {
            let home = home(agent, &scenario);
            let mut sink = Memory::default();
            read(agent, home.path(), &mut sink);
            let before = sink.events().count();
            let summary = again(agent, home.path(), &mut sink);
            assert_eq!(summary.events, 0, "{provider} {scenario}");
            assert_eq!(
                (sink.events().count(), sink.sightings),
                (before, 0),
                "{provider} {scenario}"
            );
            assert_eq!(read(agent, home.path(), &mut sink).events, 0, "{provider} {scenario}");
        }
    }
}

#[test]
fn what_was_not_understood_is_told_in_its_place() {
    let claude = agent("claude");
    for scenario in scenarios(claude) {
        let home = home(claude, &scenario);
        let mut whole = Memory::default();
        read(claude, home.path(), &mut whole);
        let mut sink = Memory::default();
        read(&Forgetful(claude, r#""type":"tool_result""#), home.path(), &mut sink);
        let unknown: Vec<Event> =
            sink.events().filter(|event| event.kind == Kind::Unknown).cloned().collect();
        again(claude, home.path(), &mut sink);
        let told = ids(&sink);
        for id in ids(&whole).iter().filter(|id| id.contains("tool.result")) {
            assert!(told.contains(id), "{scenario}: {id}");
        }
        for event in &unknown {
            let stands_in = sink.events().filter(|other| other.amends() == Some(event.id)).count();
            // What says nothing to people is not told now either.
            let record = event.metadata.get("record");
            let is_told = |other: &Event| {
                other.kind != Kind::Unknown && other.metadata.get("record") == record
            };
            let is_understood = whole.events().any(is_told);
            assert_eq!(stands_in, usize::from(is_understood), "{scenario}: {event:?}");
        }
        let before = sink.events().count();
        assert_eq!(again(claude, home.path(), &mut sink).events, 0, "{scenario}");
        assert_eq!(sink.events().count(), before, "{scenario}");
    }
}

/// A prompt in a transcript of Claude Code.
pub(crate) fn prompt(number: u32) -> String {
    let record = serde_json::json!({
        "type": "user", "uuid": format!("u{number}"), "sessionId": "s1",
        "timestamp": format!("2026-03-02T09:00:{number:02}.000Z"), "promptSource": "typed",
        "message": {"role": "user", "content": format!("question {number}")},
    });
    format!("{record}\n")
}

#[test]
fn files_that_are_gone_are_read_again_as_well() {
    let claude = agent("claude");
    let home = TempDir::new().unwrap();
    let file: PathBuf = home.path().join(".claude/projects/-home-dev-app/s1.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, (0..4).map(prompt).collect::<String>()).unwrap();
    let mut sink = Memory::default();
    read(&Forgetful(claude, "question 2"), home.path(), &mut sink);
    fs::remove_file(&file).unwrap();
    read(claude, home.path(), &mut sink);
    let summary = again(claude, home.path(), &mut sink);
    assert_eq!((summary.events, summary.warnings.len()), (1, 0), "{summary:?}");
    let last = sink.events().last().unwrap();
    assert_eq!(last.text.as_deref(), Some("question 2"));
    assert_eq!(last.understood().as_deref(), Some("news"));
    let unknown = sink.events().find(|event| event.kind == Kind::Unknown).unwrap();
    assert_eq!(last.amends(), Some(unknown.id));
}

/// A process that is killed, or a disk that is full.
#[test]
fn failed_reparse_is_finished_by_next() {
    let claude = agent("claude");
    let home = TempDir::new().unwrap();
    let folder = home.path().join(".claude/projects/-home-dev-app");
    fs::create_dir_all(&folder).unwrap();
    for session in ["s1", "s2", "s3"] {
        let prompt = |number: u32| {
            let record = serde_json::json!({"type": "user", "uuid": format!("{session}-{number}"),
                "sessionId": session, "timestamp": "2026-03-02T09:00:00.000Z",
                "promptSource": "typed",
                "message": {"role": "user", "content": format!("question {number}")}});
            format!("{record}\n")
        };
        let lines: String = (0..1_400).map(prompt).collect();
        fs::write(folder.join(format!("{session}.jsonl")), lines).unwrap();
    }
    let mut whole = Memory::default();
    read(claude, home.path(), &mut whole);
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(NOW);
    let agents = [claude];
    for puts_left in 0..9 {
        let mut memory = Memory::default();
        read(&Forgetful(claude, "question"), home.path(), &mut memory);
        let mut sink = Failing { memory, puts_left };
        let pump = Ingester::new(&agents, &environment, &clock);
        let _ = pump.reparse("claude", &mut sink, &mut |_| {});
        sink.puts_left = usize::MAX;
        pump.reparse("claude", &mut sink, &mut |_| {}).unwrap();
        let prompts = |sink: &Memory| -> Vec<String> {
            let told = ids(sink);
            told.into_iter().filter(|id| id.contains("user.prompt")).collect()
        };
        assert!(prompts(&sink.memory) == prompts(&whole), "after {puts_left} batches");
        assert_eq!(sink.memory.sightings, 0, "after {puts_left} batches");
    }
}

/// What is told of a home after an agent of old has read it and it was read again, and at once.
#[track_caller]
fn check_again(agent: &'static dyn Agent, home: &Path, forgotten: &'static str) {
    let mut whole = Memory::default();
    read(agent, home, &mut whole);
    let mut sink = Memory::default();
    read(&Forgetful(agent, forgotten), home, &mut sink);
    assert!(ids(&sink) != ids(&whole), "something was not understood");
    let summary = again(agent, home, &mut sink);
    assert_eq!(summary.warnings, []);
    assert_eq!(ids(&sink), ids(&whole));
    let summary = again(agent, home, &mut sink);
    assert_eq!((summary.events, sink.sightings), (0, 0), "it is told once");
    assert_eq!(read(agent, home, &mut sink).events, 0, "and reading goes on where it was");
}

#[test]
fn documents_are_read_again_entry_by_entry() {
    let home = Home::new();
    let message = |number: u32| {
        let time = format!("2025-10-01T10:00:{number:02}.000Z");
        format!(
            r#"{{"id":"u{number}","timestamp":"{time}","type":"user","content":"question {number}"}}"#
        )
    };
    let messages: Vec<String> = (0..4).map(message).collect();
    let text = format!(r#"{{"sessionId":"b-1","messages":[{}]}}"#, messages.join(","));
    home.write(".gemini/tmp/0f3a/chats/session-2025-10-01T10-00-bbbbbbbb.json", &text);
    check_again(agent("gemini"), home.path(), "question 2");
}

#[test]
fn sessions_of_a_database_are_read_again() {
    let opencode = agent("opencode");
    for scenario in ["s1", "s3_approval_tui", "s7_subagent"] {
        check_again(opencode, home(opencode, scenario).path(), r#""type":"step-finish""#);
    }
}

#[test]
fn removed_database_is_reparsed_from_originals() {
    let opencode = agent("opencode");
    let home = home(opencode, "s1");
    let mut whole = Memory::default();
    read(opencode, home.path(), &mut whole);
    let mut sink = Memory::default();
    read(&Forgetful(opencode, r#""type":"step-finish""#), home.path(), &mut sink);
    fs::remove_dir_all(home.path().join(".local/share/opencode")).unwrap();
    fs::create_dir_all(home.path().join(".local/share/opencode")).unwrap();
    read(opencode, home.path(), &mut sink);
    let summary = again(opencode, home.path(), &mut sink);
    assert_eq!(summary.warnings, []);
    assert_eq!(ids(&sink), ids(&whole));
}

#[test]
fn a_packed_rollout_is_read_again_while_it_is_there() {
    let codex = agent("codex");
    let home = Home::new();
    let name = "rollout-2026-03-02T09-00-00-00000000-5e55-4000-8000-00000000c0de.jsonl.zst";
    let path = home.path().join(".codex/archived_sessions").join(name);
    let line = |number: u32| {
        let content = format!(r#"[{{"type":"input_text","text":"question {number}"}}]"#);
        let payload = format!(r#"{{"type":"message","role":"user","content":{content}}}"#);
        let time = format!("2026-03-02T09:00:{number:02}.000Z");
        format!(r#"{{"timestamp":"{time}","type":"response_item","payload":{payload}}}"#) + "\n"
    };
    let text: String = (0..4).map(line).collect();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    check_again(codex, home.path(), "question 2");
    let mut sink = Memory::default();
    read(&Forgetful(codex, "question 2"), home.path(), &mut sink);
    fs::remove_file(&path).unwrap();
    let summary = again(codex, home.path(), &mut sink);
    assert_eq!(summary.events, 0);
    let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
    assert!(warning.message.contains("nothing was kept of it"), "{}", warning.message);
}
