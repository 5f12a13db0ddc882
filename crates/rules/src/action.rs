//! What an agent wants to do, and what of it rules are compared with.

use event::{CommandInput, Deed, Raw, ToolInput};

use crate::command_line::{CommandLine, FileAccess};
use crate::pattern::{RawText, ResolvedPath};
use crate::resolve::{Folders, resolve};
use crate::server::{self, ServerReading};
use crate::tool_class::ToolClass;

/// Addresses of one call.
const HOSTS_MAX: usize = 100;

/// Bytes of the input of a call in which rules about `any` text search. What follows is not
/// searched, and no other class depends on it.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A call of a tool, as an agent announces it before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The provider: `claude`, `codex` …
    pub agent: &'a str,
    pub session: &'a str,
    /// The name of the project, such as `org/repo`.
    pub project: Option<&'a str>,
    /// The folder of the project. Relative path patterns start from it.
    pub project_root: Option<&'a str>,
    /// The folder that the agent works in.
    pub cwd: Option<&'a str>,
    /// The user's home, for patterns and paths that begin with `~/`.
    pub home: Option<&'a str>,
    /// The tool, as the agent names it.
    pub tool: &'a str,
    /// The MCP server, if the agent names it beside the tool.
    pub server: Option<&'a str>,
    /// The input of the tool, as the agent gives it: an object, or JSON in a string.
    pub input: &'a Raw,
}

/// An action taken apart.
pub(crate) struct Inspection {
    /// The class of the tool; none for one that is not known.
    pub class: Option<ToolClass>,
    pub command: Option<CommandLine>,
    pub raw_texts: Vec<RawText>,
    pub files: Vec<File>,
    /// The ways to read the name of the tool as one of an MCP server.
    pub servers: Vec<ServerReading>,
    pub arguments: Vec<(String, String)>,
    pub hosts: Vec<String>,
    /// Why no allow rule can hold, beside what the command says.
    pub obstacles: Vec<String>,
}

pub(crate) struct File {
    pub access: FileAccess,
    /// As the agent wrote it.
    pub text: String,
    pub path: ResolvedPath,
    /// Whether the tool is known to do this with the file. Otherwise only rules that stop
    /// something look at it.
    pub is_certain: bool,
}

impl Inspection {
    pub(crate) fn of(action: &Action<'_>) -> Inspection {
        let input = ToolInput::from_raw(action.input);
        let servers = server::readings(action.tool, action.server);
        let is_certain_server = servers.iter().any(|reading| reading.is_certain);
        let class = match is_certain_server {
            true => Some(ToolClass::Mcp),
            false => ToolClass::of_deed(input.deed(action.tool)),
        };
        // A tool of a server is called after what it does more often than not: `write_file`.
        let tool = servers.first().map_or(action.tool, |reading| reading.tool.as_str());
        let deed = input.deed(if is_certain_server { tool } else { action.tool });
        let command = command_of(&input, deed);
        let raw_texts = command.iter().flat_map(|command| &command.searched);
        let raw_texts = raw_texts.map(|text| RawText::new(text)).collect();
        let folders =
            Folders { cwd: action.cwd, project_root: action.project_root, home: action.home };
        let is_known = class.is_some_and(|class| class != ToolClass::Mcp);
        let mut files = files_of(&input, deed, is_known);
        if let Some(command) = &command {
            let redirected = command.files.iter().map(|(access, text)| (*access, text.clone()));
            files.extend(redirected.map(|(access, text)| (access, text, false)));
        }
        let files = files.into_iter().map(|(access, text, is_certain)| {
            let path = resolve(&text, &folders);
            File { access, text, path, is_certain }
        });
        let hosts = match deed {
            Deed::Visit => hosts_of(&input, true),
            _ if class.is_none() || class == Some(ToolClass::Mcp) => hosts_of(&input, false),
            _ => Vec::new(),
        };
        let arguments = match servers.is_empty() {
            true => Vec::new(),
            false => server::arguments(action.input),
        };
        let obstacles = obstacles(&input, &hosts);
        let files = files.collect();
        Inspection { class, raw_texts, command, files, servers, arguments, hosts, obstacles }
    }
}

