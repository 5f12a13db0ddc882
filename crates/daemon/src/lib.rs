//! Wires the parts together: what capture reads goes into the journal, what the journal holds is
//! told on the bus and folded into what people look at.
//!
//! Not here: parsing (`capture`), keeping (`journal`), counting (`projection`), printing (`cli`).

mod up; // the daemon: start, loop and stop
mod instance; // one daemon for a journal
mod capturing; // capture inside the daemon
mod news; // what was committed, told on the bus
mod notifications; // people are told of sessions that need them
mod cortex; // events as messages
mod requests; // who asks for an agent is answered
mod front; // the door for pages and programs
mod live; // what sessions are doing, for those who watch
mod hots; // the newest part of sessions somebody looks at
mod turns; // their turns
mod asked; // what agents asked to be allowed
mod feed; // what happened, over all sessions
mod work; // how the work went
mod facets; // what there is to choose from
mod adapters; // how it stands with each agent
mod family; // who a session belongs to
mod resume; // how to go on with a session
mod documents; // sessions as documents and notes
mod pictures; // pictures in what agents wrote
mod answering; // what can be asked over HTTP
mod past; // the journal as the bus reads it
mod import; // how far history has been read
mod opened; // the journal that is open now
mod health; // how the daemon does
mod log; // what the daemon says of itself
mod ingest; // everything agents have written, into the journal
mod keeping; // what is kept beside the log meanwhile
mod intake; // where hooks hand over their calls
mod daybook; // what was taken and not heard yet, written down
mod hearing; // what becomes of them
mod telemetry; // what agents export about themselves
mod hook_log; // what is remembered of hooks that called
mod hook_install; // our entries in the settings of agents
mod tray; // files that are left for us
mod spool; // calls that nobody took
mod signals; // what hooks left to be heard
mod facts; // what sessions add up to
mod listing; // sessions as people list them
pub mod answers; // what is known, in the shapes others read
mod surroundings; // what can be seen around sessions: registries, locks, processes
mod statuses; // what each session is doing
mod chronicles; // the epochs of sessions and what is worth keeping of them
mod day_digest; // what was done on a day
mod segment; // an epoch that is over, as a folder of its own
mod dream; // what is made of segments once they are there
mod chain; // from an epoch that closes to what people read of it
mod chaining; // the chain as a part of the daemon
mod asking; // a model is asked what was worth keeping
mod zone; // the time on the wall
mod settings; // what people have set
mod admission; // which sessions are recorded
mod delete; // a session and everything that was kept of it
mod project; // which project a session works on
mod recorder; // the journal as capture sees it

pub use asked::{Which, approvals};
pub use chain::{Begun, Chain, ChainError, Hands, HandsError, Site, Went};
pub use chaining::ChainingError;
pub use chronicles::chronicle_of;
pub use day_digest::{DayDigest, ProjectDay, SessionDay};
pub use delete::{DeleteError, delete};
pub use documents::{Secrets, WriteError, handoff_note, write_document, write_events};
pub use dream::{Dream, DreamError, Told};
pub use facts::{KeptFacts, UnknownKind, facts_of, unknown_records};
pub use front::{Keys, TokenError, keys};
pub use health::Condition;
pub use hearing::{hook_call, signal_of};
pub use hook_install::{
    EntriesError, HookChange, HookInstall, HookInstallError, HookStatus, PlaceError, SyntaxError,
    agents_with_hooks,
};
pub use hook_log::{HookFailure, HookLog};
pub use import::{Import, Slice, Stage};
pub use ingest::{Ingest, IngestError, Ingested};
pub use instance::{InstanceError, Running, socket};
pub use listing::{Listing, ListingError, prices, spending};
pub use log::Echo;
pub use requests::RequestsError;
pub use resume::Way;
pub use segment::{Described, Meta, Segment, SegmentError, SegmentKey, Transcribed};
pub use settings::{Settings, SettingsError, Switches};
pub use signals::{Signal, Signals};
pub use spool::Spool;
pub use statuses::{SessionStatus, Statuses};
pub use supervise::Day;
pub use surroundings::{ProcessTable, Processes, Sought, Started, Surroundings};
pub use tray::Round;
pub use up::{Daemon, EndError, Remote, Up, UpError};
pub use zone::Zone;
