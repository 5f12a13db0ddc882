//! After a crash at any point everything accepted is there, once.

use proptest::prelude::*;

use super::*;
use crate::store::files::commit_log::LogEntry;

/// Where each commit of the log begins, and where the last one ends.
fn bounds(dir: &Path) -> Vec<u64> {
    let log = CommitLog::open(dir).unwrap();
    let mut bounds = vec![CommitLog::START];
    while let LogEntry::Record(_, end) = log.read(*bounds.last().unwrap()).unwrap() {
        bounds.push(end);
    }
    bounds
}

fn cut(path: &Path, length: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    if length < file.metadata().unwrap().len() {
        file.set_len(length).unwrap();
    }
}

#[test]
fn reopened_journal_is_unchanged() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    let before = render(&store(dir.path()));
    drop(journal);
    assert_same(&assert_lasting(dir.path()), &before, "closed");
    assert_eq!(bounds(dir.path()).len(), 1, "closing settles the log");
}

#[test]
fn log_restores_acknowledged_commits() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    let expected = render(&store(dir.path()));
    let crashed = copy(dir.path());
    drop(journal);
    without_catalogue(crashed.path());
    fs::remove_dir_all(crashed.path().join("sessions")).unwrap();
    fs::remove_dir_all(crashed.path().join("payloads")).unwrap();
    // All but its first line, which was synced when the journal was made.
    let ledger = crashed.path().join("ledger.jsonl");
    let first = fs::read_to_string(&ledger).unwrap().find('\n').unwrap() as u64 + 1;
    cut(&ledger, first);
    assert_same(&assert_lasting(crashed.path()), &expected, "from the log alone");
}

#[test]
fn cut_commit_is_atomic() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    let before = copy(dir.path());
    let source = SourceMove { source_id: "log".to_owned(), from: None, to: "9".to_owned() };
    let batch = Batch::observed().with(note("a", 3, "x")).with(note("b", 4, "y"));
    journal.append(batch.from_source(source)).unwrap();
    let log = fs::read(dir.path().join(CommitLog::FILE_NAME)).unwrap();
    let (old, new) = (render(&store(before.path())), render(&store(dir.path())));
    let start = bounds(dir.path())[2];
    // Around the frame, the end of the head and the end of the record, and here and there.
    let length = log.len();
    let ends = (start as usize..=length)
        .filter(|end| *end < start as usize + 14 || *end > length - 3 || end % 41 == 0);
    for end in ends {
        let crashed = copy(before.path());
        // Opening has settled the log of the copy; this is the log as it was being written.
        fs::write(crashed.path().join(CommitLog::FILE_NAME), &log[..end]).unwrap();
        let expected = if end == length { &new } else { &old };
        assert_eq!(&render(&store(crashed.path())), expected, "cut at {end}");
    }
}

#[test]
fn next_writer_finishes_dead_commit() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    let other = store(dir.path());
    {
        // Durable in the log, and nowhere else.
        let draft = note("a", 3, "orphan");
        let tx = other.write().unwrap();
        let row = tx.session(&id("a")).unwrap().unwrap();
        let mut changes = crate::store::ChangeSet::default();
        let mut after = row.clone();
        after.apply_event(&draft, 3, 3, crate::prepare::json_size(&draft));
        changes.sessions.push(after);
        changes.events.push(crate::store::EventRow {
            position: 3,
            session: row.number,
            seq: 3,
            packed: other.pack(&draft),
            draft: draft.into(),
        });
        let frame = other
            .lay_out(&tx, &changes, &other.ends(&tx, &changes).unwrap())
            .unwrap()
            .record
            .frame();
        other.log.append(other.log.end().unwrap(), &frame).unwrap();
    }
    append(&journal, "a", 4..=4);
    let events = render(&other);
    assert!(events.contains("orphan") && events.contains("text 4"), "{events}");
    drop((journal, other));
    assert_lasting(dir.path());
}

