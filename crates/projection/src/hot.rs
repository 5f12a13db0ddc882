//! The newest part of a session, small enough to be held for every session that is looked at.
//!
//! What it holds depends on the last [`HOT_EVENTS_SEEN`] events alone. So it is folded from the
//! tail of a log as well as from its beginning or event by event, and is the same.

use std::collections::VecDeque;

use event::payload::{AssistantMessage, ToolResult, UserPrompt};
use event::{Event, Kind, Time};

use crate::excerpt;
use crate::projection::Projection;
use crate::ring_buffer::RingBuffer;
use crate::tool::has_failed;
use crate::turn_machine::{is_queued, is_told_end};

/// Events that count. What began before them is not held: the log has it.
pub const HOT_EVENTS_SEEN: u64 = 2_000;

/// Events and turns that are held. A further one takes the place of the oldest.
const EVENTS_MAX: usize = 200;
const TURNS_MAX: usize = 10;

/// Bytes of what was said. The oldest goes first.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Characters of an event and of a prompt.
const GLANCE_CHARS_MAX: usize = 160;

/// The last events, words and turns of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hot {
    seq: u64,
    events: RingBuffer<EventPreview, EVENTS_MAX>,
    said: VecDeque<SpokenText>,
    said_bytes: usize,
    turns: RingBuffer<HotTurn, TURNS_MAX>,
}

/// An event at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventPreview {
    pub seq: u64,
    pub kind: Kind,
    pub at: Time,
    pub text: String,
}

/// A prompt or an answer, or the end of it if it is very long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpokenText {
    pub seq: u64,
    pub by_agent: bool,
    pub text: String,
}

/// A turn at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotTurn {
    pub seq_from: u64,
    pub seq_to: u64,
    pub started_at: Time,
    pub prompt: String,
    pub tool_calls: u64,
    pub failures: u64,
    pub is_over: bool,
}

impl Projection for Hot {
    const NAME: &'static str = "hot";
    const WINDOW: Option<u64> = Some(HOT_EVENTS_SEEN);

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        self.events.push(EventPreview {
            seq: event.seq,
            kind: event.kind.clone(),
            at: event.created_at,
            text: preview_line(event),
        });
        match event.kind {
            Kind::UserPrompt => self.apply_prompt(event),
            Kind::AssistantMessage => {
                let answer = event.readable::<AssistantMessage>();
                self.push_speech(
                    event.seq,
                    true,
                    answer.map(|answer| answer.content.joined_text()),
                );
            }
            _ => {}
        }
        self.extend_turn(event);
        self.drop_oldest();
    }

    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    fn load(_saved: &[u8]) -> Option<Hot> {
        None
    }
}

impl Hot {
    /// The last events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &EventPreview> {
        self.events.iter()
    }

    /// What was said last, oldest first.
    pub fn spoken_texts(&self) -> impl Iterator<Item = &SpokenText> {
        self.said.iter()
    }

    /// The last turns, oldest first.
    pub fn turns(&self) -> impl Iterator<Item = &HotTurn> {
        self.turns.iter()
    }

    fn apply_prompt(&mut self, event: &Event) {
        let prompt = event.readable::<UserPrompt>();
        let text = prompt.map(|prompt| prompt.content.joined_text());
        // One that waited in a queue belongs to the turn it was handed to.
        if !is_queued(event) {
            let told = text.as_deref().or(event.text.as_deref()).unwrap_or_default();
            self.turns.push(HotTurn {
                seq_from: event.seq,
                seq_to: event.seq,
                started_at: event.created_at,
                prompt: excerpt::beginning(&excerpt::one_line(told), GLANCE_CHARS_MAX),
                tool_calls: 0,
                failures: 0,
                is_over: false,
            });
        }
        self.push_speech(event.seq, false, text);
    }

    fn push_speech(&mut self, seq: u64, by_agent: bool, text: Option<String>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        let mut from = text.len().saturating_sub(TEXT_BYTES_MAX);
        // Forward, so that the text stays within the limit. It ends at `text.len()` at the latest.
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let text = text[from..].to_owned();
        self.said_bytes += text.len();
        self.said.push_back(SpokenText { seq, by_agent, text });
    }

    /// The current turn goes on with an event, or ends with it.
    fn extend_turn(&mut self, event: &Event) {
        // Events before the first prompt in the window belong to a turn that began before it.
        let Some(turn) = self.turns.back_mut() else { return };
        turn.seq_to = event.seq;
        match event.kind {
            Kind::ToolCall => turn.tool_calls += 1,
            Kind::ToolResult => {
                let result = event.readable::<ToolResult>();
                turn.failures += u64::from(result.is_some_and(|result| has_failed(&result)));
            }
            _ => turn.is_over |= is_told_end(&event.kind),
        }
    }

    /// Lets go of what is too much, and of what began too long ago.
    fn drop_oldest(&mut self) {
        // A turn that began before the window would look different when folded from the tail alone.
        let since = self.seq.saturating_sub(HOT_EVENTS_SEEN);
        while self.turns.front().is_some_and(|turn| turn.seq_from <= since) {
            self.turns.pop_front();
        }
        while let Some(oldest) = self.said.front()
            && (self.said_bytes > TEXT_BYTES_MAX || oldest.seq <= since)
        {
            self.said_bytes -= oldest.text.len();
            self.said.pop_front();
        }
    }
}

fn preview_line(event: &Event) -> String {
    let text = match &event.text {
        // Four times what is shown: blanks and control characters are dropped before the cut.
        Some(text) => excerpt::one_line(excerpt::take_head(text, 4 * GLANCE_CHARS_MAX)),
        None => {
            let texts = event.search_texts();
            let first = texts.first().map(AsRef::as_ref).unwrap_or_default();
            excerpt::one_line(excerpt::take_head(first, 4 * GLANCE_CHARS_MAX))
        }
    };
    excerpt::beginning(&text, GLANCE_CHARS_MAX)
}
