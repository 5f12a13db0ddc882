//! HTML: one file without scripts that loads nothing.
//!
//! Every recorded text goes through [`escaped`] and stands between tags, never inside of one: that
//! is enough to keep it from becoming markup.
//! The policy in the head forbids the rest, down to any style but ours.

use super::block::{CallBlock, CallOutcome, DocumentBlock};
use super::cut::Cut;
use super::prose::{Passage, Span, passages, spans};
use super::{BlockWriter, DocumentHead, moment};

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
    fn begin(&mut self, head: &DocumentHead, out: &mut String) {
        let title = escaped(&head.title);
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
            out.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(value)));
        }
        out.push_str("</dl>\n</header>\n");
    }

    fn block(&mut self, block: &DocumentBlock, out: &mut String) {
        match block {
            DocumentBlock::Turn { number, at } => {
                // The blocks say only where a turn begins, so the section before it is closed here.
                self.close_turn(out);
                self.is_in_turn = true;
                out.push_str(&format!(
                    "<section id=\"turn-{number}\">\n<h2><a href=\"#turn-{number}\">{number}</a> \
                     <time datetime=\"{at}\">{} UTC</time></h2>\n",
                    moment(*at)
                ));
            }
            DocumentBlock::Prompt { text, is_queued: false } => said(out, "prompt", "User", text),
            DocumentBlock::Prompt { text, is_queued: true } => {
                said(out, "prompt", "User, meanwhile", text);
            }
            DocumentBlock::Answer(text) => said(out, "answer", "Assistant", text),
            DocumentBlock::Thinking(text) => folded(out, "thinking", "Thinking", text),
            DocumentBlock::Call(call) => tool(out, call),
            DocumentBlock::Compacted { summary } => {
                folded(out, "compacted", "Compacted: the model goes on with a summary", summary);
            }
            DocumentBlock::Interrupted(text) => marked(out, "interrupted", "Stopped", text),
            DocumentBlock::Error(text) => marked(out, "error", "Error", text),
            DocumentBlock::Remark(text) => marked(out, "remark", "Note", text),
        }
    }

    fn end(&mut self, out: &mut String) {
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
pub(crate) fn escaped(text: &str) -> String {
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

fn said(out: &mut String, class: &str, who: &str, text: &str) {
    out.push_str(&format!("<article class=\"{class}\">\n<h3>{who}</h3>\n"));
    prose(out, text);
    out.push_str("</article>\n");
}

fn folded(out: &mut String, class: &str, summary: &str, text: &str) {
    // Nothing to fold out: an empty `<details>` would look like content.
    if text.trim().is_empty() {
        out.push_str(&format!("<p class=\"mark {class}\">{summary}</p>\n"));
        return;
    }
    out.push_str(&format!("<details class=\"{class}\">\n<summary>{summary}</summary>\n"));
    prose(out, text);
    out.push_str("</details>\n");
}

fn marked(out: &mut String, class: &str, what: &str, text: &str) {
    let text = escaped(text.trim());
    out.push_str(&format!(
        "<p class=\"mark {class}\" dir=\"auto\"><strong>{what}</strong> {text}</p>\n"
    ));
}

fn tool(out: &mut String, call: &CallBlock) {
    let class = match call.outcome {
        CallOutcome::Good => "good",
        CallOutcome::Bad => "bad",
        CallOutcome::Unknown => "open",
    };
    let summary = format!(
        "<span class=\"tool\">{}</span> <code dir=\"auto\">{}</code> <span class=\"how\">{}</span>",
        escaped(&call.tool),
        escaped(&call.about),
        escaped(&call.how)
    );
    if call.input.is_empty() && call.output.is_empty() {
        out.push_str(&format!("<p class=\"call {class}\">{summary}</p>\n"));
        return;
    }
    out.push_str(&format!("<details class=\"call {class}\">\n<summary>{summary}</summary>\n"));
    shown(out, "input", &call.input);
    shown(out, "output", &call.output);
    out.push_str("</details>\n");
}

fn shown(out: &mut String, class: &str, cut: &Cut) {
    if cut.is_empty() {
        return;
    }
    // `dir="auto"`: text in Hebrew or Arabic reads from the right, and turns nothing around it.
    out.push_str(&format!("<pre class=\"{class}\" dir=\"auto\">{}", escaped(&cut.beginning)));
    if let Some((left_out, end)) = &cut.rest {
        out.push_str(&format!("\n<i>{left_out}</i>\n{}", escaped(end)));
    }
    out.push_str("</pre>\n");
}

fn prose(out: &mut String, text: &str) {
    for passage in passages(text) {
        match passage {
            Passage::Text(text) => {
                out.push_str("<div class=\"text\" dir=\"auto\">");
                inline(out, text);
                out.push_str("</div>\n");
            }
            Passage::Heading(_, heading) => {
                out.push_str("<h4 dir=\"auto\">");
                inline(out, heading);
                out.push_str("</h4>\n");
            }
            // The language is dropped: it is recorded text, and would have to stand inside a tag. A
            // table is kept in its columns as it was typed.
            Passage::Code(_, code) | Passage::Table(code) => {
                out.push_str(&format!("<pre dir=\"auto\">{}</pre>\n", escaped(code)));
            }
        }
    }
}

fn inline(out: &mut String, text: &str) {
    for span in spans(text) {
        match span {
            Span::Text(text) => out.push_str(&escaped(text)),
            Span::Code(text) => out.push_str(&format!("<code>{}</code>", escaped(text))),
            Span::Strong(text) => out.push_str(&format!("<strong>{}</strong>", escaped(text))),
        }
    }
}
