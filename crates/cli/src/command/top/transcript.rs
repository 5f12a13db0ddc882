//! A session as lines for the screen.

use event::payload::{ToolCall, ToolResult};
use event::{Event, Kind, SessionId};

use crate::output::{escape_controls, one_line};

/// Lines of tool output or thinking. The rest is counted.
const ASIDE_LINES_MAX: usize = 6;

/// Characters of a tool call.
const CALL_CHARS_MAX: usize = 400;

/// Characters of one line.
const LINE_CHARS_MAX: usize = 2_000;

/// The speaker of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Speaker {
    You,
    Agent,
    Thought,
    Tool,
    Printed,
    Failed,
    Note,
}

impl Speaker {
    /// Returns the label before the first line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Speaker::You => "you",
            Speaker::Agent => "agent",
            Speaker::Thought => "thinks",
            Speaker::Tool => "runs",
            Speaker::Printed => "",
            Speaker::Failed => "failed",
            Speaker::Note => "·",
        }
    }
}

/// One line, with hostile characters escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TranscriptLine {
    pub seq: u64,
    pub voice: Speaker,
    /// Whether it is the first line of its event.
    pub is_first: bool,
    pub text: String,
}

/// The loaded part of a session.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TranscriptView {
    pub id: SessionId,
    pub title: String,
    /// Model, tokens and cost.
    pub about: String,
    pub spoken: Vec<TranscriptLine>,
    /// The first event loaded; there may be earlier ones.
    pub from_seq: u64,
    pub to_seq: u64,
    /// The first line on the screen; `None` follows the end.
    held: Option<usize>,
}

impl TranscriptView {
    /// Makes a view of a range of events.
    pub(super) fn new(
        id: SessionId,
        spoken: Vec<TranscriptLine>,
        from_seq: u64,
        to_seq: u64,
    ) -> TranscriptView {
        let (title, about) = (id.to_string(), String::new());
        TranscriptView { id, title, about, spoken, from_seq, to_seq, held: None }
    }

    /// Sets the title and the model, tokens and cost.
    pub(super) fn with_title(self, title: String, about: String) -> TranscriptView {
        TranscriptView { title, about, ..self }
    }

    /// Returns the first line to show; `None` if the end is shown.
    pub(super) fn scroll_position(&self) -> Option<usize> {
        self.held
    }

    pub(super) fn follow(&mut self) {
        self.held = None;
    }

    pub(super) fn scroll_to(&mut self, first: usize) {
        self.held = Some(first);
    }

    /// Scrolls to an event.
    pub(super) fn scroll_to_event(&mut self, seq: u64) {
        // An event without lines, such as a setting, leads to the next one that has some.
        self.held = self.spoken.iter().position(|line| line.seq >= seq);
    }

    pub(super) fn prepend(&mut self, mut spoken: Vec<TranscriptLine>, from_seq: u64) {
        let added = spoken.len();
        spoken.append(&mut self.spoken);
        self.spoken = spoken;
        self.from_seq = from_seq;
        // Moved by what was added, so that the screen does not jump.
        self.held = self.held.map(|first| first + added);
    }

    pub(super) fn append(&mut self, spoken: Vec<TranscriptLine>, to_seq: u64) {
        self.spoken.extend(spoken);
        self.to_seq = to_seq;
    }
}

/// Returns the lines of an event; none for events that people do not read.
pub(super) fn transcript_lines(event: &Event) -> Vec<TranscriptLine> {
    let said = || event.text.clone().unwrap_or_else(|| event.search_texts().join("\n"));
    let (voice, text, lines_max) = match event.kind {
        Kind::UserPrompt => (Speaker::You, said(), usize::MAX),
        Kind::AssistantMessage => (Speaker::Agent, said(), usize::MAX),
        Kind::AssistantThinking => (Speaker::Thought, said(), ASIDE_LINES_MAX),
        Kind::ToolCall => {
            let call = event.readable::<ToolCall>().unwrap_or_default();
            // Most inputs are objects; a plain text is shown as it is.
            let input = call.input.text().unwrap_or_else(|| string_arguments(&call));
            (Speaker::Tool, one_line(&format!("{} {input}", call.tool), CALL_CHARS_MAX), 1)
        }
        Kind::ToolResult => {
            let result = event.readable::<ToolResult>().unwrap_or_default();
            let is_failed = result.error.is_some();
            // An output says more than the error, which often repeats it.
            let text = result.output_text().or(result.error).unwrap_or_default();
            (if is_failed { Speaker::Failed } else { Speaker::Printed }, text, ASIDE_LINES_MAX)
        }
        Kind::Error => (Speaker::Failed, said(), ASIDE_LINES_MAX),
        Kind::ApprovalRequested | Kind::ApprovalResolved | Kind::ApprovalCanceled => {
            (Speaker::Note, format!("{}: {}", event.kind, said()), 1)
        }
        Kind::SessionStarted | Kind::SessionExited | Kind::Compaction | Kind::EpochClosed => {
            (Speaker::Note, event.kind.to_string(), 1)
        }
        // Settings, usage and other events for programs.
        _ => return Vec::new(),
    };
    // Escaped before it is cut into lines: a transcript may hold any control character.
    let text = escape_controls(text.trim_end());
    let count = text.lines().count();
    let mut lines: Vec<TranscriptLine> = text
        .lines()
        .take(lines_max)
        .enumerate()
        .map(|(number, line)| {
            // Tabs would be drawn with unknown width.
            let text = line.replace('\t', "    ").chars().take(LINE_CHARS_MAX).collect();
            TranscriptLine { seq: event.seq, voice, is_first: number == 0, text }
        })
        .collect();
    // The count tells that lines are missing, and how many.
    if count > lines.len() {
        let text = format!("… {} more lines", count - lines.len());
        lines.push(TranscriptLine { seq: event.seq, voice, is_first: false, text });
    }
    lines
}

/// Returns the string arguments of a call, which say most about it.
fn string_arguments(call: &ToolCall) -> String {
    let value: serde_json::Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let texts = value.as_object().into_iter().flat_map(|fields| fields.values());
    texts.filter_map(|value| value.as_str()).collect::<Vec<_>>().join(" · ")
}
