//! Tool calls and questions that a later message of a hook refers to.
//!
//! A question does not name the tool call it is about; the call was told a moment before. A restart
//! of the daemon forgets them all. That costs the call's id only: the question is also connected by
//! its input.

use std::collections::VecDeque;

use event::{HookMessage, ProcessIdentity, Raw, Time};
use serde::Deserialize;

use crate::source::short_hash;

/// The most sessions in memory, and the most calls and questions of each. Beyond that the oldest
/// is forgotten.
const SESSIONS_MAX: usize = 256;
const CALLS_MAX: usize = 16;

/// The most sessions without a record whose process is remembered. Beyond that the oldest is
/// forgotten: the next call names its process again.
const UNWRITTEN_MAX: usize = 64;

/// How long the process of a session without a record is remembered. An agent that has a prompt
/// writes within seconds, and calls a hook with the next one.
const UNWRITTEN_MILLIS: i128 = 60_000;

/// Two equal questions within this time are one question that reached two of our hooks.
const SAME_MILLIS: i128 = 2_000;

/// What earlier messages of the most recent sessions told.
#[derive(Debug, Default)]
pub struct HookMemory {
    /// The session of the newest message comes last.
    sessions: VecDeque<(String, SessionMemory)>,
    /// The last message of each session that has no record yet. It names the process.
    unwritten: VecDeque<HookMessage>,
}

/// What earlier messages of one session told.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionMemory {
    calls: VecDeque<StartedCall>,
    questions: VecDeque<OpenQuestion>,
    /// The ids of the latest decisions.
    decisions: VecDeque<String>,
    /// The process of the last message that was recorded.
    process: Option<ProcessIdentity>,
}

/// A tool call that has started.
#[derive(Clone, Debug)]
pub(super) struct StartedCall {
    /// The agent's id of the call, if it gives one.
    pub call_id: Option<String>,
    pub tool: String,
    pub input_hash: String,
    /// The questions that the call puts to the user, in words; empty for any other call.
    pub asks: String,
}

/// An approval or another question to the user without an answer yet.
#[derive(Clone, Debug)]
pub(super) struct OpenQuestion {
    pub approval_id: String,
    pub call_id: Option<String>,
    pub tool: String,
    pub input_hash: String,
    pub at: Time,
    /// `false` for a question in the agent's own words; `approval_id` is the id of its request.
    pub is_approval: bool,
}

impl HookMemory {
    /// The memory of one session, which becomes the newest.
    pub(super) fn for_session(&mut self, session: &str) -> &mut SessionMemory {
        // A linear search is enough for a few hundred names.
        let known = self.sessions.iter().position(|(name, _)| name == session);
        let memory = known.and_then(|place| self.sessions.remove(place));
        self.sessions.push_back(memory.unwrap_or((session.to_owned(), SessionMemory::default())));
        if self.sessions.len() > SESSIONS_MAX {
            self.sessions.pop_front();
        }
        &mut self.sessions.back_mut().expect("it was just put there").1
    }
}

impl HookMemory {
    /// Keeps a message until its session has a record, in place of an earlier one.
    pub fn keep_unwritten(&mut self, message: &HookMessage) {
        let is_other = |kept: &HookMessage| {
            (&kept.provider, &kept.session) != (&message.provider, &message.session)
        };
        self.unwritten.retain(is_other);
        self.unwritten.push_back(message.clone());
        if self.unwritten.len() > UNWRITTEN_MAX {
            self.unwritten.pop_front();
        }
    }

    /// The messages whose sessions had no record, without those that are too old.
    pub fn take_unwritten(&mut self, now: Time) -> VecDeque<HookMessage> {
        let mut kept = std::mem::take(&mut self.unwritten);
        kept.retain(|message| now.nanos() - message.at.nanos() < UNWRITTEN_MILLIS * 1_000_000);
        kept
    }
}

impl SessionMemory {
    /// Whether a message comes from another process than the last one.
    pub(super) fn is_other_process(&self, process: Option<ProcessIdentity>) -> bool {
        let is_same = |known: ProcessIdentity| process.is_some_and(|it| it.is_same(&known));
        process.is_some() && !self.process.is_some_and(is_same)
    }

