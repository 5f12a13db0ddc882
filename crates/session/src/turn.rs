//! A session as people tell it: from a prompt to the end of its answer, one turn after another.

use std::collections::BTreeMap;

use event::payload::{
    AssistantMessage, ErrorRaised, Outcome, ToolCall, ToolResult, TurnCompleted, UserPrompt,
};
use event::{Event, Kind, Time};

use crate::view::{FileTools, Touch};

/// One turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The turn's own id, else that of its first event.
    pub id: String,
    pub seq_from: u64,
    pub seq_to: u64,
    pub started_at: Time,
    /// When it ended, if anything says so.
    pub completed_at: Option<Time>,
    pub status: TurnStatus,
    pub prompt: Option<String>,
    /// The last thing the model said.
    pub answer: Option<String>,
    /// Calls by tool.
    pub tools: BTreeMap<String, u64>,
    pub approvals: u64,
    pub errors: u64,
    /// Files in the order they were first touched.
    pub read_files: Vec<String>,
    pub modified_files: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnStatus {
    Open,
    Completed,
    Failed,
}

impl TurnStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            TurnStatus::Open => "open",
            TurnStatus::Completed => "completed",
            TurnStatus::Failed => "failed",
        }
    }
}

/// Tells the turns of a log, event by event.
#[derive(Default)]
pub struct Turns {
    done: Vec<Turn>,
    current: Option<Turn>,
    /// Somebody said that the current turn began.
    is_told: bool,
    file_tools: FileTools,
}

impl Turns {
    /// The turns of all events.
    pub fn of<E>(events: impl IntoIterator<Item = Result<Event, E>>) -> Result<Vec<Turn>, E> {
        let mut turns = Turns::default();
        for event in events {
            turns.apply(&event?);
        }
        Ok(turns.finish())
    }

    pub fn apply(&mut self, event: &Event) {
        match event.kind {
            Kind::TurnStarted => self.start(event),
            Kind::UserPrompt => {
                if self.current.as_ref().is_none_or(|turn| turn.prompt.is_some()) {
                    self.begin(event);
                }
                let prompt = event.readable::<UserPrompt>().map(|said| said.content.joined_text());
                self.with(event, |turn| turn.prompt = prompt.or(event.text.clone()));
            }
            Kind::AssistantMessage => {
                let answer = event.readable::<AssistantMessage>();
                let answer = answer.filter(|answer| answer.content.has_substance());
                self.with(event, |turn| {
                    turn.answer =
                        answer.map(|said| said.content.joined_text()).or(turn.answer.take());
                    // An answer is the end of the turn until something else follows.
                    turn.completed_at = Some(event.created_at);
                });
            }
            Kind::ToolCall => self.call(event),
            Kind::ToolResult => {
                let result = event.readable::<ToolResult>();
                let failed = result.is_some_and(|result| result.outcome != Outcome::Ok);
                self.with(event, |turn| turn.errors += u64::from(failed));
            }
            Kind::ApprovalRequested => self.with(event, |turn| turn.approvals += 1),
            Kind::Error => {
                let recoverable =
                    event.readable::<ErrorRaised>().and_then(|raised| raised.recoverable);
                self.with(event, |turn| {
                    turn.errors += 1;
                    if recoverable == Some(false) {
                        turn.status = TurnStatus::Failed;
                    }
                });
            }
            Kind::TurnCompleted => self.complete(event),
            _ => {
                if let Some(turn) = &mut self.current {
                    turn.seq_to = event.seq;
                }
            }
        }
    }

    pub fn finish(mut self) -> Vec<Turn> {
        self.done.extend(self.current.take());
        self.done
    }

    /// A prompt stands just before the turn it is for.
    fn start(&mut self, event: &Event) {
        let is_for_it = |turn: &Turn| turn.answer.is_none() && turn.tools.is_empty();
        if self.is_told || !self.current.as_ref().is_some_and(is_for_it) {
            self.begin(event);
        }
        self.is_told = true;
        self.with(event, |turn| {
            if let Some(turn_id) = &event.turn_id {
                turn.id = turn_id.clone();
            }
        });
    }

    fn begin(&mut self, event: &Event) {
        self.is_told = false;
        if let Some(mut turn) = self.current.take() {
            if turn.status == TurnStatus::Open {
                turn.status = TurnStatus::Completed;
            }
            self.done.push(turn);
        }
        self.current = Some(Turn {
            id: event.turn_id.clone().unwrap_or_else(|| event.id.to_string()),
            seq_from: event.seq,
            seq_to: event.seq,
            started_at: event.created_at,
            completed_at: None,
            status: TurnStatus::Open,
            prompt: None,
            answer: None,
            tools: BTreeMap::new(),
            approvals: 0,
            errors: 0,
            read_files: Vec::new(),
            modified_files: Vec::new(),
        });
    }

    /// Changes the turn an event belongs to; a log may begin in the middle of one.
    fn with(&mut self, event: &Event, change: impl FnOnce(&mut Turn)) {
        if self.current.is_none() {
            self.begin(event);
        }
        if let Some(turn) = &mut self.current {
            turn.seq_to = event.seq;
            change(turn);
        }
    }

    fn call(&mut self, event: &Event) {
        let Some(call) = event.readable::<ToolCall>() else { return };
        let touched = self.file_tools.touch(&call.tool, &call.input);
        self.with(event, |turn| {
            *turn.tools.entry(call.tool).or_default() += 1;
            turn.completed_at = None;
            if let Some((touch, path)) = touched {
                let files = match touch {
                    Touch::Read => &mut turn.read_files,
                    Touch::Modified => &mut turn.modified_files,
                };
                if !files.contains(&path) {
                    files.push(path);
                }
            }
        });
    }

    fn complete(&mut self, event: &Event) {
        let failed = event.readable::<TurnCompleted>().is_some_and(|turn| turn.error.is_some());
        self.with(event, |turn| {
            turn.completed_at = Some(event.created_at);
            turn.status = if failed { TurnStatus::Failed } else { TurnStatus::Completed };
        });
        self.done.extend(self.current.take());
    }
}
