//! Any text is redacted without a panic, alike in pieces and as a whole, and only once.
//!
//! The check is shared with `fuzz/`, where a fuzzer chooses the text.

mod redact;

use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        redact::check(&bytes);
    }

    #[test]
    fn any_text_is_safe(text in any::<String>()) {
        redact::check(text.as_bytes());
    }

    #[test]
    fn pieces_of_secrets_are_safe(pieces in prop::collection::vec(piece(), 0..30)) {
        redact::check(pieces.concat().as_bytes());
    }
}

/// What rules look for, in pieces.
fn piece() -> impl Strategy<Value = String> {
    let words: Vec<String> = crate::given::built_in()
        .into_iter()
        .flat_map(|rule| [rule.keywords, rule.names].concat())
        .collect();
    let signs = [
        "=",
        ": ",
        "\"",
        "'",
        "\\",
        "\\\"",
        "\\n",
        "\n",
        " ",
        "://",
        "@",
        ":",
        "-",
        "_",
        ".",
        "[",
        "]",
        "[redacted:",
        "[redacted:token]",
        "[redacted:password:2]",
        "<",
        ">",
        "$",
        "(",
        "é",
        "用",
        "\u{1b}[0m",
        "-----END",
        "KEY-----",
        "PRIVATE ",
        "Bearer ",
        "basic ",
    ];
    prop_oneof![
        prop::sample::select(words),
        prop::sample::select(signs.to_vec()).prop_map(str::to_owned),
        "[A-Za-z0-9]{1,40}",
        "[0-9a-f]{8,64}",
    ]
}
