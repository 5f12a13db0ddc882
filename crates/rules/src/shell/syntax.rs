//! What a shell would read in a text: simple commands with their words, in one list.
//!
//! Lists, loops, groups and functions leave no node of their own: a rule asks which commands a
//! text can run, not when. What stands in a substitution is a [`Script`] inside the word.

use std::ops::Range;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Script {
    pub commands: Vec<Command>,
    pub heredocs: Vec<Word>,
    /// Values that loops give to variables.
    pub loop_values: Vec<Assignment>,
    /// What could not be read as a shell reads it. Nothing can be concluded from the rest then.
    pub doubts: Vec<&'static str>,
    /// What was read well and still changes the meaning of other words, such as a function.
    pub hazards: Vec<&'static str>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Command {
    pub assignments: Vec<Assignment>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    /// The commands of the same list that this one reads from through a pipe.
    pub piped_from: Option<Range<usize>>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Assignment {
    pub name: String,
    pub value: Word,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
    /// `2>&1`: no file.
    Duplicate,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Redirect {
    File {
        direction: Direction,
        target: Word,
    },
    /// A here-document or a here-string. Its text is in [`Script::heredocs`], because all commands
    /// of a group may share it.
    Text(usize),
}

/// A word: its pieces in order. `a"b"$c` has three.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Word {
    pub pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Piece {
    /// Quoted text has no globs, no braces and no tilde.
    Text {
        text: String,
        is_quoted: bool,
    },
    Variable {
        name: String,
        is_quoted: bool,
        operand: Option<Operand>,
    },
    /// The output of commands: `$(…)` or backticks.
    Output {
        script: Script,
        is_quoted: bool,
    },
    /// A file name that stands for commands: `<(…)` or `>(…)`.
    Process(Script),
    /// Arithmetic, with the commands in it.
    Arithmetic(Vec<Piece>),
}

/// What stands behind the name in `${name…}`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Operand {
    /// `${x:-word}`, `${x:=word}`, `${x:?word}`: used if there is no value.
    Default(Word),
    /// `${x:+word}`: used if there is a value.
    Alternative(Word),
    /// `${x^^}`: the value in another case.
    Case,
    /// Anything else; the commands in it run all the same.
    Other(Word),
}

impl Word {
    /// The text of a word that is unquoted text and nothing else: only such a word can be a
    /// reserved one.
    pub(crate) fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text { text, is_quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// The text of a word without expansions.
    pub(crate) fn plain_text(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn push_char(&mut self, c: char, quoted: bool) {
        match self.pieces.last_mut() {
            Some(Piece::Text { text, is_quoted }) if *is_quoted == quoted => text.push(c),
            _ => self.pieces.push(Piece::Text { text: c.to_string(), is_quoted: quoted }),
        }
    }

    pub(crate) fn from_text(text: &str) -> Word {
        Word { pieces: vec![Piece::Text { text: text.to_owned(), is_quoted: true }] }
    }

    /// The scripts in the word, however deep they stand in its operands.
    pub(crate) fn scripts(&self) -> Vec<&Script> {
        let mut scripts = Vec::new();
        collect_scripts(&self.pieces, &mut scripts);
        scripts
    }
}

fn collect_scripts<'w>(pieces: &'w [Piece], scripts: &mut Vec<&'w Script>) {
    for piece in pieces {
        match piece {
            Piece::Text { .. } => {}
            Piece::Output { script, .. } | Piece::Process(script) => scripts.push(script),
            Piece::Arithmetic(inside) => collect_scripts(inside, scripts),
            Piece::Variable { operand, .. } => match operand {
                Some(
                    Operand::Default(word) | Operand::Alternative(word) | Operand::Other(word),
                ) => collect_scripts(&word.pieces, scripts),
                Some(Operand::Case) | None => {}
            },
        }
    }
}
