//! A title and a few lines, made anew from the facts there are.

use super::{DigestFact, Topic};
use crate::excerpt;
use crate::title::title_from_prompt;

/// Facts of one topic that a summary names; the newest ones.
const NAMED_MAX: usize = 5;

/// Characters of a line of the summary.
const LINE_CHARS_MAX: usize = 400;

/// The goal in at most ten words.
pub fn find_title(facts: &[DigestFact]) -> Option<String> {
    let of = |topic| facts.iter().find(|fact| fact.topic == topic);
    title_from_prompt(&of(Topic::Goal).or_else(|| of(Topic::Ask))?.text)
}

/// A line per topic that has facts.
pub fn summarize(facts: &[DigestFact]) -> String {
    let topics = [
        ("Goal", Topic::Goal),
        ("Asked", Topic::Ask),
        ("Decided", Topic::Decision),
        ("Wanted", Topic::Preference),
        ("Did", Topic::Work),
        ("Solved", Topic::Problem),
        ("Open", Topic::OpenEnd),
    ];
    let lines = topics.iter().filter_map(|(word, topic)| {
        let texts: Vec<&str> = facts
            .iter()
            .filter(|fact| fact.topic == *topic)
            .map(|fact| fact.text.as_str())
            .collect();
        let newest = &texts[texts.len().saturating_sub(NAMED_MAX)..];
        let line = format!("{word}: {}", newest.join("; "));
        (!newest.is_empty()).then(|| excerpt::beginning(&line, LINE_CHARS_MAX))
    });
    lines.collect::<Vec<_>>().join("\n")
}
