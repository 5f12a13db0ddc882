//! The split of a text does not change the result.

use proptest::prelude::*;
use redact::{Redactor, Stream};

use crate::given::{chance, harmless, key_block, packed, secret};
use crate::redacted;

/// Redacts the text in pieces.
pub(crate) fn in_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>, step_min: usize) -> String {
    let mut redactor = Redactor::new();
    let mut stream = Stream::with_step_min(step_min);
    let mut out = String::new();
    for piece in pieces {
        redactor.push(&mut stream, piece, &mut out);
    }
    redactor.finish(stream, &mut out);
    out
}

/// Cuts the text into pieces of the given lengths, repeated as needed.
pub(crate) fn cut<'a>(text: &'a str, lens: &[usize]) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    for len in lens.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(*len.max(&1)).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Texts with secrets in many places.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => harmless(),
        2 => (secret(), 0..6usize).prop_map(|((_, text), packing)| packed(&text, packing)),
        1 => Just(key_block("\n")),
        1 => (0..9u64, 500..1_500usize).prop_map(|(seed, len)| format!("TOKEN={}", chance(seed, len))),
        1 => (0..9u64, 1..40usize).prop_map(|(seed, len)| chance(seed, len)),
        1 => (0..9u64, 1..9_000usize).prop_map(|(seed, len)| chance(seed, len) + "…"),
        1 => prop::sample::select(vec!["token=", "password: \"", "ghp_", "-----BEGIN", "://", "用", "…"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn split_does_not_change_the_result(
        text in text(),
        lens in prop::collection::vec(1..900usize, 1..6),
        step_min in prop_oneof![Just(1usize), 1..2_000usize],
    ) {
        prop_assert_eq!(in_pieces(cut(&text, &lens), step_min), redacted(&text));
    }

    #[test]
    fn redaction_is_idempotent(text in text()) {
        let once = redacted(&text);
        prop_assert_eq!(redacted(&once), once);
    }
}

#[test]
fn secret_in_single_bytes_is_found() {
    let text = format!("a {} b TOKEN={} c", key_block("\n"), chance(1, 5_000)).repeat(3);
    assert_eq!(in_pieces(cut(&text, &[1]), 1), redacted(&text));
    assert!(!redacted(&text).contains(&chance(1, 40)[20..]));
}

#[test]
fn stream_holds_little_back() {
    let mut redactor = Redactor::new();
    let mut stream = Stream::new();
    let mut out = String::new();
    let mut given = 0;
    for _ in 0..1_000 {
        let line = "Nothing of interest happens in this line of text.\n";
        redactor.push(&mut stream, line, &mut out);
        given += line.len();
        assert!(given - out.len() < 10 * 1024);
    }
}

#[test]
fn endless_secret_is_not_held_back() {
    let mut redactor = Redactor::new();
    let mut stream = Stream::new();
    let mut out = String::new();
    redactor.push(&mut stream, "TOKEN=", &mut out);
    for seed in 0..1_000 {
        redactor.push(&mut stream, &chance(seed, 1_000), &mut out);
    }
    redactor.finish(stream, &mut out);
    assert!(out.starts_with("TOKEN=[redacted:token:") && out.len() == 29, "{out}");
}
