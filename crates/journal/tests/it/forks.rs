//! What a fork shows: its parent up to a point under fresh ids, then itself.

use std::collections::BTreeSet;

use event::payload::{SessionMode, SessionParent, SessionStarted};
use event::{Cost, Draft, Event, EventId, Raw};
use journal::{AppendError, AppendOutcome, Batch, Selection};

use crate::given::{
    at, fact, fork, host, id, ids, observe, prompt, prompts, read, read_all, seqs, session,
    started, talk,
};
use crate::world::World;

cases! {
    fork_shows_parent_then_itself
    a_fork_can_begin_at_every_point
    fork_at_zero_inherits_nothing
    fork_ids_are_distinct_and_stable
    two_forks_show_different_ids
    the_origin_is_the_immediate_source
    nested_fork_reads_from_root
    inherited_references_are_translated
    references_translate_through_generations
    plain_payloads_stay_unchanged
    fork_and_parent_are_isolated
    a_fork_is_one_event
    fork_numbers_from_its_point
    fork_inherits_settings
    reopened_fork_has_whole_history
    fork_has_acknowledged_events
    batch_may_hold_parent_and_fork
    default_mode_is_fork
    only_forks_inherit
    fork_of_unknown_session_is_refused
    a_fork_beyond_the_tail_is_refused
    a_fork_onto_its_own_id_is_refused
    fork_onto_existing_session_is_refused
    a_refused_fork_leaves_no_session
    observed_fork_needs_no_parent
    repeated_fork_is_already_recorded
    repeated_inherited_event_is_recorded
    changed_inherited_event_is_refused
    generations_are_read_to_the_last
    a_chain_of_forks_has_an_end
}

/// A session of three prompts, forked at 2, and two events in the fork.
fn forked(world: &World) {
    talk(world, "p", 3);
    world.append(Batch::hosted().with(fork("f", 4, "p", 2)).with(prompt("f", 5))).unwrap();
}

/// An event as another session shows it, apart from what must differ.
fn retold(event: &Event, name: &str, id: EventId) -> Event {
    let mut event = event.clone();
    event.draft.session_id = session(name);
    event.draft.id = id;
    event.draft.metadata.remove("fork_origin");
    event
}

/// `inherited` is what a fork `name` shows for `source`, an event of `parent`.
#[track_caller]
fn assert_inherited(inherited: &Event, name: &str, source: &Event, parent: &str) {
    let origin = inherited.fork_origin().expect("an inherited event has an origin");
    assert_eq!((origin.session_id, origin.event_id), (session(parent), source.id));
    assert_ne!(inherited.id, source.id);
    assert_eq!(inherited.id.bytes()[..6], source.id.bytes()[..6], "the time part is kept");
    assert_eq!(retold(inherited, name, inherited.id), retold(source, name, inherited.id));
}

fn fork_shows_parent_then_itself(world: World) {
    forked(&world);
    let (parent, shown) = (read_all(&world, "p"), read_all(&world, "f"));
    assert_eq!(seqs(&shown), [1, 2, 3, 4]);
    for (inherited, source) in shown.iter().zip(&parent[..2]) {
        assert_inherited(inherited, "f", source, "p");
    }
    assert_eq!(shown[2..], [fork("f", 4, "p", 2).with_seq(3), prompt("f", 5).with_seq(4)]);
    assert_eq!(shown[2].fork_origin(), None);
}

fn a_fork_can_begin_at_every_point(world: World) {
    talk(&world, "p", 4);
    let parent = read_all(&world, "p");
    for point in 0..=4 {
        let name = format!("f{point}");
        assert_eq!(host(&world, fork(&name, 9, "p", point)).seq, point + 1);
        let shown = read_all(&world, &name);
        assert_eq!(seqs(&shown), (1..=point + 1).collect::<Vec<_>>());
        for (inherited, source) in shown.iter().zip(&parent).take(point as usize) {
            assert_inherited(inherited, &name, source, "p");
        }
        let mut backwards = read(&world, &name, Selection::all().newest_first());
        backwards.reverse();
        assert_eq!(backwards, shown);
    }
}

