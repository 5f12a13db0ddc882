//! A session as a document to keep or to send: Markdown, HTML or plain text.
//!
//! Events go in one by one, and text comes out as soon as it is final: only the blocks behind a
//! call without a result are held, and their number is limited. All text is redacted first, if the
//! caller says how, then made harmless, and only then cut: a cut first could leave half a secret
//! that no rule recognises. In HTML, recorded text never becomes markup.
//!
//! Not here: where the document goes.

mod head; // what stands above a session
mod block_builder; // events as blocks
mod block; // what a document is made of
mod call; // calls of tools in words
mod clean; // text that does nothing but be read
mod cut; // long text, cut in the middle
mod prose; // what models write, taken apart
mod markdown;
mod html;
mod plain;
mod handoff; // a note for the next agent or user

pub use handoff::write_handoff;
pub use head::DocumentHead;

use block::DocumentBlock;
use block_builder::BlockBuilder;
use clean::Clean;
use event::{Event, Time};

use crate::redacted::Redact;

/// How a document is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Markdown,
    /// One file without scripts that loads nothing.
    Html,
    Plain,
}

/// What a document shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub shows_thinking: bool,
    /// Bytes of what is given to a tool. The middle of more is left out, and how much that is, is
    /// told.
    pub input_max: usize,
    /// The same for what comes back.
    pub output_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { shows_thinking: true, input_max: 4_000, output_max: 4_000 }
    }
}

/// A document that is being written.
pub struct Document<'r> {
    form: Box<dyn BlockWriter>,
    head: Option<DocumentHead>,
    teller: BlockBuilder,
    clean: Clean<'r>,
}

/// One way to write blocks down.
trait BlockWriter {
    fn begin_document(&mut self, head: &DocumentHead, out: &mut String);
    fn write_block(&mut self, block: &DocumentBlock, out: &mut String);
    fn end_document(&mut self, out: &mut String);
}

impl<'r> Document<'r> {
    /// A document that shows texts as they are.
    pub fn new(format: Format, head: DocumentHead, options: Options) -> Document<'r> {
        Document::with_clean(format, head, options, Clean::new(None))
    }

    /// A document that sends every text through `redact`.
    pub fn redacted(
        format: Format,
        head: DocumentHead,
        options: Options,
        redact: &'r mut Redact<'r>,
    ) -> Document<'r> {
        Document::with_clean(format, head, options, Clean::new(Some(redact)))
    }

    fn with_clean(
        format: Format,
        head: DocumentHead,
        options: Options,
        clean: Clean<'r>,
    ) -> Document<'r> {
        let form: Box<dyn BlockWriter> = match format {
            Format::Markdown => Box::new(markdown::Markdown),
            Format::Html => Box::new(html::Html::default()),
            Format::Plain => Box::new(plain::Plain),
        };
        Document { form, head: Some(head), teller: BlockBuilder::new(options), clean }
    }

    /// Takes the next event, and appends to `out` what is settled by now.
    pub fn push(&mut self, event: &Event, out: &mut String) {
        // The head is written with the first event and not in `new`, which has no `out`.
        self.write_head(out);
        self.teller.apply(event, &mut self.clean);
        while let Some(block) = self.teller.next() {
            self.form.write_block(&block, out);
        }
    }

    /// Ends the document, and appends to `out` what was still waiting.
    pub fn finish(mut self, out: &mut String) {
        self.write_head(out);
        while let Some(block) = self.teller.next_left() {
            self.form.write_block(&block, out);
        }
        self.form.end_document(out);
    }

    fn write_head(&mut self, out: &mut String) {
        let Some(mut head) = self.head.take() else { return };
        // A title is recorded text like any other: it may hold secrets and line breaks.
        head.title = crate::excerpt::one_line(&self.clean.clean_text(&head.title));
        for (_, value) in &mut head.rows {
            *value = crate::excerpt::one_line(&self.clean.clean_text(value));
        }
        self.form.begin_document(&head, out);
    }
}

/// `2026-03-02 09:14:21`, in UTC.
fn utc_text(at: Time) -> String {
    let text = at.to_string();
    let whole = text.split(['.', 'Z']).next().unwrap_or_default();
    whole.replacen('T', " ", 1)
}
