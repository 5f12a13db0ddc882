//! Words anywhere in a text: `any: "prod db"`, `task: *`.

use super::BadPattern;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextPattern {
    /// In lower case; empty for every text.
    words: String,
}

impl TextPattern {
    pub(crate) fn parse(text: &str) -> Result<TextPattern, BadPattern> {
        let words = text.trim();
        if words == "*" {
            return Ok(TextPattern { words: String::new() });
        }
        let words = words.strip_suffix('*').unwrap_or(words).trim();
        if words.is_empty() {
            return Err(BadPattern::Empty);
        }
        Ok(TextPattern { words: words.to_lowercase() })
    }

    pub(crate) fn matches_everything(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn key(&self) -> Option<String> {
        words_of(&self.words).next().map(str::to_owned)
    }

    /// Whether the text, in lower case, has the words, with no letter or digit directly before or
    /// behind.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let is_open = |c: Option<char>, inside: Option<char>| {
            let is_letter = |c: char| c.is_alphanumeric() || c == '_';
            !(c.is_some_and(is_letter) && inside.is_some_and(is_letter))
        };
        self.matches_everything()
            || text.match_indices(&self.words).any(|(at, found)| {
                is_open(text[..at].chars().next_back(), found.chars().next())
                    && is_open(text[at + found.len()..].chars().next(), found.chars().next_back())
            })
    }
}

/// Runs of letters and digits.
pub(crate) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
