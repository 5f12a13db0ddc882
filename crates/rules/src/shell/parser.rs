//! Lists of commands: separators, pipelines, compound commands.
//!
//! The grammar is read leniently, because a command that a shell might refuse is better found
//! than missed. What does not fit is noted as a doubt, which keeps every allow rule from holding.

use std::mem;
use std::ops::Range;

use super::heredoc::PendingHeredoc;
use super::syntax::{Assignment, Command, Redirect, Script, Word};

/// Bytes of a text that are read. A longer one is doubted as a whole.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Levels of substitutions, groups and quotes in each other. Reading stops at the limit, with a
/// doubt. It bounds the stack: a level takes some kilobytes in a debug build.
const DEPTH_MAX: usize = 40;

/// Commands of one text. Reading stops at the limit, with a doubt.
const COMMANDS_MAX: usize = 10_000;

/// How often a text may be searched for the ends of arithmetic, which is looked for before it is
/// read. Usual texts are searched less than once; at the limit arithmetic is read as commands, with
/// a doubt.
const ARITHMETIC_SEARCHES: usize = 8;

/// Reads a text as a shell would.
pub(crate) fn parse(text: &str) -> Script {
    parse_nested(text, 0)
}

/// Reads a text that stands inside another one.
pub(super) fn parse_nested(text: &str, depth: usize) -> Script {
    if text.len() > TEXT_BYTES_MAX {
        return Script { doubts: vec!["the text is too long to be read"], ..Script::default() };
    }
    let mut parser = Parser::new(text, depth);
    if text.contains('\0') {
        parser.doubt("there is a NUL in the text");
    }
    parser.read_list(None);
    parser.script
}

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) script: Script,
    /// Here-documents that have their bodies after the next line end.
    pub(super) pending: Vec<PendingHeredoc>,
    /// Bytes that may still be searched for the ends of arithmetic.
    search_bytes: usize,
}

