//! The file with the compiled rules, which every call of a hook reads.
//!
//! It is derived from the journal and replaced as a whole: a reader sees the rules before a change
//! or after it. A mark beside it says that calls are refused while it cannot be read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rules::{BadCompiledRules, CompiledRules};

/// The most bytes that are read: some hundred thousand rules. A longer file is refused.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Writes of this process so far.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// The compiled rules beside a journal, in `rules/`.
#[derive(Debug)]
pub struct RulesFile {
    folder: PathBuf,
}

/// Why the rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    #[error("cannot read `{path}`")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{path}` cannot be used")]
    Bad { path: PathBuf, source: BadCompiledRules },
    #[error("`{path}` is longer than any set of rules may be")]
    TooLong { path: PathBuf },
}

impl RulesFile {
    pub fn in_journal(journal: &Path) -> RulesFile {
        RulesFile { folder: journal.join("rules") }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("compiled")
    }

    /// Reads the rules; `None` if there is no file.
    pub fn read(&self) -> Result<Option<CompiledRules>, RulesFileError> {
        let path = self.path();
        let unreadable = |source| RulesFileError::Unreadable { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(RulesFileError::TooLong { path });
        }
        let bad = |source| RulesFileError::Bad { path: path.clone(), source };
        CompiledRules::from_bytes(bytes).map(Some).map_err(bad)
    }

    /// Replaces the rules. After a power cut the old ones may be back; the daemon then compiles
    /// them again.
    pub fn replace(&self, rules: &CompiledRules) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Another process or thread may replace it at the same time, so each write beside has a
        // name of its own.
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let beside = self.folder.join(format!(".compiled.{}.{number}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(rules.as_bytes())?;
        // Before the rename: otherwise a power cut could leave the new name with no contents.
        file.sync_data()?;
        fs::rename(&beside, self.path())
    }

    /// Whether a call is refused while the rules cannot be read.
    pub fn is_fail_closed(&self) -> bool {
        self.mark().exists()
    }

    /// Sets whether a call is refused while the rules cannot be read.
    pub fn set_fail_closed(&self, is_fail_closed: bool) -> io::Result<()> {
        if is_fail_closed == self.is_fail_closed() {
            return Ok(());
        }
        if !is_fail_closed {
            return match fs::remove_file(self.mark()) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        OpenOptions::new().append(true).create(true).mode(0o600).open(self.mark()).map(drop)
    }

    /// A file of its own, so that it can be seen when the rules cannot.
    fn mark(&self) -> PathBuf {
        self.folder.join("fail-closed")
    }
}
