//! A file that is moved, replaced or deleted while it is open: nothing is recorded in what has no
//! name any more, and what is put in its place stays as it is.

use super::*;

/// Why a commit is refused.
#[track_caller]
fn refusal(bench: &Bench) -> String {
    match bench.store.begin() {
        Ok(_) => panic!("it would be recorded"),
        Err(AppendError::Storage(error)) => error.cause.to_string(),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn moved_file_refuses_commits() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    let away = bench.dir.path().join("away.db");
    std::fs::rename(bench.file(), &away).unwrap();
    assert!(refusal(&bench).contains("replaced or deleted while it was open"));
    std::fs::write(bench.file(), "").unwrap();
    assert!(refusal(&bench).contains("end every `hansard`"));
    // Back at its place it is what it was.
    std::fs::rename(&away, bench.file()).unwrap();
    bench.append("one", &["b"]);
    assert_eq!(bench.render(), [r#"1 {"content":"a"}"#, r#"2 {"content":"b"}"#]);
}

#[test]
fn replaced_file_stays_untouched() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    let older = bench.bytes();
    bench.append("one", &["b", "c"]);
    bench.tamper("UPDATE event SET body = x'00' WHERE pk & 0xFFFFFFFF = 2");
    bench.append("one", &["d"]);
    let copy = bench.dir.path().join("copy.db");
    std::fs::write(&copy, &older).unwrap();
    // The first one has what there is of connections, so that the second needs another.
    let first = bench.store.reader().unwrap();
    std::fs::rename(&copy, bench.file()).unwrap();
    let refused = bench.store.reader().map(drop).unwrap_err();
    assert!(refused.cause.to_string().contains("replaced"), "{refused:?}");
    assert_eq!(first.tail().unwrap(), 4);
    drop(first);
    bench.store.check(true, None).unwrap_err();
    refusal(&bench);
    let Bench { dir, store, .. } = bench;
    drop(store);
    assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), older);
}
