//! Forks: what branching off costs, and what reading through many generations does.

use std::cell::RefCell;
use std::hint::black_box;

use event::SessionId;
use event::payload::{Content, UserPrompt};
use journal::{Journal, Selection};
use session::{ForkOptions, Host, fork};
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::host::make_host;
use crate::load;
use crate::meter::{Cost, race_rounds, time_work};
use crate::report::{Bar, Quantity, Report, Row};
use crate::stage::{self, Stage, disk_bytes};

/// Forks in one round.
const FORKS: usize = 100;

/// Forks made to count their bytes on disk.
const COUNTED: usize = 2_000;

const GENERATIONS: usize = 10;

const SHORT: usize = 10;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    of_any_length(stage, report)?;
    through_generations(stage, report)
}

fn of_any_length(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let events = stage.scale.session_events;
    let dir = stage.fresh_path();
    let journal = stage::open_journal(&dir)?;
    let (long, short) = (make_session(&journal, 51, events)?, make_session(&journal, 52, SHORT)?);
    let race = {
        let mut made = 0..;
        // Both closures draw from one row of numbers: a name can be used once in a journal.
        let names = RefCell::new(made.by_ref());
        let host = make_host(&journal);
        race_rounds(
            stage.scale.rounds,
            || fork_many(&host, &long, FORKS, *names.borrow_mut()),
            || fork_many(&host, &short, FORKS, *names.borrow_mut()),
        )?
    };
    let measure = format!("fork of {events} events, against one of {SHORT}");
    report.add_row(race.into_row(measure, FORKS).with_bar(Bar::AtMost { must: 2.0, aim: 1.1 }));

    // Closed, a journal has nothing left in its log.
    drop(journal);
    let before = disk_bytes(&dir, &|_| true)?;
    // Names far behind those of the race. The journal is a temporary and closes with this line.
    fork_many(&make_host(&stage::open_journal(&dir)?), &long, COUNTED, &mut (1_000_000..))?;
    let each = disk_bytes(&dir, &|_| true)?.saturating_sub(before) / COUNTED as u64;
    let floor = Quantity::Bytes(16 * 1024);
    let row =
        Row::against_floor("bytes on disk per fork, against 16 KiB", Quantity::Bytes(each), floor);
    report.add_row(row.with_bar(Bar::AtMost { must: 1.0, aim: 0.25 }));
    Ok(())
}

fn fork_many(
    host: &Host,
    parent: &SessionId,
    count: usize,
    numbers: &mut dyn Iterator<Item = usize>,
) -> Outcome<Cost> {
    let names: Result<Vec<SessionId>, _> =
        numbers.take(count).map(|number| SessionId::new(format!("fork {number}"))).collect();
    // Named before the clock starts.
    let names = names?;
    let (cost, ()) = time_work(|| {
        for name in names {
            fork(host, parent, name, ForkOptions::default())?;
        }
        Ok(())
    })?;
    Ok(cost)
}

/// A chain of forks, each with a little of its own, against the same events in one session.
fn through_generations(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let events = stage.scale.session_events / 10;
    let scratch = stage.make_scratch()?;
    let mut id = make_session(&scratch.journal, 53, events)?;
    let host = make_host(&scratch.journal);
    for generation in 1..=GENERATIONS {
        let child = SessionId::new(format!("generation {generation}"))?;
        fork(&host, &id, child.clone(), ForkOptions::default())?;
        append_prompt(&host, &child)?;
        id = child;
    }
    // Each generation adds its first event and a prompt.
    let alone = make_session(&scratch.journal, 54, events + 2 * GENERATIONS)?;
    let read = |id: &SessionId| {
        let (cost, ()) = time_work(|| {
            for event in scratch.journal.events(id, Selection::all())? {
                black_box(event?);
            }
            Ok(())
        })?;
        Ok(cost)
    };
    let race = race_rounds(stage.scale.rounds, || read(&id), || read(&alone))?.at_work();
    let measure = format!("read through {GENERATIONS} generations, against one session");
    report.add_row(race.into_row(measure, events).with_bar(Bar::AtMost { must: 1.3, aim: 1.1 }));
    Ok(())
}

fn append_prompt(host: &Host, id: &SessionId) -> Outcome<()> {
    let at = host.now();
    let content = Content::text("from here on differently");
    let draft =
        event::Draft::new(host.new_event_id(at), id.clone(), at, &UserPrompt::new(content))?;
    host.journal().append(journal::Batch::observed().with(draft))?;
    Ok(())
}

fn make_session(journal: &Journal, seed: u64, events: usize) -> Outcome<SessionId> {
    let mut corpus = Corpus::one_session(seed).peekable();
    let id = corpus.peek().expect("a corpus does not end").session_id.clone();
    load::fill_journal(journal, &mut corpus, events, |_| Ok(()))?;
    Ok(id)
}
