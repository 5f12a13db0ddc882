//! Errors that end a pass, and warnings that do not.

use std::path::PathBuf;

use crate::sink::SinkError;

/// Capture cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The journal does not take events: a full disk, or another process that holds it.
    #[error("the journal does not take what was read from {path}")]
    Sink { path: PathBuf, source: SinkError },
    #[error("the journal does not take what was read")]
    Unrecorded(#[source] SinkError),
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
