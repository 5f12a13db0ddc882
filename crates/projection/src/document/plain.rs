//! Plain text: for a terminal, a mail, a ticket.

use super::block::{CallBlock, DocumentBlock};
use super::cut::Cut;
use super::{BlockWriter, DocumentHead, utc_text};

pub(crate) struct Plain;

impl BlockWriter for Plain {
    fn begin_document(&mut self, head: &DocumentHead, out: &mut String) {
        let width = head.title.chars().count().clamp(1, 80);
        out.push_str(&format!("{}\n{}\n\n", head.title, "=".repeat(width)));
        for (name, value) in &head.rows {
            out.push_str(&format!("{:<9}{value}\n", format!("{name}:")));
        }
    }

    fn write_block(&mut self, block: &DocumentBlock, out: &mut String) {
        out.push('\n');
        match block {
            DocumentBlock::Turn { number, at } => {
                let line = format!("--- {number} --- {} UTC ", utc_text(*at));
                out.push_str(&format!("{line:-<72}\n"));
            }
            DocumentBlock::Prompt { text, is_queued: false } => write_speech(out, "USER", text),
            DocumentBlock::Prompt { text, is_queued: true } => {
                write_speech(out, "USER, meanwhile", text)
            }
            DocumentBlock::Answer(text) => write_speech(out, "ASSISTANT", text),
            DocumentBlock::Thinking(text) => write_speech(out, "THINKING", text),
            DocumentBlock::Call(call) => write_call(out, call),
            DocumentBlock::Compacted { summary } => write_speech(out, "COMPACTED", summary),
            DocumentBlock::Interrupted(text) => out.push_str(&format!("!! {text}\n")),
            DocumentBlock::Error(text) => write_marked(out, "!! Error: ", text),
            DocumentBlock::Remark(text) => write_marked(out, "-- ", text),
        }
    }

    fn end_document(&mut self, _out: &mut String) {}
}

fn write_speech(out: &mut String, who: &str, text: &str) {
    out.push_str(&format!("{who}\n"));
    indented(out, "  ", text);
}

fn write_call(out: &mut String, call: &CallBlock) {
    let parts = [&call.tool, &call.about].map(String::as_str);
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    out.push_str(&format!("[{}] {}\n", parts.join(": "), call.how));
    write_cut(out, "  > ", &call.input);
    write_cut(out, "  | ", &call.output);
}

fn write_cut(out: &mut String, prefix: &str, cut: &Cut) {
    if !cut.is_empty() {
        indented(out, prefix, &cut.join_text());
    }
}

fn write_marked(out: &mut String, mark: &str, text: &str) {
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
