//! Durable appends against SQLite alone.

use std::fs;
use std::path::Path;
use std::thread;

use event::Draft;
use journal::{Batch, Journal};
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::floor::{RawRow, RawTable};
use crate::load::{self, Load};
use crate::meter::{Cost, best_of, race_rounds, time_work};
use crate::report::{Bar, Quantity, Report, Row};
use crate::stage::Stage;

const CALLERS: usize = 64;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let load = Load::new(Corpus::new(11).events(stage.scale.batched));
    report.add_note("append", load.description.to_string());
    one_by_one(stage, report, &load)?;
    in_batches(stage, report, &load)?;
    in_groups(stage, report, &load)?;
    measure_many(stage, report, &load)
}

fn one_by_one(stage: &mut Stage, report: &mut Report, load: &Load) -> Outcome<()> {
    let count = stage.scale.single;
    let race = against_floor(stage, load, count, 1)?;
    let measure = "durable append, one caller, one event each";
    report.add_row(race.into_row(measure, count).with_bar(Bar::AtMost { must: 1.5, aim: 1.15 }));
    Ok(())
}

fn in_batches(stage: &mut Stage, report: &mut Report, load: &Load) -> Outcome<()> {
    let count = load.drafts.len();
    let race = against_floor(stage, load, count, 100)?;
    let row = race.into_row("durable append, batches of 100", count);
    report.add_row(row.with_bar(Bar::AtMost { must: 2.5, aim: 1.5 }));
    Ok(())
}

fn against_floor(
    stage: &mut Stage,
    load: &Load,
    count: usize,
    batch: usize,
) -> Outcome<crate::meter::Race> {
    let rounds = stage.scale.rounds;
    // Made before the race: both closures need the stage, and only one of them can borrow it.
    let paths: Vec<_> = (0..rounds).map(|_| stage.fresh_path()).collect();
    let mut paths = paths.into_iter();
    race_rounds(
        rounds,
        || load::append_batches(&stage.make_scratch()?.journal, &load.drafts[..count], batch),
        || insert_rows(&paths.next().expect("a path for every round"), &load.rows[..count], batch),
    )
}

/// Inserts the rows into a fresh plain table, so many per transaction.
fn insert_rows(file: &Path, rows: &[RawRow], batch: usize) -> Outcome<Cost> {
    // Creating the table is not timed, as opening the journal is not.
    let table = RawTable::create(file)?;
    let (cost, ()) =
        time_work(|| rows.chunks(batch).try_for_each(|chunk| table.insert_rows(chunk)))?;
    // Closed before the file is removed, so that SQLite does not leave its log behind.
    drop(table);
    fs::remove_file(file)?;
    Ok(cost)
}

/// One caller that hands over event after event and waits for all of them at the end: batches
/// form by themselves, however many events each commit finds waiting.
fn in_groups(stage: &mut Stage, report: &mut Report, load: &Load) -> Outcome<()> {
    let (rounds, count) = (stage.scale.rounds, load.drafts.len());
    let paths: Vec<_> = (0..rounds).map(|_| stage.fresh_path()).collect();
    let mut paths = paths.into_iter();
    let race = race_rounds(
        rounds,
        || {
            let scratch = stage.make_scratch()?;
            let batches = load::split_batches(&load.drafts, 1);
            let (cost, ()) = time_work(|| submit_all(&scratch.journal, batches))?;
            Ok(cost)
        },
        || insert_rows(&paths.next().expect("a path for every round"), &load.rows, 100),
    )?;
    let row = race.into_row("durable append, groups that form by themselves", count);
    report.add_row(row.with_bar(Bar::AtMost { must: 2.0, aim: 1.5 }));
    Ok(())
}

fn submit_all(journal: &Journal, batches: Vec<Batch>) -> Outcome<()> {
    let tickets: Result<Vec<_>, _> =
        batches.into_iter().map(|batch| journal.submit(batch)).collect();
    // All batches are handed over before the first wait, so that each commit finds many waiting.
    for ticket in tickets? {
        ticket.wait()?;
    }
    Ok(())
}

/// Many callers that each wait for every event, against one such caller.
fn measure_many(stage: &mut Stage, report: &mut Report, load: &Load) -> Outcome<()> {
    let (rounds, single) = (stage.scale.rounds, stage.scale.single);
    let alone = best_of(rounds, || {
        load::append_batches(&stage.make_scratch()?.journal, &load.drafts[..single], 1)
    })?;
    let count = load.drafts.len();
    let many = best_of(rounds, || append_singly(&stage.make_scratch()?.journal, &load.drafts))?;
    let row = Row::against_floor(
        format!("{CALLERS} callers against 1, one event each"),
        many.per_second(count),
        alone.per_second(single),
    );
    report.add_row(row.with_bar(Bar::AtLeast { must: 10.0, aim: 30.0 }));

    // Few enough events that the log holds all of their commits.
    let few = &load.drafts[..count.min(1_000)];
    let scratch = stage.make_scratch()?;
    append_singly(&scratch.journal, few)?;
    let per_event = commits_in_log(scratch.dir())? as f64 / few.len() as f64;
    let syncs = Row {
        ratio: Some(per_event),
        ..Row::alone(format!("syncs per event, {CALLERS} callers"), Quantity::Count(per_event))
    };
    report.add_row(syncs.with_bar(Bar::AtMost { must: 1.0 / 8.0, aim: 1.0 / 32.0 }));
    Ok(())
}

fn append_singly(journal: &Journal, drafts: &[Draft]) -> Outcome<Cost> {
    let shares: Vec<Vec<Batch>> = drafts
        // Batches are built before the clock starts; only appending is timed.
        .chunks(drafts.len().div_ceil(CALLERS))
        .map(|share| load::split_batches(share, 1))
        .collect();
    let (cost, ()) = time_work(|| {
        thread::scope(|scope| {
            let callers: Vec<_> = shares
                .into_iter()
                .map(|share| {
                    scope.spawn(|| {
                        share.into_iter().try_for_each(|one| journal.append(one).map(drop))
                    })
                })
                .collect();
            for caller in callers {
                caller.join().expect("a caller does not panic")?;
            }
            Ok(())
        })
    })?;
    Ok(cost)
}

/// Commits in the write-ahead logs of a folder, which are at most as many syncs: the log is
/// synced once per commit, and has not been emptied while this little was written.
fn commits_in_log(dir: &Path) -> Outcome<u64> {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let mut commits = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with("journal.db-wal") {
            continue;
        }
        let log = fs::read(path)?;
        // SQLite's write-ahead log: a header of 32 bytes with the page size at byte 8, then frames,
        // each a header of 24 bytes and one page.
        let Some(page) = log.get(8..12) else { continue };
        let page = u32::from_be_bytes(page.try_into()?) as usize;
        for frame in log[HEADER..].chunks_exact(FRAME_HEADER + page) {
            // The last page of a commit names the size of the database after it.
            commits += u64::from(frame[4..8] != [0; 4]);
        }
    }
    Ok(commits)
}
