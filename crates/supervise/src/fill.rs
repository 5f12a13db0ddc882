//! Commands with gaps: `{day}` is filled with a value of the message they answer.

use serde_json::Value;

/// Why a command cannot be filled in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` cannot stand in a command: {why}")]
pub struct FillError {
    pub name: String,
    pub why: &'static str,
}

/// Fills the words that are a name in braces, each as one whole argument.
///
/// One without a value is left out, together with an option before it. A value that could be taken
/// for something else is an error.
pub fn fill(words: &[String], value: impl Fn(&str) -> Value) -> Result<Vec<String>, FillError> {
    let mut filled: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let Some(name) = gap(word) else {
            filled.push(word.clone());
            continue;
        };
        match argument(name, value(name))? {
            Some(argument) => filled.push(argument),
            None => {
                // The first word is the program, whatever it looks like.
                if filled.len() > 1 && filled.last().is_some_and(|last| last.starts_with('-')) {
                    filled.pop();
                }
            }
        }
    }
    Ok(filled)
}

fn gap(word: &str) -> Option<&str> {
    let name = word.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn argument(name: &str, value: Value) -> Result<Option<String>, FillError> {
    let refuse = |why| Err(FillError { name: name.to_owned(), why });
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return refuse("it is neither a text nor a number"),
    };
    if text.starts_with('-') {
        return refuse("it would be an option");
    }
    if text.chars().any(char::is_control) {
        return refuse("it holds a control character");
    }
    Ok(Some(text))
}
