//! How a command line is split.

use crate::expand::Variables;
use crate::shell;

/// The commands of a text with their words, as a shell would split them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandWords {
    /// The words of each command in the order of the text, without those inside of substitutions.
    /// What depends on anything outside of the text is missing in a word.
    pub commands: Vec<Vec<String>>,
    /// What could not be read. If there is anything, the words are a guess.
    pub doubts: Vec<String>,
}

impl CommandWords {
    /// Splits a text. Any text gives an answer.
    pub fn split(text: &str) -> CommandWords {
        let script = shell::parse(text);
        let variables = Variables::default();
        let words = |command: &shell::Command| {
            let args = variables.expand_words(&command.words);
            args.into_iter().map(|arg| arg.text).collect::<Vec<String>>()
        };
        let commands = script.commands.iter().map(words).filter(|words| !words.is_empty());
        CommandWords {
            commands: commands.collect(),
            doubts: script.doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
        }
    }
}
