//! What each session is doing: the saved status state of its events, weighed against what a probe
//! of the host sees now.
//!
//! Only sessions that were recently active, or that an agent reports as open, are assessed. The
//! tracker remembers each of them, so that the next look costs only what is new.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use capture::{Environment, SessionFile, file_of_session, files_of_sessions};
use event::payload::SessionMode;
use event::{Event, SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::status::{
    Attention, AttentionKind, Life, ProcessEvidence, StatusState, StatusSummary, Verdict,
    attention, stands_until, summarize, verdict,
};
use projection::{Facts, PriceTable, Projection, TitleOrigin};
use redact::Redactor;
use views::{catch_up, load_current, load_saved};

use host::{HostProbe, ProbeTarget, ProcessTable};

use super::looping::describe_loop;
use crate::api::prices;

/// A session that was active within this time is recent.
const RECENT_NANOS: i128 = 24 * 60 * 60 * 1_000_000_000;

/// A session that waits for the user is listed for this long after its last event.
const ASKING_NANOS: i128 = 7 * RECENT_NANOS;

/// Levels of child sessions. A longer chain of parents must be a circle.
const GENERATIONS_MAX: usize = 64;

/// Sessions read at a time.
pub(crate) const PAGE: usize = 500;

/// Assesses sessions and remembers them between two looks.
pub struct StatusTracker {
    journal: Journal,
    environment: Arc<Environment>,
    sessions: HashMap<SessionId, TrackedSession>,
    /// The files of sessions, as of the last search.
    files: Option<BTreeMap<SessionId, SessionFile>>,
    /// Sessions that the search found no file for.
    without_file: BTreeSet<SessionId>,
    /// Sessions that agents reported as open when all were listed last.
    open: BTreeSet<SessionId>,
    /// The same for the last list that is kept current.
    shown_open: BTreeSet<SessionId>,
    /// Whether older sessions have an open request, as of their event with this number.
    asked: HashMap<SessionId, (u64, bool)>,
}

/// One session as far as its events were read.
struct TrackedSession {
    state: StatusState,
    facts: Facts,
    /// Absent after new events, until the next assessment.
    assessment: Option<Assessment>,
}

/// What the last assessment of a session was based on.
struct Assessment {
    target: Option<ProbeTarget>,
    evidence: ProcessEvidence,
    /// Before this time the clock alone does not change the status.
    until: Option<Time>,
}

/// What an assessment is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AssessFor {
    /// One answer. The list that is kept current does not learn of it, so that what it shows is
    /// compared with what it showed before.
    Answer,
    /// The list that is kept current.
    Show,
}

/// Which sessions are probed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recheck {
    /// Those that may be open: they can end at any time.
    Open,
    /// Also those that have ended: an agent may have opened one again without an event.
    Every,
}

/// One session and what it is doing.
#[derive(Debug)]
pub struct SessionStatus {
    pub info: SessionInfo,
    pub title: Option<String>,
    pub title_origin: Option<TitleOrigin>,
    pub project: Option<String>,
    pub verdict: Verdict,
    pub summary: StatusSummary,
    /// What it needs from the user.
    pub attention: Option<Attention>,
    /// How often it has failed in the same way, if that is why it needs the user.
    pub loop_line: Option<String>,
    pub state: StatusState,
    /// Its file is longer than what was read of it.
    pub is_behind: bool,
}

impl SessionStatus {
    /// Whether it works for another session. Users do not type into such a session.
    pub fn is_child(&self) -> bool {
        self.state.is_child() || self.info.mode() == Some(&SessionMode::Child)
    }

    /// Whether the user has to act on it. A finished session can wait.
    pub fn needs_you(&self) -> bool {
        self.attention.as_ref().is_some_and(|attention| attention.want < AttentionKind::Finished)
    }

    /// Whether lists show it. A child session is shown only if the user has to act on it.
    pub fn is_listed(&self) -> bool {
        !self.is_child() || self.needs_you()
    }
}

