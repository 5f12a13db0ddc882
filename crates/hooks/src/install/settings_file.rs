//! An agent's settings file, changed safely: it is copied first, written beside itself, and replaced
//! only if no other program has changed it meanwhile.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use event::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::HookInstallError;
use super::entries::{ChangedText, EntriesError};
use super::jsonc::is_blank;
use crate::spool_dir::is_older;

/// How often a change is retried because another program changed the file first.
const TRIES_MAX: usize = 5;

/// The longest chain of symbolic links that is followed.
const LINKS_MAX: usize = 16;

/// A temporary file of this age belongs to a process that crashed: a running one needs far less.
const STALE_MILLIS: i64 = 60 * 1_000;

/// The largest settings file. A longer one is left alone: reading it could take all memory.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A settings file of an agent.
#[derive(Clone, Debug)]
pub(super) struct SettingsFile<'a> {
    pub(super) agent: &'static str,
    pub(super) path: PathBuf,
    /// The folder of the project that the file belongs to. The author of the project may have put
    /// links there, which must not lead out of it.
    pub(super) project: Option<&'a Path>,
    /// The whole file is ours. We make no links, so a link there leads to a file of another program.
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
pub enum SettingsFileError {
    #[error("cannot use `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{path}` is read-only, and left alone")]
    ReadOnly { path: PathBuf },
    #[error("`{path}` is no text in UTF-8, and left alone")]
    NoText { path: PathBuf },
    #[error("`{path}` is a folder, a pipe or a device and no settings file, and left alone")]
    NotFile { path: PathBuf },
    #[error("`{path}` is larger than {} MB, and left alone", BYTES_MAX >> 20)]
    TooLarge { path: PathBuf },
    #[error("`{path}` leads out of the project, to `{target}`, and is left alone")]
    Outside { path: PathBuf, target: PathBuf },
    #[error("`{path}` is a link, and left alone")]
    Link { path: PathBuf },
    #[error("`{path}` is a link to `{target}`, whose folder is not there, and is left alone")]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("`{path}` keeps being changed by another program")]
    Contended { path: PathBuf },
}

/// One line of the manifest beside a copy: what was done to the file.
#[derive(Debug, Serialize, Deserialize)]
struct ManifestEntry {
    agent: String,
    action: Action,
    path: PathBuf,
    /// Hashes of the file before and after; absent if there was no file.
    before: Option<String>,
    after: Option<String>,
    /// Its copy, in the same folder.
    copy: Option<String>,
    /// The lists and objects that were added; the empty name is the file itself.
    #[serde(default)]
    made: Vec<String>,
}

