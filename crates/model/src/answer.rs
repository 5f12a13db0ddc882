//! An answer, as a model writes it: bare, in fences, behind what it thought aloud, or no answer.

use serde::Deserialize;

/// Characters of an answer that are looked at, from its end: what comes last is meant.
const ANSWER_CHARS_MAX: usize = 64 * 1024;

/// Places where an object may begin that are tried. In more than that, there is none.
const BEGINNINGS_MAX: usize = 2_000;

/// Tags that end what a model thought aloud.
const THOUGHT_ENDS: &[&str] = &["</think>", "</thinking>", "</thought>", "</reasoning>"];

/// What is asked for, each part as far as it was given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    #[serde(deserialize_with = "lenient")]
    pub(crate) title: Option<String>,
    #[serde(deserialize_with = "list")]
    pub(crate) facts: Vec<Told>,
    #[serde(deserialize_with = "list")]
    pub(crate) tags: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) priority: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) recent: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub(crate) struct Told {
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) topic: Option<String>,
    pub(crate) text: String,
    /// Numbers of what it was told was found.
    #[serde(default, deserialize_with = "list")]
    pub(crate) replaces: Vec<usize>,
}

impl Answer {
    /// The last object in a text that says something; `None` in junk.
    pub(crate) fn find(text: &str) -> Option<Answer> {
        let text = tail(text, ANSWER_CHARS_MAX);
        let behind = |end: &&str| text.rfind(*end).map(|place| place + end.len());
        let spoken = THOUGHT_ENDS.iter().filter_map(behind).max().unwrap_or(0);
        objects(&text[spoken..]).filter(|answer| !answer.is_empty()).last()
    }

    fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.recent.as_deref().is_none_or(|line| line.trim().is_empty())
    }
}

/// Every object in a text that is not inside another one.
fn objects(text: &str) -> impl Iterator<Item = Answer> {
    let mut from = 0;
    let mut beginnings = 0;
    std::iter::from_fn(move || {
        while let Some(place) = text[from..].find('{') {
            beginnings += 1;
            if beginnings > BEGINNINGS_MAX {
                return None;
            }
            from += place;
            let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter();
            match values.next() {
                Some(Ok(answer)) => {
                    from += values.byte_offset();
                    return Some(answer);
                }
                _ => from += 1,
            }
        }
        None
    })
}

/// What is of another type was not said.
fn lenient<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(value)?;
    Ok(value.as_str().map(str::to_owned))
}

/// The elements that are what they should be.
fn list<'de, D, T>(value: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: for<'t> Deserialize<'t>,
{
    let value = serde_json::Value::deserialize(value)?;
    let elements = value.as_array().cloned().unwrap_or_default();
    Ok(elements.into_iter().filter_map(|element| serde_json::from_value(element).ok()).collect())
}

fn tail(text: &str, chars_max: usize) -> &str {
    let before = text.char_indices().rev().nth(chars_max.saturating_sub(1));
    before.map_or(text, |(place, _)| &text[place..])
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn whatever_is_said_breaks_nothing(text in r#"([{}\[\]":,\\]|facts|text|</think>|.){0,60}"#) {
            let _ = Answer::find(&text);
        }
    }

    #[track_caller]
    fn check(text: &str, facts: Option<&[&str]>) {
        let found = Answer::find(text);
        let texts = found.map(|answer| answer.facts.into_iter().map(|fact| fact.text));
        let texts: Option<Vec<String>> = texts.map(Iterator::collect);
        assert_eq!(texts.as_deref(), facts.map(|facts| facts.to_vec()).map(owned).as_deref());
    }

    fn owned(texts: Vec<&str>) -> Vec<String> {
        texts.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn an_answer_is_found_in_whatever_stands_around_it() {
        let bare = r#"{"title":"T","facts":[{"topic":"work","text":"a {b} \"c\""}]}"#;
        let said: &[&str] = &["a {b} \"c\""];
        check(bare, Some(said));
        check(&format!("Here you are:\n```json\n{bare}\n```\nAnything else?"), Some(said));
        check(
            &format!("<think>Perhaps {{\"facts\":[{{\"text\":\"no\"}}]}}?</think>\n{bare}"),
            Some(said),
        );
        // What was thought has no beginning, as some templates leave it out.
        check(&format!("first {{\"facts\":[{{\"text\":\"no\"}}]}}</think>{bare}"), Some(said));
        // Corrected in the middle: the last word counts.
        check(&format!("{{\"facts\":[{{\"text\":\"no\"}}]}} Sorry: {bare}"), Some(said));
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_junk_is_nothing() {
        check(
            r#"{"facts":[7,{"text":8},{"text":"kept","replaces":["x",2]},"no"],"title":[],"tags":3}"#,
            Some(&["kept"]),
        );
        for junk in [
            "",
            "I cannot help with that.",
            "{}",
            "[]",
            r#"{"facts":[]}"#,
            r#"{"facts":"none"}"#,
            r#"{"facts":[{"topic":"work","text":"cut of"#,
            r#"{"facts":[{"topic":"work","text":"whole"},{"topic":"#,
            "{{{{{{{{",
            "\u{0}{\u{feff}}",
        ] {
            check(junk, None);
        }
        check(&"{".repeat(100_000), None);
        check(&"{\"a\":".repeat(50_000), None);
    }
}
