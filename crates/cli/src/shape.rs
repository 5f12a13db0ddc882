//! JSON output of single commands; shapes shared with HTTP are in `wire`. Fields are added, never
//! renamed; unknown is `null`.

use event::payload::ToolCall;
use event::{EventId, Raw, Time};
use journal::{Ancestry, SessionInfo};
use projection::{Chapter, DigestFact, FactOrigin};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use session::view::{EffectiveStream, HistoryEntry, Repair};
use session::{SessionError, SessionReader};

use crate::error::CliError;
use crate::streamed::Streamed;

#[derive(Serialize)]
pub(crate) struct EntryShape {
    pub event_id: Option<EventId>,
    pub seq: Option<u64>,
    pub kind: String,
    pub role: &'static str,
    pub context_kind: Option<String>,
    pub placement: Option<String>,
    pub content: serde_json::Value,
    /// The calls of an answer that have results.
    pub calls: Vec<CallShape>,
    /// The call that a result answers.
    pub tool: Option<ToolShape>,
}

#[derive(Serialize)]
pub(crate) struct CallShape {
    pub call_id: String,
    pub name: String,
    pub input: Raw,
}

#[derive(Serialize)]
pub(crate) struct ToolShape {
    pub call_id: String,
    pub name: String,
    pub input: Raw,
    pub is_error: bool,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct RepairShape {
    pub seq: u64,
    pub why: String,
}

/// What a model would see, written while it is read. Fields: `entries`, `tokens_estimate`,
/// `base_seq` (the compaction or snapshot that the history stands on), `repairs` (what was left out
/// or moved, and why).
pub(crate) struct EffectiveShape {
    entries: Streamed<EntryShapes, SessionError>,
}

/// The entries of a history as JSON has them.
struct EntryShapes {
    history: EffectiveStream<SessionReader>,
    /// Characters of the texts so far.
    text_chars: u64,
}

#[derive(Serialize)]
pub(crate) struct LineageShape {
    pub lineage: Vec<Ancestry>,
    pub children: Vec<Ancestry>,
}

#[derive(Serialize)]
pub(crate) struct DoctorShape {
    pub ok: bool,
    pub checks: Vec<CheckShape>,
}

#[derive(Serialize)]
pub(crate) struct CheckShape {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    pub fix: Option<String>,
}

impl From<&HistoryEntry> for EntryShape {
    fn from(entry: &HistoryEntry) -> EntryShape {
        EntryShape {
            event_id: entry.event_id,
            seq: entry.seq,
            kind: entry.kind.to_string(),
            role: entry.role.as_str(),
            context_kind: entry.context_kind.as_ref().map(ToString::to_string),
            placement: entry.placement.as_ref().map(ToString::to_string),
            content: serde_json::to_value(&*entry.content).unwrap_or_default(),
            calls: entry.calls.iter().map(|call| CallShape::from(&**call)).collect(),
            tool: entry.note.as_ref().map(|note| ToolShape {
                call_id: note.call_id.clone(),
                name: note.name.clone(),
                input: note.input.clone(),
                is_error: note.is_error,
                error: note.error.clone(),
                duration_ms: note.duration_ms,
            }),
        }
    }
}

impl From<&ToolCall> for CallShape {
    fn from(call: &ToolCall) -> CallShape {
        CallShape {
            call_id: call.call_id.clone(),
            name: call.tool.clone(),
            input: call.input.clone(),
        }
    }
}

impl EffectiveShape {
    pub(crate) fn new(history: EffectiveStream<SessionReader>) -> EffectiveShape {
        EffectiveShape { entries: Streamed::new(EntryShapes { history, text_chars: 0 }) }
    }

    /// Returns the result of printing it.
    pub(crate) fn finish(self, printed: Result<(), CliError>) -> Result<(), CliError> {
        self.entries.finish(printed)
    }
}

impl Serialize for EffectiveShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shape = serializer.serialize_struct("EffectiveShape", 4)?;
        shape.serialize_field("entries", &self.entries)?;
        // The rest is known behind the last entry.
        let source = self.entries.source();
        // At four characters each, enough to see how full a context window is.
        shape.serialize_field("tokens_estimate", &source.text_chars.div_ceil(4))?;
        shape.serialize_field("base_seq", &source.history.base_seq())?;
        let repair = |repair: &Repair| RepairShape { seq: repair.seq, why: repair.why.to_string() };
        let repairs: Vec<RepairShape> = source.history.repairs().into_iter().map(repair).collect();
        shape.serialize_field("repairs", &repairs)?;
        shape.end()
    }
}

impl Iterator for EntryShapes {
    type Item = Result<EntryShape, SessionError>;

    fn next(&mut self) -> Option<Result<EntryShape, SessionError>> {
        let entry = match self.history.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error.into())),
        };
        self.text_chars += entry.text().chars().count() as u64;
        Some(Ok(EntryShape::from(&*entry)))
    }
}

/// One epoch with its facts.
#[derive(Serialize)]
pub(crate) struct EpochShape<'a> {
    pub epoch: u64,
    pub tag: String,
    pub cause: Option<&'a str>,
    pub from_seq: u64,
    pub to_seq: u64,
    pub started_at: Time,
    pub last_at: Time,
    pub title: Option<String>,
    /// `heuristic` or `model`.
    pub title_origin: Option<FactOrigin>,
    /// Tags given by a model.
    pub tags: Vec<String>,
    /// The priority given by a model.
    pub priority: Option<String>,
    pub facts: Vec<DigestFact>,
}

impl<'a> EpochShape<'a> {
    pub(crate) fn from_chapter(info: &SessionInfo, chapter: Chapter<'a>) -> EpochShape<'a> {
        let (title, title_origin) = chapter.title().unzip();
        let Chapter { epoch, facts, naming, .. } = chapter;
        let own = info.provider_session_id.as_deref().unwrap_or(info.id.as_str());
        EpochShape {
            epoch: epoch.number,
            tag: epoch.tag(&info.provider, own),
            cause: epoch.closed.as_ref().map(|closed| closed.cause.as_str()),
            from_seq: epoch.from_seq,
            to_seq: epoch.to_seq,
            started_at: epoch.started_at,
            last_at: epoch.last_at,
            title,
            title_origin,
            tags: naming.map(|naming| naming.tags.clone()).unwrap_or_default(),
            priority: naming.and_then(|naming| naming.priority.clone()),
            facts,
        }
    }
}
