//! The talk of a session, as lines for a screen.

use event::payload::{ToolCall, ToolResult};
use event::{Event, Kind, SessionId};

use crate::output::{one_line, plain};

/// Lines of what a tool printed or a model thought. The rest is counted.
const ASIDE_LINES_MAX: usize = 6;

/// Letters of the call of a tool.
const CALL_CHARS_MAX: usize = 400;

/// Letters of one line.
const LINE_CHARS_MAX: usize = 2_000;

/// Who says a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Voice {
    You,
    Agent,
    Thought,
    Tool,
    Printed,
    Failed,
    Note,
}

impl Voice {
    /// How the first line of it begins.
    pub(super) fn word(self) -> &'static str {
        match self {
            Voice::You => "you",
            Voice::Agent => "agent",
            Voice::Thought => "thinks",
            Voice::Tool => "runs",
            Voice::Printed => "",
            Voice::Failed => "failed",
            Voice::Note => "·",
        }
    }
}

/// One line of it, harmless on a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spoken {
    pub seq: u64,
    pub voice: Voice,
    /// It is the first of what this voice says.
    pub is_first: bool,
    pub text: String,
}

/// The part of a talk that is on the screen or near it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Talk {
    pub id: SessionId,
    pub title: String,
    /// What it runs on and what it cost.
    pub about: String,
    pub spoken: Vec<Spoken>,
    /// The first event that was read; there may be more before it.
    pub from_seq: u64,
    pub to_seq: u64,
    /// The first line on the screen; at the end if there is none.
    held: Option<usize>,
}

impl Talk {
    /// What was said in the events from one to another.
    pub(super) fn new(id: SessionId, spoken: Vec<Spoken>, from_seq: u64, to_seq: u64) -> Talk {
        let (title, about) = (id.to_string(), String::new());
        Talk { id, title, about, spoken, from_seq, to_seq, held: None }
    }

    /// The same with what it is called, what it runs on and what it cost.
    pub(super) fn called(self, title: String, about: String) -> Talk {
        Talk { title, about, ..self }
    }

    /// The first line to be shown; none if the end is.
    pub(super) fn held(&self) -> Option<usize> {
        self.held
    }

    pub(super) fn follow(&mut self) {
        self.held = None;
    }

    pub(super) fn stay(&mut self, first: usize) {
        self.held = Some(first);
    }

    /// Stays where an event begins.
    pub(super) fn stay_at(&mut self, seq: u64) {
        self.held = self.spoken.iter().position(|line| line.seq >= seq);
    }

    pub(super) fn put_before(&mut self, mut spoken: Vec<Spoken>, from_seq: u64) {
        let added = spoken.len();
        spoken.append(&mut self.spoken);
        self.spoken = spoken;
        self.from_seq = from_seq;
        self.held = self.held.map(|first| first + added);
    }

    pub(super) fn put_behind(&mut self, spoken: Vec<Spoken>, to_seq: u64) {
        self.spoken.extend(spoken);
        self.to_seq = to_seq;
    }
}

/// What an event says; nothing for one that people do not read.
pub(super) fn spoken(event: &Event) -> Vec<Spoken> {
    let said = || event.text.clone().unwrap_or_else(|| event.search_texts().join("\n"));
    let (voice, text, lines_max) = match event.kind {
        Kind::UserPrompt => (Voice::You, said(), usize::MAX),
        Kind::AssistantMessage => (Voice::Agent, said(), usize::MAX),
        Kind::AssistantThinking => (Voice::Thought, said(), ASIDE_LINES_MAX),
        Kind::ToolCall => {
            let call = event.readable::<ToolCall>().unwrap_or_default();
            let input = call.input.text().unwrap_or_else(|| said_of(&call));
            (Voice::Tool, one_line(&format!("{} {input}", call.tool), CALL_CHARS_MAX), 1)
        }
        Kind::ToolResult => {
            let result = event.readable::<ToolResult>().unwrap_or_default();
            let is_failed = result.error.is_some();
            let text = result.output_text().or(result.error).unwrap_or_default();
            (if is_failed { Voice::Failed } else { Voice::Printed }, text, ASIDE_LINES_MAX)
        }
        Kind::Error => (Voice::Failed, said(), ASIDE_LINES_MAX),
        Kind::ApprovalRequested | Kind::ApprovalResolved | Kind::ApprovalCanceled => {
            (Voice::Note, format!("{}: {}", event.kind, said()), 1)
        }
        Kind::SessionStarted | Kind::SessionExited | Kind::Compaction | Kind::EpochClosed => {
            (Voice::Note, event.kind.to_string(), 1)
        }
        _ => return Vec::new(),
    };
    let text = plain(text.trim_end());
    let count = text.lines().count();
    let mut lines: Vec<Spoken> = text
        .lines()
        .take(lines_max)
        .enumerate()
        .map(|(number, line)| {
            let text = line.replace('\t', "    ").chars().take(LINE_CHARS_MAX).collect();
            Spoken { seq: event.seq, voice, is_first: number == 0, text }
        })
        .collect();
    if count > lines.len() {
        let text = format!("… {} more lines", count - lines.len());
        lines.push(Spoken { seq: event.seq, voice, is_first: false, text });
    }
    lines
}

/// The arguments of a call: the first text among them says most.
fn said_of(call: &ToolCall) -> String {
    let value: serde_json::Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let texts = value.as_object().into_iter().flat_map(|fields| fields.values());
    texts.filter_map(|value| value.as_str()).collect::<Vec<_>>().join(" · ")
}
