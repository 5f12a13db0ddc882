//! The last messages that were told, so that a conversation that is rewritten is recognised.

use std::collections::VecDeque;

use event::EventId;
use serde::{Deserialize, Serialize};

use super::record::GooseMessage;

/// Messages that are remembered. What is older than all of them was told.
const RECENT_MAX: usize = 32;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct GooseRecent(VecDeque<GooseRecentEntry>);

/// The key of a message, its row, when it was said, and its last event.
#[derive(Serialize, Deserialize)]
struct GooseRecentEntry(String, Option<i64>, i64, Option<EventId>);

/// What a message is among those that were told.
pub(super) enum GooseNovelty {
    /// It was told.
    Before,
    New,
    /// It is new, and what came behind this event is gone.
    After(Option<EventId>),
}

impl GooseRecent {
    pub(super) fn classify(&mut self, key: &str, message: &GooseMessage) -> GooseNovelty {
        // A rewritten conversation gives a known message a new row.
        if let Some(seen) = self.0.iter_mut().find(|seen| seen.0 == key) {
            seen.1 = message.row_number();
            return GooseNovelty::Before;
        }
        // What is not newer than the oldest was told, and is forgotten by now.
        let is_full = self.0.len() == RECENT_MAX && message.row_number().is_some();
        if is_full && self.0.front().is_some_and(|oldest| message.created <= oldest.2) {
            return GooseNovelty::Before;
        }
        let (Some(newest), Some(_)) = (self.0.back(), message.row_number()) else {
            return GooseNovelty::New;
        };
        // It follows the newest message directly.
        if newest.1 == message.previous {
            return GooseNovelty::New;
        }
        // It follows an older one: what was told behind that is gone from the conversation.
        match self.0.iter().rposition(|seen| seen.1 == message.previous) {
            Some(place) => {
                let event = self.0[place].3;
                self.0.truncate(place + 1);
                GooseNovelty::After(event)
            }
            // It is the first row: the conversation was replaced as a whole.
            None if message.previous.is_none() => {
                self.0.clear();
                GooseNovelty::After(None)
            }
            // The row before it is not remembered, so nothing is known to be gone.
            None => GooseNovelty::New,
        }
    }

    pub(super) fn push(&mut self, key: String, message: &GooseMessage, event: Option<EventId>) {
        // A message without an event ends where the one before it has ended.
        let event = event.or(self.0.back().and_then(|newest| newest.3));
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(GooseRecentEntry(key, message.row_number(), message.created, event));
    }

    /// The first of some keys that no message has.
    pub(super) fn first_free(&self, key: impl Fn(u64) -> String) -> String {
        // Ends soon: the memory holds `RECENT_MAX` keys at most.
        let mut number = 0;
        loop {
            let key = key(number);
            if self.0.iter().all(|seen| seen.0 != key) {
                return key;
            }
            number += 1;
        }
    }

    /// Whether nothing that was told is newer.
    pub(super) fn is_newest(&self, message: &GooseMessage) -> bool {
        self.0.back().is_none_or(|newest| newest.2 <= message.created)
    }
}
