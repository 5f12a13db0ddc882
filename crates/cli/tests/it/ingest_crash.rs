//! Killed at any instant and run again, `ingest` ends where an undisturbed run does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use journal::{Access, Journal, Options, Selection, SessionFilter};
use testkit::{Dice, Transcripts, World};

use crate::ingest::{ingest, reading};
use crate::totals::{assert_same, counted};
use crate::writer::Writer;

/// How often the program is killed, unless `HANSARD_TEST_CRASHES` says otherwise.
const CRASHES: u32 = 200;

/// Everything in a journal: of each session the events in their order.
type Held = BTreeMap<String, Vec<String>>;

#[test]
fn a_killed_ingest_goes_on_where_it_was() {
    let transcripts = Transcripts::make("2mb", 31, "0.6");
    let undisturbed = reading(&transcripts);
    // Later it would mostly be done.
    let time = timed(|| drop(ingest(&undisturbed))) / 2;
    let (events, totals) = (held(&undisturbed), counted(&undisturbed));

    let crashes = crashes();
    let mut dice = Dice::from_environment();
    println!("{crashes} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    let mut world = reading(&transcripts);
    let (mut killed, mut finished) = (0, 0);
    while killed < crashes {
        let mut running = world.start(&["--json", "ingest", "--once"]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
            killed += 1;
            continue;
        }
        let said = running.end();
        assert_eq!(said.code, Some(0), "{said}");
        assert_held(&world, &events);
        finished += 1;
        world = reading(&transcripts);
    }
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
    println!("finished by itself {finished} times in between");
}

#[test]
fn a_killed_follower_misses_nothing_that_is_written_meanwhile() {
    let transcripts = Transcripts::make("2mb", 32, "0.6");
    let undisturbed = reading(&transcripts);
    ingest(&undisturbed);
    let (events, totals) = (held(&undisturbed), counted(&undisturbed));

    let crashes = crashes().div_ceil(2);
    let mut dice = Dice::from_environment();
    println!("{crashes} kills, HANSARD_TEST_SEED={}", dice.seed());
    let mut writer = Writer::new(&transcripts);
    let world = reading(&transcripts);
    for _ in 0..crashes {
        let mut running = world.start(&["--json", "ingest"]);
        for _ in 0..dice.below(12) {
            writer.write(&mut dice);
            assert!(!running.ends_within(share(Duration::from_millis(60), &mut dice)));
        }
        running.kill();
    }
    while writer.write(&mut dice) {}
    transcripts.age();
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
}

pub(crate) fn crashes() -> u32 {
    let told = std::env::var("HANSARD_TEST_CRASHES").ok();
    told.and_then(|crashes| crashes.parse().ok()).unwrap_or(CRASHES)
}

/// How long something takes.
pub(crate) fn timed(it: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    it();
    begun.elapsed()
}

/// A random part of a time.
pub(crate) fn share(time: Duration, dice: &mut Dice) -> Duration {
    Duration::from_micros(dice.below(time.as_micros() as u64))
}

/// What a journal holds, without when it was recorded.
pub(crate) fn held(world: &World) -> Held {
    let options = Options { access: Access::ReadOnly, ..Options::default() };
    let journal = Journal::open(&world.home().join(".local/share/hansard"), &options).unwrap();
    let sessions = journal.sessions(&SessionFilter::default(), None, 10_000).unwrap();
    let events = |id| journal.events(id, Selection::after(0)).unwrap().map(Result::unwrap);
    let lines =
        |id| events(id).map(|event| format!("{} {} {}", event.id, event.kind, event.data.get()));
    sessions
        .items
        .iter()
        .map(|session| (session.id.to_string(), lines(&session.id).collect()))
        .collect()
}

#[track_caller]
pub(crate) fn assert_held(world: &World, wanted: &Held) {
    let held = held(world);
    assert_eq!(held.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (session, events) in &held {
        let wanted = &wanted[session];
        let same = events.iter().zip(wanted).take_while(|(got, wanted)| got == wanted).count();
        assert!(
            events == wanted,
            "{session} differs from event {same} on, {} of {}:\n{:?}\n{:?}",
            events.len(),
            wanted.len(),
            events.get(same),
            wanted.get(same),
        );
    }
}
