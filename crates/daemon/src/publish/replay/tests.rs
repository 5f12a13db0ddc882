//! A subscriber that begins anywhere in a recording gets the messages that were published live.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capture::{DatabaseGuard, Environment, StopFlag};
use event::payload::SessionStarted;
use event::{Draft as Fact, EventId, Raw, Time};
use ingest::{Ingest, RecordingPolicy};
use journal::Batch;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// Long after everything was written.
const NOW: i64 = 1_800_000_000_000;

/// Places in a recording at which a subscriber begins.
const BEGINNINGS: usize = 12;

/// Messages that are compared behind each of them.
const COMPARED: usize = 60;

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn ingest(dir: &Path) -> Journal {
    let journal = Journal::in_memory();
    // Of some databases only the rows were kept.
    let made = TempDir::new().unwrap();
    testkit::tables::build_databases(&dir.join("home"), made.path());
    let is_made = std::fs::read_dir(made.path()).unwrap().next().is_some();
    let home = if is_made { made.path().to_owned() } else { dir.join("home") };
    let environment = Environment::new(home, []);
    let clock = || Time::from_millis(NOW);
    let policy = RecordingPolicy::default();
    let (environment, clock, guard) = (&environment, &clock, DatabaseGuard::default());
    let ingest = Ingest { journal: &journal, environment, clock, policy, guard };
    ingest.ingest_all(&StopFlag::default(), &mut |_| {}).unwrap();
    journal
}

fn recorded(journal: &Journal) -> Vec<Recorded> {
    let mut all = Vec::new();
    loop {
        let next = all.last().map_or(1, |last: &Recorded| last.position + 1);
        let page = journal.recorded_from(next).unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// The messages of some events, by event.
fn told(cortex: &mut Cortex, events: &[Recorded], journal: &Journal) -> Vec<Vec<Value>> {
    let told = events.iter().map(|recorded| cortex.make_messages(recorded, journal));
    told.map(|messages| messages.iter().map(Message::to_json).collect()).collect()
}

#[track_caller]
fn check(journal: &Journal, name: &str) {
    let events = recorded(journal);
    let live = told(&mut Cortex::live(BTreeSet::new()), &events, journal);
    for from in (0..events.len()).step_by(events.len().div_ceil(BEGINNINGS).max(1)) {
        let up_to = events.len().min(from + COMPARED);
        let replayed = told(&mut Cortex::default(), &events[from..up_to], journal);
        assert_eq!(replayed, live[from..up_to], "{name} from {from}");
    }
}

#[test]
fn recordings_are_replayed_as_they_were_live() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/fixtures");
    let scenarios = folders(&fixtures).into_iter().flat_map(|tool| folders(&tool));
    let scenarios = scenarios.filter(|dir| dir.join("home").is_dir());
    let mut count = 0;
    for dir in scenarios {
        check(&ingest(&dir), &dir.display().to_string());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn start_long_before_the_prompt_is_known() {
    let journal = Journal::in_memory();
    let session = SessionId::new("claude:s").unwrap();
    let mut facts = Vec::new();
    let mut add = |kind: Kind, data: Value| {
        let at = Time::from_millis(NOW + facts.len() as i64);
        let id = EventId::derived(at, "claude", "s", &facts.len().to_be_bytes());
        let data = Raw::from_value(&data).unwrap();
        facts.push(Fact::with_data(id, session.clone(), at, kind, data));
    };
    let entry_point = Some("sdk-py".to_owned());
    let started = SessionStarted { entry_point, ..SessionStarted::default() };
    add(Kind::SessionStarted, serde_json::to_value(&started).unwrap());
    add(Kind::UserPrompt, json!({"content": "first"}));
    for _ in 0..100 {
        add(Kind::AssistantMessage, json!({"content": "words"}));
    }
    add(Kind::UserPrompt, json!({"content": "second"}));
    // No user sits at it, so it does not wait.
    add(Kind::ApprovalRequested, json!({"approval_id": "a", "tool": "Bash"}));
    journal.append(Batch::observed().with_all(facts)).unwrap();
    let events = recorded(&journal);
    let last = events.len() - 1;
    let live = told(&mut Cortex::live(BTreeSet::new()), &events, &journal);
    let replayed = told(&mut Cortex::default(), &events[last..], &journal);
    assert_eq!(replayed, live[last..]);
    assert_eq!(replayed[0][0]["status"], "running");
}
