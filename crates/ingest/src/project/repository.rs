//! The repository a folder belongs to, found as git does: upwards, through worktrees and
//! submodules.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::config::Config;

/// Folders that are gone up through.
const LEVELS_MAX: usize = 64;

/// Bytes of a file of a repository. Of a longer one this much is read.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A repository, or one of its worktrees.
pub(super) struct Repository {
    /// Where this worktree keeps what is its own, as the branch it is on.
    own: PathBuf,
    /// What all worktrees share.
    common: PathBuf,
    /// The folder in which it was found.
    top: PathBuf,
}

impl Repository {
    /// The repository around a folder, whether the folder is still there or not.
    pub(super) fn find_around(folder: &Path) -> Option<Repository> {
        folder.ancestors().take(LEVELS_MAX).find_map(Repository::open_at_top)
    }

    fn open_at_top(top: &Path) -> Option<Repository> {
        let git = top.join(".git");
        let own = match fs::metadata(&git).ok()? {
            kind if kind.is_dir() => git,
            // In a worktree or a submodule `.git` is a file that names the real folder.
            kind if kind.is_file() => {
                top.join(read_text(&git)?.trim().strip_prefix("gitdir:")?.trim())
            }
            _ => return None,
        };
        // What has no branch is no repository.
        read_text(&own.join("HEAD"))?;
        // A worktree names the folder it shares with the main one, relative to its own.
        let common = match read_text(&own.join("commondir")) {
            Some(common) => without_dots(&own.join(common.trim())),
            None => own.clone(),
        };
        Some(Repository { own, common, top: top.to_owned() })
    }

    /// The address of the remote that the present branch follows, or the best other one.
    pub(super) fn remote_url(&self) -> Option<String> {
        let head = read_text(&self.own.join("HEAD"))?;
        let branch = head.trim().strip_prefix("ref: refs/heads/");
        let config = Config::parse(&read_text(&self.common.join("config"))?);
        config.remote_url(branch).map(str::to_owned)
    }

    /// The top folder of this worktree.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    /// The folder of the repository; for a worktree that of its main one.
    pub(super) fn main_folder(&self) -> PathBuf {
        // A submodule has its own folder as the common one, so it counts as a repository.
        let is_worktree = self.own != self.common;
        match self.common.parent() {
            Some(main) if is_worktree && self.common.ends_with(".git") => main.to_owned(),
            _ => self.top.clone(),
        }
    }
}

/// The beginning of a file as text; nothing for what is no plain file.
fn read_text(path: &Path) -> Option<String> {
    // Anything but a plain file, such as a pipe, could block the read.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A path without steps back.
fn without_dots(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                // By text: the folders may be gone, and nothing has to be followed.
                tidied.pop();
            }
            part => tidied.push(part),
        }
    }
    tidied
}
