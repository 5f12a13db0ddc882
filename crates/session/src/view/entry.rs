//! What the effective history consists of: entries, and notes on what was set right on the way.

use std::fmt;
use std::sync::Arc;

use event::payload::{
    AssistantThinking, Content, ContentPart, ContextAdded, ContextKind, Placement, ToolCall,
    ToolResult, ToolStarted,
};
use event::{BadPayload, Event, EventId, Kind, Raw};

/// The role of an entry, as the model sees it.
///
/// There is no higher rank: what a provider called system or developer is shown as user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    User,
    Assistant,
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One thing the model is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryEntry {
    /// The event that says it, the first one of an answer; none for what is derived.
    pub event_id: Option<EventId>,
    pub seq: Option<u64>,
    pub kind: Kind,
    pub role: Role,
    /// Set for context only.
    pub context_kind: Option<ContextKind>,
    /// Set for context only.
    pub placement: Option<Placement>,
    pub content: Arc<Content>,
    pub thinking: Vec<Arc<AssistantThinking>>,
    /// The calls of an answer that have their results.
    pub calls: Vec<Arc<ToolCall>>,
    /// Set for results only.
    pub note: Option<ToolNote>,
    /// The texts in it that stand for an event's own.
    pub replaced: Vec<Replaced>,
    /// The places of all events the entry is made of; empty if no event says it.
    pub sources: Vec<u64>,
}

/// What is known of the call a result answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolNote {
    pub call_id: String,
    pub name: String,
    pub input: Raw,
    pub idempotency_key: Option<String>,
    pub is_error: bool,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
}

/// A change that makes the history valid: an event was left out, moved or replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// The event it is about.
    pub seq: u64,
    pub why: Why,
}

/// The reason of a [`Repair`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The payload does not have the shape of its kind.
    Unreadable(Box<BadPayload>),
    /// A record of unknown form; it may have been talk.
    UnknownRecord,
    /// Nothing but white space.
    Empty,
    /// A call without a result before the talk moved on.
    NoResult,
    /// A result without an open call of its id.
    NoCall,
    /// A further result of a call that has one.
    SecondResult,
    /// Context between an answer and its results; it stands behind them now.
    Moved,
    /// A part of an answer that came after the talk had moved on; it stands with its answer.
    LatePart,
    /// An amendment is shown in its place.
    Amended,
    /// A base that covers up to an event which is not in the log before it.
    CutoffNotFound,
    /// A base with a cutoff on a path that was left.
    CutoffOffPath,
    /// A base without any entry.
    NoEntries,
    /// A snapshot of another base than the present one.
    StaleSnapshot,
    /// A base with an entry that names no event of the path.
    EntryNotFound,
    /// A base with an entry that names an event behind its own cutoff.
    EntryBeyondCutoff,
    /// A base with an entry without a role.
    NoRole,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Unreadable(_) => "unreadable",
            Why::UnknownRecord => "unknown record",
            Why::Empty => "empty",
            Why::NoResult => "call without a result",
            Why::NoCall => "result without a call",
            Why::SecondResult => "second result",
            Why::Moved => "moved behind the results",
            Why::LatePart => "late part of an answer",
            Why::Amended => "replaced by a fuller account",
            Why::CutoffNotFound => "cutoff not found",
            Why::CutoffOffPath => "cutoff on a path that was left",
            Why::NoEntries => "base without entries",
            Why::StaleSnapshot => "snapshot of another base",
            Why::EntryNotFound => "entry not found",
            Why::EntryBeyondCutoff => "entry behind the cutoff",
            Why::NoRole => "entry without a role",
        })
    }
}

/// A text that stands for an event's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// The place of the event.
    pub seq: u64,
    pub text: String,
    /// The artifact that holds the text it replaces.
    pub artifact: Option<String>,
}

impl HistoryEntry {
    /// The text of all parts of the content.
    pub fn text(&self) -> String {
        self.content.joined_text()
    }

    /// Whether there is anything to show. A result answers its call even without a word.
    pub(crate) fn has_substance(&self) -> bool {
        self.role == Role::Tool
            || self.content.has_substance()
            || !self.thinking.is_empty()
            || !self.calls.is_empty()
    }

    pub fn is_prefix(&self) -> bool {
        self.placement == Some(Placement::Prefix)
    }

