//! What can be done to a journal, and the drafts it is done with.

use event::payload::{SessionMode, SessionParent, SessionStarted};
use event::{Cost, Draft, EventId, Kind, Raw, SessionId, Source, Time};
use journal::{Ancestry, AppendMode, Batch, ForkPolicy};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

use super::expected::{Model, Reading};

/// Few sessions and sources, so that actions meet.
const SESSIONS: u8 = 6;
const SOURCES: u8 = 2;

#[derive(Debug, Clone)]
pub(super) enum Action {
    Append(Told),
    /// Several batches, submitted without waiting in between.
    Burst(Vec<Told>),
    /// An event that a session shows already is appended again.
    Again(Index, Again),
    Fork {
        door: AppendMode,
        parent: u8,
        child: u8,
        at: Point,
        mode: Mode,
    },
    Import {
        parent: u8,
        child: u8,
        at: Point,
    },
    Delete {
        session: u8,
        forks: ForkPolicy,
    },
    Advance {
        consumer: u8,
        position: u64,
    },
    Reopen,
}

/// One batch.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) door: AppendMode,
    said: Vec<Said>,
    /// A session and how far off its tail is expected to be.
    expected: Option<(u8, i8)>,
    /// A source, and whether its reader is up to date.
    source: Option<(u8, bool)>,
}

/// One event of a batch.
#[derive(Debug, Clone)]
struct Said {
    session: u8,
    millis: i16,
    cost: Option<u8>,
    /// An event of its session that it names, and how.
    names: Option<(Index, Naming)>,
}

#[derive(Debug, Clone, Copy)]
enum Naming {
    Parent,
    Amends,
    Cutoff,
}

#[derive(Debug, Clone)]
pub(super) enum Again {
    Same {
        door: AppendMode,
        by_hook: bool,
    },
    Otherwise(AppendMode),
    /// With another time: only what was seen elsewhere is recognised by the rest of its id.
    DatedDifferently,
    /// As an event of another session.
    Elsewhere(AppendMode, u8),
}

/// Where a descendant begins: somewhere in its parent, or beyond it.
#[derive(Debug, Clone)]
pub(super) enum Point {
    Within(Index),
    Beyond,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    Fork,
    Child,
}

