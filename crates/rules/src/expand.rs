//! What the words of a command become: the arguments a program would get, as far as the text
//! itself tells.
//!
//! Values that the text assigns, output that it writes out (`$(echo rm)`, `base64 -d`) and braces
//! are expanded. What depends on anything outside is left out of the argument, which is marked as
//! not known.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

use crate::braces;
use crate::glob::{Glob, GlobToken};
use crate::output::output_of_script;
use crate::shell::{Operand, Piece, Script, Word};

/// Values that are remembered of one variable. Each is tried on its own; a text that assigns more
/// is tried with the first ones.
pub(crate) const VALUES_MAX: usize = 4;

/// Bytes of a value. A longer one is not known.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// Bytes that values and output may add to all words of a text. What exceeds them is not known.
/// It bounds what `$x$x$x…` can become.
const ADDED_BYTES_MAX: usize = 1 << 22;

/// Arguments of one command. What follows is left out; its text is searched.
pub(crate) const FIELDS_MAX: usize = 50_000;

/// How deep output of commands is followed that use output of commands.
const OUTPUT_DEPTH_MAX: usize = 6;

/// An argument as the program would get it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arg {
    pub text: String,
    /// Set if unquoted wildcards are in it: the shell replaces it by names of files.
    pub glob: Option<Glob>,
    /// False if a part of it cannot be known, and is missing in the text.
    pub is_known: bool,
}

impl Arg {
    pub(crate) fn known(text: impl Into<String>) -> Arg {
        Arg { text: text.into(), glob: None, is_known: true }
    }

    /// Whether it is exactly this text, whatever happens outside.
    pub(crate) fn is_literal(&self) -> bool {
        self.is_known && self.glob.is_none()
    }
}

/// What the text says about variables.
#[derive(Clone)]
pub(crate) struct Variables {
    values: Rc<HashMap<String, Vec<String>>>,
    /// Which value is used where there are several.
    choice: usize,
    output_depth: usize,
    /// How many bytes values may still add.
    bytes_left: Rc<Cell<usize>>,
}

impl Default for Variables {
    fn default() -> Variables {
        Variables {
            values: Rc::default(),
            choice: 0,
            output_depth: 0,
            bytes_left: Rc::new(Cell::new(ADDED_BYTES_MAX)),
        }
    }
}

impl Variables {
    pub(crate) fn assign(&mut self, name: &str, value: String) {
        if value.len() > VALUE_BYTES_MAX {
            return;
        }
        let values = Rc::make_mut(&mut self.values).entry(name.to_owned()).or_default();
        if values.len() < VALUES_MAX && !values.contains(&value) {
            values.push(value);
        }
    }

    /// Sets `$0`, `$1` … to the arguments of a script.
    pub(crate) fn set_arguments(&mut self, arguments: &[Arg]) {
        let values = Rc::make_mut(&mut self.values);
        for (number, argument) in arguments.iter().enumerate().take(10) {
            values.insert(number.to_string(), vec![argument.text.clone()]);
        }
        let rest: Vec<&str> = arguments.iter().skip(1).map(|arg| arg.text.as_str()).collect();
        for name in ["@", "*"] {
            values.insert(name.to_owned(), vec![rest.join(" ")]);
        }
    }

    /// The same variables, of which those with several values take this one.
    pub(crate) fn with_choice(&self, choice: usize) -> Variables {
        Variables { choice, ..self.clone() }
    }

    /// How many choices differ.
    pub(crate) fn choices(&self) -> usize {
        self.values.values().map(Vec::len).max().unwrap_or(1).max(1)
    }

    fn value(&self, name: &str) -> Option<&str> {
        if let Some(values) = self.values.get(name) {
            return values.get(self.choice).or(values.last()).map(String::as_str);
        }
        if let Some(array) = name.strip_suffix("[@]") {
            return self.value(array);
        }
        match name {
            // Without arguments it is the shell; the variables name one too.
            "0" | "SHELL" | "BASH" => Some("sh"),
            "IFS" => Some(" \t\n"),
            _ => None,
        }
    }

    fn deeper(&self) -> Option<Variables> {
        let output_depth = self.output_depth + 1;
        (output_depth <= OUTPUT_DEPTH_MAX).then(|| Variables { output_depth, ..self.clone() })
    }

    /// The arguments that these words become.
    pub(crate) fn expand_words(&self, words: &[Word]) -> Vec<Arg> {
        let mut args = Vec::new();
        for word in words {
            let Some(words) = braces::expand(word) else {
                args.push(Arg::default());
                continue;
            };
            for word in words {
                let mut fields = Fields::default();
                self.expand_pieces(&word.pieces, true, &mut fields);
                args.extend(fields.finish());
                if args.len() > FIELDS_MAX {
                    args.truncate(FIELDS_MAX);
                    args.push(Arg::default());
                    return args;
                }
            }
        }
        args
    }

    /// The text that a word becomes where it is not split, as behind `=` or `<<<`.
    pub(crate) fn expand_text(&self, word: &Word) -> Arg {
        let mut fields = Fields::default();
        self.expand_pieces(&word.pieces, false, &mut fields);
        Arg { glob: None, ..fields.finish_one() }
    }

