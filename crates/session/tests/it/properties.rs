//! What holds for every session, over random ones.

use event::{Draft, Event, Kind, Metadata};
use journal::{Batch, Journal};
use proptest::prelude::*;
use session::{ForkOptions, LiveState, Reducer, Replay, Session, ViewBuilder};

use crate::drafts::drafts_of;
use crate::log::render;
use crate::worlds::{Kept, STORES, World, all, id, told};

/// A line of a log: of any kind, legal where it stands or not. Numbers name earlier events.
fn any_line() -> impl Strategy<Value = String> {
    let back = || 1..20u64;
    let message = || prop_oneof![Just("m1"), Just("m2"), Just("m3")];
    let call = || prop_oneof![Just("c1"), Just("c2")];
    prop_oneof![
        4 => Just("prompt hello".to_owned()),
        1 => back().prop_map(|back| format!("[parent={back}] prompt again")),
        3 => message().prop_map(|message| format!("[cost=0.01] say {message} fine")),
        1 => (message(), back()).prop_map(|(message, back)| {
            format!("[cost=0.03 amends={back}] say {message} finer")
        }),
        3 => (message(), call()).prop_map(|(message, call)| format!("call {message} {call} bash ls")),
        2 => call().prop_map(|call| format!("started {call} bash never_replay")),
        3 => call().prop_map(|call| format!("result {call} ok done")),
        1 => Just("context bootstrap rules".to_owned()),
        1 => Just("context generic weather".to_owned()),
        1 => prop_oneof![
            Just(r#"turn.started {"agent_id":"a"}"#),
            Just(r#"turn.completed {"agent_id":"a"}"#),
            Just(r#"approval.requested {"approval_id":"a1","tool":"bash"}"#),
            Just(r#"approval.resolved {"approval_id":"a1","decision":"deny","automated":true}"#),
            Just(r#"wait.started {"wait_id":"w1"}"#),
            Just(r#"wait.resolved {"wait_id":"w1"}"#),
            Just(r#"child.requested {"child_id":"k","child_session_id":"k","agent_id":"a","mode":"fresh","task":"t"}"#),
            Just(r#"child.completed {"child_id":"k","child_session_id":"k"}"#),
            Just(r#"settings.changed {"model":"m"}"#),
            Just(r#"made.up {"x":1}"#),
        ].prop_map(str::to_owned),
        1 => back().prop_map(|back| format!(
            r#"compaction {{"strategy":"summarize","cutoff_seq":{back},"entries":[{{"role":"user","context_kind":"summary","placement":"prefix","content":"so far"}}]}}"#
        )),
        1 => back().prop_map(|back| format!(
            r#"snapshot {{"strategy":"manual","cutoff_seq":{back},"entries":[{{"seq":1,"to_seq":{back}}}]}}"#
        )),
    ]
}

fn any_drafts(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Draft>> {
    prop::collection::vec(any_line(), count).prop_map(|lines| drafts_of("s", 1, &lines.join("\n")))
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Every event, by number, cost and metadata.
struct Seen;

impl Reducer for Seen {
    type State = Vec<(u64, Option<event::Cost>, Metadata)>;

    fn initial_state(&self) -> Self::State {
        Vec::new()
    }

    fn apply(&self, state: &mut Self::State, event: &Event) {
        state.push((event.seq, event.cost, event.metadata.clone()));
    }
}

/// Records the drafts as they were seen elsewhere, in pieces of the given sizes.
fn observe(journal: &Journal, drafts: &[Draft], sizes: &[usize], mut after: impl FnMut()) {
    let mut rest = drafts;
    let mut sizes = sizes.iter().copied().cycle();
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
        journal.append(Batch::observed().with_all(rest[..size].iter().cloned())).unwrap();
        rest = &rest[size..];
        after();
    }
}

fn replayed(events: &[Event]) -> (LiveState, <Seen as Reducer>::State) {
    let mut replay = Replay::with_reducer(Seen, Some(id("s")));
    replay.run(events.to_vec()).unwrap();
    (replay.session().unwrap().clone(), replay.into_state())
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn live_equals_replayed_state(
        drafts in any_drafts(0..50),
        sizes in prop::collection::vec(1..9usize, 1..4),
        looks in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let world = World::new(Kept::Memory);
        let session = world.session("s");
        let seen = session.reduce(Seen).unwrap();
        let mut looks = looks.iter().cycle();
        observe(world.journal(), &drafts, &sizes, || {
            session.refresh().unwrap();
            if *looks.next().unwrap() {
                session.effective().unwrap();
            }
        });
        let events = all(&session);
        let (live, state) = replayed(&events);
        prop_assert_eq!(session.live(), live);
        prop_assert_eq!(seen.read(Clone::clone), state);
        let built = render(&ViewBuilder::default().build(&events).unwrap());
        prop_assert_eq!(told(&session), built.clone());
        if !events.is_empty() {
            let fresh = world.open("s");
            prop_assert_eq!(fresh.live(), session.live());
            prop_assert_eq!(told(&fresh), built);
        }
    }

    #[test]
    fn accepted_batches_are_sound(
        drafts in any_drafts(0..60),
        by_other in prop::collection::vec(any::<bool>(), 1..5),
        sizes in prop::collection::vec(1..4usize, 1..4),
    ) {
        let world = World::new(Kept::Memory);
        let (session, other) = (world.session("s"), world.session("s"));
        // Turns and steps are never refused: one that never ended is told as odd.
        let is_checked =
            |draft: &Draft| !matches!(draft.kind, Kind::TurnStarted | Kind::StepStarted);
        let drafts: Vec<Draft> = drafts.into_iter().filter(is_checked).collect();
        let mut by_other = by_other.iter().cycle();
        let mut sizes = sizes.iter().copied().cycle();
        let mut rest = &drafts[..];
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(sizes.next().unwrap().min(rest.len()));
            let handle = if *by_other.next().unwrap() { &other } else { &session };
            // A refused batch leaves no trace.
            let _ = handle.append_batch(batch.to_vec());
            rest = behind;
        }
        session.refresh().unwrap();
        other.refresh().unwrap();
        let events = all(&session);
        prop_assert_eq!(session.live(), replayed(&events).0);
        prop_assert_eq!(session.live(), other.live());
        prop_assert_eq!(session.open_work().oddity_count(), 0);
        prop_assert_eq!(told(&session), told(&other));
        prop_assert_eq!(told(&session), render(&ViewBuilder::default().build(&events).unwrap()));
    }

    #[test]
    fn a_forks_view_is_its_parents_at_the_point(drafts in any_drafts(1..40), at in any::<prop::sample::Index>()) {
        let world = World::new(Kept::Memory);
        observe(world.journal(), &drafts, &[drafts.len()], || {});
        let point = at.index(drafts.len() + 1) as u64;
        let then = Session::at_seq(&world.host, id("s"), point).unwrap();
        let options = ForkOptions { at: Some(point), ..ForkOptions::default() };
        world.open("s").fork(id("f"), options).unwrap();
        world.open("f").fork(id("ff"), ForkOptions { at: Some(point), ..ForkOptions::default() }).unwrap();
        for name in ["f", "ff"] {
            let fork = world.open(name);
            prop_assert_eq!(told(&fork), told(&then));
            prop_assert_eq!(fork.cost().total(), then.cost().total());
            let calls = |session: &Session| {
                let open = session.open_work();
                let keys: Vec<String> = open.calls().iter().map(|call| session.call_key(call).unwrap()).collect();
                keys
            };
            prop_assert_eq!(calls(&fork), calls(&then));
        }
    }
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn every_store_tells_the_same(
        drafts in any_drafts(280..420),
        sizes in prop::collection::vec(1..60usize, 1..4),
    ) {
        let mut tellings = Vec::new();
        for kept in STORES {
            let world = World::new(kept);
            let session = world.session("s");
            observe(world.journal(), &drafts, &sizes, || session.refresh().unwrap());
            // With what was saved on the way, where something was.
            let again = Session::open(&world.reopened(), id("s")).unwrap();
            prop_assert_eq!(again.live(), session.live());
            prop_assert_eq!(told(&again), told(&session));
            prop_assert_eq!(again.live(), replayed(&all(&again)).0);
            tellings.push((told(&session), session.live()));
        }
        prop_assert_eq!(&tellings[0], &tellings[1]);
        prop_assert_eq!(&tellings[0], &tellings[2]);
    }
}