/// What the input leaves open, or asks for beyond its tool.
fn obstacles(input: &ToolInput, hosts: &[String]) -> Vec<String> {
    // A blank or a tab ends the address here, and may be dropped by the program that opens it.
    let is_unclear = |text: &String| {
        let address = text.trim();
        address.contains("://")
            && address.chars().any(|c| c.is_control() || c.is_whitespace() || "\"'<>\\".contains(c))
    };
    let found = [
        (input.has_rival_names(), "two fields have the same name but for its case"),
        (!input.rival_commands().is_empty(), "several fields name a command"),
        (input.leaves_sandbox(), "it wants to leave the sandbox"),
        (hosts.len() >= HOSTS_MAX, "it names too many hosts"),
        (
            !hosts.is_empty() && input.address_texts().iter().any(is_unclear),
            "an address is not plain",
        ),
    ];
    found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, why)| why.to_owned()).collect()
}

/// The command line of a call. A tool that is not known and takes a command is taken for a shell.
fn command_of(input: &ToolInput, deed: Deed) -> Option<CommandLine> {
    if !matches!(deed, Deed::Run | Deed::Other) {
        return None;
    }
    // A tool that is not known may take any text, so only a field for commands counts.
    if deed == Deed::Other && matches!(input, ToolInput::Text(_)) {
        return None;
    }
    let rivals = input.rival_commands();
    if !rivals.is_empty() {
        let mut line = CommandLine::default();
        rivals.iter().for_each(|text| line.append(CommandLine::of_text(text)));
        return Some(line);
    }
    Some(match input.command()? {
        CommandInput::Text(text) => CommandLine::of_text(&text),
        CommandInput::Words(words) => CommandLine::of_words(&words),
        CommandInput::Texts(texts) => {
            let mut line = CommandLine::default();
            for text in texts {
                line.append(CommandLine::of_text(&text));
            }
            line
        }
    })
}

/// The files that the input names, what is done with each, and whether that is certain.
fn files_of(input: &ToolInput, deed: Deed, is_known: bool) -> Vec<(FileAccess, String, bool)> {
    let mut files = Vec::new();
    let mut add = |access: FileAccess, text: String, is_certain: bool| {
        let is_there = files.iter().any(|(known, path, _)| *known == access && *path == text);
        if !is_there {
            files.push((access, text, is_certain));
        }
    };
    // A patch may be handed to any tool, also to a shell.
    for (deed, path) in input.files(deed) {
        match deed {
            Deed::Read | Deed::Search => add(FileAccess::Read, path, is_known),
            Deed::Edit | Deed::Create | Deed::Delete => add(FileAccess::Write, path, is_known),
            Deed::Run | Deed::Visit | Deed::WebSearch | Deed::Delegate | Deed::Other => {}
        }
    }
    if let Some(command) = input.command() {
        for (_, path) in event::patched_files(&command.into_text()) {
            add(FileAccess::Write, path, is_known);
        }
    }
    for path in input.path_texts() {
        match deed {
            Deed::Read | Deed::Search => add(FileAccess::Read, path, is_known),
            Deed::Edit | Deed::Create | Deed::Delete => add(FileAccess::Write, path, is_known),
            // What such a tool does with the file is not known, so it may be either.
            Deed::Other => {
                add(FileAccess::Read, path.clone(), false);
                add(FileAccess::Write, path, false);
            }
            Deed::Run | Deed::Visit | Deed::WebSearch | Deed::Delegate => {}
        }
    }
    files
}

/// The hosts of all addresses. An address in a field of its own may lack its scheme.
fn hosts_of(input: &ToolInput, is_visit: bool) -> Vec<String> {
    let mut hosts = Vec::new();
    for text in input.address_texts() {
        let words = text.split(|c: char| c.is_whitespace() || "\"'<>()".contains(c));
        let addresses: Vec<&str> = words.filter(|word| word.contains("://")).collect();
        let is_bare =
            addresses.is_empty() && is_visit && !text.trim().contains(char::is_whitespace);
        let addresses = if is_bare { vec![text.trim()] } else { addresses };
        for address in addresses {
            let host = host_of(address);
            if !host.is_empty() && hosts.len() < HOSTS_MAX {
                hosts.push(host);
            }
        }
    }
    hosts
}

fn host_of(address: &str) -> String {
    let behind = address.split_once("://").map_or(address, |(_, behind)| behind);
    let authority = behind.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // A user's name and password may stand before the host.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_lowercase()
}

/// Every text in the input, one per line, in lower case.
pub(crate) fn texts_of(input: &Raw) -> String {
    let mut text = String::new();
    server::walk(input, &mut |_, value| {
        if text.len() < TEXT_BYTES_MAX {
            text.push_str(&value.to_lowercase());
            text.push('\n');
        }
    });
    text
}