impl StatusTracker {
    pub fn new(journal: Journal, environment: Environment) -> StatusTracker {
        let environment = Arc::new(environment);
        StatusTracker {
            journal,
            environment,
            sessions: HashMap::new(),
            files: None,
            without_file: BTreeSet::new(),
            open: BTreeSet::new(),
            shown_open: BTreeSet::new(),
            asked: HashMap::new(),
        }
    }

    /// Which sessions count as recently active.
    pub(crate) fn recently_active(now: Time) -> SessionFilter {
        let active_since = Some(Time::from_nanos(now.nanos() - RECENT_NANOS));
        SessionFilter { active_since, ..SessionFilter::default() }
    }

    /// The sessions that were recently active or are open now, newest activity first, then those that
    /// have waited for the user for days.
    pub fn recent(
        &mut self,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        self.assess_recent(AssessFor::Answer, processes, now)
    }

    /// The same for a list that [`StatusTracker::changed`] keeps current from now on.
    pub(crate) fn recent_to_show(
        &mut self,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let listed = self.assess_recent(AssessFor::Show, processes, now)?;
        self.shown_open.clone_from(&self.open);
        Ok(listed)
    }

    fn assess_recent(
        &mut self,
        purpose: AssessFor,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let ago = |nanos: i128| Time::from_nanos(now.nanos() - nanos);
        let recent = StatusTracker::recently_active(now);
        let mut listed = self.list(&recent, purpose, processes, now)?;
        // Together with `list` this covers a week: 24 hours in full, the six days before only as
        // far as they ask.
        let earlier = SessionFilter {
            active_since: Some(ago(ASKING_NANOS)),
            active_until: Some(ago(RECENT_NANOS)),
            ..SessionFilter::default()
        };
        listed.extend(self.asking(&earlier, purpose, processes, now)?);
        // Memory is bounded by the list; other sessions are read again on demand.
        let ids: BTreeSet<&SessionId> = listed.iter().map(|status| &status.info.id).collect();
        self.sessions.retain(|id, _| ids.contains(id));
        Ok(listed)
    }

