//! Commands that the process of a session has started and that still run.
//!
//! Some agents tell that a call was approved only when it is done. The process that it runs in
//! tells it at once.

use event::{Raw, Time};

use crate::excerpt;
use crate::risk::simple_words;
use crate::tool::whole_command;

/// Seconds by which a process may seem to have started before it did: boot times are whole seconds.
const START_SLACK_SECS: i128 = 2;

/// Characters of a command that is looked for. A longer one is found by its beginning.
const COMMAND_CHARS_MAX: usize = 1_000;

/// A process below that of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningCommand {
    /// The first words of its command line.
    pub words: Vec<String>,
    pub started_at: Time,
}

impl RunningCommand {
    /// Whether it was started for a call with this command, which was asked about at that time.
    pub(super) fn is_for(&self, command: &str, asked_at: Time) -> bool {
        // An equal command that runs since before the request belongs to another call.
        let slack = START_SLACK_SECS * 1_000_000_000;
        if self.started_at.nanos() + slack < asked_at.nanos() {
            return false;
        }
        // A shell gets the command as one word, which may be a script of the agent around it.
        let is_given = self.words.iter().skip(1).any(|word| has_command(word, command));
        // A shell replaces itself by a command that is the only one.
        let is_replaced = simple_words(command)
            .is_some_and(|words| words.iter().take(self.words.len()).eq(self.words.iter()));
        is_given || is_replaced && !self.words.is_empty()
    }
}

/// What is kept of the command in the input of a call.
pub(super) fn kept_command(input: &Raw) -> Option<String> {
    let command = whole_command(input)?;
    Some(excerpt::take_head(command.trim(), COMMAND_CHARS_MAX).to_owned())
        .filter(|command| !command.is_empty())
}

/// Whether a script has the command in it, and not only as a part of another word.
fn has_command(script: &str, command: &str) -> bool {
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    script.match_indices(command).any(|(at, found)| {
        let behind = &script[at + found.len()..];
        is_end(script[..at].chars().next_back()) && is_end(behind.chars().next())
            || found.chars().count() == COMMAND_CHARS_MAX
    })
}
