//! JSON texts one after the other, each on one line or on several, as they come in.

/// Cuts a stream into texts. A text ends where its first bracket is closed; what does not begin
/// with one ends with its line, and is for others to refuse.
pub(super) struct Texts {
    line: u64,
    begun: Option<Text>,
    depth: usize,
    place: Place,
}

/// A text on one line: line breaks between its parts are blanks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Text {
    /// The line of the stream on which it began.
    pub(super) line: u64,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Inside,
    Quoted,
    Escaped,
}

impl Texts {
    pub(super) fn new() -> Texts {
        Texts { line: 1, begun: None, depth: 0, place: Place::Outside }
    }

    /// Takes a piece of the stream; the texts that it completes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Text> {
        bytes.iter().filter_map(|byte| self.byte(*byte)).collect()
    }

    /// The line of a text that has begun and is too long to be a message, whatever comes.
    pub(super) fn too_long(&self) -> Option<u64> {
        let text = self.begun.as_ref().filter(|text| text.bytes.len() > bus::LINE_MAX)?;
        Some(text.line)
    }

    /// The text that has begun, when nothing more comes.
    pub(super) fn end(&mut self) -> Option<Text> {
        self.place = Place::Outside;
        self.depth = 0;
        self.begun.take()
    }

    /// All texts of a whole stream.
    pub(super) fn all(mut self, bytes: &[u8]) -> Vec<Text> {
        let mut texts = self.feed(bytes);
        texts.extend(self.end());
        texts
    }

    fn byte(&mut self, byte: u8) -> Option<Text> {
        let is_break = byte == b'\n';
        self.line += u64::from(is_break);
        match self.place {
            Place::Outside if byte.is_ascii_whitespace() && self.begun.is_none() => return None,
            // Something that is no object and no list.
            Place::Outside if is_break => return self.end(),
            _ => {}
        }
        let line = self.line;
        let text = self.begun.get_or_insert_with(|| Text { line, bytes: Vec::new() });
        let is_blank = is_break && self.place == Place::Inside;
        text.bytes.push(if is_blank { b' ' } else { byte });
        let is_first = text.bytes.len() == 1;
        match (self.place, byte) {
            (Place::Escaped, _) => self.place = Place::Quoted,
            (Place::Quoted, b'\\') => self.place = Place::Escaped,
            (Place::Quoted, b'"') => self.place = Place::Inside,
            (Place::Outside, b'{' | b'[') if is_first => {
                self.place = Place::Inside;
                self.depth = 1;
            }
            (Place::Inside, b'"') => self.place = Place::Quoted,
            (Place::Inside, b'{' | b'[') => self.depth += 1,
            (Place::Inside, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 {
                    return self.end();
                }
            }
            _ => {}
        }
        None
    }
}
