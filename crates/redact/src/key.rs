//! The lines of a private key.
//!
//! A key is shown in many ways: with line numbers, behind the `file:12:` of a search, indented,
//! inside a JSON string. Its lines are found from its first line on ([`next_line`], [`end_marker`])
//! and, where the first line is missing, from its end marker back ([`first_line`]).

/// The largest gap between two lines of a key: a line break, an indent, a line number.
const GAP_MAX: usize = 40;

/// The shortest line of a key, unless the end of the key follows.
const LINE_MIN: usize = 16;

/// The largest distance from the last whole line of a key to its end marker. Two lines may stand
/// in it with their places: a short line and the marker.
const END_MAX: usize = 300;

/// The longest place before a line, such as `config/server.pem:12:`.
const PLACE_MAX: usize = 160;

/// The bytes before an end marker in which the lines of its key are looked for. A key of 4,096 bits
/// has 3,300. Of a longer one without its first line, the beginning stays visible.
const BLOCK_MAX: usize = 8 * 1024;

/// The shortest line that is followed back from the end marker. Nearly all have 64 or 70 bytes.
const LINE_BACK_MIN: usize = 40;

const END: &[u8] = b"-----END";

/// Returns the number of bytes before the next line of a key.
pub(crate) fn next_line(rest: &[u8]) -> Option<usize> {
    near_line(rest).or_else(|| placed_line(rest))
}

/// Returns the number of bytes up to and including `-----END … -----`.
pub(crate) fn end_marker(rest: &[u8]) -> Option<usize> {
    let near = &rest[..rest.len().min(END_MAX)];
    let end = near.windows(END.len()).position(|part| part == END)?;
    let words = end + END.len();
    let behind = &rest[words..rest.len().min(words + GAP_MAX)];
    // The marker may be cut off. Then the secret ends with what is there.
    let dashes = behind.iter().position(|&byte| byte == b'-').unwrap_or(behind.len());
    let len = behind[dashes..].iter().take(5).take_while(|&&byte| byte == b'-').count();
    Some(words + dashes + len)
}

/// Returns the beginning of the first line of the key that ends at the marker at `at`.
pub(crate) fn first_line(text: &[u8], at: usize) -> Option<usize> {
    let start = lines_before(text, at, at);
    (start < at).then_some(start)
}

/// Returns the offset before which no line belongs to a key that ends at `at` or later. A stream
/// may write the text before it.
pub(crate) fn settled_before(text: &[u8], at: usize) -> usize {
    // The last run may go on after `at`, so its length and its end say nothing yet.
    let run = text[at.saturating_sub(BLOCK_MAX)..at].iter().rev();
    let from = at - run.take_while(|&&byte| is_key_byte(byte)).count();
    lines_before(text, from, at)
}

/// Follows lines of a key back from `from`, at most [`BLOCK_MAX`] before `end`.
fn lines_before(text: &[u8], from: usize, end: usize) -> usize {
    let oldest = end.saturating_sub(BLOCK_MAX);
    let mut start = from;
    while let Some(line) = line_before(text, start, oldest) {
        start = line;
    }
    start
}

/// Returns the beginning of the line of a key that ends shortly before `at`.
fn line_before(text: &[u8], at: usize, oldest: usize) -> Option<usize> {
    // A short last line and the place before the marker may stand in the gap.
    let nearest = at.saturating_sub(PLACE_MAX + LINE_BACK_MIN).max(oldest);
    let mut end = at;
    while end > nearest {
        let run = text[oldest..end].iter().rev().take_while(|&&byte| is_key_byte(byte)).count();
        // The run ends its line, or the string it stands in. A long path does not.
        let is_last = matches!(text.get(end), Some(b'\n' | b'\r' | b'\\' | b'"' | b'\''));
        if run >= LINE_BACK_MIN && is_last {
            return Some(end - run);
        }
        // At least one byte back; a dash that belongs to a marker ends the key before it.
        end -= run.max(1);
        if text[end..].starts_with(b"-----") {
            return None;
        }
    }
    None
}

/// Returns the number of bytes before a line that follows after a small gap.
fn near_line(rest: &[u8]) -> Option<usize> {
    let mut len = 0;
    for (at, &byte) in rest.iter().enumerate().take(GAP_MAX + LINE_MIN) {
        // A dash begins the end marker; no line of a key has one.
        if byte == b'-' {
            return None;
        }
        // A line number or an indent is shorter than a line of a key and starts the count anew.
        len = if is_key_byte(byte) { len + 1 } else { 0 };
        if len == LINE_MIN {
            return Some(at + 1 - len);
        }
    }
    None
}

/// Returns the number of bytes before a line that has its place before it, as a search prints it:
/// `server.pem:12:MIIE…`, `server.pem-12-MIIE…`, `12-MIIE…`.
fn placed_line(rest: &[u8]) -> Option<usize> {
    let begin = line_break_len(rest)?;
    let line = &rest[begin..rest.len().min(begin + PLACE_MAX)];
    // The number stands between two equal signs, or at the beginning of the line.
    let signs = line.iter().enumerate().filter(|(_, byte)| matches!(byte, b':' | b'-'));
    let mut numbers = signs.map(|(at, &sign)| (at + 1, Some(sign))).collect::<Vec<_>>();
    numbers.insert(0, (0, None));
    numbers.into_iter().find_map(|(from, sign)| {
        let digits = line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let closing = line.get(from + digits)?;
        let is_place = match sign {
            Some(sign) => *closing == sign,
            None => matches!(closing, b':' | b'-'),
        };
        let key = from + digits + 1;
        let is_line = line[key..].iter().take_while(|&&byte| is_key_byte(byte)).count() >= LINE_MIN;
        (digits > 0 && is_place && is_line).then_some(begin + key)
    })
}

/// Returns the length of a line break, also of one that stands as `\n` in a string.
fn line_break_len(rest: &[u8]) -> Option<usize> {
    let is_break = |&byte: &u8| matches!(byte, b'\r' | b'\n');
    let plain = rest.iter().take(2).take_while(|byte| is_break(byte)).count();
    if plain > 0 {
        return Some(plain);
    }
    // JSON inside JSON doubles the backslashes: 1, 3, 7.
    let backslashes = rest.iter().take(7).take_while(|&&byte| byte == b'\\').count();
    (backslashes > 0 && rest.get(backslashes) == Some(&b'n')).then_some(backslashes + 1)
}

pub(crate) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}
