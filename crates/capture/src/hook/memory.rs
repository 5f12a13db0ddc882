//! Calls and questions that a later call of a hook is about.
//!
//! A question does not name the call it is about; the call was told a moment before. What is
//! forgotten with the process costs a name: a question finds its call by what would be done, too.

use std::collections::VecDeque;

use event::{Raw, Time};
use serde::Deserialize;

use crate::source::short_hash;

/// Sessions that are remembered, and calls and questions of each. With more the oldest is
/// forgotten.
const SESSIONS_MAX: usize = 256;
const CALLS_MAX: usize = 16;

/// Two equal questions this close together are one that two hooks of ours were told.
const SAME_MILLIS: i128 = 2_000;

/// What is remembered of the sessions whose hooks called lately.
#[derive(Debug, Default)]
pub struct HookMemory {
    /// The one that called last comes last.
    sessions: VecDeque<(String, Remembered)>,
}

/// What is remembered of one session.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    calls: VecDeque<Called>,
    asked: VecDeque<Asked>,
    /// The last that were decided, and the call of the hook that told it.
    resolved: VecDeque<(String, String)>,
}

/// A call that has begun.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// The agent's id of it, where it gives one.
    pub call_id: Option<String>,
    pub tool: String,
    pub given: String,
}

/// A question that nobody has answered yet.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The call of the hook that told it.
    pub name: String,
    pub approval_id: String,
    pub call_id: Option<String>,
    pub tool: String,
    pub given: String,
    pub at: Time,
    /// It is no approval: the user is asked something, under this id.
    pub is_question: bool,
}

impl HookMemory {
    /// What is remembered of a session of ours.
    pub(super) fn of(&mut self, session: &str) -> &mut Remembered {
        let known = self.sessions.iter().position(|(name, _)| name == session);
        let remembered = known.and_then(|place| self.sessions.remove(place));
        self.sessions.push_back(remembered.unwrap_or((session.to_owned(), Remembered::default())));
        if self.sessions.len() > SESSIONS_MAX {
            self.sessions.pop_front();
        }
        &mut self.sessions.back_mut().expect("it was just put there").1
    }
}

impl Remembered {
    pub(super) fn call(&mut self, called: Called) {
        push(&mut self.calls, called);
    }

    /// The call a question is about: the last one that is given the same; without a word about it
    /// the last one.
    pub(super) fn called(&self, given: Option<&str>) -> Option<&Called> {
        self.calls.iter().rev().find(|call| given.is_none_or(|given| call.given == given))
    }

    pub(super) fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Remembers a question; whether nobody told it before. One that is heard again, because it
    /// could not be recorded, is as new as it was.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        self.asked.retain(|known| known.name != asked.name);
        let is_same = |known: &Asked| {
            let since = (asked.at.nanos() - known.at.nanos()).abs();
            let is_unnamed = asked.call_id.is_none() && known.call_id.is_none();
            let is_near = since < SAME_MILLIS * 1_000_000;
            known.approval_id == asked.approval_id
                || is_unnamed && known.given == asked.given && is_near
        };
        let is_new = !self.asked.iter().any(is_same);
        if is_new {
            push(&mut self.asked, asked);
        }
        is_new
    }

    /// A call was made: the question about it, if there was one, is answered.
    pub(super) fn made(&mut self, call_id: Option<&str>, given: &str) -> Option<Asked> {
        let is_it = |call: Option<&str>, other: &str| match (call, call_id) {
            (Some(call), Some(id)) => call == id,
            _ => other == given,
        };
        if let Some(place) =
            self.calls.iter().position(|call| is_it(call.call_id.as_deref(), &call.given))
        {
            self.calls.remove(place);
        }
        let asked = |asked: &Asked| is_it(asked.call_id.as_deref(), &asked.given);
        let place = self.asked.iter().position(asked)?;
        self.asked.remove(place)
    }

    /// Somebody has decided.
    pub(super) fn decided(&mut self, approval_id: &str) {
        self.asked.retain(|asked| asked.approval_id != approval_id);
    }

    /// Remembers a decision; whether nobody told it before. One that is heard again, because it
    /// could not be recorded, is as new as it was.
    pub(super) fn resolved(&mut self, id: &str, name: &str) -> bool {
        let known = self.resolved.iter().find(|(known, _)| known == id);
        let is_new = known.is_none_or(|(_, by)| by == name);
        if known.is_none() {
            push(&mut self.resolved, (id.to_owned(), name.to_owned()));
        }
        is_new
    }

    /// Nothing that was begun or asked goes on.
    pub(super) fn ended(&mut self) -> Vec<Asked> {
        self.calls.clear();
        self.asked.drain(..).collect()
    }
}

/// A stand-in for what a call is given: its command, where it has one, whatever else is said with
/// it; otherwise all of it, whatever the order of its arguments.
pub(super) fn given(tool: &str, input: &Raw) -> String {
    #[derive(Deserialize)]
    struct CommandInput {
        command: String,
    }
    if let Ok(CommandInput { command }) = input.read() {
        return short_hash(&["command", &command]);
    }
    let value: Option<serde_json::Value> = input.read().ok();
    let text = value.map_or_else(|| input.get().to_owned(), |value| value.to_string());
    short_hash(&[tool, &text])
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == CALLS_MAX {
        list.pop_front();
    }
    list.push_back(item);
}
