//! A safe and unique file name for any text.
//!
//! Small letters, digits, `-` and `_` stay, a capital becomes `+` and the small letter, and every
//! other byte becomes `%` and two hex digits. So two texts never share a name, also on file systems
//! that ignore case or compose accents. No name begins with a dot, contains a slash, or is a device
//! on any system. A name that would be too long becomes `~` and the SHA-256 of the text.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Bytes of a name without its extension. File systems allow 255; the rest is for extensions and
/// for the names of temporary files.
const STEM_MAX: usize = 200;

/// Names that some systems take for devices, whatever their extension.
const DEVICES: [&str; 4] = ["aux", "con", "nul", "prn"];

/// Returns the file name for `text`, without its extension.
pub(crate) fn file_stem(text: &str) -> String {
    let mut stem = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => stem.push(char::from(byte)),
            // On a file system that ignores case, `A` and `a` would be one file.
            b'A'..=b'Z' => {
                stem.push('+');
                stem.push(char::from(byte.to_ascii_lowercase()));
            }
            _ => escape(&mut stem, byte),
        }
    }
    // One escaped letter is enough to make it another name. Letters are escaped nowhere else, so no
    // other text gets this name.
    if is_device(&stem) {
        let mut escaped = String::new();
        escape(&mut escaped, stem.as_bytes()[0]);
        escaped.push_str(&stem[1..]);
        return escaped;
    }
    // `~` stands in no other name, so a hash cannot collide with a text that looks like one.
    if stem.len() > STEM_MAX {
        return format!("~{}", hex(&Sha256::digest(text.as_bytes())));
    }
    stem
}

/// Encodes bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Decodes a SHA-256 from hex digits of either case.
pub(crate) fn digest_from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    // Checked by bytes before slicing: a character of several bytes would make the slices below
    // panic, and `from_str_radix` would accept a sign.
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

    /// The name as a file system sees it that ignores case and composes accents.
    fn folded(stem: &str) -> String {
        stem.nfkc().collect::<String>().to_lowercase()
    }

    #[test]
    fn file_names_stay_readable() {
        let named = |text| file_stem(text);
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
    fn awkward_ids_have_unique_names() {
        let long = "x".repeat(255);
        let other = format!("{}y", "x".repeat(254));
        let ids = [
            "ancestry", ".jsonl", "../x", "a/b", "a\\b", "CON", "con", "Con", ".", "..", "%2e",
            "é", "e\u{301}", "É", "a b", "a", "A", "+a", "~", "ß", "SS", "ss", "İ", "ı", "ﬁ", "fi",
            &long, &other,
        ];
        let mut seen = HashMap::new();
        for id in ids {
            let name = file_stem(SessionId::new(id).unwrap().as_str());
            assert!(is_confined(&name), "{id} is named {name}");
            assert_eq!(seen.insert(folded(&name), id), None, "{id} shares the name {name}");
        }
    }

    proptest! {
        #[test]
        fn distinct_texts_have_distinct_confined_names(a in "\\PC{1,80}", b in "\\PC{1,80}") {
            prop_assert!(is_confined(&file_stem(&a)));
            prop_assert_eq!(a == b, folded(&file_stem(&a)) == folded(&file_stem(&b)));
        }

        #[test]
        fn near_texts_have_distinct_names(
            a in "[aAbB%+~.2éE\u{301}]{1,6}",
            b in "[aAbB%+~.2éE\u{301}]{1,6}",
        ) {
            prop_assert_eq!(a == b, folded(&file_stem(&a)) == folded(&file_stem(&b)));
        }
    }

    #[test]
    fn digests_read_back() {
        let digest: [u8; 32] = Sha256::digest(b"x").into();
        assert_eq!(digest_from_hex(&hex(&digest)), Some(digest));
        assert_eq!(digest_from_hex("zz"), None);
    }
}
