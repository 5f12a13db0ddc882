//! Damages a real journal in every way, repairs it, and compares every event with what was recorded.
//!
//! The agents' files are gone, so that nothing but the journal's own folder can bring events back. A
//! run tries a few damages of each kind. `HANSARD_TEST_DAMAGES=520` tries that many and prints the
//! table of `docs/internals/damage.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use event::{EventId, Kind};
use journal::{Access, Journal, Options};
use testkit::{Dice, World};

use crate::ingest_crash::{share, timed};
use crate::{empty, json};

/// The bytes of a page of the database.
const PAGE: u64 = 8_192;

/// Damages that every run tries, over all kinds.
const DAMAGES: u64 = 40;

/// The same places in every run, unless a seed is given.
const SEED: u64 = 17;

/// One kind of damage.
struct DamageKind {
    name: &'static str,
    /// Damages a copy of the journal; `dice` choose the place.
    damage: fn(&RecordedJournal, &Path, &mut Dice),
    /// There is only one way to do it.
    is_single: bool,
}

const KINDS: &[DamageKind] = &[
    many("`journal.db` cut to some of its length", cut_database),
    many("a byte of its header flipped", flip_header),
    many("a byte of `journal.db` flipped", flip_database),
    many("a page of zeros in `journal.db`", zero_page),
    many("eight pages of zeros in a row", zero_pages),
    many("two pages of `journal.db` swapped", swap_pages),
    one("its first page is zeros", zero_first_page),
    one("`journal.db` missing", |_, dir, _| remove(dir, "journal.db")),
    one("`journal.db` without a byte", |_, dir, _| cut(&dir.join("journal.db"), 0)),
    one("`journal.db` is another file", |_, dir, _| write(dir, "journal.db", b"no database")),
    one("an older `journal.db`", older_database),
    many("`journal.db` missing, a byte of an original flipped", lose_and_flip),
    many("a byte of an original flipped", |recorded, dir, dice| {
        flip_original(recorded, dir, dice);
    }),
    many("an original cut", cut_original),
    many("an original missing", |recorded, dir, dice| {
        fs::remove_file(any_original(recorded, dir, dice)).unwrap();
    }),
    one("`originals` missing", |_, dir, _| remove_all(dir, "originals")),
    many("two originals swapped", swap_originals),
    many("`originals` missing, a byte of `journal.db` flipped", |recorded, dir, dice| {
        remove_all(dir, "originals");
        flip_database(recorded, dir, dice);
    }),
    many("`originals` missing, a page of zeros in `journal.db`", |recorded, dir, dice| {
        remove_all(dir, "originals");
        zero_page(recorded, dir, dice);
    }),
    many("`originals` missing, two pages of `journal.db` swapped", |recorded, dir, dice| {
        remove_all(dir, "originals");
        swap_pages(recorded, dir, dice);
    }),
    many("a byte of `journal.db-wal` flipped", |recorded, dir, dice| {
        flip(&make_live(recorded, dir), 0, dice);
    }),
    many("`journal.db-wal` cut", |recorded, dir, dice| {
        let path = make_live(recorded, dir);
        let length = path.metadata().unwrap().len();
        cut(&path, dice.below(length));
    }),
    many("a page of zeros in `journal.db-wal`", |recorded, dir, dice| {
        let path = make_live(recorded, dir);
        overwrite(&path, any_page(&path, 1, dice) * PAGE, &vec![0; PAGE as usize]);
    }),
    many("a byte of `journal.db` under its log flipped", |recorded, dir, dice| {
        make_live(recorded, dir);
        flip_database(recorded, dir, dice);
    }),
    one("`journal.db-wal` missing", |recorded, dir, _| {
        fs::remove_file(make_live(recorded, dir)).unwrap();
    }),
    one("`originals` missing, `journal.db` cut to half", |_, dir, _| {
        remove_all(dir, "originals");
        let path = dir.join("journal.db");
        let length = path.metadata().unwrap().len();
        cut(&path, length / 2);
    }),
    one("`derived.db` missing", |_, dir, _| remove(dir, "derived.db")),
    many("`derived.db` cut to some of its length", |_, dir, dice| {
        let path = dir.join("derived.db");
        let length = path.metadata().unwrap().len();
        cut(&path, length * (1 + dice.below(99)) / 100);
    }),
    many("a page of zeros in `derived.db`", |_, dir, dice| {
        let path = dir.join("derived.db");
        overwrite(&path, any_page(&path, 1, dice) * PAGE, &vec![0; PAGE as usize]);
    }),
    many("a byte of `derived.db` flipped", |_, dir, dice| {
        flip(&dir.join("derived.db"), 0, dice);
    }),
    one("an older `derived.db`", |recorded, dir, _| {
        fs::copy(recorded.older.join("derived.db"), dir.join("derived.db")).unwrap();
    }),
    one("`lock` missing", |_, dir, _| remove_all(dir, "lock")),
];

