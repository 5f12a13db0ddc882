//! What is new in a session since a model was last asked about it.

use std::collections::VecDeque;

use event::payload::{AssistantMessage, UserPrompt};
use event::{Event, Kind, Time};
use serde::{Deserialize, Serialize};

/// So much that is new is worth a question: characters of what was said, bytes of all there is.
const CHARS_MIN: usize = 3_000;
const BYTES_MIN: usize = 10_000;

/// Turns that are told together as what was done lately.
const TURNS: usize = 5;

/// Counts what comes, from an event on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Gathered {
    from_seq: u64,
    to_seq: u64,
    chars: usize,
    bytes: usize,
    /// Where the last turns begin.
    turns: VecDeque<u64>,
    /// Something was said or done since it was last asked what was done lately.
    is_unsummed: bool,
    /// When that was asked.
    pub(crate) summed_at: Option<Time>,
    pub(crate) heard_at: Time,
}

impl Gathered {
    pub(crate) fn new(seq: u64, now: Time) -> Gathered {
        Gathered {
            from_seq: seq,
            to_seq: seq,
            chars: 0,
            bytes: 0,
            turns: VecDeque::new(),
            is_unsummed: false,
            summed_at: None,
            heard_at: now,
        }
    }

    pub(crate) fn add(&mut self, event: &Event, now: Time) {
        self.heard_at = now;
        self.to_seq = event.seq;
        let said = match event.kind {
            Kind::UserPrompt => event.readable::<UserPrompt>().map(|prompt| {
                if !prompt.queued {
                    self.begin_turn(event.seq);
                }
                prompt.content.joined_text()
            }),
            Kind::AssistantMessage => {
                event.readable::<AssistantMessage>().map(|answer| answer.content.joined_text())
            }
            Kind::ToolCall | Kind::ToolResult | Kind::Error => Some(String::new()),
            _ => None,
        };
        if let Some(said) = said {
            self.chars = self.chars.saturating_add(said.chars().count());
            self.bytes = self.bytes.saturating_add(event.data.get().len());
            self.is_unsummed = true;
        }
    }

    fn begin_turn(&mut self, seq: u64) {
        if self.turns.len() == TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back(seq);
    }

    /// Whether it is worth a question although it goes on.
    pub(crate) fn is_much(&self) -> bool {
        self.chars >= CHARS_MIN || self.bytes >= BYTES_MIN
    }

    /// The range of what is new, if anything is; what comes behind it is new from then on.
    pub(crate) fn take(&mut self) -> Option<(u64, u64)> {
        let range = (self.from_seq, self.to_seq);
        let is_anything = self.bytes > 0;
        (self.from_seq, self.chars, self.bytes) = (self.to_seq + 1, 0, 0);
        is_anything.then_some(range)
    }

    /// The range of the last turns; `None` if none began, or nothing was done since this was last
    /// asked for.
    pub(crate) fn take_turns(&mut self) -> Option<(u64, u64)> {
        let range = (*self.turns.front()?, self.to_seq);
        std::mem::take(&mut self.is_unsummed).then_some(range)
    }
}
