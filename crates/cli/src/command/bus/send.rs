//! `hansard bus send`: sends a message to all clients.

use std::io::{self, ErrorKind, IsTerminal, Read};
use std::path::Path;

use clap::Args;

use bus::{Draft, LineFault, Message, SendOutcome};

use super::json_splitter::JsonSplitter;
use super::{CommandResult, Completion};
use crate::error::CliError;
use crate::output::CliOutput;

/// Send a message to all clients
///
/// `send TRACT EVENT [KEY=VALUE]…` sends a value as JSON if it is valid JSON, else as text.
/// `send '{…}'` sends one JSON object. Without arguments it reads JSON texts from stdin and sends
/// each as soon as it is complete.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SendArgs {
    /// TRACT EVENT [KEY=VALUE]…, or one JSON object
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// Fields that clients expect to be strings, even if they look like numbers.
const TEXTS: &[&str] = &["day", "segment", "ref", "stream", "facet", "id", "agent_id", "import_id"];

/// Bytes of one read from stdin.
const READ_MAX: usize = 64 << 10;

impl SendArgs {
    pub(super) fn run(&self, path: &Path, output: &mut CliOutput) -> CommandResult {
        // On a terminal missing words are a mistake: reading stdin would wait for ever.
        if self.words.is_empty() && !io::stdin().is_terminal() {
            return send_stdin(path, output);
        }
        send_message(path, &build_message(&self.words)?, output)?;
        output.note("Sent");
        Ok(Completion::Success)
    }
}

pub(super) fn send_message(
    path: &Path,
    message: &Message,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    match bus::send(path, std::slice::from_ref(message)) {
        SendOutcome::Delivered => Ok(()),
        SendOutcome::Written => {
            // The message was written and is probably relayed; only the confirmation is missing.
            output.note("the bus did not confirm that it read the message");
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
            Err(if is_absent { error.not_running() } else { error })
        }
    }
}

fn send_stdin(path: &Path, output: &mut CliOutput) -> CommandResult {
    let mut texts = JsonSplitter::new();
    let mut sent = 0_u64;
    let mut buffer = vec![0; READ_MAX];
    loop {
        let count = io::stdin().read(&mut buffer)?;
        let whole = if count == 0 {
            texts.finish().into_iter().collect()
        } else {
            texts.feed(&buffer[..count])
        };
        // The count tells the user where to continue.
        let bad = |line: u64, fault: LineFault, sent: u64| {
            let told = format!("line {line} of the input: {fault}");
            CliError::new("bad_message", told).hint(format!("{sent} messages were sent before it"))
        };
        for text in whole {
            let parsed = Message::parse(&text.bytes);
            send_message(path, &parsed.map_err(|fault| bad(text.line, fault, sent))?, output)?;
            sent += 1;
        }
        // A text that never ends would take all memory.
        if let Some(line) = texts.too_long() {
            return Err(bad(line, LineFault::TooLong, sent));
        }
        if count == 0 {
            break;
        }
    }
    if sent == 0 {
        return Err(CliError::new("bad_message", "stdin has no message to send"));
    }
    output.note("Sent");
    Ok(Completion::Success)
}

/// Builds the message from the arguments.
fn build_message(words: &[String]) -> Result<Message, CliError> {
    let bad = |told: String| CliError::new("bad_message", told);
    match words {
        // Blanks before the brace are no reason to take JSON for the name of a tract.
        [first, ..] if first.trim_start().starts_with('{') => {
            let text = words.join(" ");
            // A message must be one line, so line breaks between its parts become spaces.
            let texts = JsonSplitter::new().split_all(text.as_bytes());
            let [text] = texts.as_slice() else {
                return Err(bad("not a single JSON object".to_owned()));
            };
            Message::parse(&text.bytes).map_err(|fault| bad(format!("the message: {fault}")))
        }
        [tract, event, fields @ ..] => {
            let mut draft = Draft::new(tract, event);
            for word in fields {
                draft = add_field(draft, word)?;
            }
            Ok(draft.build()?)
        }
        _ => Err(bad("a message needs a tract and an event".to_owned())
            .hint("`hansard bus send TRACT EVENT [KEY=VALUE]…`")),
    }
}

fn add_field(draft: Draft, word: &str) -> Result<Draft, CliError> {
    let refused = |why: &str| CliError::new("bad_message", format!("`{word}` {why}"));
    let (name, value) = word.split_once('=').ok_or_else(|| refused("is not KEY=VALUE"))?;
    match name {
        "" => Err(refused("has no name before the `=`")),
        "tract" | "event" => Err(refused("is already given by the first two arguments")),
        // A value in quotes is JSON and keeps its quotes' meaning.
        _ if TEXTS.contains(&name) && !value.starts_with('"') => Ok(draft.with(name, value)),
        _ => match draft.clone().with_raw(name, value) {
            Ok(draft) => Ok(draft),
            Err(_) => Ok(draft.with(name, value)),
        },
    }
}
