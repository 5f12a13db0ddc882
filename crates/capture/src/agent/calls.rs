//! Calls that wait for their results, as far as an agent has to remember them.

use std::collections::VecDeque;

use event::EventId;
use serde::{Deserialize, Serialize};

/// Calls that are remembered. Beyond it the oldest is forgotten: its result names no call then.
const CALLS_MAX: usize = 12;

/// Bytes of the tasks among them. Beyond it the oldest is forgotten; the whole task stands in the
/// call.
const TASK_BYTES_MAX: usize = 500;

/// Bytes of an id or a name that is remembered. A call with a longer one is told, and not known
/// again.
pub(super) const ID_BYTES_MAX: usize = 128;

/// Calls without a result, the newest last.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Calls<T>(VecDeque<Call<T>>);

/// A call, and what an agent knows of it beside.
#[derive(Serialize, Deserialize)]
pub(super) struct Call<T> {
    pub call_id: String,
    pub event_id: EventId,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// What it asks a subagent to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(flatten)]
    pub more: T,
}

/// Nothing beside.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Nothing {}

impl<T> Default for Calls<T> {
    fn default() -> Calls<T> {
        Calls(VecDeque::new())
    }
}

impl<T> Calls<T> {
    pub(super) fn open(&mut self, mut call: Call<T>) {
        // The saved state is limited to 4 KiB: one long id must not fill it.
        if call.call_id.len() > ID_BYTES_MAX || call.tool.len() > ID_BYTES_MAX {
            return;
        }
        if self.0.len() == CALLS_MAX {
            self.0.pop_front();
        }
        if let Some(task) = &mut call.task {
            // A cut within a character would panic.
            task.truncate(task.floor_char_boundary(TASK_BYTES_MAX));
        }
        self.0.push_back(call);
        // The newest tasks keep their words as long as the bytes last; the older ones give way.
        let mut left = TASK_BYTES_MAX;
        for task in self.0.iter_mut().rev().map(|call| &mut call.task) {
            let length = task.as_ref().map_or(0, String::len);
            match left.checked_sub(length) {
                Some(less) => left = less,
                None => *task = None,
            }
        }
    }

    pub(super) fn get(&mut self, call_id: &str) -> Option<&mut Call<T>> {
        // A provider may use an id again: the newest call is the one that is meant.
        self.0.iter_mut().rev().find(|call| call.call_id == call_id)
    }

    pub(super) fn close(&mut self, call_id: &str) -> Option<Call<T>> {
        let place = self.0.iter().rposition(|call| call.call_id == call_id)?;
        self.0.remove(place)
    }

    /// The newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Call<T>> {
        self.0.iter().rev()
    }
}
