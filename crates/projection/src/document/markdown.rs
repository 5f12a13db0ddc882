//! Markdown: what was said as it was written, what was done folded.
//!
//! Text keeps its Markdown, but cannot become HTML, load an image or reach out of its place.

use super::block::{CallBlock, DocumentBlock};
use super::cut::Cut;
use super::html::escape_html;
use super::prose::{Passage, Span, fence_for, passages, split_spans};
use super::{BlockWriter, DocumentHead, utc_text};

/// How much deeper the headings of what was said stand than they were written: below the turn's.
const HEADING_SHIFT: usize = 2;

pub(crate) struct Markdown;

impl BlockWriter for Markdown {
    fn begin_document(&mut self, head: &DocumentHead, out: &mut String) {
        out.push_str(&format!("# {}\n\n", escape_markdown(&head.title)));
        for (name, value) in &head.rows {
            out.push_str(&format!("- **{name}:** {}\n", inline_code(value)));
        }
    }

    fn write_block(&mut self, block: &DocumentBlock, out: &mut String) {
        out.push('\n');
        match block {
            DocumentBlock::Turn { number, at } => {
                out.push_str(&format!("## {number} · {} UTC\n", utc_text(*at)));
            }
            DocumentBlock::Prompt { text, is_queued } => {
                let who = if *is_queued { "**User**, meanwhile:" } else { "**User:**" };
                write_quote(out, &format!("{who}\n\n{}", escape_prose(text)));
            }
            DocumentBlock::Answer(text) => out.push_str(&format!("{}\n", escape_prose(text))),
            DocumentBlock::Thinking(text) => write_folded(out, "Thinking", &escape_prose(text)),
            DocumentBlock::Call(call) => {
                write_folded(out, &call_summary(call), &call_details(call))
            }
            DocumentBlock::Compacted { summary } => {
                write_folded(
                    out,
                    "Compacted: the model goes on with a summary",
                    &escape_prose(summary),
                );
            }
            DocumentBlock::Interrupted(text) => {
                out.push_str(&format!("> ⏹ **{}**\n", escape_markdown(text)))
            }
            DocumentBlock::Error(text) => {
                write_quote(out, &format!("⚠ **Error:** {}", strip_html(text)))
            }
            DocumentBlock::Remark(text) => {
                write_quote(out, &format!("*Note:* {}", strip_html(text)))
            }
        }
    }

    fn end_document(&mut self, _out: &mut String) {}
}

fn call_summary(call: &CallBlock) -> String {
    let about = match call.about.as_str() {
        "" => String::new(),
        about => format!(": <code>{}</code>", escape_markdown(about)),
    };
    let how = if call.how.is_empty() {
        String::new()
    } else {
        format!(" — {}", escape_markdown(&call.how))
    };
    format!("{}{about}{how}", escape_markdown(&call.tool))
}

