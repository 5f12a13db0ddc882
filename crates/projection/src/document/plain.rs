//! Plain text: for a terminal, a mail, a ticket.

use super::block::{CallBlock, DocumentBlock};
use super::cut::Cut;
use super::{BlockWriter, DocumentHead, moment};

pub(crate) struct Plain;

impl BlockWriter for Plain {
    fn begin(&mut self, head: &DocumentHead, out: &mut String) {
        let width = head.title.chars().count().clamp(1, 80);
        out.push_str(&format!("{}\n{}\n\n", head.title, "=".repeat(width)));
        for (name, value) in &head.rows {
            out.push_str(&format!("{:<9}{value}\n", format!("{name}:")));
        }
    }

    fn block(&mut self, block: &DocumentBlock, out: &mut String) {
        out.push('\n');
        match block {
            DocumentBlock::Turn { number, at } => {
                let line = format!("--- {number} --- {} UTC ", moment(*at));
                out.push_str(&format!("{line:-<72}\n"));
            }
            DocumentBlock::Prompt { text, is_queued: false } => said(out, "USER", text),
            DocumentBlock::Prompt { text, is_queued: true } => said(out, "USER, meanwhile", text),
            DocumentBlock::Answer(text) => said(out, "ASSISTANT", text),
            DocumentBlock::Thinking(text) => said(out, "THINKING", text),
            DocumentBlock::Call(call) => tool(out, call),
            DocumentBlock::Compacted { summary } => said(out, "COMPACTED", summary),
            DocumentBlock::Interrupted(text) => out.push_str(&format!("!! {text}\n")),
            DocumentBlock::Error(text) => marked(out, "!! Error: ", text),
            DocumentBlock::Remark(text) => marked(out, "-- ", text),
        }
    }

    fn end(&mut self, _out: &mut String) {}
}

fn said(out: &mut String, who: &str, text: &str) {
    out.push_str(&format!("{who}\n"));
    indented(out, "  ", text);
}

fn tool(out: &mut String, call: &CallBlock) {
    let parts = [&call.tool, &call.about].map(String::as_str);
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    out.push_str(&format!("[{}] {}\n", parts.join(": "), call.how));
    shown(out, "  > ", &call.input);
    shown(out, "  | ", &call.output);
}

fn shown(out: &mut String, prefix: &str, cut: &Cut) {
    if !cut.is_empty() {
        indented(out, prefix, &cut.joined());
    }
}

fn marked(out: &mut String, mark: &str, text: &str) {
    let mut lines = text.trim().lines();
    out.push_str(&format!("{mark}{}\n", lines.next().unwrap_or_default()));
    lines.for_each(|line| out.push_str(&format!("   {line}\n")));
}

/// Every line behind the prefix, so that nothing that was said looks like a part of the document.
fn indented(out: &mut String, prefix: &str, text: &str) {
    for line in text.trim_matches('\n').lines() {
        out.push_str(format!("{prefix}{line}").trim_end());
        out.push('\n');
    }
}
