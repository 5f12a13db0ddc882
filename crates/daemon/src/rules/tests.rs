//! Rules in a journal, and the file that hooks read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use event::Raw;
use journal::{Options, SessionFilter};
use rules::{Action, Severity};
use session::Stamps;
use tempfile::TempDir;

use super::*;

/// Times that pass, and ids that never come twice.
struct Counter(AtomicU64);

static COUNTED: AtomicU64 = AtomicU64::new(1);

impl Stamps for Counter {
    fn now(&self) -> Time {
        Time::from_millis(1_800_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed) as i64)
    }

    fn tail(&self) -> [u8; 10] {
        let mut tail = [0; 10];
        tail[2..].copy_from_slice(&COUNTED.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        tail
    }
}

fn private_folder() -> TempDir {
    let private = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

fn open(folder: &Path) -> Journal {
    Journal::open_or_create(folder, &Options::default()).unwrap()
}

fn host(journal: &Journal) -> Host {
    Host::new(journal.clone(), Arc::new(Counter(AtomicU64::new(0))))
}

fn add(journal: &Journal, lines: &[&str]) -> Vec<StoredRule> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    RuleStore::new(journal).add(&lines, None, &host(journal)).unwrap()
}

/// What hooks would decide about a command.
fn judged(folder: &Path, command: &str) -> Option<Severity> {
    let input = Raw::from_value(&serde_json::json!({ "command": command })).unwrap();
    let action = Action {
        agent: "claude",
        session: "s",
        project: None,
        project_root: None,
        cwd: None,
        home: None,
        tool: "Bash",
        server: None,
        input: &input,
    };
    let rules = RulesFile::in_journal(folder).read().unwrap()?;
    rules.judge(&action, Time::from_millis(0)).decision
}

#[test]
fn hooks_follow_every_change() {
    let dir = private_folder();
    let journal = open(dir.path());
    RuleStore::new(&journal).compile().unwrap();
    assert!(!dir.path().join("rules/compiled").exists(), "without rules there is no file");
    let added = add(&journal, &["block shell: rm -rf *", "ask shell: git push *"]);
    assert_eq!(judged(dir.path(), "rm -rf /"), Some(Severity::Block));
    assert_eq!(judged(dir.path(), "git push"), Some(Severity::Ask));
    let store = RuleStore::new(&journal);
    store.remove(&added[..1], &host(&journal)).unwrap();
    assert_eq!(judged(dir.path(), "rm -rf /"), None);
    assert_eq!(store.rules().unwrap(), added[1..]);
    // Also when the last one goes.
    store.remove(&added[1..], &host(&journal)).unwrap();
    assert_eq!(judged(dir.path(), "git push"), None);
    assert_eq!(store.problem().unwrap(), None);
}

#[test]
fn equal_rule_is_added_once() {
    let dir = private_folder();
    let journal = open(dir.path());
    let [first] = &add(&journal, &["block shell: rm"])[..] else { panic!("one rule") };
    let again = add(&journal, &["block shell: rm", "ask shell: git push", "ask shell: git push"]);
    assert_eq!(again[0], *first);
    assert_eq!(again[1], again[2]);
    assert_eq!(RuleStore::new(&journal).rules().unwrap().len(), 2);
}

#[test]
fn change_that_was_cut_off_is_compiled_later() {
    let dir = private_folder();
    let journal = open(dir.path());
    add(&journal, &["block shell: rm"]);
    let file = dir.path().join("rules/compiled");
    let before = fs::read(&file).unwrap();
    add(&journal, &["ask shell: git push *"]);
    for left in [before, b"torn".to_vec(), Vec::new()] {
        fs::write(&file, left).unwrap();
        let store = RuleStore::new(&journal);
        assert!(store.problem().unwrap().is_some());
        store.compile().unwrap();
        assert_eq!(store.problem().unwrap(), None);
        assert_eq!(judged(dir.path(), "git push"), Some(Severity::Ask));
    }
    fs::remove_file(&file).unwrap();
    assert!(RuleStore::new(&journal).problem().unwrap().is_some());
}

#[test]
fn processes_that_change_rules_at_once_lose_none() {
    let dir = private_folder();
    drop(open(dir.path()));
    thread::scope(|scope| {
        for writer in 0..4 {
            let folder = dir.path();
            scope.spawn(move || {
                let journal = open(folder);
                for number in 0..10 {
                    add(&journal, &[&format!("block shell: program-{writer}-{number}")]);
                }
            });
        }
    });
    for writer in 0..4 {
        for number in 0..10 {
            let command = format!("program-{writer}-{number}");
            assert_eq!(judged(dir.path(), &command), Some(Severity::Block), "{command}");
        }
    }
    assert_eq!(RuleStore::new(&open(dir.path())).problem().unwrap(), None);
}

#[test]
fn line_of_a_newer_program_is_kept() {
    let dir = private_folder();
    let journal = open(dir.path());
    let rules = add(&journal, &["forbid galaxy: *", "block shell: rm"]);
    assert!(rules[0].rule.is_err() && rules[1].rule.is_ok());
    assert_eq!(RuleStore::new(&journal).rules().unwrap(), rules);
    assert_eq!(judged(dir.path(), "rm x"), Some(Severity::Block));
}

#[test]
fn refusal_of_unjudged_calls_follows_the_settings() {
    let dir = private_folder();
    let journal = open(dir.path());
    let file = RulesFile::in_journal(dir.path());
    for (settings, is_set) in [("", false), ("[rules]\nfail_closed = true\n", true), ("", false)] {
        fs::write(dir.path().join("config.toml"), settings).unwrap();
        RuleStore::new(&journal).compile().unwrap();
        assert_eq!(file.is_fail_closed(), is_set);
    }
}

#[test]
fn rules_are_no_session() {
    let dir = private_folder();
    let journal = open(dir.path());
    add(&journal, &["block shell: rm"]);
    assert_eq!(journal.sessions(&SessionFilter::default(), None, 9).unwrap().items, []);
    assert_eq!(journal.session_count().unwrap(), 0);
}
