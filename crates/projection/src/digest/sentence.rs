//! Sentences, and the words that make one worth keeping.

use serde::{Deserialize, Serialize};

use super::{FACT_CHARS_MAX, SeqSpan, Topic};
use crate::excerpt;

/// Characters and sentences of one text that are looked at: what is longer was pasted.
const LOOK_CHARS_MAX: usize = 8_000;
const SENTENCES_MAX: usize = 80;

/// Characters below which a sentence says nothing.
const SENTENCE_CHARS_MIN: usize = 8;

/// Sentences that wait to be compared. When there are more the oldest of an assistant goes first,
/// then the oldest of all.
const CANDIDATES_MAX: usize = 200;

/// Words by which a person says what they want from now on.
const PREFERENCES: &[&str] = &["always", "never", "prefer", "from now on", "don't", "do not"];

/// Words by which a person decides.
const DECISIONS: &[&str] = &["instead of", "let's go with", "lets go with", "we go with"];

/// Words by which an assistant names a decision and its reason.
const ASSISTANT_DECISIONS: &[&str] = &["decided", "switched", "because"];

/// Words for work that is left to do.
const OPEN_ENDS: &[&str] = &["next", "todo", "to do", "still need", "still needs", "remaining"];

/// Folders that hold what others wrote.
const VENDORED: &[&str] = &[
    "node_modules/",
    "target/",
    "vendor/",
    "third_party/",
    ".venv/",
    "site-packages/",
    "dist/",
    "build/",
    "__pycache__/",
    ".git/",
    ".cargo/",
    "/usr/",
];

