//! What the program says names its subject.
//!
//! Looked at are the texts in the program's own code, the help that clap makes of comments, the
//! page, and what is generated for programmers: the description of the API and the list of messages.

use crate::code::texts;
use crate::finding::{Finding, assert_none, lines};
use crate::tree::{File, files};

/// Words that make a riddle of a sentence, in lower case.
const RIDDLES: &[&str] = &[
    "anybody",
    "in the middle of all",
    "nobody",
    "not so any more",
    "somebody",
    "what is not there any more",
    "whoever",
];

/// Crates that users do not run.
const NOT_SHIPPED: &[&str] = &["crates/bench/", "crates/testkit/"];

/// Files that are shown as they stand.
const SHOWN: &[&str] = &["docs/openapi.json", "docs/reference/tracts.md", "README.md"];

fn riddles(path: &str, shown: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(shown.lines()) {
        let line = line.to_lowercase();
        for riddle in RIDDLES.iter().filter(|riddle| line.contains(**riddle)) {
            let why = format!("`{riddle}`: name the writer, the reader, the agent or the user");
            findings.push(Finding::at(path, number, why));
        }
    }
    findings
}

/// The part of a file that users see, with its lines where they are; `None` if they see nothing of it.
fn shown(file: &File) -> Option<String> {
    if SHOWN.contains(&file.path.as_str()) {
        return Some(file.text.clone());
    }
    if file.path.starts_with("web/src/") {
        return Some(without_comments(&file.text));
    }
    let is_program = file.path.starts_with("crates/") && file.path.contains("/src/");
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let is_shipped = !NOT_SHIPPED.iter().any(|place| file.path.starts_with(place));
    if !is_program || is_test || !is_shipped || !file.path.ends_with(".rs") {
        return None;
    }
    let program = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut shown = texts(program);
    if file.path.starts_with("crates/cli/src/command") {
        // Comments of options are their help.
        let help = program.lines().filter(|line| line.trim_start().starts_with("///"));
        shown.extend(help.map(|line| format!("\n{line}")));
    }
    Some(shown)
}

/// The source of the page without its comments. An address has slashes as well, behind a colon.
fn without_comments(source: &str) -> String {
    let mut kept = String::new();
    let mut rest = source;
    while let Some(at) = rest.find("/*").into_iter().chain(line_comment(rest)).min() {
        kept.push_str(&rest[..at]);
        let end = if rest[at..].starts_with("/*") { "*/" } else { "\n" };
        let len = rest[at..].find(end).map_or(rest.len() - at, |len| len + end.len());
        let lines = rest[at..at + len].matches('\n').count();
        kept.push_str(&"\n".repeat(lines));
        rest = &rest[at + len..];
    }
    kept + rest
}

fn line_comment(source: &str) -> Option<usize> {
    let mut places = source.match_indices("//").map(|(at, _)| at);
    places.find(|at| source[..*at].chars().next_back().is_none_or(char::is_whitespace))
}

#[test]
fn printed_texts_name_their_subject() {
    let shown = |file: &File| shown(file).map(|shown| riddles(&file.path, &shown));
    assert_none(&files().iter().filter_map(shown).flatten().collect::<Vec<_>>());
}

#[test]
fn a_riddle_in_a_printed_text_is_found() {
    let found = |path: &str, text: &str| {
        lines(&riddles(path, &shown(&File::new(path, text)).unwrap_or_default()))
    };
    let text = "// Whoever asks.\nlet nobody = \"a\";\nlet told = \"Nobody can tell\";\n\
                #[cfg(test)]\nmod tests {\n    let b = \"nobody\";\n}\n";
    assert_eq!(found("crates/daemon/src/lib.rs", text), [3]);
    assert_eq!(found("crates/bench/src/main.rs", text), [0; 0]);
    assert_eq!(found("crates/daemon/tests/it/main.rs", text), [0; 0]);
    assert_eq!(found("docs/openapi.json", "{\n\"in the middle of all turns\"}"), [2]);
    let page = "// nobody\n/* whoever\n nobody */ <p>http://a: somebody</p>\n";
    assert_eq!(found("web/src/a.tsx", page), [3]);
    let help = "/// For whoever asks\n#[arg(long)]\n";
    assert_eq!(found("crates/cli/src/command/a.rs", help).len(), 1);
}
