//! Turns every error into words and an exit code: heading, causes, hint.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use bus::{BindError, DraftError, RunError, StatsError};
use daemon::{
    DeleteError, ExitError, InstanceError, ListingError, RuleStoreError, SettingsError,
    StartDaemonError, TokenError,
};
use hooks::HookInstallError;
use ingest::IngestError;
use journal::{AppendError, ClaimError, LineageError, OpenError, ReadError};
use segments::{DreamError, SegmentError};
use session::{BundleError, EventLinesError, SessionError};

use crate::output::escape_controls;

/// The hint for data that a newer version has written.
const NEWER_FORMAT_HINT: &str = "update this program, or point `--journal` at another folder";

/// The error of a failed command.
#[derive(Debug)]
pub(crate) struct CliError {
    /// A word for scripts.
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    is_closed_pipe: bool,
    /// There is no daemon or bus to talk to: exit code 3.
    is_absent: bool,
    /// The arguments are wrong: exit code 2.
    is_misused: bool,
}

impl CliError {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> CliError {
        CliError {
            kind,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            is_closed_pipe: false,
            is_absent: false,
            is_misused: false,
        }
    }

    fn from_error(kind: &'static str, error: &(dyn Error + 'static)) -> CliError {
        // The heading says what failed; each cause goes one level deeper.
        let causes = || std::iter::successors(error.source(), |&cause| cause.source());
        // Any operation may open the journal, so the cause may lie deep.
        let is_newer = |cause: &(dyn Error + 'static)| {
            matches!(cause.downcast_ref(), Some(OpenError::NewerFormat { .. }))
        };
        let said = CliError {
            causes: causes().map(ToString::to_string).collect(),
            ..CliError::new(kind, error.to_string())
        };
        match is_newer(error) || causes().any(is_newer) {
            // A newer format is the cause, whichever operation ran into it.
            true => CliError { kind: "newer_format", ..said.hint(NEWER_FORMAT_HINT) },
            false => said,
        }
    }

    /// Adds a hint. The first one stays, because it is nearer to the cause.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Marks that there is no daemon or bus to talk to.
    #[must_use]
    pub(crate) fn not_running(self) -> CliError {
        CliError { is_absent: true, ..self }
    }

    /// Marks wrong usage.
    #[must_use]
    pub(crate) fn wrong_usage(self) -> CliError {
        CliError { is_misused: true, ..self }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        // The four exit codes are part of the help text: 0 and 1 come from `Completion`.
        match (self.is_misused, self.is_absent) {
            // Wrong usage outweighs a missing daemon: the user has to change the command first.
            (true, _) => ExitCode::from(2),
            (_, true) => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }

    /// Returns the heading, without causes and hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.is_closed_pipe
    }

    pub(crate) fn to_text(&self) -> String {
        // Errors quote paths and texts of agents.
        let mut text = format!("error: {}", escape_controls(&self.message));
        for cause in &self.causes {
            text.push_str(&format!("\n  caused by: {}", escape_controls(cause)));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {}", escape_controls(hint)));
        }
        text
    }

    pub(crate) fn to_json(&self) -> String {
        let error = wire::FailureBody {
            kind: self.kind,
            message: self.message.clone(),
            causes: self.causes.clone(),
            hint: self.hint.clone(),
        };
        serde_json::to_string(&wire::Failure { error }).expect("strings always encode")
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        // As in `hansard sessions | head`: the reader has seen enough.
        let is_closed_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        CliError { is_closed_pipe, ..CliError::from_error("io", &error) }
    }
}

impl From<RuleStoreError> for CliError {
    fn from(error: RuleStoreError) -> CliError {
        match error {
            RuleStoreError::Read(error) => error.into(),
            RuleStoreError::Append(error) => error.into(),
            RuleStoreError::Settings(error) => error.into(),
            RuleStoreError::Compile { .. } => CliError::from_error("rules", &error)
                .hint("`hansard rules add` without a rule tries again"),
        }
    }
}

