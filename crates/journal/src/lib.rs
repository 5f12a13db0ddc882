//! The durable record of everything that happened.
//!
//! Events come in as batches through one writer; a batch, its source position and everything
//! derived from it in the catalogue is one transaction. Positions rise by one with the commit
//! and are never used again. Readers work on what was committed and never wait for the writer.
//!
//! Not here: what events mean (`event`), what a session is to its host (`session`), who is told
//! beyond this process.

mod journal; // the door to everything
mod options; // how it is opened
mod batch; // what is appended, and what comes back
mod intake; // limits, on the appender's thread
mod writer; // the one writer: gathers, commits, tells
mod commit; // what a batch becomes on top of what is recorded
mod known; // the ids the writer recognises
mod recorded; // an event with its position
mod read; // a session as a range of events, inherited ones included
mod fork; // the ids a fork shows
mod feed; // what was just committed
mod backlog; // what is not searchable yet
mod follow; // history and news as one stream
mod lineage; // who comes from whom
mod catalogue; // what there is, without reading events
mod artifact; // bodies beside the log
mod originals; // what sources said, byte for byte
mod event_search; // events as documents of the full-text index
mod corpus; // the log as search reads it
mod derived; // the search index and saved views, beside the log
mod indexer; // keeps the index close behind
mod doctor; // is the record sound
mod store; // what a store is, and the stores
mod lock; // whose turn it is, among processes
mod folder; // what only its owner can read
mod file; // files that are whole, and still there after a crash
mod name; // a file name for any text
mod limit; // every limit, with its answer
mod error;

pub use ::search::{HITS_DEFAULT, HITS_MAX, MatchMode, Order};
pub use artifact::{ArtifactBody, Artifacts, BodyReader, Expected};
pub use batch::{Ancestry, Appended, Batch, Door, Receipt, Recording, SourceMove};
pub use catalogue::{SessionFilter, SessionInfo, SessionPage};
pub use doctor::Check;
pub use error::{
    AppendError, ArtifactError, Damage, LineageError, OpenError, ReadError, StorageError,
};
pub use event_search::{EventHit, Query, SearchPage};
pub use feed::Live;
pub use follow::{Ended, Followed, From, OnLag, Subscription, Waker};
pub use journal::{Forks, Journal, Sighting, View};
pub use limit::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_BYTES_MAX, JSON_DEPTH_MAX, METADATA_BYTES_MAX,
};
pub use lock::{Claim, ClaimError};
pub use options::{Access, Durability, Options, StoreKind};
pub use originals::Originals;
pub use read::{Events, Mode, Selection};
pub use recorded::Recorded;
pub use store::{Capabilities, Direction, Finding};
pub use writer::Ticket;
