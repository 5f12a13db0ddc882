//! Here-documents: their delimiters, and their bodies behind the line.

use super::parser::Parser;
use super::syntax::Word;

pub(super) struct PendingHeredoc {
    /// Its place in the list of bodies of the script.
    index: usize,
    delimiter: String,
    /// A quoted delimiter keeps the body from being expanded.
    is_quoted: bool,
    strips_tabs: bool,
}

impl Parser<'_> {
    /// Reads the delimiter behind `<<`, and gives the place where the body will be.
    pub(super) fn read_heredoc_delimiter(&mut self, strips_tabs: bool) -> usize {
        self.skip_blanks();
        let begin = self.at;
        let word = self.read_word();
        let is_quoted = self.text[begin..self.at].contains(['\'', '"', '\\']);
        let delimiter = word.plain_text().unwrap_or_else(|| {
            // A shell takes such a delimiter as it is written.
            self.text[begin..self.at].to_owned()
        });
        if self.at == begin {
            self.doubt("a here-document has no delimiter");
        }
        let index = self.script.heredocs.len();
        self.script.heredocs.push(Word::default());
        self.pending.push(PendingHeredoc { index, delimiter, is_quoted, strips_tabs });
        index
    }

    /// Reads the bodies that begin here, at the beginning of a line.
    pub(super) fn read_heredocs(&mut self) {
        for heredoc in std::mem::take(&mut self.pending) {
            let body = self.read_body(&heredoc);
            let word = match heredoc.is_quoted {
                true => Word::from_text(&body),
                false => self.deeper(|parser| parser.expand_text(&body)),
            };
            self.script.heredocs[heredoc.index] = word;
        }
    }

    fn read_body(&mut self, heredoc: &PendingHeredoc) -> String {
        let mut body = String::new();
        while self.at < self.text.len() {
            let rest = self.rest();
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            self.at += length;
            let mut line = &rest[..length];
            if heredoc.strips_tabs {
                line = line.trim_start_matches('\t');
            }
            if line.strip_suffix('\n').unwrap_or(line) == heredoc.delimiter {
                return body;
            }
            body.push_str(line);
        }
        self.doubt("a here-document has no end");
        body
    }

    /// A text in which only expansions are read, as in an unquoted here-document.
    fn expand_text(&mut self, text: &str) -> Word {
        let mut inside = Parser::new(text, self.depth);
        let mut word = Word::default();
        inside.read_expanded(&mut word, None);
        for doubt in inside.script.doubts {
            self.doubt(doubt);
        }
        for hazard in inside.script.hazards {
            self.hazard(hazard);
        }
        word
    }
}
