//! Splits a stream into JSON texts, each on one line or on several.

/// Splits a stream into JSON texts. A text ends where its first bracket is closed. A text without
/// one ends with its line, and the caller refuses it.
pub(super) struct JsonSplitter {
    line: u64,
    begun: Option<JsonText>,
    depth: usize,
    state: SplitState,
}

/// A text on one line: line breaks between its parts became spaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JsonText {
    /// The line of the stream on which it began.
    pub(super) line: u64,
    pub(super) bytes: Vec<u8>,
}

// Outside ── { or [ first ──▶ Inside ── " ──▶ Quoted ── \ ──▶ Escaped
//    ▲                         │  ▲             │ ▲               │
//    └───── last bracket ──────┘  └───── " ─────┘ └── any byte ───┘
#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitState {
    Outside,
    Inside,
    Quoted,
    Escaped,
}

impl JsonSplitter {
    pub(super) fn new() -> JsonSplitter {
        JsonSplitter { line: 1, begun: None, depth: 0, state: SplitState::Outside }
    }

    /// Takes a piece of the stream; returns the texts that it completes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<JsonText> {
        bytes.iter().filter_map(|byte| self.take_byte(*byte)).collect()
    }

    /// Returns the line of an unfinished text that is already too long for a message.
    pub(super) fn too_long(&self) -> Option<u64> {
        let text = self.begun.as_ref().filter(|text| text.bytes.len() > bus::LINE_MAX)?;
        Some(text.line)
    }

    /// Ends the stream; returns the unfinished text.
    pub(super) fn finish(&mut self) -> Option<JsonText> {
        self.state = SplitState::Outside;
        self.depth = 0;
        self.begun.take()
    }

    /// Returns all texts of a whole stream.
    pub(super) fn split_all(mut self, bytes: &[u8]) -> Vec<JsonText> {
        let mut texts = self.feed(bytes);
        texts.extend(self.finish());
        texts
    }

    fn take_byte(&mut self, byte: u8) -> Option<JsonText> {
        let is_break = byte == b'\n';
        // Counted before the text begins, so that its line is the one it stands on.
        self.line += u64::from(is_break);
        match self.state {
            // Blanks between two texts belong to neither.
            SplitState::Outside if byte.is_ascii_whitespace() && self.begun.is_none() => {
                return None;
            }
            // The text is neither an object nor a list.
            SplitState::Outside if is_break => return self.finish(),
            _ => {}
        }
        let line = self.line;
        let text = self.begun.get_or_insert_with(|| JsonText { line, bytes: Vec::new() });
        // Only between the parts: a break inside quotes is an error, which the parser reports.
        let is_blank = is_break && self.state == SplitState::Inside;
        text.bytes.push(if is_blank { b' ' } else { byte });
        let is_first = text.bytes.len() == 1;
        match (self.state, byte) {
            (SplitState::Escaped, _) => self.state = SplitState::Quoted,
            (SplitState::Quoted, b'\\') => self.state = SplitState::Escaped,
            (SplitState::Quoted, b'"') => self.state = SplitState::Inside,
            // A bracket further on does not make an object of a bare word.
            (SplitState::Outside, b'{' | b'[') if is_first => {
                self.state = SplitState::Inside;
                self.depth = 1;
            }
            (SplitState::Inside, b'"') => self.state = SplitState::Quoted,
            (SplitState::Inside, b'{' | b'[') => self.depth += 1,
            (SplitState::Inside, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 {
                    return self.finish();
                }
            }
            _ => {}
        }
        None
    }
}
