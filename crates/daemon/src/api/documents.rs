//! Sessions as documents, events and handoff notes. A document is written while the session is read,
//! so memory does not grow with its length.

use std::borrow::Cow;
use std::io::{self, Write};

use event::Event;
use journal::{Journal, ReadError, Selection, SessionInfo};
use projection::document::{Document, DocumentHead, Format, Options, write_handoff};
use projection::{Chronicle, Facts, Projection, Redact, redacted};
use redact::Redactor;

use super::resume::ResumeCommand;
use views::load_current;

/// Whether secrets stay in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrets {
    Kept,
    Removed,
}

/// Why writing failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes a session as a document.
pub fn write_document(
    journal: &Journal,
    info: &SessionInfo,
    (format, options): (Format, Options),
    secrets: Secrets,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let head = DocumentHead::from_facts(&info.id, &load_current(journal, info)?);
    let mut redactor = Redactor::new();
    let mut redact = redacting(&mut redactor);
    let redact: &mut Redact<'_> = &mut redact;
    let mut document = match secrets {
        Secrets::Removed => Document::redacted(format, head, options, redact),
        Secrets::Kept => Document::new(format, head, options),
    };
    let mut text = String::new();
    for event in journal.events(&info.id, Selection::all())? {
        document.push(&event?, &mut text);
        // Written event by event: a session may be longer than memory.
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    document.finish(&mut text);
    Ok(out.write_all(text.as_bytes())?)
}

/// Writes the events of a session as JSON, one per line.
pub fn write_events(
    journal: &Journal,
    info: &SessionInfo,
    secrets: Secrets,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let mut redactor = Redactor::new();
    for event in journal.events(&info.id, Selection::all())? {
        let event = without(secrets, event?, &mut redactor);
        writeln!(out, "{}", event.encode())?;
    }
    Ok(())
}

/// The handoff note of a session, for the next agent or user. A note is made to be passed on, so
/// it never holds secrets.
pub fn handoff_note(journal: &Journal, info: &SessionInfo) -> Result<String, ReadError> {
    let facts: Facts = load_current(journal, info)?;
    let mut redactor = Redactor::new();
    let mut chronicle = Chronicle::default();
    for event in journal.events(&info.id, Selection::all())? {
        // Redacted before it is folded: facts quote prompts and commands.
        chronicle.apply(&redacted(&event?, &mut |text| redactor.redact(text)));
    }
    chronicle.flush();
    let found: Vec<_> = chronicle.chapters().flat_map(|chapter| chapter.facts).collect();
    let mut redact = redacting(&mut redactor);
    // The note quotes texts that no event holds in this form, such as the title.
    let resume = ResumeCommand::find(journal, info.clone())?.map(|way| way.line());
    Ok(write_handoff(&info.id, &facts, &found, resume.as_deref(), Some(&mut redact)))
}

fn without(secrets: Secrets, event: Event, redactor: &mut Redactor) -> Event {
    match secrets {
        Secrets::Removed => redacted(&event, &mut |text| redactor.redact(text)),
        Secrets::Kept => event,
    }
}

/// The function that removes secrets from texts.
fn redacting(redactor: &mut Redactor) -> impl FnMut(&str) -> Cow<'_, str> {
    move |text| redactor.redact(text)
}
