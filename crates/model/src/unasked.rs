//! The new events of a session since the last question about it.

use std::collections::VecDeque;

use event::payload::{AssistantMessage, UserPrompt};
use event::{Event, Kind, Time};
use serde::{Deserialize, Serialize};

/// The amount that is worth a question: characters of messages, or bytes of all payloads.
const CHARS_MIN: usize = 3_000;
const BYTES_MIN: usize = 10_000;

/// Turns that one question about recent work covers.
const TURNS: usize = 5;

/// Counts the events from a number on. The field names are part of the saved queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct UnaskedEvents {
    from_seq: u64,
    to_seq: u64,
    chars: usize,
    bytes: usize,
    /// The first events of the last turns.
    turns: VecDeque<u64>,
    /// There was activity since the last question about recent work.
    is_unsummed: bool,
    /// The time of that question.
    pub(crate) summed_at: Option<Time>,
    pub(crate) heard_at: Time,
}

impl UnaskedEvents {
    pub(crate) fn new(seq: u64, now: Time) -> UnaskedEvents {
        UnaskedEvents {
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

    pub(crate) fn add_event(&mut self, event: &Event, now: Time) {
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
            // Little said and much done is worth a question, too: work counts by its bytes.
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

    /// Whether the new events are worth a question before the session ends.
    pub(crate) fn is_enough(&self) -> bool {
        self.chars >= CHARS_MIN || self.bytes >= BYTES_MIN
    }

    /// Takes the range of new events, if there are any. Later events start a new range.
    pub(crate) fn take_range(&mut self) -> Option<(u64, u64)> {
        let range = (self.from_seq, self.to_seq);
        // The range moves on even if it is empty: notes and settings alone are worth no question.
        let is_anything = self.bytes > 0;
        (self.from_seq, self.chars, self.bytes) = (self.to_seq + 1, 0, 0);
        is_anything.then_some(range)
    }

    /// Takes the range of the last turns; `None` if there is no turn, or no activity since the
    /// last call.
    pub(crate) fn take_turns(&mut self) -> Option<(u64, u64)> {
        let range = (*self.turns.front()?, self.to_seq);
        std::mem::take(&mut self.is_unsummed).then_some(range)
    }
}
