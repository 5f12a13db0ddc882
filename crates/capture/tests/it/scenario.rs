//! Recordings of real agents, and what is told of them.
//!
//! Each lies in `fixtures/<agent>/<scenario>/home`; what is told stands beside it as `told.txt`,
//! reviewed by people. `UPDATE_EXPECT=1` writes it anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use capture::{AGENTS, Agent, Environment, IngestSummary, Ingester};
use event::{Event, Time};
use expect_test::expect_file;

use crate::memory::Memory;

/// When everything is read: long after it was written.
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// What a parser may remember.
pub(crate) const STATE_BYTES_MAX: usize = 4 * 1024;

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// An agent of ours, by its name.
pub(crate) fn agent(provider: &str) -> &'static dyn Agent {
    *AGENTS.iter().find(|agent| agent.provider() == provider).expect("it is one of ours")
}

/// Reads a home with one agent.
pub(crate) fn read(agent: &dyn Agent, home: &Path, sink: &mut Memory) -> IngestSummary {
    let environment = Environment::new(home, []);
    let agents = [agent];
    let clock = || Time::from_millis(NOW);
    Ingester::new(&agents, &environment, &clock)
        .ingest_all(sink, &mut |_| {})
        .expect("it can be read")
}

/// Makes a file one that was written just now.
pub(crate) fn stamp(path: &Path) {
    let now = Duration::from_millis(u64::try_from(NOW).unwrap());
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + now).unwrap();
}

/// A test for every recording of an agent that is named, and the list of them.
macro_rules! recordings {
    ($agent:literal: $($scenario:ident)*) => {
        const RECORDINGS: &[&str] = &[$(stringify!($scenario)),*];

        $(#[test]
        fn $scenario() {
            $crate::scenario::check($crate::scenario::agent($agent), stringify!($scenario));
        })*
    };
}

pub(crate) use recordings;

/// A file below a home, and what stands in it.
pub(crate) type File = (PathBuf, Vec<u8>);

/// Every file of a home, by its path from there.
pub(crate) fn files(home: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(home).unwrap().to_owned();
                files.push((name, fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Compares what a recording tells with what a person has reviewed.
#[track_caller]
pub(crate) fn check(agent: &dyn Agent, scenario: &str) {
    let home = fixtures().join(agent.provider()).join(scenario).join("home");
    check_home(agent, scenario, &home);
}

/// The same, with a home that was made from the recording.
#[track_caller]
pub(crate) fn check_home(agent: &dyn Agent, scenario: &str, home: &Path) {
    let dir = fixtures().join(agent.provider()).join(scenario);
    let mut sink = Memory::default();
    let summary = read(agent, home, &mut sink);
    assert_eq!(summary.warnings, [], "{scenario}");
    expect_file![dir.join("told.txt")].assert_eq(&told(&sink));
    for position in sink.positions.values() {
        let position: serde_json::Value = serde_json::from_str(position).unwrap();
        let state = position["state"].as_str().unwrap_or_default();
        assert!(state.len() <= STATE_BYTES_MAX, "{scenario}: {state}");
    }
    // A second reading has no news, and one from the beginning tells the same facts.
    let before = sink.events().count();
    read(agent, home, &mut sink);
    sink.positions.clear();
    read(agent, home, &mut sink);
    assert_eq!(sink.events().count(), before, "{scenario}: read again");
}

/// The events of all sessions, one a line.
pub(crate) fn told(sink: &Memory) -> String {
    let mut text = String::new();
    for (session, events) in &sink.sessions {
        writeln!(text, "== {session}").expect("a text takes everything");
        for event in events {
            writeln!(text, "{}", line(event)).expect("a text takes everything");
        }
    }
    text
}

/// The same in fewer words, for small cases: what is said, and behind what it stands.
pub(crate) fn brief(sink: &Memory) -> String {
    let mut lines = Vec::new();
    for (session, events) in &sink.sessions {
        lines.push(format!("== {session}"));
        for event in events {
            let mut line = format!("{} {}", event.seq, event.kind);
            if let Some(text) = &event.text {
                write!(line, " {text:?}").expect("a text takes everything");
            } else {
                write!(line, " {}", event.data.get()).expect("a text takes everything");
            }
            let parent = events.iter().find(|other| Some(other.id) == event.parent_id);
            if let Some(parent) = parent {
                write!(line, " behind {}", parent.seq).expect("a text takes everything");
            }
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

fn line(event: &Event) -> String {
    let mut line = format!("{:>3} {}", event.seq, event.kind);
    if let Some(turn) = &event.turn_id {
        write!(line, " <{}>", turn.chars().take(8).collect::<String>())
            .expect("a text takes everything");
    }
    let data: String = event.data.get().chars().take(400).collect();
    write!(line, " {data}").expect("a text takes everything");
    if let Some(amends) = event.amends() {
        write!(line, " amends {amends}").expect("a text takes everything");
    }
    line
}

/// The events of a home in short: number, kind, and what was said or decided.
pub(crate) fn short(sink: &Memory) -> String {
    let mut text = String::new();
    for (session, events) in &sink.sessions {
        writeln!(text, "== {session}").unwrap();
        for event in events {
            let said = event.text.as_deref().unwrap_or(event.data.get());
            let said: String = said.chars().take(120).collect();
            writeln!(text, "{} {} {}", event.seq, event.kind, said.replace('\n', "⏎")).unwrap();
        }
    }
    text
}
