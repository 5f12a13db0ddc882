//! What a call of a tool does, and to what, in words that fit a list. Which tool does what is
//! decided in `event`.
//!
//! A tool that `event` does not know is still told, by its name and its first text.

use event::payload::ToolResult;
use event::{Deed, Raw, ToolInput};
use serde::{Deserialize, Serialize};

use crate::excerpt;

/// Files one call is taken to touch; a patch that names more is told by the first ones.
const FILES_MAX: usize = 50;

/// Characters that are kept of a path, of a pattern or a query, and of the first line of a command.
const PATH_CHARS_MAX: usize = 400;
const TEXT_CHARS_MAX: usize = 80;
const COMMAND_CHARS_MAX: usize = 400;

/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 80;

/// A call in words of ours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolUse {
    /// As the agent calls it.
    pub tool: String,
    pub deed: Deed,
    pub object: Object,
}

/// What it is done to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// Files with what happens to each, paths as the agent wrote them.
    Files(Vec<(Deed, String)>),
    /// The first line of a command.
    Command(String),
    Pattern {
        pattern: String,
        place: Option<String>,
    },
    /// The host of an address, or its beginning.
    Host(String),
    Text(String),
    Nothing,
}

impl ToolUse {
    pub fn from_call(tool: &str, input: &Raw) -> ToolUse {
        let input = ToolInput::from_raw(input);
        let deed = input.deed(tool);
        let object = match deed {
            Deed::Read | Deed::Edit | Deed::Create | Deed::Delete => {
                files_object(input.files(deed))
            }
            Deed::Run => command_object(&input),
            Deed::Search => pattern_object(&input),
            Deed::Visit => input.address().map(|text| Object::Host(host_of_text(&text))),
            Deed::WebSearch => input.query().map(|text| short_text(&text)),
            Deed::Delegate => input.task().map(|text| short_text(&text)),
            Deed::Other => None,
        };
        // A tool of another server, or a known one with unknown fields, is still told by its first
        // text.
        let object = object.or_else(|| input.first_text().map(|text| short_text(&text)));
        let deed = match &object {
            // A patch may be handed to a shell.
            Some(Object::Files(_)) if deed == Deed::Run => Deed::Edit,
            _ => deed,
        };
        let tool = excerpt::beginning(&excerpt::one_line(tool), NAME_CHARS_MAX);
        ToolUse { tool, deed, object: object.unwrap_or(Object::Nothing) }
    }

    /// The files it touches, and how.
    pub fn files(&self) -> &[(Deed, String)] {
        match &self.object {
            Object::Files(files) => files,
            _ => &[],
        }
    }

    /// The first line of the command it runs.
    pub fn command(&self) -> Option<&str> {
        match &self.object {
            Object::Command(command) => Some(command),
            _ => None,
        }
    }
}

/// Whether a call failed: as its result says, or by the code its command ended with. What an
/// agent makes up to mend its history after a crash is no failure of the tool.
pub(crate) fn has_failed(result: &ToolResult) -> bool {
    let has_bad_exit = result.exit_code.is_some_and(|code| code != 0);
    (result.is_error() || has_bad_exit) && !result.repair
}

/// The whole of the command in the input of a call, all its lines.
pub(crate) fn whole_command(input: &Raw) -> Option<String> {
    Some(ToolInput::from_raw(input).command()?.into_text())
}

/// The files of a call as an object; none is no object. A patch may name more than are told.
fn files_object(files: Vec<(Deed, String)>) -> Option<Object> {
    let files = files.into_iter().take(FILES_MAX).map(|(deed, path)| (deed, path_text(&path)));
    let files: Vec<_> = files.collect();
    (!files.is_empty()).then_some(Object::Files(files))
}

fn command_object(input: &ToolInput) -> Option<Object> {
    let command = input.command()?.into_text();
    // `apply_patch <<'EOF' …` changes files, though it runs in a shell.
    if let Some(files) = files_object(event::patched_files(&command)) {
        return Some(files);
    }
    let line = excerpt::first_line(&command, COMMAND_CHARS_MAX);
    (!line.is_empty()).then_some(Object::Command(line))
}

fn pattern_object(input: &ToolInput) -> Option<Object> {
    let (pattern, place) = input.pattern()?;
    Some(Object::Pattern {
        pattern: excerpt::beginning(&excerpt::one_line(&pattern), TEXT_CHARS_MAX),
        place: place.map(|place| path_text(&place)),
    })
}

fn path_text(path: &str) -> String {
    excerpt::beginning(&excerpt::one_line(path), PATH_CHARS_MAX)
}

fn short_text(text: &str) -> Object {
    Object::Text(excerpt::first_line(text, TEXT_CHARS_MAX))
}

/// The host of the first address in a text, or the beginning of the text without its scheme.
fn host_of_text(text: &str) -> String {
    let line = excerpt::one_line(text);
    let address = line.split(' ').find(|word| word.contains("://")).unwrap_or(&line);
    let bare = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = bare.split(['/', '?', '#']).next().unwrap_or_default();
    // A user name and a password may stand before the host, and must not be shown.
    let host = authority.rsplit('@').next().unwrap_or_default();
    // `ADDRESS_FIELDS` has `prompt`, too, which is a sentence with an address somewhere in it, or
    // without one.
    let is_host = host.contains('.') || host.starts_with("localhost") || host.starts_with('[');
    let is_host = is_host && !host.contains(char::is_whitespace) && bare.len() < address.len();
    if is_host {
        excerpt::beginning(host, TEXT_CHARS_MAX)
    } else {
        excerpt::beginning(bare, TEXT_CHARS_MAX)
    }
}