const fn many(name: &'static str, damage: fn(&RecordedJournal, &Path, &mut Dice)) -> DamageKind {
    DamageKind { name, damage, is_single: false }
}

const fn one(name: &'static str, damage: fn(&RecordedJournal, &Path, &mut Dice)) -> DamageKind {
    DamageKind { name, damage, is_single: true }
}

/// A journal made from recordings, and every event in it.
struct RecordedJournal {
    world: World,
    dir: PathBuf,
    /// The same folder before the last recordings were read.
    older: PathBuf,
    /// The same folder while it was being written: the last events are in the write-ahead log.
    live: PathBuf,
    events: BTreeMap<EventId, String>,
    /// The events that were imported, of which there are no originals.
    imported: BTreeSet<EventId>,
}

/// What became of one damaged journal.
#[derive(Debug)]
struct DamageOutcome {
    lost: usize,
    /// What the doctor said before the repair.
    said: BTreeSet<String>,
}

#[test]
fn repair_gives_back_what_is_left() {
    let wanted = std::env::var("HANSARD_TEST_DAMAGES").ok().and_then(|count| count.parse().ok());
    let wanted: u64 = wanted.unwrap_or(DAMAGES);
    let seed = std::env::var("HANSARD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut dice = Dice::new(seed.unwrap_or(SEED));
    let recorded = RecordedJournal::new();
    let singles = KINDS.iter().filter(|kind| kind.is_single).count() as u64;
    let each = wanted.saturating_sub(singles).div_ceil(KINDS.len() as u64 - singles).max(1);
    println!("{} events, seed {}", recorded.events.len(), dice.seed());
    println!("| damaged | tried | nothing lost | events lost at most | `doctor` says |");
    println!("|---|---|---|---|---|");
    let mut tried = 0;
    for kind in KINDS {
        let count = if kind.is_single { 1 } else { each };
        let outcomes: Vec<DamageOutcome> =
            (0..count).map(|number| recorded.try_damage(kind, number, &mut dice)).collect();
        tried += count;
        let whole = outcomes.iter().filter(|outcome| outcome.lost == 0).count();
        let most = outcomes.iter().map(|outcome| outcome.lost).max().unwrap_or(0);
        let said: BTreeSet<String> =
            outcomes.into_iter().flat_map(|outcome| outcome.said).collect();
        let said = said.into_iter().collect::<Vec<_>>().join("; ");
        println!("| {} | {count} | {whole} | {most} | {said} |", kind.name);
    }
    println!("{tried} damages");
}

impl RecordedJournal {
    fn new() -> RecordedJournal {
        let world = empty();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/fixtures");
        let mut homes: Vec<PathBuf> = Vec::new();
        for agent in entries(&fixtures).into_iter().filter(|agent| agent.is_dir()) {
            // Two recordings of each agent are enough for every form of source.
            let recordings = entries(&agent).into_iter().map(|recording| recording.join("home"));
            homes.extend(recordings.filter(|home| home.is_dir()).take(2));
        }
        let (first, rest) = homes.split_at(homes.len() / 2);
        let sample = include_str!("../../../../docs/sample.ndjson");
        json(&world.run_with_input(&["--json", "import"], sample.as_bytes()));
        let dir = world.home().join(".local/share/hansard");
        let imported = events(&dir).into_keys().collect();
        let read = || json(&world.run(&["--json", "ingest", "--once"]));
        first.iter().for_each(|home| copy(home, world.home()));
        read();
        let older = world.home().join("older");
        copy(&dir, &older);
        rest.iter().for_each(|home| copy(home, world.home()));
        // A process that is killed leaves its log. It says so much when the first pass is recorded.
        let mut reader = world.start(&["--json", "ingest"]);
        reader.wait_first_line();
        reader.kill();
        let live = world.home().join("live");
        copy(&dir, &live);
        assert!(live.join("journal.db-wal").metadata().unwrap().len() > 2 * PAGE);
        read();
        // Nothing but the journal is left.
        for entry in entries(world.home()) {
            let name = entry.file_name().unwrap().to_owned();
            if name != ".local" && name != "older" && name != "live" {
                fs::remove_dir_all(&entry).or_else(|_| fs::remove_file(&entry)).unwrap();
            }
        }
        let events = events(&dir);
        RecordedJournal { world, dir, older, live, events, imported }
    }

    fn try_damage(&self, kind: &DamageKind, number: u64, dice: &mut Dice) -> DamageOutcome {
        let damaged = tempfile::tempdir().unwrap();
        let dir = damaged.path().join("hansard");
        copy(&self.dir, &dir);
        (kind.damage)(self, &dir, dice);
        let has_originals =
            contents(&dir.join("originals")) == contents(&self.dir.join("originals"));
        let told = format!("{} ({number}, seed {})", kind.name, dice.seed());
        let journal = dir.to_str().unwrap();
        let before = self.world.run(&["--journal", journal, "--json", "doctor"]);
        let repaired = self.world.run(&["--journal", journal, "--json", "doctor", "--repair"]);
        assert!(repaired.stdout.contains("checks"), "{told}: {repaired}");
        let after = self.world.run(&["--journal", journal, "--json", "doctor"]);
        let left = events(&dir);
        for (id, event) in &left {
            match self.events.get(id) {
                Some(recorded) => require_same(event, recorded, &told),
                None => assert!(is_stand_in(event), "{told}: {event}"),
            }
        }
        let lost: Vec<&EventId> = self.events.keys().filter(|id| !left.contains_key(id)).collect();
        // Whole originals bring back everything that was read from a source.
        if has_originals {
            let mut read = lost.iter().filter(|id| !self.imported.contains(id));
            let first = read.next().map(|id| &self.events[id]);
            assert_eq!(first, None, "{told}: and {} more", read.count());
        }
        let lost = lost.len();
        // An event that is lost is never lost in silence.
        if lost > 0 {
            assert!(
                before.code != Some(0) || repaired.stderr.contains("warning"),
                "{told}: {before}"
            );
        }
        assert!(after.code == Some(0) || lost > 0, "{told}: {after}");
        DamageOutcome { lost, said: findings(&before.stdout) }
    }
}

/// Without originals only the file itself is left. In one as small as this the tables' first pages,
/// which hold no event, are half of it; what stands between them and the cut has to survive.
#[test]
fn repair_tells_what_it_did_and_what_is_lost() {
    let recorded = RecordedJournal::new();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("hansard");
    copy(&recorded.dir, &dir);
    remove_all(&dir, "originals");
    let file = dir.join("journal.db");
    cut(&file, file.metadata().unwrap().len() * 3 / 4);
    let doctor = |options: &[&str]| {
        recorded.world.run(&[&["--journal", dir.to_str().unwrap(), "doctor"], options].concat())
    };
    let before = doctor(&[]);
    assert_eq!(before.code, Some(1), "{before}");
    assert!(before.stdout.contains("`hansard doctor --repair` repairs it"), "{before}");
    let said = doctor(&["--repair"]);
    let left = known_events(&recorded, &dir).len();
    let (all, lost) = (recorded.events.len(), recorded.events.len() - left);
    assert!(left * 2 > all, "only {left} of {all} events are left: {said}");
    for line in [
        "\n    the database is rebuilt from what can be read\n".to_owned(),
        "\n    its place is kept, and shown as unknown; what is left of it is set aside\n"
            .to_owned(),
        format!("\nsee lost         {lost} events are lost and shown as unknown, in "),
        "\n    neither the file nor the originals have them; a backup of the journal may\n"
            .to_owned(),
        "\nthe journal is sound\n".to_owned(),
    ] {
        assert!(said.stdout.contains(&line), "{line:?}: {said}");
    }
    let aside = "quarantine/journal.db.1`: ";
    let warning = said.stderr.lines().find(|line| line.contains(aside));
    assert!(warning.is_some_and(|line| line.contains("is lost in it")), "{said}");
    assert_eq!(doctor(&[]).code, Some(0));
}

/// How often a repair is killed.
const KILLS: u32 = 10;

#[test]
fn killed_repair_is_finished_by_the_next() {
    let recorded = RecordedJournal::new();
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged");
    copy(&recorded.dir, &damaged);
    zero_pages(&recorded, &damaged, &mut dice);
    let repair = |dir: &Path| {
        ["--journal", dir.to_str().unwrap(), "--json", "doctor", "--repair"].map(str::to_owned)
    };
    let undisturbed = folder.path().join("undisturbed");
    copy(&damaged, &undisturbed);
    let arguments = repair(&undisturbed);
    let time = timed(|| drop(recorded.world.run(&arguments.each_ref().map(String::as_str))));
    let left = known_events(&recorded, &undisturbed);
    let mut killed = 0;
    for number in 0..KILLS {
        let dir = folder.path().join(number.to_string());
        copy(&damaged, &dir);
        let arguments = repair(&dir);
        let arguments = arguments.each_ref().map(String::as_str);
        let mut running = recorded.world.start(&arguments);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
            killed += 1;
        }
        recorded.world.run(&arguments);
        assert_eq!(known_events(&recorded, &dir), left, "kill {number}");
        let after = recorded.world.run(&["--journal", dir.to_str().unwrap(), "doctor"]);
        assert!(after.code == Some(0) || left.len() < recorded.events.len(), "{number}: {after}");
    }
    println!("{killed} of {KILLS} repairs were killed within {time:?}");
}

