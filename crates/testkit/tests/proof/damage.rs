//! Changed bytes and cut files: reads are right or name the damage, and no code panics.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use event::{Event, Kind, SessionId, Time};
use journal::{Journal, OpenError, ReadError, Selection, StoreKind};
use testkit::{Dice, numbered};

use crate::in_every_store;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

/// Numbered events in the journal that is damaged.
const EVENTS: u64 = 200;

/// Places per file: one for so many bytes, within bounds.
const BYTES_PER_PLACE: u64 = 4_096;
const PLACES_MIN: u64 = 5;
const PLACES_MAX: u64 = 32;

/// Files of one kind that are damaged: one payload is like the other.
const FILES_PER_FOLDER: usize = 2;

in_every_store![
    changed_byte_is_reported,
    changed_byte_in_a_log_is_reported,
    cut_file_keeps_a_whole_beginning,
    derived_data_is_rebuilt,
];

/// After everything was closed well.
fn changed_byte_is_reported(store: StoreKind) {
    flip_everywhere(&closed_journal(store), "closed well");
}

/// After a crash, with what was not yet carried over.
fn changed_byte_in_a_log_is_reported(store: StoreKind) {
    flip_everywhere(&killed_journal(store), "killed");
}

fn flip_everywhere(sound: &TestJournal, state: &str) {
    let whole = JournalReading::read(&sound.copy()).opened.expect("it is sound before");
    let mut dice = Dice::from_environment();
    println!("{:?}, {state}: HANSARD_TEST_SEED={}", sound.store, dice.seed());
    for name in names(sound) {
        let length = sound.dir().join(&name).metadata().unwrap().len();
        let mut tally = Tally::default();
        for offset in places(length, &mut dice) {
            let place = sound.copy();
            let bits = 1 + dice.below(255) as u8;
            change_byte(&place.dir().join(&name), offset, bits);
            let context = format!("{}, byte {offset} of {length} by {bits:#x}", name.display());
            tally.take(&whole, JournalReading::read(&place), &context);
        }
        tally.require_named(&name);
        tally.require_told(&name);
        println!("{:?}, {state}: {}: {tally}", sound.store, name.display());
    }
}

fn cut_file_keeps_a_whole_beginning(store: StoreKind) {
    let sound = closed_journal(store);
    let whole = JournalReading::read(&sound.copy()).opened.expect("it is sound before");
    let mut dice = Dice::from_environment();
    for name in names(&sound) {
        let length = sound.dir().join(&name).metadata().unwrap().len();
        let mut tally = Tally::default();
        for cut in places(length, &mut dice).chain(length.saturating_sub(3)..length) {
            let place = sound.copy();
            let file = std::fs::OpenOptions::new().write(true).open(place.dir().join(&name));
            file.unwrap().set_len(cut).unwrap();
            let context = format!("{} cut at {cut} of {length}", name.display());
            tally.take(&whole, JournalReading::read(&place), &context);
        }
        tally.require_told(&name);
        println!("{store:?}: {} cut: {tally}", name.display());
    }
}

fn derived_data_is_rebuilt(store: StoreKind) {
    let sound = closed_journal(store);
    let query = journal::Query::new("number 7");
    let hits = sound.open().search(&query).unwrap().hits.len();
    assert!(hits > 0);
    let mut dice = Dice::from_environment();
    let length = sound.dir().join("derived.db").metadata().unwrap().len();
    let mut cases = 0;
    for offset in places(length, &mut dice) {
        let place = sound.copy();
        change_byte(&place.dir().join("derived.db"), offset, 0xFF);
        let journal = place.open();
        journal.doctor(true, Time::from_millis(2_000_000_000_000)).unwrap();
        assert_eq!(journal.search(&query).unwrap().hits.len(), hits, "byte {offset}");
        cases += 1;
    }
    println!("{store:?}: derived.db changed {cases} times, search found all {hits} again");
}

/// What reading a damaged journal gives.
struct JournalReading {
    opened: Result<Vec<SessionReadings>, OpenError>,
    /// Whether the doctor reported damage, also if opening has repaired it.
    is_reported: bool,
}

/// One session, read in both ways.
struct SessionReadings {
    strict: Result<Vec<Event>, ReadError>,
    salvaged: Result<Vec<Event>, ReadError>,
}

impl JournalReading {
    fn read(place: &TestJournal) -> JournalReading {
        let mut is_reported = false;
        let opened = place.try_open().map(|journal| {
            let session = |number| SessionReadings::read(&journal, &numbered::session_of(number));
            let sessions = (0..numbered::SESSIONS).map(session).collect();
            let checks = journal.doctor(false, Time::from_millis(2_000_000_000_000));
            is_reported = match checks {
                Ok(checks) => checks.iter().any(|check| !check.ok || check.fix.is_some()),
                // A doctor that cannot read on says why.
                Err(_) => true,
            };
            sessions
        });
        JournalReading { opened, is_reported }
    }
}

impl SessionReadings {
    fn read(journal: &Journal, id: &SessionId) -> SessionReadings {
        let read = |selection| journal.events(id, selection)?.collect();
        SessionReadings {
            strict: read(Selection::all().strict()),
            salvaged: read(Selection::all()),
        }
    }
}

/// What became of the damage, by how it showed.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u32>,
    /// The most events that one damage cost a salvaging reader.
    lost_max: usize,
    /// How often the doctor reported damage.
    told: u32,
    /// How often events were lost and the doctor reported nothing.
    unreported: u32,
}

