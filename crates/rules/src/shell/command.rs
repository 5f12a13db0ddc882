//! One simple command: assignments, words, redirections.

use super::parser::Parser;
use super::syntax::{Assignment, Command, Direction, Piece, Redirect, Word};

/// Characters that end a word.
pub(super) const METACHARACTERS: &str = " \t\n;&|()<>";

impl Parser<'_> {
    pub(super) fn read_simple_command(&mut self) {
        let mut command = Command::default();
        self.read_words(&mut command);
        if !command.words.is_empty()
            || !command.assignments.is_empty()
            || !command.redirects.is_empty()
        {
            self.push(command);
        }
    }

    /// Adds what stands here to a command, up to the operator that ends it.
    pub(super) fn read_words(&mut self, command: &mut Command) {
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.read_redirect() {
                command.redirects.push(redirect);
                continue;
            }
            let Some(c) = self.peek() else { return };
            match c {
                '<' | '>' => {
                    // `read_redirect` left it: a process substitution.
                    let word = self.read_word();
                    command.words.push(word);
                }
                '#' => return self.skip_comment(),
                '(' if self.is_function_head(command) => {
                    self.hazard("it defines a function");
                    command.words.clear();
                    return;
                }
                '(' => return self.doubt("a parenthesis stands where none can"),
                _ if METACHARACTERS.contains(c) => return,
                _ => self.read_word_or_assignment(command),
            }
        }
    }

    /// `name ()`, the parentheses taken.
    fn is_function_head(&mut self, command: &Command) -> bool {
        let is_name = command.words.len() == 1 && command.assignments.is_empty();
        let behind = self.rest()[1..].trim_start_matches([' ', '\t']);
        let is_head = is_name && behind.starts_with(')');
        if is_head {
            self.at = self.text.len() - behind.len() + 1;
        }
        is_head
    }

    fn read_word_or_assignment(&mut self, command: &mut Command) {
        let begin = self.at;
        let mut word = self.read_word();
        if command.words.is_empty()
            && let Some((name, length)) = assigned_name(&word)
        {
            let is_array = self.at == begin + length && self.peek() == Some('(');
            if is_array {
                self.next();
                self.read_array(&name, command);
            } else {
                cut_beginning(&mut word, length);
                command.assignments.push(Assignment { name, value: word });
            }
            return;
        }
        command.words.push(word);
    }

    fn read_array(&mut self, name: &str, command: &mut Command) {
        loop {
            while self.peek().is_some_and(|c| " \t\n".contains(c)) {
                self.next();
            }
            if self.eat(")") {
                return;
            }
            let before = self.at;
            let value = self.read_word();
            if self.at == before {
                return self.doubt("an array has no end");
            }
            command.assignments.push(Assignment { name: name.to_owned(), value });
        }
    }

    /// A redirection, if one stands here.
    pub(super) fn read_redirect(&mut self) -> Option<Redirect> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let prefix = if digits > 0 { digits } else { variable_descriptor(rest) };
        let operator = OPERATORS.iter().find(|(sign, _)| rest[prefix..].starts_with(sign));
        let (sign, kind) = *operator?;
        if prefix > 0 && sign.starts_with('&') {
            return None;
        }
        let behind = &rest[prefix + sign.len()..];
        if behind.starts_with('(') && matches!(sign, "<" | ">") {
            return None;
        }
        self.at += prefix + sign.len();
        Some(match kind {
            Sign::Heredoc => Redirect::Text(self.read_heredoc_delimiter(false)),
            Sign::HeredocTabs => Redirect::Text(self.read_heredoc_delimiter(true)),
            Sign::HereString => {
                let text = self.read_target();
                self.script.heredocs.push(text);
                Redirect::Text(self.script.heredocs.len() - 1)
            }
            Sign::Duplicate => self.read_duplicate(),
            Sign::Read => Redirect::File { direction: Direction::Read, target: self.read_target() },
            Sign::Write => {
                Redirect::File { direction: Direction::Write, target: self.read_target() }
            }
        })
    }

    fn read_target(&mut self) -> Word {
        self.skip_blanks();
        let before = self.at;
        let word = self.read_word();
        if self.at == before {
            self.doubt("a redirection has no target");
        }
        word
    }

    /// `>&2` names a stream, `>&file` a file.
    fn read_duplicate(&mut self) -> Redirect {
        let target = self.read_target();
        let is_stream = target.bare().is_some_and(|text| {
            let number = text.strip_suffix('-').unwrap_or(text);
            number.chars().all(|c| c.is_ascii_digit())
        });
        let direction = if is_stream { Direction::Duplicate } else { Direction::Write };
        Redirect::File { direction, target }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Read,
    Write,
    Duplicate,
    Heredoc,
    HeredocTabs,
    HereString,
}

/// Longer signs before their beginnings.
const OPERATORS: &[(&str, Sign)] = &[
    ("<<<", Sign::HereString),
    ("<<-", Sign::HeredocTabs),
    ("<<", Sign::Heredoc),
    ("<>", Sign::Write),
    ("<&", Sign::Duplicate),
    ("<", Sign::Read),
    (">>", Sign::Write),
    (">|", Sign::Write),
    (">&", Sign::Duplicate),
    (">!", Sign::Write),
    (">", Sign::Write),
    ("&>>", Sign::Write),
    ("&>", Sign::Write),
];

/// The length of `{name}` in front of a redirection.
fn variable_descriptor(rest: &str) -> usize {
    let Some(inside) = rest.strip_prefix('{') else { return 0 };
    let name = inside.len() - inside.trim_start_matches(is_name_character).len();
    let behind = &inside[name..];
    let is_descriptor = name > 0 && (behind.starts_with("}<") || behind.starts_with("}>"));
    if is_descriptor { name + 2 } else { 0 }
}

pub(super) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The variable that a word assigns to, and the length of what stands before the value.
fn assigned_name(word: &Word) -> Option<(String, usize)> {
    let Some(Piece::Text { text, is_quoted: false }) = word.pieces.first() else { return None };
    let (head, _) = text.split_once('=')?;
    let name = head.strip_suffix('+').unwrap_or(head);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let is_name = !name.is_empty()
        && name.chars().all(is_name_character)
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| (name.to_owned(), head.len() + 1))
}

fn cut_beginning(word: &mut Word, length: usize) {
    if let Some(Piece::Text { text, .. }) = word.pieces.first_mut() {
        text.drain(..length);
        if text.is_empty() {
            word.pieces.remove(0);
        }
    }
}
