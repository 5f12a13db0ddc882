//! A file name for any text: every text has its own, and none of them is dangerous.
//!
//! Small letters, digits, `-` and `_` stand for themselves, a capital is `+` and the small
//! letter, every other byte is `%` and two hex digits. So two texts never share a name, also on
//! file systems that ignore case or compose accents, and no name begins with a dot, contains a
//! slash, or is a device on some system. What would become too long is `~` and its SHA-256.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Bytes of a name without its ending. File systems allow 255; the rest is for endings, and for
/// names that are written beside.
const STEM_MAX: usize = 200;

/// Names that some systems take for devices, whatever their ending.
const DEVICES: [&str; 4] = ["aux", "con", "nul", "prn"];

/// The name of the file that belongs to `text`, without its ending.
pub(crate) fn stem(text: &str) -> String {
    let mut stem = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => stem.push(char::from(byte)),
            b'A'..=b'Z' => {
                stem.push('+');
                stem.push(char::from(byte.to_ascii_lowercase()));
            }
            _ => escape(&mut stem, byte),
        }
    }
    if is_device(&stem) {
        let mut escaped = String::new();
        escape(&mut escaped, stem.as_bytes()[0]);
        escaped.push_str(&stem[1..]);
        return escaped;
    }
    if stem.len() > STEM_MAX {
        return format!("~{}", hex(&Sha256::digest(text.as_bytes())));
    }
    stem
}

/// Bytes as small hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// The reverse of [`hex`] for a SHA-256; capitals are read too.
pub(crate) fn digest_from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, slot) in digest.iter_mut().enumerate() {
        *slot = u8::from_str_radix(&text[place * 2..place * 2 + 2], 16).ok()?;
    }
    Some(digest)
}

fn escape(stem: &mut String, byte: u8) {
    write!(stem, "%{byte:02x}").expect("writing to a string cannot fail");
}

fn is_device(stem: &str) -> bool {
    let numbered = |name: &str| {
        stem.strip_prefix(name)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    DEVICES.contains(&stem) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use event::SessionId;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    fn is_confined(stem: &str) -> bool {
        let is_safe =
            |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'+' | b'%' | b'~');
        !stem.is_empty() && stem.len() <= 249 && stem.bytes().all(is_safe)
    }

    /// As the most forgiving file system sees a name.
    fn folded(stem: &str) -> String {
        stem.nfkc().collect::<String>().to_lowercase()
    }

    #[test]
    fn names_can_be_read_by_people() {
        let named = |text| stem(text);
        assert_eq!(named("0198-abc_d"), "0198-abc_d");
        assert_eq!(named("Ab"), "+ab");
        assert_eq!(named("../x"), "%2e%2e%2fx");
        assert_eq!(named(".jsonl"), "%2ejsonl");
        assert_eq!(named("CON"), "+c+o+n");
        assert_eq!(named("con"), "%63on");
        assert_eq!(named("com1"), "%63om1");
        assert_eq!(named("é"), "%c3%a9");
    }

    #[test]
    fn awkward_ids_have_names_of_their_own() {
        let long = "x".repeat(255);
        let other = format!("{}y", "x".repeat(254));
        let ids = [
            "ancestry", ".jsonl", "../x", "a/b", "a\\b", "CON", "con", "Con", ".", "..", "%2e",
            "é", "e\u{301}", "É", "a b", "a", "A", "+a", "~", "ß", "SS", "ss", "İ", "ı", "ﬁ", "fi",
            &long, &other,
        ];
        let mut seen = HashMap::new();
        for id in ids {
            let name = stem(SessionId::new(id).unwrap().as_str());
            assert!(is_confined(&name), "{id} is named {name}");
            assert_eq!(seen.insert(folded(&name), id), None, "{id} shares the name {name}");
        }
    }

    proptest! {
        #[test]
        fn distinct_texts_have_distinct_confined_names(a in "\\PC{1,80}", b in "\\PC{1,80}") {
            prop_assert!(is_confined(&stem(&a)));
            prop_assert_eq!(a == b, folded(&stem(&a)) == folded(&stem(&b)));
        }

        #[test]
        fn near_texts_have_distinct_names(
            a in "[aAbB%+~.2éE\u{301}]{1,6}",
            b in "[aAbB%+~.2éE\u{301}]{1,6}",
        ) {
            prop_assert_eq!(a == b, folded(&stem(&a)) == folded(&stem(&b)));
        }
    }

    #[test]
    fn digests_read_back() {
        let digest: [u8; 32] = Sha256::digest(b"x").into();
        assert_eq!(digest_from_hex(&hex(&digest)), Some(digest));
        assert_eq!(digest_from_hex("zz"), None);
    }
}
