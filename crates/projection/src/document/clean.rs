//! Text that does nothing but be read.
//!
//! What agents and programs wrote may move a cursor, turn a line around or hide characters. Whole
//! sequences for terminals are left out, the rest is shown as what it is. Secrets are taken out in
//! between: behind the sequences, which could stand in the middle of one.

use std::borrow::Cow;

use crate::redacted::Redact;

const ESCAPE: char = '\u{1b}';

/// Characters of a sequence that sets a title or a link; a longer one is no sequence.
const STRING_MAX: usize = 4_096;

/// Makes texts harmless, and redacts them if it was told how.
pub(crate) struct Clean<'r> {
    redact: Option<&'r mut Redact<'r>>,
}

impl<'r> Clean<'r> {
    pub(crate) fn new(redact: Option<&'r mut Redact<'r>>) -> Clean<'r> {
        Clean { redact }
    }

    /// The text, harmless, with its line breaks.
    pub(crate) fn clean_text(&mut self, text: &str) -> String {
        // The order must hold. A colour in the middle of a token would hide it from the rules, and
        // so would the picture of a character that was made visible before.
        let text = without_sequences(text);
        match &mut self.redact {
            Some(redact) => make_visible(&redact(&text)),
            None => make_visible(&text),
        }
    }
}

/// The text without the sequences that terminals obey.
fn without_sequences(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(ESCAPE) {
        bare.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        match sequence_len(behind) {
            Some(len) => rest = &behind[len..],
            // An escape without a sequence is kept, and shown as `␛` by `make_visible`.
            None => {
                bare.push(ESCAPE);
                rest = behind;
            }
        }
    }
    bare.push_str(rest);
    Cow::Owned(bare)
}

/// The length of the sequence behind an escape character, or `None` where there is none.
fn sequence_len(behind: &str) -> Option<usize> {
    match behind.bytes().next()? {
        // Colours, movements: numbers, then one letter.
        b'[' => {
            let end = 1 + behind[1..].find(|c: char| !matches!(c, ' '..='?'))?;
            matches!(behind.as_bytes()[end], b'@'..=b'~').then_some(end + 1)
        }
        // Titles and links: a text, then a bell or another escape.
        b']' | b'P' | b'^' | b'_' => {
            // Bounded: without an end near by, the rest of a long text would vanish as one title.
            let near = &behind[..behind.floor_char_boundary(STRING_MAX)];
            let end = near.find(['\u{7}', ESCAPE])?;
            let is_long = near[end..].starts_with("\u{1b}\\");
            Some(end + if is_long { 2 } else { 1 })
        }
        // Sets of characters, then the shortest ones.
        b'(' | b')' => behind.get(..2).map(str::len),
        // One byte each, and ASCII: the slice behind stays on a character boundary.
        b'0'..=b'~' => Some(1),
        _ => None,
    }
}

/// The text with a picture or a number for every character that is not seen.
fn make_visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => visible.push(c),
            // A lone carriage return would let a line overwrite itself in a terminal; it gets a
            // picture.
            '\r' if chars.peek() == Some(&'\n') => {}
            '\0'..='\u{1f}' => visible.push(control_picture(c)),
            '\u{7f}' => visible.push('␡'),
            _ if is_hidden(c) => visible.push_str(&format!("[U+{:04X}]", u32::from(c))),
            _ => visible.push(c),
        }
    }
    visible
}

/// The picture of a control character: `␛` for escape.
fn control_picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Characters that change how others are shown, or that are invisible. Joiners are none of them:
/// scripts and emoji need them.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'
        | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
