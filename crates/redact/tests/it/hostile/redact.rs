//! Bytes as a text to redact.

use redact::{Redactor, Stream};

/// Redacts the text whole, in pieces and twice. The first byte says how it is cut.
pub(super) fn check(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let whole = Redactor::new().redact(&text).into_owned();
    assert_eq!(in_pieces(&text, usize::from(first) + 1), whole, "in pieces");
    assert_eq!(Redactor::new().redact(&whole), whole, "a second time");
}

fn in_pieces(text: &str, piece_len: usize) -> String {
    let mut redactor = Redactor::new();
    let mut stream = Stream::with_step_min(1);
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(piece_len));
        redactor.push(&mut stream, piece, &mut out);
        rest = behind;
    }
    redactor.finish(stream, &mut out);
    out
}
