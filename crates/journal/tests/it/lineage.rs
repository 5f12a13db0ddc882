//! Parents and children, recorded with the session's first event or imported.

use event::payload::{SessionMode, SessionParent, SessionStarted, SettingsChanged};
use event::{Draft, SessionId, Time};
use journal::{Ancestry, LineageError, OnLag};

use crate::given::{
    at, fork, host, id, nothing_more, observe, prompt, read_all, seqs, session, started, talk,
};
use crate::world::World;

cases! {
    root_is_its_own_lineage
    fork_keeps_label_reason_point
    lineage_is_root_first
    children_are_ordered_by_time
    childless_session_lists_none
    every_mode_makes_a_child
    a_parent_nobody_knows_is_dangling
    a_parent_that_comes_later_is_found
    late_parent_is_accepted
    ancestry_cycle_is_an_error
    events_keep_imported_lineage
    root_keeps_label_and_reason
    imported_fork_shows_inherited_events
    repeated_import_changes_nothing
    import_of_recorded_changes_nothing
    contradicting_import_is_refused
    import_without_parent_is_refused
    import_order_does_not_matter
    an_imported_circle_is_refused
    import_without_events_inherits_nothing
    an_imported_depth_is_not_believed
    an_import_is_nobodys_news
    appends_and_imports_run_together
}

fn root(name: &str) -> Ancestry {
    Ancestry::root(session(name), at(1))
}

fn child(name: &str, parent: &str, point: u64) -> Ancestry {
    Ancestry {
        parent_session_id: Some(session(parent)),
        mode: Some(SessionMode::Fork),
        fork_point_seq: point,
        label: Some("try".to_owned()),
        reason: Some("why not".to_owned()),
        depth: 1,
        created_at: at(2),
        ..root(name)
    }
}

fn names(ancestry: &[Ancestry]) -> Vec<&str> {
    ancestry.iter().map(|step| step.session_id.as_str()).collect()
}

fn root_is_its_own_lineage(world: World) {
    talk(&world, "a", 2);
    assert_eq!(world.parent(&session("a")).unwrap(), None);
    assert_eq!(world.lineage(&session("a")).unwrap(), [root("a")]);
    assert_eq!(world.stat(&session("a")).unwrap().ancestry, root("a"));
}

fn fork_keeps_label_reason_point(mut world: World) {
    talk(&world, "a", 2);
    let parent = SessionParent { session_id: session("a"), seq: 2, event_id: Some(id("a", 2)) };
    let payload = SessionStarted {
        parent: Some(parent),
        mode: Some(SessionMode::Fork),
        label: Some("try".to_owned()),
        reason: Some("why not".to_owned()),
        ..SessionStarted::default()
    };
    host(&world, Draft::new(id("b", 2), session("b"), at(2), &payload).unwrap());
    world.reopen();
    let expected = Ancestry { fork_point_event_id: Some(id("a", 2)), ..child("b", "a", 2) };
    assert_eq!(world.children(&session("a")).unwrap(), std::slice::from_ref(&expected));
    assert_eq!(world.lineage(&session("b")).unwrap(), [root("a"), expected]);
    assert_eq!(world.parent(&session("b")).unwrap(), Some(root("a")));
    let inherited = &read_all(&world, "b")[1];
    assert_eq!(inherited.fork_origin().unwrap().event_id, id("a", 2));
}