impl SettingsFile<'_> {
    /// The text of the file; `None` if there is none.
    pub(super) fn read(&self) -> Result<Option<String>, SettingsFileError> {
        // Checked before the read, which would follow a link out of the project.
        self.resolve()?;
        read_text(&self.path)
    }

    /// Replaces the text with the result of `change`; whether that differs. An empty result removes
    /// the file, unless there was an empty one before our first change.
    pub(super) fn change(
        &self,
        action: Action,
        is_dry: bool,
        change: &mut dyn FnMut(Option<&str>) -> Result<ChangedText, EntriesError>,
    ) -> Result<bool, HookInstallError> {
        // Read before the first try: each try adds to the manifest.
        let blank = self.blank_before();
        for _ in 0..TRIES_MAX {
            let before = self.read()?;
            let changed = change(before.as_deref())
                .map_err(|source| HookInstallError::Entries { path: self.path.clone(), source })?;
            if before.as_deref().unwrap_or_default() == changed.text {
                return Ok(false);
            }
            // An uninstall gives back the blank file that was there before us, or none.
            let after = match (action, changed.text.is_empty()) {
                (Action::Uninstall, true) => blank.clone(),
                (_, is_empty) => (!is_empty).then_some(changed.text),
            };
            // A rename replaces a read-only file without asking; the user meant it to stay.
            if fs::metadata(&self.path).is_ok_and(|found| found.permissions().readonly()) {
                return Err(SettingsFileError::ReadOnly { path: self.path.clone() }.into());
            }
            if is_dry {
                return Ok(true);
            }
            let (before, after) = (before.as_deref(), after.as_deref());
            // In every try: the file may be another one than before.
            let folder = self.back_up(before)?;
            let entry = self.manifest_entry(action, before, after, changed.made);
            // An installation is noted before it happens and a removal after it, so that a crash
            // never leaves entries of ours without a note.
            if action == Action::Install {
                self.append_manifest(&folder, &entry)?;
            }
            if self.replace(before, after)? {
                if action == Action::Uninstall {
                    self.append_manifest(&folder, &entry)?;
                }
                return Ok(true);
            }
        }
        Err(SettingsFileError::Contended { path: self.path.clone() }.into())
    }

    /// All lists and objects that we added since the last removal; `None` without a manifest.
    pub(super) fn made(&self) -> Option<Vec<String>> {
        let entries = self.read_manifests();
        let installed = || entries.iter().filter(|(_, entry)| entry.action == Action::Install);
        installed().next()?;
        Some(installed().flat_map(|(_, entry)| entry.made.clone()).collect())
    }

    /// The text before our first change if it was blank; `None` if there was no file.
    fn blank_before(&self) -> Option<String> {
        let first =
            self.read_manifests().into_iter().find(|(_, entry)| entry.action == Action::Install);
        let (folder, entry) = first?;
        let text = fs::read_to_string(folder.join(entry.copy?)).ok()?;
        is_blank(&text).then_some(text)
    }

    /// Replaces the text, or removes the file; `false` if another program changed it meanwhile.
    fn replace(
        &self,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<bool, SettingsFileError> {
        let target = self.resolve()?;
        let folder = target.parent().unwrap_or(Path::new("/"));
        let Some(after) = after else {
            // Compared right before the removal: agents take no lock, so a short window stays.
            if self.read()?.as_deref() != before {
                return Ok(false);
            }
            fs::remove_file(&target).map_err(self.io_error(&target))?;
            return Ok(true);
        };
        DirBuilder::new().recursive(true).create(folder).map_err(self.io_error(folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The mode of the file is kept: it may hold keys of other programs.
        let mode = fs::metadata(&target).map_or(0o600, |found| found.permissions().mode());
        self.remove_stale(folder, &name);
        let (beside, mut file) = create_beside(folder, &name).map_err(self.io_error(folder))?;
        let written = write_whole(&mut file, after.as_bytes(), mode & 0o7777);
        // As late as possible: between this read and the rename another change would be lost.
        let is_same = || Ok(self.read()?.as_deref() == before);
        let put = written.map_err(self.io_error(&beside)).and_then(|()| match is_same()? {
            true => fs::rename(&beside, &target).map(|()| true).map_err(self.io_error(&target)),
            false => Ok(false),
        });
        if !matches!(put, Ok(true)) {
            // Nothing else would remove it before it is stale.
            let _ = fs::remove_file(&beside);
            return put;
        }
        // The change is done; a failed sync only risks it in a power cut.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(true)
    }

    /// Removes temporary files that a crash left.
    fn remove_stale(&self, folder: &Path, name: &str) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let found = entry.file_name().to_string_lossy().into_owned();
            // Only names of ours: other programs have temporary files, too.
            let is_ours = found.starts_with(&format!(".{name}.")) && found.ends_with(SUFFIX);
            let written = fs::symlink_metadata(entry.path()).map(|found| found.mtime());
            let is_stale = written.is_ok_and(|secs| {
                is_older(Time::from_millis(secs.saturating_mul(1_000)), self.now, STALE_MILLIS)
            });
            if is_ours && is_stale {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The file to change. A link stays a link, and its target is changed, also if it does not exist
    /// yet.
    fn resolve(&self) -> Result<PathBuf, SettingsFileError> {
        // We create no links, so the target belongs to another program.
        if self.is_whole && self.path.is_symlink() {
            return Err(SettingsFileError::Link { path: self.path.clone() });
        }
        let target = match self.path.canonicalize() {
            Ok(target) => target,
            // A dotfile manager may link to a file that is not written yet.
            Err(_) if self.path.is_symlink() => self.missing_target()?,
            Err(_) => self.path.clone(),
        };
        if let Some(project) = self.project {
            let project = project.canonicalize().map_err(self.io_error(project))?;
            // Missing folders will be created in the last one that exists, so that one decides.
            let real = target.ancestors().find_map(|path| path.canonicalize().ok());
            if let Some(target) = real.filter(|real| !real.starts_with(&project)) {
                return Err(SettingsFileError::Outside { path: self.path.clone(), target });
            }
        }
        Ok(target)
    }

    /// The missing target of a link, in a folder that exists.
    fn missing_target(&self) -> Result<PathBuf, SettingsFileError> {
        let mut target = self.path.clone();
        for _ in 0..LINKS_MAX {
            // Only the last part may be missing.
            let folder = target.parent().unwrap_or(Path::new("/")).canonicalize();
            let name = target.file_name();
            let (Ok(folder), Some(name)) = (folder, name) else { break };
            let real = folder.join(name);
            match fs::read_link(&real) {
                Ok(next) => target = folder.join(next),
                Err(_) => return Ok(real),
            }
        }
        Err(SettingsFileError::Dangling { path: self.path.clone(), target })
    }

    /// Copies the file, and returns the folder of the copy.
    fn back_up(&self, before: Option<&str>) -> Result<PathBuf, SettingsFileError> {
        // The names of the folders sort by time.
        let time: String =
            self.now.to_string().chars().filter(|c| !matches!(c, ':' | '-')).collect();
        let folder = self.backups().join(time);
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        make.map_err(self.io_error(&folder))?;
        if let Some(before) = before {
            let path = folder.join(self.copy_name());
            // Synced before the file is replaced: the copy is what a user returns to.
            write_private(&path, before.as_bytes(), false).map_err(self.io_error(&path))?;
        }
        Ok(folder)
    }

    /// The name of the copy.
    fn copy_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{}-{name}", self.agent)
    }

    fn manifest_entry(
        &self,
        action: Action,
        before: Option<&str>,
        after: Option<&str>,
        made: Vec<String>,
    ) -> ManifestEntry {
        ManifestEntry {
            agent: self.agent.to_owned(),
            action,
            path: self.path.clone(),
            before: before.map(hash),
            after: after.map(hash),
            copy: before.map(|_| self.copy_name()),
            made,
        }
    }

    /// Appends to the manifest what is done to the file.
    fn append_manifest(
        &self,
        folder: &Path,
        entry: &ManifestEntry,
    ) -> Result<(), SettingsFileError> {
        let mut line = serde_json::to_vec(entry).expect("names and texts always encode");
        line.push(b'\n');
        let manifest = folder.join(MANIFEST);
        write_private(&manifest, &line, true).map_err(self.io_error(&manifest))
    }

    /// What was done to the file since the last removal, oldest first, with the folders of the copies.
    fn read_manifests(&self) -> Vec<(PathBuf, ManifestEntry)> {
        let mut folders: Vec<PathBuf> = fs::read_dir(self.backups())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        // The names begin with the time, so the oldest comes first.
        folders.sort();
        let mut remembered = Vec::new();
        for folder in folders {
            let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
            // A line torn by a crash is skipped; the change it announces may not have happened.
            let entries =
                text.lines().filter_map(|line| serde_json::from_str::<ManifestEntry>(line).ok());
            let own = entries.filter(|entry| entry.path == self.path);
            remembered.extend(own.map(|entry| (folder.clone(), entry)));
        }
        let last_removed =
            remembered.iter().rposition(|(_, entry)| entry.action == Action::Uninstall);
        remembered.split_off(last_removed.map_or(0, |place| place + 1))
    }

    fn backups(&self) -> PathBuf {
        self.journal.join("backups")
    }

    fn io_error(&self, path: &Path) -> impl FnOnce(io::Error) -> SettingsFileError {
        let path = path.to_owned();
        |source| SettingsFileError::Io { path, source }
    }
}

const MANIFEST: &str = "manifest.jsonl";

/// Reads a file that an agent or the user wrote; `None` if there is none.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, SettingsFileError> {
    let path_buf = || path.to_owned();
    let io_error = |source| SettingsFileError::Io { path: path_buf(), source };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
        // Before it is opened: opening a pipe waits for a program that writes to it.
        Ok(found) if !found.is_file() => {
            return Err(SettingsFileError::NotFile { path: path_buf() });
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the file is too large, also if it grows meanwhile.
    let file = File::open(path).map_err(io_error)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(SettingsFileError::TooLarge { path: path_buf() });
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| SettingsFileError::NoText { path: path_buf() })
}

/// The end of the names of temporary files.
const SUFFIX: &str = ".hansard";

/// Creates a temporary file beside the one that it will replace. The name may be taken by another
/// process, or by a link, which is never followed.
fn create_beside(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    let mut tried = Err(io::ErrorKind::AlreadyExists.into());
    for number in 0..TRIES_MAX {
        let path = folder.join(format!(".{name}.{pid}-{number}{SUFFIX}"));
        // Neither follows a link nor opens a file that is there.
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
    // On the open file, before the rename: the new file is never readable for more users than the
    // old one.
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
