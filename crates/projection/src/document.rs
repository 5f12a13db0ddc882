//! A session as a document somebody keeps or sends: Markdown, HTML or plain text.
//!
//! Events go in one by one and text comes out as soon as it is settled: what waits for the result of
//! a call is all that is held, and that is limited. All text is redacted first, if the caller
//! says how, then made harmless, and only then cut. In HTML, whatever anybody wrote stays text.
//!
//! Not here: where the document goes.

mod head; // what stands above a session
mod tell; // events as blocks
mod block; // what a document is made of
mod call; // calls of tools in words
mod clean; // text that does nothing but be read
mod cut; // long text, cut in the middle
mod prose; // what models write, taken apart
mod markdown;
mod html;
mod plain;
mod handoff; // a note for whoever goes on

pub use handoff::handoff;
pub use head::Head;

use block::Block;
use clean::Clean;
use event::{Event, Time};
use tell::Teller;

use crate::redacted::Redact;

/// How a document is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Markdown,
    /// One file that needs no other, runs nothing and asks nobody for anything.
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
    form: Box<dyn Form>,
    head: Option<Head>,
    teller: Teller,
    clean: Clean<'r>,
}

/// One way to write blocks down.
trait Form {
    fn begin(&mut self, head: &Head, out: &mut String);
    fn block(&mut self, block: &Block, out: &mut String);
    fn end(&mut self, out: &mut String);
}

impl<'r> Document<'r> {
    /// A document that shows texts as they are.
    pub fn new(format: Format, head: Head, options: Options) -> Document<'r> {
        Document::with(format, head, options, Clean::new(None))
    }

    /// A document whose texts all go through `redact`.
    pub fn redacted(
        format: Format,
        head: Head,
        options: Options,
        redact: &'r mut Redact<'r>,
    ) -> Document<'r> {
        Document::with(format, head, options, Clean::new(Some(redact)))
    }

    fn with(format: Format, head: Head, options: Options, clean: Clean<'r>) -> Document<'r> {
        let form: Box<dyn Form> = match format {
            Format::Markdown => Box::new(markdown::Markdown),
            Format::Html => Box::new(html::Html::default()),
            Format::Plain => Box::new(plain::Plain),
        };
        Document { form, head: Some(head), teller: Teller::new(options), clean }
    }

    /// Takes the next event, and appends to `out` what is settled by now.
    pub fn push(&mut self, event: &Event, out: &mut String) {
        self.begin(out);
        self.teller.apply(event, &mut self.clean);
        while let Some(block) = self.teller.next() {
            self.form.block(&block, out);
        }
    }

    /// Ends the document, and appends to `out` what was still waiting.
    pub fn finish(mut self, out: &mut String) {
        self.begin(out);
        while let Some(block) = self.teller.next_left() {
            self.form.block(&block, out);
        }
        self.form.end(out);
    }

    fn begin(&mut self, out: &mut String) {
        let Some(mut head) = self.head.take() else { return };
        head.title = crate::excerpt::line(&self.clean.text(&head.title));
        for (_, value) in &mut head.rows {
            *value = crate::excerpt::line(&self.clean.text(value));
        }
        self.form.begin(&head, out);
    }
}

/// `2026-03-02 09:14:21`, in UTC.
fn moment(at: Time) -> String {
    let text = at.to_string();
    let whole = text.split(['.', 'Z']).next().unwrap_or_default();
    whole.replacen('T', " ", 1)
}
