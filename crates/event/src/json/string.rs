//! Decoding of JSON strings, including those that no Rust string can hold.
//!
//! Programs that cut text by UTF-16 units leave half of a surrogate pair behind. As an escape it
//! is valid JSON, but it is not a character. The stored JSON is never changed; only where such a
//! text is decoded, U+FFFD replaces the half.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;

const REPLACEMENT: &str = "\u{FFFD}";

/// A string that is borrowed from the JSON if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct JsonString<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Decodes a JSON string; `None` for any other JSON.
///
/// There are three paths, from fast to slow: a string without escapes is borrowed, one with
/// simple escapes is decoded here, and `serde_json` decodes surrogate pairs.
pub(crate) fn decode_string(json: &str) -> Option<Cow<'_, str>> {
    // At least two quotes: a lone `"` has no suffix left after its prefix.
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    if let Some(text) = unescape(inner) {
        return Some(Cow::Owned(text));
    }
    let text: Result<String, _> = serde_json::from_str(json)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(json)));
    text.ok().map(Cow::Owned)
}

/// Decodes the inside of a JSON string; `None` if it has surrogates or is not valid JSON.
fn unescape(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(escape) = memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..escape]);
        let (plain, len) = match *rest.as_bytes().get(escape + 1)? {
            b'n' => ('\n', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{C}', 2),
            plain @ (b'"' | b'\\' | b'/') => (char::from(plain), 2),
            // `from_u32` refuses surrogates, which makes the caller take the slow path.
            b'u' => (char::from_u32(utf16_unit(rest, escape)?.into())?, 6),
            _ => return None,
        };
        text.push(plain);
        rest = &rest[escape + len..];
    }
    text.push_str(rest);
    Some(text)
}

/// Replaces U+0000, which many stores and terminals refuse, by U+FFFD.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if has_nul(text) { Cow::Owned(text.replace('\0', REPLACEMENT)) } else { Cow::Borrowed(text) }
}

/// Does the same as [`without_nul`] for a text that may be owned, without a second copy.
pub(crate) fn nul_replaced(text: Cow<'_, str>) -> Cow<'_, str> {
    if has_nul(&text) { Cow::Owned(text.replace('\0', REPLACEMENT)) } else { text }
}

fn has_nul(text: &str) -> bool {
    memchr(0, text.as_bytes()).is_some()
}

/// Replaces every half of a surrogate pair in JSON by the escape of U+FFFD.
///
/// The input need not be valid JSON.
pub fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(backslash) = json[at..].find('\\') {
        let escape = at + backslash;
        at = match (utf16_unit(json, escape), utf16_unit(json, escape + 6)) {
            // A whole pair: two escapes of six bytes each.
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => escape + 12,
            // A half without its other half, or two halves in the wrong order.
            (Some(0xD800..0xE000), _) => {
                mended.push_str(&json[copied..escape]);
                mended.push_str("\\ufffd");
                copied = escape + 6;
                copied
            }
            // The next character may be a backslash too, and then begins no escape. In text that
            // is not JSON it may be missing or have several bytes.
            _ => json.ceil_char_boundary(escape + 2),
        };
    }
    // Nothing was replaced. A replaced escape has six bytes, so `copied` is above 0 then.
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

/// Returns the UTF-16 unit of an escape such as `\ud83d` that begins at `place`.
fn utf16_unit(json: &str, place: usize) -> Option<u16> {
    let hex = json.get(place..place + 6)?.strip_prefix("\\u")?;
    // `from_str_radix` would accept a sign.
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(hex, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::replace_lone_surrogates;

    #[test]
    fn invalid_json_is_left_unchanged() {
        for text in ["\\\u{FFFD}\\ud83", "\\", "\\\\\\", "\\u", "\\é\\é"] {
            assert_eq!(replace_lone_surrogates(text), text);
        }
        assert_eq!(replace_lone_surrogates("\\é\\ud83d"), "\\é\\ufffd");
    }
}
