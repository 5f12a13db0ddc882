//! What the tools of agents do and where their input says what they do it to: one table for all
//! agents.
//!
//! A tool that is not in the table is [`Deed::Other`]. Texts are returned whole, as the agent
//! wrote them.

use serde::{Deserialize, Serialize};

use crate::patch;
use crate::raw::Raw;

/// What a call does.
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
    /// What a tool of this name does.
    pub fn of_tool(tool: &str) -> Deed {
        // Agents that share a tool disagree about the case of its name: `Read`, `read`.
        let name = tool.trim().to_lowercase();
        // Goose names the extension before the tool; the tools of other servers are their own.
        let name = name.strip_prefix("developer__").unwrap_or(&name);
        let row = TOOLS.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
        row.map_or(Deed::Other, |(deed, _)| *deed)
    }

    /// Whether a file is not the same afterwards.
    pub fn modifies(self) -> bool {
        matches!(self, Deed::Edit | Deed::Create | Deed::Delete)
    }
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
const PATCH_FIELDS: &[&str] = &["input", "patch", "patchText", "patch_text"];
const PATTERN_FIELDS: &[&str] =
    &["pattern", "query", "regex", "glob_pattern", "search", "search_term", "include_pattern"];
const PLACE_FIELDS: &[&str] =
    &["path", "dir_path", "directory", "target_directory", "target_directories", "include", "glob"];
const ADDRESS_FIELDS: &[&str] = &["url", "uri", "urls", "prompt"];
const QUERY_FIELDS: &[&str] = &["query", "search_term", "q", "search", "action"];
const TASK_FIELDS: &[&str] = &["description", "task", "title", "prompt", "message"];

/// Levels of an input that are searched for paths. No agent nests them deeper than two.
const INSIDE_MAX: usize = 4;

/// The arguments of a call: an object, JSON in a string, or plain text.
pub enum ToolInput {
    Members(Vec<(String, Raw)>),
    Text(String),
}

/// The command in the input of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandInput {
    /// Text for a shell.
    Text(String),
    /// Several texts for a shell, one after the other.
    Texts(Vec<String>),
    /// A program and its arguments, no shell between.
    Words(Vec<String>),
}

