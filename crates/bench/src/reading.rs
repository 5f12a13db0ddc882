//! Reading, replaying and following.

use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use event::{Draft, Event};
use journal::{Delivery, FollowFrom, Journal, OnLag, Selection};
use session::Replay;
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::load;
use crate::meter::{self, Cost, best_of, race_rounds, time_work};
use crate::report::{Bar, Growth, Report};
use crate::stage::{self, Rung, Stage};

/// Events on one page of a reader.
const PAGE: usize = 50;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let rounds = stage.scale.rounds;
    last_page(stage.make_ladder()?, rounds, report)?;
    everything(stage.make_ladder()?, rounds, report)?;
    replayed(stage.make_ladder()?, rounds, report)?;
    caught_up(stage.make_ladder()?, rounds, report)?;
    beside_subscribers(stage, report)
}

fn last_page(ladder: &[Rung], rounds: u32, report: &mut Report) -> Outcome<()> {
    let mut points = Vec::new();
    for rung in ladder {
        // More rounds than elsewhere: opening and one page take so little that noise shows.
        let cost = best_of(rounds * 2, || {
            let (cost, ()) = time_work(|| {
                // Opened inside the measurement: a reader that shows the last page has just been
                // started.
                let journal = stage::open_journal(&rung.dir)?;
                let newest = Selection::all().newest_first();
                for event in journal.events(&rung.session_id, newest)?.take(PAGE) {
                    black_box(event?);
                }
                Ok(())
            })?;
            Ok(cost)
        })?;
        points.push((rung.events as u64, cost.per_item(1)));
    }
    let bar = Some(Bar::AtMost { must: 1.5, aim: 1.1 });
    report.add_growth(Growth { measure: "open and read the last page".to_owned(), points, bar });
    Ok(())
}

fn everything(ladder: &[Rung], rounds: u32, report: &mut Report) -> Outcome<()> {
    let mut points = Vec::new();
    for rung in ladder {
        let cost = best_of(rounds, || read_all(rung))?.at_work();
        points.push((rung.events as u64, cost.per_item(rung.events)));
    }
    report.add_growth(Growth { measure: "read all, each event".to_owned(), points, bar: None });

    let rung = longest_rung(ladder);
    // A second floor follows below. This one only touches the bytes, that one also decodes.
    let race = race_rounds(rounds, || read_all(rung), || scan_rung(rung, |_| Ok(())))?.at_work();
    let row = race.into_row("read all, each event, against a raw range scan", rung.events);
    report.add_row(row.with_bar(Bar::AtMost { must: 2.0, aim: 1.3 }));
    let decode = |json: &[u8]| {
        black_box(Draft::decode(std::str::from_utf8(json)?)?);
        Ok(())
    };
    let race = meter::race_rounds(rounds, || read_all(rung), || scan_rung(rung, decode))?.at_work();
    report.add_row(race.into_row("the same, against a raw scan that decodes, too", rung.events));
    Ok(())
}

