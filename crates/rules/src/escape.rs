//! Backslash escapes of `$'…'`, `echo -e` and `printf`.

/// The text that `$'…'` stands for.
pub(crate) fn decode_ansi(text: &str) -> String {
    decode(text, 3)
}

/// The text that `printf` makes of a format or of `%b`, before its directives.
pub(crate) fn decode_printf(text: &str) -> String {
    // `\0101` as well as `\101`.
    decode(text, 4)
}

fn decode(text: &str, octal_digits: usize) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        decoded.push_str(before);
        rest = behind;
        let Some(c) = rest.chars().next() else {
            decoded.push('\\');
            break;
        };
        let after = &rest[c.len_utf8()..];
        let (value, behind) = match c {
            'a' => ('\u{7}', after),
            'b' => ('\u{8}', after),
            'e' | 'E' => ('\u{1b}', after),
            'f' => ('\u{c}', after),
            'n' => ('\n', after),
            'r' => ('\r', after),
            't' => ('\t', after),
            'v' => ('\u{b}', after),
            '\\' | '\'' | '"' | '?' => (c, after),
            'x' => number(after, 16, 2),
            'u' => number(after, 16, 4),
            'U' => number(after, 16, 8),
            'c' => {
                let control = after.chars().next().unwrap_or('@');
                let value = char::from_u32(u32::from(control) & 0x1f).unwrap_or('\0');
                (value, &after[control.len_utf8().min(after.len())..])
            }
            '0'..='7' => {
                let octal_digits = if c == '0' { octal_digits } else { 3 };
                number(rest, 8, octal_digits)
            }
            _ => {
                decoded.push('\\');
                (c, after)
            }
        };
        decoded.push(value);
        rest = behind;
    }
    decoded.push_str(rest);
    decoded
}

/// The character that the number at the beginning of the text stands for, and what follows. The bytes of a character
/// that is written byte by byte become characters of their own.
fn number(text: &str, radix: u32, digits_max: usize) -> (char, &str) {
    let digits = text.chars().take(digits_max).take_while(|c| c.is_digit(radix)).count();
    let value = u32::from_str_radix(&text[..digits], radix).ok().and_then(char::from_u32);
    (value.unwrap_or('\u{fffd}'), &text[digits..])
}
