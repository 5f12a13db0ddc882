//! Which sources there are: a walk over the roots of the agents.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::agent::{Agent, LineageHint, SourceForm, SourceRole, SourceRoot};
use crate::database;
use crate::database_guard::{Look, LookError};
use crate::environment::Environment;
use crate::error::{Warning, WarningKind};
use crate::limit::{ACTIVE_MILLIS, LINKS_MAX};
use crate::row_reader::{self, ListedSession};
use crate::source::Source;

/// A source and what the file system says of it.
#[derive(Debug)]
pub(crate) struct DiscoveredSource {
    pub source: Source,
    pub metadata: Metadata,
    /// Its lineage hint, where a database contains it.
    pub hint: Option<LineageHint>,
    /// The time of its last message in milliseconds, where a database contains it.
    pub active: i64,
}

/// Everything an agent has written, in no order.
pub(crate) fn discover(
    agent: &dyn Agent,
    environment: &Environment,
    look: &Look<'_>,
    warnings: &mut Vec<Warning>,
) -> Vec<DiscoveredSource> {
    let mut found = Vec::new();
    for root in agent.source_roots(environment) {
        // A root that is itself a link is followed: the user put it there on purpose.
        let Ok(path) = fs::canonicalize(&root.path) else { continue };
        let root = SourceRoot { path, ..root };
        let mut walk = SourceWalk { agent, root: &root, look, warnings, found: &mut found };
        match root.path.is_file() {
            true => walk.add_file(root.path.clone(), None),
            false => walk.walk_folder(&root.path, root.depth_max, 0),
        }
    }
    one_owner(agent, &mut found);
    found
}

/// Leaves out sources of sessions that have a source of a better rank.
fn one_owner(agent: &dyn Agent, found: &mut Vec<DiscoveredSource>) {
    let rank = |found: &DiscoveredSource| agent.form_rank(found.source.form);
    // Most agents rank nothing, and need no map of thousands of sessions.
    if found.iter().all(|found| rank(found) == 0) {
        return;
    }
    let mut best: HashMap<String, u8> = HashMap::new();
    for found in found.iter() {
        let best = best.entry(found.source.session.clone()).or_insert(u8::MAX);
        *best = rank(found).min(*best);
    }
    found.retain(|found| best.get(&found.source.session) == Some(&rank(found)));
}

/// The sources in one folder and below.
pub(crate) fn discover_below(
    agent: &dyn Agent,
    environment: &Environment,
    folder: &Path,
    look: &Look<'_>,
    warnings: &mut Vec<Warning>,
) -> Vec<DiscoveredSource> {
    let mut found = Vec::new();
    within_root(agent, environment, folder, |root, depth| {
        let mut walk = SourceWalk { agent, root, look, warnings, found: &mut found };
        walk.walk_folder(folder, depth, 0);
    });
    found
}

/// The source at a path, if there is one; of a database, the sessions that were active lately.
pub(crate) fn discover_at(
    agent: &dyn Agent,
    environment: &Environment,
    path: &Path,
    look: &Look<'_>,
    warnings: &mut Vec<Warning>,
) -> Vec<DiscoveredSource> {
    let mut found = Vec::new();
    let path = database::database_of_log(path);
    let Some(folder) = path.parent().filter(|_| path.is_file()) else { return found };
    // A link that leads out of the root is reported when its folder is listed.
    let Ok(target) = fs::canonicalize(&path) else { return found };
    within_root(agent, environment, folder, |root, _| {
        if target.starts_with(&root.path) {
            let mut walk = SourceWalk { agent, root, look, warnings, found: &mut found };
            walk.add_file(path.to_path_buf(), None);
        }
    });
    // Only the list of all sources shows whether there is one of a better rank.
    if found.iter().any(|found| agent.form_rank(found.source.form) > 0) {
        found = discover(agent, environment, look, warnings);
        found.retain(|found| found.source.path == path);
    }
    // A file has `active` 0 and is always within the limit; only sessions of a database are left
    // out.
    let newest = found.iter().map(|found| found.active).max().unwrap_or_default();
    found.retain(|found| found.active >= newest.saturating_sub(ACTIVE_MILLIS));
    found
}

/// Gives `walk` the root that `folder` lies in, and how many folders deep it may go from there.
fn within_root(
    agent: &dyn Agent,
    environment: &Environment,
    folder: &Path,
    mut walk: impl FnMut(&SourceRoot, usize),
) {
    for root in agent.source_roots(environment) {
        let Ok(path) = fs::canonicalize(&root.path) else { continue };
        let root = SourceRoot { path, ..root };
        // A root may be one file, such as a database. Then its folder is what can be compared.
        let top = if root.path.is_file() { root.path.parent() } else { Some(&*root.path) };
        let Some(below) = top.and_then(|top| folder.strip_prefix(top).ok()) else { continue };
        // A full walk would not go deeper than this either.
        if let Some(depth) = root.depth_max.checked_sub(below.components().count()) {
            walk(&root, depth);
        }
    }
}

struct SourceWalk<'a> {
    agent: &'a dyn Agent,
    root: &'a SourceRoot,
    look: &'a Look<'a>,
    warnings: &'a mut Vec<Warning>,
    found: &'a mut Vec<DiscoveredSource>,
}

