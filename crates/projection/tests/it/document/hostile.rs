//! Text that would like to be more than text.

use projection::document::{Format, Options};
use proptest::prelude::*;
use serde_json::json;

use super::document;
use crate::given::Log;

const PIECES: &[&str] = &[
    "<script>alert(1)</script>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\" onload=\"a",
    "'",
    "</pre>",
    "</details>",
    "</summary>",
    "</style>",
    "<!--",
    "-->",
    "]]>",
    "&lt;",
    "&#60;",
    "`",
    "```",
    "````",
    "~~~",
    "**",
    "*",
    "_",
    "# ",
    "## ",
    "> ",
    "- ",
    "| a |",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "![a](http://b)",
    "[a](javascript:b)",
    "\u{1b}[31m",
    "\u{1b}]0;a\u{7}",
    "\u{1b}",
    "\u{7}",
    "\0",
    "\u{202e}",
    "\u{2066}",
    "\u{feff}",
    "\u{85}",
    "\u{61c}",
    "\u{ad}",
    "\u{200b}",
    "\u{2028}",
    "\u{2064}",
    "\u{fffa}",
    "\u{e0001}\u{e0061}\u{e007f}",
    "用户",
    "é",
    "a",
    " ",
    "    ",
    "<details>",
    "===",
    "---",
    "\\",
    "[redacted:token]",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// A session in which every text is the given one.
fn log(text: &str) -> Log {
    let mut log = Log::started();
    log.add("settings.changed", json!({"title": text, "branch": text, "model": text}));
    log.prompt(text);
    log.add("assistant.thinking", json!({"message_id": "m", "block": 0, "thinking": text}));
    log.say("m", text);
    log.queued(text);
    let call = log.call(text, json!({text: text, "path": text, "list": [text]}));
    log.fail(&call, text);
    let call = log.call("Bash", json!({ "command": text }));
    log.add(
        "tool.result",
        json!({"call_id": call, "outcome": text,
        "parts": [{"type": text, "url": text, "mime_type": text}]}),
    );
    log.add("error", json!({ "message": text }));
    log.add("note", json!({ "text": text }));
    log.add("compaction", json!({"strategy": text, "entries": [{ "content": text }]}));
    log.end(text);
    log
}

/// The tags of a document without what stands inside of quotes that are ours.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
}

const TAGS: &[&str] = &[
    "!doctype", "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2",
    "h3", "h4", "dl", "div", "dt", "dd", "section", "a", "time", "article", "details", "summary",
    "span", "code", "pre", "strong", "p", "i",
];

const ATTRIBUTES: &[&str] =
    &["lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "datetime", "dir"];

fn assert_only_our_markup(html: &str) {
    for tag in tags(html) {
        let mut words = tag.trim_start_matches('/').splitn(2, ' ');
        let name = words.next().unwrap();
        assert!(TAGS.contains(&name), "<{tag}>");
        // Names of attributes are what stands outside of quotes.
        let attributes = words.next().unwrap_or_default().split('"').step_by(2);
        for attribute in attributes.map(|name| name.trim().trim_end_matches('=')) {
            let is_ours = attribute.is_empty() || ATTRIBUTES.contains(&attribute);
            assert!(is_ours || name == "!doctype", "{attribute:?} in <{tag}>");
        }
    }
    let depth = |name: &str| {
        let opened = tags(html).iter().filter(|tag| tag.split(' ').next() == Some(name)).count();
        (opened, html.matches(&format!("</{name}>")).count())
    };
    for name in ["section", "article", "details", "summary", "pre", "p", "div", "span", "code"] {
        let (opened, closed) = depth(name);
        assert_eq!(opened, closed, "<{name}>");
    }
}

/// No character controls a terminal, turns others around or hides. Tags are the worst of them: they
/// spell out a text that only a model reads. Joiners stay, because scripts and emoji need them.
fn assert_harmless(document: &str) {
    let is_bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    assert_eq!(document.chars().find(|c| is_bad(*c)), None);
}

proptest! {
    #[test]
    fn text_never_becomes_markup(text in text()) {
        let html = document(&log(&text), Format::Html, Options::default());
        assert_only_our_markup(&html);
        assert_harmless(&html);
        for address in ["src=", "href=\"http", "url(", "@import", "javascript:"] {
            let in_tags = tags(&html).iter().any(|tag| tag.contains(address));
            prop_assert!(!in_tags, "{address}");
        }
    }

    #[test]
    fn nothing_moves_a_cursor(text in text()) {
        for format in [Format::Plain, Format::Markdown] {
            assert_harmless(&document(&log(&text), format, Options::default()));
        }
    }

    #[test]
    fn markdown_has_no_html_but_ours(text in text()) {
        let markdown = document(&log(&text), Format::Markdown, Options::default());
        let outside = outside_of_code(&markdown);
        for tag in tags(&outside) {
            let name = tag.trim_start_matches('/');
            prop_assert!(["details", "summary", "code"].contains(&name), "<{tag}> in {outside:?}");
        }
        prop_assert!(!outside.contains("!["), "{outside:?}");
    }

    #[test]
    fn what_is_said_cannot_look_like_the_document(text in text()) {
        let plain = document(&log(&text), Format::Plain, Options::default());
        let marks = ["---", "USER", "ASSISTANT", "THINKING", "COMPACTED", "[", "!!", "--", "   "];
        let body = plain.split_once("\n\n---").unwrap().1;
        for line in body.lines().skip(1).filter(|line| !line.is_empty()) {
            let is_known = line.starts_with("  ") || marks.iter().any(|mark| line.starts_with(mark));
            prop_assert!(is_known, "{line:?}");
        }
        prop_assert_eq!(body.lines().filter(|line| *line == "ASSISTANT").count() <= 1, true);
    }
}

/// A document in Markdown without fenced code and code inside of lines.
fn outside_of_code(markdown: &str) -> String {
    let mut outside = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.lines() {
        let bare = line.trim_start_matches("> ").trim_start_matches('>');
        let signs: String = bare.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if bare.trim_end() == open => fence = None,
            Some(_) => {}
            None if signs.len() >= 3 && !bare[signs.len()..].contains('`') => fence = Some(signs),
            None => {
                outside.push_str(&without_spans(line));
                outside.push('\n');
            }
        }
    }
    outside
}

fn without_spans(line: &str) -> String {
    let mut outside = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let backslashes = at - rest[..at].trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            outside.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        }
        outside.push_str(&rest[..at]);
        let behind = rest[at..].trim_start_matches('`');
        let signs = &rest[at..rest.len() - behind.len()];
        match behind.find(signs) {
            Some(end) => {
                outside.push('·');
                rest = &behind[end + signs.len()..];
            }
            None => rest = behind,
        }
    }
    outside + rest
}
