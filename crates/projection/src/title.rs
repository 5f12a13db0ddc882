//! What a session is called.

use serde::{Deserialize, Serialize};

use crate::excerpt;

/// Words and characters of a title that is made from a prompt.
const WORDS_MAX: usize = 10;
const MADE_CHARS_MAX: usize = 80;

/// Characters of a title that a user or a provider gave. A longer one is cut.
const GIVEN_CHARS_MAX: usize = 200;

/// Characters of a text that are looked at for a title.
const LOOK_MAX: usize = 4_000;

/// Prompts that say nothing about what a session is for.
const FILLERS: &str = "again, continue, go, go ahead, go on, good morning, hello, hello there, hey, \
    hey there, hi, hi there, keep going, next, no, no thanks, ok, ok go, okay, please continue, \
    proceed, retry, start, stop, sure, test, thank you, thanks, try again, yes, yes please";

/// Where a title comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TitleOrigin {
    /// A person or the provider.
    Given,
    Model,
    /// It is made from what was asked.
    Heuristic,
}

impl TitleOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            TitleOrigin::Given => "given",
            TitleOrigin::Model => "model",
            TitleOrigin::Heuristic => "heuristic",
        }
    }
}

/// The best title so far: a given one, else a model's, else one made from the first prompt that
/// has content of its own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Title {
    given: Option<String>,
    told: Option<String>,
    made: Option<String>,
    /// The prompt it was made from has content of its own, so later prompts are ignored.
    is_settled: bool,
}

impl Title {
    pub(crate) fn best(&self) -> Option<&str> {
        self.given.as_deref().or(self.told.as_deref()).or(self.made.as_deref())
    }

    /// Where the best title comes from.
    pub(crate) fn origin(&self) -> Option<TitleOrigin> {
        let given = self.given.as_ref().map(|_| TitleOrigin::Given);
        let told = self.told.as_ref().map(|_| TitleOrigin::Model);
        given.or(told).or(self.made.as_ref().map(|_| TitleOrigin::Heuristic))
    }

    /// Takes the title a model thought of.
    pub(crate) fn set_model_title(&mut self, title: &str) {
        self.told = clean_title(title).or(self.told.take());
    }

    /// Takes the title a provider or a person gave; an empty one takes it back.
    pub(crate) fn set_given_title(&mut self, title: &str) {
        let title = excerpt::beginning(&excerpt::one_line(title), GIVEN_CHARS_MAX);
        self.given = Some(title).filter(|title| !title.is_empty());
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Considers a prompt as the source of a title.
    pub(crate) fn consider_prompt(&mut self, asked: &str) {
        if self.is_settled {
            return;
        }
        let is_substantive = is_substantive(asked);
        // A filler such as "hi" is a title until a better prompt comes.
        if (is_substantive || self.made.is_none())
            && let Some(title) = title_from_prompt(asked)
        {
            self.made = Some(title);
            self.is_settled = is_substantive;
        }
    }
}

/// A title a model thought of, as it may be shown.
pub(crate) fn clean_title(title: &str) -> Option<String> {
    let title =
        excerpt::first_words(excerpt::take_head(title, LOOK_MAX), WORDS_MAX, MADE_CHARS_MAX);
    Some(title).filter(|title| title.chars().any(char::is_alphanumeric))
}

/// A title made from what was asked: its first sentence in at most ten words.
pub(crate) fn title_from_prompt(asked: &str) -> Option<String> {
    let head = excerpt::take_head(asked, LOOK_MAX);
    let first =
        head.lines().map(strip_marks).find(|line| line.chars().any(char::is_alphanumeric))?;
    let first = first_sentence(&first);
    Some(excerpt::first_words(first, WORDS_MAX, MADE_CHARS_MAX))
}

/// Whether a prompt says what is wanted, unlike "hi", "yes" and "go on".
pub(crate) fn is_substantive(asked: &str) -> bool {
    let head = excerpt::take_head(asked, LOOK_MAX).to_lowercase();
    let words: Vec<&str> =
        head.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let letters: usize = words.iter().map(|word| word.chars().count()).sum();
    // Chinese and Japanese write no blanks, and four of their characters say as much as a sentence
    // of two words. U+2E80 is where their blocks begin.
    let is_wide = words.iter().any(|word| word.chars().any(|c| c >= '\u{2E80}'));
    let is_filler = words.len() <= 2 && FILLERS.split(", ").any(|filler| filler == words.join(" "));
    !is_filler && (words.len() >= 2 || letters >= if is_wide { 4 } else { 8 })
}

/// A line without the marks of headings, lists and quotes before it.
fn strip_marks(line: &str) -> String {
    let line = excerpt::one_line(line);
    let line = line.trim_start_matches(['#', '>', '*', '-', ' ']).trim_matches('`');
    line.trim().to_owned()
}

/// The text up to the end of its first sentence, if there is one, without the full stop.
fn first_sentence(line: &str) -> &str {
    let ends =
        line.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?' | '。' | '！' | '？'));
    for (place, end) in ends {
        let rest = &line[place + end.len_utf8()..];
        let is_end = rest.is_empty() || rest.starts_with(' ') || !end.is_ascii();
        // "e.g. this" and "v1. 2" are no sentences yet.
        if is_end && line[..place].split(' ').count() >= 3 {
            let keep = if matches!(end, '.' | '。') { place } else { place + end.len_utf8() };
            return &line[..keep];
        }
    }
    line.trim_end_matches(['.', ':', ',', ' '])
}
