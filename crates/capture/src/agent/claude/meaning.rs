//! Tool calls with a second meaning: they start a subagent or ask the user, and their results end
//! that, too.

use event::EventId;

use crate::agent::calls::{Call, Nothing};
use crate::source::short_hash;

/// What a call is beside a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    Nothing,
    /// A subagent works.
    Child,
    /// A person is asked.
    Question,
}

impl Meaning {
    pub(super) fn from_tool(tool: &str) -> Meaning {
        match tool {
            // The name of the tool depends on the version; 2.1.325 writes `Agent`.
            "Task" | "Agent" => Meaning::Child,
            "AskUserQuestion" => Meaning::Question,
            _ => Meaning::Nothing,
        }
    }
}

/// A call as it is remembered: its tool only where that has a second meaning.
pub(super) fn remembered(call_id: &str, tool: &str, event_id: EventId) -> Call<Nothing> {
    // A name that decides nothing is left out, to keep the saved state small.
    let is_bare = Meaning::from_tool(tool) == Meaning::Nothing;
    Call {
        call_id: known_as(call_id),
        event_id,
        tool: if is_bare { String::new() } else { tool.to_owned() },
        task: None,
        more: Nothing {},
    }
}

/// What a call is remembered by, however long its id is.
pub(super) fn known_as(call_id: &str) -> String {
    // Hashed, because `Calls` does not remember an id that is too long, and providers may use any
    // length.
    short_hash(&[call_id])
}
