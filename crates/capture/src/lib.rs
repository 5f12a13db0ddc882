//! Turns what agents write into events.
//!
//! An [`Agent`] knows where one agent keeps its sessions and what its records mean; it does no IO.
//! Everything around it is the same for all agents: the walk that finds sources, the tailer that
//! reads each byte once, and the checkpoint that goes to the sink together with the events before
//! it. The same bytes give the same events, in any split and at any time.
//!
//! Not here: where events are stored (a [`Sink`] takes them), what they add up to (`projection`).

mod agent; // the contract of one agent, and the table of agents
mod environment; // home folder and variables, handed in
mod source; // a place an agent writes to
mod discover; // the walk that lists the sources
mod record; // one complete record
mod event_builder; // drafts of events from records
mod thread_state; // what is known of one session while its source is read
mod branches; // the points that prompts go back to
mod identity; // which fact an event is
mod checkpoint; // how far a source was read
mod checkpoint_stat; // the part of a checkpoint that shows whether there is news
mod record_reader; // what the forms of sources have in common
mod line_reader; // a source of lines
mod stoppable; // a file with lines of any length
mod packed_text; // the text of a compressed source
mod block_reader; // a source of text in blocks
mod document_reader; // a source that is written anew each time
mod row_reader; // a source that is a session in a database
mod row_record; // a row of it as a record
mod database; // read-only access to an agent's database
mod database_guard; // what a query of it may cost, and which databases wait
mod tailer; // one source, read from its checkpoint on
mod lineage; // parent, fork or new: the rules, without IO
mod sink; // the journal, as capture sees it
mod admission; // what the user does not want recorded
mod known_sources; // which sources were read before
mod stop_flag; // asks a pass to end early
mod ingester; // one pass over all sources
mod survey; // what is there, without reading it
mod signal; // ends of turns, sessions and epochs that hooks announce
mod source_index; // which source holds a session
mod hook; // calls of hooks
mod telemetry; // what agents export about themselves
mod original; // what originals say beside the bytes of their source
mod retelling; // a stored original, parsed once more
mod reparse; // what newer parsers understand of the originals
mod restore; // what a damaged journal has lost, from the originals
mod silence; // epochs that end because nothing follows
mod source_watcher; // reads on while agents write
mod hints; // notifications of the file system
mod schedule; // when each source is polled again
mod file_stamp; // whether another poll can find more
mod missed_events; // changes that no notification announced
mod warning_dedup; // each warning once, until its cause is gone
mod limit; // every limit, with what happens when it is reached
mod error;

pub use admission::Admission;
pub use agent::{
    AGENTS, Agent, BlockMarks, Cursor, Gemini, Goose, LineageHint, OpenCode, Parser,
    RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
pub use checkpoint::{
    SessionFile, file_of_session, files_of_sessions, sessions_by_source, sessions_without_source,
};
pub use database_guard::{DatabaseGuard, QueryLimit};
pub use environment::Environment;
pub use error::{CaptureError, Warning, WarningKind};
pub use event_builder::{ChildCall, EventBuilder, argument, call_line, preview_text, questions};
pub use hook::{
    AnswerForm, AnswerMoment, AnswerRow, AnswerableCall, CalledTool, HookAnswer, HookForm, HookMap,
    HookMeaning, HookMemory, HookOnlyEvent, HookPlace, HookRow, Payload, Subagent,
    has_hook_only_facts, hook_only_events, read_hook,
};
pub use identity::EventIdentity;
pub use ingester::{IngestProgress, IngestSummary, Ingester, describe_unknown};
pub use record::{RecordText, SourceRecord};
pub use restore::{RestoreScope, RestoreSummary, StoredSource};
pub use row_reader::{DatabaseSchema, RowQuery};
pub use signal::SignalOutcome;
pub use sink::{
    Batch, KnownSource, Original, OriginalChunk, Sink, SinkError, StoredOriginal, UnknownRecord,
};
pub use source::Source;
pub use source_index::SourceIndex;
pub use source_watcher::{RoundTask, SourceWatcher, Waker, WatchStopper};
pub use stop_flag::StopFlag;
pub use survey::{SourceSurvey, survey_sources};
pub use telemetry::{
    OtlpEncoding, OtlpRecord, OtlpSignal, Telemetry, TelemetryError, TelemetryFact, TelemetryMap,
    TelemetryMeaning, TelemetryRow, telemetry,
};
pub use thread_state::SessionSettings;
