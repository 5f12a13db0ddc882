//! Any bytes as lines on the bus, compared with a plain recursive check of the same rules.

use ::bus::{LineDecoder, LineFault, Message};

/// Fails if what is made of these bytes depends on how they are cut, or differs from what the
/// plain check says.
pub(crate) fn check(bytes: &[u8]) {
    let whole = lines(&[bytes]);
    let halves = bytes.split_at(bytes.len() / 2);
    assert_eq!(lines(&[halves.0, halves.1]), whole);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(lines(&single), whole);
    let mut ended: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What stands behind the last newline is no line.
    ended.pop();
    let expected: Vec<Result<Vec<u8>, LineFault>> = ended
        .into_iter()
        .filter_map(|line| plain(line).map(|said| said.map(|()| trimmed(line))))
        .collect();
    assert_eq!(whole, expected, "{:?}", String::from_utf8_lossy(bytes));
    for line in whole.into_iter().flatten() {
        check_message(&line);
    }
}

/// A message reads the same in all its forms.
fn check_message(line: &[u8]) {
    let message = Message::parse(line).expect("it was good a moment ago");
    let ascii = message.ascii_line();
    assert!(ascii.is_ascii());
    let again = Message::parse(ascii.as_bytes()).expect("ASCII is as good");
    assert_eq!(again.to_json(), message.to_json());
    assert_eq!(again.tract(), message.tract());
    let pretty = message.pretty(char::is_control).replace('\n', " ");
    let again = Message::parse(pretty.as_bytes()).expect("indented it is as good");
    assert_eq!(again.to_json(), message.to_json());
    assert!(message.field("tract").is_some() && message.field("event").is_some());
}

fn lines(pieces: &[&[u8]]) -> Vec<Result<Vec<u8>, LineFault>> {
    let mut heard = Vec::new();
    let mut lines = LineDecoder::default();
    for piece in pieces {
        lines.feed(piece, |line| heard.push(line.map(|message| trimmed(message.line()))));
    }
    heard
}

fn trimmed(line: &[u8]) -> Vec<u8> {
    let is_blank = |byte: &u8| b" \t\r".contains(byte);
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    line[start..end].to_vec()
}

/// What a line is; `None` for a blank one. The first fault from the left decides.
fn plain(line: &[u8]) -> Option<Result<(), LineFault>> {
    let mut reader = Reader { rest: line, keys: Vec::new() };
    reader.blanks();
    if reader.rest.is_empty() {
        return None;
    }
    let is_object = reader.rest[0] == b'{';
    Some(reader.value(0).and_then(|()| {
        reader.blanks();
        match reader.rest.first() {
            Some(byte) => Err(fault_of(*byte)),
            None if !is_object => Err(LineFault::NotObject),
            None if !["tract", "event"]
                .iter()
                .all(|key| reader.keys.iter().any(|is| is == key)) =>
            {
                Err(LineFault::Incomplete)
            }
            None => Ok(()),
        }
    }))
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Keys at the top.
    keys: Vec<String>,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn next(&mut self) -> Result<u8, LineFault> {
        let (first, rest) = self.rest.split_first().ok_or(LineFault::Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    fn expect(&mut self, word: &[u8]) -> Result<(), LineFault> {
        for expected in word {
            let byte = self.next()?;
            if byte != *expected {
                return Err(fault_of(byte));
            }
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), LineFault> {
        self.blanks();
        match self.next()? {
            b'{' | b'[' if depth == 512 => Err(LineFault::Depth),
            b'{' => self.members(depth + 1),
            b'[' => self.elements(depth + 1),
            b'"' => self.text().map(drop),
            b't' => self.expect(b"rue"),
            b'f' => self.expect(b"alse"),
            b'n' => self.expect(b"ull"),
            b'N' => self.expect(b"aN"),
            b'I' => self.expect(b"nfinity"),
            b'-' => match self.next()? {
                b'I' => self.expect(b"nfinity"),
                digit @ b'0'..=b'9' => self.number(digit),
                byte => Err(fault_of(byte)),
            },
            digit @ b'0'..=b'9' => self.number(digit),
            byte => Err(fault_of(byte)),
        }
    }

    fn members(&mut self, depth: usize) -> Result<(), LineFault> {
        self.blanks();
        if let [b'}', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(());
        }
        loop {
            self.blanks();
            match self.next()? {
                b'"' => {}
                byte => return Err(fault_of(byte)),
            }
            let key = self.text()?;
            self.blanks();
            self.expect(b":")?;
            self.value(depth)?;
            if depth == 1 {
                self.keys.push(key);
            }
            self.blanks();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(()),
                byte => return Err(fault_of(byte)),
            }
        }
    }

    fn elements(&mut self, depth: usize) -> Result<(), LineFault> {
        self.blanks();
        if let [b']', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.blanks();
            match self.next()? {
                b',' => {}
                b']' => return Ok(()),
                byte => return Err(fault_of(byte)),
            }
        }
    }

    fn number(&mut self, first: u8) -> Result<(), LineFault> {
        let whole = if first == b'0' { 1 } else { 1 + self.digits() };
        let mut is_integer = true;
        if let [b'.', rest @ ..] = self.rest {
            self.rest = rest;
            is_integer = false;
            self.some_digits()?;
        }
        if let [b'e' | b'E', rest @ ..] = self.rest {
            self.rest = rest;
            is_integer = false;
            if let [b'+' | b'-', rest @ ..] = self.rest {
                self.rest = rest;
            }
            self.some_digits()?;
        }
        if is_integer && whole > 4_300 { Err(LineFault::Number) } else { Ok(()) }
    }

    fn digits(&mut self) -> usize {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        count
    }

    fn some_digits(&mut self) -> Result<(), LineFault> {
        match self.rest.first() {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            Some(byte) => Err(fault_of(*byte)),
            None => Err(LineFault::Malformed),
        }
    }

    fn text(&mut self) -> Result<String, LineFault> {
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Ok(text),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => text.push('\\'),
                    b'u' => {
                        let mut unit = 0;
                        for _ in 0..4 {
                            let byte = self.next()?;
                            let digit = (byte as char).to_digit(16).ok_or(fault_of(byte))?;
                            unit = unit * 16 + digit;
                        }
                        text.push(char::from_u32(unit).unwrap_or('\u{FFFD}'));
                    }
                    byte => return Err(fault_of(byte)),
                },
                ..0x20 => return Err(LineFault::Malformed),
                byte @ ..0x80 => text.push(byte as char),
                first => text.push(self.letter(first)?),
            }
        }
    }

    fn letter(&mut self, first: u8) -> Result<char, LineFault> {
        for more in 1..=3 {
            let bytes: Vec<u8> =
                [first].iter().chain(self.rest.iter().take(more)).copied().collect();
            if let Ok(letter) = std::str::from_utf8(&bytes) {
                self.rest = &self.rest[more..];
                return letter.chars().next().ok_or(LineFault::Encoding);
            }
        }
        Err(LineFault::Encoding)
    }
}

/// The fault that a byte is which cannot stand where it stands.
fn fault_of(byte: u8) -> LineFault {
    if byte >= 0x80 && !(0xC2..=0xF4).contains(&byte) {
        LineFault::Encoding
    } else {
        LineFault::Malformed
    }
}
