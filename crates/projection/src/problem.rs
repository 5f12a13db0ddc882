//! What went wrong, in one line.

use event::payload::{Outcome, ToolResult};

use crate::excerpt;

/// Characters of the line that is shown.
const LINE_CHARS_MAX: usize = 200;

/// Lines that are looked at for one that names the error; output may be megabytes long.
const LINES_LOOKED_AT: usize = 400;

/// Beginnings of words with which programs report errors.
const SIGNS: &[&str] = &[
    "error",
    "panicked",
    "exception",
    "fatal",
    "failed",
    "failure",
    "traceback",
    "denied",
    "not found",
    "no such",
    "cannot",
    "can't",
    "unable to",
    "undefined",
    "unexpected",
    "timed out",
    "segmentation fault",
    "abort",
];

/// The line of a failed result that says most about why, or what became of the call.
pub(crate) fn of_result(result: &ToolResult) -> String {
    if matches!(result.outcome, Outcome::Rejected | Outcome::Canceled) {
        // What the agent tells its model about it is not what went wrong.
        return result.outcome.to_string();
    }
    let parts = result.parts.iter().filter_map(|part| part.text.clone());
    let texts = result.error.iter().cloned().chain(result.output_text()).chain(parts);
    let line = texts.map(|text| problem_line(&text)).find(|line| !line.is_empty());
    line.unwrap_or_else(|| match result.exit_code {
        Some(code) => format!("exit code {code}"),
        None => result.outcome.to_string(),
    })
}

/// The first line that names an error, else the first that says anything.
pub(crate) fn problem_line(text: &str) -> String {
    let mut first = None;
    for line in text.lines().take(LINES_LOOKED_AT) {
        let line = excerpt::beginning(&excerpt::one_line(line), LINE_CHARS_MAX);
        if line.is_empty() {
            continue;
        }
        if names_error(&line) {
            return line;
        }
        first.get_or_insert(line);
    }
    first.unwrap_or_default()
}

fn names_error(line: &str) -> bool {
    // Only ASCII is changed, so places stay the same.
    let lower = line.to_ascii_lowercase();
    SIGNS.iter().any(|sign| {
        lower.match_indices(sign).any(|(place, _)| {
            // `TypeError` is an error, `terror` is another word; `0 failed` and `no errors` are
            // good news.
            let before = &lower[..place];
            let begins = !before.ends_with(char::is_alphanumeric)
                || line[place..].starts_with(|c: char| c.is_ascii_uppercase());
            let last_word = before.split_whitespace().next_back();
            begins && !matches!(last_word, Some("0" | "no" | "without"))
        })
    })
}
