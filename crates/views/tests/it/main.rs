//! Views at the border of the crate: whatever was saved, held or folded before, the state is the
//! one that the whole log gives.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use event::{Draft, Event, EventId, Kind, Raw, SessionId, Time};
use journal::{Batch, Journal, Options, Selection, SessionInfo};
use projection::status::StatusState;
use projection::{Chronicle, Facts, Hot, Projection, Turns};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, proptest};
use serde_json::json;
use tempfile::TempDir;
use views::{
    FreshViews, SavedViews, ViewCache, catch_up, current_if_exists, load_current, load_saved,
    prepare_state, save_all, save_current,
};

fn journal_in(folder: &TempDir) -> Journal {
    Journal::open_or_create(&folder.path().join("journal"), &Options::default()).unwrap()
}

fn session_id(name: &str) -> SessionId {
    SessionId::new(format!("made-up:{name}")).unwrap()
}

/// Prompts and answers by turns.
fn draft(name: &str, number: u64) -> Draft {
    let at = Time::from_millis(1_800_000_000_000 + i64::try_from(number).unwrap());
    let id = EventId::derived(at, "made up", name, &number.to_be_bytes());
    let kind = if number.is_multiple_of(2) { Kind::UserPrompt } else { Kind::AssistantMessage };
    let data = Raw::from_value(&json!({"content": format!("said {number}")})).unwrap();
    Draft::with_data(id, session_id(name), at, kind, data)
}

fn record(journal: &Journal, name: &str, numbers: Range<u64>) -> SessionInfo {
    let drafts = numbers.map(|number| draft(name, number));
    journal.append(drafts.fold(Batch::observed(), Batch::with)).unwrap();
    journal.stat(&session_id(name)).unwrap()
}

/// The state folded from the first event, without any cache.
fn from_log<P: Projection>(journal: &Journal, session: &SessionInfo) -> P {
    let mut state = P::default();
    for event in journal.events(&session.id, Selection::all()).unwrap() {
        state.apply(&event.unwrap());
    }
    state
}

#[track_caller]
fn check<P: Projection + Clone + PartialEq + std::fmt::Debug>(lengths: &[u64]) {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let cache: ViewCache<P> = ViewCache::with_capacity(4);
    let mut fresh: FreshViews<P> = FreshViews::default();
    let mut from = 0;
    for length in lengths {
        let to = from + length;
        let session = record(&journal, "s", from..to);
        (from..to).for_each(|number| fresh.apply(&journal, number + 1, &draft("s", number)));
        let expected: P = from_log(&journal, &session);
        assert_eq!(*cache.get(&journal, &session).unwrap(), expected, "held");
        assert_eq!(load_current::<P>(&journal, &session).unwrap(), expected, "from what is saved");
        fresh.save(&journal, [&session.id]).unwrap();
        let saved = load_saved::<P>(&journal, &session.id).unwrap();
        assert_eq!(catch_up(&journal, &session, saved).unwrap(), expected, "saved by the recorder");
        from = to;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_view_is_what_its_log_says(lengths in vec(1_u64..40, 1..6)) {
        check::<Facts>(&lengths);
        check::<StatusState>(&lengths);
        check::<Turns>(&lengths);
        check::<Hot>(&lengths);
    }
}

#[test]
fn long_logs_are_folded_once() {
    // The window of the newest events is passed, and so is the number after which readers save.
    check::<Hot>(&[3, 7, 1_490, 2_400]);
    check::<Turns>(&[3, 2_500, 1]);
    check::<StatusState>(&[2_100, 2]);
}

#[test]
fn a_current_state_is_not_folded_again() {
    let journal = Journal::in_memory();
    let cache: ViewCache<Facts> = ViewCache::with_capacity(4);
    let session = record(&journal, "s", 0..3);
    let first = cache.get(&journal, &session).unwrap();
    assert!(Arc::ptr_eq(&first, &cache.get(&journal, &session).unwrap()));
}

#[test]
fn a_cache_holds_no_more_than_its_capacity() {
    let journal = Journal::in_memory();
    let cache: ViewCache<Facts> = ViewCache::with_capacity(4);
    let sessions: Vec<SessionInfo> =
        (0..9).map(|number| record(&journal, &number.to_string(), 0..1)).collect();
    let states: Vec<Arc<Facts>> =
        sessions.iter().map(|session| cache.get(&journal, session).unwrap()).collect();
    // The cache holds the second reference to a state.
    let held = states.iter().filter(|state| Arc::strong_count(state) == 2).count();
    assert_eq!(held, 4);
    assert_eq!(Arc::strong_count(states.last().unwrap()), 2, "the newest is among them");
}

#[test]
fn saves_of_a_growing_state_become_rare() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let mut saved_at: Vec<u64> = Vec::new();
    for number in 0..10 {
        let session = record(&journal, "s", number * 2_000..(number + 1) * 2_000);
        load_current::<Turns>(&journal, &session).unwrap();
        let saved: Turns = load_saved(&journal, &session.id).unwrap().unwrap();
        saved_at.push(saved.seq());
        let whole: Turns = from_log(&journal, &session);
        assert_eq!(catch_up(&journal, &session, Some(saved)).unwrap(), whole);
    }
    saved_at.dedup();
    // Every second event begins a turn here, so the state grows as fast as it can.
    assert_eq!(saved_at, [2_000, 6_000, 18_000]);
}