    /// Remembers the process of a message. What was asked before the process started was asked by
    /// another one, and no message of this one answers it.
    pub(super) fn note_process(&mut self, process: Option<ProcessIdentity>) {
        if let Some(process) = process.filter(|_| self.is_other_process(process)) {
            self.questions.retain(|question| question.at >= process.started_at);
        }
        self.process = process.or(self.process);
    }

    pub(super) fn add_call(&mut self, call: StartedCall) {
        push_bounded(&mut self.calls, call);
    }

    /// The last call with this input; without an input the last call.
    pub(super) fn last_call(&self, input_hash: Option<&str>) -> Option<&StartedCall> {
        let has_input = |call: &&StartedCall| input_hash.is_none_or(|hash| call.input_hash == hash);
        self.calls.iter().rev().find(has_input)
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Adds a question; whether it is told for the first time.
    pub(super) fn add_question(&mut self, question: OpenQuestion) -> bool {
        let is_same = |known: &OpenQuestion| {
            let since = (question.at.nanos() - known.at.nanos()).abs();
            // Two calls with ids are two questions, even if their inputs are equal.
            let is_unnamed = question.call_id.is_none() && known.call_id.is_none();
            let is_near = since < SAME_MILLIS * 1_000_000;
            known.approval_id == question.approval_id
                || is_unnamed && known.input_hash == question.input_hash && is_near
        };
        let is_new = !self.questions.iter().any(is_same);
        if is_new {
            push_bounded(&mut self.questions, question);
        }
        is_new
    }

    /// Ends a call, and returns the question about it, which is answered by that.
    pub(super) fn end_call(
        &mut self,
        call_id: Option<&str>,
        input_hash: &str,
    ) -> Option<OpenQuestion> {
        // Ids decide where both sides have one; many agents give none.
        let is_same = |known_id: Option<&str>, known_hash: &str| match (known_id, call_id) {
            (Some(known), Some(id)) => known == id,
            _ => known_hash == input_hash,
        };
        let call = |call: &StartedCall| is_same(call.call_id.as_deref(), &call.input_hash);
        if let Some(index) = self.calls.iter().position(call) {
            self.calls.remove(index);
        }
        let question =
            |question: &OpenQuestion| is_same(question.call_id.as_deref(), &question.input_hash);
        let index = self.questions.iter().position(question)?;
        self.questions.remove(index)
    }

    /// Removes a question that was decided.
    pub(super) fn close_question(&mut self, approval_id: &str) {
        self.questions.retain(|question| question.approval_id != approval_id);
    }

    /// Adds a decision; whether it is told for the first time.
    pub(super) fn add_decision(&mut self, id: &str) -> bool {
        let is_new = !self.decisions.iter().any(|known| known == id);
        if is_new {
            push_bounded(&mut self.decisions, id.to_owned());
        }
        is_new
    }

    /// Forgets all calls, and returns the questions that were open at a time. A signal may wait on
    /// disk, and a question that was asked since is of a later turn.
    pub(super) fn end_all_calls(&mut self, at: Time) -> Vec<OpenQuestion> {
        self.calls.clear();
        let (ended, open) = self.questions.drain(..).partition(|question| question.at <= at);
        self.questions = open;
        Vec::from(ended)
    }
}

/// A hash of a call's input: of its command, if it has one, otherwise of all its arguments.
///
/// A question repeats the command but may add a description, so the rest is left out.
pub(super) fn input_hash(tool: &str, input: &Raw) -> String {
    #[derive(Deserialize)]
    struct CommandInput {
        command: String,
    }
    if let Ok(CommandInput { command }) = input.read() {
        return short_hash(&["command", &command]);
    }
    // Parsed and written again, so that the order of the members does not matter.
    let value: Option<serde_json::Value> = input.read().ok();
    let text = value.map_or_else(|| input.get().to_owned(), |value| value.to_string());
    short_hash(&[tool, &text])
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == CALLS_MAX {
        list.pop_front();
    }
    list.push_back(item);
}
