//! A file of somebody else that is changed safely: copied first, written beside itself, and put in
//! its place only if nobody has changed it meanwhile.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use event::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::HookInstallError;
use super::entries::{Changed, EntriesError};

/// How often a change is begun anew because somebody else was quicker.
const TRIES_MAX: usize = 5;

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
        for _ in 0..TRIES_MAX {
            let before = self.read()?;
            let changed = change(before.as_deref())
                .map_err(|source| HookInstallError::Entries { path: self.path.clone(), source })?;
            if before.as_deref().unwrap_or_default() == changed.text {
                return Ok(false);
            }
            let after = match (action, changed.text.is_empty()) {
                (Action::Uninstall, true) => self.blank(),
                (_, is_empty) => (!is_empty).then_some(changed.text),
            };
            if fs::metadata(&self.path).is_ok_and(|found| found.permissions().readonly()) {
                return Err(PlaceError::ReadOnly { path: self.path.clone() }.into());
            }
            if is_dry {
                return Ok(true);
            }
            self.back_up(action, before.as_deref(), after.as_deref(), changed.made)?;
            if self.replace(before.as_deref(), after.as_deref())? {
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
        let beside = folder.join(format!(".{name}.hansard"));
        let mode = fs::metadata(&target).map_or(0o600, |found| found.permissions().mode());
        write_anew(&beside, after.as_bytes(), mode & 0o7777).map_err(self.io(&beside))?;
        if self.read()?.as_deref() != before {
            // What was written beside it is of no use.
            let _ = fs::remove_file(&beside);
            return Ok(false);
        }
        fs::rename(&beside, &target).map_err(self.io(&target))?;
        // The change is there; that it outlives a power cut is one step more.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(true)
    }

    /// The file that is changed. A link stays a link: what it points to is meant.
    fn target(&self) -> Result<PathBuf, PlaceError> {
        if self.is_whole && self.path.is_symlink() {
            return Err(PlaceError::Link { path: self.path.clone() });
        }
        if let Some(project) = self.project {
            let project = project.canonicalize().map_err(self.io(project))?;
            // What is not there yet is made in the last folder that is.
            let real = self.path.ancestors().find_map(|path| path.canonicalize().ok());
            if let Some(target) = real.filter(|real| !real.starts_with(&project)) {
                return Err(PlaceError::Outside { path: self.path.clone(), target });
            }
        }
        Ok(self.path.canonicalize().unwrap_or_else(|_| self.path.clone()))
    }

    /// Copies the file, and remembers what is about to be done to it.
    fn back_up(
        &self,
        action: Action,
        before: Option<&str>,
        after: Option<&str>,
        made: Vec<String>,
    ) -> Result<(), PlaceError> {
        let time: String =
            self.now.to_string().chars().filter(|c| !matches!(c, ':' | '-')).collect();
        let folder = self.backups().join(time);
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        make.map_err(self.io(&folder))?;
        let copy = before.map(|_| {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{}-{name}", self.agent)
        });
        if let (Some(copy), Some(before)) = (&copy, before) {
            let path = folder.join(copy);
            write_private(&path, before.as_bytes(), false).map_err(self.io(&path))?;
        }
        let entry = Entry {
            agent: self.agent.to_owned(),
            action,
            path: self.path.clone(),
            before: before.map(hash),
            after: after.map(hash),
            copy,
            made,
        };
        let mut line = serde_json::to_vec(&entry).expect("names and texts always encode");
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

/// Writes a file in the place of whatever has its name: a crash may have left one there, and
/// somebody else a link, which is never followed.
fn write_anew(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
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

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
