//! What the input of a tool call says.

use std::borrow::Cow;

use event::{JsonField, Raw};
use serde::Deserialize;

/// Characters of the argument that are shown.
const ARGUMENT_CHARS_MAX: usize = 120;

/// Arguments that say most, the best first. Otherwise it is the first text there is.
const TELLING: &[&str] = &[
    "command",
    "cmd",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "target_file",
    "pattern",
    "query",
    "url",
    "prompt",
    "description",
];

/// A call on one line: its name and what it is mostly about.
pub fn call_line(tool: &str, input: &Raw) -> String {
    let argument = match input.text() {
        // Patch tools and scripts take plain text instead of an object.
        Some(text) => Some(patched_files(&text).unwrap_or(text)),
        None => telling_field(&input.fields().collect::<Vec<_>>()),
    };
    let argument = argument.unwrap_or_default();
    let line = argument.trim().lines().next().unwrap_or_default();
    if line.is_empty() {
        return tool.to_owned();
    }
    match line.char_indices().nth(ARGUMENT_CHARS_MAX) {
        Some((end, _)) => format!("{tool}: {}…", &line[..end]),
        None => format!("{tool}: {line}"),
    }
}

/// A text in the input.
pub fn argument(input: &Raw, name: &str) -> Option<String> {
    input.field(name)?.text().map(Cow::into_owned)
}

/// What a question tool asks, one question a line.
pub fn questions(input: &Raw) -> String {
    #[derive(Deserialize)]
    struct QuestionList {
        questions: Vec<QuestionText>,
    }
    #[derive(Deserialize)]
    struct QuestionText {
        #[serde(default)]
        question: String,
    }
    let Ok(QuestionList { questions }) = input.read() else { return String::new() };
    questions.into_iter().map(|asked| asked.question).collect::<Vec<_>>().join("\n")
}

fn telling_field(fields: &[JsonField<'_>]) -> Option<String> {
    let named = TELLING.iter().find_map(|wanted| {
        let field = fields.iter().find(|field| field.name == *wanted)?;
        // `command` may be a list of words, as in `["bash","-lc","cargo test"]`.
        field.text().map(Cow::into_owned).or_else(|| join_command(field.json))
    });
    named.or_else(|| fields.iter().find_map(|field| field.text().map(Cow::into_owned)))
}

/// A command that is given word by word. That a shell runs it says nothing.
fn join_command(words: &str) -> Option<String> {
    let words: Vec<String> = serde_json::from_str(words).ok()?;
    match words.as_slice() {
        [shell, flag, command] if shell.ends_with("sh") && flag.starts_with('-') => {
            Some(command.clone())
        }
        words => Some(words.join(" ")),
    }
}

/// The files that a patch is about.
fn patched_files(text: &str) -> Option<String> {
    let rest = text.strip_prefix("*** Begin Patch")?;
    let files = rest.lines().filter_map(|line| {
        let (action, file) = line.strip_prefix("*** ")?.split_once(" File: ")?;
        matches!(action, "Add" | "Update" | "Delete").then_some(file)
    });
    Some(files.collect::<Vec<_>>().join(", ")).filter(|files| !files.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_with_what_it_is_about() {
        let cases = [
            (r#"{"yield":1,"cmd":"ls -la\nwc"}"#, "t: ls -la"),
            (r#"{"command":["bash","-lc","cargo test"]}"#, "t: cargo test"),
            (r#"{"command":["git","status"]}"#, "t: git status"),
            (r#"{"limit":3,"other":"first text"}"#, "t: first text"),
            (
                r#""*** Begin Patch\n*** Update File: a.rs\n@@\n*** Add File: b.rs""#,
                "t: a.rs, b.rs",
            ),
            (r#""\n  const r = 1;\n""#, "t: const r = 1;"),
            ("{}", "t"),
            ("null", "t"),
        ];
        for (input, line) in cases {
            assert_eq!(call_line("t", &Raw::parse(input).unwrap()), line, "{input}");
        }
    }
}
