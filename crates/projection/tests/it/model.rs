//! What a model said of a session, beside and in the place of what is found without one.

use event::payload::{ModelFact, ModelWords};
use projection::document::{Document, DocumentHead, Format, Options};
use projection::status::{ProcessEvidence, StatusState, StatusSummary, summarize, verdict};
use projection::{Chronicle, DigestFact, FactOrigin, Facts, Projection, TitleOrigin};
use serde_json::json;

use crate::given::Log;

fn tell(log: &mut Log, words: ModelWords) {
    let note = words.into_note();
    log.add("note", serde_json::to_value(note).unwrap());
}

fn about(from_seq: u64, to_seq: u64) -> ModelWords {
    let (tag, model) = ("session:claude:s".to_owned(), "m-1".to_owned());
    ModelWords { tag, from_seq, to_seq, model, ..ModelWords::default() }
}

fn fact(topic: &str, text: &str, replaces: &[String]) -> ModelFact {
    ModelFact { topic: topic.to_owned(), text: text.to_owned(), replaces: replaces.to_vec() }
}

fn close(log: &mut Log) {
    log.add(
        "epoch.closed",
        json!({"cause": "clear", "day": "20261116", "stream": "claude",
        "segment": "080000_10"}),
    );
}

#[test]
fn model_fact_replaces_the_named_one() {
    let mut log = Log::started();
    log.prompt("Please write the stream parser in src/stream.rs");
    log.prompt("From now on always use tabs.");
    let texts = |log: &Log| -> Vec<(FactOrigin, String)> {
        let facts = log.chronicle().chapters().next().unwrap().facts;
        facts.into_iter().map(|fact: DigestFact| (fact.origin, fact.text)).collect()
    };
    let before = log.chronicle().chapters().next().unwrap().facts;
    let goal = before[0].name();
    tell(
        &mut log,
        ModelWords {
            facts: vec![
                fact(
                    "goal",
                    "A stream parser\nin `src/stream.rs`",
                    &[goal, "fact:1-1:gone".to_owned()],
                ),
                fact("weather", "It rains", &[]),
                fact("work", " \u{200e} ", &[]),
            ],
            ..about(2, 3)
        },
    );
    let after = texts(&log);
    let by = |origin| after.iter().filter(move |(by, _)| *by == origin).map(|(_, text)| text);
    // On one line, without what says nothing.
    assert_eq!(
        by(FactOrigin::Model).collect::<Vec<_>>(),
        ["A stream parser in `src/stream.rs`", "It rains"]
    );
    // All else that was found stands.
    let stays = before[1..].iter().map(|fact| &fact.text);
    assert_eq!(by(FactOrigin::Heuristic).collect::<Vec<_>>(), stays.collect::<Vec<_>>());
}

#[test]
fn what_comes_late_belongs_to_the_epoch_it_is_about() {
    let mut log = Log::started();
    log.prompt("Please write the stream parser");
    close(&mut log);
    log.prompt("Now add tests for it");
    let words = ModelWords {
        title: Some("A parser for streams".to_owned()),
        facts: vec![fact("fact", "It reads 4 KiB at a time", &[])],
        tags: vec!["parser".to_owned()],
        ..about(1, 3)
    };
    tell(&mut log, words);
    let chronicle = log.chronicle();
    let titles: Vec<_> = chronicle.chapters().map(|chapter| chapter.title().unwrap()).collect();
    let title = |title: &str, origin| (title.to_owned(), origin);
    assert_eq!(titles[0], title("A parser for streams", FactOrigin::Model));
    assert_eq!(titles[1], title("Now add tests for it", FactOrigin::Heuristic));
    let told = chronicle.chapters().map(|chapter| {
        chapter.facts.iter().filter(|fact| fact.origin == FactOrigin::Model).count()
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 0]);
    assert_eq!(Chronicle::load(&chronicle.save().unwrap()), Some(chronicle));
}

