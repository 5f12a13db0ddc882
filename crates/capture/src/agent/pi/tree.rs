//! Where the branches of a session meet.

use std::collections::VecDeque;

use event::EventId;
use serde::{Deserialize, Serialize};

use super::entry::PiEntry;
use crate::agent::calls::ID_BYTES_MAX;

/// Entries that are remembered with the last event on their branch: the newest ones, and those
/// before prompts, where people go back to. Going back to another is told without saying to where.
const NEWEST_MAX: usize = 12;
const BEFORE_PROMPTS_MAX: usize = 40;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tree {
    /// The entry that was read last.
    #[serde(skip_serializing_if = "Option::is_none")]
    leaf: Option<String>,
    newest: VecDeque<(String, EventId)>,
    before_prompts: VecDeque<(String, EventId)>,
}

impl Tree {
    /// Looks at an entry before it is told; `last` is the last event of the session. If it goes
    /// back, the last event that still holds, as far as that is known.
    pub(super) fn enter_entry(
        &mut self,
        entry: &PiEntry<'_>,
        last: Option<EventId>,
    ) -> Option<Option<EventId>> {
        // Neither the header nor what the first versions wrote is part of the tree.
        entry.id.as_ref().filter(|_| entry.kind != "session")?;
        // The leaf is the entry before this one in the file:
        //
        //     a - b - c        An entry behind `b` goes back:
        //          \ d         the last event of `b` is what still holds.
        let leaf = self.leaf.as_ref()?;
        let effective = self.effective(entry, last);
        (entry.parent_id.as_ref() != Some(leaf)).then_some(effective)
    }

    /// Remembers what a prompt stands behind: there people go back to.
    pub(super) fn mark_prompt(&mut self, entry: &PiEntry<'_>, last: Option<EventId>) {
        // Several prompts may follow one entry: the event before the first of them is right for
        // all.
        let effective = self.effective(entry, last);
        if let Some((parent, event_id)) = entry.parent_id.clone().zip(effective) {
            remember(&mut self.before_prompts, BEFORE_PROMPTS_MAX, parent, event_id);
        }
    }

    /// The last event on the branch before an entry.
    fn effective(&self, entry: &PiEntry<'_>, last: Option<EventId>) -> Option<EventId> {
        let parent = entry.parent_id.as_ref()?;
        let goes_on = Some(parent) == self.leaf.as_ref();
        // An entry that was told before any event is not remembered: what goes on from it follows
        // the session's last event.
        self.event_at(parent).or(last.filter(|_| goes_on))
    }

    /// An entry was told; `last` is the last event of the session.
    pub(super) fn leave_entry(&mut self, entry: &PiEntry<'_>, last: Option<EventId>) {
        // The header is no place in the tree, and an id that is too long would fill the saved
        // state.
        let id = entry.id.as_ref().filter(|id| entry.kind != "session" && id.len() <= ID_BYTES_MAX);
        let Some(id) = id else { return };
        self.leaf = Some(id.clone());
        if let Some(last) = last {
            remember(&mut self.newest, NEWEST_MAX, id.clone(), last);
        }
    }

    fn event_at(&self, id: &str) -> Option<EventId> {
        let known = self.newest.iter().chain(&self.before_prompts).rev();
        known.filter(|(entry, _)| entry == id).map(|(_, event_id)| *event_id).next()
    }
}

fn remember(list: &mut VecDeque<(String, EventId)>, max: usize, id: String, event_id: EventId) {
    if list.iter().any(|(known, _)| *known == id) {
        return;
    }
    if list.len() == max {
        list.pop_front();
    }
    list.push_back((id, event_id));
}
