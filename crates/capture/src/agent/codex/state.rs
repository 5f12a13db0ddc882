//! What has to be known of the lines before.

use std::collections::{BTreeMap, VecDeque};

use event::{EventId, Time};
use serde::{Deserialize, Serialize};

use crate::agent::calls::{Calls, ID_BYTES_MAX};
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;

/// Turns that can be taken back by name. Going back further is told without saying to where.
const MARKS_MAX: usize = 24;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexState {
    /// The thread, where the file's name does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    pub has_meta: bool,
    /// A subagent, and whether its task was told.
    pub is_child: bool,
    pub has_task: bool,
    /// Lines before this one repeat what the parent has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_from: Option<u64>,
    /// There was a response item: they own the text.
    pub has_items: bool,
    /// There was a completed item: this version tells how what goes on in the background ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tells_ends: bool,
    /// Tokens of the whole thread, to know a count that is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// How requests are served, where that has a price of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    turn: CodexTurn,
    pub calls: Calls<Ran>,
    /// The last thing said before each turn.
    marks: VecDeque<Option<EventId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_said: Option<EventId>,
}

/// What is counted anew in every turn.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CodexTurn {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    counts: BTreeMap<String, u32>,
    /// A compaction was told; its second record is still to come.
    is_compacted: bool,
    /// Usage is told per response, so running totals are not needed.
    has_usage: bool,
}

/// What is known of a call before its result.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ran {
    /// It runs a program that makes calls of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
    /// It asks a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_declined: bool,
    /// What was told of it while it ran on; its end is still to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<EventId>,
    /// The process it runs as, or looks after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u64>,
}

impl CodexState {
    /// A turn goes on, or the next one begins.
    pub(super) fn enter_turn(&mut self, turn: Option<&str>) {
        // A longer id would fill the saved state. The turn then goes on under the name it had.
        let turn = turn.filter(|turn| turn.len() <= ID_BYTES_MAX);
        if turn.is_some() && turn != self.turn.id.as_deref() {
            // Counts begin anew, so that a fork which copies the turn counts its lines alike.
            self.turn = CodexTurn { id: turn.map(str::to_owned), ..CodexTurn::default() };
        }
    }

    pub(super) fn turn_id(&self) -> Option<&str> {
        self.turn.id.as_deref()
    }

    /// Which fact the next one of a sort is. Lines have no ids of their own, and a fork repeats
    /// them under new times: what stays is the turn and their order in it.
    pub(super) fn identity(&mut self, builder: &EventBuilder<'_>, sort: &str) -> EventIdentity {
        // The first versions name no turns: the place in the file is all there is.
        let Some(turn) = &self.turn.id else {
            return EventIdentity::in_session(&[sort, &builder.record_name()]);
        };
        // `entry` alone would need an owned key for every line.
        let count = match self.turn.counts.get_mut(sort) {
            Some(count) => count,
            None => self.turn.counts.entry(sort.to_owned()).or_default(),
        };
        *count = count.saturating_add(1);
        EventIdentity::everywhere(&[turn, sort, &count.to_string()])
    }

    /// The identity of a fact that the agent names within the turn.
    pub(super) fn turn_identity(&self, sort: &str, name: &str) -> EventIdentity {
        match &self.turn.id {
            Some(turn) => EventIdentity::everywhere(&[turn, sort, name]),
            None => EventIdentity::in_session(&[sort, name]),
        }
    }

    /// The program that is running.
    pub(super) fn running_program(&self) -> Option<EventId> {
        // In code mode the commands of a cell do not name its call: it is the newest open one.
        self.calls.iter().find(|call| call.more.is_program).map(|call| call.event_id)
    }

    /// A prompt can be rewound: the session then goes on behind the event before it.
    pub(super) fn mark_prompt(&mut self, builder: &mut EventBuilder<'_>, at: Option<Time>) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(self.last_said.or_else(|| builder.last_event(at)));
    }

    /// Takes the last turns back; the last thing that still holds, as far as it is known.
    pub(super) fn take_back(&mut self, turns: u64) -> Option<EventId> {
        let mut mark = None;
        // One more than is remembered empties the list, and a hostile count must not keep the loop
        // busy.
        for _ in 0..turns.min(MARKS_MAX as u64 + 1) {
            mark = self.marks.pop_back().flatten();
        }
        self.last_said = mark;
        mark
    }

    pub(super) fn compacted(&mut self) {
        self.turn.is_compacted = true;
    }

    /// The second record of a compaction; whether the first was there.
    pub(super) fn compaction_seen(&mut self) -> bool {
        std::mem::take(&mut self.turn.is_compacted)
    }

    pub(super) fn usage_told(&mut self, total_tokens: Option<u64>) {
        self.turn.has_usage = true;
        self.total_tokens = total_tokens.or(self.total_tokens);
    }

    /// Whether a running total is news: not the one before again, and not told per response.
    pub(super) fn is_new_total(&mut self, total_tokens: u64) -> bool {
        // Codex repeats `token_count`, so only a changed total is news.
        let is_new = self.total_tokens != Some(total_tokens) && !self.turn.has_usage;
        self.total_tokens = Some(total_tokens);
        is_new
    }
}
