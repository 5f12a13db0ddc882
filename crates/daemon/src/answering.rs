//! What can be asked over HTTP, answered from the parts of the daemon.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use capture::{Environment, OtlpEncoding, OtlpSignal};
use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::document::{Format, Options};
use projection::{Facts, Grouping, Hot, Turns};
use serve::{BusRefused, DocumentKind, PageRequest, SessionSelector, SourceError, Sources};

use crate::adapters::adapters;
use crate::answers;
use crate::asked::{self, approvals};
use crate::documents::{Secrets, WriteError, handoff_note, write_document, write_events};
use crate::facets::facets;
use crate::family::family;
use crate::feed::{Place, feed};
use crate::health::{Condition, Health};
use crate::listing::{Listing, ListingError, prices, spending_of, without_source};
use crate::live::Live;
use crate::log::{Log, Part};
use crate::opened::Opened;
use crate::pictures::picture;
use crate::resume::Way;
use crate::telemetry::Telemeter;
use crate::work::Worked;
use views::ViewCache;

/// What rows of use can stand for, by the names people give them.
const GROUPINGS: &[(&str, Grouping)] = &[
    ("daily", Grouping::Daily),
    ("weekly", Grouping::Weekly),
    ("monthly", Grouping::Monthly),
    ("session", Grouping::Session),
    ("model", Grouping::Model),
    ("agent", Grouping::Agent),
    ("project", Grouping::Project),
];

pub(crate) struct Answering {
    pub(crate) opened: Opened,
    pub(crate) live: Arc<Live>,
    pub(crate) recent: ViewCache<Hot>,
    pub(crate) facts: ViewCache<Facts>,
    pub(crate) turns: ViewCache<Turns>,
    pub(crate) worked: Worked,
    pub(crate) environment: Environment,
    pub(crate) clock: fn() -> Time,
    pub(crate) health: Health,
    pub(crate) telemeter: Telemeter,
    pub(crate) started_at: Instant,
    pub(crate) log: Log,
    /// Sessions whose file is gone, and when that was looked for.
    pub(crate) without_source: Mutex<Option<(Instant, Arc<BTreeSet<SessionId>>)>>,
}

/// How long it is good to know whose file is gone: to look means to look for every file.
const WITHOUT_SOURCE_FOR: Duration = Duration::from_secs(60);

impl Answering {
    fn without_source(&self, journal: &Journal) -> Result<Arc<BTreeSet<SessionId>>, ReadError> {
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

impl Sources for Answering {
    fn journal(&self) -> Journal {
        self.opened.journal()
    }

    fn health(&self) -> Result<wire::Health, SourceError> {
        let journal = self.journal();
        let Condition { parts, disk, backlog, model, .. } = self.health.condition();
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
        })
    }

    fn sessions(&self, wanted: &PageRequest) -> Result<wire::Page<wire::Session>, SourceError> {
        let journal = self.journal();
        let page =
            journal.sessions(&filter(&wanted.which), wanted.after.as_deref(), wanted.limit)?;
        let listing = Listing::of_page(&journal, &self.facts, self.without_source(&journal)?);
        let items = listing.map_err(unlisted)?.of(&page.items)?;
        Ok(wire::Page { items, next: page.next })
    }