fn fork_at_zero_inherits_nothing(world: World) {
    let root = journal::Ancestry::root(session("p"), at(1));
    world.import_ancestry(vec![root]).unwrap();
    assert_eq!(read_all(&world, "p"), []);
    host(&world, fork("f", 2, "p", 0));
    assert_eq!(read_all(&world, "f"), [fork("f", 2, "p", 0).with_seq(1)]);
    let ancestry = world.lineage(&session("f")).unwrap().pop().unwrap();
    assert_eq!((ancestry.fork_point_seq, ancestry.fork_point_event_id), (0, None));
}

fn fork_ids_are_distinct_and_stable(mut world: World) {
    talk(&world, "p", 200);
    host(&world, fork("f", 500, "p", 200));
    let shown = ids(&read_all(&world, "f"));
    let distinct: BTreeSet<EventId> =
        shown.iter().chain(&ids(&read_all(&world, "p"))).copied().collect();
    assert_eq!(distinct.len(), 401);
    world.reopen();
    assert_eq!(ids(&read_all(&world, "f")), shown);
    for (seq, id) in (1..).zip(&shown) {
        assert_eq!(world.seq_of(&session("f"), *id).unwrap(), Some(seq));
    }
    assert_eq!(world.seq_of(&session("p"), shown[0]).unwrap(), None);
    assert_eq!(world.seq_of(&session("f"), id("p", 1)).unwrap(), None);
}

fn two_forks_show_different_ids(world: World) {
    talk(&world, "p", 2);
    host(&world, fork("f", 4, "p", 2));
    host(&world, fork("g", 4, "p", 2));
    let (f, g) = (ids(&read_all(&world, "f")), ids(&read_all(&world, "g")));
    assert!(f.iter().all(|id| !g.contains(id)));
}

fn the_origin_is_the_immediate_source(world: World) {
    forked(&world);
    host(&world, fork("ff", 6, "f", 4));
    let (middle, shown) = (read_all(&world, "f"), read_all(&world, "ff"));
    assert_eq!(seqs(&shown), [1, 2, 3, 4, 5]);
    for (inherited, source) in shown.iter().zip(&middle) {
        assert_inherited(inherited, "ff", source, "f");
    }
}

fn nested_fork_reads_from_root(world: World) {
    forked(&world);
    host(&world, fork("ff", 6, "f", 1));
    let (middle, shown) = (read_all(&world, "f"), read_all(&world, "ff"));
    assert_eq!(seqs(&shown), [1, 2]);
    assert_inherited(&shown[0], "ff", &middle[0], "f");
    assert_eq!(world.seq_of(&session("ff"), shown[0].id).unwrap(), Some(1));
    for beyond in [&middle[1], &middle[2]] {
        assert_eq!(world.seq_of(&session("ff"), beyond.id).unwrap(), None);
    }
}

