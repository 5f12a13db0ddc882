//! What cases are made of: sessions, drafts that differ only by a number, and whole readings.

use std::ops::RangeInclusive;
use std::time::Duration;

use event::payload::{SessionMode, SessionParent, SessionStarted, UserPrompt};
use event::{Draft, Event, EventId, Kind, Raw, SessionId, Time};
use journal::{
    Batch, Delivery, EventReceipt, Journal, Recorded, Selection, SourceMove, Subscription,
};

/// How long an event that must come may take. It comes at once; the rest is for slow machines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

/// The id of the event `n` of a session.
pub(crate) fn id(name: &str, n: u64) -> EventId {
    EventId::derived(at(n as i64), "suite", name, &n.to_be_bytes())
}

/// The prompt `n` of a session, said `n` milliseconds after 1970.
pub(crate) fn prompt(name: &str, n: u64) -> Draft {
    let payload = UserPrompt::text(format!("prompt {n}"));
    Draft::new(id(name, n), session(name), at(n as i64), &payload).unwrap()
}

pub(crate) fn prompts(name: &str, numbers: RangeInclusive<u64>) -> impl Iterator<Item = Draft> {
    numbers.map(move |n| prompt(name, n))
}

/// An event of any kind with any payload.
pub(crate) fn fact(name: &str, n: u64, kind: &str, data: &str) -> Draft {
    let data = Raw::parse(data).unwrap();
    Draft::with_data(id(name, n), session(name), at(n as i64), Kind::from(kind), data)
}

/// The first event of a session that comes from another.
pub(crate) fn started(name: &str, n: u64, parent: &str, seq: u64, mode: SessionMode) -> Draft {
    let parent = SessionParent { session_id: session(parent), seq, event_id: None };
    let payload = SessionStarted {
        parent: Some(parent),
        mode: Some(mode),
        label: Some(format!("label of {name}")),
        reason: Some(format!("reason of {name}")),
        ..SessionStarted::default()
    };
    Draft::new(id(name, n), session(name), at(n as i64), &payload).unwrap()
}

pub(crate) fn fork(name: &str, n: u64, parent: &str, seq: u64) -> Draft {
    started(name, n, parent, seq, SessionMode::Fork)
}

/// A session with the prompts 1 to `count`.
pub(crate) fn talk(journal: &Journal, name: &str, count: u64) {
    let mut drafts = prompts(name, 1..=count);
    loop {
        let batch = Batch::hosted().with_all(drafts.by_ref().take(1_000));
        if journal.append(batch).unwrap().events.is_empty() {
            return;
        }
    }
}

/// Appends one draft at the hosted door.
#[track_caller]
pub(crate) fn host(journal: &Journal, draft: Draft) -> EventReceipt {
    journal.append(Batch::hosted().with(draft)).unwrap().events.remove(0)
}

/// Appends one draft at the observed door.
#[track_caller]
pub(crate) fn observe(journal: &Journal, draft: Draft) -> EventReceipt {
    journal.append(Batch::observed().with(draft)).unwrap().events.remove(0)
}

pub(crate) fn moved(source: &str, from: Option<&str>, to: &str) -> SourceMove {
    SourceMove { source_id: source.to_owned(), from: from.map(str::to_owned), to: to.to_owned() }
}

/// What a selection shows, read strictly.
#[track_caller]
pub(crate) fn read(journal: &Journal, name: &str, selection: Selection) -> Vec<Event> {
    journal.events(&session(name), selection.strict()).unwrap().map(Result::unwrap).collect()
}

#[track_caller]
pub(crate) fn read_all(journal: &Journal, name: &str) -> Vec<Event> {
    read(journal, name, Selection::all())
}

/// Everything from a position on, page by page.
#[track_caller]
pub(crate) fn recorded_from(journal: &Journal, position: u64) -> Vec<Recorded> {
    let mut all = Vec::new();
    let mut next = position;
    loop {
        let page = journal.recorded_from(next).unwrap();
        let Some(last) = page.last() else { return all };
        next = last.position + 1;
        all.extend(page);
    }
}

pub(crate) fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

pub(crate) fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

/// The next thing a subscriber gets; it must come.
#[track_caller]
pub(crate) fn next(subscription: &mut Subscription) -> Delivery {
    subscription.next_within(PATIENCE).unwrap().expect("something comes")
}

/// The next thing a subscriber gets, which must be a recorded event.
#[track_caller]
pub(crate) fn next_event(subscription: &mut Subscription) -> Recorded {
    match next(subscription) {
        Delivery::Event(recorded) => Recorded::clone(&recorded),
        other => panic!("an event was expected, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn next_events(subscription: &mut Subscription, count: usize) -> Vec<Recorded> {
    (0..count).map(|_| next_event(subscription)).collect()
}

/// Nothing has come beyond what was taken.
#[track_caller]
pub(crate) fn nothing_more(subscription: &mut Subscription) {
    assert_eq!(subscription.next_within(Duration::ZERO).unwrap(), None);
}
