//! What agents write, as events.
//!
//! An [`Agent`] knows where one agent keeps its sessions and what its records mean; it does no IO.
//! Everything around it is the same for all: finding sources, reading each byte once, knowing how
//! far, and handing events and position over together. The same bytes give the same events, in
//! any split and at any time.
//!
//! Not here: where events are kept (a [`Sink`] takes them), what they add up to (`projection`).

mod agent; // the contract, and the table of agents
mod environment; // home and variables, handed in
mod source; // a place an agent writes to
mod discover; // which sources there are
mod record; // one complete record
mod json; // parts of a record, read no further than needed
mod told; // what a parser makes of records
mod thread; // what is known of a session while it is read
mod branches; // where prompts go back to
mod kinship; // whom a source may repeat
mod identity; // which fact an event is
mod position; // how far a source was read
mod seen; // whether it can have news
mod records; // what the forms of sources have in common
mod lines; // a source of lines
mod blocks; // a source of text in blocks
mod documents; // a source that is written anew each time
mod rows; // a source that is a session in a database
mod database; // somebody else's database
mod reading; // one source, from its position on
mod lineage; // where a source leaves the history it goes on with
mod sink; // who takes the events
mod admission; // what people do not want recorded
mod known; // which sources were read before
mod origin; // where a session leaves the one it repeats
mod age; // which of several was begun first
mod late; // a session that is repeated before it is read
mod stop; // how a pass is asked to end
mod pump; // everything there is, once
mod survey; // what is there, without reading it
mod sign; // what somebody beside the source says of a session
mod tellers; // which source tells of a session
mod hook; // what hooks say
mod telemetry; // what agents export about themselves
mod reparse; // everything once more, from what was kept
mod silence; // what the clock says of them
mod watch; // then, as it is written
mod hints; // what the system tells of files
mod schedule; // when to look again
mod glance; // whether that can find more
mod misses; // what notifications did not tell
mod troubles; // what was said of those that cannot be read
mod limit; // every limit, with its answer
mod error;

pub use admission::Admission;
pub use agent::{
    AGENTS, Agent, Cursor, Form, Found, Gemini, Goose, Kin, Marks, OpenCode, Parser, Role, Root,
};
pub use environment::Environment;
pub use error::{CaptureError, Warning, WarningKind};
pub use hook::{
    Heard, HookForm, HookMap, HookMemory, HookPlace, HookRow, Hooked, Payload, Says, Untold,
    hooked, untold,
};
pub use identity::Identity;
pub use position::{
    SessionFile, file_of_session, files_of_sessions, sessions_by_source, sessions_without_source,
};
pub use pump::{Progress, Pump, Summary, not_understood};
pub use record::{Record, Text};
pub use rows::{Schema, Way};
pub use sign::{Heeded, Sign, SignKind};
pub use sink::{Batch, Kept, KnownSource, Original, Sink, SinkError, UnknownRecord};
pub use source::Source;
pub use stop::Stop;
pub use survey::{Surveyed, survey};
pub use telemetry::{
    Encoding, Exported, Reported, Signal, Telemetry, TelemetryError, TelemetryMap, TelemetryRow,
    Tells, telemetry,
};
pub use tellers::Tellers;
pub use thread::Settings;
pub use told::{Child, Told, argument, brief, questions, shown};
pub use watch::{Errand, Ringer, Stopper, Watch};
