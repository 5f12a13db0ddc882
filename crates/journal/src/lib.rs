//! The durable record of everything that happened: an append-only log of events.
//!
//! Events come in as batches through one writer thread. A batch, the checkpoint of its source and
//! everything derived from it in the catalogue are one transaction. Positions rise by one with each
//! event and are never used again. Readers work on what was committed and never wait for the
//! writer.
//!
//! Not here: what events mean (`event`), what a session is to its host (`session`), subscribers in
//! other processes (`bus`, `serve`).

mod journal; // the handle: open, append, read, follow, search
mod options; // how a journal is opened
mod batch; // what is appended, and the receipt
mod prepare; // limits, checked on the appender's thread
mod writer; // the one writer thread: group commit, then publish
mod commit; // what a batch becomes on top of what is recorded
mod session_row; // how the row of a session follows its events
mod id_cache; // the ids the writer keeps to recognise duplicates
mod recorded; // an event with its position
mod read; // a session as a range of events, inherited ones included
mod fork; // the ids that a fork shows
mod feed; // ring buffer of what was just committed
mod backlog; // committed events that are not searchable yet
mod follow; // subscriptions: history and new events as one stream
mod lineage; // parents, children, ancestry
mod catalogue; // sessions and their counters, without reading events
mod artifact; // bodies of artifacts beside the log
mod originals; // the bytes of sources, beside the log
mod event_search; // events as documents of the full-text index
mod corpus; // the log as search reads it
mod derived; // the search index and saved views, in a file of their own
mod indexer; // the thread that keeps the index close behind the log
mod doctor; // verification and repair
mod recovery; // lost events, from what they were read from
mod store; // the trait of a store, and the stores
mod lock; // advisory locks among processes
mod folder; // private folders
mod file; // private files, written atomically
mod name; // a safe file name for any text
mod limit; // every limit, with what happens when it is reached
mod error;

pub use ::search::{HITS_DEFAULT, HITS_MAX, MatchMode, Order};
pub use artifact::{ArtifactBody, Artifacts, BodyReader, ExpectedBody};
pub use batch::{Ancestry, AppendMode, AppendOutcome, Batch, EventReceipt, Receipt, SourceMove};
pub use catalogue::{SessionFilter, SessionInfo, SessionPage};
pub use doctor::Check;
pub use error::{
    AppendError, ArtifactError, Damage, LineageError, OpenError, ReadError, StorageError,
};
pub use event_search::{EventHit, Query, SearchPage};
pub use feed::LiveEvent;
pub use follow::{Delivery, FollowError, FollowFrom, OnLag, Subscription, SubscriptionWaker};
pub use fork::inherited_id;
pub use journal::{ForkPolicy, Journal, Sighting, View};
pub use limit::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_BYTES_MAX, JSON_DEPTH_MAX, METADATA_BYTES_MAX,
};
pub use lock::{Claim, ClaimError};
pub use options::{Access, Durability, Options, StoreKind};
pub use originals::{OriginalPart, Originals, StoredPart, StoredParts};
pub use read::{Events, ReadMode, Selection};
pub use recorded::Recorded;
pub use recovery::Recovery;
pub use store::{Capabilities, CheckFinding, Direction};
pub use writer::PendingAppend;
