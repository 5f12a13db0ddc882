//! What has to be known of the events before.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::agent::calls::{Calls, ID_BYTES_MAX};

/// Subagents that are followed at a time. Beyond it the oldest is forgotten: the end of its last
/// turn is not told then.
const SUBAGENTS_MAX: usize = 8;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CopilotState {
    main: CopilotThread,
    subagents: VecDeque<(String, CopilotThread)>,
    pub calls: Calls<Asking>,
}

/// One talk of the log: the session's own, or that of a subagent.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CopilotThread {
    /// What was asked last, and whether it is being worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    pub is_turn_open: bool,
    /// The last answer wants tools, so another one follows; `None` before there is one.
    pub wants_tools: Option<bool>,
}

/// Whether a call asks a person.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asking {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
}

impl CopilotState {
    pub(super) fn open_thread(&mut self, agent: Option<&str>) -> &mut CopilotThread {
        // An id that is too long for the state shares the session's own talk.
        let Some(agent) = agent.filter(|agent| agent.len() <= ID_BYTES_MAX) else {
            return &mut self.main;
        };
        let place = self.subagents.iter().position(|(known, _)| known == agent);
        let place = place.unwrap_or_else(|| {
            if self.subagents.len() == SUBAGENTS_MAX {
                self.subagents.pop_front();
            }
            self.subagents.push_back((agent.to_owned(), CopilotThread::default()));
            self.subagents.len() - 1
        });
        &mut self.subagents[place].1
    }

    /// A subagent has ended.
    pub(super) fn end_thread(&mut self, agent: &str) {
        self.subagents.retain(|(known, _)| known != agent);
    }
}
