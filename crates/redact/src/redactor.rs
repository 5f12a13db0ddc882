//! The entry point: text in, text without secrets out.

use std::borrow::Cow;
use std::sync::Arc;

use crate::scan::{Piece, Scan};
use crate::{Rules, Stream};

/// Removes secrets from texts. Equal texts give equal results, whatever was redacted before.
#[derive(Clone, Debug)]
pub struct Redactor {
    rules: Arc<Rules>,
    bytes_examined: u64,
}

impl Redactor {
    /// Creates a redactor with the built-in rules.
    pub fn new() -> Redactor {
        Redactor::with_rules(Rules::built_in())
    }

    pub fn with_rules(rules: Arc<Rules>) -> Redactor {
        Redactor { rules, bytes_examined: 0 }
    }

    /// Replaces every secret by a mark; returns the text itself if it has none.
    pub fn redact<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        // Nothing is copied before the first mark: most texts have no secret.
        let mut redacted: Option<String> = None;
        let mut kept_len = 0;
        let mut out = |piece: Piece<'_>| match (piece, &mut redacted) {
            (Piece::Kept(kept), None) => kept_len += kept.len(),
            (Piece::Kept(kept), Some(redacted)) => redacted.push_str(kept),
            (Piece::Mark(mark), redacted) => {
                redacted.get_or_insert_with(|| text[..kept_len].to_owned()).push_str(mark);
            }
        };
        self.bytes_examined += Scan::default().advance(&self.rules, text, true, &mut out);
        redacted.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Takes a piece of a text and appends to `out` the part that is decided by now.
    pub fn push(&mut self, stream: &mut Stream, piece: &str, out: &mut String) {
        stream.held.push_str(piece);
        if stream.held.len() >= stream.step_min {
            self.advance(stream, false, out);
            // `forget` moves the offsets by as many bytes as are removed here.
            stream.held.drain(..stream.scan.forget());
        }
    }

    /// Ends a text and appends to `out` the part that was held back.
    pub fn finish(&mut self, mut stream: Stream, out: &mut String) {
        self.advance(&mut stream, true, out);
    }

    /// Returns the number of bytes examined so far; a byte that was examined twice counts twice.
    /// It measures the work independently of the machine.
    pub fn bytes_examined(&self) -> u64 {
        self.bytes_examined
    }

    fn advance(&mut self, stream: &mut Stream, is_all: bool, out: &mut String) {
        let mut write = |piece: Piece<'_>| match piece {
            Piece::Kept(text) | Piece::Mark(text) => out.push_str(text),
        };
        self.bytes_examined += stream.scan.advance(&self.rules, &stream.held, is_all, &mut write);
    }
}

impl Default for Redactor {
    fn default() -> Redactor {
        Redactor::new()
    }
}