    pub(crate) fn from_speech(
        event: &Event,
        place: u64,
        role: Role,
        content: Content,
    ) -> HistoryEntry {
        HistoryEntry {
            event_id: Some(event.id),
            seq: Some(event.seq),
            kind: event.kind.clone(),
            role,
            context_kind: None,
            placement: None,
            content: Arc::new(content),
            thinking: Vec::new(),
            calls: Vec::new(),
            note: None,
            replaced: Vec::new(),
            sources: vec![place],
        }
    }

    pub(crate) fn from_context(event: &Event, place: u64, context: ContextAdded) -> HistoryEntry {
        let (kind, placement) = (context.kind(), context.placement());
        let mut entry = HistoryEntry::from_speech(event, place, Role::User, context.content);
        entry.context_kind = Some(kind);
        entry.placement = Some(placement);
        entry
    }

    /// An entry that no event of its own says: the working set, an inline text of a base.
    pub(crate) fn without_event(kind: Kind, role: Role, content: Content) -> HistoryEntry {
        HistoryEntry {
            event_id: None,
            seq: None,
            kind,
            role,
            context_kind: None,
            placement: None,
            content: Arc::new(content),
            thinking: Vec::new(),
            calls: Vec::new(),
            note: None,
            replaced: Vec::new(),
            sources: Vec::new(),
        }
    }

    pub(crate) fn with_replaced(mut self, replaced: Option<&Replaced>) -> HistoryEntry {
        if let Some(replaced) = replaced {
            self.content = Arc::new(with_text(&self.content, &replaced.text));
            self.replaced.push(replaced.clone());
        }
        self
    }
}

/// The content with `text` in place of all its text; images and files stay.
pub(crate) fn with_text(content: &Content, text: &str) -> Content {
    let mut parts = Content::text(text).0;
    parts.extend(content.0.iter().filter(|part| part.kind != "text").cloned());
    Content(parts)
}

/// What the model is shown of a result: the text it got, the error unless that is said already,
/// and all that is not text.
pub(crate) fn result_content(result: &ToolResult, replaced: Option<&Replaced>) -> Content {
    let text = match replaced {
        Some(replaced) => Some(replaced.text.clone()),
        None => result.shown.clone().or_else(|| result.output_text()),
    };
    let mut parts: Vec<ContentPart> = Vec::new();
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        parts.extend(Content::text(text).0);
    }
    // A replacement stands for all text of the result. Images stay, since no text replaces them.
    let own = result.parts.iter().filter(|part| replaced.is_none() || part.kind != "text");
    parts.extend(own.cloned());
    let mut content = Content(parts);
    if let Some(error) = result.error.as_deref().filter(|error| !error.trim().is_empty())
        // Many tools print their error as output too; the model should not read it twice.
        && !content.joined_text().contains(error)
    {
        add_line(&mut content, &format!("Error: {error}"));
    }
    content
}

fn add_line(content: &mut Content, line: &str) {
    match content.0.first_mut() {
        // Added to the text that is there, so that a result stays one block where it was one.
        Some(ContentPart { kind, text: Some(text), .. }) if kind == "text" => {
            text.push('\n');
            text.push_str(line);
        }
        _ => content.0.splice(0..0, Content::text(line).0).for_each(drop),
    }
}

impl ToolNote {
    /// What call, start and result say together; the first that is not blank wins.
    pub(crate) fn new(
        call: &ToolCall,
        start: Option<&ToolStarted>,
        result: &ToolResult,
    ) -> ToolNote {
        let first = |texts: [Option<&str>; 3]| {
            let mut texts = texts.into_iter().flatten();
            texts.find(|text| !text.trim().is_empty()).map(str::to_owned)
        };
        ToolNote {
            call_id: call.call_id.clone(),
            // The call is nearest to what the model said. Observed logs may lack the name in any of
            // the three.
            name: first([
                Some(call.tool.as_str()),
                start.map(|start| start.tool.as_str()),
                result.tool.as_deref(),
            ])
            .unwrap_or_default(),
            input: call.input.clone(),
            idempotency_key: first([
                call.idempotency_key.as_deref(),
                start.map(|start| start.idempotency_key.as_str()),
                result.idempotency_key.as_deref(),
            ]),
            is_error: result.is_error(),
            error: result.error.clone(),
            duration_ms: result.duration_ms,
        }
    }
}
