//! The backend of the API, which the daemon passes in.

use std::io::Write;

use capture::{OtlpEncoding, OtlpSignal, TelemetryError};
use event::Time;
use journal::{Journal, Query, ReadError};
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{
    Adapter, Approval, Facets, Happening, Health, Page, Preferences, RecentActivity, Resume,
    SampleImport, SearchReply, Session, Status, Usage, WorkReport,
};

use crate::token::TokenError;

/// What can be asked of the daemon. Each call may read from disk: none is made on the thread that
/// serves connections.
pub trait Sources: Send + Sync + 'static {
    /// The journal as it is open now.
    fn journal(&self) -> Journal;
    fn health(&self) -> Result<Health, SourceError>;
    fn sessions(&self, wanted: &PageRequest) -> Result<Page<Session>, SourceError>;
    /// One session with its turns; by the beginning of its id.
    fn session(&self, id: &str) -> Result<Session, SourceError>;
    /// The newest part of one; by the beginning of its id.
    fn recent(&self, id: &str) -> Result<RecentActivity, SourceError>;
    /// What sessions are doing that were active lately.
    fn statuses(&self) -> Result<Vec<Status>, SourceError>;
    /// Those of them that wait for the user, the most urgent first.
    fn waiting_for_user(&self) -> Result<Vec<Status>, SourceError>;
    /// What they asked to be allowed, the newest first, or only what still waits, the riskiest first.
    fn approvals(&self, is_pending: bool) -> Result<Vec<Approval>, SourceError>;
    /// What one is doing, and why; by the beginning of its id.
    fn explain(&self, id: &str) -> Result<Status, SourceError>;
    fn search(&self, query: &Query) -> Result<SearchReply, SourceError>;
    /// What they used, by `daily`, `weekly`, `monthly`, `session`, `model`, `agent` or `project`.
    fn usage(&self, by: &str, which: &SessionSelector, is_utc: bool) -> Result<Usage, SourceError>;
    /// What happened over the sessions that fit, the newest first.
    fn feed(&self, wanted: &PageRequest) -> Result<Page<Happening>, SourceError>;
    /// How the work went in them.
    fn work(&self, which: &SessionSelector) -> Result<WorkReport, SourceError>;
    /// How it stands with each agent.
    fn adapters(&self) -> Result<Vec<Adapter>, SourceError>;
    /// What there is to choose from: agents and projects.
    fn facets(&self) -> Result<Facets, SourceError>;
    /// A session with those it comes from and those that came from it.
    fn family(&self, id: &str) -> Result<Vec<Session>, SourceError>;
    /// How to go on with one.
    fn resume(&self, id: &str) -> Result<Resume, SourceError>;
    /// The handoff note of a session, without secrets.
    fn handoff(&self, id: &str) -> Result<String, SourceError>;
    /// The picture with this number, from 0, in what an agent wrote for an event.
    fn picture(&self, id: &str, seq: u64, number: usize) -> Result<Option<Vec<u8>>, SourceError>;
    /// Writes one as a document.
    fn export(
        &self,
        id: &str,
        wanted: DocumentKind,
        redact: bool,
        out: &mut dyn Write,
    ) -> Result<(), SourceError>;
    /// Takes what an agent exports.
    fn telemetry(
        &self,
        signal: OtlpSignal,
        encoding: OtlpEncoding,
        body: &[u8],
    ) -> Result<(), SourceError>;
    /// Imports the sessions that come with the program. Doing it again changes nothing.
    fn import_sample(&self) -> Result<SampleImport, SourceError>;
    /// What the user chose in the page.
    fn preferences(&self) -> Result<Preferences, SourceError>;
    /// Changes some of it and returns all of it.
    fn change_preferences(&self, changes: &Preferences) -> Result<Preferences, SourceError>;
    /// Called when the number of status watchers changes.
    fn watched_by(&self, watchers: usize);
    /// Called when the number of refused bus messages has doubled.
    fn bus_refused(&self, refused: &BusRefused);
    /// Called when a browser came with a valid link and its login could not be saved.
    fn login_failed(&self, error: &TokenError);
}

/// The bus messages of pages that were refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BusRefused {
    /// How often, all in all.
    pub count: u64,
    /// Where the last page is from, as its browser says, or nothing for one that is no page.
    pub origin: Option<String>,
    pub why: String,
}

/// The sessions that a request is about.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SessionSelector {
    /// Only sessions of this provider, for instance `claude`.
    pub provider: Option<String>,
    /// Only sessions of this project or folder; the last part of its name will do.
    pub project: Option<String>,
    /// Only sessions active since this time; of what is told with a time, only that.
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<Time>,
    /// Only sessions begun before this time; of what is told with a time, only that.
    #[param(value_type = Option<String>, format = DateTime)]
    pub until: Option<Time>,
}

/// A part of a list over them.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    pub which: SessionSelector,
    /// `next` of the part before it.
    pub after: Option<String>,
    pub limit: usize,
}

/// What a session is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DocumentKind {
    Markdown,
    Html,
    Text,
    /// Its events, one a line.
    Events,
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
    #[error("too many requests wait already")]
    NoRoom,
    #[error("{0}")]
    Other(String),
}