#[test]
fn two_processes_append_without_loss() {
    let dir = private_dir();
    let (first, second) = (open(dir.path()), open(dir.path()));
    std::thread::scope(|scope| {
        scope.spawn(|| append(&first, "s", 1..=60));
        scope.spawn(|| append(&second, "s", 101..=160));
    });
    let info = first.stat(&id("s")).unwrap();
    assert_eq!((info.tail_seq, info.events), (120, 120));
    drop((first, second));
    let rendered = assert_lasting(dir.path());
    assert_eq!(rendered.matches("text ").count(), 120);
}

#[test]
fn failed_write_leaves_nothing() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    let before = render(&store(dir.path()));
    // A folder where the file of a new session would go.
    fs::create_dir(file(dir.path(), "b")).unwrap();
    let batch = Batch::observed().with(note("a", 3, "x")).with(note("b", 4, "y"));
    journal.append(batch.clone()).unwrap_err();
    assert_eq!(render(&store(dir.path())), before);
    let crashed = copy(dir.path());
    assert_eq!(render(&store(crashed.path())), before);
    fs::remove_dir(file(dir.path(), "b")).unwrap();
    journal.append(batch).unwrap();
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn rolled_back_commit_leaves_nothing() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    let before = render(&store(dir.path()));
    let other = store(dir.path());
    let files = || -> Vec<(PathBuf, u64)> {
        let mut files = other.sessions.list().unwrap();
        files.sort();
        files
    };
    let (lengths, ledger, log) = (files(), other.ledger.length(), other.log.end().unwrap());
    let tx = other.write().unwrap();
    let mut changes = crate::store::ChangeSet::default();
    let large = "another large ".repeat(2_000);
    for (number, session, text) in [(1u64, "a", "x"), (2, "new", &large)] {
        let draft = note(session, 90 + number, text);
        let row = tx.session(&id(session)).unwrap();
        let row =
            row.unwrap_or_else(|| crate::store::SessionRow::new(9, &id(session), Time::EPOCH));
        changes.events.push(crate::store::EventRow {
            position: 100 + number,
            session: row.number,
            seq: row.tail_seq + 1,
            packed: other.pack(&draft),
            draft: draft.into(),
        });
        changes.sessions.push(row);
    }
    changes.consumers.push(("shipper".to_owned(), 99));
    let record = other.lay_out(&tx, &changes, &other.ends(&tx, &changes).unwrap()).unwrap().record;
    other.log.append(log, &record.frame()).unwrap();
    other.write_files(&record).unwrap();
    assert_ne!(files(), lengths);
    let error = other.roll_back(log, &record, CommitError::OutOfSpace);
    assert!(matches!(error, CommitError::OutOfSpace));
    drop(tx);
    assert_eq!((files(), other.log.end().unwrap()), (lengths, log));
    assert_eq!(other.ledger.length().unwrap(), ledger.unwrap());
    assert_same(&render(&other), &before, "taken back");
    drop((journal, other));
    assert_same(&assert_lasting(dir.path()), &before, "opened again");
}

#[test]
fn the_log_is_cut_when_it_has_grown() {
    let dir = private_dir();
    let journal = open(dir.path());
    let text = "x".repeat(15_000);
    for batch in 0..20 {
        let numbers = batch * 100 + 1..=batch * 100 + 100;
        let drafts = numbers.map(|number| note("s", number, &text));
        journal.append(Batch::observed().with_all(drafts)).unwrap();
    }
    let length = fs::metadata(dir.path().join(CommitLog::FILE_NAME)).unwrap().len();
    assert!(length < crate::store::files::commit::LOG_BYTES_MAX, "{length}");
    assert_eq!(journal.stat(&id("s")).unwrap().events, 2_000);
}

/// One step of a session of work.
#[derive(Debug, Clone)]
enum CrashStep {
    Append { session: u8, count: u8 },
    Batch { sessions: Vec<u8> },
    Large { session: u8, kind: u8 },
    Source,
    Delete { session: u8 },
    Checkpoint,
}

