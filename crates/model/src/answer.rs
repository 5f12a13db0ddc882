//! Finds the JSON object in the answer of a model: bare, in a code fence, or after its thoughts.

use serde::Deserialize;

/// Characters of an answer that are examined, from its end: the last object counts.
const ANSWER_CHARS_MAX: usize = 64 * 1024;

/// Braces that are tried as the beginning of an object. It bounds the work on hostile text.
const BEGINNINGS_MAX: usize = 2_000;

/// Tags that end the thoughts of a model.
const THOUGHT_ENDS: &[&str] = &["</think>", "</thinking>", "</thought>", "</reasoning>"];

/// The members that the prompt asks for, as far as the model gave them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelAnswer {
    #[serde(deserialize_with = "lenient_text")]
    pub(crate) title: Option<String>,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) facts: Vec<AnswerFact>,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) tags: Vec<String>,
    #[serde(deserialize_with = "lenient_text")]
    pub(crate) priority: Option<String>,
    #[serde(deserialize_with = "lenient_text")]
    pub(crate) recent: Option<String>,
}

/// One fact of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub(crate) struct AnswerFact {
    #[serde(default, deserialize_with = "lenient_text")]
    pub(crate) topic: Option<String>,
    pub(crate) text: String,
    /// Numbers of the facts in the prompt.
    #[serde(default, deserialize_with = "lenient_list")]
    pub(crate) replaces: Vec<usize>,
}

impl ModelAnswer {
    /// Finds the last object in a text that has content; `None` if there is none.
    pub(crate) fn find_last(text: &str) -> Option<ModelAnswer> {
        let text = take_tail(text, ANSWER_CHARS_MAX);
        // Behind the last closing tag: the thoughts may hold drafts of the object, and some
        // templates leave out the opening tag.
        let behind = |end: &&str| text.rfind(*end).map(|place| place + end.len());
        let spoken = THOUGHT_ENDS.iter().filter_map(behind).max().unwrap_or(0);
        find_objects(&text[spoken..]).filter(|answer| !answer.is_empty()).last()
    }

    fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.recent.as_deref().is_none_or(|line| line.trim().is_empty())
    }
}

/// Iterates over the objects in a text that are not inside another one.
fn find_objects(text: &str) -> impl Iterator<Item = ModelAnswer> {
    let mut from = 0;
    let mut beginnings = 0;
    std::iter::from_fn(move || {
        // A brace may be prose or code. Each is tried, and one that begins no object is skipped.
        while let Some(place) = text[from..].find('{') {
            beginnings += 1;
            if beginnings > BEGINNINGS_MAX {
                return None;
            }
            from += place;
            let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter();
            match values.next() {
                Some(Ok(answer)) => {
                    // Behind the whole object, so that the objects inside of it are not taken for
                    // answers.
                    from += values.byte_offset();
                    return Some(answer);
                }
                _ => from += 1,
            }
        }
        None
    })
}

/// Reads a string; a value of another type counts as absent.
fn lenient_text<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(value)?;
    // One bad member must not cost the whole answer: models often get one type wrong.
    Ok(value.as_str().map(str::to_owned))
}

/// Reads the elements of a list that have the right type.
fn lenient_list<'de, D, T>(value: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: for<'t> Deserialize<'t>,
{
    let value = serde_json::Value::deserialize(value)?;
    let elements = value.as_array().cloned().unwrap_or_default();
    Ok(elements.into_iter().filter_map(|element| serde_json::from_value(element).ok()).collect())
}

fn take_tail(text: &str, chars_max: usize) -> &str {
    let before = text.char_indices().rev().nth(chars_max.saturating_sub(1));
    before.map_or(text, |(place, _)| &text[place..])
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_safe(text in r#"([{}\[\]":,\\]|facts|text|</think>|.){0,60}"#) {
            let _ = ModelAnswer::find_last(&text);
        }
    }

    #[track_caller]
    fn check(text: &str, facts: Option<&[&str]>) {
        let found = ModelAnswer::find_last(text);
        let texts = found.map(|answer| answer.facts.into_iter().map(|fact| fact.text));
        let texts: Option<Vec<String>> = texts.map(Iterator::collect);
        assert_eq!(texts.as_deref(), facts.map(|facts| facts.to_vec()).map(owned).as_deref());
    }

    fn owned(texts: Vec<&str>) -> Vec<String> {
        texts.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn answer_is_found_inside_other_text() {
        let bare = r#"{"title":"T","facts":[{"topic":"work","text":"a {b} \"c\""}]}"#;
        let said: &[&str] = &["a {b} \"c\""];
        check(bare, Some(said));
        check(&format!("Here you are:\n```json\n{bare}\n```\nAnything else?"), Some(said));
        check(
            &format!("<think>Perhaps {{\"facts\":[{{\"text\":\"no\"}}]}}?</think>\n{bare}"),
            Some(said),
        );
        // Some templates leave out the opening tag of the thoughts.
        check(&format!("first {{\"facts\":[{{\"text\":\"no\"}}]}}</think>{bare}"), Some(said));
        // The model corrects itself: the last object counts.
        check(&format!("{{\"facts\":[{{\"text\":\"no\"}}]}} Sorry: {bare}"), Some(said));
    }

    #[test]
    fn misfit_members_are_left_out() {
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
