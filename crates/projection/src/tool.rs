//! What a call of a tool does, and to what: one table for the tools of all agents.
//!
//! A tool that is not in the table is still told, by its name and its first text.

use std::borrow::Cow;

use event::Raw;
use event::payload::ToolResult;
use serde::{Deserialize, Serialize};

use crate::excerpt;
use crate::patch;

/// Files one call is taken to touch; a patch that names more is told by the first ones.
const FILES_MAX: usize = 50;

/// Characters that are kept of a path, of a pattern or a query, and of the first line of a command.
const PATH_CHARS_MAX: usize = 400;
const TEXT_CHARS_MAX: usize = 80;
const COMMAND_CHARS_MAX: usize = 400;

/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 80;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    Read,
    Edit,
    Create,
    Delete,
    Run,
    Search,
    Visit,
    WebSearch,
    /// Another agent does it.
    Delegate,
    Other,
}

impl Deed {
    /// Whether a file is not the same afterwards.
    pub fn modifies(self) -> bool {
        matches!(self, Deed::Edit | Deed::Create | Deed::Delete)
    }
}

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

/// Names of tools in lower case, and what they do. The agents that have them are Claude Code,
/// Codex, Gemini CLI, OpenCode, Copilot CLI, Cursor, Goose, Qwen Code and pi; several share most.
const TOOLS: &[(Deed, &str)] = &[
    (
        Deed::Read,
        "cat notebookread open_file read read_file read_files read_many_files readfile view \
         view_file view_image",
    ),
    (
        Deed::Edit,
        "apply_patch applypatch edit edit_file edit_notebook editfile editnotebook \
         file_change filechange insert insert_edit_into_file multi_edit multiedit \
         notebookedit patch replace replace_string_in_file search_replace str_replace \
         str_replace_based_edit_tool str_replace_editor strreplace text_editor",
    ),
    (Deed::Create, "create create_file createfile write write_file writefile"),
    (Deed::Delete, "delete delete_file deletefile remove_file"),
    (
        Deed::Run,
        "bash command_execution commandexecution container.exec exec exec_command \
         execute_command local_shell local_shell_call powershell run_command \
         run_in_terminal run_shell_command run_terminal_cmd run_terminal_command shell \
         shell_command",
    ),
    (
        Deed::Search,
        "codebase_search codesearch file_search find glob glob_file_search grep grep_search \
         rg ripgrep search search_file_content semantic_search semanticsearch",
    ),
    (Deed::Visit, "fetch fetch_url fetch_webpage web_fetch webfetch"),
    (Deed::WebSearch, "google_web_search web_search web_search_call websearch websearchcall"),
    (
        Deed::Delegate,
        "agent delegate delegate_task dispatch_agent invoke_agent runsubagent spawn_agent \
         subagent task",
    ),
];

const PATH_FIELDS: &[&str] = &[
    "file_path",
    "path",
    "target_file",
    "filepath",
    "filename",
    "notebook_path",
    "target_notebook",
    "absolute_path",
    "file",
    "paths",
    "files",
    "include",
];
const COMMAND_FIELDS: &[&str] = &["command", "cmd", "script", "commands"];
const PATTERN_FIELDS: &[&str] =
    &["pattern", "query", "regex", "glob_pattern", "search", "search_term", "include_pattern"];
const PLACE_FIELDS: &[&str] =
    &["path", "dir_path", "directory", "target_directory", "target_directories", "include", "glob"];
const ADDRESS_FIELDS: &[&str] = &["url", "uri", "urls", "prompt"];
const QUERY_FIELDS: &[&str] = &["query", "search_term", "q", "search", "action"];
const TASK_FIELDS: &[&str] = &["description", "task", "title", "prompt", "message"];

