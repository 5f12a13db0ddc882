//! Splits a stream into JSON texts, each on one line or on several.

use event::json::Nesting;

/// Splits a stream into JSON texts. A text ends where its first bracket is closed. A text without
/// one ends with its line, and the caller refuses it.
pub(super) struct JsonSplitter {
    line: u64,
    begun: Option<JsonText>,
    /// Set while the text has an open bracket.
    nesting: Option<Nesting>,
}

/// A text on one line: line breaks between its parts became spaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JsonText {
    /// The line of the stream on which it began.
    pub(super) line: u64,
    pub(super) bytes: Vec<u8>,
}

impl JsonSplitter {
    pub(super) fn new() -> JsonSplitter {
        JsonSplitter { line: 1, begun: None, nesting: None }
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
        self.nesting = None;
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
        if self.nesting.is_none() {
            // Blanks between two texts belong to neither.
            if byte.is_ascii_whitespace() && self.begun.is_none() {
                return None;
            }
            // The text is neither an object nor a list.
            if is_break {
                return self.finish();
            }
        }
        let line = self.line;
        let text = self.begun.get_or_insert_with(|| JsonText { line, bytes: Vec::new() });
        // Only between the parts: a break inside quotes is an error, which the parser reports.
        let is_between = self.nesting.as_ref().is_some_and(|nesting| !nesting.is_in_string());
        text.bytes.push(if is_break && is_between { b' ' } else { byte });
        // A bracket further on does not make an object of a bare word.
        if text.bytes.len() == 1 && matches!(byte, b'{' | b'[') {
            self.nesting = Some(Nesting::default());
        }
        let is_over = self.nesting.as_mut().is_some_and(|nesting| nesting.take_byte(byte));
        if is_over { self.finish() } else { None }
    }
}
