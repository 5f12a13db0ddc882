//! Texts in columns of a terminal, where a character may take none, one or two.

use unicode_width::UnicodeWidthChar;

/// Returns the columns of a text. CJK characters take two, combining marks none.
pub(crate) fn text_width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Cuts a text to at most this many columns.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    if text_width(text) <= max {
        return text.to_owned();
    }
    // One column for the ellipsis. A wide character that does not fit whole is left out, so the
    // result may be a column shorter.
    let mut left = max.saturating_sub(1);
    let fits = |letter: &char| {
        let width = letter.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    if max == 0 { String::new() } else { format!("{kept}…") }
}

/// Cuts or pads a text to exactly this many columns.
pub(crate) fn pad_to(text: &str, width: usize) -> String {
    let text = truncate(text, width);
    let left = width.saturating_sub(text_width(&text));
    format!("{text}{}", " ".repeat(left))
}

/// Wraps a text to this many columns, between words where possible.
pub(crate) fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        // The trailing space may hang over the edge, so it does not count.
        let wide = text_width(word.trim_end());
        // A word longer than a row is broken below instead of moved to the next one.
        if used > 0 && used + wide > width && wide <= width {
            lines.push(String::new());
            used = 0;
        }
        for letter in word.chars() {
            let wide = letter.width().unwrap_or(0);
            if used + wide > width {
                // The space at a line break is dropped.
                if letter == ' ' {
                    continue;
                }
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(letter);
            }
            used += wide;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrap_breaks_only_long_words() {
        assert_eq!(wrap_text("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_text("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap_text("", 4), [""]);
        assert_eq!(wrap_text("針検索 a", 4), ["針検", "索 a"]);
    }

    #[test]
    fn truncated_text_fits_with_ellipsis() {
        assert_eq!(truncate("abcdef", 6), "abcdef");
        assert_eq!(truncate("abcdef", 5), "abcd…");
        assert_eq!(truncate("針検索", 5), "針検…");
        assert_eq!(truncate("abc", 0), "");
        assert_eq!(text_width(&pad_to("針検索", 4)), 4);
    }
}
