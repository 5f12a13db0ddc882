//! Where prompts branch off, in records that name the one they follow: a rewind is a prompt with a
//! parent that another prompt had before.

use event::EventId;
use serde::{Deserialize, Serialize};

use crate::source::short_hash;

/// Prompts that are remembered. Behind older ones a rewind is not recognised, and the session is
/// told as one line.
const PROMPTS_MAX: usize = 16;

/// For each of the last prompts: the record it follows, and the last event before it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Branches(Vec<(String, EventId)>);

impl Branches {
    /// The last event before the prompts that follow the record `parent`.
    pub(crate) fn event_before(&self, parent: Option<&str>) -> Option<EventId> {
        let parent = short_hash(&[parent.unwrap_or_default()]);
        self.0.iter().find(|(known, _)| *known == parent).map(|(_, event)| *event)
    }

    /// A prompt that follows the record `parent`, told behind `last`: the event it goes back to,
    /// if it does.
    pub(crate) fn next(&mut self, parent: Option<&str>, last: Option<EventId>) -> Option<EventId> {
        let known = self.event_before(parent);
        if let (None, Some(last)) = (known, last) {
            // Stored with every checkpoint: the number is bounded, and hashes are shorter than ids.
            if self.0.len() == PROMPTS_MAX {
                self.0.remove(0);
            }
            self.0.push((short_hash(&[parent.unwrap_or_default()]), last));
        }
        known
    }
}
