//! Errors that end a pass, and warnings that do not.

use std::io;
use std::path::{Path, PathBuf};

use crate::sink::SinkError;

/// Capture cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The journal does not take events: a full disk, or another process that holds it.
    #[error("the journal does not take what was read from {path}")]
    Sink { path: PathBuf, source: SinkError },
    #[error("the journal does not take what was read")]
    Unrecorded(#[source] SinkError),
    /// The same for what only a hook told; its transcript was recorded before.
    #[error("the journal does not take what a hook told")]
    Hook(#[source] SinkError),
    #[error("the journal cannot be asked how far sources were read")]
    Positions(#[source] SinkError),
}

/// A problem the user should know of; capture went on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    pub kind: WarningKind,
    pub provider: &'static str,
    pub version: Option<String>,
    pub path: Option<PathBuf>,
    pub message: String,
    pub count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WarningKind {
    /// A file or folder that cannot be read.
    Unreadable,
    /// Records of a kind that is not understood.
    UnknownRecords,
    /// A record that is longer than any of ours may be.
    TooLong,
    /// A last line that was never finished.
    Torn,
    /// Bytes that are no text.
    NotText,
    /// A link that leads out of the folders of its agent.
    LeadsOut,
    /// A folder in which the system does not announce changes.
    NotWatched,
    /// A file in the signals folder that is no signal or could not be used.
    Signal,
}

impl Warning {
    /// One warning about a file or a folder of an agent.
    pub(crate) fn new(
        kind: WarningKind,
        provider: &'static str,
        path: impl Into<PathBuf>,
        message: impl Into<String>,
    ) -> Warning {
        let (path, message) = (Some(path.into()), message.into());
        Warning { kind, provider, version: None, path, message, count: 1 }
    }

    pub(crate) fn unreadable(provider: &'static str, path: &Path, error: &io::Error) -> Warning {
        Warning::new(WarningKind::Unreadable, provider, path, error.to_string())
    }
}

impl WarningKind {
    pub fn as_str(self) -> &'static str {
        match self {
            WarningKind::Unreadable => "unreadable",
            WarningKind::UnknownRecords => "unknown_records",
            WarningKind::TooLong => "too_long",
            WarningKind::Torn => "torn",
            WarningKind::NotText => "not_text",
            WarningKind::LeadsOut => "leads_out",
            WarningKind::NotWatched => "not_watched",
            WarningKind::Signal => "signal",
        }
    }
}
