//! Files of every format ever written are read, and the present one is written as it was.

use expect_test::expect;

use super::*;

/// A journal in format 1, as it stands on the disk.
fn written(dir: &Path) -> String {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    let ledger = read(dir.join("ledger.jsonl"));
    format!("{}---\n{}---\n{ledger}", read(file(dir, "a")), read(file(dir, "Fork/1")))
}

#[test]
fn format_1_is_written_as_it_was() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    let source = SourceMove { source_id: "log".to_owned(), from: None, to: "12".to_owned() };
    let large = note("a", 3, &"large ".repeat(4_000));
    journal.append(Batch::observed().with(large).from_source(source)).unwrap();
    fork(&journal, "a", "Fork/1", 2);
    append(&journal, "gone", 9..=9);
    journal.delete(&id("gone"), Time::from_millis(5), crate::ForkPolicy::Refuse).unwrap();
    drop(journal);
    expect![[r#"
        {"format":"hansard-session","version":1,"session_id":"a","session":{"number":1,"id":"a","parent":null,"base_seq":0,"tail_seq":1,"last_position":1,"events":1,"bytes":225,"cost":0,"created_at":"2023-11-14T22:13:20.001Z","last_at":"2023-11-14T22:13:20.001Z","provider":"hansard","provider_session_id":null,"agent":null,"model":null,"cwd":null,"project":null,"title":null},"check":"02a62763"}
        {"id":"01HF7YAT0100000000000021R7","session_id":"a","seq":1,"kind":"note","created_at":"2023-11-14T22:13:20.001Z","observed_at":"2023-11-14T22:13:20.001Z","provider":"hansard","source":"native","confidence":"high","data":{"text":"text 1"},"position":1,"check":"ba6e531a"}
        {"id":"01HF7YAT0200000000000041R7","session_id":"a","seq":2,"kind":"note","created_at":"2023-11-14T22:13:20.002Z","observed_at":"2023-11-14T22:13:20.002Z","provider":"hansard","source":"native","confidence":"high","data":{"text":"text 2"},"position":2,"check":"f9065d57"}
        {"id":"01HF7YAT0300000000000061R7","session_id":"a","seq":3,"kind":"note","created_at":"2023-11-14T22:13:20.003Z","observed_at":"2023-11-14T22:13:20.003Z","provider":"hansard","source":"native","confidence":"high","data":null,"position":3,"payload":"49613d89f5cb8bf78b2aab663b3910d70a20e84f3dc9eb111682c6f0723ef35c","check":"0f6d8838"}
        ---
        {"format":"hansard-session","version":1,"session_id":"Fork/1","session":{"number":2,"id":"Fork/1","parent":{"session_id":"a","mode":"fork","seq":2,"event_id":null,"label":null,"reason":null,"depth":1},"base_seq":2,"tail_seq":3,"last_position":4,"events":1,"bytes":264,"cost":0,"created_at":"1970-01-01T00:00:00.077Z","last_at":"1970-01-01T00:00:00.077Z","provider":"hansard","provider_session_id":null,"agent":null,"model":null,"cwd":null,"project":null,"title":null},"check":"7a33e886"}
        {"id":"000000002D0R30C1G60R30C1G6","session_id":"Fork/1","seq":3,"kind":"session.started","created_at":"1970-01-01T00:00:00.077Z","observed_at":"1970-01-01T00:00:00.077Z","provider":"hansard","source":"native","confidence":"high","data":{"parent":{"session_id":"a","seq":2},"mode":"fork"},"position":4,"check":"a0504ca7"}
        ---
        {"format":"hansard-ledger","version":1,"check":"f2b6aeb8"}
        {"source":{"source_id":"log","position":"12"},"check":"92b86fde"}
        {"deleted":{"session_id":"gone","number":3,"at":"1970-01-01T00:00:00.005Z","tail":5},"check":"1fe44787"}
    "#]].assert_eq(&written(dir.path()));
}
