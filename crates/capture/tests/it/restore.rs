//! A journal that is lost, made anew from what was kept: the same events, with the same ids.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use capture::{AGENTS, Agent, Environment, Ingester, RestoreScope, RestoreSummary};
use event::{Event, EventId, Time};

use crate::memory::Memory;
use crate::reparse::{home, prompt, scenarios};
use crate::scenario::{NOW, agent, read};

/// Restores with agents whose files are all gone, a day after they were read.
fn restore(sink: &mut Memory, scope: RestoreScope) -> RestoreSummary {
    let nowhere = tempfile::tempdir().unwrap();
    let environment = Environment::new(nowhere.path(), []);
    let clock = || Time::from_millis(NOW + 24 * 60 * 60 * 1_000);
    let pump = Ingester::new(AGENTS, &environment, &clock);
    pump.restore(scope, sink, &mut |_| {}).unwrap()
}

/// A journal that has lost everything but the originals.
fn lost(sink: &Memory) -> Memory {
    let mut lost = Memory::default();
    lost.originals.clone_from(&sink.originals);
    lost.labels.clone_from(&sink.labels);
    lost
}

/// The events by id: all of them but their number.
fn by_id(sink: &Memory) -> BTreeMap<EventId, String> {
    sink.events().map(|event: &Event| (event.id, event.draft.encode())).collect()
}

fn all_recordings(check: impl Fn(&dyn Agent, &str, &Path)) {
    for provider in
        ["claude", "codex", "copilot", "cursor", "gemini", "goose", "opencode", "pi", "qwen"]
    {
        let agent = agent(provider);
        for scenario in scenarios(agent) {
            let home = home(agent, &scenario);
            check(agent, &format!("{provider} {scenario}"), home.path());
        }
    }
}

#[test]
fn lost_journal_is_made_anew() {
    all_recordings(|agent, scenario, home| {
        let mut sink = Memory::default();
        read(agent, home, &mut sink);
        let before = by_id(&sink);
        let mut anew = lost(&sink);
        fs::remove_dir_all(home).unwrap();
        let summary = restore(&mut anew, RestoreScope::Everything);
        assert_eq!((summary.unlabelled.len(), summary.warnings.len()), (0, 0), "{scenario}");
        let after = by_id(&anew);
        let missing: Vec<&EventId> = before.keys().filter(|id| !after.contains_key(id)).collect();
        let added: Vec<&EventId> = after.keys().filter(|id| !before.contains_key(id)).collect();
        let changed: Vec<_> = before
            .iter()
            .filter(|(id, event)| after.get(id).is_some_and(|other| other != *event))
            .map(|(id, event)| (event, &after[id]))
            .collect();
        assert!(missing.is_empty() && added.is_empty(), "{scenario}: {missing:?} {added:?}");
        assert!(changed.is_empty(), "{scenario}: {changed:#?}");
        assert_eq!(restore(&mut anew, RestoreScope::Everything).events, 0, "{scenario}");
    });
}

#[test]
fn restored_source_is_read_on() {
    all_recordings(|agent, scenario, home| {
        let mut sink = Memory::default();
        read(agent, home, &mut sink);
        let mut anew = lost(&sink);
        restore(&mut anew, RestoreScope::Everything);
        let before = by_id(&anew);
        read(agent, home, &mut anew);
        assert_eq!(by_id(&anew), before, "{scenario}");
    });
}

#[test]
fn older_copy_gets_what_came_after_it() {
    let claude = agent("claude");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/projects/-home-dev-app/s1.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, (0..2).map(prompt).collect::<String>()).unwrap();
    let mut older = Memory::default();
    read(claude, home.path(), &mut older);
    let mut sink = Memory::default();
    read(claude, home.path(), &mut sink);
    fs::write(&file, (0..4).map(prompt).collect::<String>()).unwrap();
    read(claude, home.path(), &mut sink);
    older.originals = sink.originals.clone();
    older.labels = sink.labels.clone();
    let summary = restore(&mut older, RestoreScope::BehindCheckpoints);
    assert_eq!(summary.events, 0, "the source is there and tells them itself");
    fs::remove_file(&file).unwrap();
    let summary = restore(&mut older, RestoreScope::BehindCheckpoints);
    assert_eq!(summary.events, 2);
    assert_eq!(by_id(&older), by_id(&sink));
    assert_eq!(restore(&mut older, RestoreScope::BehindCheckpoints).events, 0);
}
