//! What goes out for a line that came in: the same bytes, in ASCII, with a time.

use crate::scan::{Key, Scanner, Shape, Span, Verdict};

/// Bytes of a message. A longer line is skipped and counted.
pub const LINE_MAX: usize = 16 << 20;

/// Where the names of a line that goes out are, counted from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Names {
    pub(crate) tract: Span,
    pub(crate) event: Span,
}

impl Names {
    pub(crate) fn of(shape: &Shape) -> Names {
        let span = |key| shape.field(key).unwrap_or_default().less(shape.object.start);
        Names { tract: span(Key::Tract), event: span(Key::Event) }
    }
}

/// Writes a good line as it goes out, its newline too, and says where its names are.
pub(crate) fn relay(line: &[u8], shape: &Shape, now_ms: u64, out: &mut Vec<u8>) -> Names {
    let begin = out.len();
    let object = &line[shape.object.range()];
    let brace = object.len() - 1;
    if shape.is_ascii {
        out.extend_from_slice(&object[..brace]);
    } else {
        escape(&object[..brace], out);
    }
    if shape.field(Key::Ts).is_none() {
        out.extend_from_slice(b",\"ts\":");
        push_number(now_ms, out);
    }
    out.extend_from_slice(b"}");
    let names = if shape.is_ascii { Names::of(shape) } else { names_again(&out[begin..]) };
    out.push(b'\n');
    names
}

/// Writes a number in digits.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
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

/// Escapes have moved the names.
fn names_again(line: &[u8]) -> Names {
    match Scanner::check(line) {
        Verdict::Good(shape) => Names::of(&shape),
        _ => Names::default(),
    }
}

/// Everything above ASCII as `\uXXXX`: a reader that decodes block by block cuts no letter.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
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
