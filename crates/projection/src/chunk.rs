//! Lines gathered into chunks of limited size.

use serde::{Deserialize, Serialize};

/// What stands between two lines.
const BETWEEN: &str = "\n\n";

/// Chunks that are full, and one that is being filled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Chunks {
    chars_max: usize,
    full: Vec<String>,
    open: String,
    open_chars: usize,
}

impl Chunks {
    /// Chunks of at most so many characters, and of one at least.
    pub(crate) fn new(chars_max: usize) -> Chunks {
        Chunks { chars_max: chars_max.max(1), full: Vec::new(), open: String::new(), open_chars: 0 }
    }

    /// Adds a line. It begins the next chunk where this one has no room for it; only a line that
    /// has no room in any chunk is taken apart.
    pub(crate) fn push_line(&mut self, line: &str) {
        let chars = line.chars().count();
        // `BETWEEN` is ASCII, so its bytes are its characters.
        if self.open_chars > 0 && self.open_chars + BETWEEN.len() + chars > self.chars_max {
            self.close_chunk();
        }
        // The open chunk is closed by now: with more characters than any chunk, it had no room.
        if chars > self.chars_max {
            self.push_parts(line);
            return;
        }
        if self.open_chars > 0 {
            self.open.push_str(BETWEEN);
            self.open_chars += BETWEEN.len();
        }
        self.open.push_str(line);
        self.open_chars += chars;
    }

    pub(crate) fn take_full(&mut self) -> Vec<String> {
        std::mem::take(&mut self.full)
    }

    pub(crate) fn finish(mut self) -> Vec<String> {
        self.close_chunk();
        self.full
    }

    fn close_chunk(&mut self) {
        if self.open_chars > 0 {
            self.full.push(std::mem::take(&mut self.open));
            self.open_chars = 0;
        }
    }

    /// Takes a line apart at its own line breaks, else where the chunk ends.
    fn push_parts(&mut self, line: &str) {
        let mut rest = line;
        while let Some((limit, _)) = rest.char_indices().nth(self.chars_max) {
            // A break at the very beginning would cut off nothing, and the loop would not end.
            let cut = rest[..limit].rfind('\n').filter(|cut| *cut > 0).unwrap_or(limit);
            self.full.push(rest[..cut].to_owned());
            rest = rest[cut..].trim_start_matches('\n');
        }
        if !rest.is_empty() {
            self.open = rest.to_owned();
            self.open_chars = rest.chars().count();
        }
    }
}
