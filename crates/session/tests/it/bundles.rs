//! Sessions as files: out of one journal, into another, and back.

mod hostile; // any bytes as a bundle; fuzzed too

use std::io::Cursor;

use event::payload::{Artifact, SessionMode, SessionParent, SessionStarted};
use event::{Draft, EventId, Raw};
use journal::{Ancestry, AppendError, ArtifactError, Batch, ForkPolicy, Journal, ReadError};
use proptest::prelude::*;
use session::compaction::CompactionOptions;
use session::{
    BundleError, Extent, ForkOptions, Imported, Session, SessionError, export, export_redacted,
    import,
};

use crate::drafts::at;
use crate::worlds::{Kept, STORES, World, all, every_store, id, observe, told, write};

fn bundle(journal: &Journal, root: &str, extent: Extent) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(journal, &id(root), extent, &mut bytes).unwrap();
    bytes
}

fn take(journal: &Journal, bundle: &[u8]) -> Result<Imported, BundleError> {
    import(journal, &mut Cursor::new(bundle))
}

fn lines(bundle: &[u8]) -> Vec<String> {
    String::from_utf8(bundle.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

/// Observes how a session begins.
fn begin(world: &World, name: &str, started: &SessionStarted) {
    let event = EventId::derived(at(1), "test", name, b"began");
    let draft = Draft::new(event, id(name), at(1), started).unwrap();
    world.journal().append(Batch::observed().with(draft)).unwrap();
}

/// A family: `g` with artifacts, a fork `p` of it, a fork `f` of that which begins inside what
/// `p` inherited, and a child `c` of `f`.
fn family(world: &World) {
    let grand = world.session("g");
    write(&grand, 1, "prompt hello \n [cost=0.5] say m1 hi \n call m2 c1 bash ls");
    write(&grand, 4, "result c1 ok \u{0} \u{1F980} \n prompt more \n say m3 sure");
    let patch =
        Artifact { id: "patch".to_owned(), kind: "patch".to_owned(), ..Artifact::default() };
    grand.store_artifact(patch, Some(&mut "diff".as_bytes())).unwrap();
    write(&grand, 8, r#"artifact.recorded {"artifact":{"id":"https://x/y","kind":"link"}}"#);
    grand
        .summarize("hello and more", &CompactionOptions { keep: 1, ..Default::default() })
        .unwrap();
    let at = |at| ForkOptions { at: Some(at), label: Some("try".to_owned()), reason: None };
    grand.fork(id("p"), at(6)).unwrap();
    write(&world.open("p"), 20, "prompt in p \n made.up {\"big\":123456789012345678901234567890}");
    world.open("p").fork(id("f"), at(3)).unwrap();
    let fork = world.open("f");
    write(&fork, 30, "[turn=t1] result c1 ok again");
    fork.spawn_child(session::ChildSpec {
        agent_id: "digger".to_owned(),
        task: "dig".to_owned(),
        child_id: Some("c".to_owned()),
        ..Default::default()
    })
    .unwrap();
}

every_store! {
    fn bundle_includes_the_ancestors(world) {
        family(&world);
        let bytes = bundle(world.journal(), "f", Extent::Session);
        let other = World::new(world.kept);
        let imported = take(other.journal(), &bytes).unwrap();
        assert_eq!(imported.sessions, 3);
        for name in ["g", "p", "f"] {
            assert!(other.journal().exists(&id(name)).unwrap());
        }
        assert!(!other.journal().exists(&id("c")).unwrap());
        let (here, there) = (world.open("f"), other.open("f"));
        assert_eq!(all(&here), all(&there));
        assert_eq!(told(&here), told(&there));
        assert_eq!(here.live(), there.live());
        let lineage = other.journal().lineage(&id("f")).unwrap();
        assert_eq!(lineage, world.journal().lineage(&id("f")).unwrap());
        assert!(all(&other.open("g")).len() < all(&world.open("g")).len());
        // The rest of an ancestor can follow.
        take(other.journal(), &bundle(world.journal(), "g", Extent::Tree)).unwrap();
        assert_eq!(all(&world.open("g")), all(&other.open("g")));
        assert_eq!(all(&world.open("c")), all(&other.open("c")));
    }

    fn root_of_a_bundle_keeps_label_and_reason(world) {
        let root = Ancestry {
            label: Some("try".to_owned()),
            reason: Some("why not".to_owned()),
            ..Ancestry::root(id("r"), at(1))
        };
        world.journal().import_ancestry(vec![root]).unwrap();
        observe(&world, "r", 1, "prompt one");
        // A subagent whose parent is not in the bundle.
        write(&world.session("p"), 50, "prompt one");
        let parent = SessionParent { session_id: id("p"), seq: 0, event_id: None };
        let (label, reason) = (Some("dig".to_owned()), Some("deep".to_owned()));
        let mode = Some(SessionMode::Child);
        let parent = Some(parent);
        begin(&world, "c", &SessionStarted { parent, mode, label, reason, ..Default::default() });
        let words = |world: &World, name: &str| {
            let ancestry = world.journal().stat(&id(name)).unwrap().ancestry;
            (ancestry.label, ancestry.reason)
        };
        for (name, label, reason) in [("r", "try", "why not"), ("c", "dig", "deep")] {
            let bytes = bundle(world.journal(), name, Extent::Session);
            let line = lines(&bytes).remove(1);
            assert!(line.contains(label) && line.contains(reason), "{line}");
            let other = World::new(world.kept);
            take(other.journal(), &bytes).unwrap();
            assert_eq!(words(&other, name), words(&world, name));
            assert_eq!(words(&other, name), (Some(label.to_owned()), Some(reason.to_owned())));
            assert_eq!(bundle(other.journal(), name, Extent::Session), bytes);
            take(other.journal(), &bytes).unwrap();
        }
    }

    fn redacted_bundle_shows_no_words_of_its_root(world) {
        let (label, reason) = (Some("secret".to_owned()), Some("secret".to_owned()));
        begin(&world, "s", &SessionStarted { label, reason, ..Default::default() });
        let redact = |draft: &mut Draft| draft.data = Raw::default();
        let mut bytes = Vec::new();
        let written = export_redacted(
            world.journal(), &id("s"), Extent::Session, &redact, &mut bytes,
        );
        written.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("secret"), "{text}");
    }

    fn importing_again_changes_nothing(world) {
        family(&world);
        let bytes = bundle(world.journal(), "g", Extent::Tree);
        let other = World::new(world.kept);
        let first = take(other.journal(), &bytes).unwrap();
        assert_eq!((first.already_recorded, first.artifacts), (0, 1));
        let tail = other.journal().tail().unwrap();
        let second = take(other.journal(), &bytes).unwrap();
        assert_eq!((second.events, second.already_recorded), (0, first.events));
        assert_eq!(other.journal().tail().unwrap(), tail);
        // Also where it came from.
        assert_eq!(take(world.journal(), &bytes).unwrap().events, 0);
    }

    fn another_history_under_the_same_name_is_refused(world) {
        write(&world.session("s"), 1, "prompt one \n prompt two \n prompt three");
        let bytes = bundle(world.journal(), "s", Extent::Session);
        let other = World::new(world.kept);
        write(&other.session("s"), 1, "prompt one");
        write(&other.session("s"), 50, "prompt else");
        let refused = take(other.journal(), &bytes);
        assert!(matches!(refused, Err(BundleError::Diverged { at_seq: 2, .. })));
        assert_eq!(all(&other.open("s")).len(), 2);
        // One that only has the beginning gets the rest, one that goes on keeps its own.
        let behind = World::new(world.kept);
        write(&behind.session("s"), 1, "prompt one");
        assert_eq!(take(behind.journal(), &bytes).unwrap().events, 2);
        let ahead = World::new(world.kept);
        write(&ahead.session("s"), 1, "prompt one \n prompt two \n prompt three \n prompt four");
        assert_eq!(take(ahead.journal(), &bytes).unwrap().events, 0);
        assert_eq!(all(&ahead.open("s")).len(), 4);
    }

    fn second_source_gives_same_history(world) {
        write(&world.session("s"), 1, "prompt one");
        let bytes = bundle(world.journal(), "s", Extent::Session);
        let other = World::new(world.kept);
        let mut draft = crate::drafts::drafts_of("s", 1, "prompt one").remove(0);
        draft.observed_at = at(77);
        other.session("s").append(draft).unwrap();
        assert_eq!(take(other.journal(), &bytes).unwrap().already_recorded, 1);
    }

    fn an_id_that_another_session_has_is_refused_whole(world) {
        write(&world.session("s"), 1, "prompt one \n prompt two");
        let bytes = bundle(world.journal(), "s", Extent::Session);
        let other = World::new(world.kept);
        write(&other.session("t"), 2, "prompt taken");
        let refused = take(other.journal(), &bytes);
        assert!(matches!(refused,
            Err(BundleError::Session(SessionError::Append(AppendError::DuplicateId { .. })))));
        assert!(!other.journal().exists(&id("s")).unwrap());
    }

    fn a_cut_bundle_is_refused_whole(world) {
        family(&world);
        let bytes = bundle(world.journal(), "g", Extent::Tree);
        let other = World::new(world.kept);
        let lines = lines(&bytes);
        for keep in 0..lines.len() {
            let cut = lines[..keep].join("\n");
            assert!(take(other.journal(), cut.as_bytes()).is_err(), "{keep} lines");
        }
        let mut missing = lines.clone();
        missing.remove(5);
        assert!(take(other.journal(), missing.join("\n").as_bytes()).is_err());
        let mut behind = lines.clone();
        behind.push(lines[2].clone());
        let refused = take(other.journal(), behind.join("\n").as_bytes());
        assert!(matches!(refused, Err(BundleError::BadLine { .. })));
        assert_eq!(other.journal().tail().unwrap(), 0);
    }

    fn a_newer_format_is_left_alone(world) {
        write(&world.session("s"), 1, "prompt one");
        let bytes = bundle(world.journal(), "s", Extent::Session);
        let newer = String::from_utf8(bytes).unwrap().replacen("\"hansard_bundle\":1", "\"hansard_bundle\":2", 1);
        let refused = take(World::new(world.kept).journal(), newer.as_bytes());
        assert!(matches!(refused, Err(BundleError::NewerFormat { found: 2, supported: 1 })));
    }

    fn bodies_come_along_and_are_checked(world) {
        family(&world);
        let bytes = bundle(world.journal(), "g", Extent::Session);
        let other = World::new(world.kept);
        take(other.journal(), &bytes).unwrap();
        assert_eq!(other.journal().artifacts().read("patch").unwrap(), b"diff");
        let text = String::from_utf8(bytes).unwrap();
        // `diff` and `dift` in base 64.
        assert!(text.contains("ZGlmZg=="));
        let forged = text.replace("ZGlmZg==", "ZGlmdA==");
        let third = World::new(world.kept);
        let refused = take(third.journal(), forged.as_bytes());
        assert!(matches!(refused, Err(BundleError::Session(SessionError::Artifact(
            ArtifactError::DigestMismatch { .. }
        )))));
        assert!(!third.journal().exists(&id("g")).unwrap());
    }

    fn deleted_sessions_stay_deleted(world) {
        write(&world.session("s"), 1, "prompt one");
        let bytes = bundle(world.journal(), "s", Extent::Session);
        world.journal().delete(&id("s"), at(60), ForkPolicy::Refuse).unwrap();
        let refused = take(world.journal(), &bytes);
        assert!(matches!(refused,
            Err(BundleError::Session(SessionError::Append(AppendError::Deleted(..))))));
        assert!(!world.journal().exists(&id("s")).unwrap());
    }

    fn a_child_can_travel_without_its_parent(world) {
        family(&world);
        let bytes = bundle(world.journal(), "c", Extent::Session);
        let other = World::new(world.kept);
        assert_eq!(take(other.journal(), &bytes).unwrap().sessions, 1);
        assert_eq!(all(&other.open("c")), all(&world.open("c")));
        assert_eq!(bundle(other.journal(), "c", Extent::Session), bytes);
        // It finds its parent when that comes.
        take(other.journal(), &bundle(world.journal(), "f", Extent::Session)).unwrap();
        let lineage = other.journal().lineage(&id("c")).unwrap();
        assert_eq!(lineage, world.journal().lineage(&id("c")).unwrap());
        assert_eq!(bundle(other.journal(), "f", Extent::Tree), bundle(world.journal(), "f", Extent::Tree));
    }

    fn a_fork_whose_parent_was_deleted_can_travel(world) {
        family(&world);
        world.journal().delete(&id("g"), at(99), ForkPolicy::Copy).unwrap();
        let bytes = bundle(world.journal(), "f", Extent::Session);
        let other = World::new(world.kept);
        take(other.journal(), &bytes).unwrap();
        assert_eq!(all(&other.open("f")), all(&world.open("f")));
        assert_eq!(all(&other.open("p")), all(&Session::at_seq(&world.host, id("p"), 3).unwrap()));
        assert_eq!(bundle(other.journal(), "f", Extent::Session), bytes);
    }

    fn an_unknown_session_cannot_be_exported(world) {
        let mut bytes = Vec::new();
        let refused = export(world.journal(), &id("s"), Extent::Session, &mut bytes);
        assert!(matches!(refused, Err(BundleError::Session(SessionError::Read(
            ReadError::SessionNotFound(_)
        )))));
        assert!(bytes.is_empty());
    }

    fn redacted_bundle_has_no_bodies(world) {
        family(&world);
        let mut bytes = Vec::new();
        let redact = |draft: &mut Draft| {
            draft.data = Raw::parse(draft.data.get().replace("hello", "█████")).unwrap();
        };
        export_redacted(world.journal(), &id("g"), Extent::Session, &redact, &mut bytes).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.lines().next().unwrap().contains("\"redacted\":true"));
        assert!(!text.contains("hello") && !text.contains("ZGlmZg=="));
        let other = World::new(world.kept);
        take(other.journal(), &bytes).unwrap();
        assert_eq!(all(&other.open("g")).len(), all(&world.open("g")).len());
    }
}

#[test]
fn every_store_writes_the_same_bytes_back() {
    for from in STORES {
        let source = World::new(from);
        family(&source);
        for extent in [Extent::Session, Extent::Tree] {
            for root in ["g", "p", "f", "c"] {
                let bytes = bundle(source.journal(), root, extent);
                for to in STORES {
                    let target = World::new(to);
                    take(target.journal(), &bytes).unwrap();
                    let again = bundle(target.journal(), root, extent);
                    assert_eq!(lines(&bytes), lines(&again), "{root} from {from:?} to {to:?}");
                }
            }
        }
    }
}

#[test]
fn bundle_imports_in_two_parts() {
    let source = World::new(Kept::Memory);
    family(&source);
    let whole = bundle(source.journal(), "g", Extent::Tree);
    for first in ["g", "p", "f", "c"] {
        let target = World::new(Kept::Memory);
        take(target.journal(), &bundle(source.journal(), first, Extent::Session)).unwrap();
        take(target.journal(), &whole).unwrap();
        let again = bundle(target.journal(), "g", Extent::Tree);
        assert_eq!(lines(&whole), lines(&again), "{first} first");
    }
}

fn small_bundle() -> Vec<u8> {
    let source = World::new(Kept::Memory);
    family(&source);
    bundle(source.journal(), "f", Extent::Tree)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn hostile_bytes_never_break_a_journal(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = small_bundle();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        hostile::check(&bytes);
    }

    #[test]
    fn hostile_lines_never_break_a_journal(
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..4),
    ) {
        let mut lines = lines(&small_bundle());
        for (from, to, what) in moves {
            let (from, to) = (from.index(lines.len()), to.index(lines.len()));
            match what {
                0 => lines.swap(from, to),
                1 => lines.insert(to, lines[from].clone()),
                _ => drop(lines.remove(from)),
            }
        }
        hostile::check(lines.join("\n").as_bytes());
    }

    #[test]
    fn numbers_in_a_bundle_may_be_anything(place in any::<prop::sample::Index>(), number: u64) {
        let mut lines = lines(&small_bundle());
        let seq = regex_free_seq(&lines, place);
        if let Some((at, old)) = seq {
            lines[at] = lines[at].replacen(&old, &format!("\"seq\":{number}"), 1);
        }
        hostile::check(lines.join("\n").as_bytes());
    }
}

/// The first `"seq":n` of some line.
fn regex_free_seq(lines: &[String], place: prop::sample::Index) -> Option<(usize, String)> {
    let at = place.index(lines.len());
    let begin = lines[at].find("\"seq\":")?;
    let digits = lines[at][begin + 6..].chars().take_while(char::is_ascii_digit).count();
    Some((at, lines[at][begin..begin + 6 + digits].to_owned()))
}
