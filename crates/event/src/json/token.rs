//! A tokenizer for JSON: one pass, any depth, constant memory.
//!
//! The input must have been checked to be JSON; the tokenizer does not check it again. On other
//! input it returns wrong tokens, but it neither panics nor loops.

use memchr::memchr2;

/// A bracket or a string of JSON. Numbers and literals are skipped.
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

/// Iterates over the tokens of a JSON text.
pub(crate) struct Tokenizer<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Tokenizer<'a> {
    pub(crate) fn new(json: &'a str) -> Tokenizer<'a> {
        Tokenizer { json, at: 0 }
    }

    /// Returns the index behind the last token.
    pub(crate) fn offset(&self) -> usize {
        self.at
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
                    // Only a name is followed by a colon.
                    let next = bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
                    return Some(match next {
                        Some(b':') => Token::Name(string),
                        _ => Token::String(string),
                    });
                }
                _ => {}
            }
        }
    }
}

/// Returns the index behind the closing quote of a string. Its content begins at `at`.
pub fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(rest) = bytes.get(at..) {
        // A string may be megabytes long; `memchr2` looks at many bytes at once.
        let Some(len) = memchr2(b'"', b'\\', rest) else { break };
        at += len;
        if bytes[at] == b'"' {
            return at + 1;
        }
        // A backslash and the escaped byte, which may be a quote.
        at += 2;
    }
    // A string without an end, in a text that is not JSON: everything belongs to it.
    bytes.len()
}
