//! Artifacts of a session: bodies beside the log, described in it.

use std::io::Read;

use event::payload::{Artifact, ArtifactRecorded};
use journal::ArtifactError;
use session::{ChildSpec, Session, SessionError};

use crate::worlds::{Kept, World, all, every_store, id};

fn artifact(name: &str) -> Artifact {
    Artifact { id: name.to_owned(), kind: "patch".to_owned(), ..Artifact::default() }
}

fn recorded(session: &Session) -> ArtifactRecorded {
    let last = session.last_event().unwrap().unwrap();
    last.payload().unwrap().unwrap()
}

every_store! {
    fn producer_is_filled_in(world) {
        let session = world.session("s");
        let bare = ArtifactRecorded { artifact: artifact("x"), child_id: None, session_id: None };
        session.record_artifact(bare.clone()).unwrap();
        let fact = recorded(&session);
        assert_eq!(fact.session_id, Some(id("s")));
        assert_eq!(fact.artifact.producer_session_id, Some(id("s")));
        let mut other = bare;
        other.session_id = Some(id("t"));
        other.artifact.producer_session_id = Some(id("u"));
        session.record_artifact(other).unwrap();
        let fact = recorded(&session);
        assert_eq!(fact.session_id, Some(id("t")));
        assert_eq!(fact.artifact.producer_session_id, Some(id("u")));
    }

    fn a_stored_artifact_is_readable_and_recorded(world) {
        let session = world.session("s");
        let mut described = artifact("x");
        described.label = Some("the change".to_owned());
        let stored = session.store_artifact(described, Some(&mut "diff".as_bytes())).unwrap();
        assert_eq!(stored.size, Some(4));
        assert_eq!(recorded(&session).artifact, stored);
        assert_eq!(stored.label.as_deref(), Some("the change"));
        let journal = world.reopened();
        let body = journal.journal().artifacts().read("x").unwrap();
        assert_eq!(body, b"diff");
        assert_eq!(journal.journal().artifacts().stat("x").unwrap().digest, stored.digest.unwrap());
    }

    fn an_artifact_is_found_by_its_id(world) {
        let session = world.session("s");
        let missing = session.stat_artifact("x");
        assert!(matches!(missing, Err(SessionError::Artifact(ArtifactError::ArtifactNotFound(_)))));
        let prompt = session.append_prompt("change it").unwrap();
        let mut described = artifact("x");
        described.label = Some("the change".to_owned());
        described.producer_event_id = Some(prompt.id);
        let stored = session.store_artifact(described, Some(&mut "diff".as_bytes())).unwrap();
        session.store_artifact(artifact("y"), Some(&mut "other".as_bytes())).unwrap();
        let reopened = Session::open(&world.reopened(), id("s")).unwrap();
        let found = reopened.stat_artifact("x").unwrap();
        assert_eq!((found.artifact, found.child_id), (stored, None));
        let mut body = String::new();
        reopened.open_artifact("x").unwrap().read_to_string(&mut body).unwrap();
        assert_eq!(body, "diff");
        // A body of another session is not this session's to give.
        assert!(world.session("t").open_artifact("x").is_err());
    }

    fn an_artifact_of_a_child_names_the_child(world) {
        let parent = world.session("p");
        let spec = ChildSpec { agent_id: "digger".into(), task: "dig".into(), ..Default::default() };
        parent.spawn_child(ChildSpec { child_id: Some("c".into()), ..spec }).unwrap();
        let body: &mut dyn Read = &mut "diff".as_bytes();
        let stored = parent.store_child_artifact("c", artifact("x"), Some(body)).unwrap();
        assert_eq!(stored.producer_session_id, Some(id("c")));
        let found = parent.stat_artifact("x").unwrap();
        assert_eq!((found.child_id.as_deref(), found.session_id), (Some("c"), Some(id("c"))));
        assert_eq!(parent.child("c").unwrap().artifacts, [stored]);
        let body: &mut dyn Read = &mut "diff".as_bytes();
        let unknown = parent.store_child_artifact("x", artifact("z"), Some(body));
        assert!(matches!(unknown, Err(SessionError::ChildNotFound { .. })));
        assert!(world.journal().artifacts().stat("z").is_err());
    }

    fn without_a_body_nothing_is_stored(world) {
        let session = world.session("s");
        let refused = session.store_artifact(artifact("x"), None);
        assert!(matches!(refused, Err(SessionError::BadArgument { .. })));
        assert!(all(&session).is_empty());
    }

    fn a_wrong_size_or_digest_stores_nothing(world) {
        let session = world.session("s");
        let sized = Artifact { size: Some(5), ..artifact("x") };
        let refused = session.store_artifact(sized, Some(&mut "diff".as_bytes()));
        assert!(matches!(refused,
            Err(SessionError::Artifact(ArtifactError::SizeMismatch { expected: 5, actual: 4, .. }))));
        let digest = Some(format!("sha256:{}", "0".repeat(64)));
        let digested = Artifact { digest, ..artifact("x") };
        let refused = session.store_artifact(digested, Some(&mut "diff".as_bytes()));
        assert!(matches!(refused,
            Err(SessionError::Artifact(ArtifactError::DigestMismatch { .. }))));
        assert!(world.journal().artifacts().stat("x").is_err());
        assert!(all(&session).is_empty());
    }

    fn bad_ids_are_refused_everywhere(world) {
        let session = world.session("s");
        let bodies = world.journal().artifacts();
        let bad = |error: ArtifactError| assert!(matches!(error, ArtifactError::BadArtifactId(_)));
        for name in ["", " ", "../escape", "nested/id", "nested\\id", ".", ".."] {
            match session.store_artifact(artifact(name), Some(&mut "x".as_bytes())) {
                Err(SessionError::Artifact(error)) => bad(error),
                other => panic!("{name}: {other:?}"),
            }
            bad(bodies.stat(name).unwrap_err());
            bad(bodies.open(name).err().unwrap());
        }
        let blank = ArtifactRecorded { artifact: artifact(" "), child_id: None, session_id: None };
        assert!(session.record_artifact(blank).is_err());
        assert!(all(&session).is_empty());
    }

    fn an_id_keeps_its_bytes(world) {
        let session = world.session("s");
        let store = |body: &str| session.store_artifact(artifact("x"), Some(&mut body.as_bytes()));
        store("diff").unwrap();
        store("diff").unwrap();
        let refused = store("other");
        assert!(matches!(refused, Err(SessionError::Artifact(ArtifactError::ArtifactExists(_)))));
        assert_eq!(world.journal().artifacts().read("x").unwrap(), b"diff");
    }

    fn sessions_that_share_a_body_are_independent(world) {
        for (session, name) in [("s", "x"), ("t", "y")] {
            let session = world.session(session);
            session.store_artifact(artifact(name), Some(&mut "diff".as_bytes())).unwrap();
        }
        world.journal().delete(&id("s"), crate::drafts::at(0), journal::ForkPolicy::Refuse).unwrap();
        assert_eq!(world.journal().artifacts().read("y").unwrap(), b"diff");
    }

    fn past_session_stores_nothing(world) {
        let session = world.session("s");
        session.append_prompt("hello").unwrap();
        let then = Session::at_seq(&world.host, id("s"), 1).unwrap();
        let refused = then.store_artifact(artifact("x"), Some(&mut "diff".as_bytes()));
        assert!(matches!(refused, Err(SessionError::ReadOnly(_))));
        assert!(world.journal().artifacts().stat("x").is_err());
    }
}

#[test]
fn a_failing_body_leaves_no_event() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    for kept in [Kept::Memory, Kept::Sqlite] {
        let world = World::new(kept);
        let session = world.session("s");
        assert!(session.store_artifact(artifact("x"), Some(&mut Broken)).is_err());
        assert!(all(&session).is_empty());
    }
}