/// One event for each way to name another, all naming `target`.
fn naming(name: &str, target: EventId, first: u64) -> Vec<Draft> {
    let mut prompt_on = prompt(name, first);
    prompt_on.parent_id = Some(target);
    let mut fuller = prompt(name, first + 1);
    fuller.metadata.insert("amends".to_owned(), Raw::from_value(&target).unwrap());
    let fact =
        |n, kind, data: &str| fact(name, first + n, kind, &data.replace("ID", &target.to_string()));
    let saved = r#"{"strategy":"x","cutoff_seq":1,"cutoff_event_id":"ID","entries":[{"seq":1,"event_id":"ID"},{"role":"user"}],"mine":"ID"}"#;
    vec![
        prompt_on,
        fuller,
        fact(2, "compaction", saved),
        fact(3, "snapshot", saved),
        fact(4, "context.added", r#"{"content":"x","covers":{"from":"ID","to":"ID"}}"#),
        fact(5, "child.requested", r#"{"child_id":"c","parent_event_id":"ID","task":"ID"}"#),
        fact(6, "artifact.recorded", r#"{"artifact":{"id":"i","producer_event_id":"ID"}}"#),
    ]
}

/// How often an event names `id` outside of its own and its origin's.
fn mentions(event: &Event, id: EventId) -> usize {
    let mut rest = event.clone();
    rest.draft.metadata.remove("fork_origin");
    rest.encode().matches(&id.to_string()).count() - usize::from(event.id == id)
}

fn inherited_references_are_translated(mut world: World) {
    talk(&world, "p", 2);
    let naming_first = naming("p", id("p", 1), 10);
    let count = naming_first.len() as u64;
    world.append(Batch::hosted().with_all(naming_first)).unwrap();
    // These name an event that the fork does not inherit.
    let naming_later = naming("p", id("p", 99), 30);
    world.append(Batch::hosted().with_all(naming_later)).unwrap();
    let point = 2 + 2 * count;
    host(&world, prompt("p", 99));
    host(&world, fork("f", 100, "p", point));
    world.reopen();
    let (parent, shown) = (read_all(&world, "p"), read_all(&world, "f"));
    let fresh = shown[0].id;
    // An id outside the fields that name events is no reference.
    let untouched = |event: &Event| match event.kind.as_str() {
        "compaction" | "snapshot" | "child.requested" => 1,
        _ => 0,
    };
    for (source, inherited) in parent.iter().zip(&shown).skip(2).take(count as usize) {
        let before = mentions(source, id("p", 1));
        assert_eq!(mentions(inherited, id("p", 1)), untouched(source), "{}", source.kind);
        assert_eq!(mentions(inherited, fresh), before - untouched(source), "{}", source.kind);
    }
    for (source, inherited) in
        parent.iter().zip(&shown).skip(2 + count as usize).take(count as usize)
    {
        assert_inherited(inherited, "f", source, "p");
        assert_eq!(mentions(inherited, id("p", 99)), mentions(source, id("p", 99)));
    }
}

fn references_translate_through_generations(world: World) {
    talk(&world, "p", 1);
    world.append(Batch::hosted().with_all(naming("p", id("p", 1), 10))).unwrap();
    let tail = world.stat(&session("p")).unwrap().tail_seq;
    host(&world, fork("f", 50, "p", tail));
    let in_f = read_all(&world, "f")[0].id;
    // An own event of the middle one that names what it inherits.
    let mut own = prompt("f", 51);
    own.parent_id = Some(in_f);
    host(&world, own);
    host(&world, fork("ff", 60, "f", tail + 2));
    let shown = read_all(&world, "ff");
    assert_eq!(shown[1].parent_id, Some(shown[0].id));
    assert_eq!(shown[2].amends(), Some(shown[0].id));
    assert_eq!(shown[tail as usize + 1].parent_id, Some(shown[0].id));
    assert_eq!(read_all(&world, "f")[tail as usize + 1].parent_id, Some(in_f));
}

fn plain_payloads_stay_unchanged(world: World) {
    let data = r#"{ "cutoff_event_id" : null, "entries":[ ],"x":1.0, "x":2 }"#;
    host(&world, fact("p", 1, "compaction", data));
    host(&world, fact("p", 2, "weather.changed", &format!(r#"{{"parent_id":"{}"}}"#, id("p", 1))));
    host(&world, fork("f", 3, "p", 2));
    let (parent, shown) = (read_all(&world, "p"), read_all(&world, "f"));
    for (inherited, source) in shown.iter().zip(&parent) {
        assert_eq!(inherited.data, source.data);
    }
}

fn fork_and_parent_are_isolated(world: World) {
    forked(&world);
    let before = read_all(&world, "f");
    world.append(Batch::hosted().with_all(prompts("p", 20..=25))).unwrap();
    assert_eq!(read_all(&world, "f"), before);
    let parent = read_all(&world, "p");
    world.append(Batch::hosted().with_all(prompts("f", 20..=25))).unwrap();
    assert_eq!(read_all(&world, "p"), parent);
    assert_eq!(read_all(&world, "f").len(), before.len() + 6);
}

fn a_fork_is_one_event(world: World) {
    for n in 1..=50 {
        let mut draft = prompt("p", n);
        draft.cost = Some(Cost::from_nanos(7));
        host(&world, draft);
    }
    let before = world.tail().unwrap();
    host(&world, fork("f", 100, "p", 50));
    assert_eq!(world.tail().unwrap(), before + 1);
    let stat = world.stat(&session("f")).unwrap();
    assert_eq!((stat.events, stat.tail_seq, stat.cost), (1, 51, Cost::ZERO));
    assert_eq!(world.stat(&session("p")).unwrap().cost, Cost::from_nanos(350));
}

fn fork_numbers_from_its_point(world: World) {
    talk(&world, "p", 3);
    let batch = Batch::hosted().with_numbered(fork("f", 4, "p", 2), 2);
    let error = world.append(batch).unwrap_err();
    assert!(matches!(error, AppendError::BadSeq { expected: 3, found: 2, .. }), "{error:?}");
    world.append(Batch::hosted().with_numbered(fork("f", 4, "p", 2), 3)).unwrap();
    let next = |seq| Batch::hosted().with(prompt("f", 5)).expecting(session("f"), seq);
    assert!(matches!(world.append(next(1)), Err(AppendError::Conflict { actual: 3, .. })));
    assert_eq!(world.append(next(3)).unwrap().events[0].seq, 4);
}

fn fork_inherits_settings(world: World) {
    let data = r#"{"agent":"claude","model":"m1","cwd":"/home/dev/x","project":"x","title":"t"}"#;
    host(&world, fact("p", 1, "session.started", data));
    host(&world, fork("f", 2, "p", 1));
    let stat = world.stat(&session("f")).unwrap();
    assert_eq!(stat.agent.as_deref(), Some("claude"));
    assert_eq!(stat.cwd.as_deref(), Some("/home/dev/x"));
    assert_eq!(stat.project.as_deref(), Some("x"));
    host(&world, fact("f", 3, "settings.changed", r#"{"model":"m2"}"#));
    assert_eq!(world.stat(&session("f")).unwrap().model.as_deref(), Some("m2"));
    assert_eq!(world.stat(&session("p")).unwrap().model.as_deref(), Some("m1"));
}

fn reopened_fork_has_whole_history(mut world: World) {
    forked(&world);
    world.reopen();
    host(&world, prompt("f", 6));
    let shown = read_all(&world, "f");
    world.reopen();
    assert_eq!(read_all(&world, "f"), shown);
    assert_eq!(seqs(&shown), [1, 2, 3, 4, 5]);
}

fn fork_has_acknowledged_events(world: World) {
    talk(&world, "p", 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 2..=200 {
                host(&world, prompt("p", n));
            }
        });
        for n in 0..20 {
            let name = format!("f{n}");
            let tail = world.stat(&session("p")).unwrap().tail_seq;
            host(&world, fork(&name, 1_000 + n, "p", tail));
            let shown = read_all(&world, &name);
            assert_eq!(shown.len() as u64, tail + 1);
            let sources = read(&world, "p", Selection::all().up_to(tail));
            for (inherited, source) in shown.iter().zip(&sources) {
                assert_inherited(inherited, &name, source, "p");
            }
        }
        writer.join().unwrap();
    });
}

fn batch_may_hold_parent_and_fork(mut world: World) {
    let drafts = prompts("p", 1..=3).chain([
        fork("f", 4, "p", 2),
        prompt("p", 5),
        prompt("f", 6),
        fork("ff", 7, "f", 4),
    ]);
    world.append(Batch::hosted().with_all(drafts)).unwrap();
    world.reopen();
    assert_eq!(seqs(&read_all(&world, "p")), [1, 2, 3, 4]);
    assert_eq!(seqs(&read_all(&world, "f")), [1, 2, 3, 4]);
    let (middle, shown) = (read_all(&world, "f"), read_all(&world, "ff"));
    for (inherited, source) in shown.iter().zip(&middle) {
        assert_inherited(inherited, "ff", source, "f");
    }
}

fn default_mode_is_fork(world: World) {
    talk(&world, "p", 2);
    let payload = SessionStarted {
        parent: Some(SessionParent { session_id: session("p"), seq: 2, event_id: None }),
        ..SessionStarted::default()
    };
    let draft = Draft::new(id("f", 3), session("f"), at(3), &payload).unwrap();
    assert_eq!(host(&world, draft).seq, 3);
}

fn only_forks_inherit(world: World) {
    talk(&world, "p", 2);
    for (name, mode) in [("c", SessionMode::Child), ("r", SessionMode::Resume)] {
        let draft = started(name, 3, "p", 2, mode.clone());
        assert_eq!(host(&world, draft.clone()).seq, 1);
        assert_eq!(read_all(&world, name), [draft.with_seq(1)]);
        assert_eq!(world.stat(&session(name)).unwrap().mode(), Some(&mode));
    }
}

fn fork_of_unknown_session_is_refused(world: World) {
    talk(&world, "p", 1);
    let error = world.append(Batch::hosted().with(fork("f", 2, "nobody", 0))).unwrap_err();
    assert!(matches!(&error, AppendError::SessionNotFound(id) if *id == session("nobody")));
}

fn a_fork_beyond_the_tail_is_refused(world: World) {
    talk(&world, "p", 2);
    for beyond in [3, u64::MAX] {
        let error = world.append(Batch::hosted().with(fork("f", 3, "p", beyond))).unwrap_err();
        let AppendError::PointOutOfRange { session_id, point, tail } = error else {
            panic!("{error:?}");
        };
        assert_eq!((session_id, point, tail), (session("p"), beyond, 2));
    }
}

fn a_fork_onto_its_own_id_is_refused(world: World) {
    talk(&world, "p", 2);
    for name in ["p", "new"] {
        let error = world.append(Batch::hosted().with(fork(name, 3, name, 0))).unwrap_err();
        assert!(
            matches!(&error, AppendError::SameSession(id) if *id == session(name)),
            "{error:?}"
        );
    }
}

fn fork_onto_existing_session_is_refused(world: World) {
    forked(&world);
    talk(&world, "q", 1);
    let before = read_all(&world, "q");
    for name in ["q", "f"] {
        let error = world.append(Batch::hosted().with(fork(name, 9, "p", 1))).unwrap_err();
        assert!(
            matches!(&error, AppendError::SessionExists(id) if *id == session(name)),
            "{error:?}"
        );
    }
    assert_eq!(read_all(&world, "q"), before);
}

fn a_refused_fork_leaves_no_session(world: World) {
    talk(&world, "p", 1);
    let batch = Batch::hosted().with_all([fork("f", 2, "p", 1), fork("g", 2, "p", 2)]);
    assert!(world.append(batch).is_err());
    assert!(!world.exists(&session("f")).unwrap());
    assert!(world.children(&session("p")).unwrap().is_empty());
}

fn observed_fork_needs_no_parent(world: World) {
    talk(&world, "p", 1);
    assert_eq!(observe(&world, fork("f", 2, "nobody", 7)).seq, 1);
    assert_eq!(observe(&world, fork("g", 2, "p", 7)).seq, 1);
    assert_eq!(read_all(&world, "f"), [fork("f", 2, "nobody", 7).with_seq(1)]);
    assert_eq!(read_all(&world, "g"), [fork("g", 2, "p", 7).with_seq(1)]);
}

fn repeated_fork_is_already_recorded(mut world: World) {
    forked(&world);
    world.reopen();
    let again = host(&world, fork("f", 4, "p", 2));
    assert_eq!((again.seq, again.position), (3, 4));
    assert_eq!(again.outcome, AppendOutcome::AlreadyRecorded { differs: false });
}

fn repeated_inherited_event_is_recorded(mut world: World) {
    forked(&world);
    host(&world, fork("ff", 6, "f", 4));
    world.reopen();
    for name in ["f", "ff"] {
        let first = read_all(&world, name).remove(0);
        let again = host(&world, first.draft);
        assert_eq!((again.seq, again.position), (1, 1));
        assert_eq!(again.outcome, AppendOutcome::AlreadyRecorded { differs: false });
    }
    assert_eq!(world.tail().unwrap(), 6);
}

fn changed_inherited_event_is_refused(world: World) {
    forked(&world);
    let mut other = read_all(&world, "f").remove(1).draft;
    other.text = Some("something else".to_owned());
    let error = world.append(Batch::hosted().with(other.clone())).unwrap_err();
    let AppendError::DuplicateId { id, session_id, seq } = error else {
        panic!("{error:?}");
    };
    assert_eq!((id, session_id, seq), (other.id, session("f"), 2));
    let told = observe(&world, other);
    assert_eq!(told.outcome, AppendOutcome::AlreadyRecorded { differs: true });
    for name in ["p", "f"] {
        let sightings = world.sightings(&session(name), 2).unwrap();
        assert_eq!(sightings.len(), 1, "{name} shows the same event");
    }
    assert_eq!(world.sightings(&session("f"), 3).unwrap(), []);
}

fn generations_are_read_to_the_last(mut world: World) {
    talk(&world, "g0", 3);
    for generation in 1..=20 {
        let (parent, name) = (format!("g{}", generation - 1), format!("g{generation}"));
        let tail = world.stat(&session(&parent)).unwrap().tail_seq;
        let batch = Batch::hosted()
            .with(fork(&name, 100 + generation, &parent, tail - generation % 2))
            .with(prompt(&name, 200 + generation));
        world.append(batch).unwrap();
    }
    world.reopen();
    for generation in 1..=20 {
        let (parent, name) = (format!("g{}", generation - 1), format!("g{generation}"));
        let (sources, shown) = (read_all(&world, &parent), read_all(&world, &name));
        let inherited = shown.len() - 2;
        assert_eq!(seqs(&shown), (1..=shown.len() as u64).collect::<Vec<_>>());
        for (inherited, source) in shown.iter().zip(&sources).take(inherited) {
            assert_inherited(inherited, &name, source, &parent);
            assert_eq!(world.seq_of(&session(&name), inherited.id).unwrap(), Some(source.seq));
        }
    }
}

fn a_chain_of_forks_has_an_end(world: World) {
    const GENERATIONS_MAX: u64 = 1_024;
    let link = |generation: u64| {
        let (parent, name) = (format!("g{}", generation - 1), format!("g{generation}"));
        fork(&name, generation, &parent, generation)
    };
    talk(&world, "g0", 1);
    world.append(Batch::hosted().with_all((1..=GENERATIONS_MAX).map(link))).unwrap();
    let error = world.append(Batch::hosted().with(link(GENERATIONS_MAX + 1))).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { max: 1_024, .. }), "{error:?}");
    let last = format!("g{GENERATIONS_MAX}");
    let way = world.lineage(&session(&last)).unwrap();
    assert_eq!(way.last().unwrap().depth, GENERATIONS_MAX as u32);
    let first = world.events(&session(&last), Selection::all()).unwrap().next().unwrap().unwrap();
    assert_eq!(first.data, prompt("g0", 1).data);
}
