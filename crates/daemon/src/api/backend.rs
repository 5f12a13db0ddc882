//! Answers the questions of the HTTP server from the parts of the daemon.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use capture::{Environment, OtlpEncoding, OtlpSignal};
use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::document::{Format, Options};
use projection::{Facts, Grouping, Hot, Turns};
use segments::Zone;
use serve::{
    BusRefused, DocumentKind, PageRequest, SessionSelector, SourceError, Sources, TokenError,
};

use super::adapters::adapters;
use super::documents::{Secrets, WriteError, handoff_note, write_document, write_events};
use super::facets::facets;
use super::family::family;
use super::feed::{FeedCursor, feed};
use super::listing::{Listing, ListingError, budget_uses_of, prices, spending_of, without_source};
use super::pictures::picture;
use super::preferences::PreferenceFile;
use super::resume::ResumeCommand;
use super::telemetry::Telemeter;
use super::work::WorkStats;
use crate::answers;
use crate::health::{Condition, Health};
use crate::journal_handle::JournalHandle;
use crate::log::part;
use crate::record_import::import_sample;
use crate::settings::Settings;
use crate::status::{ApprovalFilter, BoardWatch, StatusService, approvals};
use session::Imported;
use views::ViewCache;

/// What the HTTP server answers from: the journal, caches of its views, and the state of the
/// daemon.
pub(crate) struct ApiBackend {
    pub(crate) journal: JournalHandle,
    pub(crate) status: Arc<StatusService>,
    /// Held while pages follow the statuses.
    pub(crate) watch: Mutex<Option<BoardWatch>>,
    pub(crate) recent: ViewCache<Hot>,
    pub(crate) facts: ViewCache<Facts>,
    pub(crate) turns: ViewCache<Turns>,
    pub(crate) work_stats: WorkStats,
    pub(crate) environment: Environment,
    pub(crate) clock: fn() -> Time,
    /// The time zone of days.
    pub(crate) zone: Zone,
    pub(crate) health: Health,
    pub(crate) telemeter: Telemeter,
    pub(crate) preferences: PreferenceFile,
    pub(crate) started_at: Instant,
    /// Sessions without a file, and when the files were checked.
    pub(crate) without_source: Mutex<Option<(Instant, Arc<BTreeSet<SessionId>>)>>,
}

/// How long the list of missing files is used again: making it checks every file there is.
const WITHOUT_SOURCE_FOR: Duration = Duration::from_secs(60);

impl ApiBackend {
    fn without_source(&self, journal: &Journal) -> Result<Arc<BTreeSet<SessionId>>, ReadError> {
        // Held while the files are checked: a second request waits for the result instead of
        // repeating it.
        let mut known = self.without_source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sessions)) = &*known
            && at.elapsed() < WITHOUT_SOURCE_FOR
        {
            return Ok(Arc::clone(sessions));
        }
        let sessions = Arc::new(without_source(journal)?);
        *known = Some((Instant::now(), Arc::clone(&sessions)));
        Ok(sessions)
    }
}

impl Sources for ApiBackend {
    fn journal(&self) -> Journal {
        self.journal.current()
    }

    fn health(&self) -> Result<wire::Health, SourceError> {
        let journal = self.journal();
        let Condition { parts, disk, backlog, model, waiting, .. } = self.health.condition();
        Ok(wire::Health {
            ok: disk.is_none(),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_seconds: self.started_at.elapsed().as_secs(),
            sessions: journal.session_count()?,
            position: journal.tail()?,
            parts,
            telemetry: self.telemeter.counted(),
            backlog,
            model,
            disk,
            waiting,
        })
    }

    fn sessions(&self, wanted: &PageRequest) -> Result<wire::Page<wire::Session>, SourceError> {
        let journal = self.journal();
        let page =
            journal.sessions(&filter(&wanted.which), wanted.after.as_deref(), wanted.limit)?;
        let listing = Listing::for_page(&journal, &self.facts, self.without_source(&journal)?);
        let items = listing.map_err(listing_error)?.list(&page.items)?;
        Ok(wire::Page { items, next: page.next })
    }