/// A compound command that was begun in a list and is not closed.
struct Open {
    kind: Compound,
    /// The pipeline around it, which goes on behind it.
    pipeline: Pipeline,
    first_command: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compound {
    If,
    Loop,
    Brace,
    CasePattern,
    CaseBody,
}

/// The element of a pipeline that is being read.
#[derive(Clone, Default)]
struct Pipeline {
    element_begins: usize,
    producer: Option<Range<usize>>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, depth: usize) -> Parser<'t> {
        let search_bytes = text.len().saturating_mul(ARITHMETIC_SEARCHES);
        Parser { text, at: 0, depth, script: Script::default(), pending: Vec::new(), search_bytes }
    }

    /// Takes from what may be searched; false, with a doubt, if it is used up.
    pub(super) fn take_search(&mut self, bytes: usize) -> bool {
        let is_left = bytes <= self.search_bytes;
        self.search_bytes = self.search_bytes.saturating_sub(bytes);
        if !is_left {
            self.doubt("it has too much arithmetic");
        }
        is_left
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn starts_with(&self, beginning: &str) -> bool {
        self.rest().starts_with(beginning)
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn eat(&mut self, beginning: &str) -> bool {
        let is_here = self.starts_with(beginning);
        if is_here {
            self.at += beginning.len();
        }
        is_here
    }

    pub(super) fn doubt(&mut self, what: &'static str) {
        note(&mut self.script.doubts, what);
    }

    pub(super) fn hazard(&mut self, what: &'static str) {
        note(&mut self.script.hazards, what);
    }

    /// Reads a part one level deeper; at the limit the rest of the text is given up.
    pub(super) fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Parser<'t>) -> T) -> T {
        if self.depth >= DEPTH_MAX {
            self.doubt("it is nested too deep");
            self.at = self.text.len();
            return T::default();
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Blanks and continued lines.
    pub(super) fn skip_blanks(&mut self) {
        while self.eat(" ") || self.eat("\t") || self.eat("\\\n") {}
    }

    fn skip_blanks_and_lines(&mut self) {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n') => self.end_line(),
                Some('#') => self.skip_comment(),
                _ => return,
            }
        }
    }

    pub(super) fn skip_comment(&mut self) {
        let line = self.rest().find('\n').unwrap_or(self.rest().len());
        self.at += line;
    }

    fn end_line(&mut self) {
        self.next();
        self.read_heredocs();
    }

    pub(super) fn push(&mut self, command: Command) {
        if self.script.commands.len() >= COMMANDS_MAX {
            self.doubt("it has too many commands");
            self.at = self.text.len();
            return;
        }
        self.script.commands.push(command);
    }

    /// Reads commands up to the end of the text, or up to `end`, which is taken too.
    pub(super) fn read_list(&mut self, end: Option<char>) {
        let mut open: Vec<Open> = Vec::new();
        let mut pipeline = self.new_pipeline();
        loop {
            self.skip_blanks();
            let Some(c) = self.peek() else {
                self.end_element(&pipeline);
                if end.is_some() || !open.is_empty() {
                    self.doubt("something that was begun has no end");
                }
                if !self.pending.is_empty() {
                    self.doubt("a here-document has no body");
                    self.pending.clear();
                }
                return;
            };
            if open.last().is_some_and(|open| open.kind == Compound::CasePattern) {
                self.read_case_pattern(&mut open, &mut pipeline);
                continue;
            }
            match c {
                '\n' => {
                    pipeline = self.end_pipeline(&pipeline);
                    self.end_line();
                }
                '#' => self.skip_comment(),
                ';' => {
                    pipeline = self.end_pipeline(&pipeline);
                    self.read_semicolons(&mut open);
                }
                '&' if !self.starts_with("&>") => {
                    self.next();
                    self.eat("&");
                    pipeline = self.end_pipeline(&pipeline);
                }
                '|' => {
                    self.next();
                    if self.eat("|") {
                        pipeline = self.end_pipeline(&pipeline);
                    } else {
                        self.eat("&");
                        self.end_element(&pipeline);
                        let now = self.script.commands.len();
                        pipeline = Pipeline {
                            element_begins: now,
                            producer: Some(pipeline.element_begins..now),
                        };
                        self.skip_blanks_and_lines();
                    }
                }
                ')' => {
                    self.next();
                    if end == Some(')') {
                        self.end_element(&pipeline);
                        if !open.is_empty() {
                            self.doubt("a parenthesis closes something else");
                        }
                        return;
                    }
                    self.doubt("a parenthesis closes nothing");
                }
                '(' => self.read_parenthesis(),
                _ => self.read_command(&mut open, &mut pipeline),
            }
        }
    }

    fn new_pipeline(&self) -> Pipeline {
        Pipeline { element_begins: self.script.commands.len(), producer: None }
    }

    fn end_pipeline(&mut self, pipeline: &Pipeline) -> Pipeline {
        self.end_element(pipeline);
        self.new_pipeline()
    }

    /// Gives the commands of an element of a pipeline the output of the element before it.
    fn end_element(&mut self, pipeline: &Pipeline) {
        let Some(producer) = &pipeline.producer else { return };
        for command in &mut self.script.commands[pipeline.element_begins..] {
            command.piped_from.get_or_insert_with(|| producer.clone());
        }
    }

    fn read_semicolons(&mut self, open: &mut [Open]) {
        self.next();
        let ends_case = self.eat(";&") || self.eat(";") || self.eat("&");
        if ends_case {
            match open.last_mut() {
                Some(open) if open.kind == Compound::CaseBody => open.kind = Compound::CasePattern,
                _ => self.doubt("`;;` stands outside of a case"),
            }
        }
    }

    /// A subshell or arithmetic at the place of a command.
    fn read_parenthesis(&mut self) {
        let first = self.script.commands.len();
        if self.starts_with("((")
            && let Some(end) = self.arithmetic_end(self.at + 2)
        {
            self.at += 2;
            let inside = self.read_arithmetic(end);
            self.at = end + 2;
            self.hazard("it computes");
            self.push(Command {
                words: vec![Word::from_text("(("), Word { pieces: vec![inside] }],
                ..Command::default()
            });
        } else {
            self.next();
            // A here-document of the line around it begins behind the whole line.
            let outer = mem::take(&mut self.pending);
            self.deeper(|parser| parser.read_list(Some(')')));
            self.pending = outer;
        }
        self.read_redirects_behind(first);
    }

    /// Redirections behind a compound command hold for all of its commands.
    fn read_redirects_behind(&mut self, first: usize) {
        let mut outside = Command::default();
        loop {
            self.skip_blanks();
            let Some(redirect) = self.read_redirect() else { break };
            outside.redirects.push(redirect);
        }
        // Of several inputs the last one counts.
        let is_text = |redirect: &&Redirect| matches!(redirect, Redirect::Text(_));
        if let Some(text) = outside.redirects.iter().rev().find(is_text) {
            for command in &mut self.script.commands[first..] {
                command.redirects.insert(0, text.clone());
            }
        }
        if !outside.redirects.is_empty() {
            self.push(outside);
        }
    }

    /// A simple command, or a reserved word.
    fn read_command(&mut self, open: &mut Vec<Open>, pipeline: &mut Pipeline) {
        let before = self.at;
        if let Some(word) = self.reserved_word() {
            self.at += word.len();
            self.read_reserved(word, open, pipeline);
        } else {
            self.read_simple_command();
        }
        if self.at == before {
            // Whatever it is, it is no part of a word and no operator that is known here.
            self.doubt("there is a character that cannot stand there");
            self.next();
        }
    }

    /// The reserved word that the text goes on with, if one does.
    fn reserved_word(&self) -> Option<&'static str> {
        const RESERVED: &[&str] = &[
            "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "select", "while", "until",
            "do", "done", "case", "esac", "function", "time", "coproc", "[[",
        ];
        let rest = self.rest();
        let is_it = |word: &&&str| {
            rest.strip_prefix(**word).is_some_and(|behind| {
                behind.chars().next().is_none_or(|c| " \t\n;&|()<>".contains(c))
                    || behind.starts_with("\\\n")
            })
        };
        RESERVED.iter().find(is_it).copied()
    }

    fn read_reserved(&mut self, word: &'static str, open: &mut Vec<Open>, pipeline: &mut Pipeline) {
        let in_kind =
            |open: &[Open], kind: Compound| open.last().is_some_and(|open| open.kind == kind);
        match word {
            "!" => {}
            "time" => self.read_time(),
            "{" => self.begin(Compound::Brace, open, pipeline),
            "if" => self.begin(Compound::If, open, pipeline),
            "while" | "until" => self.begin(Compound::Loop, open, pipeline),
            "for" | "select" => {
                self.begin(Compound::Loop, open, pipeline);
                self.read_loop_head();
            }
            "case" => {
                self.begin(Compound::CasePattern, open, pipeline);
                self.read_case_head();
            }
            "then" | "elif" | "else" => {
                if !in_kind(open, Compound::If) {
                    self.doubt("a reserved word stands where none can");
                }
                *pipeline = self.end_pipeline(pipeline);
            }
            "do" => {
                if !in_kind(open, Compound::Loop) {
                    self.doubt("a reserved word stands where none can");
                }
                *pipeline = self.end_pipeline(pipeline);
            }
            "fi" => self.finish(Compound::If, open, pipeline),
            "done" => self.finish(Compound::Loop, open, pipeline),
            "}" => self.finish(Compound::Brace, open, pipeline),
            "esac" => self.finish(Compound::CaseBody, open, pipeline),
            "[[" => self.read_condition(),
            "function" => {
                self.hazard("it defines a function");
                self.skip_blanks();
                self.read_word();
                self.skip_blanks();
                self.eat("()");
                self.skip_blanks_and_lines();
            }
            _ => {
                self.hazard("it starts a coprocess");
            }
        }
    }

    /// `time` in front of a pipeline is a reserved word; with options it may be the program.
    fn read_time(&mut self) {
        self.skip_blanks();
        if self.starts_with("-") && !self.starts_with("-p ") {
            let mut command = Command::default();
            command.words.push(Word::from_text("time"));
            self.read_words(&mut command);
            self.push(command);
        } else {
            self.eat("-p ");
        }
    }

    fn begin(&mut self, kind: Compound, open: &mut Vec<Open>, pipeline: &mut Pipeline) {
        if open.len() >= DEPTH_MAX {
            self.doubt("it is nested too deep");
            self.at = self.text.len();
            return;
        }
        let first_command = self.script.commands.len();
        open.push(Open { kind, pipeline: pipeline.clone(), first_command });
        *pipeline = self.new_pipeline();
    }

    fn finish(&mut self, kind: Compound, open: &mut Vec<Open>, pipeline: &mut Pipeline) {
        self.end_element(pipeline);
        if open.last().is_none_or(|open| open.kind != kind) {
            self.doubt("a reserved word closes nothing");
            *pipeline = self.new_pipeline();
            return;
        }
        if let Some(closed) = open.pop() {
            *pipeline = closed.pipeline;
            self.read_redirects_behind(closed.first_command);
        }
    }

    /// `for x in a b`, up to the end of the words.
    fn read_loop_head(&mut self) {
        self.skip_blanks();
        if self.starts_with("((") {
            self.read_parenthesis();
            return;
        }
        let name = self.read_word().plain_text().unwrap_or_default();
        self.skip_blanks_and_lines();
        if self.reserved_in() {
            loop {
                self.skip_blanks();
                let before = self.at;
                let value = self.read_word();
                if self.at == before {
                    break;
                }
                // The words of a loop may run commands.
                self.script.loop_values.push(Assignment { name: name.clone(), value });
            }
        }
    }

    fn reserved_in(&mut self) -> bool {
        let is_in = self.rest().strip_prefix("in").is_some_and(|behind| {
            behind.chars().next().is_none_or(|c| c.is_whitespace() || c == ';')
        });
        is_in && self.eat("in")
    }

    fn read_case_head(&mut self) {
        self.hazard("it chooses by a pattern");
        self.skip_blanks();
        let value = self.read_word();
        self.script.loop_values.push(Assignment { name: String::new(), value });
        self.skip_blanks_and_lines();
        if !self.reserved_in() {
            self.doubt("a case has no `in`");
        }
    }

    /// The pattern in front of a branch of a case, or the end of it.
    fn read_case_pattern(&mut self, open: &mut Vec<Open>, pipeline: &mut Pipeline) {
        self.skip_blanks_and_lines();
        if self.reserved_word() == Some("esac") {
            self.at += "esac".len();
            self.finish(Compound::CasePattern, open, pipeline);
            return;
        }
        self.eat("(");
        loop {
            self.skip_blanks();
            let before = self.at;
            let value = self.read_word();
            self.script.loop_values.push(Assignment { name: String::new(), value });
            self.skip_blanks();
            if !self.eat("|") && self.at == before {
                break;
            }
        }
        if !self.eat(")") {
            self.doubt("a pattern of a case has no end");
            // What stands there is read as commands, so that nothing is missed.
        }
        if let Some(open) = open.last_mut() {
            open.kind = Compound::CaseBody;
        }
    }

    /// `[[ … ]]`: its operators are no operators of the list.
    fn read_condition(&mut self) {
        let mut command = Command { words: vec![Word::from_text("[[")], ..Command::default() };
        loop {
            self.skip_blanks();
            if self.starts_with("]]") {
                self.at += 2;
                break;
            }
            let Some(c) = self.peek() else {
                self.doubt("a condition has no end");
                break;
            };
            if " \t\n;&|()<>".contains(c) {
                self.next();
            } else {
                let word = self.read_word();
                command.words.push(word);
            }
        }
        let first = self.script.commands.len();
        self.push(command);
        self.read_redirects_behind(first);
    }
}

fn note(list: &mut Vec<&'static str>, what: &'static str) {
    if !list.contains(&what) {
        list.push(what);
    }
}