    /// Those of these sessions that still wait for the user, judged by their saved state alone.
    fn asking(
        &mut self,
        which: &SessionFilter,
        purpose: AssessFor,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        // One look for all sessions: it reads the list of open sessions from disk.
        let probe = HostProbe::look(&environment, processes);
        let mut asking = Vec::new();
        let mut asked = HashMap::new();
        let mut after = None;
        loop {
            let page = self.journal.sessions(which, after.as_deref(), PAGE)?;
            for info in page.items {
                // The filter compares the start of a session, which may have been active until now:
                // `list` has those.
                let is_later = which.active_until.is_some_and(|until| info.last_event_at > until);
                // `list` has those that an agent reports as open, however old they are.
                if is_later || self.open.contains(&info.id) {
                    continue;
                }
                // A session without a new event asks as it did before, so its saved state need not
                // be read.
                let is_asking = match self.asked.get(&info.id) {
                    Some((seq, is_asking)) if *seq == info.tail_seq => *is_asking,
                    _ => load_saved::<StatusState>(&self.journal, &info.id)?
                        .is_some_and(|it| it.is_asking()),
                };
                asked.insert(info.id.clone(), (info.tail_seq, is_asking));
                if is_asking {
                    asking.push(self.status(info, purpose, &probe, now)?);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // Replaced, not extended: sessions that were deleted or left the week are forgotten.
        self.asked = asked;
        // A saved state may ask although the process is gone; the probe has the last word.
        asking.retain(SessionStatus::needs_you);
        Ok(asking)
    }

    /// Every session there is, newest activity first.
    pub fn all(
        &mut self,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        self.list(&SessionFilter::default(), AssessFor::Answer, processes, now)
    }

    /// Whether a session is tracked up to its last event, or nearly so.
    pub(crate) fn is_near(&self, info: &SessionInfo) -> bool {
        let seq = self.sessions.get(&info.id).map_or(0, |known| known.state.seq());
        views::is_nearly_current(info, seq)
    }

    /// The status of one session.
    pub fn for_session(
        &mut self,
        info: SessionInfo,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<SessionStatus, ReadError> {
        let environment = Arc::clone(&self.environment);
        let probe = HostProbe::look(&environment, processes);
        // Files are searched before the status: `is_behind` and the probe need the path.
        self.find_files(std::slice::from_ref(&info))?;
        self.status(info, AssessFor::Answer, &probe, now)
    }

    /// Assesses sessions of which events were just recorded. Costs only what is new: it does not
    /// search for files, and none of the sessions is behind, as their files were just read.
    pub(crate) fn assess_recorded<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a SessionId>,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let probe = HostProbe::look(&environment, processes);
        let mut statuses = Vec::new();
        for id in ids {
            match self.journal.stat(id) {
                // Deleted meanwhile.
                Err(ReadError::SessionNotFound(_)) => {}
                info => {
                    let status = self.status(info?, AssessFor::Show, &probe, now)?;
                    // The events were read from the file a moment ago.
                    statuses.push(SessionStatus { is_behind: false, ..status });
                }
            }
        }
        Ok(statuses)
    }

    /// Folds an event that was just committed. Where events before it are missing, the next look
    /// reads them together with this one.
    pub(crate) fn apply_event(&mut self, event: &Event) {
        if let Some(known) = self.sessions.get_mut(&event.session_id)
            && known.state.seq() + 1 == event.seq
        {
            known.state.apply(event);
            known.facts.apply(event);
            known.assessment = None;
        }
    }

    /// Those of these sessions that may have another status without an event, because a process
    /// ended or time passed. `None` if agents have other sessions open than when all were listed.
    pub(crate) fn changed<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a SessionId>,
        which: Recheck,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Option<Vec<SessionStatus>>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let probe = HostProbe::look(&environment, processes);
        // A session opened or closed elsewhere may have to enter or leave the list.
        if open_sessions(&probe) != self.shown_open {
            return Ok(None);
        }
        let mut statuses = Vec::new();
        for id in ids {
            let assessment = self.sessions.get(id).and_then(|known| known.assessment.as_ref());
            // A session that was never assessed shows no status, so it has none that could change.
            if assessment.is_none_or(|assessment| assessment.is_valid(which, &probe, now)) {
                continue;
            }
            match self.journal.stat(id) {
                // Deleted meanwhile.
                // The list itself is wrong then, and has to be made anew.
                Err(ReadError::SessionNotFound(_)) => return Ok(None),
                info => statuses.push(self.status(info?, AssessFor::Show, &probe, now)?),
            }
        }
        Ok(Some(statuses))
    }

    /// When the clock alone may first change the status of one of these sessions.
    pub(crate) fn next_due<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a SessionId>,
    ) -> Option<Time> {
        let known = ids.into_iter().filter_map(|id| self.sessions.get(id)?.assessment.as_ref());
        known.filter_map(|assessment| assessment.until).min()
    }

    fn list(
        &mut self,
        which: &SessionFilter,
        purpose: AssessFor,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let probe = HostProbe::look(&environment, processes);
        let mut statuses = Vec::new();
        let mut listed = BTreeSet::new();
        let mut after = None;
        loop {
            let page = self.journal.sessions(which, after.as_deref(), PAGE)?;
            self.find_files(&page.items)?;
            for info in page.items {
                listed.insert(info.id.clone());
                statuses.push(self.status(info, purpose, &probe, now)?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.open = open_sessions(&probe);
        // A session may be open for days without an event; the filter by activity misses it.
        for id in self.open.difference(&listed).cloned().collect::<Vec<_>>() {
            match self.journal.stat(&id) {
                // Open, but without an event so far.
                Err(ReadError::SessionNotFound(_)) => {}
                info => statuses.push(self.status(info?, purpose, &probe, now)?),
            }
        }
        Ok(statuses)
    }

    fn status(
        &mut self,
        info: SessionInfo,
        purpose: AssessFor,
        probe: &HostProbe<'_>,
        now: Time,
    ) -> Result<SessionStatus, ReadError> {
        // Taken out of the map, not borrowed: `root_of` below needs the tracker too. It is put back
        // at the end.
        let mut known = self.take_current(&info)?;
        // An agent may mark a child in its first event or only in a later one.
        let is_child = known.state.is_child() || info.mode() == Some(&SessionMode::Child);
        // A subagent has no process of its own; the probe looks for that of its root.
        let root = if is_child { self.root_of(&info)? } else { None };
        let file = self.files.as_ref().and_then(|files| files.get(&info.id));
        let target = info.provider_session_id.as_ref().map(|session| ProbeTarget {
            provider: info.provider.clone(),
            session: session.clone(),
            agent_version: known.facts.about().agent_version.clone(),
            process: known.state.process(),
            file: file.map(|file| file.path.clone()),
            is_child,
            root: root.clone(),
            asks_to_run: known.state.asks_to_run(),
        });
        let evidence = target.as_ref().map(|target| probe.evidence_for(target)).unwrap_or_default();
        let verdict = verdict(&known.state, &evidence, now);
        let until = stands_until(&known.state, &evidence, now);
        let mut redactor = Redactor::new();
        let project = known.facts.about().project.as_deref().or(info.project.as_deref());
        let attention = attention(&known.state, &evidence, &verdict, now);
        let is_looping = attention.as_ref().is_some_and(|it| it.want == AttentionKind::Looping);
        let repeated = known.state.find_loop().filter(|_| is_looping);
        let loop_line = repeated.map(|repeated| {
            // A broken table of the user is reported where usage is listed.
            let prices = prices(&self.journal).unwrap_or_else(|_| PriceTable::shipped());
            redactor.redact(&describe_loop(repeated, &prices)).into_owned()
        });
        let status = SessionStatus {
            // Titles and summaries are texts of the user; a status leaves the process by HTTP and
            // bus.
            title: known.facts.title().map(|title| redactor.redact(title).into_owned()),
            title_origin: known.facts.title_origin(),
            // The name of a folder may hold a token as well.
            project: project.map(|project| redactor.redact(project).into_owned()),
            summary: summarize(&known.state, &verdict, &mut |text| redactor.redact(text)),
            attention,
            loop_line,
            verdict,
            state: known.state.clone(),
            is_behind: file.is_some_and(has_grown),
            info: info.clone(),
        };
        if purpose == AssessFor::Show {
            known.assessment = Some(Assessment { target, evidence, until });
        }
        self.sessions.insert(info.id, known);
        Ok(status)
    }

    /// The provider's id of the session at the top of a child's parents.
    fn root_of(&self, child: &SessionInfo) -> Result<Option<String>, ReadError> {
        let mut parent = child.ancestry.parent_session_id.clone();
        let mut root = None;
        // A damaged record may hold a circle of parents.
        for _ in 0..GENERATIONS_MAX {
            let Some(id) = parent else { break };
            match self.journal.stat(&id) {
                // The parent was never recorded, or is deleted.
                Err(ReadError::SessionNotFound(_)) => return Ok(None),
                info => {
                    let info = info?;
                    let is_child = info.mode() == Some(&SessionMode::Child);
                    parent = info.ancestry.parent_session_id.filter(|_| is_child);
                    root = info.provider_session_id;
                }
            }
        }
        Ok(root)
    }

    /// Finds the files of these sessions. For a session with new events only its own file is read
    /// again, to learn how far it was read; all files are searched only for a new session.
    fn find_files(&mut self, sessions: &[SessionInfo]) -> Result<(), ReadError> {
        let Some(files) = &mut self.files else { return self.find_all_files(sessions) };
        for info in sessions {
            let known = self.sessions.get(&info.id);
            let is_current = known.is_some_and(|known| known.state.seq() == info.tail_seq);
            match files.get(&info.id).map(|file| file.source.clone()) {
                Some(_) if is_current => {}
                Some(source) => {
                    // Removed before it is read again: a source that is gone leaves no old path
                    // behind.
                    files.remove(&info.id);
                    let position = self.journal.source_position(&source)?;
                    files.extend(position.and_then(|it| file_of_session(&source, &it)));
                }
                None if self.without_file.contains(&info.id) => {}
                // A session without a known file is new; its file is among all sources.
                None => return self.find_all_files(sessions),
            }
        }
        Ok(())
    }

    fn find_all_files(&mut self, sessions: &[SessionInfo]) -> Result<(), ReadError> {
        let files = files_of_sessions(&self.journal.sources()?);
        let without = sessions.iter().filter(|info| !files.contains_key(&info.id));
        self.without_file.extend(without.map(|info| info.id.clone()));
        self.files = Some(files);
        Ok(())
    }

    /// Takes the tracked session out of the map and reads its new events.
    fn take_current(&mut self, info: &SessionInfo) -> Result<TrackedSession, ReadError> {
        let known = self.sessions.remove(&info.id);
        let is_current = |known: &TrackedSession| known.state.seq() == info.tail_seq;
        // Compared before it is consumed: a session without news costs no read.
        if known.as_ref().is_some_and(is_current) {
            return Ok(known.expect("it is some: its number was just compared"));
        }
        let (state, facts) = match known {
            Some(known) => {
                // Continues from the state in memory instead of the saved one, which may be older.
                let state = catch_up(&self.journal, info, Some(known.state))?;
                (state, catch_up(&self.journal, info, Some(known.facts))?)
            }
            None => (load_current(&self.journal, info)?, load_current(&self.journal, info)?),
        };
        Ok(TrackedSession { state, facts, assessment: None })
    }
}

impl Assessment {
    /// Whether the assessment still holds.
    fn is_valid(&self, which: Recheck, probe: &HostProbe<'_>, now: Time) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            return false;
        }
        let is_looked_at = which == Recheck::Every || self.is_open();
        // A session without an id of the provider cannot be probed; only the clock changes it.
        let Some(target) = self.target.as_ref().filter(|_| is_looked_at) else { return true };
        probe.evidence_for(target) == self.evidence
    }

    /// Whether a process may have the session open.
    fn is_open(&self) -> bool {
        let ProcessEvidence { process, lock, missing, .. } = &self.evidence;
        let lives = [process.map(|process| process.life), lock.as_ref().map(|lock| lock.life)];
        let mut told = lives.into_iter().flatten().peekable();
        match told.peek() {
            // Evidence of any live process or lock keeps it open.
            Some(_) => told.any(|life| life != Life::Gone),
            None => missing.is_none(),
        }
    }
}

/// The sessions that agents report as open.
fn open_sessions(probe: &HostProbe<'_>) -> BTreeSet<SessionId> {
    let open = probe.open();
    open.filter_map(|(provider, session)| SessionId::new(format!("{provider}:{session}")).ok())
        .collect()
}

/// Whether a file has grown since it was read.
fn has_grown(file: &SessionFile) -> bool {
    // Only growth counts: a shorter file was replaced, and capture notices that itself.
    std::fs::metadata(&file.path).is_ok_and(|there| there.len() > file.size)
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw};
    use journal::Batch;
    use projection::status::{Process, Status as Doing};
    use serde_json::{Value, json};

    use super::*;
    use host::Processes;
    use views::{prepare_state, save_current};

    const BEGUN: i64 = 1_800_000_000_000;

    /// Adds an event to the one session, so many seconds after it began.
    fn add(journal: &Journal, secs: i64, kind: &str, data: Value) {
        let at = Time::from_millis(BEGUN + secs * 1_000);
        let id = EventId::derived(at, "made up", "s", kind.as_bytes());
        let session_id = SessionId::new("made-up:s").unwrap();
        let data = Raw::from_value(&data).unwrap();
        let draft = Draft::with_data(id, session_id, at, Kind::from(kind), data);
        journal.append(Batch::observed().with(draft)).unwrap();
    }

    #[test]
    fn saved_state_is_continued() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("made-up:s").unwrap();
        add(&journal, 0, "session.started", json!({"entry_point": "cli"}));
        add(&journal, 1, "user.prompt", json!({"content": "go"}));
        let now = Time::from_millis(BEGUN + 5_000);
        save_current::<StatusState>(&journal, [(id.clone(), None)], |_| true).unwrap();
        assert_eq!(load_saved::<StatusState>(&journal, &id).unwrap().unwrap().seq(), 2);
        let environment = Environment::new(dir.path(), []);
        let mut statuses = StatusTracker::new(journal.clone(), environment.clone());
        let look = |statuses: &mut StatusTracker| {
            let listed = statuses.recent(&Processes::default(), now).unwrap();
            listed.iter().map(|status| status.verdict.status).collect::<Vec<_>>()
        };
        assert_eq!(look(&mut statuses), [Doing::Running]);
        add(&journal, 2, "turn.completed", json!({"stop_reason": "completed"}));
        assert_eq!(look(&mut statuses), [Doing::Waiting]);
        let of_new =
            StatusTracker::new(journal.clone(), environment).recent(&Processes::default(), now);
        assert_eq!(of_new.unwrap()[0].state, statuses.sessions[&id].state);
    }

    #[test]
    fn long_session_is_prepared_once() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("made-up:s").unwrap();
        add(&journal, 0, "user.prompt", json!({"content": "go"}));
        prepare_state::<StatusState>(&journal, &journal.stat(&id).unwrap()).unwrap();
        assert_eq!(
            load_saved::<StatusState>(&journal, &id).unwrap(),
            None,
            "a short one costs nothing"
        );
        let events = (0..2_001_u64).map(|number| {
            let at = Time::from_millis(BEGUN + 1_000);
            let event_id = EventId::derived(at, "made up", "s", &number.to_be_bytes());
            let data = Raw::from_value(&json!({"content": "more"})).unwrap();
            Draft::with_data(event_id, id.clone(), at, Kind::AssistantMessage, data)
        });
        journal.append(events.fold(Batch::observed(), Batch::with)).unwrap();
        let info = journal.stat(&id).unwrap();
        let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
        assert!(!statuses.is_near(&info));
        prepare_state::<StatusState>(&journal, &info).unwrap();
        assert_eq!(load_saved::<StatusState>(&journal, &id).unwrap().unwrap().seq(), info.tail_seq);
        statuses
            .for_session(info.clone(), &Processes::default(), Time::from_millis(BEGUN))
            .unwrap();
        assert!(statuses.is_near(&info));
    }

