//! How it stands with what agents write.

use std::fs;

use capture::{Environment, SourceSurvey, WarningKind, survey_sources};
use event::Time;

use crate::handmade::Home;
use crate::scenario::{NOW, agent};

const FOLDER: &str = ".claude/projects/-home-dev-project";

fn surveyed(home: &Home) -> SourceSurvey {
    let agents = [agent("claude")];
    let environment = Environment::new(home.path(), []);
    let sources: Vec<(String, String)> = home.sink.positions.clone().into_iter().collect();
    survey_sources(&agents, &environment, &sources, Time::from_millis(NOW)).remove(0)
}

fn prompt(text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","timestamp":"2026-01-01T00:00:00Z","message":{{"content":"{text}"}}}}"#
    ) + "\n"
}

#[test]
fn what_is_there_and_what_of_it_waits_is_counted() {
    let mut home = Home::new();
    let empty = surveyed(&home);
    assert_eq!((empty.sources, empty.behind, empty.emptied.len()), (0, 0, 0));
    home.write(&format!("{FOLDER}/a.jsonl"), &prompt("one"));
    let waiting = surveyed(&home);
    assert_eq!((waiting.sources, waiting.behind), (1, 1));
    assert!(waiting.behind_since.is_some());
    home.read(agent("claude"));
    let read = surveyed(&home);
    assert_eq!((read.sources, read.behind, read.behind_since), (1, 0, None));
    // One that was moved has no news.
    let path = |name: &str| home.path().join(FOLDER).join(name);
    fs::rename(path("a.jsonl"), path("b.jsonl")).unwrap();
    assert_eq!(surveyed(&home).behind, 0);
    home.write(&format!("{FOLDER}/b.jsonl"), &(prompt("one") + &prompt("two")));
    assert_eq!(surveyed(&home).behind, 1);
}

#[test]
fn a_folder_that_had_sessions_and_has_none_is_named() {
    let mut home = Home::new();
    home.write(&format!("{FOLDER}/a.jsonl"), &prompt("one"));
    home.read(agent("claude"));
    assert_eq!(surveyed(&home).emptied.len(), 0);
    let root = home.path().join(".claude/projects");
    fs::remove_file(home.path().join(FOLDER).join("a.jsonl")).unwrap();
    let emptied = surveyed(&home).emptied;
    fs::remove_dir_all(&root).unwrap();
    assert_eq!((&emptied, &surveyed(&home).emptied), (&vec![root.clone()], &vec![root]));
}

#[test]
fn a_source_that_was_read_and_tells_nothing_is_named() {
    let mut home = Home::new();
    let silent = "{\"type\":\"last-prompt\"}\n";
    home.write(&format!("{FOLDER}/short.jsonl"), &silent.repeat(19));
    home.write(&format!("{FOLDER}/talk.jsonl"), &(silent.repeat(40) + &prompt("one")));
    home.write(&format!("{FOLDER}/mute.jsonl"), &silent.repeat(40));
    home.read(agent("claude"));
    let surveyed = surveyed(&home);
    let [mute] = &surveyed.mute[..] else { panic!("{surveyed:?}") };
    assert!(mute.ends_with("mute.jsonl"), "{surveyed:?}");
}

#[test]
fn what_cannot_be_read_is_named_with_its_cause() {
    let home = Home::new();
    fs::create_dir_all(home.path().join(FOLDER).join("a.jsonl")).unwrap();
    let surveyed = surveyed(&home);
    let [warning] = &surveyed.unreadable[..] else { panic!("{surveyed:?}") };
    assert_eq!(warning.kind, WarningKind::Unreadable);
    assert!(warning.path.as_ref().is_some_and(|path| path.ends_with("a.jsonl")), "{warning:?}");
}
