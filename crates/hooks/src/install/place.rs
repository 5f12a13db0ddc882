//! A file of somebody else that is changed safely: copied first, written beside itself, and put in
//! its place only if nobody has changed it meanwhile.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use event::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::HookInstallError;
use super::entries::{Changed, EntriesError};
use crate::spool_dir::is_older;

/// How often a change is begun anew because somebody else was quicker.
const TRIES_MAX: usize = 5;

/// Links that lead from one to the next at most.
const LINKS_MAX: usize = 16;

/// What was written beside a file this long ago belongs to nobody who is still at it.
const LEFT_MILLIS: i64 = 60 * 1_000;

/// The largest file of settings. A longer one is none.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A file of an agent.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) agent: &'static str,
    pub(super) path: PathBuf,
    /// The folder of a project, if the file is one of it: whoever wrote the project may have put
    /// links there.
    pub(super) project: Option<&'a Path>,
    /// The whole file is ours: we made no link there, so one leads to a file of somebody else.
    pub(super) is_whole: bool,
    pub(super) journal: &'a Path,
    pub(super) now: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Install,
    Uninstall,
}

/// Why a file is not changed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("cannot use `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{path}` is read-only, and left alone")]
    ReadOnly { path: PathBuf },
    #[error("`{path}` is no text in UTF-8, and left alone")]
    NoText { path: PathBuf },
    #[error("`{path}` leads out of the project, to `{target}`, and is left alone")]
    Outside { path: PathBuf, target: PathBuf },
    #[error("`{path}` is a link, and left alone")]
    Link { path: PathBuf },
    #[error("`{path}` is a link to `{target}`, whose folder is not there, and is left alone")]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("`{path}` is changed by somebody else all the time")]
    Contended { path: PathBuf },
}

/// What was done to a file, as it is remembered beside its copy.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    agent: String,
    action: Action,
    path: PathBuf,
    /// Hashes of the file before and after; absent where there was none.
    before: Option<String>,
    after: Option<String>,
    /// Its copy, in the same folder.
    copy: Option<String>,
    /// Lists and objects that were made in it; the empty name is the file itself.
    #[serde(default)]
    made: Vec<String>,
}

