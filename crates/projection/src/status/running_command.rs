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
    /// Whether its command line has more words than were kept.
    pub is_cut: bool,
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
        let is_replaced = simple_words(command).is_some_and(|words| self.has_words(&words));
        is_given || is_replaced
    }

    /// Whether these are all of its words, as far as they were kept. A process with fewer words
    /// runs something else: `make` is not `make clean`.
    fn has_words(&self, words: &[String]) -> bool {
        let kept = if self.is_cut { self.words.len().min(words.len()) } else { words.len() };
        !self.words.is_empty() && self.words == words[..kept]
    }
}

/// What is kept of the command in the input of a call.
pub(super) fn kept_command(input: &Raw) -> Option<String> {
    let command = whole_command(input)?;
    Some(excerpt::take_head(command.trim(), COMMAND_CHARS_MAX).to_owned())
        .filter(|command| !command.is_empty())
}

/// Whether a script has the command in it as a line, a group or a quoted text of its own, as the
/// script of an agent around it has. One among other commands of a line belongs to that line.
fn has_command(script: &str, command: &str) -> bool {
    script.match_indices(command).any(|(at, found)| {
        let before = script[..at].trim_end_matches([' ', '\t']);
        let behind = script[at + found.len()..].trim_start_matches([' ', '\t', ';']);
        let is_begin = before.is_empty() || before.ends_with(['\n', '{', '(', '\'', '"']);
        let is_end = behind.is_empty() || behind.starts_with(['\n', '}', ')', '\'', '"']);
        is_begin && (is_end || found.chars().count() == COMMAND_CHARS_MAX)
    })
}