impl CommandInput {
    /// The command as people write it. Of words that only lead to a shell, the script is left.
    pub fn into_text(self) -> String {
        match self {
            CommandInput::Text(text) => text,
            CommandInput::Texts(texts) => texts.join(" "),
            CommandInput::Words(words) => match words.as_slice() {
                // `bash -lc "…"`: the words in front are only the way to a shell.
                [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => script.clone(),
                words => words.join(" "),
            },
        }
    }
}

impl ToolInput {
    pub fn from_raw(input: &Raw) -> ToolInput {
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

    /// What this call of a tool does.
    pub fn deed(&self, tool: &str) -> Deed {
        let deed = Deed::of_tool(tool);
        // One tool that does several things says which in `command`.
        let lower = tool.to_ascii_lowercase();
        let is_editor = lower.contains("editor") || lower.contains("str_replace");
        match self.find_text(&["command"]).as_deref() {
            // Another tool ignores the field, whatever stands in it.
            _ if !is_editor => deed,
            Some("view") if deed == Deed::Edit => Deed::Read,
            Some("create" | "write") if deed == Deed::Edit => Deed::Create,
            _ => deed,
        }
    }

    /// The texts of all fields that may hold a command, if there are several, or several fields
    /// with names that differ only in case: which of them the agent reads is not known then.
    pub fn rival_commands(&self) -> Vec<String> {
        let ToolInput::Members(members) = self else { return Vec::new() };
        let is_command =
            |name: &str| COMMAND_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
        let values = members.iter().filter(|(name, _)| is_command(name));
        let texts: Vec<Vec<String>> = values.map(|(_, value)| list_texts(value)).collect();
        let named: Vec<Vec<String>> = texts.into_iter().filter(|texts| !texts.is_empty()).collect();
        if named.len() < 2 { Vec::new() } else { named.concat() }
    }

    /// Whether two fields have names that differ only in case.
    pub fn has_rival_names(&self) -> bool {
        let ToolInput::Members(members) = self else { return false };
        let mut names: Vec<String> =
            members.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether the call asks for more rights than its tool has: to run outside the sandbox.
    pub fn leaves_sandbox(&self) -> bool {
        let ToolInput::Members(members) = self else { return false };
        members.iter().any(|(name, value)| match name.as_str() {
            "dangerouslyDisableSandbox" | "with_escalated_permissions" => value.get() == "true",
            "sandbox_permissions" => value.text().is_some_and(|text| text != "use_default"),
            _ => false,
        })
    }

    /// The text of the first of these fields that is there, its name in any case.
    fn find_text(&self, fields: &[&str]) -> Option<String> {
        list_texts(self.find_field(fields)?.1).into_iter().next()
    }

    /// The command that a shell tool is given.
    pub fn command(&self) -> Option<CommandInput> {
        match self {
            // The text may be a script that calls tools; the command in it is the work.
            ToolInput::Text(text) => Some(CommandInput::Text(
                patch::called_by_script(text).unwrap_or_else(|| text.clone()),
            )),
            ToolInput::Members(_) => {
                let (name, value) = self.find_field(COMMAND_FIELDS)?;
                let texts = list_texts(value);
                Some(match value.text() {
                    Some(_) => CommandInput::Text(texts.into_iter().next()?),
                    None if name == "commands" => CommandInput::Texts(texts),
                    None => CommandInput::Words(texts),
                })
            }
        }
    }

    /// The files that a call names, with what happens to each: those of a patch, those of a list
    /// of changes, else those in the fields for paths. `deed` is what the tool does.
    pub fn files(&self, deed: Deed) -> Vec<(Deed, String)> {
        // A patch names its files in its text, so it goes before any field with a path.
        let patch = match self {
            ToolInput::Text(text) => Some(text.clone()),
            ToolInput::Members(_) => self.find_text(PATCH_FIELDS),
        };
        let patched = patch.as_deref().map(patched_files).unwrap_or_default();
        if !patched.is_empty() {
            return patched;
        }
        let changed = self.changed_files();
        if !changed.is_empty() {
            return changed;
        }
        let paths = self.find_field(PATH_FIELDS).map(|(_, value)| list_texts(value));
        paths.unwrap_or_default().into_iter().map(|path| (deed, path)).collect()
    }

    /// Every text in a field for paths, of all such fields, also in objects and lists inside.
    pub fn path_texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if let ToolInput::Members(members) = self {
            collect_path_texts(members, 0, &mut texts);
        }
        texts
    }

    /// The pattern of a search, and where it searches.
    pub fn pattern(&self) -> Option<(String, Option<String>)> {
        let pattern = match self {
            ToolInput::Text(text) => text.clone(),
            ToolInput::Members(_) => self.find_text(PATTERN_FIELDS)?,
        };
        let place = self.find_text(PLACE_FIELDS).filter(|place| *place != pattern);
        Some((pattern, place))
    }

    /// The address that is visited, or a text with addresses in it.
    pub fn address(&self) -> Option<String> {
        self.find_text(ADDRESS_FIELDS)
    }

    /// Every text that may hold an address.
    pub fn address_texts(&self) -> Vec<String> {
        match self {
            ToolInput::Text(text) => vec![text.clone()],
            ToolInput::Members(members) => {
                let is_address = |name: &str| {
                    ADDRESS_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
                };
                let values = members.iter().filter(|(name, _)| is_address(name));
                values.flat_map(|(_, value)| list_texts(value)).collect()
            }
        }
    }

    /// What is searched for on the web.
    pub fn query(&self) -> Option<String> {
        self.find_text(QUERY_FIELDS)
    }

    /// What another agent is asked to do.
    pub fn task(&self) -> Option<String> {
        self.find_text(TASK_FIELDS)
    }

    /// The first text there is, at any place.
    pub fn first_text(&self) -> Option<String> {
        match self {
            ToolInput::Text(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            ToolInput::Members(members) => {
                members.iter().find_map(|(_, value)| list_texts(value).into_iter().next())
            }
        }
    }

    /// The first of these fields that is there, its name in any case.
    fn find_field<'f>(&self, fields: &[&'f str]) -> Option<(&'f str, &Raw)> {
        let ToolInput::Members(members) = self else { return None };
        // The order of `fields` is the order of preference, not that of the input.
        fields.iter().find_map(|field| {
            let is_it = |name: &str| name.eq_ignore_ascii_case(field);
            let value = members.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value);
            let value = value.filter(|value| !list_texts(value).is_empty())?;
            Some((*field, value))
        })
    }

    /// Changes by path, each with its type, as Codex tells what a patch did.
    fn changed_files(&self) -> Vec<(Deed, String)> {
        #[derive(Deserialize)]
        struct FileChange {
            #[serde(rename = "type")]
            kind: String,
        }
        let ToolInput::Members(members) = self else { return Vec::new() };
        let changes = members.iter().find(|(name, _)| name == "changes");
        let changes = changes.and_then(|(_, changes)| changes.members()).unwrap_or_default();
        let files = changes.into_iter().map(|(path, change)| {
            let change = change.read::<FileChange>();
            let deed = match change.as_ref().map_or("", |change| change.kind.as_str()) {
                "add" => Deed::Create,
                "delete" => Deed::Delete,
                _ => Deed::Edit,
            };
            (deed, path)
        });
        files.collect()
    }
}

/// The files that a patch names, in order; none for a text that is no patch.
pub fn patched_files(text: &str) -> Vec<(Deed, String)> {
    patch::patched_files(text).map(|(deed, path)| (deed, path.to_owned())).collect()
}

fn collect_path_texts(members: &[(String, Raw)], depth: usize, texts: &mut Vec<String>) {
    let is_path = |name: &str| {
        let mut fields = PATH_FIELDS.iter().chain(PLACE_FIELDS);
        fields.any(|field| name.eq_ignore_ascii_case(field))
    };
    for (name, value) in members {
        if is_path(name) {
            texts.extend(list_texts(value));
        }
        if depth < INSIDE_MAX {
            let elements = value.elements().unwrap_or_default();
            for object in elements.iter().chain([value]).filter_map(Raw::members) {
                collect_path_texts(&object, depth + 1, texts);
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