/// The sentences of a text, without code, each on one line.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let lines = excerpt::take_head(text, LOOK_CHARS_MAX).lines().filter(move |line| {
        // A fence without its end hides the rest of the text: code that was cut off is no prose.
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !is_table(line)
    });
    let sentences = lines.flat_map(|line| {
        let line = excerpt::one_line(line);
        // Signs of headings, quotes and lists are no part of the sentence.
        let line = line.trim_start_matches(['#', '>', '*', '-', '•', ' ']).trim();
        split_sentences(line).into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    let sentences = sentences.filter(|sentence| {
        sentence.chars().count() >= SENTENCE_CHARS_MIN && sentence.chars().any(char::is_alphabetic)
    });
    let sentences = sentences.map(|sentence| excerpt::beginning(&sentence, FACT_CHARS_MAX));
    // Collected, so that the result does not borrow the text.
    sentences.take(SENTENCES_MAX).collect::<Vec<_>>().into_iter()
}

/// What a person wants or decided, if the sentence says so.
pub(super) fn choice_of_user(sentence: &str) -> Option<Topic> {
    // A question asks for a choice.
    if sentence.ends_with(['?', '？']) {
        return None;
    }
    if has_phrase(sentence, DECISIONS) {
        Some(Topic::Decision)
    } else if has_phrase(sentence, PREFERENCES) {
        Some(Topic::Preference)
    } else {
        None
    }
}

pub(super) fn is_choice_of_assistant(sentence: &str) -> bool {
    has_phrase(sentence, ASSISTANT_DECISIONS)
}

pub(super) fn is_open_end(sentence: &str) -> bool {
    has_phrase(sentence, OPEN_ENDS)
}

/// Whether a sentence has a value to look up.
pub(super) fn has_value(sentence: &str) -> bool {
    extract_values(sentence).next().is_some()
}

/// A text by which two of the same meaning are recognised: its words and numbers.
pub(super) fn normalize(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Sentences that compete for a place in a part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct SentenceCandidates(Vec<SentenceCandidate>);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SentenceCandidate {
    pub(super) topic: Topic,
    pub(super) text: String,
    pub(super) place: SeqSpan,
    is_user: bool,
}

impl SentenceCandidates {
    pub(super) fn add_sentence(
        &mut self,
        topic: Topic,
        text: String,
        is_user: bool,
        place: SeqSpan,
    ) {
        if self.0.len() == CANDIDATES_MAX {
            // A user says little and means it; an assistant says much.
            let oldest = self.0.iter().position(|candidate| !candidate.is_user);
            self.0.remove(oldest.unwrap_or(0));
        }
        self.0.push(SentenceCandidate { topic, text, place, is_user });
    }

    /// The best ones in the order they were said: a person's before an assistant's, rare values
    /// before common ones, newer before older.
    pub(super) fn take_best(self, len_max: usize) -> Vec<SentenceCandidate> {
        // A value that only one sentence has is lost with it; a common one is found elsewhere.
        let all: Vec<Vec<String>> =
            self.0.iter().map(|one| extract_values(&one.text).collect()).collect();
        let count = |value: &String| all.iter().filter(|values| values.contains(value)).count();
        let mut scored: Vec<(u64, usize)> = Vec::new();
        for (number, candidate) in self.0.iter().enumerate() {
            let rare = all[number].iter().filter(|value| count(value) == 1).count().min(3);
            let values = all[number].len().min(3);
            // Points:  a user's sentence   500   above all the others together (150 + 150 + 99)
            //          each value           50   up to three
            //          each rare value      50   up to three
            //          newness          0 - 99   the place in the list, in percent
            let newness = number * 100 / self.0.len();
            let score =
                u64::from(candidate.is_user) * 500 + (values * 50 + rare * 50 + newness) as u64;
            scored.push((score, number));
        }
        scored.sort_unstable_by_key(|(score, number)| std::cmp::Reverse((*score, *number)));
        let mut chosen: Vec<usize> =
            scored.into_iter().take(len_max).map(|(_, number)| number).collect();
        // Back into the order they were said in, and sorted for the binary search.
        chosen.sort_unstable();
        let mut number = 0;
        let mut best = self.0;
        best.retain(|_| {
            number += 1;
            chosen.binary_search(&(number - 1)).is_ok()
        });
        best
    }
}

/// Numbers, versions, addresses, names of variables, and paths of one's own.
fn extract_values(sentence: &str) -> impl Iterator<Item = String> {
    sentence.split(' ').filter_map(|word| {
        // Signs that begin or end a value stay: `~/a`, `$HOME`, `5%`.
        let word = word.trim_matches(|c: char| {
            !c.is_alphanumeric() && !matches!(c, '/' | '~' | '.' | '_' | '$' | '%')
        });
        // The full stop of a sentence is no part of a version or a path.
        let word = word.trim_end_matches('.');
        let is_value = is_address(word) || is_path(word) || is_number(word) || is_variable(word);
        is_value.then(|| word.to_owned())
    })
}

fn is_address(word: &str) -> bool {
    word.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && rest.len() > 3)
}

fn is_path(word: &str) -> bool {
    let looks_like_one = word.starts_with(['/', '~']) && word.len() > 2
        || word.starts_with("./")
        || (word.contains('/') && word.rsplit('/').next().is_some_and(|name| name.contains('.')));
    looks_like_one && !VENDORED.iter().any(|folder| word.contains(folder))
}

/// A number of two digits and more, a version, a share, an amount with a unit.
fn is_number(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let begins =
        word.trim_start_matches(['v', 'V', '$', '#']).starts_with(|c: char| c.is_ascii_digit());
    // One digit alone ("3 files") is too common. Up to four letters are a unit: `250ms`, `64KiB`.
    begins && (digits >= 2 || letters > 0 || word.contains(['.', '%', '$', '#'])) && letters <= 4
}

/// `MAX_RETRIES`, `$HOME`, `parse_line`.
fn is_variable(word: &str) -> bool {
    let name = word.trim_start_matches('$');
    let is_name = name.len() >= 4
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // A plain word needs an underscore or a dollar sign to be a name.
    is_name && (name.contains('_') || name.len() < word.len())
}

/// Whether the sentence has one of these phrases, not as a part of a longer word.
fn has_phrase(sentence: &str, phrases: &[&str]) -> bool {
    // Editors and phones write "don’t" with another apostrophe.
    let lower = sentence.to_lowercase().replace(['’', '`'], "'");
    phrases.iter().any(|phrase| {
        lower.match_indices(phrase).any(|(place, _)| {
            let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            is_edge(lower[..place].chars().next_back())
                && is_edge(lower[place + phrase.len()..].chars().next())
        })
    })
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Splits a line behind every end of a sentence.
fn split_sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (place, end) in line.char_indices() {
        let behind = place + end.len_utf8();
        let is_end = match end {
            // A full stop inside `v1.2` or `a.rs` has no blank behind it. Chinese and Japanese
            // write none.
            '.' | '!' | '?' => {
                line[behind..].starts_with(' ') && !is_abbreviation(&line[start..place])
            }
            '。' | '！' | '？' => true,
            _ => false,
        };
        if is_end {
            sentences.push(line[start..behind].trim());
            start = behind;
        }
    }
    sentences.push(line[start..].trim());
    sentences
}

/// `e.g`, `i.e`, `vs`, a single letter: a full stop behind these ends nothing.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    word.chars().count() == 1 || matches!(word, "e.g" | "i.e" | "vs" | "etc" | "cf" | "approx")
}
