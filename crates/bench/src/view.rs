//! Effective histories: kept current, opened cold, built from nothing.

use std::hint::black_box;
use std::time::Duration;

use event::payload::{Compaction, Content, Placement, SavedEntry, UserPrompt};
use event::{Draft, SessionId};
use journal::{Batch, Journal};
use session::{Host, Session, ViewBuilder};
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::host::make_host;
use crate::load;
use crate::meter::{best_of, median_time, race_rounds, time_work};
use crate::reading::{events_of, longest_rung, read_all};
use crate::report::{Bar, Growth, Quantity, Report};
use crate::stage::{self, Stage};

/// Events appended one by one while the view is asked for after each.
const NEWS: usize = 200;

/// Events behind the compaction in the sessions that are opened cold.
const TAIL: usize = 300;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    after_one_more(stage, report)?;
    measure_cold(stage, report)?;
    from_nothing(stage, report)
}

/// What the next look at the effective history costs when one event has come since the last.
fn after_one_more(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let rounds = stage.scale.rounds;
    let mut opened = Vec::new();
    for rung in stage.make_ladder()? {
        let host = make_host(&rung.journal);
        let session = Session::open(&host, rung.session_id.clone())?;
        black_box(session.effective()?);
        opened.push((rung.events as u64, host, session, Vec::new()));
    }
    // All sizes in turn, so that a bad minute hurts all of them.
    for _ in 0..rounds {
        for (_, host, session, times) in &mut opened {
            look_after_each(host, session, times)?;
        }
    }
    let points = opened
        .into_iter()
        .map(|(events, _, _, times)| (events, Quantity::Time(median_time(times))));
    let points = points.collect();
    let measure = "effective view after one more event, by events in the session".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(Bar::AtMost { must: 1.5, aim: 1.05 }) });
    Ok(())
}

fn look_after_each(host: &Host, session: &Session, times: &mut Vec<Duration>) -> Outcome<()> {
    for _ in 0..NEWS {
        let at = host.now();
        let content = Content::text("and now the next one, please");
        let draft = Draft::new(
            host.new_event_id(at),
            session.session_id().clone(),
            at,
            &UserPrompt::new(content),
        )?;
        // Appended past the session, as another process would: only the look is timed.
        host.journal().append(Batch::observed().with(draft))?;
        let (cost, ()) = time_work(|| {
            session.refresh()?;
            black_box(session.effective()?.len());
            Ok(())
        })?;
        // Wall time of single looks: they are too short for the CPU clock.
        times.push(cost.wall);
    }
    Ok(())
}

/// Opening a session with most of its history behind a compaction: equal views, logs of any
/// length.
fn measure_cold(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let longest = stage.scale.session_events;
    let rounds = stage.scale.rounds;
    let mut points = Vec::new();
    for events in [longest / 100, longest / 10, longest] {
        let scratch = stage.make_scratch()?;
        let session_id = compacted(&scratch.journal, events)?;
        // Opening once saves the view; what is measured starts from what is on the disk.
        black_box(Session::open(&make_host(&scratch.journal), session_id.clone())?.effective()?);
        let cost = best_of(rounds * 2, || {
            // A journal opened again, so that nothing of the session is in memory.
            let host = make_host(&stage::open_journal(scratch.dir())?);
            let (cost, len) = time_work(|| {
                let session = Session::open(&host, session_id.clone())?;
                Ok(session.effective()?.len())
            })?;
            black_box(len);
            Ok(cost)
        })?;
        points.push((events as u64, cost.per_item(1)));
    }
    let measure = "effective view, cold, with a saved view of equal size".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(Bar::AtMost { must: 1.5, aim: 1.1 }) });
    Ok(())
}

/// A session of so many events, then a compaction of all of them, then a few more.
pub(crate) fn compacted(journal: &Journal, events: usize) -> Outcome<SessionId> {
    let mut corpus = Corpus::one_session(41);
    let mut last = None;
    load::fill_journal(journal, &mut corpus, events, |draft| {
        last = Some(draft.clone());
        Ok(())
    })?;
    let last = last.ok_or("a session without events cannot be compacted")?;
    let summary = SavedEntry {
        role: Some("user".to_owned()),
        placement: Some(Placement::Prefix),
        content: Some(Content::text("What was done so far, in one sentence.")),
        ..SavedEntry::default()
    };
    let compaction = Compaction {
        strategy: "summarize".to_owned(),
        cutoff_seq: events as u64,
        cutoff_event_id: Some(last.id),
        entries: vec![summary],
        ..Compaction::default()
    };
    // The time of the last event, with a tail that the corpus does not draw.
    let (id, session_id) = (last.id.with_tail([0xcc; 10]), last.session_id);
    let draft = Draft::new(id, session_id.clone(), last.created_at, &compaction)?;
    journal.append(Batch::observed().with(draft))?;
    load::fill_journal(journal, &mut corpus, TAIL, |_| Ok(()))?;
    Ok(session_id)
}

fn from_nothing(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let rounds = stage.scale.rounds;
    let mut points = Vec::new();
    for rung in stage.make_ladder()? {
        let cost = best_of(rounds, || {
            let (cost, len) =
                time_work(|| Ok(ViewBuilder::default().build(&events_of(rung)?)?.len()))?;
            black_box(len);
            Ok(cost)
        })?;
        points.push((rung.events as u64, cost.at_work().per_item(rung.events)));
    }
    let rung = longest_rung(stage.make_ladder()?);
    let race = race_rounds(
        rounds,
        || {
            let (cost, len) =
                time_work(|| Ok(ViewBuilder::default().build(&events_of(rung)?)?.len()))?;
            black_box(len);
            Ok(cost)
        },
        || read_all(rung),
    )?
    .at_work();
    let measure = "effective view from nothing, each event, against decoding only";
    report
        .add_row(race.into_row(measure, rung.events).with_bar(Bar::AtMost { must: 3.0, aim: 1.5 }));
    let measure = "effective view from nothing, each event".to_owned();
    report.add_growth(Growth { measure, points, bar: None });
    Ok(())
}
