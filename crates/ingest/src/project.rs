//! Which project a session works on, from the folder it works in.
//!
//! Repositories are looked at, never run: what is read of one is a few small files, and nothing of
//! it is executed. Folders on a network are not looked at, because one that does not answer would
//! hold up everything else.

mod config; // a repository's settings
mod mounts; // which folders are here
mod remote; // where a repository comes from
mod repository; // the repository a folder belongs to

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;

use event::payload::{SessionStarted, SettingsChanged};
use event::{Draft, Kind, Raw};

use mounts::Mounts;
use remote::Remote;
use repository::Repository;

/// Folders that are remembered; beyond it all are forgotten and looked at again.
const FOLDERS_MAX: usize = 10_000;

/// Bytes of a folder's name. A longer one is no path.
const FOLDER_BYTES_MAX: usize = 4_096;

/// The project around a folder, for a caller that looks once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectAround {
    /// As sessions are named after it.
    pub name: Option<String>,
    /// The top of its repository, or of the worktree; the folder itself without a repository.
    pub root: Option<String>,
}

impl ProjectAround {
    pub fn find(cwd: &str) -> ProjectAround {
        let projects = Projects::new();
        if !is_folder_name(cwd) {
            return ProjectAround::default();
        }
        let around = || Repository::find_around(Path::new(cwd));
        let repository = projects.may_look(cwd).then(around).flatten();
        let root = match &repository {
            Some(repository) => repository.top().to_str().map(str::to_owned),
            None => Some(cwd.to_owned()),
        };
        ProjectAround { name: place_of(cwd, repository).project, root }
    }
}

/// The projects of folders, each looked at once.
pub(crate) struct Projects {
    /// Read with the first folder.
    mounts: OnceCell<Mounts>,
    known: HashMap<String, Place>,
}

/// What is known of a folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Place {
    project: Option<String>,
    remote: Option<String>,
}

impl Projects {
    pub(crate) fn new() -> Projects {
        Projects { mounts: OnceCell::new(), known: HashMap::new() }
    }

    /// Adds the project to events that say where a session works.
    pub(crate) fn add_project(&mut self, draft: &mut Draft) {
        match draft.kind {
            Kind::SessionStarted => {
                let Ok(mut started) = draft.data.read::<SessionStarted>() else { return };
                // What the agent says itself stays.
                if started.project.is_some() || (started.cwd.is_none() && started.remote.is_none())
                {
                    return;
                }
                let told = started.remote.as_deref().and_then(Remote::parse);
                let place = match told {
                    // What the agent itself says of it goes first.
                    Some(remote) => Place { project: Some(remote.project), remote: None },
                    None => self.cached_place(started.cwd.as_deref().unwrap_or_default()),
                };
                started.project = place.project;
                started.remote = started.remote.or(place.remote);
                // It was just read from the same form.
                draft.data = Raw::from_value(&started).expect("payloads always encode");
            }
            Kind::SettingsChanged => {
                let Ok(mut changed) = draft.data.read::<SettingsChanged>() else { return };
                // Only a change of folder without a project needs one.
                let Some(cwd) = changed.cwd.as_deref().filter(|_| changed.project.is_none()) else {
                    return;
                };
                changed.project = self.cached_place(cwd).project;
                draft.data = Raw::from_value(&changed).expect("payloads always encode");
            }
            _ => {}
        }
    }

    /// The project of a folder.
    pub(crate) fn find_project(&mut self, cwd: &str) -> Option<String> {
        self.cached_place(cwd).project
    }

    /// Whether a folder is on this machine, so that reading it cannot block on a network.
    pub(crate) fn may_look(&self, cwd: &str) -> bool {
        is_folder_name(cwd) && !self.mounts.get_or_init(Mounts::read).is_remote(Path::new(cwd))
    }

    fn cached_place(&mut self, cwd: &str) -> Place {
        // Thousands of events name the same few folders.
        if let Some(place) = self.known.get(cwd) {
            return place.clone();
        }
        if self.known.len() >= FOLDERS_MAX {
            self.known.clear();
        }
        let place = self.find_place(cwd);
        self.known.insert(cwd.to_owned(), place.clone());
        place
    }

    fn find_place(&self, cwd: &str) -> Place {
        if !is_folder_name(cwd) {
            return Place::default();
        }
        let around = || Repository::find_around(Path::new(cwd));
        place_of(cwd, self.may_look(cwd).then(around).flatten())
    }
}

/// What is known of a folder in this repository, or in none.
fn place_of(cwd: &str, repository: Option<Repository>) -> Place {
    // Without a repository the folder itself is the project.
    let Some(repository) = repository else {
        return Place { project: Some(cwd.to_owned()), remote: None };
    };
    match repository.remote_url().and_then(|url| Remote::parse(&url)) {
        Some(remote) => Place { project: Some(remote.project), remote: Some(remote.url) },
        None => {
            // A repository without a remote is named after its main folder, for all its
            // worktrees.
            Place { project: repository.main_folder().to_str().map(str::to_owned), remote: None }
        }
    }
}

/// Whether a text names a folder at all.
fn is_folder_name(cwd: &str) -> bool {
    let is_plain = Path::new(cwd).is_absolute() && !cwd.contains(char::is_control);
    is_plain && cwd.len() <= FOLDER_BYTES_MAX
}

#[cfg(test)]
mod tests;
