//! Truncation of long strings inside JSON.

use super::prefix::char_len;
use super::{Token, Tokenizer};

/// Truncates the strings in JSON to `chars_max` characters; `None` if none is longer. Member names
/// are not truncated, and everything else stays byte for byte.
pub fn cut_strings(json: &str, chars_max: usize) -> Option<String> {
    let mut cut = String::new();
    let mut copied = 0;
    let mut tokens = Tokenizer::new(json);
    while let Some(token) = tokens.next() {
        let Token::String(string) = token else { continue };
        let Some(len) = fitting_len(string.as_bytes(), chars_max) else { continue };
        let end = tokens.offset();
        cut.push_str(json.get(copied..end - string.len() + len)?);
        // From the closing quote on.
        copied = end - 1;
    }
    cut.push_str(json.get(copied..)?);
    (copied > 0).then_some(cut)
}

/// Returns the length of the beginning of a string, with its opening quote, that has `chars_max`
/// characters; `None` if the string has no more.
fn fitting_len(string: &[u8], chars_max: usize) -> Option<usize> {
    let end = string.len() - 1;
    // A character has at least one byte, so that most strings are not walked at all.
    if end <= chars_max {
        return None;
    }
    let mut len = 1;
    for _ in 0..chars_max {
        let rest = string.get(len..end).filter(|rest| !rest.is_empty())?;
        len += if is_surrogate_pair(rest) { 12 } else { char_len(rest) };
    }
    (len < end).then_some(len)
}

/// Returns whether two escapes begin here that are one character: a half must not stay alone.
fn is_surrogate_pair(bytes: &[u8]) -> bool {
    let high = bytes.strip_prefix(b"\\ud").or_else(|| bytes.strip_prefix(b"\\uD"));
    let low = high.and_then(|rest| match rest {
        [b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, low @ ..] => Some(low),
        _ => None,
    });
    low.is_some_and(|low| low.starts_with(b"\\u"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_texts_are_truncated() {
        for (json, expected) in [
            (r#"{"a":"1234"}"#, None),
            (r#"{"a":"12345","b":[1,"123456"]}"#, Some(r#"{"a":"1234","b":[1,"1234"]}"#)),
            // Member names and numbers stay.
            (r#"{"a_long_name" : 1234567}"#, None),
            (r#"{"a_long_name":"äöüß…"}"#, Some(r#"{"a_long_name":"äöüß"}"#)),
            (r#""\"\\\n\u00e4x""#, Some(r#""\"\\\n\u00e4""#)),
            (r#""123\ud83d\ude005""#, Some(r#""123\ud83d\ude00""#)),
            (r#""12\ud83d\ude004""#, None),
            (r#""\ud83d""#, None),
            (r#""""#, None),
            ("17", None),
        ] {
            assert_eq!(cut_strings(json, 4).as_deref(), expected, "{json}");
        }
        assert_eq!(cut_strings(r#"["","a"]"#, 0).as_deref(), Some(r#"["",""]"#));
    }
}
