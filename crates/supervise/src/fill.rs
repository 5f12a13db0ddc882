//! Commands with placeholders: `{day}` is replaced with a field of a message.

use serde_json::Value;

/// Why a placeholder cannot be filled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` cannot be an argument of a command: {why}")]
pub struct FillError {
    pub name: String,
    pub why: &'static str,
}

/// Replaces each word of the form `{name}` with a value, as one whole argument.
///
/// A placeholder without a value is left out, together with an option before it. A value that the
/// program could take for an option, or that holds control characters, is an error.
pub fn fill_placeholders(
    words: &[String],
    value: impl Fn(&str) -> Value,
) -> Result<Vec<String>, FillError> {
    let mut filled: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let Some(name) = placeholder_name(word) else {
            filled.push(word.clone());
            continue;
        };
        match parse_argument(name, value(name))? {
            Some(argument) => filled.push(argument),
            None => {
                // The first word is the program, even if it looks like an option.
                if filled.len() > 1 && filled.last().is_some_and(|last| last.starts_with('-')) {
                    filled.pop();
                }
            }
        }
    }
    Ok(filled)
}

fn placeholder_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn parse_argument(name: &str, value: Value) -> Result<Option<String>, FillError> {
    let refuse = |why| Err(FillError { name: name.to_owned(), why });
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return refuse("it is neither a string nor a number"),
    };
    // The value comes from a message. Its sender must not choose options of a program that the user
    // allowed for one purpose.
    if text.starts_with('-') {
        return refuse("it would be read as an option");
    }
    if text.chars().any(char::is_control) {
        return refuse("it contains a control character");
    }
    Ok(Some(text))
}
