//! What is said when something fails: heading, causes, and what to try.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use bus::{BindError, DraftError, RunError, StatsError};
use daemon::{
    DeleteError, EndError, InstanceError, ListingError, SettingsError, TokenError, UpError,
};
use hooks::HookInstallError;
use ingest::IngestError;
use journal::{AppendError, ClaimError, LineageError, OpenError, ReadError};
use segments::{DreamError, SegmentError};
use session::{BundleError, SessionError};

use crate::output::plain;

/// What to try where a newer version has written.
const NEWER_FORMAT_HINT: &str = "update this program, or point `--journal` at another folder";

/// A failed command in words.
#[derive(Debug)]
pub(crate) struct CliError {
    /// A word for scripts.
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    is_closed_pipe: bool,
    /// Nobody is there to talk to.
    is_absent: bool,
    /// What was typed cannot be meant.
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

    fn of(kind: &'static str, error: &(dyn Error + 'static)) -> CliError {
        let causes = || std::iter::successors(error.source(), |&cause| cause.source());
        let is_newer = |cause: &(dyn Error + 'static)| {
            matches!(cause.downcast_ref(), Some(OpenError::NewerFormat { .. }))
        };
        let said = CliError {
            causes: causes().map(ToString::to_string).collect(),
            ..CliError::new(kind, error.to_string())
        };
        match is_newer(error) || causes().any(is_newer) {
            // Whatever it kept from being done.
            true => CliError { kind: "newer_format", ..said.hint(NEWER_FORMAT_HINT) },
            false => said,
        }
    }

    /// Says what to try; what was said first is nearer to the cause.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// The same for somebody who is not there to be talked to.
    #[must_use]
    pub(crate) fn absent(self) -> CliError {
        CliError { is_absent: true, ..self }
    }

    /// The same for what was typed wrongly.
    #[must_use]
    pub(crate) fn misused(self) -> CliError {
        CliError { is_misused: true, ..self }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match (self.is_misused, self.is_absent) {
            (true, _) => ExitCode::from(2),
            (_, true) => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }

    /// What failed, without causes and hints.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.is_closed_pipe
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("error: {}", plain(&self.message));
        for cause in &self.causes {
            text.push_str(&format!("\n  caused by: {}", plain(cause)));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {}", plain(hint)));
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
        let is_closed_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        CliError { is_closed_pipe, ..CliError::of("io", &error) }
    }
}

impl From<HookInstallError> for CliError {
    fn from(error: HookInstallError) -> CliError {
        CliError::of("hooks", &error).hint("`hansard hooks status` lists the agents that have some")
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> CliError {
        let (kind, hint) = match &error {
            OpenError::JournalNotFound { .. } => (
                "journal_not_found",
                "`hansard up` makes one and fills it, or point `--journal` at another folder"
                    .into(),
            ),
            OpenError::NewerFormat { .. } => ("newer_format", NEWER_FORMAT_HINT.into()),
            OpenError::Corrupt(_) => {
                ("corrupt", "`hansard doctor` tells what is wrong and can repair it".into())
            }
            OpenError::Locked { .. } => ("locked", "try again once it is done".into()),
            OpenError::NotPrivate { path, .. } => {
                ("not_private", format!("`chmod 700 {}`", path.display()))
            }
            OpenError::UnsafeSqlite { .. } => {
                ("unsafe_sqlite", "build this program with its own SQLite".into())
            }
            OpenError::Storage(_) => {
                ("storage", "check the folder's owner, its rights and the space on its disk".into())
            }
        };
        CliError::of(kind, &error).hint(hint)
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
                return CliError::of("session_not_found", &error)
                    .hint("`hansard sessions` lists what there is");
            }
            ReadError::Ambiguous { candidates, .. } => {
                let candidates: Vec<&str> = candidates.iter().map(|id| id.as_str()).collect();
                let hint = format!("one of: {}", candidates.join(", "));
                return CliError::of("ambiguous", &error).hint(hint);
            }
            ReadError::Corrupt(_) => {
                return CliError::of("corrupt", &error)
                    .hint("`hansard doctor` tells what is wrong and can repair it");
            }
            ReadError::EventNotFound { .. } => "event_not_found",
            ReadError::BadArgument { .. } | ReadError::Id(_) => "bad_argument",
            ReadError::Unsupported { .. } => "unsupported",
            ReadError::Storage(_) => "storage",
        };
        CliError::of(kind, &error)
    }
}

impl From<ListingError> for CliError {
    fn from(error: ListingError) -> CliError {
        match error {
            ListingError::Read(error) => error.into(),
            ListingError::PricesUnreadable { .. } => CliError::of("io", &error),
            ListingError::BadPrices { .. } => CliError::of("bad_prices", &error)
                .hint("mend it, or remove it to use the prices that ship with the program"),
        }
    }
}

impl From<TokenError> for CliError {
    fn from(error: TokenError) -> CliError {
        CliError::of("io", &error)
    }
}

