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
    Attention, AttentionKind, Life, ProcessEvidence, StatusGroup, StatusState, StatusSummary,
    Verdict, attention, stands_until, summarize, verdict,
};
use projection::{Facts, PriceTable, Projection, TitleOrigin};
use redact::Redactor;
use views::{catch_up, load_current, load_saved, save_all};

use host::{HostProbe, Pairings, ProbeTarget, ProcessTable};

use super::looping::describe_loop;
use crate::api::prices;

/// A session that was active within this time is recent.
const RECENT_NANOS: i128 = 24 * 60 * 60 * 1_000_000_000;

/// A session that waits for the user is listed for this long after its last event.
const ASKING_NANOS: i128 = 7 * RECENT_NANOS;

/// Levels of child sessions. A longer chain of parents must be a circle.
const GENERATIONS_MAX: usize = 64;

/// Sessions of one folder that are read for the status of one of them. With more the oldest are
/// left out, which no process has open unless it names them.
const SIBLINGS_MAX: usize = 64;

/// Sessions read at a time.
pub(crate) const PAGE: usize = 500;

/// A state that took so many events is saved for the next look. Folding fewer again takes less than
/// writing and reading the state.
const SAVED_FROM_EVENTS: u64 = 64;

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
    /// Sessions whose state took many events and is not saved yet.
    unsaved: BTreeSet<SessionId>,
    /// Which process has which session open.
    pairings: Pairings,
    /// Whether a session came or changed that the pairings do not know of.
    is_unpaired: bool,
    /// Whether a pairing changed since the list that is kept current was compared.
    has_new_pairings: bool,
    /// Whether all recent sessions were listed once, so that none is missing for a pairing.
    has_listed: bool,
}

/// One session as far as its events were read.
struct TrackedSession {
    state: StatusState,
    facts: Facts,
    /// What the probe looks for; absent without an id of the provider.
    target: Option<ProbeTarget>,
    /// The last event that the target takes into account.
    target_seq: u64,
    /// Absent after new events, until the next assessment.
    assessment: Option<Assessment>,
}

/// What the last assessment of a session was based on.
struct Assessment {
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
    /// Also those that have ended, if a new process of their agent runs, which is looked for.
    Started,
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

    /// The group that lists and counts put it into.
    pub fn group(&self) -> StatusGroup {
        StatusGroup::of(&self.verdict, self.attention.as_ref())
    }

    /// Whether the user has to act on it. A finished session can wait.
    pub fn needs_you(&self) -> bool {
        self.group() == StatusGroup::NeedsYou
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
            unsaved: BTreeSet::new(),
            pairings: Pairings::default(),
            is_unpaired: true,
            has_new_pairings: false,
            has_listed: false,
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
        self.has_listed = true;
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
        let mut asking_infos = Vec::new();
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
                    self.track(&info)?;
                    asking_infos.push(info);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // Replaced, not extended: sessions that were deleted or left the week are forgotten.
        self.asked = asked;
        self.pair(&probe, Recheck::Open, now);
        let assess = |info| self.status(info, purpose, &probe, now);
        let mut asking = asking_infos.into_iter().map(assess).collect::<Result<Vec<_>, _>>()?;
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
        self.track(&info)?;
        self.track_siblings(&info, now)?;
        self.save_folded();
        self.pair(&probe, Recheck::Open, now);
        self.status(info, AssessFor::Answer, &probe, now)
    }

    /// Saves the states that took many events, all in one go: a look at hundreds of sessions would
    /// otherwise wait hundreds of times for the right to write.
    fn save_folded(&mut self) {
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        let states = unsaved.filter_map(|id| Some((self.sessions.get(&id)?.state.clone(), id)));
        // A journal that is only read refuses; the next look then folds the events again.
        let _ = save_all(&self.journal, states.map(|(state, id)| (id, state)));
    }

    /// Reads the sessions of the same agent and folder: a process that has one of them open has not
    /// the other.
    fn track_siblings(&mut self, info: &SessionInfo, now: Time) -> Result<(), ReadError> {
        if self.has_listed {
            return Ok(());
        }
        let provider = Some(info.provider.clone());
        let recent = SessionFilter { provider, ..StatusTracker::recently_active(now) };
        let page = self.journal.sessions(&recent, None, PAGE)?;
        let is_sibling = |other: &&SessionInfo| other.cwd == info.cwd && other.id != info.id;
        for sibling in page.items.iter().filter(is_sibling).take(SIBLINGS_MAX) {
            self.track(sibling)?;
        }
        Ok(())
    }

