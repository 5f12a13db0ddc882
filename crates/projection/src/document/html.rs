//! HTML: one file without scripts that loads nothing.
//!
//! Every recorded text goes through [`escape_html`] and stands between tags, never inside of one:
//! that is enough to keep it from becoming markup.
//! The policy in the head forbids the rest, down to any style but ours.

use super::block::{CallBlock, CallOutcome, DocumentBlock};
use super::cut::Cut;
use super::prose::{Passage, Span, passages, split_spans};
use super::{BlockWriter, DocumentHead, utc_text};

/// The one style sheet. Its hash stands in [`POLICY`]; a test compares them.
const STYLE: &str = include_str!("style.css");

/// Nothing is loaded, run, sent or framed; one style sheet is taken.
const POLICY: &str = "default-src 'none'; \
    style-src 'sha256-vEfOTiFt0Ukp7/k9bz69mjhjAfPYRxmjd+bJXNDDOmE='; \
    base-uri 'none'; form-action 'none'";

#[derive(Default)]
pub(crate) struct Html {
    is_in_turn: bool,
}

impl BlockWriter for Html {
    fn begin_document(&mut self, head: &DocumentHead, out: &mut String) {
        let title = escape_html(&head.title);
        // The charset and the policy come first: a browser obeys a policy only for what follows it.
        out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        out.push_str(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1 dir=\"auto\">{title}</h1>\n<dl>\n"
        ));
        for (name, value) in &head.rows {
            out.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escape_html(value)));
        }
        out.push_str("</dl>\n</header>\n");
    }

    fn write_block(&mut self, block: &DocumentBlock, out: &mut String) {
        match block {
            DocumentBlock::Turn { number, at } => {
                // The blocks say only where a turn begins, so the section before it is closed here.
                self.close_turn(out);
                self.is_in_turn = true;
                out.push_str(&format!(
                    "<section id=\"turn-{number}\">\n<h2><a href=\"#turn-{number}\">{number}</a> \
                     <time datetime=\"{at}\">{} UTC</time></h2>\n",
                    utc_text(*at)
                ));
            }
            DocumentBlock::Prompt { text, is_queued: false } => {
                write_speech(out, "prompt", "User", text)
            }
            DocumentBlock::Prompt { text, is_queued: true } => {
                write_speech(out, "prompt", "User, meanwhile", text);
            }
            DocumentBlock::Answer(text) => write_speech(out, "answer", "Assistant", text),
            DocumentBlock::Thinking(text) => write_folded(out, "thinking", "Thinking", text),
            DocumentBlock::Call(call) => write_call(out, call),
            DocumentBlock::Compacted { summary } => {
                write_folded(
                    out,
                    "compacted",
                    "Compacted: the model goes on with a summary",
                    summary,
                );
            }
            DocumentBlock::Interrupted(text) => write_marked(out, "interrupted", "Stopped", text),
            DocumentBlock::Error(text) => write_marked(out, "error", "Error", text),
            DocumentBlock::Remark(text) => write_marked(out, "remark", "Note", text),
        }
    }

    fn end_document(&mut self, out: &mut String) {
        self.close_turn(out);
        out.push_str("</main>\n</body>\n</html>\n");
    }
}

impl Html {
    fn close_turn(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_in_turn) {
            out.push_str("</section>\n");
        }
    }
}

/// The text with nothing in it that HTML could take for markup, inside of a tag or outside.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // `&apos;` is no entity of HTML 4, so the number is used.
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

fn write_speech(out: &mut String, class: &str, who: &str, text: &str) {
    out.push_str(&format!("<article class=\"{class}\">\n<h3>{who}</h3>\n"));
    write_prose(out, text);
    out.push_str("</article>\n");
}

fn write_folded(out: &mut String, class: &str, summary: &str, text: &str) {
    // Nothing to fold out: an empty `<details>` would look like content.
    if text.trim().is_empty() {
        out.push_str(&format!("<p class=\"mark {class}\">{summary}</p>\n"));
        return;
    }
    out.push_str(&format!("<details class=\"{class}\">\n<summary>{summary}</summary>\n"));
    write_prose(out, text);
    out.push_str("</details>\n");
}

fn write_marked(out: &mut String, class: &str, what: &str, text: &str) {
    let text = escape_html(text.trim());
    out.push_str(&format!(
        "<p class=\"mark {class}\" dir=\"auto\"><strong>{what}</strong> {text}</p>\n"
    ));
}

fn write_call(out: &mut String, call: &CallBlock) {
    let class = match call.outcome {
        CallOutcome::Good => "good",
        CallOutcome::Bad => "bad",
        CallOutcome::Unknown => "open",
    };
    let summary = format!(
        "<span class=\"tool\">{}</span> <code dir=\"auto\">{}</code> <span class=\"how\">{}</span>",
        escape_html(&call.tool),
        escape_html(&call.about),
        escape_html(&call.how)
    );
    if call.input.is_empty() && call.output.is_empty() {
        out.push_str(&format!("<p class=\"call {class}\">{summary}</p>\n"));
        return;
    }
    out.push_str(&format!("<details class=\"call {class}\">\n<summary>{summary}</summary>\n"));
    write_cut(out, "input", &call.input);
    write_cut(out, "output", &call.output);
    out.push_str("</details>\n");
}

fn write_cut(out: &mut String, class: &str, cut: &Cut) {
    if cut.is_empty() {
        return;
    }
    // `dir="auto"`: text in Hebrew or Arabic reads from the right, and turns nothing around it.
    out.push_str(&format!("<pre class=\"{class}\" dir=\"auto\">{}", escape_html(&cut.beginning)));
    if let Some((left_out, end)) = &cut.rest {
        out.push_str(&format!("\n<i>{left_out}</i>\n{}", escape_html(end)));
    }
    out.push_str("</pre>\n");
}

fn write_prose(out: &mut String, text: &str) {
    for passage in passages(text) {
        match passage {
            Passage::Text(text) => {
                out.push_str("<div class=\"text\" dir=\"auto\">");
                write_inline(out, text);
                out.push_str("</div>\n");
            }
            Passage::Heading(_, heading) => {
                out.push_str("<h4 dir=\"auto\">");
                write_inline(out, heading);
                out.push_str("</h4>\n");
            }
            // The language is dropped: it is recorded text, and would have to stand inside a tag. A
            // table is kept in its columns as it was typed.
            Passage::Code(_, code) | Passage::Table(code) => {
                out.push_str(&format!("<pre dir=\"auto\">{}</pre>\n", escape_html(code)));
            }
        }
    }
}

fn write_inline(out: &mut String, text: &str) {
    for span in split_spans(text) {
        match span {
            Span::Text(text) => out.push_str(&escape_html(text)),
            Span::Code(text) => out.push_str(&format!("<code>{}</code>", escape_html(text))),
            Span::Strong(text) => out.push_str(&format!("<strong>{}</strong>", escape_html(text))),
        }
    }
}
