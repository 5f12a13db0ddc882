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
    pub(super) fn of(tool: &str) -> Meaning {
        match tool {
            "Task" | "Agent" => Meaning::Child,
            "AskUserQuestion" => Meaning::Question,
            _ => Meaning::Nothing,
        }
    }
}

/// A call as it is remembered: its tool only where that means something.
pub(super) fn remembered(call_id: &str, tool: &str, event_id: EventId) -> Call<Nothing> {
    let is_bare = Meaning::of(tool) == Meaning::Nothing;
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
    short_hash(&[call_id])
}