pub(super) fn any() -> impl Strategy<Value = Action> {
    let session = || 0..SESSIONS;
    let fork = (door(), session(), session(), point(), mode());
    prop_oneof![
        8 => told().prop_map(Action::Append),
        2 => vec(told(), 2..5).prop_map(Action::Burst),
        4 => (proptest::arbitrary::any::<Index>(), again()).prop_map(|(which, how)| Action::Again(which, how)),
        5 => fork.prop_map(|(door, parent, child, at, mode)| Action::Fork { door, parent, child, at, mode }),
        1 => (session(), session(), point())
            .prop_map(|(parent, child, at)| Action::Import { parent, child, at }),
        2 => (session(), prop_oneof![Just(ForkPolicy::Refuse), Just(ForkPolicy::Copy)])
            .prop_map(|(session, forks)| Action::Delete { session, forks }),
        1 => (0..2u8, 0..100u64)
            .prop_map(|(consumer, position)| Action::Advance { consumer, position }),
        1 => Just(Action::Reopen),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let expected = option::weighted(0.3, (0..SESSIONS, prop_oneof![4 => Just(0i8), 1 => -1..=1i8]));
    let source = option::weighted(0.4, (0..SOURCES, prop::bool::weighted(0.8)));
    (door(), vec(said(), 0..5), expected, source).prop_map(|(door, said, expected, source)| Told {
        door,
        said,
        expected,
        source,
    })
}

fn said() -> impl Strategy<Value = Said> {
    let naming = prop_oneof![Just(Naming::Parent), Just(Naming::Amends), Just(Naming::Cutoff)];
    let names = option::of((proptest::arbitrary::any::<Index>(), naming));
    (0..SESSIONS, -5..1_000i16, option::of(0..9u8), names)
        .prop_map(|(session, millis, cost, names)| Said { session, millis, cost, names })
}

fn again() -> impl Strategy<Value = Again> {
    prop_oneof![
        3 => (door(), prop::bool::ANY).prop_map(|(door, by_hook)| Again::Same { door, by_hook }),
        2 => door().prop_map(Again::Otherwise),
        1 => Just(Again::DatedDifferently),
        1 => (door(), 0..SESSIONS).prop_map(|(door, session)| Again::Elsewhere(door, session)),
    ]
}

fn door() -> impl Strategy<Value = AppendMode> {
    prop_oneof![Just(AppendMode::Hosted), Just(AppendMode::Observed)]
}

fn point() -> impl Strategy<Value = Point> {
    prop_oneof![9 => proptest::arbitrary::any::<Index>().prop_map(Point::Within), 1 => Just(Point::Beyond)]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![4 => Just(Mode::Fork), 1 => Just(Mode::Child)]
}

pub(super) fn name(session: u8) -> SessionId {
    SessionId::new(format!("s{session}")).unwrap()
}

pub(super) fn batch(door: AppendMode) -> Batch {
    match door {
        AppendMode::Hosted => Batch::hosted(),
        AppendMode::Observed => Batch::observed(),
    }
}

fn new_id(at: Time, number: u64) -> EventId {
    EventId::derived(at, "model", "", &number.to_be_bytes())
}

impl Told {
    pub(super) fn drafts(&self, model: &Model, count: &mut u64) -> Vec<Draft> {
        let draft = |said: &Said| {
            *count += 1;
            said.draft(model, *count)
        };
        self.said.iter().map(draft).collect()
    }

    pub(super) fn expected_tail(&self, model: &Model) -> Option<(SessionId, u64)> {
        let (session, off) = self.expected?;
        let id = name(session);
        let tail = model.tail_of(&id).saturating_add_signed(off.into());
        Some((id, tail))
    }

    pub(super) fn reading(&self, model: &Model) -> Option<Reading> {
        let (source, is_current) = self.source?;
        let source_id = format!("source {source}");
        let stored = model.sources.get(&source_id).cloned();
        let to = format!("{}+", stored.as_deref().unwrap_or_default());
        let from = if is_current { stored } else { Some("elsewhere".to_owned()) };
        Some(Reading { source_id, from, to })
    }
}

impl Said {
    fn draft(&self, model: &Model, number: u64) -> Draft {
        let at = Time::from_millis(self.millis.into());
        let id = new_id(at, number);
        let session_id = name(self.session);
        let shown = model.events(&session_id);
        let named = self.names.as_ref().filter(|_| !shown.is_empty());
        let named = named.map(|(which, naming)| (which.get(shown).id, *naming));
        let (kind, data) = match named {
            Some((named, Naming::Cutoff)) => {
                (Kind::Compaction, format!(r#"{{"cutoff_event_id":"{named}","entries":[]}}"#))
            }
            _ => (Kind::UserPrompt, format!(r#"{{"content":"said {number}"}}"#)),
        };
        let mut draft = Draft::with_data(id, session_id, at, kind, Raw::parse(data).unwrap());
        match named {
            Some((named, Naming::Parent)) => draft.parent_id = Some(named),
            Some((named, Naming::Amends)) => {
                draft.metadata.insert("amends".to_owned(), Raw::from_value(&named).unwrap());
            }
            _ => {}
        }
        draft.cost = self.cost.map(|nanos| Cost::from_nanos(nanos.into()));
        draft
    }
}

impl Again {
    /// The draft that tells an event of the model again, if it can be told in this way.
    pub(super) fn retell<'a>(
        &'a self,
        model: &Model,
        which: &Index,
    ) -> Option<(&'a AppendMode, Draft)> {
        let shown: Vec<_> = model.shown().collect();
        if shown.is_empty() {
            return None;
        }
        let (event, is_own) = which.get(&shown);
        let mut draft = event.draft.clone();
        match self {
            Again::Same { door, by_hook } => {
                if *by_hook {
                    draft.source = Source::Hook;
                    draft.observed_at = Time::from_millis(99);
                }
                Some((door, draft))
            }
            Again::Otherwise(door) => {
                draft.text = Some("something else".to_owned());
                Some((door, draft))
            }
            Again::DatedDifferently if *is_own => {
                draft.created_at = Time::from_millis(5_000);
                draft.id = EventId::new(draft.created_at, draft.id.tail());
                Some((&AppendMode::Observed, draft))
            }
            Again::Elsewhere(door, session) if *is_own => {
                draft.session_id = name(*session);
                Some((door, draft))
            }
            _ => None,
        }
    }
}

impl Action {
    /// The first event of a descendant.
    pub(super) fn fork(&self, model: &Model, number: u64) -> Draft {
        let Action::Fork { parent, child, at, mode, .. } = self else { unreachable!("a fork") };
        let (parent, time) = (name(*parent), Time::from_millis(number as i64));
        let mode = match mode {
            Mode::Fork => SessionMode::Fork,
            Mode::Child => SessionMode::Child,
        };
        let started = SessionStarted {
            parent: Some(SessionParent {
                seq: at.seq(model, &parent),
                session_id: parent,
                event_id: None,
            }),
            mode: Some(mode),
            label: Some(format!("label {number}")),
            ..SessionStarted::default()
        };
        Draft::new(new_id(time, number), name(*child), time, &started).unwrap()
    }

    pub(super) fn ancestry(&self, model: &Model) -> Ancestry {
        let Action::Import { parent, child, at } = self else { unreachable!("an import") };
        let parent = name(*parent);
        Ancestry {
            session_id: name(*child),
            mode: Some(SessionMode::Fork),
            fork_point_seq: at.seq(model, &parent),
            parent_session_id: Some(parent),
            fork_point_event_id: None,
            label: Some("imported".to_owned()),
            reason: None,
            depth: 0,
            created_at: Time::from_millis(-9),
        }
    }
}

impl Point {
    fn seq(&self, model: &Model, parent: &SessionId) -> u64 {
        let tail = model.tail_of(parent);
        match self {
            Point::Within(index) => index.index(tail as usize + 1) as u64,
            Point::Beyond => tail + 1,
        }
    }
}
