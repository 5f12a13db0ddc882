//! The file of a session: its name, its header line, and the cache of open handles.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::SessionId;
use serde::{Deserialize, Serialize};

use super::event_line;
use crate::store::SessionRow;
use crate::{StorageError, file, name};

/// Files kept open. Beyond it the one unused longest is closed, and opened again when needed.
const OPEN_MAX: usize = 64;

const FORMAT: &str = "hansard-session";

/// The version of a session's file that this program writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;

/// The header: the first line of a session's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionHeader {
    format: String,
    pub version: u32,
    pub session_id: SessionId,
    /// The session row after its first commit: its parent is not in every event.
    #[serde(default)]
    pub session: Option<SessionRow>,
}

/// The files of all sessions.
#[derive(Debug)]
pub(super) struct SessionFiles {
    dir: PathBuf,
    handles: Mutex<HandleCache>,
}

#[derive(Debug, Default)]
struct HandleCache {
    open: HashMap<SessionId, (Arc<File>, u64)>,
    /// Counts uses, to find the file unused longest.
    clock: u64,
}

impl SessionFiles {
    pub(super) const FOLDER: &str = "sessions";

    pub(super) fn new(dir: PathBuf) -> SessionFiles {
        SessionFiles { dir, handles: Mutex::default() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(file_name(id))
    }

    /// Opens the session's file, if there is one.
    pub(super) fn get(&self, id: &SessionId) -> Result<Option<Arc<File>>, StorageError> {
        let path = self.path(id);
        let known = self.handles().find(id);
        if let Some(known) = known {
            // Editors save by renaming a new file over the old one, and an open handle would go on
            // with the old one.
            let is_same = file::is_at(&known, &path);
            if is_same.map_err(|error| StorageError::new("look at", &path, error))? {
                return Ok(Some(known));
            }
            // The file was replaced or removed since it was opened.
            self.forget(id);
        }
        let Some(opened) = file::open(&path)? else { return Ok(None) };
        Ok(Some(self.handles().keep(id, opened)))
    }

    /// Opens the session's file, and creates it if there is none.
    pub(super) fn get_or_create(&self, id: &SessionId) -> Result<Arc<File>, StorageError> {
        match self.get(id)? {
            Some(file) => Ok(file),
            None => Ok(self.handles().keep(id, file::create(&self.path(id))?)),
        }
    }

    pub(super) fn forget(&self, id: &SessionId) {
        self.handles().open.remove(id);
    }

    /// Removes the session's file.
    pub(super) fn remove(&self, id: &SessionId) -> Result<(), StorageError> {
        self.forget(id);
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::new("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    /// Lists all files in the folder with their lengths, in no order.
    pub(super) fn list(&self) -> Result<Vec<(PathBuf, u64)>, StorageError> {
        let failed = |error| StorageError::new("list", &self.dir, error);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            files.push((entry.path(), metadata.len()));
        }
        Ok(files)
    }

    /// Makes the error of `action` on the session's file.
    pub(super) fn failed(
        &self,
        action: &'static str,
        id: &SessionId,
    ) -> impl Fn(io::Error) -> StorageError + use<> {
        let path = self.path(id);
        move |error| StorageError::new(action, &path, error)
    }

    fn handles(&self) -> MutexGuard<'_, HandleCache> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandleCache {
    fn find(&mut self, id: &SessionId) -> Option<Arc<File>> {
        self.clock += 1;
        let (file, used) = self.open.get_mut(id)?;
        *used = self.clock;
        Some(Arc::clone(file))
    }

    fn keep(&mut self, id: &SessionId, file: File) -> Arc<File> {
        // A search over 64 entries costs less than opening a file, so no list is kept in order.
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = oldest.0.clone();
            self.open.remove(&oldest);
        }
        self.clock += 1;
        let file = Arc::new(file);
        self.open.insert(id.clone(), (Arc::clone(&file), self.clock));
        file
    }
}

impl SessionHeader {
    /// Encodes the header line of a new file, with its line break.
    pub(super) fn line(session: &SessionRow) -> Vec<u8> {
        let header = SessionHeader {
            format: FORMAT.to_owned(),
            version: VERSION,
            session_id: session.id.clone(),
            session: Some(session.clone()),
        };
        let mut out = serde_json::to_vec(&header).expect("rows always encode");
        out.pop();
        event_line::seal(&mut out, 0);
        out
    }

    /// Parses a header line; `None` if it is none, or damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<SessionHeader> {
        let text = bytes.trim_ascii();
        // The seal is verified and left in place: the member `check` is ignored by the parser. A
        // header without a seal, from a user, is accepted.
        event_line::unseal(text).ok()?;
        serde_json::from_slice(text).ok().filter(|header: &SessionHeader| header.format == FORMAT)
    }
}

/// The name of a session's file.
pub(super) fn file_name(id: &SessionId) -> String {
    format!("{}.jsonl", name::file_stem(id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        SessionId::new(text).unwrap()
    }

    #[test]
    fn open_handles_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(dir.path().to_owned());
        for number in 0..3 * OPEN_MAX {
            files.get_or_create(&id(&number.to_string())).unwrap();
            files.get_or_create(&id("0")).unwrap();
            assert!(files.handles().open.len() <= OPEN_MAX);
        }
        assert!(files.handles().open.contains_key(&id("0")));
        assert!(files.get(&id("1")).unwrap().is_some());
        assert!(files.get(&id("never")).unwrap().is_none());
    }

    #[test]
    fn replaced_file_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(dir.path().to_owned());
        files.get_or_create(&id("a")).unwrap();
        let path = files.path(&id("a"));
        fs::write(dir.path().join("beside"), "new").unwrap();
        fs::rename(dir.path().join("beside"), &path).unwrap();
        assert_eq!(files.get(&id("a")).unwrap().unwrap().metadata().unwrap().len(), 3);
        fs::remove_file(&path).unwrap();
        assert!(files.get(&id("a")).unwrap().is_none());
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(dir.path().to_owned());
        let target = outside.path().join("victim");
        let link = |id: &SessionId| std::os::unix::fs::symlink(&target, files.path(id)).unwrap();
        // A link to nothing must not create what it leads to.
        link(&id("a"));
        assert!(files.get_or_create(&id("a")).is_err());
        assert!(!target.exists());
        fs::write(&target, "precious").unwrap();
        link(&id("b"));
        assert!(files.get(&id("b")).is_err());
        assert!(files.get_or_create(&id("b")).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }
}