impl Tally {
    #[track_caller]
    fn take(&mut self, whole: &[SessionReadings], seen: JournalReading, context: &str) {
        let sessions = match seen.opened {
            Ok(sessions) => sessions,
            Err(OpenError::Corrupt(damage)) => {
                assert!(!damage.why.is_empty(), "{context}");
                return self.count("named on opening");
            }
            Err(OpenError::NewerFormat { .. }) => return self.count("taken for a newer format"),
            Err(error) => return self.count_error(&error, context),
        };
        let mut verdict = "no difference";
        let mut lost = 0;
        for (sound, seen) in whole.iter().zip(sessions) {
            let sound = sound.strict.as_ref().expect("it is sound before");
            match seen.strict {
                Ok(events) if events == *sound => {}
                Ok(events) => {
                    // A whole beginning is all that is left of a cut file.
                    assert!(sound.starts_with(&events), "{context}: something else was read");
                    verdict = "shorter";
                }
                Err(ReadError::Corrupt(damage)) => {
                    assert!(!damage.why.is_empty(), "{context}");
                    verdict = "named on reading";
                }
                Err(ReadError::SessionNotFound(_)) => verdict = "a session is gone",
                Err(ReadError::Storage(_)) => verdict = "the database says so",
                Err(error) => panic!("{context}: {error:?}"),
            }
            let salvaged = seen.salvaged.unwrap_or_default();
            for (event, sound) in salvaged.iter().zip(sound) {
                assert!(event == sound || event.kind == Kind::Unknown, "{context}: {event:?}");
            }
            let kept = salvaged.iter().filter(|event| event.kind != Kind::Unknown).count();
            lost += sound.len() - kept;
        }
        self.lost_max = self.lost_max.max(lost);
        self.told += u32::from(seen.is_reported);
        self.unreported += u32::from(lost > 0 && !seen.is_reported);
        self.count(verdict);
    }

    /// Requires that no loss is silent and that a changed byte costs one event.
    ///
    /// In a database it may cost more: a byte of a page's own order costs what hangs on that page.
    /// SQLite's log may even end early: what was committed behind a page that does not fit its
    /// checksum is gone. Opening keeps a copy and says so.
    #[track_caller]
    fn require_named(&self, name: &Path) {
        let ends_with = |end| name.to_string_lossy().ends_with(end);
        if !ends_with("-wal") {
            let unnamed = ["shorter", "a session is gone"];
            assert!(!unnamed.iter().any(|verdict| self.counts.contains_key(verdict)), "{self}");
        }
        if !ends_with("-wal") && !ends_with(".db") {
            assert!(self.lost_max <= 1, "{}: {self}", name.display());
        }
    }

    /// Requires that the doctor reports every loss.
    #[track_caller]
    fn require_told(&self, name: &Path) {
        assert!(self.unreported == 0, "{}: {self}, {} unreported", name.display(), self.unreported);
    }

    fn count(&mut self, verdict: &'static str) {
        *self.counts.entry(verdict).or_default() += 1;
    }

    #[track_caller]
    fn count_error(&mut self, error: &OpenError, context: &str) {
        match error {
            OpenError::Storage(_) => self.count("an error on opening"),
            other => panic!("{context}: {other:?}"),
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (verdict, count) in &self.counts {
            write!(f, "{count} {verdict}, ")?;
        }
        write!(f, "at most {} events lost; told by the doctor {} times", self.lost_max, self.told)
    }
}

fn closed_journal(store: StoreKind) -> TestJournal {
    let place = TestJournal::new(store);
    Worker::start(&place, "append", &[&EVENTS.to_string()]).finish();
    let journal = place.open();
    while journal.index().unwrap().is_some() {}
    drop(journal);
    place
}

/// As a killed process left it.
fn killed_journal(store: StoreKind) -> TestJournal {
    let place = TestJournal::new(store);
    let mut worker = Worker::start(&place, "append", &[]);
    worker.wait_for(&format!("ack {EVENTS}"));
    worker.kill_after(0, std::time::Duration::ZERO);
    place
}

/// The files of a journal that hold something, by their names in it.
fn names(place: &TestJournal) -> Vec<PathBuf> {
    let name = |path: PathBuf| path.strip_prefix(place.dir()).unwrap().to_owned();
    let mut per_folder: BTreeMap<PathBuf, usize> = BTreeMap::new();
    place
        .files()
        .into_iter()
        .map(name)
        .filter(|name| {
            let folder = name.parent().unwrap().to_owned();
            let is_top = folder.as_os_str().is_empty();
            let count = per_folder.entry(folder).or_default();
            *count += 1;
            // The first process to open the database rebuilds its shared memory.
            let is_memory = name.to_string_lossy().ends_with("-shm");
            !is_memory && (is_top || *count <= FILES_PER_FOLDER)
        })
        .collect()
}

/// Offsets all over a file, one somewhere in each stretch of it.
fn places(length: u64, dice: &mut Dice) -> impl Iterator<Item = u64> + use<> {
    let count = (length / BYTES_PER_PLACE).clamp(PLACES_MIN, PLACES_MAX).min(length);
    let stretch = length.checked_div(count).unwrap_or(0);
    let offsets: Vec<u64> =
        (0..count).map(|number| number * stretch + dice.below(stretch)).collect();
    offsets.into_iter()
}

fn change_byte(path: &Path, offset: u64, bits: u8) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ bits], offset).unwrap();
}
