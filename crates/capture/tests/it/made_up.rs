//! A new agent is one file and one row: here is one that no vendor wrote, and nothing else knows it.

use std::fs;
use std::path::Path;

use capture::{
    AGENTS, Agent, Environment, EventBuilder, EventIdentity, IngestSummary, Parser,
    RecognizedSource, RecordText, SessionSettings, Source, SourceForm, SourceRecord, SourceRole,
    SourceRoot,
};
use event::Time;
use event::payload::{AssistantMessage, Content};
use expect_test::expect;
use serde::Deserialize;
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{brief, read};

/// Parrot keeps its talks in `~/.parrot/<day>/<talk>.talk`: `{"who": …, "said": …, "at": …}`.
struct Parrot;

impl Agent for Parrot {
    fn provider(&self) -> &'static str {
        "parrot"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        vec![SourceRoot { path: environment.agent_folder("PARROT_HOME", ".parrot"), depth_max: 1 }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let is_talk = path.extension().is_some_and(|kind| kind == "talk");
        let talk = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_talk)?;
        Some(RecognizedSource {
            form: SourceForm::Lines,
            session: talk.to_owned(),
            role: SourceRole::Main,
        })
    }

    fn create_parser(&self, _source: &Source, _saved: Option<&str>) -> Box<dyn Parser> {
        Box::new(Talk)
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(vec!["parrot".to_owned(), session.to_owned()])
    }
}

struct Talk;

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    who: RecordText<'a>,
    #[serde(borrow, default)]
    said: RecordText<'a>,
    at: Option<Time>,
}

impl Parser for Talk {
    fn read_record(&mut self, record: &SourceRecord<'_>, told: &mut EventBuilder<'_>) {
        let Said { who, said, at } = match record.read() {
            Ok(said) => said,
            Err(error) => return told.add_unknown(record, "no talk", Some(&error.to_string())),
        };
        let identity = EventIdentity::in_session(&[&told.record_name()]);
        match &*who {
            "person" => {
                told.turn_opened(None);
                told.add_prompt(identity, at, Content::text(&*said));
            }
            "parrot" => {
                let message =
                    AssistantMessage { content: Content::text(&*said), ..Default::default() };
                told.add_message(identity, at, &message);
                told.turn_answered();
            }
            "cage" => {
                let cwd = Some(said.into_owned());
                told.settings(at, SessionSettings { cwd, ..SessionSettings::default() });
            }
            "clock" => told.count_silent(),
            "snake" => panic!("Parrot has never seen a snake"),
            who => told.add_unknown(record, who, None),
        }
    }

    fn save_state(&self) -> String {
        String::new()
    }
}

/// Reads a parrot that has heard these lines.
fn overhear(home: &Path, talk: &[&str]) -> (Memory, IngestSummary) {
    fs::create_dir_all(home.join(".parrot/monday")).unwrap();
    fs::write(home.join(".parrot/monday/polly.talk"), talk.join("\n")).unwrap();
    let mut sink = Memory::default();
    let summary = read(&Parrot, home, &mut sink);
    (sink, summary)
}

#[test]
fn made_up_agent_is_read_alike() {
    let home = TempDir::new().unwrap();
    let talk = [
        r#"{"who":"cage","said":"/home/dev/cage"}"#,
        r#"{"who":"person","said":"Polly?","at":"2026-01-01T10:00:00Z"}"#,
        r#"{"who":"clock"}"#,
        r#"{"who":"parrot","said":"Polly!","at":"2026-01-01T10:00:01Z"}"#,
        r#"{"who":"cat","said":"…"}"#,
        r#"{"who":"person","said":"Good morning.","at":"2026-01-02T08:00:00Z"}"#,
        r#"{"who":"pers"#,
    ];
    let (mut sink, summary) = overhear(home.path(), &talk);
    expect![[r#"
        == parrot:polly
        1 session.started {"agent":"parrot","cwd":"/home/dev/cage"}
        2 user.prompt "Polly?"
        3 assistant.message "Polly!"
        4 unknown {"raw":{"who":"cat","said":"…"},"record_type":"cat"}
        5 epoch.closed {"epoch":0,"cause":"silence","from_seq":0,"to_seq":0,"day":"20260101","stream":"session:parrot:polly","segment":"100000_1"}
        6 user.prompt "Good morning."
        7 unknown {"raw":"{\"who\":\"pers","error":"torn"}
    "#]].assert_eq(&brief(&sink));
    assert_eq!((summary.silent, summary.unknown, summary.sources), (1, 1, 1));
    read(&Parrot, home.path(), &mut sink);
    assert_eq!(sink.sightings, 0, "a second reading has no news");
}

#[test]
fn panicking_record_is_kept() {
    let home = TempDir::new().unwrap();
    let talk = [
        r#"{"who":"snake","said":"…"}"#,
        r#"{"who":"person","said":"Polly?","at":"2026-01-01T10:00:00Z"}"#,
        "",
    ];
    let (sink, summary) = overhear(home.path(), &talk);
    expect![[r#"
        == parrot:polly
        1 session.started {"agent":"parrot"}
        2 unknown {"raw":{"who":"snake","said":"…"},"record_type":"broken","error":"the parser failed: Parrot has never seen a snake"}
        3 user.prompt "Polly?"
    "#]].assert_eq(&brief(&sink));
    assert_eq!(summary.unknown, 1);
}

#[test]
fn nothing_but_its_own_file_knows_an_agent() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_agents = path.starts_with(src.join("agent"));
            if path.is_dir() {
                folders.push(path);
            } else if !is_agents {
                let text = fs::read_to_string(&path).unwrap();
                for agent in AGENTS {
                    let name = format!("\"{}\"", agent.provider());
                    assert!(!text.contains(&name), "{} knows {name}", path.display());
                }
            }
        }
    }
}