fn lineage_is_root_first(world: World) {
    talk(&world, "a", 1);
    host(&world, fork("b", 2, "a", 1));
    host(&world, fork("c", 3, "b", 2));
    host(&world, fork("d", 4, "c", 0));
    let way = world.lineage(&session("d")).unwrap();
    assert_eq!(names(&way), ["a", "b", "c", "d"]);
    assert_eq!(way.iter().map(|step| step.depth).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(world.stat(&session("d")).unwrap().ancestry.depth, 3);
    assert_eq!(names(&world.children(&session("b")).unwrap()), ["c"]);
}

fn children_are_ordered_by_time(mut world: World) {
    talk(&world, "a", 1);
    let noon: Time = "2026-03-01T12:00:00Z".parse().unwrap();
    let later = |nanos| Time::from_nanos(noon.nanos() + nanos);
    let born = [
        ("late", later(500_000_000)),
        ("zz", noon),
        ("nano", later(1)),
        ("aa", noon),
        ("early", "2026-03-01T13:30:00+02:00".parse().unwrap()),
        ("ancient", "-00043-03-15T12:00:00Z".parse().unwrap()),
        ("future", "+12000-01-01T00:00:00Z".parse().unwrap()),
    ];
    for (name, created_at) in born {
        let mut draft = fork(name, 1, "a", 1);
        draft.created_at = created_at;
        host(&world, draft);
    }
    world.reopen();
    let children = world.children(&session("a")).unwrap();
    assert_eq!(names(&children), ["ancient", "early", "aa", "zz", "nano", "late", "future"]);
}

fn childless_session_lists_none(world: World) {
    talk(&world, "a", 1);
    assert_eq!(world.children(&session("a")).unwrap(), []);
}

fn every_mode_makes_a_child(world: World) {
    talk(&world, "a", 1);
    host(&world, started("b", 2, "a", 1, SessionMode::Child));
    host(&world, started("c", 3, "a", 1, SessionMode::Resume));
    host(&world, started("d", 4, "a", 1, SessionMode::Fork));
    observe(&world, started("e", 5, "a", 0, SessionMode::Other("teleport".into())));
    let children = world.children(&session("a")).unwrap();
    assert_eq!(names(&children), ["b", "c", "d", "e"]);
    let modes: Vec<&str> = children.iter().map(|c| c.mode.as_ref().unwrap().as_str()).collect();
    assert_eq!(modes, ["child", "resume", "fork", "teleport"]);
}

#[track_caller]
fn assert_dangling(error: LineageError, name: &str, missing: &str) {
    let LineageError::DanglingParent { child, parent } = error else {
        panic!("{error:?}");
    };
    assert_eq!((child, parent), (session(name), session(missing)));
}

fn a_parent_nobody_knows_is_dangling(world: World) {
    observe(&world, fork("b", 1, "nobody", 3));
    host(&world, fork("c", 2, "b", 1));
    assert_dangling(world.parent(&session("b")).unwrap_err(), "b", "nobody");
    assert_dangling(world.lineage(&session("b")).unwrap_err(), "b", "nobody");
    assert_dangling(world.lineage(&session("c")).unwrap_err(), "b", "nobody");
    assert_eq!(names(&world.children(&session("b")).unwrap()), ["c"]);
}

fn a_parent_that_comes_later_is_found(world: World) {
    observe(&world, started("b", 2, "a", 0, SessionMode::Child));
    talk(&world, "a", 1);
    assert_eq!(names(&world.lineage(&session("b")).unwrap()), ["a", "b"]);
    assert_eq!(names(&world.children(&session("a")).unwrap()), ["b"]);
}

fn late_parent_is_accepted(mut world: World) {
    let told = |name: &str, number: u64, parent: &str| {
        let parent = SessionParent { session_id: session(parent), seq: 0, event_id: None };
        let changed = SettingsChanged { parent: Some(parent), ..SettingsChanged::default() };
        Draft::new(id(name, number), session(name), at(number as i64), &changed).unwrap()
    };
    talk(&world, "b", 2);
    talk(&world, "a", 1);
    talk(&world, "other", 1);
    observe(&world, told("b", 70, "a"));
    // The first parent counts, and a session is not its own parent.
    observe(&world, told("b", 71, "other"));
    observe(&world, told("other", 72, "other"));
    for _ in 0..2 {
        assert_eq!(names(&world.lineage(&session("b")).unwrap()), ["a", "b"]);
        assert_eq!(names(&world.children(&session("a")).unwrap()), ["b"]);
        assert_eq!(names(&world.lineage(&session("other")).unwrap()), ["other"]);
        assert_eq!(seqs(&read_all(&world, "b")), [1, 2, 3, 4], "it shows nothing of its parent");
        world.reopen();
    }
}

fn ancestry_cycle_is_an_error(world: World) {
    observe(&world, fork("a", 1, "b", 1));
    observe(&world, fork("b", 2, "a", 1));
    observe(&world, fork("c", 3, "b", 1));
    observe(&world, fork("self", 4, "self", 0));
    for name in ["a", "b", "c", "self"] {
        let error = world.lineage(&session(name)).unwrap_err();
        assert!(matches!(&error, LineageError::Cycle(id) if *id == session(name)), "{error:?}");
        read_all(&world, name);
    }
}

fn events_keep_imported_lineage(mut world: World) {
    let imported = [root("a"), child("b", "a", 0)];
    world.import_ancestry(imported.to_vec()).unwrap();
    assert_eq!(world.lineage(&session("b")).unwrap(), imported);
    assert_eq!(world.stat(&session("b")).unwrap().events, 0);
    assert_eq!(read_all(&world, "b"), []);
    assert_eq!(host(&world, prompt("b", 50)).seq, 1);
    world.reopen();
    assert_eq!(world.lineage(&session("b")).unwrap(), imported);
    assert_eq!(world.children(&session("a")).unwrap(), imported[1..]);
}

fn root_keeps_label_and_reason(mut world: World) {
    let words = || (Some("try".to_owned()), Some("why not".to_owned()));
    let (label, reason) = words();
    // One comes from a journal that has its parent, the other says so itself.
    let imported = Ancestry { label, reason, ..root("imported") };
    world.import_ancestry(vec![imported.clone()]).unwrap();
    host(&world, prompt("imported", 50));
    let (label, reason) = words();
    let began = SessionStarted { label, reason, ..SessionStarted::default() };
    observe(&world, Draft::new(id("own", 1), session("own"), at(1), &began).unwrap());
    talk(&world, "a", 1);
    for _ in 0..2 {
        assert_eq!(world.lineage(&session("imported")).unwrap(), std::slice::from_ref(&imported));
        let own = world.stat(&session("own")).unwrap().ancestry;
        assert_eq!((own.label, own.reason), words());
        world.reopen();
    }
    world.import_ancestry(vec![imported.clone()]).unwrap();
    let other = Ancestry { label: Some("else".to_owned()), ..imported };
    let refused = world.import_ancestry(vec![other]).unwrap_err();
    assert!(matches!(refused, LineageError::AncestryDiffers(_)), "{refused:?}");
    // A parent that is found late: the words are about where it comes from.
    let parent = SessionParent { session_id: session("a"), seq: 0, event_id: None };
    let changed = SettingsChanged { parent: Some(parent), ..SettingsChanged::default() };
    observe(&world, Draft::new(id("own", 2), session("own"), at(2), &changed).unwrap());
    for _ in 0..2 {
        let own = world.lineage(&session("own")).unwrap().remove(1);
        assert_eq!((own.label, own.reason), words());
        world.reopen();
    }
}

fn imported_fork_shows_inherited_events(mut world: World) {
    talk(&world, "a", 3);
    world.import_ancestry(vec![child("b", "a", 2)]).unwrap();
    assert_eq!(seqs(&read_all(&world, "b")), [1, 2]);
    world.reopen();
    assert_eq!(host(&world, prompt("b", 50)).seq, 3);
    assert_eq!(seqs(&read_all(&world, "b")), [1, 2, 3]);
}

fn repeated_import_changes_nothing(mut world: World) {
    let imported = vec![root("a"), child("b", "a", 0)];
    world.import_ancestry(imported.clone()).unwrap();
    host(&world, prompt("b", 50));
    world.reopen();
    world.import_ancestry(imported.clone()).unwrap();
    assert_eq!(world.lineage(&session("b")).unwrap(), imported);
}

fn import_of_recorded_changes_nothing(world: World) {
    talk(&world, "a", 2);
    host(&world, fork("b", 3, "a", 2));
    let way = world.lineage(&session("b")).unwrap();
    world.import_ancestry(way.clone()).unwrap();
    assert_eq!(world.lineage(&session("b")).unwrap(), way);
    assert_eq!(seqs(&read_all(&world, "b")), [1, 2, 3]);
}

fn contradicting_import_is_refused(world: World) {
    talk(&world, "a", 2);
    talk(&world, "c", 2);
    world.import_ancestry(vec![child("b", "a", 2)]).unwrap();
    let b = child("b", "a", 2);
    let others = [
        child("b", "c", 2),
        child("b", "a", 1),
        root("b"),
        Ancestry { label: None, ..b.clone() },
        Ancestry { reason: Some("else".to_owned()), ..b.clone() },
        Ancestry { mode: Some(SessionMode::Child), ..b.clone() },
        Ancestry { fork_point_event_id: Some(id("a", 1)), ..b.clone() },
        child("a", "c", 1),
        Ancestry { created_at: at(77), ..b.clone() },
        Ancestry { created_at: at(77), ..root("a") },
    ];
    for other in others {
        let name: SessionId = other.session_id.clone();
        let error = world.import_ancestry(vec![root("new"), other]).unwrap_err();
        assert!(matches!(&error, LineageError::AncestryDiffers(id) if *id == name), "{error:?}");
        assert!(!world.exists(&session("new")).unwrap());
    }
    assert_eq!(world.lineage(&session("b")).unwrap()[1], b);
}

fn import_without_parent_is_refused(world: World) {
    let error = world.import_ancestry(vec![root("a"), child("b", "nobody", 0)]).unwrap_err();
    assert_dangling(error, "b", "nobody");
    assert!(!world.exists(&session("a")).unwrap());
    assert!(!world.exists(&session("b")).unwrap());
}

fn import_order_does_not_matter(world: World) {
    talk(&world, "a", 2);
    let imported = vec![child("d", "c", 1), child("c", "b", 2), child("b", "a", 2)];
    world.import_ancestry(imported).unwrap();
    let way = world.lineage(&session("d")).unwrap();
    assert_eq!(names(&way), ["a", "b", "c", "d"]);
    assert_eq!(world.stat(&session("d")).unwrap().ancestry.depth, 3);
    assert_eq!(seqs(&read_all(&world, "c")), [1, 2]);
    assert_eq!(seqs(&read_all(&world, "d")), [1]);
}

fn an_imported_circle_is_refused(world: World) {
    for circle in [
        vec![child("a", "a", 0)],
        vec![child("a", "b", 0), child("b", "a", 0)],
        vec![child("a", "c", 0), child("b", "a", 0), root("d"), child("c", "b", 0)],
    ] {
        let error = world.import_ancestry(circle).unwrap_err();
        assert!(matches!(error, LineageError::Cycle(_)), "{error:?}");
        assert!(!world.exists(&session("a")).unwrap());
        assert!(!world.exists(&session("d")).unwrap());
    }
}

fn import_without_events_inherits_nothing(world: World) {
    talk(&world, "a", 2);
    for (n, import) in (0..).zip([
        vec![child("b0", "a", 3)],
        vec![root("c1"), child("b1", "c1", 3)],
        vec![child("b2", "c2", 3), root("c2")],
    ]) {
        let name = format!("b{n}");
        world.import_ancestry(import).unwrap();
        assert_eq!(read_all(&world, &name), []);
        assert_eq!(world.lineage(&session(&name)).unwrap()[1].fork_point_seq, 3);
        assert_eq!(host(&world, prompt(&name, 9)).seq, 1);
    }
}

fn an_imported_depth_is_not_believed(world: World) {
    let wrong = |ancestry, depth| Ancestry { depth, ..ancestry };
    let import = vec![wrong(root("a"), 7), wrong(child("b", "a", 0), 0)];
    world.import_ancestry(import).unwrap();
    let depths = world.lineage(&session("b")).unwrap().iter().map(|s| s.depth).collect::<Vec<_>>();
    assert_eq!(depths, [0, 1]);
    assert_eq!(world.stat(&session("b")).unwrap().ancestry.depth, 1);
}

fn an_import_is_nobodys_news(world: World) {
    let mut stream = world.follow(journal::FollowFrom::Now, OnLag::CatchUp).unwrap();
    world.import_ancestry(vec![root("a"), child("b", "a", 0)]).unwrap();
    nothing_more(&mut stream);
    assert_eq!(world.tail().unwrap(), 0);
}

fn appends_and_imports_run_together(world: World) {
    talk(&world, "root", 1);
    std::thread::scope(|scope| {
        for n in 0..32 {
            let name = format!("s{n}");
            let world = &world;
            scope.spawn(move || host(world, prompt("root", 10 + n)));
            scope.spawn(move || {
                world.import_ancestry(vec![child(&name, "root", 1)]).unwrap();
            });
        }
    });
    assert_eq!(world.children(&session("root")).unwrap().len(), 32);
    assert_eq!(world.stat(&session("root")).unwrap().events, 33);
}