    fn expand_pieces(&self, pieces: &[Piece], splits: bool, fields: &mut Fields) {
        for piece in pieces {
            match piece {
                Piece::Text { text, is_quoted } => fields.push_text(text, *is_quoted),
                Piece::Variable { name, is_quoted, operand } => {
                    // `"$@"` is several arguments, quoted or not.
                    let splits =
                        splits && (!is_quoted || name.ends_with('@') || name.ends_with("[@]"));
                    self.expand_variable(name, operand.as_ref(), splits, fields);
                }
                Piece::Output { script, is_quoted } => {
                    let output = self.output(script);
                    let output = output.as_deref().map(|text| text.trim_end_matches('\n'));
                    fields.push_value(self.take_bytes(output), splits && !is_quoted);
                }
                Piece::Process(_) => fields.push_text("/dev/fd/63", true),
                Piece::Arithmetic(_) => fields.push_value(None, false),
            }
        }
    }

    /// What commands print, if the text tells.
    pub(crate) fn output(&self, script: &Script) -> Option<String> {
        output_of_script(script, &self.deeper()?)
    }

    /// The value if there is one and its bytes may still be added.
    fn take_bytes<'v>(&self, value: Option<&'v str>) -> Option<&'v str> {
        value.filter(|value| self.take(value.len()))
    }

    /// Takes from what values and output may add; false if so much is not left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let left = self.bytes_left.get().checked_sub(bytes);
        // What does not fit uses up the rest, so that it is not tried again and again.
        self.bytes_left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn expand_variable(
        &self,
        name: &str,
        operand: Option<&Operand>,
        splits: bool,
        fields: &mut Fields,
    ) {
        let value = self.take_bytes(self.value(name));
        match (operand, value) {
            (None | Some(Operand::Case | Operand::Default(_)), Some(value)) => {
                fields.push_value(Some(value), splits);
            }
            (Some(Operand::Default(word)), None) => {
                // The variable may have a value outside of the text, so it is not known.
                self.expand_pieces(&word.pieces, splits, fields);
                fields.is_known = false;
            }
            (Some(Operand::Alternative(word)), _) => {
                self.expand_pieces(&word.pieces, splits, fields);
                fields.is_known &= value.is_some();
            }
            (None | Some(Operand::Case), None) | (Some(Operand::Other(_)), _) => {
                fields.push_value(None, splits);
            }
        }
    }
}

/// The arguments that one word becomes, while it is read.
struct Fields {
    done: Vec<Arg>,
    text: String,
    tokens: Vec<GlobToken>,
    has_glob: bool,
    /// Whether there is a field, even an empty one.
    is_begun: bool,
    is_known: bool,
}

impl Default for Fields {
    fn default() -> Fields {
        Fields {
            done: Vec::new(),
            text: String::new(),
            tokens: Vec::new(),
            has_glob: false,
            is_begun: false,
            is_known: true,
        }
    }
}

impl Fields {
    fn push_text(&mut self, text: &str, is_quoted: bool) {
        self.is_begun = true;
        if is_quoted || !text.contains(['*', '?', '[']) {
            self.text.push_str(text);
            self.tokens.extend(text.chars().map(GlobToken::Char));
        } else {
            self.push_wildcards(text);
        }
    }

    fn push_wildcards(&mut self, text: &str) {
        self.has_glob = true;
        self.text.push_str(text);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            self.tokens.push(match c {
                '*' => GlobToken::Many,
                '?' => GlobToken::One,
                // A class stands for one character. Which one is not looked at.
                '[' if let Some(end) = class_end(rest) => {
                    rest = &rest[end..];
                    GlobToken::One
                }
                c => GlobToken::Char(c),
            });
        }
    }

    fn push_value(&mut self, value: Option<&str>, splits: bool) {
        let Some(value) = value else {
            // In quotes even nothing is an argument.
            self.is_begun |= !splits;
            self.is_known = false;
            return;
        };
        if !splits {
            return self.push_text(value, true);
        }
        let is_blank = |c: char| c == ' ' || c == '\t' || c == '\n';
        for (number, field) in value.split(is_blank).enumerate() {
            if number > 0 {
                self.end_field();
            }
            if !field.is_empty() {
                self.push_text(field, false);
            }
        }
    }

    fn end_field(&mut self) {
        if !self.is_begun || self.done.len() > FIELDS_MAX {
            return;
        }
        let tokens = mem::take(&mut self.tokens);
        let glob = mem::take(&mut self.has_glob).then(|| Glob::from_tokens(tokens));
        self.done.push(Arg { text: mem::take(&mut self.text), glob, is_known: self.is_known });
        self.is_begun = false;
        self.is_known = true;
    }

    fn finish(mut self) -> Vec<Arg> {
        // An unquoted value that is not known may be no argument at all, or several.
        let is_open = !self.is_begun && !self.is_known;
        self.end_field();
        if is_open {
            self.done.push(Arg::default());
        }
        self.done
    }

    fn finish_one(self) -> Arg {
        let glob = self.has_glob.then(|| Glob::from_tokens(self.tokens));
        Arg { text: self.text, glob, is_known: self.is_known }
    }
}

/// Where a class of characters ends that began before `rest`.
fn class_end(rest: &str) -> Option<usize> {
    // A bracket in the first place belongs to the class.
    let skip = rest.strip_prefix(['!', '^']).map_or(0, |_| 1);
    let skip = skip + usize::from(rest[skip..].starts_with(']'));
    rest[skip..].find(']').map(|end| skip + end + 1)
}