    /// Assesses sessions of which events were just recorded, or that the clock alone may have changed.
    /// Costs only what is new: it does not search for files, and none of the sessions is behind, as
    /// their files were just read.
    pub(crate) fn assess_again<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a SessionId>,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let probe = HostProbe::look(&environment, processes);
        let mut infos = Vec::new();
        for id in ids {
            match self.journal.stat(id) {
                // Deleted meanwhile.
                Err(ReadError::SessionNotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        infos.iter().try_for_each(|info| self.track(info))?;
        self.pair(&probe, Recheck::Open, now);
        let mut statuses = Vec::new();
        for info in infos {
            let status = self.status(info, AssessFor::Show, &probe, now)?;
            // The events were read from the file a moment ago.
            statuses.push(SessionStatus { is_behind: false, ..status });
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
        self.pair(&probe, which, now);
        // Another pairing may open a session that had ended. An answer may have found it first.
        let is_new = std::mem::take(&mut self.has_new_pairings);
        let which = if is_new { Recheck::Every } else { which };
        let mut statuses = Vec::new();
        for id in ids {
            // A session that was never assessed shows no status, so it has none that could change.
            if self.sessions.get(id).is_none_or(|known| self.is_valid(known, which, &probe, now)) {
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

    /// Whether the next look may differ although nothing happens in between: a scan of processes is
    /// due, or one that has just started may be about to open a session.
    pub(crate) fn is_in_motion(&self, now: Time) -> bool {
        self.is_unpaired || self.pairings.is_any_opening(now)
    }

    /// Whether one of these sessions asks to run a command, which may run already.
    pub(crate) fn awaits_commands<'a>(&self, ids: impl IntoIterator<Item = &'a SessionId>) -> bool {
        let targets = ids.into_iter().filter_map(|id| self.sessions.get(id)?.target.as_ref());
        targets.into_iter().any(|target| target.asks_to_run)
    }

    /// Those of these sessions whose status the clock alone may have changed by now.
    pub(crate) fn due<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a SessionId>,
        now: Time,
    ) -> BTreeSet<SessionId> {
        let is_due = |id: &&SessionId| {
            let assessment = self.sessions.get(*id).and_then(|known| known.assessment.as_ref());
            assessment.and_then(|it| it.until).is_some_and(|until| until <= now)
        };
        ids.into_iter().filter(is_due).cloned().collect()
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
        let mut infos = Vec::new();
        let mut after = None;
        loop {
            let page = self.journal.sessions(which, after.as_deref(), PAGE)?;
            self.find_files(&page.items)?;
            infos.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.open = open_sessions(&probe);
        let listed: BTreeSet<SessionId> = infos.iter().map(|info| info.id.clone()).collect();
        // A session may be open for days without an event; the filter by activity misses it.
        for id in self.open.difference(&listed) {
            match self.journal.stat(id) {
                // Open, but without an event so far.
                Err(ReadError::SessionNotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        // All of them are read before the first is assessed: a process that has one open has not
        // the others.
        infos.iter().try_for_each(|info| self.track(info))?;
        self.save_folded();
        self.pair(&probe, Recheck::Open, now);
        infos.into_iter().map(|info| self.status(info, purpose, &probe, now)).collect()
    }

    /// Reads the new events of a session, and what the probe has to look for.
    fn track(&mut self, info: &SessionInfo) -> Result<(), ReadError> {
        let is_tracked = |known: &TrackedSession| known.target_seq == info.tail_seq;
        if self.sessions.get(&info.id).is_some_and(is_tracked) {
            return Ok(());
        }
        // Taken out of the map, not borrowed: `root_of` below needs the tracker too.
        let mut known = self.take_current(info)?;
        // An agent may mark a child in its first event or only in a later one.
        let is_child = known.state.is_child() || info.mode() == Some(&SessionMode::Child);
        // A subagent has no process of its own; the probe looks for that of its root.
        let root = if is_child { self.root_of(info)? } else { None };
        let file = self.files.as_ref().and_then(|files| files.get(&info.id));
        let was_listed = known.target.as_ref().is_some_and(|target| target.was_listed);
        let folders = known.facts.about().cwds.iter();
        let target = info.provider_session_id.as_ref().map(|session| ProbeTarget {
            provider: info.provider.clone(),
            session: session.clone(),
            process: known.state.process(),
            file: file.map(|file| file.path.clone()),
            folders: folders.map(|folder| host::resolve_folder(folder)).collect(),
            began_at: Some(info.started_at),
            last_at: known.state.last_at(),
            has_exited: known.state.has_ended(),
            was_listed,
            is_child,
            root,
            asks_to_run: known.state.asks_to_run(),
        });
        // News of a session that is open already do not change which process has it.
        let is_news = match (&known.target, &target) {
            (Some(before), Some(now)) => {
                let ProbeTarget { last_at, asks_to_run, .. } = *now;
                let is_moved = ProbeTarget { last_at, asks_to_run, ..before.clone() } != *now;
                is_moved || before.last_at != now.last_at && !self.pairings.is_open(now)
            }
            (None, target) => target.is_some(),
            (Some(_), None) => true,
        };
        self.is_unpaired |= is_news && !is_child;
        (known.target, known.target_seq) = (target, info.tail_seq);
        self.sessions.insert(info.id.clone(), known);
        Ok(())
    }

    /// Finds out which process has which session open, if anything changed that decides it.
    fn pair(&mut self, probe: &HostProbe<'_>, which: Recheck, now: Time) {
        // Without a session there is nothing to pair, and a scan of all processes is expensive.
        if self.sessions.values().all(|known| known.target.is_none()) {
            return;
        }
        let since = match which {
            Recheck::Open => Time::MIN,
            Recheck::Started | Recheck::Every => now,
        };
        let is_current = probe.is_current(&mut self.pairings, now);
        if which == Recheck::Open && !self.is_unpaired && is_current {
            return;
        }
        let targets = self.sessions.values().filter_map(|known| known.target.as_ref());
        self.has_new_pairings |= probe.pair(&mut self.pairings, targets, since, now);
        // A session that was written after the scan is paired again after the next one.
        self.is_unpaired = self.pairings.is_late();
    }

    /// Whether the last assessment of a session still holds.
    fn is_valid(
        &self,
        known: &TrackedSession,
        which: Recheck,
        probe: &HostProbe<'_>,
        now: Time,
    ) -> bool {
        let Some(assessment) = &known.assessment else { return true };
        if assessment.until.is_some_and(|until| until <= now) {
            return false;
        }
        // A session without an id of the provider cannot be probed; only the clock changes it.
        let Some(target) = &known.target else { return true };
        let is_opening = self.pairings.is_opening(&target.provider, now);
        if which != Recheck::Every && !assessment.is_open() && !is_opening {
            return true;
        }
        probe.evidence_for(target, &self.pairings) == assessment.evidence
    }

    fn status(
        &mut self,
        info: SessionInfo,
        purpose: AssessFor,
        probe: &HostProbe<'_>,
        now: Time,
    ) -> Result<SessionStatus, ReadError> {
        self.track(&info)?;
        let mut known = self.sessions.remove(&info.id).expect("it was just tracked");
        let file = self.files.as_ref().and_then(|files| files.get(&info.id));
        let target = known.target.as_ref();
        let evidence =
            target.map(|target| probe.evidence_for(target, &self.pairings)).unwrap_or_default();
        if let Some(target) = &mut known.target {
            target.was_listed |= evidence.registry.is_some() || evidence.lock.is_some();
        }
        let mut verdict = verdict(&known.state, &evidence, now);
        let until = stands_until(&known.state, &evidence, now);
        let mut redactor = Redactor::new();
        // Evidence names folders and files.
        let passed_over = verdict.overruled.iter_mut().map(|overruled| &mut overruled.evidence);
        for evidence in verdict.evidence.iter_mut().chain(passed_over) {
            evidence.what = redactor.redact(&evidence.what).into_owned();
        }
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
            known.assessment = Some(Assessment { evidence, until });
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
        let target = known.as_ref().and_then(|known| known.target.clone());
        let (state, facts) = match known {
            Some(known) => {
                // Continues from the state in memory instead of the saved one, which may be older.
                let state = catch_up(&self.journal, info, Some(known.state))?;
                (state, catch_up(&self.journal, info, Some(known.facts))?)
            }
            None => {
                let saved: Option<StatusState> = load_saved(&self.journal, &info.id)?;
                let before = saved.as_ref().map_or(0, StatusState::seq);
                let state = catch_up(&self.journal, info, saved)?;
                // A state that was ahead of a replaced log was folded from the first event.
                let folded = state.seq().checked_sub(before).unwrap_or(state.seq());
                if folded >= SAVED_FROM_EVENTS {
                    self.unsaved.insert(info.id.clone());
                }
                (state, load_current(&self.journal, info)?)
            }
        };
        Ok(TrackedSession { state, facts, target, target_seq: 0, assessment: None })
    }
}

impl Assessment {
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
mod tests;
