//! The work is linear in the text. It is counted in bytes examined, not in time.

use redact::{Redactor, Stream};

use crate::given::chance;

/// Bytes examined for a text that comes in pieces of `piece_len`.
fn examined_in_pieces(text: &str, piece_len: usize) -> u64 {
    let mut redactor = Redactor::new();
    let mut stream = Stream::new();
    let mut out = String::new();
    for piece in text.as_bytes().chunks(piece_len) {
        let piece = std::str::from_utf8(piece).expect("ASCII");
        redactor.push(&mut stream, piece, &mut out);
    }
    redactor.finish(stream, &mut out);
    redactor.bytes_examined()
}

/// Bytes examined for a text that comes whole.
fn bytes_examined(text: &str) -> u64 {
    let mut redactor = Redactor::new();
    redactor.redact(text);
    redactor.bytes_examined()
}

#[track_caller]
fn check(part: &str, per_byte_max: u64) {
    let text = part.repeat(2 * 1024 / part.len());
    let once = bytes_examined(&text);
    let per_byte = once / text.len() as u64;
    assert!(per_byte <= per_byte_max, "{per_byte} for each byte of {part:?}");
    for factor in [10, 100] {
        let text = text.repeat(factor);
        let more = bytes_examined(&text);
        assert!(more <= once * factor as u64 * 5 / 4, "{once} then {more} of {part:?}");
        // The text that is held back is searched again, in steps that are long enough.
        let in_pieces = examined_in_pieces(&text, 100);
        assert!(in_pieces <= more * 5 / 4, "{more} but {in_pieces} in pieces of {part:?}");
    }
}

#[test]
fn plain_text_is_examined_once() {
    check("Nothing of interest happens in this line, nor in any other.\n", 1);
}

#[test]
fn usual_code_is_examined_few_times() {
    check(
        "fn parse(&mut self) -> Result<Tree, Error> {\n    let mut list = Vec::new();\n    \
         while let Some(part) = self.parts.next() {\n        list.push(self.leaf(part)?);\n    }\n",
        8,
    );
}

#[test]
fn worst_text_costs_a_window_per_keyword() {
    for part in ["token=", "sk-sk-", "://", "password=\"", "-----BEGIN", "eyJ", "ghp_", "-us:AA"] {
        check(part, 1_200);
    }
}

#[test]
fn cut_text_costs_one_more_pass() {
    for len in [1, 60, 1_900] {
        let cut = format!("{}…", chance(2, len));
        let mut redactor = Redactor::new();
        let text = cut.repeat(64 * 1024 / cut.len());
        redactor.redact(&text);
        assert!(
            redactor.bytes_examined() <= 12 * text.len() as u64,
            "{}",
            redactor.bytes_examined()
        );
    }
}

#[test]
fn secrets_cost_like_other_text() {
    let token = format!("gh{}_{} ", "p", chance(1, 36));
    check(&token, 64);
}
