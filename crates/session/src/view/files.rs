//! The files a session worked with, and the block that reminds the model of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use event::payload::{Content, ContextKind, Placement};
use event::{Kind, Raw};

use super::entry::{HistoryEntry, Role};

/// Files of each list that the block prints, unless told otherwise.
pub const FILES_MAX: usize = 5;

/// Files by what was done to them; the newest touch is last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileLists {
    pub read: Vec<String>,
    pub modified: Vec<String>,
}

impl FileLists {
    /// Both lists with what was touched later behind it; a path stands once, at its last touch.
    pub fn merge_with(&self, later: &FileLists) -> FileLists {
        let joined = |first: &[String], second: &[String]| {
            last_touches(first.iter().chain(second).map(String::as_str))
        };
        FileLists {
            read: joined(&self.read, &later.read),
            modified: joined(&self.modified, &later.modified),
        }
    }

    /// The files that calls touched, by their results. Calls that failed touched nothing.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = &'a HistoryEntry>,
        tools: &FileTools,
    ) -> FileLists {
        let mut files = FileLists::default();
        for note in entries.into_iter().filter_map(|entry| entry.note.as_ref()) {
            // A failed edit has changed nothing, and a failed read has shown nothing.
            if note.is_error {
                continue;
            }
            let Some((touch, path)) = tools.touched_file(&note.name, &note.input) else { continue };
            match touch {
                Touch::Read => files.read.push(path),
                Touch::Modified => files.modified.push(path),
            }
        }
        FileLists::default().merge_with(&files)
    }

    /// The block that names the files, or none if there are none.
    pub(crate) fn working_set(&self, files_max: usize) -> Option<HistoryEntry> {
        let files_max = if files_max == 0 { FILES_MAX } else { files_max };
        let modified = last_touches(self.modified.iter().map(String::as_str));
        let known: HashSet<&str> = modified.iter().map(String::as_str).collect();
        // A file that was read and modified is printed once, as modified.
        let read = self.read.iter().map(String::as_str).filter(|path| !known.contains(path));
        let read = last_touches(read);
        if modified.is_empty() && read.is_empty() {
            return None;
        }
        let mut text = String::from("<working_set>\n");
        print_files(&mut text, "Modified files:", &modified, files_max);
        print_files(&mut text, "Read-only files:", &read, files_max);
        text.push_str("</working_set>");
        let mut entry =
            HistoryEntry::without_event(Kind::ContextAdded, Role::User, Content::text(text));
        entry.context_kind = Some(ContextKind::WorkingSet);
        entry.placement = Some(Placement::Prefix);
        Some(entry)
    }
}

/// What a call does to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    Read,
    Modified,
}

/// Which tools touch files, and where their input names the file. Adapters add the names their
/// agents use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileTools {
    tools: BTreeMap<String, Touch>,
    path_fields: Vec<String>,
}

impl Default for FileTools {
    fn default() -> FileTools {
        let read = ["read", "read_file", "list", "list_dir", "grep", "glob", "search"];
        let modified = ["write", "write_file", "edit", "multi_edit"];
        let mut tools = FileTools {
            tools: BTreeMap::new(),
            path_fields: vec!["path".to_owned(), "file_path".to_owned()],
        };
        read.into_iter().for_each(|name| tools.add_tool(name, Touch::Read));
        modified.into_iter().for_each(|name| tools.add_tool(name, Touch::Modified));
        tools
    }
}

impl FileTools {
    pub fn add_tool(&mut self, name: impl Into<String>, touch: Touch) {
        self.tools.insert(name.into(), touch);
    }

    pub fn add_path_field(&mut self, field: impl Into<String>) {
        self.path_fields.push(field.into());
    }

    /// The file a call touches, if it is one of these tools and names one.
    pub fn touched_file(&self, tool: &str, input: &Raw) -> Option<(Touch, String)> {
        let touch = *self.tools.get(tool)?;
        // Some providers send the arguments as JSON inside a string.
        let members = match input.text() {
            Some(text) => Raw::parse(text).ok()?.members()?,
            None => input.members()?,
        };
        self.path_fields
            .iter()
            .filter_map(|field| members.iter().find(|(name, _)| name == field))
            .filter_map(|(_, value)| value.text())
            .find(|path| !path.trim().is_empty())
            .map(|path| (touch, path))
    }
}

/// Each path once, where it stands last.
fn last_touches<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut touches: HashMap<&str, usize> = HashMap::new();
    for (place, path) in paths.enumerate() {
        touches.insert(path, place);
    }
    let mut unique: Vec<(usize, &str)> =
        touches.into_iter().map(|(path, place)| (place, path)).collect();
    unique.sort_unstable();
    unique.into_iter().map(|(_, path)| path.to_owned()).collect()
}

fn print_files(text: &mut String, heading: &str, files: &[String], files_max: usize) {
    if files.is_empty() {
        return;
    }
    text.push_str(heading);
    text.push('\n');
    // The newest touch is last in the list, so the cut drops the oldest files.
    let cut = files.len().saturating_sub(files_max);
    let mut newest: Vec<&str> = files[cut..].iter().map(String::as_str).collect();
    newest.sort_unstable();
    for path in newest {
        text.push_str("- ");
        text.push_str(path);
        text.push('\n');
    }
    if cut > 0 {
        text.push_str(&format!("- … and {cut} more\n"));
    }
}
