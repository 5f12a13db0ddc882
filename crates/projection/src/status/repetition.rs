//! Commands that fail again and again in the same way, with no edit between.
//!
//! An agent in such a loop looks busy and spends money. It is told by three things: the same call,
//! the same result, and no file that was edited since the first of them. Times in a result do not
//! count, because test runs print how long they took; other numbers do, because fewer failures are
//! progress. The loop is over once the agent runs a command that it has not just repeated.

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
        let is_failed = has_failed(result);
        let (key, told) = (call.hash(), result_hash(result, is_failed));
        let same = self.0.take(|known| known.call == key).filter(|known| known.result == told);
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
        let is_loop = |known: &&Repetition| known.is_failed && known.count >= LOOP_MIN;
        // A command that ran since and is no repetition shows that the agent does something else.
        self.0.iter().rev().take_while(|known| known.count > 1).find(is_loop)
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

/// A stand-in for a result, without the times in it.
fn result_hash(result: &ToolResult, is_failed: bool) -> IdHash {
    let output = result.output.as_ref().map(|output| output.get()).unwrap_or_default();
    let error = result.error.as_deref().unwrap_or_default();
    // Only failures make a loop. Most results are none, and reading them all would be most of the
    // work of a status.
    if !is_failed {
        let told = format!("{} {:?} {}", result.outcome, result.exit_code, output.len());
        return IdHash::from_id(&told);
    }
    let letters: String =
        output.chars().chain([' ']).chain(error.chars()).take(RESULT_CHARS_MAX).collect();
    let told = without_times(&letters);
    IdHash::from_id(&format!("{} {:?} {told}", result.outcome, result.exit_code))
}

/// Units behind a number that is a duration.
const TIME_UNITS: &[&str] = &[
    "ns", "us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
    "minutes", "h",
];

/// Parts of names whose number is a time: `"duration_ms":12`, `time: 0.3`.
const TIME_NAMES: &[&str] = &["duration", "elapsed", "time", "took", "_ms"];

/// Bytes of the name before a number that are compared.
const NAME_BYTES_MAX: usize = 32;

/// The text without numbers that tell a time or how long something took.
fn without_times(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        kept.push_str(&rest[..start]);
        let number = &rest[start..];
        // `12:30:05.25` and `2026-11-18T12:00:00Z` are one number each.
        let is_part = |c: char| c.is_ascii_digit() || ".:,-TZ".contains(c);
        let end = number.find(|c: char| !is_part(c)).unwrap_or(number.len());
        let digits = number[..end].trim_end_matches(|c: char| !c.is_ascii_digit());
        rest = &number[digits.len()..];
        if !is_time(digits, rest, &kept) {
            kept.push_str(digits);
        }
    }
    kept + rest
}

/// Whether a number is a time, by itself, by what follows it, or by the name before it.
fn is_time(digits: &str, behind: &str, before: &str) -> bool {
    let behind = behind.strip_prefix(' ').unwrap_or(behind);
    let unit: String = behind.chars().take_while(|c| c.is_alphabetic()).take(8).collect();
    let is_clock = digits.contains(':') && digits.contains(|c: char| c.is_ascii_digit());
    // The word before, past signs such as `": `.
    let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
    let start = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    let name = before.get(start..).filter(|name| name.len() <= NAME_BYTES_MAX).unwrap_or_default();
    let name = name.to_ascii_lowercase();
    is_clock
        || TIME_UNITS.contains(&unit.as_str())
        || TIME_NAMES.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_do_not_count() {
        let equal = [
            ("2 failed in 3.1s", "2 failed in 14.07s"),
            ("finished at 12:30:05", "finished at 12:31:17"),
            (r#"{"duration_ms":12,"failed":2}"#, r#"{"duration_ms":7,"failed":2}"#),
            ("time: 0.31", "time: 2"),
            ("ran for 2 seconds", "ran for 11 seconds"),
        ];
        for (one, other) in equal {
            assert_eq!(without_times(one), without_times(other));
        }
        let different = [
            ("12 failed in 3s", "3 failed in 3s"),
            ("error at line 7", "error at line 8"),
            ("12 tests", "3 tests"),
            ("expected 1.5, found 2.5", "expected 1.5, found 3.5"),
        ];
        for (one, other) in different {
            assert_ne!(without_times(one), without_times(other));
        }
    }
}