/// The events of a journal that were recorded, without stand-ins.
fn known_events(recorded: &RecordedJournal, dir: &Path) -> BTreeMap<EventId, String> {
    let mut events = events(dir);
    events.retain(|id, _| recorded.events.contains_key(id));
    events
}

/// The names and the first words of what a doctor found.
fn findings(report: &str) -> BTreeSet<String> {
    let Ok(report) = serde_json::from_str::<serde_json::Value>(report) else {
        return BTreeSet::from(["nothing".to_owned()]);
    };
    let bad = report["checks"].as_array().into_iter().flatten();
    let bad = bad.filter(|check| check["ok"] == false);
    let named: BTreeSet<String> =
        bad.map(|check| format!("BAD {}", check["name"].as_str().unwrap_or_default())).collect();
    if named.is_empty() { BTreeSet::from(["sound".to_owned()]) } else { named }
}

/// Everything that a journal shows, by id: without the number, which a repair may change.
fn events(dir: &Path) -> BTreeMap<EventId, String> {
    let options = Options { access: Access::ReadOnly, ..Options::default() };
    let journal = Journal::open(dir, &options).unwrap();
    let mut events = BTreeMap::new();
    let mut position = 1;
    loop {
        let page = journal.recorded_from(position).unwrap();
        let Some(last) = page.last() else { break };
        position = last.position + 1;
        events.extend(page.iter().map(|one| (one.event.id, one.event.draft.encode())));
    }
    events
}

