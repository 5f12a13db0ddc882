//! What can go wrong, by what a caller would do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no server at a path.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("a bus listens at `{path}` already{}", by_whom(*pid))]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("`{path}` belongs to somebody else, or others may write there")]
    NotPrivate { path: PathBuf },
    #[error("`{path}` is there and is not a socket")]
    NotASocket { path: PathBuf },
    #[error("the path of a socket has at most {max} bytes; `{path}` has {len}")]
    PathTooLong { path: PathBuf, len: usize, max: usize },
    #[error("cannot listen at `{path}`")]
    Io { path: PathBuf, source: io::Error },
}

impl BindError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> BindError {
        let path = path.to_owned();
        |source| BindError::Io { path, source }
    }
}

fn by_whom(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", in process {pid}"))
}

/// Why a server stopped by itself.
#[derive(Debug, thiserror::Error)]
#[error("the bus at `{path}` cannot wait for its clients")]
pub struct RunError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Why a message was not taken from inside the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PublishError {
    #[error("the bus has more messages waiting than it holds")]
    Full,
    #[error("the bus has stopped")]
    Stopped,
}
