//! The outgoing form of a line: the same bytes, escaped to ASCII, with a timestamp.

use crate::scan::{HeaderKey, LineLayout, LineVerdict, Scanner, Span};

/// Bytes of a message. A longer line is skipped and counted.
pub const LINE_MAX: usize = 16 << 20;

/// Where a relayed line has its names, counted from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct NameSpans {
    pub(crate) tract: Span,
    pub(crate) event: Span,
}

impl NameSpans {
    pub(crate) fn from_layout(layout: &LineLayout) -> NameSpans {
        let span = |key| layout.field(key).unwrap_or_default().shifted_left(layout.object.start);
        NameSpans { tract: span(HeaderKey::Tract), event: span(HeaderKey::Event) }
    }
}

/// Writes an accepted line in its outgoing form with a newline; returns where its names are.
pub(crate) fn write_relayed(
    line: &[u8],
    layout: &LineLayout,
    now_ms: u64,
    out: &mut Vec<u8>,
) -> NameSpans {
    let begin = out.len();
    let object = &line[layout.object.range()];
    // The timestamp goes in before the last brace: no field is moved or encoded anew.
    let brace = object.len() - 1;
    if layout.is_ascii {
        out.extend_from_slice(&object[..brace]);
    } else {
        escape(&object[..brace], out);
    }
    if layout.field(HeaderKey::Ts).is_none() {
        out.extend_from_slice(b",\"ts\":");
        push_number(now_ms, out);
    }
    out.extend_from_slice(b"}");
    // Escapes move the names of a line that is not ASCII.
    let names =
        if layout.is_ascii { NameSpans::from_layout(layout) } else { rescan_names(&out[begin..]) };
    out.push(b'\n');
    names
}

/// Writes a number in decimal. Done by hand because it runs for every message without a time.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
    // The longest `u64` has 20 digits.
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

/// Finds the names again after escaping has moved them.
fn rescan_names(line: &[u8]) -> NameSpans {
    match Scanner::check(line) {
        LineVerdict::Good(layout) => NameSpans::from_layout(&layout),
        _ => NameSpans::default(),
    }
}

/// Escapes everything above ASCII as `\uXXXX`, so that a reader that decodes block by block never
/// splits a character.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
    // The scanner lets only UTF-8 through, so no chunk has an invalid part that would be lost.
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.bytes().position(|byte| !byte.is_ascii()) {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            let letter = rest[at..].chars().next().expect("a letter begins where one is not ASCII");
            for unit in letter.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
            rest = &rest[at + letter.len_utf8()..];
        }
        out.extend_from_slice(rest.as_bytes());
    }
}