impl ToolUse {
    pub fn from_call(tool: &str, input: &Raw) -> ToolUse {
        let input = ToolInput::from_raw(input);
        let mut deed = deed_of_tool(tool);
        // One tool that does several things says which in `command`.
        if deed == Deed::Edit
            && let Some(command) = input.find_text(&["command"])
        {
            deed = match &*command {
                "view" => Deed::Read,
                "create" | "write" => Deed::Create,
                _ => Deed::Edit,
            };
        }
        let object = match deed {
            Deed::Read | Deed::Edit | Deed::Create | Deed::Delete => input.find_files(deed),
            Deed::Run => input.find_command(),
            Deed::Search => input.find_pattern(),
            Deed::Visit => {
                input.find_text(ADDRESS_FIELDS).map(|text| Object::Host(host_of_text(&text)))
            }
            Deed::WebSearch => input.find_text(QUERY_FIELDS).map(|text| short_text(&text)),
            Deed::Delegate => input.find_text(TASK_FIELDS).map(|text| short_text(&text)),
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
    ToolInput::from_raw(input).whole_command()
}

/// What a tool of this name does.
pub(crate) fn deed_of_tool(tool: &str) -> Deed {
    // Agents that share a tool disagree about the case of its name: `Read`, `read`.
    let name = tool.trim().to_lowercase();
    // Goose names the extension before the tool; the tools of other servers are their own.
    let name = name.strip_prefix("developer__").unwrap_or(&name);
    let row = TOOLS.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
    row.map_or(Deed::Other, |(deed, _)| *deed)
}

/// The arguments of a call: an object, JSON in a string, or plain text.
enum ToolInput {
    Members(Vec<(String, Raw)>),
    Text(String),
}

impl ToolInput {
    fn from_raw(input: &Raw) -> ToolInput {
        if let Some(members) = input.members() {
            return ToolInput::Members(members);
        }
        // Some agents pass on the arguments as the model wrote them: JSON inside a string.
        let text = input.text().unwrap_or_default();
        match Raw::parse(&*text).ok().and_then(|json| json.members()) {
            Some(members) => ToolInput::Members(members),
            None => ToolInput::Text(text),
        }
    }

    /// The first of these fields that is there, its name in any case.
    fn find_field(&self, fields: &[&str]) -> Option<&Raw> {
        let ToolInput::Members(members) = self else { return None };
        // The order of `fields` is the order of preference, not that of the input.
        fields.iter().find_map(|field| {
            let is_it = |name: &str| name.eq_ignore_ascii_case(field);
            let value = members.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value);
            value.filter(|value| !list_texts(value).is_empty())
        })
    }

    fn find_text(&self, fields: &[&str]) -> Option<String> {
        list_texts(self.find_field(fields)?).into_iter().next()
    }

    fn find_files(&self, deed: Deed) -> Option<Object> {
        // A patch names its files in its text, so it goes before any field with a path.
        let whole = match self {
            ToolInput::Text(text) => Some(Cow::Borrowed(text.as_str())),
            ToolInput::Members(_) => {
                self.find_text(&["input", "patch", "patchText", "patch_text"]).map(Cow::Owned)
            }
        };
        if let Some(files) = whole.and_then(|text| patched_object(&text)) {
            return Some(files);
        }
        if let Some(files) = self.find_changes() {
            return Some(files);
        }
        let paths = list_texts(self.find_field(PATH_FIELDS)?);
        let paths = paths.iter().take(FILES_MAX).map(|path| (deed, path_text(path)));
        Some(Object::Files(paths.collect()))
    }

    /// Changes by path, each with its type, as Codex tells what a patch did.
    fn find_changes(&self) -> Option<Object> {
        #[derive(Deserialize)]
        struct FileChange {
            #[serde(rename = "type")]
            kind: String,
        }
        let ToolInput::Members(members) = self else { return None };
        let (_, changes) = members.iter().find(|(name, _)| name == "changes")?;
        let files = changes.members()?.into_iter().take(FILES_MAX).map(|(path, change)| {
            let change = change.read::<FileChange>();
            let deed = match change.as_ref().map_or("", |change| change.kind.as_str()) {
                "add" => Deed::Create,
                "delete" => Deed::Delete,
                _ => Deed::Edit,
            };
            (deed, path_text(&path))
        });
        let files: Vec<_> = files.collect();
        (!files.is_empty()).then_some(Object::Files(files))
    }

    fn whole_command(&self) -> Option<String> {
        Some(match self {
            // The text may be a script that calls tools; the command in it is the work.
            ToolInput::Text(text) => patch::called_by_script(text).unwrap_or_else(|| text.clone()),
            ToolInput::Members(_) => {
                let words = list_texts(self.find_field(COMMAND_FIELDS)?);
                match words.as_slice() {
                    // `bash -lc "…"`: the words in front are only the way to a shell.
                    [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => {
                        script.clone()
                    }
                    words => words.join(" "),
                }
            }
        })
    }

    fn find_command(&self) -> Option<Object> {
        let command = self.whole_command()?;
        // `apply_patch <<'EOF' …` changes files, though it runs in a shell.
        if let Some(files) = patched_object(&command) {
            return Some(files);
        }
        let line = excerpt::first_line(&command, COMMAND_CHARS_MAX);
        (!line.is_empty()).then_some(Object::Command(line))
    }

    fn find_pattern(&self) -> Option<Object> {
        let pattern = match self {
            ToolInput::Text(text) => text.clone(),
            ToolInput::Members(_) => self.find_text(PATTERN_FIELDS)?,
        };
        let place = self.find_text(PLACE_FIELDS).filter(|place| *place != pattern);
        Some(Object::Pattern {
            pattern: excerpt::beginning(&excerpt::one_line(&pattern), TEXT_CHARS_MAX),
            place: place.map(|place| path_text(&place)),
        })
    }

    /// The first text there is, at any place.
    fn first_text(&self) -> Option<String> {
        match self {
            ToolInput::Text(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            ToolInput::Members(members) => {
                members.iter().find_map(|(_, value)| list_texts(value).into_iter().next())
            }
        }
    }
}

/// A text, or the texts of a list, without blank ones.
fn list_texts(value: &Raw) -> Vec<String> {
    let texts = match value.text() {
        Some(text) => vec![text],
        None => value.elements().unwrap_or_default().iter().filter_map(Raw::text).collect(),
    };
    texts.into_iter().filter(|text| !text.trim().is_empty()).collect()
}

fn patched_object(text: &str) -> Option<Object> {
    let files: Vec<_> = patch::patched_files(text).take(FILES_MAX).collect();
    let files: Vec<_> = files.into_iter().map(|(deed, path)| (deed, path_text(path))).collect();
    (!files.is_empty()).then_some(Object::Files(files))
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
