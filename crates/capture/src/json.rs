//! Parts of a record, read no further than needed.

use std::borrow::Cow;

use event::Raw;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Some JSON as `T`. Lone surrogates, which JavaScript writes, are read as U+FFFD.
pub(crate) fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).or_else(|error| match event::replace_lone_surrogates(json) {
        Cow::Owned(json) => serde_json::from_str(&json),
        Cow::Borrowed(_) => Err(error),
    })
}

/// The text of a JSON string; `None` for anything else.
pub(crate) fn text(json: &RawValue) -> Option<String> {
    read(json.get()).ok()
}

/// The first characters of a JSON string, without reading the rest; `None` for anything else.
pub(crate) fn beginning(json: &str, chars_max: usize) -> Option<String> {
    let bytes = json.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut end = 1;
    for _ in 0..chars_max {
        end += match (bytes.get(end)?, bytes.get(end + 1)) {
            (b'"', _) => break,
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            (0..0x80, _) => 1,
            (0x80..0xE0, _) => 2,
            (0xE0..0xF0, _) => 3,
            (0xF0.., _) => 4,
        };
    }
    Raw::parse(format!("{}\"", json.get(..end)?)).ok()?.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_between_characters() {
        let json = r#""a\né\u00e4😀\"b""#;
        let whole = "a\né\u{e4}😀\"b";
        for chars in 0..12 {
            let expected: String = whole.chars().take(chars).collect();
            assert_eq!(beginning(json, chars).as_deref(), Some(&*expected), "{chars}");
        }
        assert_eq!(beginning("[1]", 5), None);
        assert_eq!(beginning("\"torn", 9), None);
    }
}