    fn session(&self, id: &str) -> Result<wire::Session, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        let facts = self.facts.get(&journal, &info)?;
        let turns = self.turns.get(&journal, &info)?.all().cloned().map(answers::turn).collect();
        let status = self.status.for_session(info.clone())?;
        Ok(wire::Session {
            status: Some(status.verdict.status.as_str().to_owned()),
            turns: Some(turns),
            ..answers::session(&info, &facts, &prices(&journal).map_err(listing_error)?)
        })
    }

    fn recent(&self, id: &str) -> Result<wire::RecentActivity, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        Ok(answers::recent(&*self.recent.get(&journal, &info)?))
    }

    fn statuses(&self) -> Result<Vec<wire::Status>, SourceError> {
        // The board is current while it is watched, and costs nothing.
        match self.status.board().whole() {
            Some(shown) => Ok(shown),
            None => Ok(self.status.recent()?.iter().map(answers::status).collect()),
        }
    }

    fn waiting_for_user(&self) -> Result<Vec<wire::Status>, SourceError> {
        let recent = self.status.recent()?;
        Ok(answers::wanting(&recent).into_iter().map(answers::status).collect())
    }

    fn approvals(&self, is_pending: bool) -> Result<Vec<wire::Approval>, SourceError> {
        let which = if is_pending { ApprovalFilter::Pending } else { ApprovalFilter::All };
        Ok(approvals(&self.journal(), &self.status.recent()?, which)?)
    }

    fn telemetry(
        &self,
        signal: OtlpSignal,
        encoding: OtlpEncoding,
        body: &[u8],
    ) -> Result<(), SourceError> {
        let told = capture::telemetry(signal, encoding, body)?;
        // The exporter gets an error and sends the same data again later.
        self.telemeter.take(told).then_some(()).ok_or(SourceError::NoRoom)
    }

    fn explain(&self, id: &str) -> Result<wire::Status, SourceError> {
        let info = self.journal().resolve(id)?;
        Ok(answers::explained(&self.status.for_session(info)?))
    }

    fn search(&self, query: &journal::Query) -> Result<wire::SearchReply, SourceError> {
        Ok(answers::found(self.journal().search(query)?))
    }

    fn usage(
        &self,
        by: &str,
        which: &SessionSelector,
        is_utc: bool,
    ) -> Result<wire::Usage, SourceError> {
        let grouping = Grouping::parse(by).ok_or_else(|| SourceError::Bad {
            given: by.to_owned(),
            expected: "daily, weekly, monthly, session, model, agent or project",
        })?;
        let journal = self.journal();
        let facts_of = |session: &SessionInfo| self.facts.get(&journal, session);
        let zone = if is_utc { &Zone::UTC } else { &self.zone };
        let spending = spending_of(&journal, &filter(which), grouping, zone, facts_of);
        let spending = spending.map_err(listing_error)?;
        // Settings that cannot be read are told elsewhere; what was used is shown all the same.
        let settings = journal.dir().and_then(|dir| Settings::load(dir).ok()).unwrap_or_default();
        let now = (self.clock)();
        // A limit is for the user's day, however the rows are shown.
        let uses = budget_uses_of(&journal, settings.budgets(), now, &self.zone, facts_of);
        Ok(answers::usage(&spending, &uses.map_err(listing_error)?))
    }

    fn feed(&self, wanted: &PageRequest) -> Result<wire::Page<wire::Happening>, SourceError> {
        // The cursor comes from the client and may be any text.
        let after = wanted.after.as_deref().map(str::parse::<FeedCursor>).transpose();
        let after = after.map_err(|given| SourceError::Bad { given, expected: "a `next`" })?;
        Ok(feed(
            &self.journal(),
            &self.facts,
            &filter(&wanted.which),
            after.as_ref(),
            wanted.limit,
        )?)
    }

    fn work(&self, which: &SessionSelector) -> Result<wire::WorkReport, SourceError> {
        Ok(self.work_stats.report(&self.journal(), &filter(which), &self.zone)?)
    }

    fn facets(&self) -> Result<wire::Facets, SourceError> {
        Ok(facets(&self.journal())?)
    }

    fn adapters(&self) -> Result<Vec<wire::Adapter>, SourceError> {
        let statuses = self.status.recent()?;
        Ok(adapters(&self.journal(), &self.facts, &self.environment, &statuses, (self.clock)())?)
    }

    fn family(&self, id: &str) -> Result<Vec<wire::Session>, SourceError> {
        let journal = self.journal();
        let members = family(&journal, journal.resolve(id)?)?;
        let listing = Listing::for_page(&journal, &self.facts, self.without_source(&journal)?);
        Ok(listing.map_err(listing_error)?.list(&members)?)
    }

    fn resume(&self, id: &str) -> Result<wire::Resume, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        let way = ResumeCommand::find(&journal, info.clone())?;
        Ok(wire::Resume {
            // A subagent is resumed by its parent, so the id may differ from the requested one.
            session_id: way.as_ref().map_or(info.id.to_string(), |way| way.session_id.clone()),
            line: way.as_ref().map(ResumeCommand::line),
            cwd: way.as_ref().and_then(|way| way.cwd.clone()),
            command: way.map(|way| way.command),
        })
    }

    fn handoff(&self, id: &str) -> Result<String, SourceError> {
        let journal = self.journal();
        Ok(handoff_note(&journal, &journal.resolve(id)?)?)
    }

    fn export(
        &self,
        id: &str,
        wanted: DocumentKind,
        redact: bool,
        out: &mut dyn Write,
    ) -> Result<(), SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        let secrets = if redact { Secrets::Removed } else { Secrets::Kept };
        let format = match wanted {
            DocumentKind::Markdown => Format::Markdown,
            DocumentKind::Html => Format::Html,
            DocumentKind::Text => Format::Plain,
            DocumentKind::Events => {
                return write_events(&journal, &info, secrets, out).map_err(write_error);
            }
        };
        let how = (format, Options::default());
        write_document(&journal, &info, how, secrets, out).map_err(write_error)
    }

    fn picture(&self, id: &str, seq: u64, number: usize) -> Result<Option<Vec<u8>>, SourceError> {
        let journal = self.journal();
        Ok(picture(&journal, &journal.resolve(id)?.id, seq, number)?)
    }

    fn import_sample(&self) -> Result<wire::SampleImport, SourceError> {
        let journal = self.journal();
        let folder = journal.dir().map(Path::to_owned).unwrap_or_default();
        let Imported { sessions, events, already_recorded, deleted, .. } =
            import_sample(&journal, &folder, (self.clock)()).map_err(|error| {
                SourceError::Other(format!("the sample was not imported: {error}"))
            })?;
        Ok(wire::SampleImport { sessions, events, already_recorded, deleted })
    }

    fn preferences(&self) -> Result<wire::Preferences, SourceError> {
        self.preferences.read()
    }

    fn change_preferences(
        &self,
        changes: &wire::Preferences,
    ) -> Result<wire::Preferences, SourceError> {
        self.preferences.change(changes)
    }

    fn watched_by(&self, watchers: usize) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        match watchers {
            0 => *watch = None,
            _ => _ = watch.get_or_insert_with(|| self.status.watch()),
        }
    }

    fn bus_refused(&self, refused: &BusRefused) {
        let BusRefused { count, origin, why } = refused;
        // A program that is no page sends no origin.
        let origin = origin.as_deref().unwrap_or("no page");
        tracing::warn!(
            target: part::HTTP,
            "{count} messages for the bus were refused; the last, of {origin}: {why}"
        );
    }

    fn login_failed(&self, error: &TokenError) {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        tracing::error!(target: part::HTTP, "a browser could not be signed in: {error}{cause}");
    }
}

/// The journal's filter for a request.
fn filter(which: &SessionSelector) -> SessionFilter {
    SessionFilter {
        provider: which.provider.clone(),
        project: which.project.clone(),
        active_since: which.since,
        active_until: which.until,
    }
}

fn write_error(error: WriteError) -> SourceError {
    match error {
        WriteError::Read(error) => error.into(),
        WriteError::Io(error) => SourceError::Other(error.to_string()),
    }
}

fn listing_error(error: ListingError) -> SourceError {
    match error {
        ListingError::Read(error) => error.into(),
        error => SourceError::Other(error.to_string()),
    }
}
