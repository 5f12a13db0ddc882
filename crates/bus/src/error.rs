//! Errors, one per operation, by what a caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

/// Why no server was started at a path.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("a bus already listens at `{path}`{}", process_suffix(*pid))]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("`{path}` belongs to another user, or other users may write there")]
    NotPrivate { path: PathBuf },
    #[error("`{path}` exists and is not a socket")]
    NotASocket { path: PathBuf },
    #[error("the path of a socket may have at most {max} bytes; `{path}` has {len}")]
    PathTooLong { path: PathBuf, len: usize, max: usize },
    #[error("cannot listen at `{path}`")]
    Io { path: PathBuf, source: io::Error },
}

impl BindError {
    pub(crate) fn at_path(path: &Path) -> impl FnOnce(io::Error) -> BindError {
        let path = path.to_owned();
        |source| BindError::Io { path, source }
    }
}

fn process_suffix(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", in process {pid}"))
}

/// Why a running server stopped by itself.
#[derive(Debug, thiserror::Error)]
#[error("the bus at `{path}` cannot wait for its clients")]
pub struct RunError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Why a message from inside the process was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PublishError {
    #[error("the queue of the bus is full")]
    Full,
    #[error("the bus has stopped")]
    Stopped,
}
