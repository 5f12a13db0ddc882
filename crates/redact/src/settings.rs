//! Lines of settings files: `password: Welcome!1` in YAML, `db.password=letmein` in properties.
//!
//! Such a value has no quotes and takes any punctuation, and it may be a plain word. In code the
//! same text is an expression. The line and the line before it tell which of the two it is.

use std::ops::Range;

use crate::value::{self, is_identifier};
use crate::word::before;

/// Words before the name at the beginning of a line.
const LEADS: [&[u8]; 6] = [b"- ", b"export ", b"set ", b"SET ", b"ENV ", b"ARG "];

/// A line that begins with a name.
pub(crate) struct SettingLine<'a> {
    /// Whether the name stands at the very beginning.
    is_outermost: bool,
    /// The line before it, if it can be seen.
    previous: Option<&'a [u8]>,
}

impl<'a> SettingLine<'a> {
    /// Returns the line that begins with the name, if the name begins a line. Only the bytes that
    /// every rule sees before its keyword are examined.
    pub(crate) fn find(
        text: &'a [u8],
        name: &Range<usize>,
        keyword: &Range<usize>,
    ) -> Option<SettingLine<'a>> {
        let lead = before(text, keyword.start);
        let line_start = break_before(lead);
        let line = &lead[line_start.unwrap_or(0)..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        let name_len = line.iter().rev().take_while(|byte| is_name(byte)).count();
        let front = &line[..line.len() - name_len];
        // A string that holds lines begins with a quote. The quote of `"name":` has its pair
        // behind the name.
        let is_text =
            matches!(front, [.., b'"']) && !matches!(text.get(name.end), Some(b'"' | b'\\'));
        if is_text {
            return Some(SettingLine { is_outermost: true, previous: None });
        }
        // Without a line break in sight, only the beginning of the text begins a line.
        if line_start.is_none() && lead.len() < keyword.start {
            return None;
        }
        let indent = without_place(front);
        let indent = LEADS.iter().find_map(|lead| indent.strip_suffix(*lead)).unwrap_or(indent);
        if !indent.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return None;
        }
        let previous = line_start.map(|at| {
            let lines = trim_break(&lead[..at]);
            let line = &lines[break_before(lines).unwrap_or(0)..];
            // The first line of a string begins behind its quote.
            line.rsplit(|&byte| byte == b'"').next().unwrap_or(line)
        });
        Some(SettingLine { is_outermost: indent.is_empty(), previous })
    }

    /// Returns the value at `from` if it fills the rest of the line and is no code.
    pub(crate) fn value(
        &self,
        text: &[u8],
        from: usize,
        is_plain: bool,
        keyword: &[u8],
    ) -> Option<Range<usize>> {
        let is_end =
            |byte: u8| byte == b' ' || byte.is_ascii_control() || b"\"'`\\".contains(&byte);
        let len = text[from..].iter().take_while(|&&byte| !is_end(byte)).count();
        let value = &text[from..from + len];
        let behind = &text[from + len..];
        let blanks = behind.iter().take_while(|&&byte| byte == b' ').count();
        // The window may end before the line does.
        let ends_line = matches!(behind.get(blanks), None | Some(b'\n' | b'\r' | b'\\' | b'"'))
            || (blanks > 0 && behind.get(blanks) == Some(&b'#'));
        if !ends_line || value::is_expression(value, keyword) {
            return None;
        }
        // `password: postgres` may be a type or a variable. The name or the line before decides.
        let is_word = is_identifier(value) && !value.iter().any(u8::is_ascii_digit);
        let is_known = is_plain || self.is_outermost && text[..from].ends_with(b"=");
        let is_setting = value.iter().all(u8::is_ascii_lowercase) && self.follows_setting();
        (!is_word || is_known || is_setting).then(|| from..from + len)
    }

    /// Whether the line before is one of a settings file: `user: app`, `database:`, `[client]`.
    fn follows_setting(&self) -> bool {
        let Some(line) = self.previous else { return false };
        let line = without_place(line).trim_ascii();
        let ends_code = matches!(line.last(), None | Some(b',' | b';' | b'{' | b'(' | b'\\'));
        let is_section = line.starts_with(b"[") && line.ends_with(b"]");
        let is_name = |&byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let name = line.iter().take_while(|byte| is_name(byte)).count();
        let has_sign = matches!(&line[name..], [b':'] | [b':', b' ', ..] | [b' ', b'=', b' ', ..])
            || line[name..].starts_with(b"=");
        // An expression in the line before makes it code.
        let has_call = line.iter().any(|byte| b"(){}<>".contains(byte));
        is_section || (name > 0 && has_sign && !ends_code && !has_call)
    }
}

/// Returns the end of the last line break in the text, also of one that stands as `\n` in a string.
fn break_before(text: &[u8]) -> Option<usize> {
    let is_break =
        |at: &usize| text[*at] == b'\n' || (text[*at] == b'n' && *at > 0 && text[*at - 1] == b'\\');
    (0..text.len()).rev().find(is_break).map(|at| at + 1)
}

/// Removes the line break at the end of a text.
fn trim_break(text: &[u8]) -> &[u8] {
    match text {
        [rest @ .., b'\\', b'r', b'\\', b'n'] => rest,
        [rest @ .., b'\\', b'n'] | [rest @ .., b'\r', b'\n'] => rest,
        [rest @ .., b'\n'] => rest,
        _ => text,
    }
}

/// Removes the place that a search or a listing prints before a line: `app.yml:12:`, `12→`, `+`.
fn without_place(front: &[u8]) -> &[u8] {
    let arrow = "→".as_bytes();
    if let Some(at) = front.windows(arrow.len()).position(|part| part == arrow) {
        return &front[at + arrow.len()..];
    }
    if let [b'+' | b'-', indent @ ..] = front
        && !indent.starts_with(b" ")
    {
        return indent;
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let indent = front.iter().rev().take_while(|byte| is_blank(byte)).count();
    let (place, rest) = front.split_at(front.len() - indent);
    match place {
        [.., b'0'..=b'9', b':' | b'-'] => rest,
        // The number of a line, with a tab behind it.
        _ if rest.starts_with(b"\t") && place.trim_ascii().iter().all(u8::is_ascii_digit) => {
            &rest[1..]
        }
        _ => front,
    }
}