    fn session(&self, id: &str) -> Result<wire::Session, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        let facts = self.facts.get(&journal, &info)?;
        let turns = self.turns.get(&journal, &info)?.all().cloned().map(answers::turn).collect();
        let status = self.live.of(info.clone())?;
        Ok(wire::Session {
            status: Some(status.verdict.status.as_str().to_owned()),
            turns: Some(turns),
            ..answers::session(&info, &facts, &prices(&journal).map_err(unlisted)?)
        })
    }

    fn recent(&self, id: &str) -> Result<wire::RecentActivity, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        Ok(answers::recent(&*self.recent.get(&journal, &info)?))
    }

    fn statuses(&self) -> Result<Vec<wire::Status>, SourceError> {
        match self.live.shown() {
            Some(shown) => Ok(shown),
            None => Ok(self.live.lately()?.iter().map(answers::status).collect()),
        }
    }

    fn wanting(&self) -> Result<Vec<wire::Status>, SourceError> {
        let lately = self.live.lately()?;
        Ok(answers::wanting(&lately).into_iter().map(answers::status).collect())
    }

    fn approvals(&self, is_pending: bool) -> Result<Vec<wire::Approval>, SourceError> {
        let which = if is_pending { asked::Which::Pending } else { asked::Which::All };
        Ok(approvals(&self.journal(), &self.live.lately()?, which)?)
    }

    fn telemetry(
        &self,
        signal: OtlpSignal,
        encoding: OtlpEncoding,
        body: &[u8],
    ) -> Result<(), SourceError> {
        let told = capture::telemetry(signal, encoding, body)?;
        self.telemeter.take(told).then_some(()).ok_or(SourceError::NoRoom)
    }

    fn explain(&self, id: &str) -> Result<wire::Status, SourceError> {
        let info = self.journal().resolve(id)?;
        Ok(answers::explained(&self.live.of(info)?))
    }

    fn search(&self, query: &journal::Query) -> Result<wire::SearchReply, SourceError> {
        Ok(answers::found(self.journal().search(query)?))
    }

    fn usage(&self, by: &str, which: &SessionSelector) -> Result<wire::Usage, SourceError> {
        let grouping = GROUPINGS.iter().find(|(name, _)| *name == by);
        let (_, grouping) = grouping.ok_or_else(|| SourceError::Bad {
            given: by.to_owned(),
            expected: "daily, weekly, monthly, session, model, agent or project",
        })?;
        let journal = self.journal();
        let facts_of = |session: &SessionInfo| self.facts.get(&journal, session);
        let spending = spending_of(&journal, &filter(which), *grouping, facts_of);
        let spending = spending.map_err(unlisted)?;
        Ok(answers::usage(&spending))
    }

    fn feed(&self, wanted: &PageRequest) -> Result<wire::Page<wire::Happening>, SourceError> {
        let after = wanted.after.as_deref().map(str::parse::<Place>).transpose();
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
        Ok(self.worked.of(&self.journal(), &filter(which))?)
    }

    fn facets(&self) -> Result<wire::Facets, SourceError> {
        Ok(facets(&self.journal())?)
    }

    fn adapters(&self) -> Result<Vec<wire::Adapter>, SourceError> {
        let statuses = self.live.lately()?;
        Ok(adapters(&self.journal(), &self.facts, &self.environment, &statuses, (self.clock)())?)
    }

    fn family(&self, id: &str) -> Result<Vec<wire::Session>, SourceError> {
        let journal = self.journal();
        let members = family(&journal, journal.resolve(id)?)?;
        let listing = Listing::of_page(&journal, &self.facts, self.without_source(&journal)?);
        Ok(listing.map_err(unlisted)?.of(&members)?)
    }

    fn resume(&self, id: &str) -> Result<wire::Resume, SourceError> {
        let journal = self.journal();
        let info = journal.resolve(id)?;
        let way = Way::of(&journal, info.clone())?;
        Ok(wire::Resume {
            session_id: way.as_ref().map_or(info.id.to_string(), |way| way.session_id.clone()),
            line: way.as_ref().map(Way::line),
            cwd: way.as_ref().and_then(|way| way.cwd.clone()),
            command: way.map(|way| way.command),
        })
    }

    fn handoff(&self, id: &str) -> Result<String, SourceError> {
        let journal = self.journal();
        Ok(handoff_note(&journal, &journal.resolve(id)?, Secrets::Removed)?)
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
                return write_events(&journal, &info, secrets, out).map_err(unwritten);
            }
        };
        let how = (format, Options::default());
        write_document(&journal, &info, how, secrets, out).map_err(unwritten)
    }

    fn picture(&self, id: &str, seq: u64, number: usize) -> Result<Option<Vec<u8>>, SourceError> {
        let journal = self.journal();
        Ok(picture(&journal, &journal.resolve(id)?.id, seq, number)?)
    }

    fn watched_by(&self, watchers: usize) {
        self.live.watched_by(watchers);
    }

    fn refused(&self, refused: &BusRefused) {
        let BusRefused { count, origin, why } = refused;
        let origin = origin.as_deref().unwrap_or("no page");
        let words =
            format!("{count} messages for the bus were refused; the last, of {origin}: {why}");
        self.log.warn(Part::Http, words);
    }
}

/// Which sessions are meant.
fn filter(which: &SessionSelector) -> SessionFilter {
    SessionFilter {
        provider: which.provider.clone(),
        project: which.project.clone(),
        active_since: which.since,
        active_until: which.until,
    }
}

fn unwritten(error: WriteError) -> SourceError {
    match error {
        WriteError::Read(error) => error.into(),
        WriteError::Io(error) => SourceError::Other(error.to_string()),
    }
}

fn unlisted(error: ListingError) -> SourceError {
    match error {
        ListingError::Read(error) => error.into(),
        error => SourceError::Other(error.to_string()),
    }
}
