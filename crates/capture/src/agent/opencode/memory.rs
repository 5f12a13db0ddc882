//! What is remembered of a session while its rows come: the last messages and their parts.

use std::collections::VecDeque;

use event::EventId;
use serde::{Deserialize, Serialize};

use super::record::Info;
use crate::source::short_hash;

/// Messages that are remembered. A part of an older one is told without its place in it.
const MESSAGES_MAX: usize = 20;
/// Parts with a remembered place in their message. An older one gets another place.
const PARTS_MAX: usize = 40;
/// Calls that were told. The journal knows older ones.
const CALLS_MAX: usize = 32;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OpenCodeMemory {
    messages: VecDeque<OpenCodeMessage>,
    /// Message, part, and the place of the part among what its message says.
    parts: VecDeque<(String, String, u32)>,
    calls: VecDeque<String>,
    /// The last talk that was told.
    pub last_event: Option<EventId>,
    /// The message from which on everything is taken back, until it is gone.
    pub reverted: Option<String>,
}

#[derive(Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OpenCodeMessage {
    #[serde(rename = "i")]
    id: String,
    #[serde(rename = "c")]
    pub created: i64,
    #[serde(rename = "u", skip_serializing_if = "std::ops::Not::not")]
    pub is_user: bool,
    /// An answer that sums up the talk.
    #[serde(rename = "s", skip_serializing_if = "std::ops::Not::not")]
    pub is_summary: bool,
    #[serde(rename = "p", skip_serializing_if = "std::ops::Not::not")]
    pub has_prompt: bool,
    #[serde(rename = "d", skip_serializing_if = "std::ops::Not::not")]
    pub is_done: bool,
    /// The user denied it, and the agent does not go on.
    #[serde(rename = "x", skip_serializing_if = "std::ops::Not::not")]
    pub is_blocked: bool,
    /// How many parts have a place.
    #[serde(rename = "n")]
    places: u32,
    /// The last event before it.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    before: Option<EventId>,
}

impl OpenCodeMemory {
    /// The message, as known from now on.
    pub(super) fn remember_message(&mut self, id: &str, info: &Info) -> &mut OpenCodeMessage {
        // Hashes keep the saved state small, and bounded whatever the ids are.
        let hash = short_hash(&[id]);
        let place = match self.messages.iter().rposition(|message| message.id == hash) {
            Some(place) => place,
            None => {
                if self.messages.len() == MESSAGES_MAX {
                    self.messages.pop_front();
                }
                // Where a revert to this message goes back to.
                let before = self.last_event;
                self.messages.push_back(OpenCodeMessage {
                    id: hash,
                    before,
                    ..OpenCodeMessage::default()
                });
                self.messages.len() - 1
            }
        };
        let message = &mut self.messages[place];
        // The log tells a message again as it grows, so the newest word counts.
        message.created = info.time.created.unwrap_or_default();
        message.is_user = info.role == "user";
        message.is_summary = info.is_summary();
        message
    }

    pub(super) fn find_message(&mut self, id: &str) -> Option<&mut OpenCodeMessage> {
        let hash = short_hash(&[id]);
        self.messages.iter_mut().rev().find(|message| message.id == hash)
    }

    /// The place of a part among what its message says; the first look at it decides.
    pub(super) fn place_part(&mut self, message_id: &str, part_id: &str) -> u32 {
        let hashes = (short_hash(&[message_id]), short_hash(&[part_id]));
        let known = self.parts.iter().rev().find(|part| part.0 == hashes.0 && part.1 == hashes.1);
        if let Some(part) = known {
            return part.2;
        }
        let block = match self.find_message(message_id) {
            Some(message) => {
                let place = message.places;
                message.places = place.saturating_add(1);
                place
            }
            None => 0,
        };
        if self.parts.len() == PARTS_MAX {
            self.parts.pop_front();
        }
        self.parts.push_back((hashes.0, hashes.1, block));
        block
    }

    /// Whether a call is told for the first time.
    pub(super) fn is_first_call(&mut self, part_id: &str) -> bool {
        let hash = short_hash(&[part_id]);
        if self.calls.contains(&hash) {
            return false;
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(hash);
        true
    }

    /// Forgets a message and all behind it: the last event before it, if it was known.
    pub(super) fn take_back(&mut self, id: &str) -> Option<Option<EventId>> {
        let hash = short_hash(&[id]);
        let place = self.messages.iter().rposition(|message| message.id == hash)?;
        let before = self.messages[place].before;
        // What follows a message that was taken back is taken back with it.
        self.messages.truncate(place);
        Some(before)
    }

    /// The last event before a message.
    pub(super) fn event_before(&mut self, id: &str) -> Option<EventId> {
        self.find_message(id).and_then(|message| message.before)
    }
}