impl From<HookInstallError> for CliError {
    fn from(error: HookInstallError) -> CliError {
        CliError::from_error("hooks", &error)
            .hint("`hansard hooks status` lists the agents that have hooks")
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> CliError {
        let (kind, hint) = match &error {
            OpenError::JournalNotFound { .. } => (
                "journal_not_found",
                "`hansard up` creates and fills one, or point `--journal` at another folder".into(),
            ),
            OpenError::NewerFormat { .. } => ("newer_format", NEWER_FORMAT_HINT.into()),
            OpenError::Corrupt(_) => (
                "corrupt",
                "`hansard doctor --repair` repairs it, and keeps a copy of the damaged file".into(),
            ),
            OpenError::RecordMissing { .. } => (
                "record_missing",
                "`hansard doctor --repair` rebuilds it from the folder `originals`; without that \
                 folder a new journal is started"
                    .into(),
            ),
            OpenError::Locked { .. } => ("locked", "try again when it has finished".into()),
            OpenError::NotPrivate { path, .. } => {
                ("not_private", format!("`chmod 700 {}`", path.display()))
            }
            OpenError::UnsafeSqlite { .. } => {
                ("unsafe_sqlite", "build this program with its own SQLite".into())
            }
            OpenError::Unsupported { .. } => {
                ("unsupported", "open it with full durability, or use a SQLite journal".into())
            }
            OpenError::Storage(_) => (
                "storage",
                "check the folder's owner and permissions, and the free space on its disk".into(),
            ),
        };
        CliError::from_error(kind, &error).hint(hint)
    }
}

impl From<daemon::WriteError> for CliError {
    fn from(error: daemon::WriteError) -> CliError {
        match error {
            daemon::WriteError::Read(error) => error.into(),
            daemon::WriteError::Io(error) => error.into(),
        }
    }
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> CliError {
        let kind = match &error {
            ReadError::SessionNotFound(_) | ReadError::NoSuchPrefix(_) => {
                return CliError::from_error("session_not_found", &error)
                    .hint("`hansard sessions` lists all sessions");
            }
            ReadError::Ambiguous { candidates, .. } => {
                let candidates: Vec<&str> = candidates.iter().map(|id| id.as_str()).collect();
                let hint = format!("one of: {}", candidates.join(", "));
                return CliError::from_error("ambiguous", &error).hint(hint);
            }
            ReadError::Corrupt(_) => {
                return CliError::from_error("corrupt", &error)
                    .hint("`hansard doctor` shows what is wrong and can repair it");
            }
            ReadError::EventNotFound { .. } => "event_not_found",
            ReadError::BadArgument { .. } | ReadError::Id(_) => "bad_argument",
            ReadError::Unsupported { .. } => "unsupported",
            ReadError::Storage(_) => "storage",
        };
        CliError::from_error(kind, &error)
    }
}

impl From<ListingError> for CliError {
    fn from(error: ListingError) -> CliError {
        match error {
            ListingError::Read(error) => error.into(),
            ListingError::PricesUnreadable { .. } => CliError::from_error("io", &error),
            ListingError::BadPrices { .. } => CliError::from_error("bad_prices", &error)
                .hint("correct it, or remove it to use the built-in prices"),
        }
    }
}

impl From<TokenError> for CliError {
    fn from(error: TokenError) -> CliError {
        CliError::from_error("io", &error)
    }
}

impl From<AppendError> for CliError {
    fn from(error: AppendError) -> CliError {
        let (kind, hint) = match &error {
            AppendError::Busy { .. } => ("busy", Some("try again")),
            AppendError::OutOfSpace => ("out_of_space", Some("free some disk space and try again")),
            AppendError::NotDurable(_) => ("not_durable", Some("check the disk, then try again")),
            AppendError::DuplicateId { .. } => ("duplicate_id", None),
            AppendError::BadSeq { .. } => {
                ("bad_seq", Some("leave out `seq` to append, or sort the events of each session"))
            }
            AppendError::TooLarge { .. } => ("too_large", None),
            AppendError::ReadOnly => ("read_only", None),
            AppendError::Deleted(..) => ("deleted", None),
            _ => ("append", None),
        };
        let said = CliError::from_error(kind, &error);
        match hint {
            Some(hint) => said.hint(hint),
            None => said,
        }
    }
}

impl From<IngestError> for CliError {
    fn from(error: IngestError) -> CliError {
        match error {
            IngestError::Read(error) => error.into(),
            IngestError::Claim(ClaimError::Held { .. }) => CliError::from_error("held", &error)
                .hint(
                    "that process records everything agents write; stop it first if you want to \
                 read another home into the same journal",
                ),
            IngestError::Claim(error) => CliError::from_error("io", &error),
            IngestError::Storage(error) => CliError::from_error("storage", &error),
            IngestError::Thread(_) => CliError::from_error("io", &error),
            IngestError::Capture(error) => CliError::from_error("ingest", &error).hint(
                "nothing is lost: the next `hansard ingest` continues where this one stopped",
            ),
        }
    }
}

impl From<SegmentError> for CliError {
    fn from(error: SegmentError) -> CliError {
        match error {
            SegmentError::Read(error) => error.into(),
            SegmentError::NoMeta { .. } => CliError::from_error("no_segment", &error)
                .hint("run it in the folder of a segment, `<journal>/<day>/<stream>/<segment>`"),
            _ => CliError::from_error("segment", &error),
        }
    }
}

impl From<DreamError> for CliError {
    fn from(error: DreamError) -> CliError {
        match error {
            DreamError::Read(error) => error.into(),
            DreamError::Segment(error) => error.into(),
            _ => CliError::from_error("dream", &error),
        }
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> CliError {
        CliError::from_error("bad_settings", &error).hint(
            "correct it, or remove it to use the defaults; see docs/reference/configuration.md",
        )
    }
}

impl From<StartDaemonError> for CliError {
    fn from(error: StartDaemonError) -> CliError {
        match error {
            StartDaemonError::Instance(error @ InstanceError::Running { .. }) => {
                CliError::from_error("running", &error)
                    .hint("`hansard status` shows its sessions, `hansard down` stops it")
            }
            StartDaemonError::Instance(error) => CliError::from_error("io", &error)
                .hint("check the folder's owner and permissions, and the free space on its disk"),
            StartDaemonError::Settings(error) => error.into(),
            StartDaemonError::Open(error) => error.into(),
            StartDaemonError::Read(error) => error.into(),
            StartDaemonError::Bind(error) => error.into(),
            StartDaemonError::Supervise(_)
            | StartDaemonError::Chain(_)
            | StartDaemonError::Requests(_)
            | StartDaemonError::Thread(_) => CliError::from_error("io", &error),
        }
    }
}

impl From<ExitError> for CliError {
    fn from(error: ExitError) -> CliError {
        CliError::from_error("ended", &error)
            .hint("start it again; `health/daemon.log` in the journal's folder may have details")
    }
}

impl From<DeleteError> for CliError {
    fn from(error: DeleteError) -> CliError {
        match error {
            DeleteError::Lineage(error @ LineageError::HasForks { .. }) => {
                CliError::from_error("has_forks", &error)
                    .hint("`--copy-to-forks` copies the shared events to them")
            }
            DeleteError::Lineage(error) => error.into(),
            DeleteError::Read(error) => error.into(),
            DeleteError::Segment(error) => CliError::from_error("storage", &error)
                .hint("the session is deleted; run the command again to remove what is left of it"),
            DeleteError::Storage(error) => CliError::from_error("storage", &error)
                .hint("the session is deleted; run the command again to remove its originals"),
        }
    }
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> CliError {
        let (kind, hint) = match &error {
            BindError::InUse { .. } => {
                ("in_use", "`hansard bus stats` lists its clients".to_owned())
            }
            BindError::NotPrivate { path } => {
                ("not_private", format!("`chmod 700 {}`, or choose another", path.display()))
            }
            BindError::NotASocket { .. } => {
                ("not_a_socket", "nothing was removed; choose another path".to_owned())
            }
            BindError::PathTooLong { .. } => {
                ("path_too_long", "choose a shorter journal path, or `--socket PATH`".to_owned())
            }
            BindError::Io { .. } => {
                ("io", "check the folder's owner and permissions, or choose another".to_owned())
            }
        };
        CliError::from_error(kind, &error).hint(hint)
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> CliError {
        CliError::from_error("io", &error)
    }
}

impl From<StatsError> for CliError {
    fn from(error: StatsError) -> CliError {
        match &error {
            StatsError::NotRunning { .. } => CliError::from_error("no_bus", &error)
                .hint("`hansard bus serve` starts one")
                .not_running(),
            StatsError::NoAnswer { .. } => CliError::from_error("no_answer", &error)
                .hint("the server knows only plain Callosum, or is busy; try again"),
        }
    }
}

impl From<DraftError> for CliError {
    fn from(error: DraftError) -> CliError {
        CliError::from_error("bad_message", &error)
    }
}

impl From<LineageError> for CliError {
    fn from(error: LineageError) -> CliError {
        match error {
            LineageError::Read(error) => error.into(),
            LineageError::Append(error) => error.into(),
            error => CliError::from_error("lineage", &error),
        }
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> CliError {
        let kind = match error {
            SessionError::Read(error) => return error.into(),
            SessionError::Append(error) => return error.into(),
            SessionError::Lineage(error) => return error.into(),
            SessionError::SessionExists(_) => "session_exists",
            SessionError::SameSession(_) => "same_session",
            SessionError::PointOutOfRange { .. } => "point_out_of_range",
            SessionError::ReadOnly(_) => "read_only",
            SessionError::Refused(_) => "refused",
            _ => "session",
        };
        CliError::from_error(kind, &error)
    }
}

impl From<daemon::ImportError> for CliError {
    fn from(error: daemon::ImportError) -> CliError {
        match error {
            daemon::ImportError::Bundle(error) => error.into(),
            daemon::ImportError::Events(error) => error.into(),
            daemon::ImportError::Read(error) => error.into(),
            daemon::ImportError::Segment(error) => error.into(),
        }
    }
}

impl From<EventLinesError> for CliError {
    fn from(error: EventLinesError) -> CliError {
        match error {
            EventLinesError::Session(error) => error.into(),
            EventLinesError::Io(error) => error.into(),
            // The message has its cause, which would otherwise be printed a second time.
            EventLinesError::BadLine { .. } => CliError::new("bad_line", error.to_string())
                .hint("docs/reference/events.md shows what an event looks like"),
        }
    }
}

impl From<BundleError> for CliError {
    fn from(error: BundleError) -> CliError {
        let kind = match error {
            BundleError::Session(error) => return error.into(),
            BundleError::Io(error) => return error.into(),
            BundleError::Diverged { .. } => {
                return CliError::from_error("diverged", &error)
                    .hint("export the existing session first, or import into another `--journal`");
            }
            BundleError::BadLine { .. } => "bad_line",
            BundleError::NewerFormat { .. } => "newer_format",
            BundleError::Cut { .. } => "cut",
        };
        CliError::from_error(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use capture::{CaptureError, SinkError};
    use journal::StorageError;

    use super::*;

    #[test]
    fn newer_format_is_reported_everywhere() {
        let path = "/home/dev/journal/journal.db";
        let newer = OpenError::NewerFormat { path: path.into(), found: 9, supported: 5 };
        let met = StorageError::new("write to", path, newer.clone());
        let append = AppendError::from(met.clone());
        let ingest = CaptureError::Unrecorded(SinkError(Box::new(append.clone())));
        let met = [append.into(), ReadError::from(met).into(), IngestError::from(ingest).into()];
        let told = CliError::from(newer);
        for met in met {
            let met: CliError = met;
            assert!(met.causes.contains(&told.message), "{}", met.to_text());
            assert_eq!((met.kind, met.hint), (told.kind, told.hint.clone()));
        }
    }
}
