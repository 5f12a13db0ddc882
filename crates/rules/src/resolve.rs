//! Paths without `.` and `..`, by their text alone.

use crate::pattern::ResolvedPath;

/// Where relative paths start.
pub(crate) struct Folders<'f> {
    pub cwd: Option<&'f str>,
    pub project_root: Option<&'f str>,
    pub home: Option<&'f str>,
}

pub(crate) fn resolve(text: &str, folders: &Folders<'_>) -> ResolvedPath {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let home = ["~", "$HOME", "${HOME}"].iter().find_map(|mark| {
        let rest = text.strip_prefix(mark)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    let absolute = match (home, folders.home, folders.cwd) {
        (Some(rest), Some(home), _) => Some(names(&[home, rest])),
        (Some(_), None, _) => None,
        (None, ..) if text.starts_with('/') => Some(names(&[text])),
        (None, _, Some(cwd)) => Some(names(&[cwd, text])),
        (None, _, None) => None,
    };
    let below = |folder: Option<&str>| {
        let folder = names(&[folder?]);
        let names = absolute.as_deref()?.strip_prefix(folder.as_slice())?;
        Some(names.to_vec())
    };
    let in_home = match (home, folders.home) {
        (Some(rest), None) => Some(names(&[rest])),
        _ => below(folders.home),
    };
    let in_folder = match &absolute {
        Some(_) => below(folders.cwd),
        // Without a folder to start from the text is all there is.
        None if home.is_none() => Some(names(&[text])),
        None => None,
    };
    let in_project = below(folders.project_root.or(folders.cwd));
    ResolvedPath { in_project, in_folder, in_home, absolute }
}

/// The names of a path after `.` and `..` are resolved. Above the root is the root.
fn names(parts: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in parts.iter().flat_map(|part| part.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name.to_owned()),
        }
    }
    names
}
