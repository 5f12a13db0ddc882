//! Globs over paths: `**/.env`, `src/*.rs`, `~/.ssh/**`.
//!
//! `*` stays within one name, `**` stands for any number of folders. A path is compared after `.`
//! and `..` are resolved in the text; links in the file system are not followed.

use super::BadPattern;
use crate::glob::{Case, Glob};

/// Names of one path that are compared. A longer path matches only patterns without `**`, and no
/// file system has one.
const NAMES_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PathPattern {
    names: Vec<NamePattern>,
    base: Base,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Base {
    Root,
    Home,
    /// The project, or the folder that the agent works in.
    Project,
}

#[derive(Clone, PartialEq, Debug)]
enum NamePattern {
    Name(Glob),
    AnyFolders,
}

/// A path without `.` and `..`, in the ways a pattern may mean it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ResolvedPath {
    /// From the root, if the folder is known that it starts from.
    pub absolute: Option<Vec<String>>,
    /// From the root of the project.
    pub in_project: Option<Vec<String>>,
    /// From the folder that the agent works in.
    pub in_folder: Option<Vec<String>>,
    /// From the user's home.
    pub in_home: Option<Vec<String>>,
}

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<PathPattern, BadPattern> {
        let broken = |why| BadPattern::Glob(text.to_owned(), why);
        let text = text.trim();
        let (base, rest) = match text.strip_prefix("~/") {
            Some(rest) => (Base::Home, rest),
            None if text.starts_with('/') => (Base::Root, text),
            None => (Base::Project, text),
        };
        let mut names = Vec::new();
        let mut is_folder = false;
        for name in rest.split('/') {
            is_folder = name.is_empty();
            match name {
                "" | "." => {}
                ".." => return Err(broken("`..` is resolved in paths, so it matches nothing")),
                "**" => names.push(NamePattern::AnyFolders),
                _ if name.contains("**") => {
                    return Err(broken("`**` stands for whole folders: write `**/` or `/**`"));
                }
                _ if name.contains(['[', ']', '{', '}']) => {
                    return Err(broken("only `*`, `**` and `?` are wildcards"));
                }
                _ => names.push(NamePattern::Name(Glob::parse(name))),
            }
        }
        // `src/` is everything in it.
        if is_folder && !names.is_empty() {
            names.push(NamePattern::AnyFolders);
        }
        if names.is_empty() {
            return Err(BadPattern::Empty);
        }
        // `*` alone is every file, not only those beside the project's own.
        if let [NamePattern::Name(name)] = names.as_slice()
            && name.is_lone_star()
        {
            names = vec![NamePattern::AnyFolders];
        }
        Ok(PathPattern { names, base })
    }

    /// The last name without a wildcard.
    pub(crate) fn key(&self) -> Option<String> {
        let literal = |name: &NamePattern| match name {
            NamePattern::Name(glob) => glob.as_literal(),
            NamePattern::AnyFolders => None,
        };
        self.names.iter().rev().find_map(literal).map(|name| name.to_lowercase())
    }

    /// Whether a restricting rule means this path, whichever folder its author had in
    /// mind.
    pub(crate) fn matches(&self, path: &ResolvedPath) -> bool {
        let paths: &[&Option<Vec<String>>] = match self.base {
            Base::Root => &[&path.absolute],
            Base::Home => &[&path.in_home],
            Base::Project => &[&path.in_project, &path.in_folder, &path.absolute],
        };
        let is_in = |names: &[String]| matches_names(&self.names, names, Case::Any);
        if paths.iter().any(|names| names.as_deref().is_some_and(is_in)) {
            return true;
        }
        // A lone name is that name in any folder.
        let last = [&path.absolute, &path.in_folder].into_iter().flatten().next();
        match (self.base, self.names.as_slice(), last.and_then(|names| names.last())) {
            (Base::Project, [NamePattern::Name(name)], Some(last)) => name.matches(last, Case::Any),
            _ => false,
        }
    }

    /// Whether an allow rule or an exception names this path.
    pub(crate) fn covers(&self, path: &ResolvedPath) -> bool {
        let names = match self.base {
            Base::Root => &path.absolute,
            Base::Home => &path.in_home,
            // `**/x` is meant everywhere.
            Base::Project if self.names.first() == Some(&NamePattern::AnyFolders) => &path.absolute,
            Base::Project if path.in_project.is_some() => &path.in_project,
            Base::Project => return false,
        };
        names.as_deref().is_some_and(|names| matches_names(&self.names, names, Case::Exact))
    }
}

fn matches_names(pattern: &[NamePattern], names: &[String], case: Case) -> bool {
    if names.len() > NAMES_MAX {
        return false;
    }
    // `reachable[count]`: so many names can be matched by the pattern up to here.
    let mut reachable = vec![false; names.len() + 1];
    reachable[0] = true;
    for part in pattern {
        let mut next = vec![false; names.len() + 1];
        match part {
            NamePattern::AnyFolders => {
                if let Some(first) = reachable.iter().position(|is| *is) {
                    next[first..].fill(true);
                }
            }
            NamePattern::Name(glob) => {
                for (count, name) in names.iter().enumerate() {
                    next[count + 1] = reachable[count] && glob.matches(name, case);
                }
            }
        }
        reachable = next;
    }
    reachable[names.len()]
}
