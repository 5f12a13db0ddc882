//! Commands that fail again and again in the same way, with no edit between.
//!
//! An agent in such a loop looks busy and spends money. It is told by three things: the same call,
//! the same result, and no file that was edited since the first of them. Numbers in a result do not
//! count, because test runs print how long they took.

use event::payload::{StepCompleted, ToolResult};
use event::{Event, Time};
use serde::{Deserialize, Serialize};

use super::pending::PendingCall;
use crate::event_ref::EventRef;
use crate::id_hash::IdHash;
use crate::ring_buffer::RingBuffer;
use crate::tokens::TokenTotals;
use crate::tool::has_failed;

/// Equal failures that make a loop. Fewer are an agent that tries once more.
const LOOP_MIN: u64 = 5;

/// Commands whose results are compared. With more the one that ran longest ago is forgotten, and an
/// agent that alternates between more of them is in no loop.
const COMMANDS_MAX: usize = 8;

/// Characters of a result that are compared. Results that differ only behind them count as equal.
const RESULT_CHARS_MAX: usize = 16 * 1024;

/// The commands of the open turn since the last edit, the one that ran last behind the others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Repetitions(RingBuffer<Repetition, COMMANDS_MAX>);

/// A command and how often it has come to the same result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Repetition {
    call: IdHash,
    result: IdHash,
    is_failed: bool,
    /// What was done, in the past tense and not yet redacted.
    doing: String,
    count: u64,
    first: EventRef,
    model: Option<String>,
    /// What requests to the model have used since the first result, as they were first told.
    used: TokenTotals,
}

impl Repetitions {
    /// Takes the result of a command.
    pub(super) fn apply_result(&mut self, call: &PendingCall, result: &ToolResult, event: &Event) {
        let (key, told) = (call.hash(), result_hash(result));
        let same = self.0.take(|known| known.call == key).filter(|known| known.result == told);
        let is_failed = has_failed(result);
        let repetition = match same {
            Some(known) => Repetition { count: known.count + 1, is_failed, ..known },
            None => Repetition {
                call: key,
                result: told,
                is_failed,
                doing: call.doing.past_tense(),
                count: 1,
                first: EventRef::from_event(event),
                model: None,
                used: TokenTotals::default(),
            },
        };
        self.0.push(repetition);
    }

    /// Takes what a request to the model used.
    pub(super) fn apply_step(&mut self, step: &StepCompleted) {
        let used =
            step.usage.as_ref().map_or_else(TokenTotals::unreported, TokenTotals::from_usage);
        for known in self.0.iter_mut() {
            known.used += used;
            known.model.clone_from(&step.model);
        }
    }

    /// Forgets everything: a file was edited, or the user has said more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The loop that the agent is in, if it is in one.
    pub(super) fn find_loop(&self) -> Option<&Repetition> {
        self.0.iter().rev().find(|known| known.is_failed && known.count >= LOOP_MIN)
    }
}

impl Repetition {
    /// How often the command has failed in the same way.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What was done, in the past tense and not yet redacted.
    pub fn doing(&self) -> &str {
        &self.doing
    }

    /// When it failed first.
    pub fn since(&self) -> Time {
        self.first.at
    }

    /// What requests to the model have used since, and the model of the last one.
    pub fn used(&self) -> (Option<&str>, &TokenTotals) {
        (self.model.as_deref(), &self.used)
    }
}

/// A stand-in for a result, without its numbers.
fn result_hash(result: &ToolResult) -> IdHash {
    let output = result.output.as_ref().map(|output| output.get()).unwrap_or_default();
    let error = result.error.as_deref().unwrap_or_default();
    let letters = output.chars().chain(error.chars()).take(RESULT_CHARS_MAX);
    let letters: String = letters.filter(|letter| !letter.is_ascii_digit()).collect();
    IdHash::from_id(&format!("{} {:?} {letters}", result.outcome, result.exit_code))
}