impl From<AppendError> for CliError {
    fn from(error: AppendError) -> CliError {
        let (kind, hint) = match &error {
            AppendError::Busy { .. } => ("busy", Some("try again")),
            AppendError::OutOfSpace => {
                ("out_of_space", Some("make room on the disk and try again"))
            }
            AppendError::NotDurable(_) => ("not_durable", Some("check the disk, then try again")),
            AppendError::DuplicateId { .. } => ("duplicate_id", None),
            AppendError::BadSeq { .. } => (
                "bad_seq",
                Some("leave `seq` out to append, or bring the events of a session in order"),
            ),
            AppendError::TooLarge { .. } => ("too_large", None),
            AppendError::ReadOnly => ("read_only", None),
            AppendError::Deleted(..) => ("deleted", None),
            _ => ("append", None),
        };
        let said = CliError::of(kind, &error);
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
            IngestError::Claim(ClaimError::Held { .. }) => CliError::of("held", &error).hint(
                "that process records everything agents write; stop it first if you want to \
                 read another home into the same journal",
            ),
            IngestError::Claim(error) => CliError::of("io", &error),
            IngestError::Storage(error) => CliError::of("storage", &error),
            IngestError::Thread(_) => CliError::of("io", &error),
            IngestError::Capture(error) => CliError::of("ingest", &error)
                .hint("nothing is lost: the next `hansard ingest` goes on where this one stopped"),
        }
    }
}

impl From<SegmentError> for CliError {
    fn from(error: SegmentError) -> CliError {
        match error {
            SegmentError::Read(error) => error.into(),
            SegmentError::NoMeta { .. } => CliError::of("no_segment", &error)
                .hint("run it in the folder of a segment, `<journal>/<day>/<stream>/<segment>`"),
            _ => CliError::of("segment", &error),
        }
    }
}

impl From<DreamError> for CliError {
    fn from(error: DreamError) -> CliError {
        match error {
            DreamError::Read(error) => error.into(),
            DreamError::Segment(error) => error.into(),
            _ => CliError::of("dream", &error),
        }
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> CliError {
        CliError::of("bad_settings", &error).hint(
            "mend it, or remove it to have everything as usual; docs/configuration.md has the keys",
        )
    }
}

impl From<UpError> for CliError {
    fn from(error: UpError) -> CliError {
        match error {
            UpError::Instance(error @ InstanceError::Running { .. }) => {
                CliError::of("running", &error)
                    .hint("`hansard status` tells what it knows, `hansard down` ends it")
            }
            UpError::Instance(error) => CliError::of("io", &error)
                .hint("check the folder's owner, its rights and the space on its disk"),
            UpError::Settings(error) => error.into(),
            UpError::Open(error) => error.into(),
            UpError::Read(error) => error.into(),
            UpError::Bind(error) => error.into(),
            UpError::Supervise(_)
            | UpError::Chain(_)
            | UpError::Requests(_)
            | UpError::Thread(_) => CliError::of("io", &error),
        }
    }
}

impl From<EndError> for CliError {
    fn from(error: EndError) -> CliError {
        CliError::of("ended", &error)
            .hint("start it again; `health/daemon.log` in the journal's folder may say more")
    }
}

impl From<DeleteError> for CliError {
    fn from(error: DeleteError) -> CliError {
        match error {
            DeleteError::Lineage(error @ LineageError::HasForks { .. }) => {
                CliError::of("has_forks", &error)
                    .hint("`--copy-to-forks` gives them what they show of it")
            }
            DeleteError::Lineage(error) => error.into(),
            DeleteError::Read(error) => error.into(),
            DeleteError::Segment(error) => CliError::of("storage", &error)
                .hint("the session is deleted; what is left of it goes when it is done again"),
            DeleteError::Storage(error) => CliError::of("storage", &error)
                .hint("the session is deleted; its originals are removed when it is done again"),
        }
    }
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> CliError {
        let (kind, hint) = match &error {
            BindError::InUse { .. } => {
                ("in_use", "`hansard bus stats` tells who is connected to it".to_owned())
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
                ("io", "check the folder's owner and its rights, or choose another".to_owned())
            }
        };
        CliError::of(kind, &error).hint(hint)
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> CliError {
        CliError::of("io", &error)
    }
}

impl From<StatsError> for CliError {
    fn from(error: StatsError) -> CliError {
        match &error {
            StatsError::NotRunning { .. } => {
                CliError::of("no_bus", &error).hint("`hansard bus serve` starts one").absent()
            }
            StatsError::NoAnswer { .. } => CliError::of("no_answer", &error)
                .hint("the server speaks plain Callosum, or is busy; try again"),
        }
    }
}

impl From<DraftError> for CliError {
    fn from(error: DraftError) -> CliError {
        CliError::of("bad_message", &error)
    }
}

impl From<LineageError> for CliError {
    fn from(error: LineageError) -> CliError {
        match error {
            LineageError::Read(error) => error.into(),
            LineageError::Append(error) => error.into(),
            error => CliError::of("lineage", &error),
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
        CliError::of(kind, &error)
    }
}

impl From<BundleError> for CliError {
    fn from(error: BundleError) -> CliError {
        let kind = match error {
            BundleError::Session(error) => return error.into(),
            BundleError::Io(error) => return error.into(),
            BundleError::Diverged { .. } => {
                return CliError::of("diverged", &error)
                    .hint("export the session that is here under `--journal` of its own first");
            }
            BundleError::BadLine { .. } => "bad_line",
            BundleError::NewerFormat { .. } => "newer_format",
            BundleError::Cut { .. } => "cut",
        };
        CliError::of(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use capture::{CaptureError, SinkError};
    use journal::StorageError;

    use super::*;

    #[test]
    fn a_newer_format_is_told_wherever_it_is_met() {
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
