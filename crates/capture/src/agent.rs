//! The contract: what has to be known of one agent.
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

/// Every agent that is understood.
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

/// Knows one agent. Decides nothing about storage, status or display, and does no IO.
pub trait Agent: Sync {
    /// The word events carry as `provider`.
    fn provider(&self) -> &'static str;

    /// Folders to look into. The agent's own variables win; a folder that is not there is no
    /// error.
    fn roots(&self, environment: &Environment) -> Vec<SourceRoot>;

    /// What lies at `path` below a root, by its name and place alone; `None` for what is no
    /// source.
    fn recognise(&self, path: &Path) -> Option<RecognizedSource>;

    /// Whom a new source may repeat, from its first bytes. Only its order among others depends
    /// on it.
    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        let _ = head;
        LineageHint::default()
    }

    /// Which of several sources of one session is read: those of the lowest rank.
    fn rank(&self, form: SourceForm) -> u8 {
        let _ = form;
        0
    }

    /// How the agent's databases are asked.
    fn schemas(&self) -> &'static [DatabaseSchema] {
        &[]
    }

    /// What is known of the agent's telemetry.
    fn telemetry(&self) -> Option<&'static TelemetryMap> {
        None
    }

    /// The agent's own command to go on with a session.
    fn resume(&self, session: &str, cwd: Option<&str>) -> Option<Vec<String>> {
        let _ = (session, cwd);
        None
    }

    /// What its hooks say, if it has any that are understood.
    fn hooks(&self) -> Option<&'static HookMap> {
        None
    }

    /// Begins with a source, or goes on from what [`Parser::state`] gave.
    fn parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser>;
}

/// Makes events out of the records of one source, in their order.
pub trait Parser {
    /// Never fails: what is not understood is told as unknown.
    fn record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>);

    /// The session that records belong to, where the name of the source does not tell.
    fn session(&self) -> Option<&str> {
        None
    }

    /// Whether something of the records so far is held back, because what follows may add to it.
    fn holds(&self) -> bool {
        false
    }

    /// Tells what is held back: nobody has written for so long that nothing will follow.
    fn rest(&mut self, builder: &mut EventBuilder<'_>) {
        let _ = builder;
    }

    /// The records so far repeat another session; those that follow are its own.
    fn own_begins(&mut self) {}

    /// What has to be known to go on later, as JSON of at most 4 KiB. Whatever grows with the
    /// source does not belong here.
    fn state(&self) -> String;
}

/// A folder where an agent writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceRoot {
    pub path: PathBuf,
    /// Folders below it that may hold sources.
    pub depth_max: usize,
}

/// What a file below a root is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecognizedSource {
    pub form: SourceForm,
    /// The provider's id of the session it tells of, as far as its name says so.
    pub session: String,
    pub role: SourceRole,
}

/// How a source is written, and so how it is read.
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
    /// [`Agent::schemas`].
    Rows,
}

/// How blocks of text are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockMarks {
    /// How the first line of a block begins.
    pub lines: &'static [&'static str],
    /// Between these no block begins.
    pub quote: (&'static str, &'static str),
}

impl SourceForm {
    /// Whether places of records are places in the file. Otherwise they are places in what was
    /// kept of the source, one record a line.
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

/// Other sources that a new one should be read after.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineageHint {
    /// The session whose history it repeats, if it says so.
    pub parent: Option<String>,
    /// What sources that share a beginning have in common.
    pub family: Option<String>,
    /// The number of its first record in a history whose earlier part stands in a source of the
    /// parent, or of its own session.
    pub begins_at: Option<u64>,
    /// What its records call the session they are of.
    pub named: Option<String>,
    /// When it began, as far as its first bytes tell: within a family the oldest comes first.
    pub since: Option<Time>,
}
