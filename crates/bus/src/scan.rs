//! Checks a line while its bytes arrive.
//!
//! A state machine that keeps its state between reads: one pass, no tree, no recursion. It accepts
//! JSON as Python writes it (`NaN`, infinities, lone surrogates as escapes, doubled keys) and notes
//! the places of the fields that the bus reads, so that the line can be relayed unchanged.
//!
//! Not here: the outgoing form (`relay`), and what the fields mean.

use std::ops::Range;

/// Levels of nesting. A deeper line is ignored, because readers in other languages recurse.
pub(crate) const DEPTH_MAX: usize = 512;

/// Digits of an integer. Python refuses to parse a longer one.
const DIGITS_MAX: u32 = 4_300;

/// The top-level fields that the bus reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderKey {
    Tract,
    Event,
    Ts,
    Ref,
    Service,
    Command,
    Name,
    SessionId,
    AgentId,
    ImportId,
    Day,
    Segment,
    Stream,
    Facet,
}

impl HeaderKey {
    const ALL: [(HeaderKey, &'static str); 14] = [
        (HeaderKey::Tract, "tract"),
        (HeaderKey::Event, "event"),
        (HeaderKey::Ts, "ts"),
        (HeaderKey::Ref, "ref"),
        (HeaderKey::Service, "service"),
        (HeaderKey::Command, "command"),
        (HeaderKey::Name, "name"),
        (HeaderKey::SessionId, "session_id"),
        (HeaderKey::AgentId, "agent_id"),
        (HeaderKey::ImportId, "import_id"),
        (HeaderKey::Day, "day"),
        (HeaderKey::Segment, "segment"),
        (HeaderKey::Stream, "stream"),
        (HeaderKey::Facet, "facet"),
    ];

    /// Returns the key with this name.
    pub fn from_name(name: &str) -> Option<HeaderKey> {
        HeaderKey::from_bytes(name.as_bytes())
    }

    pub(crate) fn name(self) -> &'static str {
        HeaderKey::ALL[self as usize].1
    }

    /// Returns whether a subscription may filter by it.
    pub(crate) fn is_filter(self) -> bool {
        !matches!(self, HeaderKey::Tract | HeaderKey::Event | HeaderKey::Ts)
    }

    fn from_bytes(name: &[u8]) -> Option<HeaderKey> {
        HeaderKey::ALL.iter().find(|(_, known)| known.as_bytes() == name).map(|(key, _)| *key)
    }
}

/// Why a line is not relayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum LineFault {
    #[error("it is not JSON")]
    Malformed,
    #[error("`tract` or `event` is missing")]
    Incomplete,
    #[error("it is not an object")]
    NotObject,
    #[error("it is not UTF-8")]
    Encoding,
    #[error("an integer has more than {DIGITS_MAX} digits")]
    Number,
    #[error("it is nested deeper than {DEPTH_MAX} levels")]
    Depth,
    #[error("it is longer than a message may be")]
    TooLong,
}

impl LineFault {
    pub(crate) const ALL: [LineFault; 7] = [
        LineFault::Malformed,
        LineFault::Incomplete,
        LineFault::NotObject,
        LineFault::Encoding,
        LineFault::Number,
        LineFault::Depth,
        LineFault::TooLong,
    ];

    /// Returns the name under which `stats` counts it.
    pub fn reason(self) -> &'static str {
        match self {
            LineFault::Malformed => "malformed",
            LineFault::Incomplete => "incomplete",
            LineFault::NotObject => "not_object",
            LineFault::Encoding => "encoding",
            LineFault::Number => "number",
            LineFault::Depth => "depth",
            LineFault::TooLong => "too_long",
        }
    }
}

/// A range of a line. `u32` is enough: `LINE_MAX` is far below 4 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the range after `count` bytes before it were removed.
    pub(crate) fn shifted_left(self, count: u32) -> Span {
        Span { start: self.start - count, end: self.end - count }
    }
}

/// Where an accepted line has its object and its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LineLayout {
    /// The object without the whitespace around it.
    pub(crate) object: Span,
    pub(crate) is_ascii: bool,
    fields: [Option<Span>; HeaderKey::ALL.len()],
}

