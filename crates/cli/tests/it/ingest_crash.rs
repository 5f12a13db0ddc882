//! Killed at any instant and run again, `ingest` ends where an undisturbed run does.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use journal::{Access, Journal, Options, Selection, SessionFilter};
use testkit::{Dice, Transcripts, World};

use crate::follow::prompt;
use crate::ingest::{ingest, reading};
use crate::totals::{assert_same, counted};
use crate::writer::{Writer, append};
use crate::{empty, json};

/// How often the program is killed, unless `HANSARD_TEST_CRASHES` says otherwise.
const CRASHES: u32 = 200;

/// Everything in a journal: of each session the events in their order.
type Held = BTreeMap<String, Vec<String>>;

#[test]
fn killed_ingest_resumes() {
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
fn killed_follower_misses_nothing() {
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
            running.goes_on_for(share(Duration::from_millis(60), &mut dice));
        }
        running.kill();
    }
    while writer.write(&mut dice) {}
    transcripts.age();
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
}

/// What is killed less often, because each run does less: a part of the kills.
const SHARE: u32 = 10;

#[test]
fn killed_reparse_changes_nothing() {
    let transcripts = Transcripts::make("1mb", 33, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    let (events, totals) = (held(&world), counted(&world));
    let time = timed(|| drop(world.run(&["ingest", "--reparse", "claude"])));
    let crashes = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{crashes} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for number in 0..crashes {
        let agent = if number % 2 == 0 { "claude" } else { "codex" };
        let mut running = world.start(&["--json", "ingest", "--reparse", agent]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
    }
    for agent in ["claude", "codex"] {
        let report = json(&world.run(&["--json", "ingest", "--reparse", agent])).remove(0);
        assert_eq!(report["events"], 0, "{report}");
    }
    assert_eq!(ingest(&world)["events"], 0);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
}

#[test]
fn signal_counts_once_after_kills() {
    let world = empty();
    let rounds = crashes().div_ceil(SHARE);
    let file = |session: &str| world.home().join(format!(".claude/projects/-app/{session}.jsonl"));
    for round in 0..rounds {
        let session = format!("s{round}");
        append(&file(&session), prompt(&session, 0).as_bytes());
    }
    ingest(&world);
    let signals = world.home().join(".local/share/hansard/signals");
    let leave = |round: u32| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let signal = serde_json::json!({"v": 1, "type": "stop", "provider": "claude",
            "session_id": format!("s{round}"), "ts": now.as_secs()});
        let name = format!("{:019}-{round:08x}.json", now.as_nanos());
        append(&signals.join(name), signal.to_string().as_bytes());
    };
    let time = timed(|| drop(ingest(&world)));
    let mut dice = Dice::from_environment();
    println!("{rounds} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for round in 0..rounds {
        leave(round);
        let mut running = world.start(&["--json", "ingest", "--once"]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
    }
    ingest(&world);
    for round in 0..rounds {
        let id = format!("claude:s{round}");
        let events = json(&world.run(&["--json", "show", &id, "--events"]));
        let exits = events.iter().filter(|event| event["kind"] == "session.exited").count();
        assert_eq!(exits, 1, "{id}: {events:?}");
    }
    assert_eq!(fs::read_dir(&signals).unwrap().count(), 0);
}

#[test]
fn excess_originals_are_removed_whole() {
    const BYTES_MAX: u64 = 60_000;
    let transcripts = Transcripts::make("1mb", 34, "0.6");
    let undisturbed = reading(&transcripts);
    ingest(&undisturbed);
    let (events, totals) = (held(&undisturbed), counted(&undisturbed));

    let world = reading(&transcripts);
    let journal = world.home().join(".local/share/hansard");
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, Permissions::from_mode(0o700)).unwrap();
    fs::write(journal.join("config.toml"), format!("originals.bytes = {BYTES_MAX}\n")).unwrap();
    let time = timed(|| drop(ingest(&undisturbed))) * 4;
    let mut dice = Dice::from_environment();
    println!("kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for _ in 0..crashes().div_ceil(SHARE) {
        let mut running = world.start(&["--json", "ingest", "--once"]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
    }
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
    let kept = fs::read_dir(journal.join("originals")).unwrap();
    let kept: u64 = kept.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(kept <= BYTES_MAX, "{kept} bytes are kept");
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}

pub(crate) fn crashes() -> u32 {
    let told = std::env::var("HANSARD_TEST_CRASHES").ok();
    told.and_then(|crashes| crashes.parse().ok()).unwrap_or(CRASHES)
}

/// How long a call takes.
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