/// The event is as it was recorded. An imported session may lose its name, and nothing else.
#[track_caller]
fn require_same(event: &str, recorded: &str, told: &str) {
    let mut event: serde_json::Value = serde_json::from_str(event).unwrap();
    let recorded: serde_json::Value = serde_json::from_str(recorded).unwrap();
    if event["session_id"].as_str().unwrap().starts_with("salvaged-") {
        event["session_id"] = recorded["session_id"].clone();
    }
    assert_eq!(event, recorded, "{told}");
}

fn is_stand_in(event: &str) -> bool {
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    event["kind"] == Kind::Unknown.as_str() && event["source"] == "salvage"
}

/// The bytes of all files in a folder, by name.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = if dir.is_dir() { entries(dir) } else { Vec::new() };
    let named = |path: PathBuf| (path.file_name().unwrap().into(), fs::read(&path).unwrap());
    files.into_iter().map(named).collect()
}

fn cut_database(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let path = dir.join("journal.db");
    let length = path.metadata().unwrap().len();
    cut(&path, length * (1 + dice.below(99)) / 100);
}

fn flip_header(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    flip_at(&dir.join("journal.db"), dice.below(100), dice);
}

fn flip_database(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    flip(&dir.join("journal.db"), 100, dice);
}

fn zero_first_page(_: &RecordedJournal, dir: &Path, _: &mut Dice) {
    overwrite(&dir.join("journal.db"), 0, &vec![0; PAGE as usize]);
}

fn zero_page(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let path = dir.join("journal.db");
    overwrite(&path, any_page(&path, 1, dice) * PAGE, &vec![0; PAGE as usize]);
}

fn zero_pages(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let path = dir.join("journal.db");
    overwrite(&path, any_page(&path, 8, dice) * PAGE, &vec![0; 8 * PAGE as usize]);
}