impl Place<'_> {
    /// The text of the file; `None` if there is none.
    pub(super) fn read(&self) -> Result<Option<String>, PlaceError> {
        self.target()?;
        let bytes = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(found) if found.len() > BYTES_MAX => {
                return Err(PlaceError::NoText { path: self.path.clone() });
            }
            _ => fs::read(&self.path).map_err(self.io(&self.path))?,
        };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| PlaceError::NoText { path: self.path.clone() })
    }

    /// Changes the file as `change` says, which is given its text; whether that is a change. An
    /// empty text is no file, unless there was an empty one before us.
    pub(super) fn change(
        &self,
        action: Action,
        is_dry: bool,
        change: &mut dyn FnMut(Option<&str>) -> Result<Changed, EntriesError>,
    ) -> Result<bool, HookInstallError> {
        let blank = self.blank();
        for _ in 0..TRIES_MAX {
            let before = self.read()?;
            let changed = change(before.as_deref())
                .map_err(|source| HookInstallError::Entries { path: self.path.clone(), source })?;
            if before.as_deref().unwrap_or_default() == changed.text {
                return Ok(false);
            }
            let after = match (action, changed.text.is_empty()) {
                (Action::Uninstall, true) => blank.clone(),
                (_, is_empty) => (!is_empty).then_some(changed.text),
            };
            if fs::metadata(&self.path).is_ok_and(|found| found.permissions().readonly()) {
                return Err(PlaceError::ReadOnly { path: self.path.clone() }.into());
            }
            if is_dry {
                return Ok(true);
            }
            let (before, after) = (before.as_deref(), after.as_deref());
            let folder = self.back_up(before)?;
            let entry = self.entry(action, before, after, changed.made);
            // What is put there is remembered before, so that a crash leaves nothing of ours that
            // nobody knows; what was put there is forgotten only when it is gone.
            if action == Action::Install {
                self.remember(&folder, &entry)?;
            }
            if self.replace(before, after)? {
                if action == Action::Uninstall {
                    self.remember(&folder, &entry)?;
                }
                return Ok(true);
            }
        }
        Err(PlaceError::Contended { path: self.path.clone() }.into())
    }

    /// Everything we ever made in the file; `None` if nobody remembers.
    pub(super) fn made(&self) -> Option<Vec<String>> {
        let entries = self.remembered();
        let installed = || entries.iter().filter(|(_, entry)| entry.action == Action::Install);
        installed().next()?;
        Some(installed().flat_map(|(_, entry)| entry.made.clone()).collect())
    }

    /// What the file was before us if it had nothing in it; `None` if there was none.
    fn blank(&self) -> Option<String> {
        let first =
            self.remembered().into_iter().find(|(_, entry)| entry.action == Action::Install);
        let (folder, entry) = first?;
        let text = fs::read_to_string(folder.join(entry.copy?)).ok()?;
        text.trim().is_empty().then_some(text)
    }

    /// Puts the new text in place, unless the file is no longer what it was.
    fn replace(&self, before: Option<&str>, after: Option<&str>) -> Result<bool, PlaceError> {
        let target = self.target()?;
        let folder = target.parent().unwrap_or(Path::new("/"));
        let Some(after) = after else {
            if self.read()?.as_deref() != before {
                return Ok(false);
            }
            fs::remove_file(&target).map_err(self.io(&target))?;
            return Ok(true);
        };
        DirBuilder::new().recursive(true).create(folder).map_err(self.io(folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mode = fs::metadata(&target).map_or(0o600, |found| found.permissions().mode());
        self.clear(folder, &name);
        let (beside, mut file) = create_beside(folder, &name).map_err(self.io(folder))?;
        let written = write_whole(&mut file, after.as_bytes(), mode & 0o7777);
        let is_same = || Ok(self.read()?.as_deref() == before);
        let put = written.map_err(self.io(&beside)).and_then(|()| match is_same()? {
            true => fs::rename(&beside, &target).map(|()| true).map_err(self.io(&target)),
            false => Ok(false),
        });
        if !matches!(put, Ok(true)) {
            // What was written beside it is of no use.
            let _ = fs::remove_file(&beside);
            return put;
        }
        // The change is there; that it outlives a power cut is one step more.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(true)
    }

    /// Removes what a crash left beside a file.
    fn clear(&self, folder: &Path, name: &str) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let found = entry.file_name().to_string_lossy().into_owned();
            let is_ours = found.starts_with(&format!(".{name}.")) && found.ends_with(SUFFIX);
            let written = fs::symlink_metadata(entry.path()).map(|found| found.mtime());
            let is_left = written.is_ok_and(|secs| {
                is_older(Time::from_millis(secs.saturating_mul(1_000)), self.now, LEFT_MILLIS)
            });
            if is_ours && is_left {
                // One that stays is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The file that is changed. A link stays a link: what it points to is meant, also if that is
    /// not there yet.
    fn target(&self) -> Result<PathBuf, PlaceError> {
        if self.is_whole && self.path.is_symlink() {
            return Err(PlaceError::Link { path: self.path.clone() });
        }
        let target = match self.path.canonicalize() {
            Ok(target) => target,
            Err(_) if self.path.is_symlink() => self.led_to()?,
            Err(_) => self.path.clone(),
        };
        if let Some(project) = self.project {
            let project = project.canonicalize().map_err(self.io(project))?;
            // What is not there yet is made in the last folder that is.
            let real = target.ancestors().find_map(|path| path.canonicalize().ok());
            if let Some(target) = real.filter(|real| !real.starts_with(&project)) {
                return Err(PlaceError::Outside { path: self.path.clone(), target });
            }
        }
        Ok(target)
    }

    /// The file that a link leads to and that is not there, in a folder that is.
    fn led_to(&self) -> Result<PathBuf, PlaceError> {
        let mut target = self.path.clone();
        for _ in 0..LINKS_MAX {
            let folder = target.parent().unwrap_or(Path::new("/")).canonicalize();
            let name = target.file_name();
            let (Ok(folder), Some(name)) = (folder, name) else { break };
            let real = folder.join(name);
            match fs::read_link(&real) {
                Ok(next) => target = folder.join(next),
                Err(_) => return Ok(real),
            }
        }
        Err(PlaceError::Dangling { path: self.path.clone(), target })
    }

    /// Copies the file; the folder in which the copy lies.
    fn back_up(&self, before: Option<&str>) -> Result<PathBuf, PlaceError> {
        let time: String =
            self.now.to_string().chars().filter(|c| !matches!(c, ':' | '-')).collect();
        let folder = self.backups().join(time);
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        make.map_err(self.io(&folder))?;
        if let Some(before) = before {
            let path = folder.join(self.copy());
            write_private(&path, before.as_bytes(), false).map_err(self.io(&path))?;
        }
        Ok(folder)
    }

    /// The name of its copy.
    fn copy(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{}-{name}", self.agent)
    }

    fn entry(
        &self,
        action: Action,
        before: Option<&str>,
        after: Option<&str>,
        made: Vec<String>,
    ) -> Entry {
        Entry {
            agent: self.agent.to_owned(),
            action,
            path: self.path.clone(),
            before: before.map(hash),
            after: after.map(hash),
            copy: before.map(|_| self.copy()),
            made,
        }
    }

    /// Remembers what is done to the file.
    fn remember(&self, folder: &Path, entry: &Entry) -> Result<(), PlaceError> {
        let mut line = serde_json::to_vec(entry).expect("names and texts always encode");
        line.push(b'\n');
        let manifest = folder.join(MANIFEST);
        write_private(&manifest, &line, true).map_err(self.io(&manifest))
    }

    /// What was done to the file, oldest first, and where its copies are.
    fn remembered(&self) -> Vec<(PathBuf, Entry)> {
        let mut folders: Vec<PathBuf> = fs::read_dir(self.backups())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        let mut remembered = Vec::new();
        for folder in folders {
            let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
            let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
            let own = entries.filter(|entry| entry.path == self.path);
            remembered.extend(own.map(|entry| (folder.clone(), entry)));
        }
        // What was removed completely is history.
        let last_removed =
            remembered.iter().rposition(|(_, entry)| entry.action == Action::Uninstall);
        remembered.split_off(last_removed.map_or(0, |place| place + 1))
    }

    fn backups(&self) -> PathBuf {
        self.journal.join("backups")
    }

    fn io(&self, path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
        let path = path.to_owned();
        |source| PlaceError::Io { path, source }
    }
}

const MANIFEST: &str = "manifest.jsonl";

/// How the names of files end that are written beside another.
const SUFFIX: &str = ".hansard";

/// Makes a file that nobody else has, beside the one that it will replace. Somebody else may be at
/// the same, or have left a link there, which is never followed.
fn create_beside(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    let mut tried = Err(io::ErrorKind::AlreadyExists.into());
    for number in 0..TRIES_MAX {
        let path = folder.join(format!(".{name}.{pid}-{number}{SUFFIX}"));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        tried = made.map(|file| (path, file));
        if !matches!(&tried, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    tried
}

fn write_whole(file: &mut File, bytes: &[u8], mode: u32) -> io::Result<()> {
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn write_private(path: &Path, bytes: &[u8], is_added: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    match is_added {
        true => options.append(true),
        false => options.write(true).truncate(true),
    };
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
