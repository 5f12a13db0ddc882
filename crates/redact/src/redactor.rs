//! Text in, text without secrets out.

use std::borrow::Cow;
use std::sync::Arc;

use crate::mark::Marks;
use crate::scan::{Piece, Scan};
use crate::{Rules, Stream};

/// Takes secrets out of texts that belong together, such as those of one session.
#[derive(Clone, Debug)]
pub struct Redactor {
    rules: Arc<Rules>,
    marks: Marks,
    looked_at: u64,
}

impl Redactor {
    /// Redacts with the rules this program brings.
    pub fn new() -> Redactor {
        Redactor::with_rules(Rules::built_in())
    }

    pub fn with_rules(rules: Arc<Rules>) -> Redactor {
        Redactor { rules, marks: Marks::default(), looked_at: 0 }
    }

    /// The text with a mark for every secret; the text itself if there is none.
    pub fn redact<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let mut redacted: Option<String> = None;
        let mut kept_len = 0;
        let mut out = |piece: Piece<'_>| match (piece, &mut redacted) {
            (Piece::Kept(kept), None) => kept_len += kept.len(),
            (Piece::Kept(kept), Some(redacted)) => redacted.push_str(kept),
            (Piece::Mark(mark), redacted) => {
                redacted.get_or_insert_with(|| text[..kept_len].to_owned()).push_str(mark);
            }
        };
        self.looked_at +=
            Scan::default().advance(&self.rules, &mut self.marks, text, true, &mut out);
        redacted.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Takes a piece of a text, and appends to `out` what is decided by now.
    pub fn push(&mut self, stream: &mut Stream, piece: &str, out: &mut String) {
        stream.held.push_str(piece);
        if stream.held.len() >= stream.step_min {
            self.advance(stream, false, out);
            stream.held.drain(..stream.scan.forget());
        }
    }

    /// Ends a text, and appends to `out` what was held back of it.
    pub fn finish(&mut self, mut stream: Stream, out: &mut String) {
        self.advance(&mut stream, true, out);
    }

    /// Bytes looked at so far, some of them more than once: what the work is measured by.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    fn advance(&mut self, stream: &mut Stream, is_all: bool, out: &mut String) {
        let mut write = |piece: Piece<'_>| match piece {
            Piece::Kept(text) | Piece::Mark(text) => out.push_str(text),
        };
        self.looked_at +=
            stream.scan.advance(&self.rules, &mut self.marks, &stream.held, is_all, &mut write);
    }
}

impl Default for Redactor {
    fn default() -> Redactor {
        Redactor::new()
    }
}
