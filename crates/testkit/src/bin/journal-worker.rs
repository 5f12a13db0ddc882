//! A program that tests kill, starve of disk space and race: it works on a journal and prints what
//! it has done.
//!
//! It prints a line only after the journal has confirmed the work, so that the test knows what must
//! still be there after a kill.

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use event::payload::{
    ApprovalResolved, Decision, SessionMode, SessionParent, SessionStarted, UserPrompt,
};
use event::{Draft, EventId, SessionId, Time};
use journal::{
    AppendError, AppendOutcome, Batch, Delivery, FollowError, FollowFrom, Journal, OnLag, Options,
    Query, StoreKind,
};
use rustix::fs::FlockOperation;
use session::{Host, Session, SessionError, Stamps};
use testkit::{bulk, numbered};

/// A follower that gets nothing for so long has stalled, also on a machine with much to do.
const STALL: Duration = Duration::from_secs(30);

/// What is kept on a small disk to be removed when it is full.
const BALLAST_BYTES: usize = 2 * 1024 * 1024;

/// Events of one batch when many are wanted quickly.
const MANY: u64 = 64;

type WorkResult = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The test may be gone, and there is no other place to report to.
            let _ = print_line(&format!("failed {error:?}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> WorkResult {
    // Told before the journal is opened: a test may want to kill the worker while it opens.
    print_line("started")?;
    let [mode, store, dir, rest @ ..] = arguments else { return Err("MODE STORE DIR".into()) };
    let worker = WorkerJournal { store: store_kind(store)?, dir: PathBuf::from(dir) };
    match (*mode, rest) {
        // Without end: the test kills it.
        ("append", []) => append_numbers(&worker, u64::MAX),
        ("append", [last]) => append_numbers(&worker, last.parse()?),
        ("pour", []) => append_forever(&worker),
        ("reopen", []) => reopen_forever(&worker),
        ("fork", [prefix]) => fork_forever(&worker, prefix),
        ("open", []) => open_once(&worker),
        ("repair", []) => repair_once(&worker),
        ("stay", []) => search_twice(&worker),
        ("look", [name]) => report_users(&worker.dir.join(name)),
        ("add", [session, writer, count]) => {
            add_events(&worker, &SessionId::new(session)?, writer.parse()?, count.parse()?)
        }
        ("write", [seconds]) => write_for(&worker, Duration::from_secs(seconds.parse()?)),
        ("fill", [ballast]) => fill_disk(&worker, Path::new(ballast)),
        ("follow", []) => follow_all(&worker),
        ("answer", [session, by, approvals @ ..]) => {
            answer_all(&worker, &SessionId::new(session)?, by, approvals)
        }
        _ => Err(format!("no such work: {arguments:?}").into()),
    }
}

/// Where the journal is, and how it is kept.
struct WorkerJournal {
    store: StoreKind,
    dir: PathBuf,
}

impl WorkerJournal {
    fn open(&self) -> Result<Journal, journal::OpenError> {
        Journal::open_or_create(&self.dir, &Options { store: self.store, ..Options::default() })
    }
}

fn store_kind(name: &str) -> Result<StoreKind, Box<dyn Error>> {
    match name {
        "sqlite" => Ok(StoreKind::Sqlite),
        "files" => Ok(StoreKind::Files),
        _ => Err(format!("no such store: {name}").into()),
    }
}

/// Prints one line for the test and flushes it, so that a kill does not lose it.
fn print_line(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Waits for a line on stdin.
fn wait_for_word() -> std::io::Result<()> {
    std::io::stdin().lock().read_line(&mut String::new()).map(drop)
}

/// Reads the source of numbers up to `last`. Goes on behind another reader of the same source.
fn append_numbers(worker: &WorkerJournal, last: u64) -> WorkResult {
    let journal = worker.open()?;
    print_line("opened")?;
    // The journal knows how far the source was read. After a kill nothing else does.
    let mut read = numbered::read_up_to(journal.source_position(numbered::SOURCE)?);
    while read < last {
        // Small batches and larger ones in turn.
        let count = (1 + read * 7 % 9).min(last - read);
        match journal.append(numbered::batch_after(read, count)) {
            Ok(receipt) => {
                for (number, appended) in (read + 1..).zip(&receipt.events) {
                    // Position and events are recorded in one transaction, so an event cannot be
                    // there before.
                    if appended.outcome != AppendOutcome::Recorded {
                        return Err(format!("{number} was there before: {appended:?}").into());
                    }
                    print_line(&format!("ack {number}"))?;
                }
                read += count;
            }
            // Another worker read the same part of the source first; this one goes on behind it.
            Err(AppendError::SourceMoved { actual, .. }) => read = numbered::read_up_to(actual),
            Err(AppendError::Busy { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the source that fills a log, for ever.
fn append_forever(worker: &WorkerJournal) -> WorkResult {
    let journal = worker.open()?;
    print_line("opened")?;
    let mut read = numbered::read_up_to(journal.source_position(bulk::SOURCE)?);
    loop {
        journal.append(bulk::batch_after(read))?;
        // One line for a stretch and not for each event: the log has to fill quickly.
        read += bulk::STRETCH;
        print_line(&format!("ack {read}"))?;
    }
}

/// Opens the journal, reads a little more of the source, closes it, and begins again.
fn reopen_forever(worker: &WorkerJournal) -> WorkResult {
    loop {
        let journal = worker.open()?;
        print_line("opened")?;
        let read = numbered::read_up_to(journal.source_position(numbered::SOURCE)?);
        journal.append(numbered::batch_after(read, 3))?;
        for number in read + 1..=read + 3 {
            print_line(&format!("ack {number}"))?;
        }
        journal.close();
        drop(journal);
        print_line("closed")?;
    }
}

/// Branches off again and again, each fork standing on the one before, with a prompt in the same
/// batch.
fn fork_forever(worker: &WorkerJournal, prefix: &str) -> WorkResult {
    let journal = worker.open()?;
    print_line("opened")?;
    let mut parent = numbered::session_of(1);
    for number in 1u64.. {
        // Another worker may append to the parent meanwhile. The point stays valid.
        let point = journal.stat(&parent)?.tail_seq;
        let id = SessionId::new(format!("{prefix}-{number}"))?;
        let at = Time::from_millis(1_800_000_000_000 + number as i64);
        // Derived from the session: two workers with different prefixes never make the same id.
        let stamp = |what: &str| EventId::derived(at, "worker", id.as_str(), what.as_bytes());
        let started = SessionStarted {
            parent: Some(SessionParent { session_id: parent, seq: point, event_id: None }),
            mode: Some(SessionMode::Fork),
            ..SessionStarted::default()
        };
        let prompt = UserPrompt::text(format!("fork at {point}"));
        let batch = Batch::hosted()
            .with(Draft::new(stamp("started"), id.clone(), at, &started)?)
            .with(Draft::new(stamp("prompt"), id.clone(), at, &prompt)?);
        journal.append(batch)?;
        print_line(&format!("fork {id} {point}"))?;
        // Chains of a bounded length, so that reading one stays cheap.
        parent = if number.is_multiple_of(8) { numbered::session_of(number) } else { id };
    }
    Ok(())
}

/// Opens and closes, which migrates an older format.
fn open_once(worker: &WorkerJournal) -> WorkResult {
    let journal = Journal::open(&worker.dir, &Options::default())?;
    print_line("opened")?;
    drop(journal);
    print_line("closed")?;
    Ok(())
}

/// Opens and repairs.
fn repair_once(worker: &WorkerJournal) -> WorkResult {
    let journal = worker.open()?;
    print_line("opened")?;
    journal.doctor(true, Time::from_millis(2_000_000_000_000))?;
    print_line("repaired")?;
    Ok(())
}

/// Opens the journal, searches it, and does nothing until a word comes; then it searches again.
fn search_twice(worker: &WorkerJournal) -> WorkResult {
    let journal = worker.open()?;
    let query = Query::new("number");
    // The first search opens the index. The test then damages it under the open journal.
    journal.search(&query)?;
    print_line("ready")?;
    wait_for_word()?;
    print_line(&format!("found {}", journal.search(&query)?.total))?;
    Ok(())
}

/// Says whether other processes use a database, as SQLite would ask.
fn report_users(file: &Path) -> WorkResult {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file)?;
    // From a process of its own: locks of `fcntl` do not exclude the process that holds them.
    let locked = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    print_line(if locked.is_ok() { "free" } else { "in use" })?;
    Ok(())
}

/// Adds `count` events to one session, beside other writers.
fn add_events(
    worker: &WorkerJournal,
    session_id: &SessionId,
    writer: u16,
    count: u64,
) -> WorkResult {
    let journal = worker.open()?;
    print_line("ready")?;
    wait_for_word()?;
    let mut next = 1;
    while next <= count {
        // Batches of 1 to 19 events, so that writers meet in different places.
        let end = count.min(next + next * 5 % 19);
        let drafts =
            (next..=end).map(|number| numbered::draft_in(session_id.clone(), writer, number));
        match journal.append(Batch::observed().with_all(drafts)) {
            Ok(receipt) => {
                for (number, appended) in (next..).zip(&receipt.events) {
                    print_line(&format!("ack {number} {}", appended.seq))?;
                }
                next = end + 1;
            }
            // Another writer holds the journal; the error asks to try again.
            Err(AppendError::Busy { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the source of numbers as fast as it goes, for a time; then ends with a word to followers.
fn write_for(worker: &WorkerJournal, time: Duration) -> WorkResult {
    let journal = worker.open()?;
    print_line("opened")?;
    let began = Instant::now();
    let mut read = 0;
    while began.elapsed() < time {
        journal.append(numbered::batch_after(read, MANY))?;
        read += MANY;
    }
    // Numbered on, so that followers can check it like any other event.
    let last = numbered::draft_in(SessionId::new(numbered::END)?, 0, read + 1);
    journal.append(Batch::observed().with(last))?;
    print_line(&format!("wrote {}", read + 1))?;
    Ok(())
}

/// Appends until the disk is full, looks at what is there, makes room by removing `ballast`, and
/// appends on.
fn fill_disk(worker: &WorkerJournal, ballast: &Path) -> WorkResult {
    // Written first, while there is room.
    std::fs::write(ballast, vec![0; BALLAST_BYTES])?;
    let journal = worker.open()?;
    let mut read = 0;
    let refused = loop {
        match journal.append(numbered::batch_after(read, MANY)) {
            Ok(_) => read += MANY,
            Err(error) => break error,
        }
    };
    print_line(&format!("refused {refused:?}"))?;
    // `read` counts confirmed batches only: the refused one must have left nothing.
    print_line(&format!("kept {read}"))?;
    // The open journal, the journal opened on the full disk, and the one opened after there is room
    // again must all show the same.
    expect_exactly(&journal, read)?;
    drop(journal);
    // A full disk may be too full for opening too; what matters is that it says so.
    match worker.open() {
        Ok(journal) => expect_exactly(&journal, read)?,
        Err(error) => print_line(&format!("not opened {error:?}"))?,
    }
    // Room for the write-ahead log and for the batch that follows.
    std::fs::remove_file(ballast)?;
    let journal = worker.open()?;
    expect_exactly(&journal, read)?;
    journal.append(numbered::batch_after(read, MANY))?;
    expect_exactly(&journal, read + MANY)?;
    print_line(&format!("went on {}", read + MANY))?;
    Ok(())
}

/// The first `count` numbered events are there, and nothing else.
fn expect_exactly(journal: &Journal, count: u64) -> WorkResult {
    let source = numbered::read_up_to(journal.source_position(numbered::SOURCE)?);
    let mut number = 0;
    loop {
        // Positions of the journal equal the numbers: one source, read in order, and nothing else.
        let page = journal.recorded_from(number + 1)?;
        if page.is_empty() {
            break;
        }
        for recorded in page {
            number += 1;
            if numbered::number_of(recorded.event.id) != number {
                return Err(format!("{number} is due, not {:?}", recorded.event.id).into());
            }
        }
    }
    match (source, number) == (count, count) {
        true => Ok(()),
        false => Err(format!("{count} are due, not {number} up to {source}").into()),
    }
}

/// Follows everything from the beginning until the writer's last word. Positions come without a
/// gap, numbers too, and never late.
fn follow_all(worker: &WorkerJournal) -> WorkResult {
    let journal = worker.open()?;
    let mut news = journal.follow(FollowFrom::Beginning, OnLag::CatchUp)?;
    print_line("opened")?;
    let (mut next, mut behind) = (1, 0u64);
    loop {
        let followed = match news.next_within(STALL) {
            Ok(Some(followed)) => followed,
            Ok(None) => return Err(format!("nothing came behind {}", next - 1).into()),
            Err(FollowError::Closed) => return Err("the stream was closed".into()),
            Err(FollowError::Failed(error)) => return Err(error.into()),
        };
        let recorded = match followed {
            Delivery::Event(recorded) => recorded,
            // The writer was faster than the queue. The stream reads on from the journal and loses
            // nothing.
            Delivery::Behind { .. } => {
                behind += 1;
                continue;
            }
            other => return Err(format!("not an event: {other:?}").into()),
        };
        let number = numbered::number_of(recorded.event.id);
        // A gap, a repetition and a wrong order all show here.
        if recorded.position != next || number != next {
            return Err(format!("{next} is due, not {number} at {}", recorded.position).into());
        }
        next += 1;
        if recorded.event.session_id.as_str() == numbered::END {
            print_line(&format!("followed {} {behind}", next - 1))?;
            return Ok(());
        }
    }
}

/// Allows each approval after a line on stdin; another process may have resolved it before.
fn answer_all(
    worker: &WorkerJournal,
    session_id: &SessionId,
    by: &str,
    approvals: &[&str],
) -> WorkResult {
    let host = Host::new(worker.open()?, Arc::new(Ticks::for_writer(by)));
    let session = Session::open(&host, session_id.clone())?;
    print_line("ready")?;
    for approval_id in approvals {
        // The test writes to all workers at once, so that they race for the same approval.
        wait_for_word()?;
        let resolved = ApprovalResolved {
            approval_id: (*approval_id).to_owned(),
            decision: Decision::Allow,
            reason: None,
            by: Some(by.to_owned()),
            automated: false,
        };
        match session.append(session.draft(&resolved)?) {
            Ok(_) => print_line(&format!("won {approval_id}"))?,
            // The error names the decision of the winner, which the test compares.
            Err(SessionError::Refused(error)) => {
                print_line(&format!("lost {approval_id} {error}"))?
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A clock that counts, and ids that contain the process that made them.
struct Ticks {
    by: u8,
    ticks: AtomicU64,
}

impl Ticks {
    fn for_writer(by: &str) -> Ticks {
        // The sum of the letters is enough to keep the few workers of a test apart.
        Ticks { by: by.bytes().fold(0, u8::wrapping_add), ticks: AtomicU64::new(1) }
    }
}

impl Stamps for Ticks {
    fn now(&self) -> Time {
        Time::from_millis(1_900_000_000_000 + self.ticks.load(Ordering::Relaxed) as i64)
    }

    fn tail(&self) -> [u8; 10] {
        let mut tail = [self.by; 10];
        // [by, by, tick as 8 bytes]: ids differ between workers and within one.
        tail[2..].copy_from_slice(&self.ticks.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        tail
    }
}
