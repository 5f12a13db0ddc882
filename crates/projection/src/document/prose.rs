//! What models write, taken apart as far as a document needs it: code, headings, tables, and the
//! code and strong words inside of a line.
//!
//! Everything else is text. Nothing is understood in a way that could lose a character.

/// A block of complete lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage<'a> {
    Text(&'a str),
    /// Level 1 to 6, and the heading without its signs.
    Heading(usize, &'a str),
    /// The language, if it was told, and the lines between the fences.
    Code(&'a str, &'a str),
    Table(&'a str),
}

/// A stretch of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span<'a> {
    Text(&'a str),
    Code(&'a str),
    Strong(&'a str),
}

/// The passages of a text, in order. A fence that is not closed reaches to the end.
pub(crate) fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut passages = Vec::new();
    // `text_from` is where the text before a passage began, `at` the line that is looked at:
    //
    //     text text text | ``` code ``` | text
    //     ^text_from       ^at          ^end of the passage: both go on here
    let mut text_from = 0;
    let mut at = 0;
    while at < text.len() {
        let line = line_at(text, at);
        let next = at + line.len();
        // Code goes first: inside of it a heading or a table is none.
        let (passage, end) = if let Some(fence) = Fence::open_fence(line) {
            let (code, end) = fence.fenced_code(text, next);
            (Passage::Code(fence.language, code), end)
        } else if let Some((level, heading)) = parse_heading(line) {
            (Passage::Heading(level, heading), next)
        } else if is_table_row(line) {
            let mut end = next;
            while is_table_row(line_at(text, end)) {
                end += line_at(text, end).len();
            }
            (Passage::Table(text[at..end].trim_end()), end)
        } else {
            at = next;
            continue;
        };
        push_text(&mut passages, &text[text_from..at]);
        passages.push(passage);
        (at, text_from) = (end, end);
    }
    push_text(&mut passages, &text[text_from..]);
    passages
}

/// The spans of a text without passages, in order.
pub(crate) fn split_spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut text_from = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find(['`', '*']) {
        let start = at + found;
        let rest = &text[start..];
        // An odd number of backslashes escapes the sign; an even number are escaped ones
        // themselves.
        let backslashes = text[..start].len() - text[..start].trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            at = start + 1;
            continue;
        }
        // The whole run of equal signs: code that opens with two backticks ends with two.
        let sign = &rest[..rest.len() - rest.trim_start_matches(&rest[..1]).len()];
        let behind = &rest[sign.len()..];
        let inner = text_before(behind, sign)
            .filter(|inner| sign.starts_with('`') || is_strong(sign, inner));
        let Some(inner) = inner else {
            // Behind the whole run, so that a long row of signs is looked at once and not once for
            // each.
            at = start + sign.len();
            continue;
        };
        if start > text_from {
            spans.push(Span::Text(&text[text_from..start]));
        }
        let is_code = sign.starts_with('`');
        spans.push(if is_code { Span::Code(inner) } else { Span::Strong(inner) });
        at = start + 2 * sign.len() + inner.len();
        text_from = at;
    }
    if text_from < text.len() {
        spans.push(Span::Text(&text[text_from..]));
    }
    spans
}

/// More backticks in a row than the text has anywhere, at least three.
pub(crate) fn fence_for(text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or(0).max(2) + 1)
}

struct Fence<'a> {
    /// Its signs: all backticks or all tildes.
    signs: &'a str,
    language: &'a str,
}

impl<'a> Fence<'a> {
    fn open_fence(line: &'a str) -> Option<Fence<'a>> {
        let line = line.trim();
        let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
        let rest = line.trim_start_matches(sign);
        let signs = &line[..line.len() - rest.len()];
        let language = rest.split_whitespace().next().unwrap_or_default();
        // A backtick behind the signs makes it code inside of a line: ```` ```a``` ````.
        (signs.len() >= 3 && !rest.contains('`')).then_some(Fence { signs, language })
    }

    /// The code that begins at `from`, and where the text goes on.
    fn fenced_code(&self, text: &'a str, from: usize) -> (&'a str, usize) {
        let mut at = from;
        while at < text.len() {
            let line = line_at(text, at);
            let bare = line.trim();
            // At least as many signs as opened it, and nothing else: a shorter fence is part of the
            // code.
            let is_end = bare.len() >= self.signs.len()
                && bare.starts_with(self.signs)
                && bare.trim_start_matches(&self.signs[..1]).is_empty();
            if is_end {
                return (text[from..at].trim_end_matches('\n'), at + line.len());
            }
            at += line.len();
        }
        (text[from..].trim_end_matches('\n'), text.len())
    }
}

fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let heading = rest.trim();
    let is_heading = (1..=6).contains(&level) && rest.starts_with(' ') && !heading.is_empty();
    is_heading.then_some((level, heading))
}

fn is_table_row(line: &str) -> bool {
    line.starts_with('|') && line.trim_end().ends_with('|') && line.trim_end().len() > 1
}

/// The line at `from` with its line break; empty at the end of the text.
fn line_at(text: &str, from: usize) -> &str {
    let rest = &text[from..];
    rest.find('\n').map_or(rest, |end| &rest[..=end])
}

/// What stands before the next run of exactly these signs, in the same line: at the beginning of
/// the next one, a tag would be a tag.
fn text_before<'a>(behind: &'a str, signs: &str) -> Option<&'a str> {
    let sign = &signs[..1];
    let line = behind.find('\n').map_or(behind, |end| &behind[..end]);
    let mut at = 0;
    while let Some(found) = line[at..].find(sign) {
        let start = at + found;
        let rest = &line[start..];
        let len = rest.len() - rest.trim_start_matches(sign).len();
        if len == signs.len() {
            // Two runs with nothing between them enclose nothing.
            return (start > 0).then_some(&line[..start]);
        }
        at = start + len;
    }
    None
}

fn is_strong(sign: &str, inner: &str) -> bool {
    sign == "**" && inner.trim() == inner
}

fn push_text<'a>(passages: &mut Vec<Passage<'a>>, text: &'a str) {
    let text = text.trim_matches('\n');
    if !text.trim().is_empty() {
        passages.push(Passage::Text(text));
    }
}
