//! Names and arguments of the tools of MCP servers, as agents write them.

use event::{Deed, Raw};

/// Levels of an input that are looked into.
const DEPTH_MAX: usize = 6;

/// Texts of one input that are looked at.
const TEXTS_MAX: usize = 10_000;

/// One way to read the name of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerReading {
    pub server: String,
    pub tool: String,
    /// Whether the name says so itself, or the agent names the server beside it. Otherwise it may
    /// be a tool of the agent's own.
    pub is_certain: bool,
}

/// The ways to read the name of a tool as one of a server: `mcp__db__query` of Claude Code and
/// Codex, `MCP:query` beside the server's name of Cursor, `db_query` of OpenCode, `db-query` of
/// Copilot CLI, `db__query` of Goose and Gemini CLI.
pub(crate) fn readings(tool: &str, server: Option<&str>) -> Vec<ServerReading> {
    let reading = |server: &str, tool: &str, is_certain: bool| ServerReading {
        server: server.to_owned(),
        tool: tool.to_owned(),
        is_certain,
    };
    let marked = ["mcp__", "MCP__", "MCP:", "mcp:"].iter().find_map(|mark| tool.strip_prefix(mark));
    if let Some(server) = server.filter(|server| !server.is_empty()) {
        let bare = marked.unwrap_or(tool);
        // The name may repeat the server.
        let is_repeated = |rest: &&str| rest.starts_with(['_', '-', '.', '/', ':']);
        let rest = bare.strip_prefix(server).filter(is_repeated);
        let bare = rest.map_or(bare, |rest| rest.trim_start_matches(['_', '-', '.', '/', ':']));
        return vec![reading(server, bare, true)];
    }
    if let Some(rest) = marked {
        let splits: Vec<_> = split_at(rest, &["__"]);
        if !splits.is_empty() {
            // `a__b__c` is a tool of `a` or of `a__b`.
            return splits.into_iter().map(|(server, tool)| reading(server, tool, true)).collect();
        }
        return vec![reading("", rest, true)];
    }
    if Deed::of_tool(tool) != Deed::Other {
        return Vec::new();
    }
    let splits = split_at(tool, &["__", "_", "-", ".", "/", ":"]);
    splits.into_iter().map(|(server, tool)| reading(server, tool, false)).collect()
}

/// A name in two, at each place of each separator.
fn split_at<'n>(name: &'n str, separators: &[&str]) -> Vec<(&'n str, &'n str)> {
    let mut splits = Vec::new();
    for separator in separators {
        for (at, _) in name.match_indices(separator) {
            let (server, tool) = (&name[..at], &name[at + separator.len()..]);
            if !server.is_empty() && !tool.is_empty() && !splits.contains(&(server, tool)) {
                splits.push((server, tool));
            }
        }
    }
    splits
}

/// The arguments of a call as text, by their names; one in an object by all names on the way:
/// `filter.name`.
pub(crate) fn arguments(input: &Raw) -> Vec<(String, String)> {
    let mut arguments = Vec::new();
    walk(input, &mut |name, value| {
        if !name.is_empty() {
            arguments.push((name.to_owned(), value.to_owned()));
        }
    });
    arguments
}

/// Calls a function with the name and the text of each value in an input.
pub(crate) fn walk(input: &Raw, visit: &mut dyn FnMut(&str, &str)) {
    let mut left = TEXTS_MAX;
    // Some agents pass on JSON in a string.
    let inside = input.text().and_then(|text| Raw::parse(text).ok());
    match inside.filter(|inside| inside.members().is_some()) {
        Some(inside) => walk_value(&inside, "", 0, &mut left, visit),
        None => walk_value(input, "", 0, &mut left, visit),
    }
}

fn walk_value(
    value: &Raw,
    name: &str,
    depth: usize,
    left: &mut usize,
    visit: &mut dyn FnMut(&str, &str),
) {
    if *left == 0 {
        return;
    }
    if depth < DEPTH_MAX
        && let Some(members) = value.members()
    {
        for (member, value) in members {
            let name = if name.is_empty() { member } else { format!("{name}.{member}") };
            walk_value(&value, &name, depth + 1, left, visit);
        }
    } else if depth < DEPTH_MAX
        && let Some(elements) = value.elements()
    {
        for element in elements {
            walk_value(&element, name, depth + 1, left, visit);
        }
    } else {
        *left -= 1;
        match value.text() {
            Some(text) => visit(name, &text),
            None => visit(name, value.get()),
        }
    }
}
