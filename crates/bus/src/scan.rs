//! The check of a line, as its bytes arrive.
//!
//! A state machine that keeps its state between reads: one pass, no tree, no recursion. It takes
//! JSON as Python writes it (`NaN`, infinities, lone surrogates as escapes, doubled keys) and
//! notes where the fields are that the bus looks at, so that a line can go out as it came.
//!
//! Not here: what goes out (`relay`), and what the fields mean.

use std::ops::Range;

/// Levels of nesting. A deeper line is ignored: readers in other languages recurse.
pub(crate) const DEPTH_MAX: usize = 512;

/// Digits of an integer. Python refuses to read a longer one.
const DIGITS_MAX: u32 = 4_300;

/// The fields at the top of a message that the bus looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
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

impl Key {
    const ALL: [(Key, &'static str); 14] = [
        (Key::Tract, "tract"),
        (Key::Event, "event"),
        (Key::Ts, "ts"),
        (Key::Ref, "ref"),
        (Key::Service, "service"),
        (Key::Command, "command"),
        (Key::Name, "name"),
        (Key::SessionId, "session_id"),
        (Key::AgentId, "agent_id"),
        (Key::ImportId, "import_id"),
        (Key::Day, "day"),
        (Key::Segment, "segment"),
        (Key::Stream, "stream"),
        (Key::Facet, "facet"),
    ];

    /// The key of this name, if it is one the bus looks at.
    pub fn of(name: &str) -> Option<Key> {
        Key::of_bytes(name.as_bytes())
    }

    pub(crate) fn name(self) -> &'static str {
        Key::ALL[self as usize].1
    }

    /// Whether a subscription may ask for its value.
    pub(crate) fn is_filter(self) -> bool {
        !matches!(self, Key::Tract | Key::Event | Key::Ts)
    }

    fn of_bytes(name: &[u8]) -> Option<Key> {
        Key::ALL.iter().find(|(_, known)| known.as_bytes() == name).map(|(key, _)| *key)
    }
}

/// Why a line is not relayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Fault {
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

impl Fault {
    pub(crate) const ALL: [Fault; 7] = [
        Fault::Malformed,
        Fault::Incomplete,
        Fault::NotObject,
        Fault::Encoding,
        Fault::Number,
        Fault::Depth,
        Fault::TooLong,
    ];

    /// The word under which it is counted.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Malformed => "malformed",
            Fault::Incomplete => "incomplete",
            Fault::NotObject => "not_object",
            Fault::Encoding => "encoding",
            Fault::Number => "number",
            Fault::Depth => "depth",
            Fault::TooLong => "too_long",
        }
    }
}

/// A part of a line. Lines are shorter than 4 GiB by far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same part once `count` bytes before it are gone.
    pub(crate) fn less(self, count: u32) -> Span {
        Span { start: self.start - count, end: self.end - count }
    }
}

/// Where in a good line things are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// The object, without the blanks around it.
    pub(crate) object: Span,
    pub(crate) is_ascii: bool,
    fields: [Option<Span>; Key::ALL.len()],
}

impl Shape {
    /// Where the value of a key is: of the last one, if there are several.
    pub(crate) fn field(&self, key: Key) -> Option<Span> {
        self.fields[key as usize]
    }
}