    /// Every process lives until `is_gone` is set. Counts the questions.
    #[derive(Default)]
    struct Counting {
        asked: std::cell::Cell<usize>,
        is_gone: std::cell::Cell<bool>,
    }

    impl ProcessTable for Counting {
        fn find(&self, pid: u32, _: host::Started<'_>) -> Process {
            Process { pid, life: self.runs(""), is_certain: true, started_at: None }
        }

        fn runs(&self, _: &str) -> Life {
            self.asked.set(self.asked.get() + 1);
            if self.is_gone.get() { Life::Gone } else { Life::Alive }
        }

        fn holds_lock(&self, _: &std::path::Path) -> bool {
            false
        }
    }

    #[test]
    fn only_changed_sessions_are_assessed_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("gemini:s").unwrap();
        let add = |secs: i64, kind: &str, data: Value| {
            let at = Time::from_millis(BEGUN + secs * 1_000);
            let event_id = EventId::derived(at, "gemini", "s", kind.as_bytes());
            let data = Raw::from_value(&data).unwrap();
            let mut draft = Draft::with_data(event_id, id.clone(), at, Kind::from(kind), data);
            draft.provider = "gemini".to_owned();
            draft.provider_session_id = Some("s".to_owned());
            journal.append(Batch::observed().with(draft)).unwrap();
        };
        add(0, "session.started", json!({"entry_point": "cli"}));
        add(1, "user.prompt", json!({"content": "go"}));
        add(2, "turn.completed", json!({"stop_reason": "completed"}));
        let at = |secs: i64| Time::from_millis(BEGUN + secs * 1_000);
        let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
        let processes = Counting::default();
        statuses.recent_to_show(&processes, at(5)).unwrap();
        let ids = BTreeSet::from([id.clone()]);
        let mut changed = |secs, which| {
            let changed = statuses.changed(&ids, which, &processes, at(secs)).unwrap().unwrap();
            changed.iter().map(|status| status.verdict.status).collect::<Vec<_>>()
        };
        assert_eq!(changed(6, Recheck::Open), []);
        // The clock alone makes it idle.
        assert_eq!(changed(122, Recheck::Open), [Doing::Idle]);
        assert_eq!(changed(123, Recheck::Open), []);
        processes.is_gone.set(true);
        assert_eq!(changed(124, Recheck::Open), [Doing::Exited]);
        // An ended session is probed only now and then.
        processes.is_gone.set(false);
        let asked = processes.asked.get();
        assert_eq!(changed(125, Recheck::Open), []);
        assert_eq!(processes.asked.get(), asked);
        assert_eq!(changed(126, Recheck::Every), [Doing::Idle]);
    }

    #[test]
    fn answer_hides_no_change_from_the_list() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("gemini:s").unwrap();
        let at = Time::from_millis(BEGUN);
        let data = Raw::from_value(&json!({"content": "go"})).unwrap();
        let event_id = EventId::derived(at, "gemini", "s", b"prompt");
        let mut draft = Draft::with_data(event_id, id.clone(), at, Kind::UserPrompt, data);
        draft.provider = "gemini".to_owned();
        draft.provider_session_id = Some("s".to_owned());
        journal.append(Batch::observed().with(draft)).unwrap();
        let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
        let processes = Counting::default();
        let now = Time::from_millis(BEGUN + 5_000);
        statuses.recent_to_show(&processes, now).unwrap();
        processes.is_gone.set(true);
        // A command asks first, and the list has to learn of the end all the same.
        assert_eq!(statuses.recent(&processes, now).unwrap()[0].verdict.status, Doing::Exited);
        let changed = statuses.changed(&[id], Recheck::Open, &processes, now).unwrap().unwrap();
        assert_eq!(changed[0].verdict.status, Doing::Exited);
    }

    #[test]
    fn request_of_days_ago_is_still_listed() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("made-up:s").unwrap();
        add(&journal, 0, "user.prompt", json!({"content": "go"}));
        add(&journal, 1, "approval.requested", json!({"approval_id": "a", "tool": "Bash"}));
        save_current::<StatusState>(&journal, [(id.clone(), None)], |_| true).unwrap();
        let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
        let mut listed = |days: i64| {
            let now = Time::from_millis(BEGUN + days * 24 * 60 * 60 * 1_000);
            statuses.recent(&Processes::default(), now).unwrap().len()
        };
        assert_eq!((listed(3), listed(8)), (1, 0));
        add(&journal, 2, "approval.resolved", json!({"approval_id": "a", "decision": "allow"}));
        save_current::<StatusState>(&journal, [(id.clone(), None)], |_| true).unwrap();
        assert_eq!(listed(3), 0);
        assert!(statuses.sessions.is_empty(), "only listed sessions stay in memory");
    }

    #[test]
    fn child_ends_with_its_parent() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let add = |id: &str, kind: &str, data: Value| {
            let at = Time::from_millis(BEGUN + i64::from(kind != "session.started") * 1_000);
            let event_id = EventId::derived(at, "gemini", id, kind.as_bytes());
            let session = SessionId::new(format!("gemini:{id}")).unwrap();
            let data = Raw::from_value(&data).unwrap();
            let mut draft = Draft::with_data(event_id, session, at, Kind::from(kind), data);
            draft.provider = "gemini".to_owned();
            draft.provider_session_id = Some(id.to_owned());
            journal.append(Batch::observed().with(draft)).unwrap();
        };
        add("main", "session.started", json!({"entry_point": "cli"}));
        add("main", "user.prompt", json!({"content": "go"}));
        let parent = json!({"session_id": "gemini:main"});
        let begun = json!({"entry_point": "cli", "mode": "child", "parent": parent});
        add("child", "session.started", begun);
        let asked = json!({"approval_id": "a", "tool": "Bash"});
        add("child", "approval.requested", asked);
        let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
        let processes = Counting::default();
        let mut needs = || {
            let now = Time::from_millis(BEGUN + 5_000);
            let listed = statuses.recent(&processes, now).unwrap();
            listed.iter().filter(|status| status.needs_you()).count()
        };
        assert_eq!(needs(), 1);
        processes.is_gone.set(true);
        assert_eq!(needs(), 0);
    }
}