#[test]
fn given_title_beats_the_models() {
    let mut log = Log::started();
    let title = |log: &Log| {
        let mut facts = Facts::default();
        log.events.iter().for_each(|event| facts.apply(event));
        facts.title().map(str::to_owned).zip(facts.title_origin())
    };
    assert_eq!(title(&log), None);
    log.prompt("Please write the stream parser");
    assert_eq!(title(&log).unwrap().1, TitleOrigin::Heuristic);
    let called = |log: &mut Log, title: &str| {
        tell(log, ModelWords { title: Some(title.to_owned()), ..about(1, 2) });
    };
    called(&mut log, "one two three four five six seven eight nine ten eleven");
    let (told, origin) = title(&log).unwrap();
    assert_eq!(told, "one two three four five six seven eight nine ten…");
    assert_eq!(origin, TitleOrigin::Model);
    called(&mut log, "…");
    assert_eq!(title(&log).unwrap().1, TitleOrigin::Model);
    log.add("settings.changed", json!({"title": "Mine"}));
    called(&mut log, "Another");
    assert_eq!(title(&log), Some(("Mine".to_owned(), TitleOrigin::Given)));
}

#[test]
fn the_middle_line_is_a_models_until_another_turn_is_over() {
    let lines = |log: &Log| -> StatusSummary {
        let mut state = StatusState::default();
        log.events.iter().for_each(|event| state.apply(event));
        let state = StatusState::load(&state.save().unwrap()).unwrap();
        let verdict = verdict(&state, &ProcessEvidence::default(), log.at);
        summarize(&state, &verdict, &mut |text| text.replace("hunter2", "[redacted]").into())
    };
    let told = |log: &Log| lines(log).recent.zip(lines(log).recent_origin);
    let lately = |log: &mut Log, to_seq, line: &str| {
        tell(log, ModelWords { recent: Some(line.to_owned()), ..about(1, to_seq) });
    };
    let mut log = Log::started();
    log.prompt("Build it.");
    log.use_tool("Write", json!({"file_path": "/home/dev/app/src/parser.rs"}));
    log.end("completed");
    let found = Some(("wrote parser.rs".to_owned(), FactOrigin::Heuristic));
    assert_eq!(told(&log), found);
    let status = lines(&log).current;
    lately(&mut log, 5, &format!("wrote the parser with hunter2 {}", "and more ".repeat(40)));
    let (line, origin) = told(&log).unwrap();
    assert!(line.starts_with("wrote the parser with [redacted]") && line.chars().count() <= 120);
    assert_eq!(origin, FactOrigin::Model);
    // Nothing happened by its being told.
    assert_eq!(lines(&log).current, status);
    // It stands while the next turn goes on, and no longer.
    log.prompt("And now the tests.");
    assert_eq!(told(&log).unwrap().1, FactOrigin::Model);
    log.end("completed");
    assert_eq!(told(&log), found);
    // What comes too late is about less than was done.
    lately(&mut log, 5, "wrote the parser");
    assert_eq!(told(&log), found);
    // A turn whose end nobody told is over with the next prompt.
    log.prompt("Once more.");
    let last = log.prompt("And again.").seq - 1;
    lately(&mut log, last - 1, "did less");
    assert_eq!(told(&log), found);
    lately(&mut log, last, "did it once more");
    assert_eq!(told(&log).unwrap().0, "did it once more");
}

#[test]
fn a_document_tells_the_talk_alone() {
    let mut log = Log::started();
    log.prompt("Please write the stream parser");
    tell(&mut log, ModelWords { title: Some("A parser".to_owned()), ..about(1, 2) });
    let mut facts = Facts::default();
    log.events.iter().for_each(|event| facts.apply(event));
    let head = DocumentHead::from_facts(&log.events[0].session_id, &facts);
    let mut document = Document::new(Format::Plain, head, Options::default());
    let mut text = String::new();
    log.events.iter().for_each(|event| document.push(event, &mut text));
    document.finish(&mut text);
    // Once, as its title.
    assert_eq!(text.matches("A parser").count(), 1, "{text}");
}
