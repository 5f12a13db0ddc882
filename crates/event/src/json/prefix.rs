//! The first characters of a string, without decoding the rest.

use std::borrow::Cow;

use super::decode_string;

/// Returns the first characters of a JSON string, or `None` for any other JSON. Each escape counts
/// as a character, so that a surrogate pair counts as two.
pub fn string_prefix(json: &str, chars_max: usize) -> Option<String> {
    let bytes = json.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut end = 1;
    for _ in 0..chars_max {
        // `?` at the end of the text: a string without a closing quote is torn.
        let rest = bytes.get(end..).filter(|rest| !rest.is_empty())?;
        if rest[0] == b'"' {
            break;
        }
        end += char_len(rest);
    }
    // The piece with a quote of its own is a whole JSON string.
    decode_string(&format!("{}\"", json.get(..end)?)).map(Cow::into_owned)
}

/// Returns how many bytes the first character has inside a JSON string.
pub(super) fn char_len(bytes: &[u8]) -> usize {
    match bytes {
        // An escape is never cut in two: `\u` and four digits, or a backslash and one character.
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        // The first byte of a character of UTF-8 says how many follow.
        [0xF0..=0xFF, ..] => 4,
        [0xE0..0xF0, ..] => 3,
        [0x80..0xE0, ..] => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends_between_characters() {
        let json = r#""a\né\u00e4😀\"b""#;
        let whole = "a\né\u{e4}😀\"b";
        for chars in 0..12 {
            let expected: String = whole.chars().take(chars).collect();
            assert_eq!(string_prefix(json, chars).as_deref(), Some(&*expected), "{chars}");
        }
        assert_eq!(string_prefix("[1]", 5), None);
        assert_eq!(string_prefix("\"torn", 9), None);
    }
}