fn swap_pages(_: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let path = dir.join("journal.db");
    let (one, other) = (any_page(&path, 1, dice) * PAGE, any_page(&path, 1, dice) * PAGE);
    let bytes = fs::read(&path).unwrap();
    let page = |at: u64| &bytes[at as usize..][..PAGE as usize];
    overwrite(&path, one, page(other));
    overwrite(&path, other, page(one));
}

fn older_database(recorded: &RecordedJournal, dir: &Path, _: &mut Dice) {
    for name in ["journal.db-wal", "journal.db-shm", "derived.db"] {
        let _ = fs::remove_file(dir.join(name));
    }
    fs::copy(recorded.older.join("journal.db"), dir.join("journal.db")).unwrap();
}

/// Makes it a copy that was taken while the journal was written, and returns the path of its log.
fn make_live(recorded: &RecordedJournal, dir: &Path) -> PathBuf {
    fs::remove_dir_all(dir).unwrap();
    copy(&recorded.live, dir);
    dir.join("journal.db-wal")
}

fn swap_originals(recorded: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let one = any_original(recorded, dir, dice);
    let other = any_original(recorded, dir, dice);
    let (bytes, others) = (fs::read(&one).unwrap(), fs::read(&other).unwrap());
    fs::write(one, others).unwrap();
    fs::write(other, bytes).unwrap();
}

fn lose_and_flip(recorded: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    remove(dir, "journal.db");
    flip_original(recorded, dir, dice);
}

fn flip_original(recorded: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    flip(&any_original(recorded, dir, dice), 0, dice);
}

fn cut_original(recorded: &RecordedJournal, dir: &Path, dice: &mut Dice) {
    let path = any_original(recorded, dir, dice);
    let length = path.metadata().unwrap().len();
    cut(&path, dice.below(length));
}

fn any_original(_: &RecordedJournal, dir: &Path, dice: &mut Dice) -> PathBuf {
    let mut files = entries(&dir.join("originals"));
    let place = dice.below(files.len() as u64) as usize;
    files.swap_remove(place)
}

/// A page behind the first, with some behind it.
fn any_page(path: &Path, pages: u64, dice: &mut Dice) -> u64 {
    let there = path.metadata().unwrap().len() / PAGE;
    1 + dice.below(there - pages)
}

fn flip(path: &Path, from: u64, dice: &mut Dice) {
    let length = path.metadata().unwrap().len();
    flip_at(path, from + dice.below(length - from), dice);
}

fn flip_at(path: &Path, at: u64, dice: &mut Dice) {
    let byte = fs::read(path).unwrap()[at as usize];
    overwrite(path, at, &[byte ^ (1 + dice.below(255) as u8)]);
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    fs::write(dir.join(name), bytes).unwrap();
}

fn remove(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).unwrap();
}

fn remove_all(dir: &Path, name: &str) {
    fs::remove_dir_all(dir.join(name)).unwrap();
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in entries(from) {
        let target = to.join(entry.file_name().unwrap());
        match entry.is_dir() {
            true => copy(&entry, &target),
            false => drop(fs::copy(&entry, target).unwrap()),
        }
    }
}

/// A mount that cannot be written to binds root as well, which permission bits do not.
#[cfg(target_os = "linux")]
#[test]
fn journal_on_a_read_only_mount_is_read() {
    let world = crate::sample();
    let dir = world.home().join(".local/share/hansard");
    let program = env!("CARGO_BIN_EXE_hansard");
    let script = r#"
        mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
        session=$("$2" --json sessions | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | head -n 1)
        set -e
        "$2" sessions; "$2" show "$session"; "$2" search cent; "$2" usage; "$2" status
        "$2" export "$session"
    "#;
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", dir.to_str().unwrap(), program]);
    let said = command.env("HOME", world.home()).env_remove("XDG_DATA_HOME").output();
    match said {
        Ok(said) if said.status.code() == Some(0) => {}
        Ok(said) if [Some(1), Some(77)].contains(&said.status.code()) && is_forbidden(&said) => {
            eprintln!("left out: this user may not mount");
        }
        Err(error) => eprintln!("left out: `unshare` is missing: {error}"),
        Ok(said) => panic!("{}", String::from_utf8_lossy(&said.stderr)),
    }
}

/// Whether the system refused the mount, and not the program the journal.
#[cfg(target_os = "linux")]
fn is_forbidden(said: &std::process::Output) -> bool {
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    ["unshare", "mount:", "permitted", "permission denied"].iter().any(|word| words.contains(word))
}
