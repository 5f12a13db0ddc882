//! One word: quotes, backslashes, and everything that begins with `$` or a backtick.

use std::mem;

use super::command::{METACHARACTERS, is_name_character};
use super::parser::{Parser, parse_nested};
use super::syntax::{Operand, Piece, Script, Word};

impl Parser<'_> {
    /// Reads up to the next character that ends a word; none is an empty word.
    pub(super) fn read_word(&mut self) -> Word {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if word.pieces.is_empty() && self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    let script = self.read_inner_list();
                    word.pieces.push(Piece::Process(script));
                }
                _ if METACHARACTERS.contains(c) => break,
                _ => self.read_piece(&mut word),
            }
        }
        word
    }

    /// Reads text in which only expansions and backslashes count, up to `end`, which is left.
    pub(super) fn read_expanded(&mut self, word: &mut Word, end: Option<char>) {
        while let Some(c) = self.peek() {
            match c {
                _ if Some(c) == end => return,
                '\\' => {
                    self.next();
                    match self.peek() {
                        Some('\n') => {
                            self.next();
                        }
                        Some(c @ ('$' | '`' | '\\')) => {
                            self.next();
                            word.push_char(c, true);
                        }
                        Some('"') if end == Some('"') => {
                            self.next();
                            word.push_char('"', true);
                        }
                        _ => word.push_char('\\', true),
                    }
                }
                '$' => self.read_dollar(word, true),
                '`' => self.read_backticks(word, true),
                _ => {
                    self.next();
                    word.push_char(c, true);
                }
            }
        }
    }

    fn read_piece(&mut self, word: &mut Word) {
        match self.peek() {
            Some('\\') => self.read_backslash(word),
            Some('\'') => self.read_single_quotes(word),
            Some('"') => self.read_double_quotes(word),
            Some('$') => self.read_dollar(word, false),
            Some('`') => self.read_backticks(word, false),
            Some(c) => {
                self.next();
                word.push_char(c, false);
            }
            None => {}
        }
    }

    fn read_backslash(&mut self, word: &mut Word) {
        self.next();
        match self.next() {
            Some('\n') => {}
            Some(c) => word.push_char(c, true),
            None => word.push_char('\\', true),
        }
    }

    fn read_single_quotes(&mut self, word: &mut Word) {
        self.next();
        let rest = self.rest();
        let length = rest.find('\'').unwrap_or_else(|| {
            self.doubt("a quote has no end");
            rest.len()
        });
        word.pieces.push(Piece::Text { text: rest[..length].to_owned(), is_quoted: true });
        self.at = (self.at + length + 1).min(self.text.len());
    }

    fn read_double_quotes(&mut self, word: &mut Word) {
        self.next();
        // Also an empty pair of quotes makes a word.
        word.pieces.push(Piece::Text { text: String::new(), is_quoted: true });
        self.deeper(|parser| parser.read_expanded(word, Some('"')));
        if !self.eat("\"") {
            self.doubt("a quote has no end");
        }
    }

    fn read_dollar(&mut self, word: &mut Word, is_quoted: bool) {
        let rest = self.rest();
        let behind = &rest[1..];
        match behind.chars().next() {
            Some('\'') if !is_quoted => self.read_ansi_quotes(word),
            Some('"') if !is_quoted => {
                self.next();
                self.read_double_quotes(word);
            }
            Some('(') => self.read_output_or_arithmetic(word, is_quoted),
            Some('[') => {
                self.at += 2;
                let end = self.rest().find(']').map_or(self.text.len(), |end| self.at + end);
                let inside = self.read_arithmetic(end);
                word.pieces.push(inside);
                self.at = end;
                if !self.eat("]") {
                    self.doubt("arithmetic has no end");
                }
            }
            Some('{') => {
                self.at += 2;
                let piece = self.deeper(|parser| Some(parser.read_parameter(is_quoted)));
                word.pieces.extend(piece);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let length = behind.len() - behind.trim_start_matches(is_name_character).len();
                let name = behind[..length].to_owned();
                self.at += 1 + length;
                word.pieces.push(Piece::Variable { name, is_quoted, operand: None });
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 2;
                let name = c.to_string();
                word.pieces.push(Piece::Variable { name, is_quoted, operand: None });
            }
            _ => {
                self.next();
                word.push_char('$', is_quoted);
            }
        }
    }

    fn read_output_or_arithmetic(&mut self, word: &mut Word, is_quoted: bool) {
        if self.starts_with("$((")
            && let Some(end) = self.arithmetic_end(self.at + 3)
        {
            self.at += 3;
            let inside = self.read_arithmetic(end);
            word.pieces.push(inside);
            self.at = end + 2;
            return;
        }
        self.at += 2;
        let script = self.read_inner_list();
        word.pieces.push(Piece::Output { script, is_quoted });
    }

    /// The commands up to a closing parenthesis, as a script of their own.
    fn read_inner_list(&mut self) -> Script {
        let outer = mem::take(&mut self.script);
        let pending = mem::take(&mut self.pending);
        self.deeper(|parser| parser.read_list(Some(')')));
        self.pending = pending;
        let inner = mem::replace(&mut self.script, outer);
        self.adopt(&inner);
        inner
    }

    /// A doubt about a part is one about the whole.
    fn adopt(&mut self, inner: &Script) {
        for doubt in &inner.doubts {
            self.doubt(doubt);
        }
        for hazard in &inner.hazards {
            self.hazard(hazard);
        }
    }

    fn read_backticks(&mut self, word: &mut Word, is_quoted: bool) {
        self.next();
        let mut inside = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('`' | '\\' | '$')) => inside.push(c),
                    Some('"') if is_quoted => inside.push('"'),
                    Some(c) => inside.extend(['\\', c]),
                    None => inside.push('\\'),
                },
                Some(c) => inside.push(c),
                None => {
                    self.doubt("a backtick has no end");
                    break;
                }
            }
        }
        let script = self.deeper(|parser| parse_nested(&inside, parser.depth));
        self.adopt(&script);
        word.pieces.push(Piece::Output { script, is_quoted });
    }

    /// `${…`, behind the brace.
    fn read_parameter(&mut self, is_quoted: bool) -> Piece {
        if self.peek().is_some_and(|c| c.is_whitespace() || c == '|') {
            return self.read_inline_commands(is_quoted);
        }
        let is_indirect = self.eat("!");
        let is_length = !is_indirect && self.starts_with("#") && !self.starts_with("#}");
        if is_length {
            self.next();
        }
        let rest = self.rest();
        let mut length = rest.len() - rest.trim_start_matches(is_name_character).len();
        if length == 0 && rest.starts_with(['@', '*', '#', '?', '-', '$', '!']) {
            length = 1;
        }
        let mut name = rest[..length].to_owned();
        self.at += length;
        if self.eat("[@]") || self.eat("[*]") {
            name.push_str("[@]");
        } else if self.starts_with("[") {
            // Which element it is does not matter: each is a value of the variable.
            let end = self.rest().find([']', '}']).unwrap_or(self.rest().len());
            self.at += end;
            self.eat("]");
        }
        let operator = self.read_operator();
        let mut value = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '}' => break,
                // In double quotes a single one is a letter.
                '\'' if is_quoted => {
                    self.next();
                    value.push_char('\'', true);
                }
                _ => self.read_piece(&mut value),
            }
        }
        if !self.eat("}") {
            self.doubt("a variable has no closing brace");
        }
        if self.text[..self.at].ends_with("@P}") {
            self.hazard("a value is expanded again");
        }
        let operand = match operator {
            _ if is_indirect || is_length => Some(Operand::Other(value)),
            "" if value.pieces.is_empty() => None,
            ":-" | "-" | ":=" | "=" | ":?" | "?" => Some(Operand::Default(value)),
            ":+" | "+" => Some(Operand::Alternative(value)),
            "^^" | "^" | ",," | "," => Some(Operand::Case),
            _ => Some(Operand::Other(value)),
        };
        Piece::Variable { name, is_quoted, operand }
    }

    fn read_operator(&mut self) -> &'static str {
        const OPERATORS: &[&str] =
            &[":-", ":=", ":?", ":+", "-", "=", "?", "+", "^^", "^", ",,", ","];
        let operator = OPERATORS.iter().find(|operator| self.starts_with(operator));
        let operator = operator.copied().unwrap_or("");
        self.at += operator.len();
        operator
    }

    /// `${ commands; }` and `${| commands; }` of newer shells.
    fn read_inline_commands(&mut self, is_quoted: bool) -> Piece {
        self.eat("|");
        let length = self.rest().rfind('}').unwrap_or_else(|| {
            self.doubt("commands in braces have no end");
            self.rest().len()
        });
        // The last brace of the text is not always theirs, so nothing is concluded from it.
        self.doubt("there are commands in `${ … }`");
        let script = parse_nested(&self.rest()[..length], self.depth);
        self.adopt(&script);
        self.at = (self.at + length + 1).min(self.text.len());
        Piece::Output { script, is_quoted }
    }

    /// `$'…'`, at the dollar.
    fn read_ansi_quotes(&mut self, word: &mut Word) {
        self.at += 2;
        let rest = self.rest();
        let mut is_escaped = false;
        let end = rest.find(|c| {
            let is_end = c == '\'' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let length = end.unwrap_or_else(|| {
            self.doubt("a quote has no end");
            rest.len()
        });
        let text = crate::escape::decode_ansi(&rest[..length]);
        word.pieces.push(Piece::Text { text, is_quoted: true });
        self.at = (self.at + length + 1).min(self.text.len());
    }

    /// Where the arithmetic that begins at `begin` ends: the place of its `))`. None if the
    /// parentheses are those of commands.
    pub(super) fn arithmetic_end(&mut self, begin: usize) -> Option<usize> {
        let (end, searched) = search_arithmetic_end(&self.text[begin..]);
        self.take_search(searched).then_some(end?).map(|end| begin + end)
    }
    /// The expansions in arithmetic up to `end`.
    pub(super) fn read_arithmetic(&mut self, end: usize) -> Piece {
        let inside = &self.text[self.at..end];
        // The value of a variable is computed too, whatever stands in it.
        if inside.contains(|c: char| c.is_ascii_alphabetic()) {
            self.hazard("it computes with variables");
        }
        let mut parser = Parser::new(inside, self.depth);
        let mut word = Word::default();
        parser.deeper(|parser| parser.read_expanded(&mut word, None));
        let script = parser.script;
        self.adopt(&script);
        Piece::Arithmetic(word.pieces)
    }
}

/// The place of the `))` that ends the arithmetic, if it is arithmetic, and how much was searched.
fn search_arithmetic_end(text: &str) -> (Option<usize>, usize) {
    let mut depth = 0usize;
    let mut characters = text.char_indices();
    let mut quote = None;
    while let Some((at, c)) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                characters.next();
            }
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('(', None) => depth += 1,
            (')', None) if depth == 0 => {
                return (text[at..].starts_with("))").then_some(at), at);
            }
            (')', None) => depth -= 1,
            (_, None) => {}
        }
    }
    (None, text.len())
}
