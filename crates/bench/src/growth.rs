//! Appends to what has grown, against appends to an empty journal.

use std::path::Path;

use event::Draft;
use journal::{Batch, Journal};
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::load;
use crate::meter::{Cost, Race, best_of, race_rounds, time_work};
use crate::report::{Bar, Growth, Report, Row};
use crate::stage::{self, Stage};

const BAR: Bar = Bar::AtMost { must: 1.25, aim: 1.05 };

/// Rounds of a race for each that is usual: both sides do the same here, so a difference as small as
/// the bar allows can only be seen if each side had a quiet moment.
const ROUNDS: u32 = 4;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    in_one_session(stage, report)?;
    among_sessions(stage, report)
}

fn in_one_session(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let dir = stage.fresh_path();
    let mut journal = stage::open_journal(&dir)?;
    let mut corpus = Corpus::one_session(31);
    let all = stage.scale.events;
    let mut points = Vec::new();
    let mut first_points = Vec::new();
    let mut recorded = 0;
    for at in [0, all / 100, all / 10, all] {
        if at > recorded {
            stage.announce(&format!("filling one session up to {at} events"))?;
            load::fill_journal(&journal, &mut corpus, at - recorded, |_| Ok(()))?;
            recorded = at;
        }
        let race = beside_empty(stage, &journal, &mut corpus)?;
        let round = stage.scale.batched / 2;
        // The race has appended to the session, too.
        recorded += round * (stage.scale.rounds * ROUNDS) as usize;
        points.push((at as u64, race.ours.per_item(round)));
        let measure = format!("append at {at} events in the session, against an empty journal");
        report.add_row(race.into_row(measure, round).with_bar(BAR));
        if at > 0 {
            journal.close();
            let first = best_of(stage.scale.rounds, || {
                recorded += 1;
                append_first(&dir, corpus.next().expect("a corpus does not end"))
            })?;
            first_points.push((at as u64, first.per_item(1)));
            journal = stage::open_journal(&dir)?;
        }
    }
    let measure = "append, by events in the session".to_owned();
    report.add_growth(Growth { measure, points, bar: None });
    let measure = "first append after opening, by events in the session".to_owned();
    report.add_growth(Growth { measure, points: first_points, bar: None });
    first_after_opening(stage, report, journal, &dir, &mut corpus)
}

/// Opens a journal and appends one event, which is what is measured.
fn append_first(dir: &Path, draft: Draft) -> Outcome<Cost> {
    let journal = stage::open_journal(dir)?;
    let (cost, _) = time_work(|| Ok(journal.append(Batch::observed().with(draft))?))?;
    journal.close();
    Ok(cost)
}

/// A writer that has just started knows nothing of the session yet.
fn first_after_opening(
    stage: &mut Stage,
    report: &mut Report,
    journal: Journal,
    dir: &Path,
    corpus: &mut Corpus,
) -> Outcome<()> {
    journal.close();
    drop(journal);
    let empty = stage.fresh_path();
    let drafts = corpus.by_ref();
    let race = race_rounds(
        stage.scale.rounds,
        || append_first(dir, drafts.next().expect("a corpus does not end")),
        || {
            let draft = Corpus::brief_sessions(99).next().expect("a corpus does not end");
            let cost = append_first(&empty, draft)?;
            // The next round needs an empty journal again.
            std::fs::remove_dir_all(&empty)?;
            Ok(cost)
        },
    )?;
    report.add_row(
        race.into_row("first append after opening, long session against empty journal", 1),
    );
    Ok(())
}

fn among_sessions(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let scratch = stage.make_scratch()?;
    let mut brief = Corpus::brief_sessions(32);
    let mut corpus = Corpus::one_session(33);
    let all = stage.scale.sessions;
    let mut begun = 0;
    let mut points = Vec::new();
    let mut old = Vec::new();
    for at in [1, all / 100, all] {
        stage.announce(&format!("making {at} sessions"))?;
        let events = (at - begun) * Corpus::BRIEF_EVENTS;
        // About a thousand old sessions, spread over all of them.
        let every = all.div_ceil(1_000);
        let mut count = 0;
        load::fill_journal(&scratch.journal, &mut brief, events, |draft| {
            count += 1;
            if count % (every * Corpus::BRIEF_EVENTS) == 0 {
                old.push(draft.session_id.clone());
            }
            Ok(())
        })?;
        begun = at;
        // Appends to one other session: the many sessions are only there.
        let race = beside_empty(stage, &scratch.journal, &mut corpus)?;
        let round = stage.scale.batched / 2;
        points.push((at as u64, race.ours.per_item(round)));
        let measure = format!("append beside {at} sessions, against an empty journal");
        report.add_row(race.into_row(measure, round).with_bar(BAR));
    }
    let measure = "append, by sessions in the journal".to_owned();
    report.add_growth(Growth { measure, points, bar: None });

    // The worst case: every event goes to another session, none of them touched for long.
    let scattered = best_of(1, || {
        let drafts: Vec<Draft> = old
            .iter()
            .zip(&mut corpus)
            .map(|(session_id, draft)| Draft { session_id: session_id.clone(), ..draft })
            .collect();
        load::append_batches(&scratch.journal, &drafts, 100)
    })?;
    let measure = format!("append to {} old sessions, one event each, batches of 100", old.len());
    report.add_row(Row::alone(measure, scattered.per_item(old.len().max(1))));
    Ok(())
}

/// The next events of a corpus in batches of 100, here and in an empty journal, in turn.
fn beside_empty(stage: &mut Stage, journal: &Journal, corpus: &mut Corpus) -> Outcome<Race> {
    let (rounds, count) = (stage.scale.rounds * ROUNDS, stage.scale.batched / 2);
    let next = |corpus: &mut Corpus| corpus.take(count).collect::<Vec<Draft>>();
    // Both sides append the same events, generated before the clock starts.
    let mut drafts = Vec::new();
    for _ in 0..rounds {
        drafts.push(next(corpus));
    }
    let (mut here, mut there) = (drafts.iter(), drafts.iter());
    race_rounds(
        rounds,
        || load::append_batches(journal, here.next().expect("events for every round"), 100),
        || {
            let drafts = there.next().expect("events for every round");
            load::append_batches(&stage.make_scratch()?.journal, drafts, 100)
        },
    )
}
