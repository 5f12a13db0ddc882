//! The brackets of JSON that arrives in pieces.

/// Follows the brackets and strings of a JSON text, byte by byte.
#[derive(Default)]
pub struct Nesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Takes the next byte and returns whether it closes the outermost bracket. In input that has
    /// no opening bracket, any closing one does.
    pub fn take_byte(&mut self, byte: u8) -> bool {
        match byte {
            // An escape counts only inside a string, and hides one byte, such as a quote.
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = self.is_in_string,
            b'"' => self.is_in_string = !self.is_in_string,
            _ if self.is_in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    /// Returns whether the next byte stands inside a string.
    pub fn is_in_string(&self) -> bool {
        self.is_in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_last_bracket_closes() {
        let text = br#" {"a": "}\"]{", "b": [{"c": "\\"}, []], "d": {}} "#;
        let mut nesting = Nesting::default();
        let closing: Vec<usize> =
            (0..text.len()).filter(|at| nesting.take_byte(text[*at])).collect();
        assert_eq!(closing, [text.len() - 2]);
    }

    #[test]
    fn escaped_quote_stays_in_string() {
        let mut nesting = Nesting::default();
        let inside = br#"{"\""}"#.map(|byte| {
            nesting.take_byte(byte);
            nesting.is_in_string()
        });
        assert_eq!(inside, [false, true, true, true, false, false]);
    }
}
