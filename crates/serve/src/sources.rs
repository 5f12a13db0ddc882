//! Where answers come from: whoever opens the door hands it in.

use std::io::Write;

use capture::{Encoding, Signal, TelemetryError};
use event::Time;
use journal::{Journal, Query, ReadError};
use wire::{
    Adapter, Approval, Found, Happening, Health, Page, Recent, Resume, Session, Status, Usage, Work,
};

/// What can be asked of the daemon. Each call may read from disk: none is made on the thread that
/// serves connections.
pub trait Sources: Send + Sync + 'static {
    /// The journal as it is open now.
    fn journal(&self) -> Journal;
    fn health(&self) -> Result<Health, SourceError>;
    fn sessions(&self, wanted: &SessionsWanted) -> Result<Page<Session>, SourceError>;
    /// One session with its turns; by the beginning of its id.
    fn session(&self, id: &str) -> Result<Session, SourceError>;
    /// The newest part of one; by the beginning of its id.
    fn recent(&self, id: &str) -> Result<Recent, SourceError>;
    /// What sessions are doing that were active lately.
    fn statuses(&self) -> Result<Vec<Status>, SourceError>;
    /// Those of them that want somebody, the most urgent first.
    fn wanting(&self) -> Result<Vec<Status>, SourceError>;
    /// What they asked to be allowed, the newest first, or only what still waits, the riskiest first.
    fn approvals(&self, is_pending: bool) -> Result<Vec<Approval>, SourceError>;
    /// What one is doing, and why; by the beginning of its id.
    fn explain(&self, id: &str) -> Result<Status, SourceError>;
    fn search(&self, query: &Query) -> Result<Found, SourceError>;
    fn usage(&self, wanted: &UsageWanted) -> Result<Usage, SourceError>;
    /// What happened over the sessions that fit, the newest first.
    fn feed(&self, wanted: &SessionsWanted) -> Result<Page<Happening>, SourceError>;
    /// How the work went in them.
    fn work(&self, wanted: &SessionsWanted) -> Result<Work, SourceError>;
    /// How it stands with each agent.
    fn adapters(&self) -> Result<Vec<Adapter>, SourceError>;
    /// A session with those it comes from and those that came from it.
    fn family(&self, id: &str) -> Result<Vec<Session>, SourceError>;
    /// How to go on with one.
    fn resume(&self, id: &str) -> Result<Resume, SourceError>;
    /// The note for whoever goes on with one, without secrets.
    fn handoff(&self, id: &str) -> Result<String, SourceError>;
    /// The picture with this number, from 0, in what an agent wrote for an event.
    fn picture(&self, id: &str, seq: u64, number: usize) -> Result<Option<Vec<u8>>, SourceError>;
    /// Writes one as a document.
    fn export(
        &self,
        id: &str,
        wanted: DocumentWanted,
        redact: bool,
        out: &mut dyn Write,
    ) -> Result<(), SourceError>;
    /// Takes what an agent exports.
    fn telemetry(&self, signal: Signal, encoding: Encoding, body: &[u8])
    -> Result<(), SourceError>;
    /// Told when somebody begins or ceases to watch what sessions are doing.
    fn watched_by(&self, watchers: usize);
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionsWanted {
    pub provider: Option<String>,
    pub project: Option<String>,
    pub since: Option<Time>,
    pub until: Option<Time>,
    pub after: Option<String>,
    pub limit: usize,
}

/// What a session is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DocumentWanted {
    Markdown,
    Html,
    Text,
    /// Its events, one a line.
    Events,
}

/// What use to add up.
#[derive(Clone, Debug, Default)]
pub struct UsageWanted {
    /// `daily`, `weekly`, `monthly`, `session`, `model` or `project`.
    pub by: String,
    pub provider: Option<String>,
    pub project: Option<String>,
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was asked makes no sense.
    #[error("`{given}` is not {expected}")]
    Bad { given: String, expected: &'static str },
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("so much waits already that there is no room for this")]
    NoRoom,
    #[error("{0}")]
    Other(String),
}
