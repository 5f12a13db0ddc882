//! Truncation of long texts inside JSON.

/// Truncates the strings in JSON to `chars_max` characters; `None` if none is longer. Member names
/// are not truncated, and everything else stays byte for byte.
pub(crate) fn cut_strings(json: &str, chars_max: usize) -> Option<String> {
    let bytes = json.as_bytes();
    let mut cut = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(before) = bytes.get(at..)?.iter().position(|byte| *byte == b'"') {
        let text = TextSpan::scan_string(bytes, at + before + 1, chars_max);
        at = text.end + 1;
        if let Some(last) = text.full_at.filter(|_| !is_member_name(bytes, at)) {
            cut.push_str(json.get(copied..last)?);
            copied = text.end;
        }
    }
    cut.push_str(json.get(copied..)?);
    (copied > 0).then_some(cut)
}

/// The place of a string in JSON.
struct TextSpan {
    /// The index of its closing quote.
    end: usize,
    /// The index after the last character that fits, if there are more.
    full_at: Option<usize>,
}

impl TextSpan {
    /// Scans the string whose content begins at `begin`.
    fn scan_string(bytes: &[u8], begin: usize, chars_max: usize) -> TextSpan {
        let mut at = begin;
        let mut chars = 0;
        let mut full_at = None;
        while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
            if chars == chars_max {
                full_at = Some(at);
            }
            chars += 1;
            at += match byte {
                b'\\' => escape_len(&bytes[at..]),
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
        }
        TextSpan { end: at, full_at }
    }
}

/// Returns the length of an escape. A surrogate pair counts as one: a half must not stay alone.
fn escape_len(bytes: &[u8]) -> usize {
    match bytes {
        [
            b'\\',
            b'u',
            b'd' | b'D',
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
            _,
            _,
            b'\\',
            b'u',
            ..,
        ] => 12,
        [b'\\', b'u', ..] => 6,
        _ => 2,
    }
}

/// Whether the string that ends here is a member name.
fn is_member_name(bytes: &[u8], end: usize) -> bool {
    let behind = bytes.get(end..).unwrap_or_default();
    behind.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
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
            (r#""\ud83d""#, None),
            (r#""""#, None),
            ("17", None),
        ] {
            assert_eq!(cut_strings(json, 4).as_deref(), expected, "{json}");
        }
    }
}