impl LineLayout {
    /// Returns the range of a field's value. Of doubled keys the last one counts.
    pub(crate) fn field(&self, key: HeaderKey) -> Option<Span> {
        self.fields[key as usize]
    }
}

/// The result of checking a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LineVerdict {
    Blank,
    Good(LineLayout),
    Bad(LineFault),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanState {
    /// Before a value; after `[` also before a closing bracket.
    Value {
        or_close: bool,
    },
    /// Before a key; after `{` also before a closing brace.
    Key {
        or_close: bool,
    },
    Colon,
    /// After a value: a comma, a closing bracket or the end of the line.
    After,
    Text,
    Escape,
    Hex {
        left: u8,
        value: u16,
    },
    /// Inside a UTF-8 sequence: continuation bytes left, and the range of the next one.
    Multibyte {
        left: u8,
        low: u8,
        high: u8,
    },
    Word {
        rest: &'static [u8],
    },
    Minus,
    Zero,
    Integer,
    Dot,
    Fraction,
    E,
    ESign,
    Exponent,
    /// A fault was found; the rest of the line is skipped.
    Skipping,
}

/// Bytes of the longest key in [`HeaderKey`] (`session_id`); a longer key is not ours.
const KEY_BYTES_MAX: usize = 10;

/// Checks one line after another.
#[derive(Clone)]
pub(crate) struct Scanner {
    state: ScanState,
    /// Bytes of this line so far.
    offset: usize,
    fault: Option<LineFault>,
    /// Levels of open containers; bit `n` of `is_object` says whether level `n` is an object.
    depth: usize,
    is_object: [u64; DEPTH_MAX / 64],
    /// Whether the string being read is a key, and whether it is a top-level key.
    is_key_text: bool,
    in_key: bool,
    /// The last top-level key. A key that is too long gets an impossible length instead.
    key: [u8; KEY_BYTES_MAX],
    key_len: usize,
    top_start: usize,
    value_start: usize,
    digits: u32,
    is_blank: bool,
    is_ascii: bool,
    top_is_object: bool,
    object: Span,
    fields: [Option<Span>; HeaderKey::ALL.len()],
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    pub(crate) fn new() -> Scanner {
        Scanner {
            state: ScanState::Value { or_close: false },
            offset: 0,
            fault: None,
            depth: 0,
            is_object: [0; DEPTH_MAX / 64],
            is_key_text: false,
            in_key: false,
            key: [0; KEY_BYTES_MAX],
            key_len: 0,
            top_start: 0,
            value_start: 0,
            digits: 0,
            is_blank: true,
            is_ascii: true,
            top_is_object: false,
            object: Span::default(),
            fields: [None; HeaderKey::ALL.len()],
        }
    }