fn scan_rung(rung: &Rung, mut look: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<Cost> {
    let (cost, ()) = time_work(|| {
        rung.raw.scan_session(1, |json| {
            black_box(json.len());
            look(json)
        })
    })?;
    Ok(cost)
}

/// Reads and decodes every event.
pub(crate) fn read_all(rung: &Rung) -> Outcome<Cost> {
    let (cost, ()) = time_work(|| {
        for event in rung.journal.events(&rung.session_id, Selection::all())? {
            black_box(event?);
        }
        Ok(())
    })?;
    Ok(cost)
}

fn replayed(ladder: &[Rung], rounds: u32, report: &mut Report) -> Outcome<()> {
    let mut points = Vec::new();
    for rung in ladder {
        let race = race_rounds(
            rounds,
            || {
                let (cost, ()) = time_work(|| {
                    let mut replay = Replay::for_session(rung.session_id.clone());
                    for event in rung.journal.events(&rung.session_id, Selection::all())? {
                        replay.apply(event?)?;
                    }
                    black_box(replay.session());
                    Ok(())
                })?;
                Ok(cost)
            },
            || read_all(rung),
        )?
        .at_work();
        points.push((rung.events as u64, race.ours.per_item(rung.events)));
        if rung.events == longest_rung(ladder).events {
            let row = race.into_row("replay, each event, against decoding only", rung.events);
            report.add_row(row.with_bar(Bar::AtMost { must: 3.0, aim: 1.5 }));
        }
    }
    report.add_growth(Growth { measure: "replay, each event".to_owned(), points, bar: None });
    Ok(())
}

fn caught_up(ladder: &[Rung], rounds: u32, report: &mut Report) -> Outcome<()> {
    let rung = longest_rung(ladder);
    let race = race_rounds(
        rounds,
        || {
            let (cost, ()) = time_work(|| {
                let mut subscription = rung.journal.follow_session(
                    &rung.session_id,
                    FollowFrom::Beginning,
                    OnLag::CatchUp,
                )?;
                let mut seen = 0;
                while seen < rung.events {
                    match subscription.next().ok_or("the journal was closed")?? {
                        Delivery::Event(event) => {
                            black_box(event);
                            seen += 1;
                        }
                        _ => continue,
                    }
                }
                Ok(())
            })?;
            Ok(cost)
        },
        || read_all(rung),
    )?
    .at_work();
    let row = race.into_row("follower catching up, each event, against reading all", rung.events);
    report.add_row(row.with_bar(Bar::AtMost { must: 1.5, aim: 1.1 }));
    Ok(())
}

/// Measures appends beside subscribers, one of which never reads.
fn beside_subscribers(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let drafts: Vec<_> = Corpus::new(22).events(stage.scale.batched / 2).collect();
    let mut points = Vec::new();
    // With 0 there is still the stuck one, so the points differ only in subscribers that read.
    for subscribers in [0, 10, 100] {
        let cost = best_of(stage.scale.rounds, || {
            let scratch = stage.make_scratch()?;
            listened(&scratch.journal, subscribers, || {
                load::append_batches(&scratch.journal, &drafts, 100)
            })
        })?;
        points.push((subscribers, cost.per_item(drafts.len())));
    }
    let measure = "append, by subscribers, one of them stuck".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(Bar::AtMost { must: 1.3, aim: 1.1 }) });
    Ok(())
}

fn listened(
    journal: &Journal,
    subscribers: u64,
    work: impl FnOnce() -> Outcome<Cost>,
) -> Outcome<Cost> {
    let stuck = journal.follow(FollowFrom::Now, OnLag::CatchUp)?;
    thread::scope(|scope| {
        let (ready, is_ready) = mpsc::sync_channel(subscribers as usize);
        for _ in 1..subscribers {
            let mut subscription = journal.follow(FollowFrom::Now, OnLag::Skip)?;
            let ready = ready.clone();
            scope.spawn(move || {
                // The receiver is gone once all subscribers have started.
                let _ = ready.send(());
                while let Some(Ok(followed)) = subscription.next() {
                    black_box(followed);
                }
            });
        }
        for _ in 1..subscribers {
            // Starting a hundred threads takes time that must not be counted.
            is_ready.recv_timeout(Duration::from_secs(60))?;
        }
        let cost = work();
        drop(stuck);
        // Ends the streams, or the threads of the scope would wait for events for ever.
        journal.close();
        cost
    })
}

pub(crate) fn longest_rung(ladder: &[Rung]) -> &Rung {
    ladder.last().expect("a ladder has rungs")
}

/// All events of a rung, in memory.
pub(crate) fn events_of(rung: &Rung) -> Outcome<Vec<Event>> {
    let events = rung.journal.events(&rung.session_id, Selection::all())?;
    Ok(events.collect::<Result<_, _>>()?)
}