fn step() -> impl Strategy<Value = CrashStep> {
    prop_oneof![
        4 => (0u8..4, 1u8..4).prop_map(|(session, count)| CrashStep::Append { session, count }),
        3 => prop::collection::vec(0u8..4, 2..6).prop_map(|sessions| CrashStep::Batch { sessions }),
        2 => (0u8..4, 0u8..3).prop_map(|(session, kind)| CrashStep::Large { session, kind }),
        1 => Just(CrashStep::Source),
        1 => (0u8..4).prop_map(|session| CrashStep::Delete { session }),
        1 => Just(CrashStep::Checkpoint),
    ]
}

fn perform(journal: &Journal, steps: &[CrashStep], number: &mut u64) {
    let mut next = || {
        *number += 1;
        *number
    };
    for step in steps {
        match step {
            CrashStep::Append { session, count } => {
                for _ in 0..*count {
                    let draft = note(&format!("s{session}"), next(), "small");
                    journal.append(Batch::observed().with(draft)).unwrap();
                }
            }
            CrashStep::Batch { sessions } => {
                let drafts = sessions.iter().map(|s| note(&format!("s{s}"), next(), "part"));
                journal.append(Batch::observed().with_all(drafts)).unwrap();
            }
            CrashStep::Large { session, kind } => {
                let text = format!("large {kind} ").repeat(2_000);
                let draft = note(&format!("s{session}"), next(), &text);
                journal.append(Batch::observed().with(draft)).unwrap();
            }
            CrashStep::Source => {
                let from = journal.source_position("log").unwrap();
                let source =
                    SourceMove { source_id: "log".to_owned(), from, to: next().to_string() };
                journal.append(Batch::observed().from_source(source)).unwrap();
            }
            CrashStep::Delete { session } => {
                let session = id(&format!("s{session}"));
                if journal.exists(&session).unwrap() {
                    journal
                        .delete(&session, Time::from_millis(3), crate::ForkPolicy::Refuse)
                        .unwrap();
                }
            }
            CrashStep::Checkpoint => store(journal.dir().unwrap()).run_checkpoint().unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(16) })]

    /// What the log has is there after a power cut, whatever became of files that were never
    /// synced, and of the catalogue.
    #[test]
    fn power_cut_keeps_acknowledged_commits(
        synced in prop::collection::vec(step(), 0..8),
        unsynced in prop::collection::vec(step(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 8),
        catalogue in 0u8..3,
    ) {
        let dir = private_dir();
        let journal = open(dir.path());
        let mut number = 0;
        perform(&journal, &synced, &mut number);
        store(dir.path()).run_checkpoint().unwrap();
        let durable = copy(dir.path());
        let unsynced: Vec<_> =
            unsynced.into_iter().filter(|step| !matches!(step, CrashStep::Checkpoint)).collect();
        perform(&journal, &unsynced, &mut number);
        let expected = render(&store(dir.path()));
        let crashed = copy(dir.path());
        // Every file may be cut back to what was synced, or to anything longer.
        let mut cuts = cuts.iter().cycle();
        for folder in ["sessions", "payloads", "."] {
            for entry in fs::read_dir(crashed.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if !name.ends_with(".jsonl") && !name.ends_with(".zst") {
                    continue;
                }
                let synced = durable.path().join(folder).join(&name);
                let synced = fs::metadata(synced).map_or(0, |metadata| metadata.len());
                let length = path.metadata().unwrap().len();
                if length > synced {
                    let keep = cuts.next().unwrap().index((length - synced) as usize + 1) as u64;
                    cut(&path, synced + keep);
                }
            }
        }
        match catalogue {
            0 => {}
            1 => without_catalogue(crashed.path()),
            _ => {
                without_catalogue(crashed.path());
                for name in ["catalogue.db", "catalogue.db-wal"] {
                    let _ = fs::copy(durable.path().join(name), crashed.path().join(name));
                }
            }
        }
        drop(journal);
        prop_assert_eq!(render(&store(crashed.path())), expected.clone());
        without_catalogue(crashed.path());
        prop_assert_eq!(render(&store(crashed.path())), expected);
    }
}
