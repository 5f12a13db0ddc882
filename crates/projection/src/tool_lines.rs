//! What was done between two things that were said: runs of calls in a few lines.
//!
//! Files first, then commands, searches, the web, and everything else. An unknown tool is named
//! like any other.

use event::{Deed, EventId};
use serde::{Deserialize, Serialize};

use crate::command;
use crate::excerpt;
use crate::id_hash::IdHash;
use crate::tool::{Object, ToolUse};

/// Names, commands and hosts that are written out; of more only the number is told.
const NAMED_MAX: usize = 3;

/// Programs and tools that are named with their counts.
const COUNTED_MAX: usize = 8;

/// Characters of a command: alone, and among others.
const COMMAND_CHARS_MAX: usize = 120;
const COMMAND_AMONG_CHARS_MAX: usize = 60;

/// Characters of a path or a list of them.
const PATHS_CHARS_MAX: usize = 240;

/// A call in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RunCall {
    pub(crate) call: IdHash,
    pub(crate) event_id: EventId,
    pub(crate) used: ToolUse,
    pub(crate) has_failed: bool,
}

/// One call in a line of its own: its tool, and what it is about.
pub(crate) fn tool_line(used: &ToolUse, cwd: Option<&str>) -> String {
    match object_text(&relative_to(used.clone(), cwd)) {
        Some(object) => format!("[TOOL] {}: {object}", used.tool),
        None => format!("[TOOL] {}", used.tool),
    }
}

/// The call with paths as seen from the folder the agent works in.
pub(crate) fn relative_to(mut used: ToolUse, cwd: Option<&str>) -> ToolUse {
    let Some(cwd) = cwd.map(|cwd| cwd.trim_end_matches('/')).filter(|cwd| !cwd.is_empty()) else {
        return used;
    };
    let shorten = |path: &mut String| {
        // With its slash: the folder `app2` does not lie in `app`.
        if let Some(rest) = path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/'))
            && !rest.is_empty()
        {
            *path = rest.to_owned();
        }
    };
    match &mut used.object {
        Object::Files(files) => files.iter_mut().for_each(|(_, path)| shorten(path)),
        Object::Pattern { place: Some(place), .. } => shorten(place),
        _ => {}
    }
    used
}

/// The lines that tell a run of calls.
pub(crate) fn describe_run(run: &[RunCall]) -> Vec<String> {
    let mut lines = Vec::new();
    for (deed, word) in [
        (Deed::Read, "Read"),
        (Deed::Edit, "Edited"),
        (Deed::Create, "Created"),
        (Deed::Delete, "Deleted"),
    ] {
        let files = run.iter().flat_map(|call| call.used.files());
        let paths = files.filter(|(done, _)| *done == deed).map(|(_, path)| path.as_str());
        lines.extend(files_line(word, &NameCounts::from_names(paths)));
    }
    lines.extend(commands_line(run));
    lines.extend(searches_line(run));
    let objects = |deed| list_objects(run, deed);
    lines.extend(web_line("Visited ", "sites", objects(Deed::Visit)));
    let queries = objects(Deed::WebSearch).into_iter().map(|query| format!("'{query}'")).collect();
    lines.extend(web_line("Web search: ", "queries", queries));
    lines.extend(others_line(run));
    lines.iter().map(|line| format!("[ACTIVITY] {line}")).collect()
}

fn files_line(word: &str, paths: &NameCounts<'_>) -> Option<String> {
    let text = match paths.0.as_slice() {
        [] => return None,
        [(path, count)] => format!("{word} {}", name_with_count(path, *count)),
        several => {
            // Several files are told by what they share:
            //
            //     folder, few files    Edited 2 files in src/ (a.rs, b.rs)
            //     folder, many files   Edited 9 files in src/
            //     none, few files      Edited a.rs, lib/b.rs
            //     none, many files     Edited 9 files in 4 folders
            let folder = common_folder(several);
            let is_named = several.len() <= NAMED_MAX;
            let names: Vec<String> = several
                .iter()
                .map(|(path, count)| name_with_count(&path[folder.len()..], *count))
                .collect();
            match (folder, is_named) {
                ("", true) => format!("{word} {}", names.join(", ")),
                ("", false) => {
                    let folders =
                        NameCounts::from_names(several.iter().map(|(path, _)| folder_of(path)));
                    let folders = match folders.0.len() {
                        1 => String::new(),
                        count => format!(" in {count} folders"),
                    };
                    format!("{word} {} files{folders}", several.len())
                }
                (folder, true) => {
                    format!("{word} {} files in {folder} ({})", several.len(), names.join(", "))
                }
                (folder, false) => format!("{word} {} files in {folder}", several.len()),
            }
        }
    };
    Some(excerpt::beginning(&text, PATHS_CHARS_MAX))
}

