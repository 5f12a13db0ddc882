//! Bytes that no proper client sends. The fuzzer looks for more of them.

mod bus;

use proptest::prelude::*;

/// Pieces of lines, valid and broken.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b" ",
    b"\r",
    b"\t",
    b"\"tract\"",
    b"\"event\"",
    b"\"ts\"",
    b"\"a\"",
    b"1",
    b"0",
    b"-",
    b".",
    b"e",
    b"+",
    b"NaN",
    b"Infinity",
    b"true",
    b"nul",
    b"\\u",
    b"\\ud83d",
    b"00e4",
    b"\xc3\xa4",
    b"\xf0\x9f\x98\x80",
    b"\xff",
    b"\xed",
    b"\x00",
    b"\x7f",
    b"{\"tract\":\"a\",\"event\":\"b\"",
    b"\"ref\":\"x\",",
    b"}\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn scanner_matches_reference(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24),
    ) {
        bus::check(&pieces.concat());
    }

    #[test]
    fn values_decode_like_serde_json(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
    ) {
        let line = [&b"{\"tract\":1,\"event\":2,\"a\":["[..], &pieces.concat(), b"]}"].concat();
        let read = serde_json::from_slice::<serde_json::Value>(&line);
        if let (Ok(read), Ok(message)) = (read, ::bus::Message::parse(&line)) {
            prop_assert_eq!(message.to_json(), read);
        }
    }
}

#[test]
fn scanner_matches_reference_at_limits() {
    for depth in [511, 512, 513, 2_000] {
        let line = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        bus::check(line.as_bytes());
    }
    for digits in [4_300, 4_301] {
        let number = "7".repeat(digits);
        bus::check(format!("{{\"tract\":{number},\"event\":-{number}.5}}").as_bytes());
        bus::check(format!("[{number}e5,{number}]").as_bytes());
    }
}