#[test]
fn readers_save_only_what_took_long() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let saved_seq = |session: &SessionInfo| {
        load_saved::<Turns>(&journal, &session.id).unwrap().map(|turns| turns.seq())
    };
    let session = record(&journal, "s", 0..6);
    load_current::<Turns>(&journal, &session).unwrap();
    assert_eq!(saved_seq(&session), None);
    let session = record(&journal, "s", 6..3_000);
    prepare_state::<Turns>(&journal, &session).unwrap();
    assert_eq!(saved_seq(&session), Some(3_000));
    let session = record(&journal, "s", 3_000..3_002);
    prepare_state::<Turns>(&journal, &session).unwrap();
    assert_eq!(saved_seq(&session), Some(3_000), "it is near enough");
}

#[test]
fn facts_of_a_long_log_are_saved_by_readers() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let saved_seq = |session: &SessionInfo| {
        load_saved::<Facts>(&journal, &session.id).unwrap().map(|facts| facts.seq())
    };
    // Nothing but the log: as after an import, or with a `derived.db` that was deleted.
    let status = record(&journal, "status", 0..2_001);
    load_current::<Facts>(&journal, &status).unwrap();
    assert_eq!(saved_seq(&status), Some(2_001), "a command that looks at one session");
    let listed = record(&journal, "list", 0..2_001);
    SavedViews::<Facts>::load(&journal).unwrap().take(&journal, &listed).unwrap();
    assert_eq!(saved_seq(&listed), Some(2_001), "a list of sessions");
}

#[test]
fn a_state_ahead_of_its_log_is_folded_anew() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let longer = record(&Journal::in_memory(), "s", 0..9);
    let other = Journal::in_memory();
    record(&other, "s", 0..9);
    let ahead: Facts = from_log(&other, &longer);
    let session = record(&journal, "s", 0..2);
    let state = catch_up(&journal, &session, Some(ahead)).unwrap();
    assert_eq!(state, from_log(&journal, &session));
}

#[test]
fn an_older_log_gets_its_own_saved_state() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let other = Journal::in_memory();
    let longer = record(&other, "s", 0..3_000);
    let session = record(&journal, "s", 0..2_100);
    save_all(&journal, [(session.id.clone(), from_log::<Turns>(&other, &longer))]).unwrap();
    load_current::<Turns>(&journal, &session).unwrap();
    let saved = load_saved::<Turns>(&journal, &session.id).unwrap().unwrap();
    assert_eq!(saved, from_log(&journal, &session), "else it would be continued beyond 3,000");
}

#[test]
fn a_caller_that_knows_less_keeps_the_newer_state() {
    let journal = Journal::in_memory();
    let cache: ViewCache<Facts> = ViewCache::with_capacity(4);
    let earlier = record(&journal, "s", 0..3);
    let later = record(&journal, "s", 3..5);
    cache.get(&journal, &later).unwrap();
    assert_eq!(cache.get(&journal, &earlier).unwrap().seq(), 5);
}

#[test]
fn a_gap_is_filled_when_views_are_saved() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let session = record(&journal, "s", 0..4);
    let sessions = BTreeSet::from([session.id.clone()]);
    let mut fresh: FreshViews<StatusState> = FreshViews::default();
    // Nothing is saved of the first three events.
    fresh.apply(&journal, 4, &draft("s", 3));
    let copies = fresh.snapshot(&sessions);
    assert_eq!(copies, [(session.id.clone(), None)]);
    save_current(&journal, copies, |_| true).unwrap();
    record(&journal, "s", 4..5);
    fresh.apply(&journal, 5, &draft("s", 4));
    let seqs: Vec<u64> =
        fresh.snapshot(&sessions).into_iter().map(|it| it.1.unwrap().seq()).collect();
    assert_eq!(seqs, [5], "it goes on from what was saved");
}

#[test]
fn sessions_that_are_gone_are_left_out() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let session = record(&journal, "s", 0..2);
    journal.delete(&session.id, Time::from_millis(0), journal::ForkPolicy::Refuse).unwrap();
    assert!(current_if_exists::<Chronicle>(&journal, &session.id).unwrap().is_none());
    save_current::<Facts>(&journal, [(session.id.clone(), None)], |_| true).unwrap();
    assert!(load_saved::<Facts>(&journal, &session.id).unwrap().is_none());
}

#[test]
fn sessions_that_are_not_wanted_are_not_saved() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let session = record(&journal, "s", 0..2);
    save_current::<StatusState>(&journal, [(session.id.clone(), None)], |_| false).unwrap();
    assert!(load_saved::<StatusState>(&journal, &session.id).unwrap().is_none());
    save_current::<StatusState>(&journal, [(session.id.clone(), None)], |_| true).unwrap();
    assert_eq!(load_saved::<StatusState>(&journal, &session.id).unwrap().unwrap().seq(), 2);
}

/// Counts its events, and how often it was saved.
#[derive(Default)]
struct SaveCounter(u64);

thread_local! {
    static SAVES: Cell<u32> = const { Cell::new(0) };
}

impl Projection for SaveCounter {
    const NAME: &'static str = "save counter";

    fn seq(&self) -> u64 {
        self.0
    }

    fn apply(&mut self, event: &Event) {
        self.0 = event.seq;
    }

    fn save(&self) -> Option<Vec<u8>> {
        SAVES.set(SAVES.get() + 1);
        Some(self.0.to_string().into_bytes())
    }

    fn load(saved: &[u8]) -> Option<SaveCounter> {
        Some(SaveCounter(std::str::from_utf8(saved).ok()?.parse().ok()?))
    }
}

#[test]
fn current_state_is_not_saved_again() {
    let folder = TempDir::new().unwrap();
    let journal = journal_in(&folder);
    let id = record(&journal, "s", 0..2).id;
    let save = || save_current::<SaveCounter>(&journal, [(id.clone(), None)], |_| true).unwrap();
    save();
    save();
    assert_eq!(SAVES.get(), 1);
    record(&journal, "s", 2..3);
    save();
    assert_eq!(SAVES.get(), 2);
}
