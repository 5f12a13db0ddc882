//! JSON taken apart in one pass, to any depth, in constant memory.
//!
//! Only for text that was checked to be JSON: nothing is checked again here.

use memchr::memchr2;

/// A piece of JSON that structures or says something. Numbers and literals are passed over.
pub(crate) enum Token<'a> {
    /// `{` or `[`.
    Open,
    /// `}` or `]`.
    Close,
    /// The name of a member, as written, with its quotes.
    Name(&'a str),
    /// A string that is not a name, as written, with its quotes.
    String(&'a str),
}

/// The tokens of a JSON text from its beginning to its end.
pub(crate) struct Tokenizer<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Tokenizer<'a> {
    pub(crate) fn new(json: &'a str) -> Tokenizer<'a> {
        Tokenizer { json, at: 0 }
    }
}

impl<'a> Iterator for Tokenizer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.json.as_bytes();
        loop {
            let start = self.at;
            let byte = *bytes.get(start)?;
            self.at += 1;
            match byte {
                b'{' | b'[' => return Some(Token::Open),
                b'}' | b']' => return Some(Token::Close),
                b'"' => {
                    self.at = string_end(bytes, self.at);
                    let string = &self.json[start..self.at];
                    let behind = bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
                    return Some(match behind {
                        Some(b':') => Token::Name(string),
                        _ => Token::String(string),
                    });
                }
                _ => {}
            }
        }
    }
}

/// Where the string ends whose first character behind the quote stands at `at`.
pub(crate) fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(rest) = bytes.get(at..) {
        let Some(len) = memchr2(b'"', b'\\', rest) else { break };
        at += len;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}
