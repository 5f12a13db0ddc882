//! A journal of each kind, with a clock and ids that count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Event, EventId, SessionId, Time};
use journal::{Batch, Durability, EventReceipt, Journal, Options, StoreKind};
use session::{Host, Session, Stamps};
use tempfile::TempDir;

use crate::drafts::{at, drafts_of};
use crate::log::render;

/// The stores a case runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    Memory,
    Sqlite,
    Files,
}

/// Every store, for cases about two of them.
pub(crate) const STORES: [Kept; 3] = [Kept::Memory, Kept::Sqlite, Kept::Files];

/// A journal and what a session needs of the world.
pub(crate) struct World {
    pub(crate) kept: Kept,
    pub(crate) host: Host,
    stamps: Arc<Counting>,
    dir: Option<TempDir>,
}

/// Makes a test of each case for each store.
macro_rules! every_store {
    ($($(#[$attribute:meta])* fn $name:ident($world:ident) $body:block)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;
                use $crate::worlds::{Kept, World};

                fn case($world: World) $body

                #[test]
                fn memory() {
                    case(World::new(Kept::Memory));
                }

                #[test]
                fn sqlite() {
                    case(World::new(Kept::Sqlite));
                }

                #[test]
                fn files() {
                    case(World::new(Kept::Files));
                }
            }
        )*
    };
}
pub(crate) use every_store;

/// One second and one id after the other.
struct Counting {
    next: AtomicU64,
}

impl Stamps for Counting {
    fn now(&self) -> Time {
        at(self.next.load(Ordering::SeqCst) as i64)
    }

    fn tail(&self) -> [u8; 10] {
        let n = self.next.fetch_add(1, Ordering::SeqCst);
        // Apart from the ids of written lines, which count too.
        let mut tail = [1; 10];
        tail[2..].copy_from_slice(&n.to_be_bytes());
        tail
    }
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

impl World {
    pub(crate) fn new(kept: Kept) -> World {
        let dir = (kept != Kept::Memory).then(|| tempfile::tempdir().unwrap());
        let stamps = Arc::new(Counting { next: AtomicU64::new(1) });
        let host = Host::new(journal(kept, dir.as_ref()), stamps.clone());
        World { kept, host, stamps, dir }
    }

    pub(crate) fn stamps(&self) -> Arc<dyn Stamps> {
        self.stamps.clone()
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.host.journal()
    }

    /// The same journal, opened once more; one in memory is what it was.
    pub(crate) fn reopened(&self) -> Host {
        match &self.dir {
            None => self.host.clone(),
            Some(dir) => Host::new(journal(self.kept, Some(dir)), self.stamps.clone()),
        }
    }

    pub(crate) fn session(&self, name: &str) -> Session {
        Session::open_or_create(&self.host, id(name)).unwrap()
    }

    pub(crate) fn open(&self, name: &str) -> Session {
        Session::open(&self.host, id(name)).unwrap()
    }
}

fn journal(kept: Kept, dir: Option<&TempDir>) -> Journal {
    // No power cut happens here, and syncing is most of what a test would wait for.
    let (store, durability) = match (kept, dir) {
        (Kept::Sqlite, Some(_)) => (StoreKind::Sqlite, Durability::Relaxed),
        (Kept::Files, Some(_)) => (StoreKind::Files, Durability::Full),
        _ => return Journal::in_memory(),
    };
    let options = Options { store, durability, ..Options::default() };
    Journal::open_or_create(&dir.unwrap().path().join("journal"), &options).unwrap()
}

/// Appends the lines one by one, with ids from `first` on (see `drafts`).
pub(crate) fn write(session: &Session, first: u64, text: &str) -> Vec<EventReceipt> {
    let drafts = drafts_of(session.session_id().as_str(), first, text);
    drafts.into_iter().map(|draft| session.append(draft).unwrap()).collect()
}

/// Puts the lines into the journal as they were seen elsewhere, one by one.
pub(crate) fn observe(world: &World, session: &str, first: u64, text: &str) {
    for draft in drafts_of(session, first, text) {
        world.journal().append(Batch::observed().with(draft)).unwrap();
    }
}

pub(crate) fn all(session: &Session) -> Vec<Event> {
    session.events().unwrap().map(Result::unwrap).collect()
}

/// The effective history as text.
pub(crate) fn told(session: &Session) -> String {
    render(&session.effective().unwrap())
}

pub(crate) fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

pub(crate) fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}
