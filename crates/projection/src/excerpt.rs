//! Parts of text that may be shown: short, on one line where a line is wanted, and harmless.
//!
//! Whatever an agent or a person wrote may hold control characters, directions that turn a line
//! around, or a character of many code points at the very place where it is cut. None of that
//! leaves this file. Limits count characters, not bytes.

/// Stands for what was left out. Counted within every limit.
const ELLIPSIS: char = '…';

/// How far before a limit a cut looks for the end of a word. Text without blanks, as in Chinese
/// or a long path, is cut at the limit itself.
const WORD_LOOK_BACK: usize = 20;

/// The text on one line: white space is one blank, control characters are gone.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(256));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        // Invisible characters may be all of a word. Its blank is taken back then, or the line
        // would have two in a row.
        let start = line.len();
        if start > 0 {
            line.push(' ');
        }
        let word_start = line.len();
        line.extend(word.chars().filter(|c| !is_trick(*c)));
        if line.len() == word_start {
            line.truncate(start);
        }
    }
    line
}

/// The text with its line breaks, without anything that could disturb what is printed around it.
pub(crate) fn paragraph(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A lone carriage return is an old line break, and in a terminal would overwrite the
            // line.
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    clean.push('\n');
                }
            }
            '\n' | '\t' => clean.push(c),
            _ if c.is_control() || is_trick(c) => {}
            _ => clean.push(c),
        }
    }
    clean.truncate(clean.trim_end().len());
    clean
}

/// The beginning of a text, at most `chars_max` characters with the sign for what is missing.
pub(crate) fn beginning(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    // One character less than the limit is kept, to make room for the ellipsis.
    let Some((limit, _)) = text.char_indices().nth(chars_max) else { return text.to_owned() };
    let room = text[..limit].char_indices().next_back().map_or(0, |(place, _)| place);
    // "the quick bro|wn fox"   chars_max = 14
    //           ^cut^room        the cut moves back to the blank, at most WORD_LOOK_BACK
    let mut cut = character_start(text, room);
    let mut near_end = text[..cut].char_indices().rev().take(WORD_LOOK_BACK);
    if let Some((blank, _)) = near_end.find(|(_, c)| c.is_whitespace()) {
        cut = blank;
    }
    let mut beginning = text[..cut].trim_end().to_owned();
    if chars_max > 0 {
        beginning.push(ELLIPSIS);
    }
    beginning
}

/// The beginning of a text as it is, at most so many characters: what is looked at of a long one.
pub(crate) fn take_head(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(limit, _)| &text[..limit])
}

/// The end of a text as it is, at most so many characters.
pub(crate) fn take_tail(text: &str, chars_max: usize) -> &str {
    // `nth` counts from zero, so the last `n` characters begin at `nth(n - 1)` from the end.
    let Some(before) = chars_max.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(before).map_or(text, |(start, _)| &text[start..])
}

/// The first words of a text on one line, within both limits.
pub(crate) fn first_words(text: &str, words_max: usize, chars_max: usize) -> String {
    let line = one_line(text);
    let mut words = line.split(' ');
    let first: Vec<&str> = words.by_ref().take(words_max).collect();
    let mut first = first.join(" ");
    if words.next().is_some() {
        first.push(ELLIPSIS);
    }
    beginning(&first, chars_max)
}

/// The first line that is not blank, within the limit.
pub(crate) fn first_line(text: &str, chars_max: usize) -> String {
    let first = text.lines().map(one_line).find(|line| !line.is_empty());
    beginning(&first.unwrap_or_default(), chars_max)
}

/// Where the character around `place` begins: marks and joined signs stay with what they are on.
fn character_start(text: &str, place: usize) -> usize {
    let mut start = place;
    while let Some(next) = text[start..].chars().next()
        && let Some((before, previous)) = text[..start].char_indices().next_back()
        && (joins_previous(next) || previous == ZERO_WIDTH_JOINER)
    {
        start = before;
    }
    // Marks without end are not a character of any script.
    if place - start > MARKS_MAX { place } else { start }
}

const ZERO_WIDTH_JOINER: char = '\u{200D}';

/// Bytes a written character may have. A longer one is cut in the middle.
const MARKS_MAX: usize = 64;

/// Combining marks, joiners, variation selectors and skin tones.
fn joins_previous(c: char) -> bool {
    matches!(c,
        '\u{0300}'..='\u{036F}' | '\u{0591}'..='\u{05BD}' | '\u{064B}'..='\u{065F}'
        | '\u{093A}'..='\u{094F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}'
        | ZERO_WIDTH_JOINER | '\u{20D0}'..='\u{20FF}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FE20}'..='\u{FE2F}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{E0100}'..='\u{E01EF}')
}

/// Characters that change how others are shown: directions, and a mark of byte order.
fn is_trick(c: char) -> bool {
    matches!(c,
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}')
}
