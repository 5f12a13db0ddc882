//! The contract between capture and the adapter of one agent.
//!
//! A new agent is one file below this one, its fixtures and a row in [`AGENTS`].

mod calls; // calls that wait for their results
mod claude;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod pi;
mod qwen;

use std::path::{Path, PathBuf};

use event::Time;

pub use self::cursor::Cursor;
pub use self::gemini::Gemini;
pub use self::goose::Goose;
pub use self::opencode::OpenCode;
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::hook::HookMap;
use crate::record::SourceRecord;
use crate::row_reader::DatabaseSchema;
use crate::source::Source;
use crate::telemetry::TelemetryMap;

/// All supported agents.
pub static AGENTS: &[&dyn Agent] = &[
    &claude::Claude,
    &codex::Codex,
    &copilot::Copilot,
    &cursor::Cursor,
    &gemini::Gemini,
    &goose::Goose,
    &opencode::OpenCode,
    &pi::Pi,
    &qwen::Qwen,
];

/// The adapter of one agent. It does no IO and decides nothing about storage, status or display.
pub trait Agent: Sync {
    /// The word events carry as `provider`.
    fn provider(&self) -> &'static str;

    /// Folders that may hold sources. The agent's own variables win. A missing folder is no error.
    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot>;

    /// Recognises the source at `path` below a root by the path alone; `None` for other files.
    fn recognise(&self, path: &Path) -> Option<RecognizedSource>;

    /// Which sessions a new source may repeat, from its first bytes.
    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        let _ = head;
        LineageHint::default()
    }

    /// The rank of a form. Of several sources of one session those with the lowest rank are read.
    fn form_rank(&self, form: SourceForm) -> u8 {
        let _ = form;
        0
    }

    /// The layouts of the agent's databases.
    fn database_schemas(&self) -> &'static [DatabaseSchema] {
        &[]
    }

    /// The facts in the agent's telemetry.
    fn telemetry(&self) -> Option<&'static TelemetryMap> {
        None
    }

    /// The agent's own command that resumes a session.
    fn resume_command(&self, session: &str, cwd: Option<&str>) -> Option<Vec<String>> {
        let _ = (session, cwd);
        None
    }

    /// The facts in calls of the agent's hooks.
    fn hook_map(&self) -> Option<&'static HookMap> {
        None
    }

    /// Makes a parser for a source, or restores one from [`Parser::save_state`].
    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser>;
}

/// Turns the records of one source into events, in their order.
pub trait Parser {
    /// Parses one record. It never fails: a record that is not understood becomes an `unknown` event.
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>);

    /// The session of the records, where the path of the source does not contain it.
    fn session_id(&self) -> Option<&str> {
        None
    }

    /// Whether an event is held back because the next record may add to it.
    fn holds_event(&self) -> bool {
        false
    }

    /// Adds the event that is held back: the source is quiet, so nothing will follow.
    fn flush_held(&mut self, builder: &mut EventBuilder<'_>) {
        let _ = builder;
    }

    /// The records so far are copies from another session; those that follow are the session's own.
    fn own_begins(&mut self) {}

    /// The state to go on from later, as JSON of at most 4 KiB. It is stored with every checkpoint, so
    /// nothing in it may grow with the source.
    fn save_state(&self) -> String;
}

/// A folder where an agent writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceRoot {
    pub path: PathBuf,
    /// How many levels of folders below it may hold sources.
    pub depth_max: usize,
}

/// What a path says about a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecognizedSource {
    pub form: SourceForm,
    /// The provider's id of the session, as far as the path contains it.
    pub session: String,
    pub role: SourceRole,
}

/// How a source is written, which decides how it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceForm {
    /// One record a line, appended.
    Lines,
    /// The same, compressed with zstd.
    PackedLines,
    /// Text in blocks, appended.
    Blocks(BlockMarks),
    /// A JSON object that is written anew each time. Its records are the entries of the list of
    /// this name, behind the rest of the object.
    Document { list: &'static str },
    /// A database. Each session in it is a source of its own, asked for with
    /// [`Agent::database_schemas`].
    Rows,
}

/// How blocks of text are separated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockMarks {
    /// How the first line of a block begins.
    pub lines: &'static [&'static str],
    /// Between these no block begins.
    pub quote: (&'static str, &'static str),
}

impl SourceForm {
    /// Whether offsets of records are offsets in the file. Otherwise they are offsets in the stored
    /// original, which has one record a line.
    pub(crate) fn is_in_place(self) -> bool {
        !matches!(self, SourceForm::Document { .. } | SourceForm::Rows)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceRole {
    Main,
    /// Works for the session named.
    Subagent {
        parent: String,
    },
}

/// What the first bytes of a source say about the sessions it may repeat.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineageHint {
    /// The session that it says it repeats, if it names one.
    pub parent: Option<String>,
    /// A value that all sources with the same beginning share.
    pub family: Option<String>,
    /// The number of its first record in a longer history. The earlier part stands in a source of
    /// the parent, or of its own session.
    pub begins_at: Option<u64>,
    /// The id by which its records call their session.
    pub named: Option<String>,
    /// When it began, if its first bytes contain that. Within a family the oldest is read first.
    pub since: Option<Time>,
}