    /// Takes bytes up to the end of a line; returns how many, and the verdict on the line. `None`
    /// means that all bytes were taken and the line goes on.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<(usize, LineVerdict)> {
        let mut at = 0;
        while at < bytes.len() {
            at = match self.state {
                // Strings and faulty lines are most of the bytes, so they are consumed in runs.
                ScanState::Text => self.scan_text(bytes, at),
                ScanState::Skipping => self.skip_line(bytes, at),
                _ if bytes[at] == b'\n' => {
                    let verdict = self.finish_line();
                    *self = Scanner::new();
                    return Some((at + 1, verdict));
                }
                _ => {
                    self.scan_byte(bytes[at]);
                    self.offset += 1;
                    at + 1
                }
            };
        }
        None
    }

    /// Checks a whole line without its newline.
    pub(crate) fn check(line: &[u8]) -> LineVerdict {
        let mut scanner = Scanner::new();
        match scanner.feed(line) {
            // A newline inside means that this was not one line.
            Some(_) => LineVerdict::Bad(LineFault::Malformed),
            None => scanner.finish_line(),
        }
    }

    /// Returns the bytes of the current line so far.
    pub(crate) fn line_len(&self) -> usize {
        self.offset
    }

    /// Returns whether the current line was found faulty.
    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Records a fault, unless there is one, and skips the rest of the line.
    pub(crate) fn give_up(&mut self, fault: LineFault) {
        self.fault.get_or_insert(fault);
        self.state = ScanState::Skipping;
    }

    /// Consumes a run of plain characters of a string, and the byte that ends the run.
    fn scan_text(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let count = plain_len(rest);
        if self.in_key {
            self.collect_key(&rest[..count]);
        }
        self.offset += count;
        let Some(byte) = rest.get(count) else { return bytes.len() };
        match byte {
            b'"' => self.close_text(),
            b'\\' => self.state = ScanState::Escape,
            0x80.. => self.begin_multibyte(*byte),
            // A control character. A newline is not consumed here, so that `feed` ends the line.
            _ => {
                self.give_up(LineFault::Malformed);
                return at + count;
            }
        }
        if self.state == ScanState::Skipping {
            return at + count;
        }
        self.offset += 1;
        at + count + 1
    }

    fn skip_line(&mut self, bytes: &[u8], at: usize) -> usize {
        let count = memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
        self.offset += count;
        if at + count < bytes.len() {
            // Leave the newline to `feed`; every state but these two lets it through.
            self.state = ScanState::After;
        }
        at + count
    }

    fn scan_byte(&mut self, byte: u8) {
        match self.state {
            // Between values: whitespace, brackets, commas and colons. The newline does not come
            // here, because `feed` takes it.
            ScanState::Value { or_close } => match byte {
                b' ' | b'\t' | b'\r' => {}
                b']' if or_close => self.close_container(false),
                _ => self.begin_value(byte),
            },
            ScanState::Key { or_close } => match byte {
                b' ' | b'\t' | b'\r' => {}
                b'}' if or_close => self.close_container(true),
                b'"' => {
                    // Only top-level keys are collected. Nested ones leave the last one intact,
                    // because its value ends behind them.
                    self.in_key = self.depth == 1;
                    if self.in_key {
                        self.key_len = 0;
                    }
                    self.is_key_text = true;
                    self.state = ScanState::Text;
                }
                _ => self.reject_byte(byte),
            },
            ScanState::Colon => match byte {
                b' ' | b'\t' | b'\r' => {}
                b':' => self.state = ScanState::Value { or_close: false },
                _ => self.reject_byte(byte),
            },
            ScanState::After => self.scan_after_value(byte),
            ScanState::Text | ScanState::Skipping => unreachable!("taken in runs"),
            // Inside a string: escapes and characters of several bytes. Plain ones are taken in
            // runs.
            ScanState::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    if self.in_key {
                        // No key of ours contains one of these characters.
                        self.key_len = KEY_BYTES_MAX + 1;
                    }
                    self.state = ScanState::Text;
                }
                // Half a surrogate pair passes: Python writes such escapes for file names that are
                // not UTF-8, and the line is relayed with them.
                b'u' => self.state = ScanState::Hex { left: 4, value: 0 },
                _ => self.reject_byte(byte),
            },
            ScanState::Hex { left, value } => {
                let Some(digit) = (byte as char).to_digit(16) else {
                    return self.reject_byte(byte);
                };
                let value = value << 4 | digit as u16;
                self.state = if left > 1 {
                    ScanState::Hex { left: left - 1, value }
                } else {
                    if self.in_key {
                        // No key of ours contains a character above ASCII.
                        self.collect_key(&[u8::try_from(value).unwrap_or(0xFF)]);
                    }
                    ScanState::Text
                };
            }
            ScanState::Multibyte { left, low, high } => {
                if !(low..=high).contains(&byte) {
                    self.give_up(LineFault::Encoding);
                } else if left > 1 {
                    self.state = ScanState::Multibyte { left: left - 1, low: 0x80, high: 0xBF };
                } else {
                    self.state = ScanState::Text;
                }
            }
            ScanState::Word { rest } => match rest {
                [expected] if *expected == byte => self.end_value(1),
                [expected, rest @ ..] if *expected == byte => self.state = ScanState::Word { rest },
                _ => self.reject_byte(byte),
            },
            // All states that are left are inside a number.
            _ => self.scan_number(byte),
        }
    }

    fn begin_value(&mut self, byte: u8) {
        // Only the object and its top-level values have spans. The bus reads nothing deeper.
        match self.depth {
            0 => self.top_start = self.offset,
            1 => self.value_start = self.offset,
            _ => {}
        }
        self.is_blank = false;
        self.state = match byte {
            b'{' => return self.open_container(true),
            b'[' => return self.open_container(false),
            b'"' => {
                self.in_key = false;
                self.is_key_text = false;
                ScanState::Text
            }
            b't' => ScanState::Word { rest: b"rue" },
            b'f' => ScanState::Word { rest: b"alse" },
            b'n' => ScanState::Word { rest: b"ull" },
            // Not JSON, but Python's `json.dumps` writes these two.
            b'N' => ScanState::Word { rest: b"aN" },
            b'I' => ScanState::Word { rest: b"nfinity" },
            b'-' => ScanState::Minus,
            b'0' => ScanState::Zero,
            b'1'..=b'9' => {
                self.digits = 1;
                ScanState::Integer
            }
            _ => return self.reject_byte(byte),
        };
    }

    fn scan_number(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (ScanState::Minus, b'I') => ScanState::Word { rest: b"nfinity" },
            (ScanState::Minus, b'0') => ScanState::Zero,
            (ScanState::Minus, b'1'..=b'9') => {
                self.digits = 1;
                ScanState::Integer
            }
            (ScanState::Integer, b'0'..=b'9') => {
                self.digits = self.digits.saturating_add(1);
                ScanState::Integer
            }
            // `Zero` has no arm for a digit: JSON has no leading zeros.
            (ScanState::Zero | ScanState::Integer, b'.') => ScanState::Dot,
            (ScanState::Dot | ScanState::Fraction, b'0'..=b'9') => ScanState::Fraction,
            (ScanState::Zero | ScanState::Integer | ScanState::Fraction, b'e' | b'E') => {
                ScanState::E
            }
            (ScanState::E, b'+' | b'-') => ScanState::ESign,
            (ScanState::E | ScanState::ESign | ScanState::Exponent, b'0'..=b'9') => {
                ScanState::Exponent
            }
            (
                ScanState::Zero | ScanState::Integer | ScanState::Fraction | ScanState::Exponent,
                _,
            ) => {
                // Only the byte behind a number shows its end, so that byte is scanned again.
                self.end_number();
                if self.fault.is_none() {
                    self.scan_after_value(byte);
                }
                return;
            }
            _ => return self.reject_byte(byte),
        };
    }

    fn end_number(&mut self) {
        // Python limits integers only. A float of any length is parsed.
        if self.state == ScanState::Integer && self.digits > DIGITS_MAX {
            self.give_up(LineFault::Number);
        } else {
            self.end_value(0);
        }
    }

    fn scan_after_value(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' => {}
            b',' if self.depth > 0 => {
                self.state = if self.is_in_object() {
                    ScanState::Key { or_close: false }
                } else {
                    ScanState::Value { or_close: false }
                };
            }
            b'}' if self.depth > 0 => self.close_container(true),
            b']' if self.depth > 0 => self.close_container(false),
            _ => self.reject_byte(byte),
        }
    }

    fn open_container(&mut self, is_object: bool) {
        if self.depth == DEPTH_MAX {
            return self.give_up(LineFault::Depth);
        }
        if self.depth == 0 {
            self.top_is_object = is_object;
        }
        // The bit is set or cleared each time: an earlier container of this level has left its own.
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if is_object {
            self.is_object[word] |= bit;
        } else {
            self.is_object[word] &= !bit;
        }
        self.depth += 1;
        self.state = if is_object {
            ScanState::Key { or_close: true }
        } else {
            ScanState::Value { or_close: true }
        };
    }

    fn close_container(&mut self, is_object: bool) {
        if self.is_in_object() != is_object {
            return self.give_up(LineFault::Malformed);
        }
        self.depth -= 1;
        self.end_value(1);
    }

    fn is_in_object(&self) -> bool {
        let level = self.depth - 1;
        self.is_object[level / 64] >> (level % 64) & 1 == 1
    }

    fn close_text(&mut self) {
        if self.is_key_text {
            self.in_key = false;
            self.state = ScanState::Colon;
        } else {
            self.end_value(1);
        }
    }

    /// Ends a value of which `more` bytes are not counted in `offset` yet.
    fn end_value(&mut self, more: usize) {
        self.state = ScanState::After;
        // `value_start` is only kept for level 1; deeper values have no span of their own.
        let start = if self.depth == 0 { self.top_start } else { self.value_start };
        let span = Span { start: start as u32, end: (self.offset + more) as u32 };
        if self.depth == 0 {
            self.object = span;
        } else if self.depth == 1
            && self.top_is_object
            && let Some(name) = self.key.get(..self.key_len)
            && let Some(key) = HeaderKey::from_bytes(name)
        {
            self.fields[key as usize] = Some(span);
        }
    }

    fn collect_key(&mut self, letters: &[u8]) {
        let end = self.key_len + letters.len();
        match self.key.get_mut(self.key_len..end) {
            Some(place) => {
                place.copy_from_slice(letters);
                self.key_len = end;
            }
            None => self.key_len = KEY_BYTES_MAX + 1,
        }
    }

    fn begin_multibyte(&mut self, byte: u8) {
        self.is_ascii = false;
        if self.in_key {
            self.key_len = KEY_BYTES_MAX + 1;
        }
        // The second byte has a narrower range after E0 and F0 (overlong forms), ED (surrogates)
        // and F4 (beyond U+10FFFF).
        let (left, low, high) = match byte {
            0xC2..=0xDF => (1, 0x80, 0xBF),
            0xE0 => (2, 0xA0, 0xBF),
            0xED => (2, 0x80, 0x9F),
            0xE1..=0xEF => (2, 0x80, 0xBF),
            0xF0 => (3, 0x90, 0xBF),
            0xF1..=0xF3 => (3, 0x80, 0xBF),
            0xF4 => (3, 0x80, 0x8F),
            // Continuation bytes, overlong forms (C0, C1) and values above U+10FFFF (F5..).
            _ => return self.give_up(LineFault::Encoding),
        };
        self.state = ScanState::Multibyte { left, low, high };
    }

    /// Rejects a byte that is not allowed here.
    fn reject_byte(&mut self, byte: u8) {
        // These bytes are in no UTF-8 text at all. Any other is only in the wrong place.
        let is_encoding = byte >= 0x80 && !(0xC2..=0xF4).contains(&byte);
        self.is_blank = false;
        self.give_up(if is_encoding { LineFault::Encoding } else { LineFault::Malformed });
    }

    fn finish_line(&mut self) -> LineVerdict {
        // A number has no closing byte, so the end of the line ends it.
        if matches!(
            self.state,
            ScanState::Zero | ScanState::Integer | ScanState::Fraction | ScanState::Exponent
        ) {
            self.end_number();
        }
        if matches!(self.state, ScanState::Multibyte { .. }) {
            self.give_up(LineFault::Encoding);
        }
        if let Some(fault) = self.fault {
            return LineVerdict::Bad(fault);
        }
        if self.is_blank {
            return LineVerdict::Blank;
        }
        // The line stopped inside a value or with open brackets.
        if self.state != ScanState::After || self.depth > 0 {
            return LineVerdict::Bad(LineFault::Malformed);
        }
        if !self.top_is_object {
            return LineVerdict::Bad(LineFault::NotObject);
        }
        if self.fields[HeaderKey::Tract as usize].is_none()
            || self.fields[HeaderKey::Event as usize].is_none()
        {
            return LineVerdict::Bad(LineFault::Incomplete);
        }
        LineVerdict::Good(LineLayout {
            object: self.object,
            is_ascii: self.is_ascii,
            fields: self.fields,
        })
    }
}

/// Returns the length of the run of plain string bytes: eight at a time, then one by one.
fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        // Little-endian: the first byte of the text becomes the lowest of the word.
        let odd = special_bytes(u64::from_le_bytes(*word));
        if odd != 0 {
            return 8 * number + odd.trailing_zeros() as usize / 8;
        }
    }
    let plain = bytes.len() - rest.len();
    plain + rest.iter().position(|byte| !IS_PLAIN[*byte as usize]).unwrap_or(rest.len())
}

/// Marks special bytes of a word. The lowest set bit belongs to the first byte that is not plain;
/// 0 if all are.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // A borrow can set wrong bits above a special byte, never below. Only the lowest bit is used.
    let less = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word;
    // The exclusive or turns the sought byte into 0, the only value below 1.
    let quote = less(word ^ (ONES * b'"' as u64), 1);
    let backslash = less(word ^ (ONES * b'\\' as u64), 1);
    // The word itself has the high bit of every byte above ASCII.
    (less(word, 0x20) | quote | backslash | word) & HIGH
}

/// Bytes that need no further look inside a string.
const IS_PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x80 {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};
