//! The last messages that were told, so that the client's own retelling of them is recognised.
//!
//! After an interruption, a compression or a resume the client writes its history again, partly
//! under new ids. Only so much of it is remembered; what lies further back is old in any case.

use std::collections::VecDeque;

use event::EventId;
use serde::{Deserialize, Serialize};

use super::record::{GeminiMessage, GeminiPart};
use crate::source::short_hash;

/// Messages that are remembered. A rewind that goes further back is told without its goal.
const RECENT_MAX: usize = 32;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct GeminiRecent(VecDeque<GeminiRecentEntry>);

/// The id of a message, its words, and the last event it gave.
#[derive(Serialize, Deserialize)]
struct GeminiRecentEntry(String, String, Option<EventId>);

impl GeminiRecent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers a message, or what has become of it.
    pub(super) fn remember(&mut self, message: &GeminiMessage, event: Option<EventId>) {
        let id = short_hash(&[&message.id]);
        let seen = GeminiRecentEntry(id, message_words(message), event);
        // Written again: the message keeps its place in the order.
        match self.0.iter_mut().rev().find(|known| known.0 == seen.0) {
            Some(known) => *known = seen,
            None => {
                if self.0.len() == RECENT_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(seen);
            }
        }
    }

    /// Where a message is remembered: by its id, else by its words.
    pub(super) fn find_message(&self, message: &GeminiMessage) -> Option<usize> {
        let words = message_words(message);
        // A retold message may have a new id. Of equal ones, the newest is meant: people repeat
        // themselves.
        self.find_by_id(&message.id).or_else(|| self.0.iter().rposition(|seen| seen.1 == words))
    }

    pub(super) fn find_by_id(&self, id: &str) -> Option<usize> {
        let id = short_hash(&[id]);
        self.0.iter().rposition(|seen| seen.0 == id)
    }

    pub(super) fn event_at(&self, place: usize) -> Option<EventId> {
        self.0.get(place).and_then(|seen| seen.2)
    }

    /// What names the newest message, for a fact about everything up to it.
    pub(super) fn newest_name(&self) -> &str {
        self.0.back().map_or("", |seen| &seen.0)
    }

    /// Forgets all but the oldest `len`; whether there were more.
    pub(super) fn truncate(&mut self, len: usize) -> bool {
        let had_more = self.0.len() > len;
        self.0.truncate(len);
        had_more
    }
}

/// What a message says and calls, whatever its id. The client joins its context with the first
/// prompt when it retells, so context is left out.
fn message_words(message: &GeminiMessage) -> String {
    let mut said: Vec<&str> = vec![&message.kind];
    for part in &message.content.0 {
        said.extend(part.part_words());
    }
    // A retold call is a part of the content, a fresh one an entry of `toolCalls`.
    let is_named = message.content.0.iter().any(|part| part.function_call.is_some());
    if !is_named {
        said.extend(message.tool_calls.iter().map(|call| call.id.as_str()));
    }
    short_hash(&said)
}

impl GeminiPart {
    fn part_words(&self) -> Option<&str> {
        let text = self.text.as_deref().filter(|text| !super::is_context(text) && !text.is_empty());
        let call = self.function_call.as_ref().map(|call| call.id.as_str());
        let response = self.function_response.as_ref().map(|response| response.id.as_str());
        text.or(call).or(response)
    }
}
