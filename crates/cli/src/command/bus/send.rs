//! `hansard bus send`: a message to everybody who listens.

use std::io::{self, ErrorKind, IsTerminal, Read};
use std::path::Path;

use clap::Args;

use bus::{Draft, LineFault, Message, SendOutcome};

use super::Done;
use super::texts::Texts;
use crate::error::CliError;
use crate::output::Output;

/// Send a message to everybody who listens.
///
/// `send TRACT EVENT [KEY=VALUE]…`: a value that is JSON is sent as such, everything else as text.
/// `send '{…}'`: a message as JSON. Without words, JSON texts are read from stdin, and each is
/// sent when it is complete.
#[derive(Args)]
pub(crate) struct Send {
    /// TRACT EVENT [KEY=VALUE]…, or one JSON object
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// Fields that listeners expect to be texts, whatever they look like.
const TEXTS: &[&str] = &["day", "segment", "ref", "stream", "facet", "id", "agent_id", "import_id"];

/// Bytes of stdin read at a time.
const READ_MAX: usize = 64 << 10;

impl Send {
    pub(super) fn run(&self, path: &Path, output: &mut Output) -> Result<Done, CliError> {
        if self.words.is_empty() && !io::stdin().is_terminal() {
            return send_stdin(path, output);
        }
        send(path, &message(&self.words)?, output)?;
        output.note("Sent");
        Ok(Done::Yes)
    }
}

pub(super) fn send(path: &Path, message: &Message, output: &mut Output) -> Result<(), CliError> {
    match bus::send(path, std::slice::from_ref(message)) {
        SendOutcome::Delivered => Ok(()),
        SendOutcome::Written => {
            output.note("the bus has not said that it has read the message");
            Ok(())
        }
        SendOutcome::NotSent(error) => {
            let is_absent =
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
            let told = if is_absent {
                format!("no bus listens at `{}`", path.display())
            } else {
                format!("cannot send to `{}`: {error}", path.display())
            };
            let error = CliError::new("no_bus", told).hint("`hansard bus serve` starts one");
            Err(if is_absent { error.absent() } else { error })
        }
    }
}

fn send_stdin(path: &Path, output: &mut Output) -> Result<Done, CliError> {
    let mut texts = Texts::new();
    let mut sent = 0_u64;
    let mut buffer = vec![0; READ_MAX];
    loop {
        let count = io::stdin().read(&mut buffer)?;
        let whole = if count == 0 {
            texts.end().into_iter().collect()
        } else {
            texts.feed(&buffer[..count])
        };
        let bad = |line: u64, fault: LineFault, sent: u64| {
            let told = format!("line {line} of the input: {fault}");
            CliError::new("bad_message", told).hint(format!("{sent} sent before it"))
        };
        for text in whole {
            let parsed = Message::parse(&text.bytes);
            send(path, &parsed.map_err(|fault| bad(text.line, fault, sent))?, output)?;
            sent += 1;
        }
        // One that never ends would take all memory.
        if let Some(line) = texts.too_long() {
            return Err(bad(line, LineFault::TooLong, sent));
        }
        if count == 0 {
            break;
        }
    }
    if sent == 0 {
        return Err(CliError::new("bad_message", "there is nothing on stdin to send"));
    }
    output.note("Sent");
    Ok(Done::Yes)
}

/// The message that words describe.
fn message(words: &[String]) -> Result<Message, CliError> {
    let bad = |told: String| CliError::new("bad_message", told);
    match words {
        [first, ..] if first.starts_with('{') => {
            let text = words.join(" ");
            // A message is one line; between its parts a line break is a blank.
            let texts = Texts::new().all(text.as_bytes());
            let [text] = texts.as_slice() else {
                return Err(bad("that is not one JSON object".to_owned()));
            };
            Message::parse(&text.bytes).map_err(|fault| bad(format!("the message: {fault}")))
        }
        [tract, event, fields @ ..] => {
            let mut draft = Draft::new(tract, event);
            for word in fields {
                draft = field(draft, word)?;
            }
            Ok(draft.build()?)
        }
        _ => Err(bad("a message has a tract and an event".to_owned())
            .hint("`hansard bus send TRACT EVENT [KEY=VALUE]…`")),
    }
}

fn field(draft: Draft, word: &str) -> Result<Draft, CliError> {
    let refused = |why: &str| CliError::new("bad_message", format!("`{word}` {why}"));
    let (name, value) = word.split_once('=').ok_or_else(|| refused("is not KEY=VALUE"))?;
    match name {
        "" => Err(refused("has no name before the `=`")),
        "tract" | "event" => Err(refused("names what the first two words say already")),
        _ if TEXTS.contains(&name) && !value.starts_with('"') => Ok(draft.with(name, value)),
        _ => match draft.clone().with_raw(name, value) {
            Ok(draft) => Ok(draft),
            Err(_) => Ok(draft.with(name, value)),
        },
    }
}