fn call_details(call: &CallBlock) -> String {
    let fenced = |cut: &Cut| {
        let text = cut.join_text();
        // Longer than any fence in the text, so that output cannot close its own.
        let fence = fence_for(&text);
        (!cut.is_empty()).then(|| format!("{fence}text\n{text}\n{fence}"))
    };
    let parts = [fenced(&call.input), fenced(&call.output)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn write_folded(out: &mut String, summary: &str, text: &str) {
    if text.is_empty() {
        out.push_str(&format!("- {summary}\n"));
    } else {
        // With blank lines around: else Markdown takes the text for HTML and shows its signs.
        out.push_str(&format!("<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>\n"));
    }
}

fn write_quote(out: &mut String, text: &str) {
    // Every line gets its sign. A line without one could begin a heading or HTML of its own.
    for line in text.lines() {
        out.push_str(format!("> {line}").trim_end());
        out.push('\n');
    }
}

/// Prose that a user or a model wrote.
fn escape_prose(text: &str) -> String {
    let passages = passages(text);
    let told = passages.iter().map(|passage| match passage {
        Passage::Text(text) | Passage::Table(text) => strip_html(text),
        Passage::Heading(level, heading) => {
            format!("{} {}", "#".repeat((level + HEADING_SHIFT).min(6)), strip_html(heading))
        }
        Passage::Code(language, code) => {
            let fence = fence_for(code);
            // A language is one word of safe signs. Anything else could reach out of the line of
            // the fence.
            let language: String = language
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || "+-#_".contains(*c))
                .collect();
            format!("{fence}{language}\n{code}\n{fence}")
        }
    });
    told.collect::<Vec<_>>().join("\n\n")
}

/// Text that keeps its Markdown, without HTML and images.
pub(crate) fn strip_html(text: &str) -> String {
    let told = split_spans(text).into_iter().map(|span| match span {
        Span::Text(text) => tame_span(text),
        Span::Strong(text) => format!("**{}**", tame_span(text)),
        Span::Code(text) => inline_code(text),
    });
    let told: String = told.collect();
    // Indented by four, a line would be code and its signs would be shown.
    let lines = told.lines().map(|line| {
        let bare = line.trim_start();
        let is_rule = bare.chars().all(|c| matches!(c, '=' | '-' | ' ')) && bare.len() > 1;
        // A line under another one makes a heading of it.
        if is_rule { format!("\\{bare}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn tame_span(text: &str) -> String {
    // The ampersand goes first, or it would escape the others again. An image would be loaded from
    // where the text says; a backtick without its partner could swallow what follows.
    let tame = text.replace('&', "&amp;").replace('<', "&lt;").replace("![", "!\\[");
    disarm_links(&tame.replace('`', "&#96;"))
}

/// Schemes of addresses that run code in the reader's page.
const RUNNING_SCHEMES: [&str; 3] = ["javascript:", "data:", "vbscript:"];

/// Text whose links to code are no links: `[a]\(javascript:b)`, and the same of `[a]: javascript:b`.
fn disarm_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("](").into_iter().chain(rest.find("]:")).min() {
        let (before, link) = rest.split_at(at + 1);
        out.push_str(before);
        // Markdown drops blanks before an address and a backslash before a sign in it.
        let address = link[1..].trim_start().chars().filter(|c| *c != '\\');
        let begin: String = address.take(16).collect::<String>().to_ascii_lowercase();
        if RUNNING_SCHEMES.iter().any(|scheme| begin.starts_with(scheme)) {
            out.push('\\');
        }
        rest = link;
    }
    out.push_str(rest);
    out
}

/// Text without any Markdown.
pub(crate) fn escape_markdown(text: &str) -> String {
    escape_all(&escape_html(text))
}

/// Text as code inside of a line.
pub(crate) fn inline_code(text: &str) -> String {
    let fence = fence_for(text);
    let signs = if text.contains('`') { fence.as_str() } else { "`" };
    // A backtick at the edge would make the fence longer; Markdown drops one blank on each side.
    let gap = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    // Code of blanks alone is none in Markdown: its signs would be shown.
    if text.trim().is_empty() {
        return tame_span(text);
    }
    format!("{signs}{gap}{text}{gap}{signs}")
}

/// Escaped text in which Markdown finds nothing either.
fn escape_all(html: &str) -> String {
    let mut single = String::with_capacity(html.len());
    let mut before = ' ';
    for c in html.chars() {
        // `&#39;` of `escape_html` must stay whole; any other `#` may begin a heading.
        let is_reference = c == '#' && before == '&';
        before = c;
        match c {
            _ if is_reference => single.push(c),
            '`' | '*' | '_' | '[' | ']' | '\\' | '!' | '~' | '|' | '#' => {
                single.push_str(&format!("&#{};", u32::from(c)));
            }
            '\n' => single.push(' '),
            _ => single.push(c),
        }
    }
    single
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_code_are_no_links() {
        for (text, expected) in [
            ("[a](javascript:b)", r"[a]\(javascript:b)"),
            ("[a]( JavaScript:b)", r"[a]\( JavaScript:b)"),
            (r"[a](javascript\:b)", r"[a]\(javascript\:b)"),
            ("[a](data:text/html,b)", r"[a]\(data:text/html,b)"),
            ("[a](vbscript:b)", r"[a]\(vbscript:b)"),
            ("[a]: javascript:b", r"[a]\: javascript:b"),
            ("[a](https://b) [c](d.md)", "[a](https://b) [c](d.md)"),
            ("map[key]: value", "map[key]: value"),
        ] {
            assert_eq!(strip_html(text), expected);
        }
    }
}