fn commands_line(run: &[RunCall]) -> Option<String> {
    let ran: Vec<(&str, bool)> =
        run.iter().filter_map(|call| Some((call.used.command()?, call.has_failed))).collect();
    let failures = match ran.iter().filter(|(_, has_failed)| *has_failed).count() {
        0 => String::new(),
        count => format!(", {count} failed"),
    };
    let programs =
        NameCounts::from_names(ran.iter().map(|(command, _)| command::program_of_line(command)));
    let text = match (ran.as_slice(), programs.0.as_slice()) {
        ([], _) => return None,
        ([(command, _)], _) => format!("Ran: {}", excerpt::beginning(command, COMMAND_CHARS_MAX)),
        // From the most exact to the shortest: one command, one program, a few commands, many.
        (several, [(program, _)]) => format!("Ran {} {program} commands", several.len()),
        (several, _) if several.len() <= NAMED_MAX => {
            let cut =
                |(command, _): &(&str, bool)| excerpt::beginning(command, COMMAND_AMONG_CHARS_MAX);
            format!("Ran: {}", several.iter().map(cut).collect::<Vec<_>>().join("; "))
        }
        (several, _) => {
            let count = |name: &str, count| format!("{name} {count}");
            format!("Ran {} commands ({})", several.len(), programs.most_frequent(count))
        }
    };
    Some(text + &failures)
}

fn searches_line(run: &[RunCall]) -> Option<String> {
    let searches = run.iter().filter(|call| call.used.deed == Deed::Search);
    let searches: Vec<String> = searches.filter_map(|call| object_text(&call.used)).collect();
    match searches.as_slice() {
        [] => None,
        [search] => Some(format!("Searched: {search}")),
        several => Some(format!("Searched the code ({} queries)", several.len())),
    }
}

fn web_line(words: &str, things: &str, objects: Vec<String>) -> Option<String> {
    let objects = NameCounts::from_names(objects.iter().map(String::as_str));
    match objects.0.len() {
        0 => None,
        1..=NAMED_MAX => {
            let names: Vec<String> =
                objects.0.iter().map(|(name, count)| name_with_count(name, *count)).collect();
            Some(format!("{words}{}", names.join(", ")))
        }
        count => Some(format!("{words}{count} {things}")),
    }
}

/// Subagents, tools of other servers, unknown tools, and calls without an object.
fn others_line(run: &[RunCall]) -> Option<String> {
    let others = run.iter().map(|call| &call.used).filter(|used| match used.deed {
        Deed::Delegate | Deed::Other => true,
        // A known tool without its usual fields has no line above, and must not vanish.
        Deed::Run => used.command().is_none(),
        Deed::Read | Deed::Edit | Deed::Create | Deed::Delete => used.files().is_empty(),
        Deed::Search | Deed::Visit | Deed::WebSearch => used.object == Object::Nothing,
    });
    let others: Vec<&ToolUse> = others.collect();
    match others.as_slice() {
        [] => None,
        [used] => Some(match object_text(used) {
            Some(object) => format!("Used {}: {object}", used.tool),
            None => format!("Used {}", used.tool),
        }),
        several => {
            let names = NameCounts::from_names(several.iter().map(|used| used.tool.as_str()));
            Some(format!(
                "Used {} other tools ({})",
                several.len(),
                names.most_frequent(name_with_count)
            ))
        }
    }
}

fn list_objects(run: &[RunCall], deed: Deed) -> Vec<String> {
    let of_deed = run.iter().filter(|call| call.used.deed == deed);
    of_deed.filter_map(|call| object_text(&call.used)).collect()
}

/// What a call is about.
pub(crate) fn object_text(used: &ToolUse) -> Option<String> {
    match &used.object {
        Object::Files(files) => {
            let paths: Vec<&str> = files.iter().map(|(_, path)| path.as_str()).collect();
            Some(excerpt::beginning(&paths.join(", "), PATHS_CHARS_MAX))
        }
        Object::Command(command) => Some(excerpt::beginning(command, COMMAND_CHARS_MAX)),
        Object::Pattern { pattern, place: None } => Some(format!("'{pattern}'")),
        Object::Pattern { pattern, place: Some(place) } => Some(format!("'{pattern}' in {place}")),
        Object::Host(text) | Object::Text(text) => {
            Some(text.clone()).filter(|text| !text.is_empty())
        }
        Object::Nothing => None,
    }
}

/// Names with how often each came, in the order they came first.
struct NameCounts<'a>(Vec<(&'a str, usize)>);

impl<'a> NameCounts<'a> {
    fn from_names(names: impl Iterator<Item = &'a str>) -> NameCounts<'a> {
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for name in names {
            match counted.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counted.push((name, 1)),
            }
        }
        NameCounts(counted)
    }

    /// The names that came most often, and the number of the others.
    fn most_frequent(&self, text: impl Fn(&str, usize) -> String) -> String {
        let mut sorted = self.0.clone();
        // Stable: of equally frequent names the first to come leads.
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut texts: Vec<String> =
            sorted.iter().take(COUNTED_MAX).map(|(name, count)| text(name, *count)).collect();
        if sorted.len() > COUNTED_MAX {
            texts.push(format!("{} more", sorted.len() - COUNTED_MAX));
        }
        texts.join(", ")
    }
}

fn name_with_count(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name} ×{count}") }
}

/// The folder all paths lie in, with its slash; empty where there is none but the root.
fn common_folder<'a>(paths: &[(&'a str, usize)]) -> &'a str {
    let Some((first, _)) = paths.first() else { return "" };
    let mut folder = folder_of(first);
    while !folder.is_empty() && !paths.iter().all(|(path, _)| path.starts_with(folder)) {
        // Up by one folder. Its slash is cut first, or `folder_of` would find the same one again.
        folder = folder_of(&folder[..folder.len() - 1]);
    }
    // All absolute paths share the root, which tells nothing.
    if folder == "/" { "" } else { folder }
}

fn folder_of(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}