/// What a line turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Blank,
    Good(Shape),
    Bad(Fault),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before a value; after `[` a closing bracket may stand there too.
    Value {
        or_close: bool,
    },
    /// Before a key; after `{` a closing brace may stand there too.
    Key {
        or_close: bool,
    },
    Colon,
    /// After a value: a comma, a closing bracket, or the end.
    After,
    Text,
    Escape,
    Hex {
        left: u8,
        value: u16,
    },
    /// Inside a character of several bytes: how many are to come, and what the next one may be.
    Wide {
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

/// The letters of a key that can matter; no key of ours is longer.
const KEY_BYTES_MAX: usize = 10;

/// Checks one line after another.
#[derive(Clone)]
pub(crate) struct Scanner {
    state: State,
    /// Bytes of this line so far.
    offset: usize,
    fault: Option<Fault>,
    /// How deep we are, and for each level whether it is an object.
    depth: usize,
    is_object: [u64; DEPTH_MAX / 64],
    /// Whether the text being read is a key, and whether it is one at the top.
    is_key_text: bool,
    in_key: bool,
    /// The key at the top that is being read or was read last; too long ones have no use.
    key: [u8; KEY_BYTES_MAX],
    key_len: usize,
    top_start: usize,
    value_start: usize,
    digits: u32,
    is_blank: bool,
    is_ascii: bool,
    top_is_object: bool,
    object: Span,
    fields: [Option<Span>; Key::ALL.len()],
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    pub(crate) fn new() -> Scanner {
        Scanner {
            state: State::Value { or_close: false },
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
            fields: [None; Key::ALL.len()],
        }
    }

    /// Takes bytes up to the end of a line, and says what it was. `None`: all of them were taken,
    /// and the line goes on.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<(usize, Verdict)> {
        let mut at = 0;
        while at < bytes.len() {
            at = match self.state {
                State::Text => self.text(bytes, at),
                State::Skipping => self.skip(bytes, at),
                _ if bytes[at] == b'\n' => {
                    let verdict = self.end();
                    *self = Scanner::new();
                    return Some((at + 1, verdict));
                }
                _ => {
                    self.byte(bytes[at]);
                    self.offset += 1;
                    at + 1
                }
            };
        }
        None
    }

    /// Checks a whole line that has no newline at its end.
    pub(crate) fn check(line: &[u8]) -> Verdict {
        let mut scanner = Scanner::new();
        match scanner.feed(line) {
            // A newline inside is no part of one line.
            Some(_) => Verdict::Bad(Fault::Malformed),
            None => scanner.end(),
        }
    }

    /// Bytes of the line that has begun.
    pub(crate) fn line_len(&self) -> usize {
        self.offset
    }

    /// Whether nothing of this line will be used.
    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Skips the rest of this line.
    pub(crate) fn give_up(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.state = State::Skipping;
    }

    /// The plain letters of a text in one go, up to the byte that needs a look.
    fn text(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let count = plain_len(rest);
        if self.in_key {
            self.note_key(&rest[..count]);
        }
        self.offset += count;
        let Some(byte) = rest.get(count) else { return bytes.len() };
        match byte {
            b'"' => self.close_text(),
            b'\\' => self.state = State::Escape,
            0x80.. => self.wide(*byte),
            // A control character; a newline is looked at again, as the end of the line.
            _ => {
                self.give_up(Fault::Malformed);
                return at + count;
            }
        }
        if self.state == State::Skipping {
            return at + count;
        }
        self.offset += 1;
        at + count + 1
    }

    fn skip(&mut self, bytes: &[u8], at: usize) -> usize {
        let count = memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
        self.offset += count;
        if at + count < bytes.len() {
            // The newline itself belongs to `feed`.
            self.state = State::After;
        }
        at + count
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            State::Value { or_close } => match byte {
                b' ' | b'\t' | b'\r' => {}
                b']' if or_close => self.close(false),
                _ => self.begin(byte),
            },
            State::Key { or_close } => match byte {
                b' ' | b'\t' | b'\r' => {}
                b'}' if or_close => self.close(true),
                b'"' => {
                    self.in_key = self.depth == 1;
                    if self.in_key {
                        self.key_len = 0;
                    }
                    self.is_key_text = true;
                    self.state = State::Text;
                }
                _ => self.refuse(byte),
            },
            State::Colon => match byte {
                b' ' | b'\t' | b'\r' => {}
                b':' => self.state = State::Value { or_close: false },
                _ => self.refuse(byte),
            },
            State::After => self.after(byte),
            State::Text | State::Skipping => unreachable!("taken in runs"),
            State::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    if self.in_key {
                        // No key of ours has one of these letters in it.
                        self.key_len = KEY_BYTES_MAX + 1;
                    }
                    self.state = State::Text;
                }
                b'u' => self.state = State::Hex { left: 4, value: 0 },
                _ => self.refuse(byte),
            },
            State::Hex { left, value } => {
                let Some(digit) = (byte as char).to_digit(16) else { return self.refuse(byte) };
                let value = value << 4 | digit as u16;
                self.state = if left > 1 {
                    State::Hex { left: left - 1, value }
                } else {
                    if self.in_key {
                        // Whatever is not ASCII is in no key of ours.
                        self.note_key(&[u8::try_from(value).unwrap_or(0xFF)]);
                    }
                    State::Text
                };
            }
            State::Wide { left, low, high } => {
                if !(low..=high).contains(&byte) {
                    self.give_up(Fault::Encoding);
                } else if left > 1 {
                    self.state = State::Wide { left: left - 1, low: 0x80, high: 0xBF };
                } else {
                    self.state = State::Text;
                }
            }
            State::Word { rest } => match rest {
                [expected] if *expected == byte => self.value_ended(1),
                [expected, rest @ ..] if *expected == byte => self.state = State::Word { rest },
                _ => self.refuse(byte),
            },
            _ => self.number(byte),
        }
    }

    fn begin(&mut self, byte: u8) {
        match self.depth {
            0 => self.top_start = self.offset,
            1 => self.value_start = self.offset,
            _ => {}
        }
        self.is_blank = false;
        self.state = match byte {
            b'{' => return self.open(true),
            b'[' => return self.open(false),
            b'"' => {
                self.in_key = false;
                self.is_key_text = false;
                State::Text
            }
            b't' => State::Word { rest: b"rue" },
            b'f' => State::Word { rest: b"alse" },
            b'n' => State::Word { rest: b"ull" },
            b'N' => State::Word { rest: b"aN" },
            b'I' => State::Word { rest: b"nfinity" },
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => {
                self.digits = 1;
                State::Integer
            }
            _ => return self.refuse(byte),
        };
    }

    fn number(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Minus, b'I') => State::Word { rest: b"nfinity" },
            (State::Minus, b'0') => State::Zero,
            (State::Minus, b'1'..=b'9') => {
                self.digits = 1;
                State::Integer
            }
            (State::Integer, b'0'..=b'9') => {
                self.digits = self.digits.saturating_add(1);
                State::Integer
            }
            (State::Zero | State::Integer, b'.') => State::Dot,
            (State::Dot | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Zero | State::Integer | State::Fraction, b'e' | b'E') => State::E,
            (State::E, b'+' | b'-') => State::ESign,
            (State::E | State::ESign | State::Exponent, b'0'..=b'9') => State::Exponent,
            (State::Zero | State::Integer | State::Fraction | State::Exponent, _) => {
                self.number_ended();
                if self.fault.is_none() {
                    self.after(byte);
                }
                return;
            }
            _ => return self.refuse(byte),
        };
    }

    fn number_ended(&mut self) {
        if self.state == State::Integer && self.digits > DIGITS_MAX {
            self.give_up(Fault::Number);
        } else {
            self.value_ended(0);
        }
    }

    fn after(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' => {}
            b',' if self.depth > 0 => {
                self.state = if self.inside_object() {
                    State::Key { or_close: false }
                } else {
                    State::Value { or_close: false }
                };
            }
            b'}' if self.depth > 0 => self.close(true),
            b']' if self.depth > 0 => self.close(false),
            _ => self.refuse(byte),
        }
    }

    fn open(&mut self, is_object: bool) {
        if self.depth == DEPTH_MAX {
            return self.give_up(Fault::Depth);
        }
        if self.depth == 0 {
            self.top_is_object = is_object;
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if is_object {
            self.is_object[word] |= bit;
        } else {
            self.is_object[word] &= !bit;
        }
        self.depth += 1;
        self.state =
            if is_object { State::Key { or_close: true } } else { State::Value { or_close: true } };
    }

    fn close(&mut self, is_object: bool) {
        if self.inside_object() != is_object {
            return self.give_up(Fault::Malformed);
        }
        self.depth -= 1;
        self.value_ended(1);
    }

    fn inside_object(&self) -> bool {
        let level = self.depth - 1;
        self.is_object[level / 64] >> (level % 64) & 1 == 1
    }

    fn close_text(&mut self) {
        if self.is_key_text {
            self.in_key = false;
            self.state = State::Colon;
        } else {
            self.value_ended(1);
        }
    }

    /// Ends a value; `more` bytes of it are not counted yet.
    fn value_ended(&mut self, more: usize) {
        self.state = State::After;
        let start = if self.depth == 0 { self.top_start } else { self.value_start };
        let span = Span { start: start as u32, end: (self.offset + more) as u32 };
        if self.depth == 0 {
            self.object = span;
        } else if self.depth == 1
            && self.top_is_object
            && let Some(name) = self.key.get(..self.key_len)
            && let Some(key) = Key::of_bytes(name)
        {
            self.fields[key as usize] = Some(span);
        }
    }

    fn note_key(&mut self, letters: &[u8]) {
        let end = self.key_len + letters.len();
        match self.key.get_mut(self.key_len..end) {
            Some(place) => {
                place.copy_from_slice(letters);
                self.key_len = end;
            }
            None => self.key_len = KEY_BYTES_MAX + 1,
        }
    }

    fn wide(&mut self, byte: u8) {
        self.is_ascii = false;
        if self.in_key {
            self.key_len = KEY_BYTES_MAX + 1;
        }
        let (left, low, high) = match byte {
            0xC2..=0xDF => (1, 0x80, 0xBF),
            0xE0 => (2, 0xA0, 0xBF),
            0xED => (2, 0x80, 0x9F),
            0xE1..=0xEF => (2, 0x80, 0xBF),
            0xF0 => (3, 0x90, 0xBF),
            0xF1..=0xF3 => (3, 0x80, 0xBF),
            0xF4 => (3, 0x80, 0x8F),
            _ => return self.give_up(Fault::Encoding),
        };
        self.state = State::Wide { left, low, high };
    }

    /// A byte that cannot stand here.
    fn refuse(&mut self, byte: u8) {
        let is_encoding = byte >= 0x80 && !(0xC2..=0xF4).contains(&byte);
        self.is_blank = false;
        self.give_up(if is_encoding { Fault::Encoding } else { Fault::Malformed });
    }

    fn end(&mut self) -> Verdict {
        if matches!(self.state, State::Zero | State::Integer | State::Fraction | State::Exponent) {
            self.number_ended();
        }
        if matches!(self.state, State::Wide { .. }) {
            self.give_up(Fault::Encoding);
        }
        if let Some(fault) = self.fault {
            return Verdict::Bad(fault);
        }
        if self.is_blank {
            return Verdict::Blank;
        }
        if self.state != State::After || self.depth > 0 {
            return Verdict::Bad(Fault::Malformed);
        }
        if !self.top_is_object {
            return Verdict::Bad(Fault::NotObject);
        }
        if self.fields[Key::Tract as usize].is_none() || self.fields[Key::Event as usize].is_none()
        {
            return Verdict::Bad(Fault::Incomplete);
        }
        Verdict::Good(Shape { object: self.object, is_ascii: self.is_ascii, fields: self.fields })
    }
}

/// How many bytes may stand in a text without a further look: eight at a time, then one by one.
fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let odd = odd_bytes(u64::from_le_bytes(*word));
        if odd != 0 {
            return 8 * number + odd.trailing_zeros() as usize / 8;
        }
    }
    let plain = bytes.len() - rest.len();
    plain + rest.iter().position(|byte| !IS_PLAIN[*byte as usize]).unwrap_or(rest.len())
}

/// The highest bit of the first byte that is not plain is set, and none before it; 0 if all are.
fn odd_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // What is borrowed for one byte spoils those above it, which nobody looks at then.
    let less = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word;
    let quote = less(word ^ (ONES * b'"' as u64), 1);
    let backslash = less(word ^ (ONES * b'\\' as u64), 1);
    (less(word, 0x20) | quote | backslash | word) & HIGH
}

/// Bytes that may stand in a text without a further look.
const IS_PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x80 {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};