impl SourceWalk<'_> {
    fn walk_folder(&mut self, folder: &Path, depth: usize, links: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.add_warning(folder, &error),
        };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_type()?, entry))) {
                Ok((kind, entry)) if kind.is_dir() => self.list_folder(&entry.path(), depth, links),
                Ok((kind, entry)) if kind.is_symlink() => {
                    self.follow_link(entry.path(), depth, links)
                }
                Ok((kind, entry)) if kind.is_file() => self.add_file(entry.path(), Some(&entry)),
                // Sockets, pipes and devices are no transcripts.
                Ok(_) => {}
                Err(error) => self.add_warning(folder, &error),
            }
        }
    }

    fn list_folder(&mut self, folder: &Path, depth: usize, links: usize) {
        let relative = self.relative(folder).unwrap_or(folder);
        if self.agent.recognise(relative).is_some() {
            let message = "it is a folder that has the name of a transcript";
            let provider = self.agent.provider();
            self.warnings.push(Warning::new(WarningKind::Unreadable, provider, folder, message));
        }
        if depth > 0 {
            self.walk_folder(folder, depth - 1, links);
        }
    }

    /// A link is followed within its root; one that leads out is only told.
    fn follow_link(&mut self, path: PathBuf, depth: usize, links: usize) {
        let target = match fs::canonicalize(&path) {
            Ok(target) => target,
            Err(error) => return self.add_warning(&path, &error),
        };
        // Otherwise a link could bring any file of the machine into the record.
        if !target.starts_with(&self.root.path) {
            let message = "the link leads out of the agent's folder and is not followed";
            let provider = self.agent.provider();
            self.warnings.push(Warning::new(WarningKind::LeadsOut, provider, path, message));
        } else if target.is_file() {
            self.add_file(path, None);
        } else if depth > 0 && links < LINKS_MAX {
            // Counted, because links may lead in a circle within the root.
            self.walk_folder(&path, depth - 1, links + 1);
        }
    }

    /// A file that may be a source. By its entry in the folder that is being read, the system finds
    /// it without going all of its path.
    fn add_file(&mut self, path: PathBuf, entry: Option<&DirEntry>) {
        let relative = match self.relative(&path) {
            // The root itself is the file.
            Some(relative) if relative.as_os_str().is_empty() => path.file_name().map(Path::new),
            relative => relative,
        };
        let Some(found) = relative.and_then(|path| self.agent.recognise(path)) else { return };
        let metadata = match entry.map_or_else(|| fs::metadata(&path), DirEntry::metadata) {
            Ok(metadata) => metadata,
            Err(error) => return self.add_warning(&path, &error),
        };
        let provider = self.agent.provider();
        let source = Source {
            name: Source::first_name(provider, &path),
            provider,
            root: self.root.path.clone(),
            path,
            form: found.form,
            session: found.session,
            role: found.role,
            digest: None,
        };
        match source.form {
            SourceForm::Rows => self.sessions(&source, &metadata),
            _ => self.found.push(DiscoveredSource { source, metadata, hint: None, active: 0 }),
        }
    }

    /// The part of a path below the root. The walk put most of them together itself, so that their
    /// bytes tell it.
    fn relative<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let root = self.root.path.as_os_str().as_bytes();
        let below = path.as_os_str().as_bytes().strip_prefix(root);
        match below.and_then(|below| below.strip_prefix(b"/")) {
            Some(below) if !below.starts_with(b"/") => Some(Path::new(OsStr::from_bytes(below))),
            _ => path.strip_prefix(&self.root.path).ok(),
        }
    }

    /// Each session of a database is a source.
    fn sessions(&mut self, database: &Source, metadata: &Metadata) {
        let (path, look) = (&database.path, self.look);
        if let Some(warning) = look.guard.reason_to_wait(path, look.now) {
            return self.warnings.push(warning);
        }
        let sessions = match row_reader::list_sessions(self.agent, path, look) {
            Ok(sessions) => sessions,
            Err(error) => {
                return match LookError::find_in(&error) {
                    // What was not listed is listed by the next pass.
                    Some(LookError::Stopped) => {}
                    Some(_) => {
                        let provider = self.agent.provider();
                        let warning = look.guard.note_failure(provider, path, &error, look.now);
                        self.warnings.push(warning);
                    }
                    None => self.add_warning(path, &error),
                };
            }
        };
        for ListedSession { session, parent, hint, active, digest } in sessions {
            let source = Source {
                name: Source::first_name(database.provider, &database.path.join(&session)),
                session,
                role: parent.map_or(SourceRole::Main, |parent| SourceRole::Subagent { parent }),
                digest: Some(digest),
                ..database.clone()
            };
            let metadata = metadata.clone();
            self.found.push(DiscoveredSource { source, metadata, hint: Some(hint), active });
        }
    }

    /// What cannot be looked at. What is gone between listing and looking, or what a link led to,
    /// is only deleted.
    fn add_warning(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.warnings.push(Warning::unreadable(self.agent.provider(), path, error));
        }
    }
}
