//! What each session is doing: the status state of its events, kept beside the log, and what is seen
//! around it now.
//!
//! Only sessions that were active lately, or that an agent says it has open, are looked at. What is
//! known of a session is continued, so that a second look costs what is new.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use capture::{Environment, SessionFile, file_of_session, files_of_sessions};
use event::payload::SessionMode;
use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::status::{
    Attention, Life, ProcessEvidence, StatusState, Summary, Verdict, Want, attention, stands_until,
    summary, verdict,
};
use projection::{Facts, Projection, TitleOrigin};
use redact::Redactor;
use views::{catch_up, current, load_saved};

use host::{HostProbe, ProbeTarget, ProcessTable};

/// How long ago a session may have been active to be looked at.
const LATELY_NANOS: i128 = 24 * 60 * 60 * 1_000_000_000;

/// How long ago one may have been that still waits for somebody.
const ASKING_NANOS: i128 = 7 * LATELY_NANOS;

/// Sessions that work for each other, one below the other. A chain that is longer is a circle.
const GENERATIONS_MAX: usize = 64;

/// Sessions read at a time.
const PAGE: usize = 500;

/// Keeps what is known of sessions between two looks.
pub struct Statuses {
    journal: Journal,
    environment: Arc<Environment>,
    known: HashMap<SessionId, Known>,
    /// The files of sessions, as of the last look that found something new.
    files: Option<BTreeMap<SessionId, SessionFile>>,
    /// Sessions that were looked for among all files, and have none of their own.
    without_file: BTreeSet<SessionId>,
    /// Sessions that agents said they had open, as of the last look at all.
    open: BTreeSet<SessionId>,
    /// Whether sessions that were last active days ago asked for something, and up to which event.
    asked: HashMap<SessionId, (u64, bool)>,
}

/// What is known of one session without reading it again.
struct Known {
    state: StatusState,
    facts: Facts,
    weighed: Option<Weighed>,
}

/// What a session was weighed with last.
struct Weighed {
    sought: Option<ProbeTarget>,
    outside: ProcessEvidence,
    /// The clock alone changes nothing before this.
    until: Option<Time>,
}

/// Which sessions are looked at again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// Those somebody has open, as far as is known: they may end at any time.
    Open,
    /// Those that have ended, too: somebody may have opened one without a word.
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
    pub summary: Summary,
    /// What it wants of somebody.
    pub attention: Option<Attention>,
    pub state: StatusState,
    /// Its file has news that nobody has read yet.
    pub is_behind: bool,
}

impl SessionStatus {
    /// Whether it works for another session. Nobody types into one.
    pub fn is_child(&self) -> bool {
        self.state.is_child() || self.info.mode() == Some(&SessionMode::Child)
    }

    /// Whether somebody has to act on it. What is finished can wait.
    pub fn needs_you(&self) -> bool {
        self.attention.as_ref().is_some_and(|attention| attention.want < Want::Finished)
    }

    /// A session that works for another one is shown only if somebody has to act on it.
    pub fn is_listed(&self) -> bool {
        !self.is_child() || self.needs_you()
    }
}

impl Statuses {
    pub fn new(journal: Journal, environment: Environment) -> Statuses {
        let environment = Arc::new(environment);
        let (known, asked) = (HashMap::new(), HashMap::new());
        Statuses {
            journal,
            environment,
            known,
            files: None,
            without_file: BTreeSet::new(),
            open: BTreeSet::new(),
            asked,
        }
    }

    /// The sessions that were active lately or are open now, newest activity first, and those that
    /// have waited for somebody for days.
    pub fn lately(
        &mut self,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let ago = |nanos: i128| Time::from_nanos(now.nanos() - nanos);
        let mut listed = self.list(Some(ago(LATELY_NANOS)), processes, now)?;
        let earlier = SessionFilter {
            active_since: Some(ago(ASKING_NANOS)),
            active_until: Some(ago(LATELY_NANOS)),
            ..SessionFilter::default()
        };
        listed.extend(self.asking(&earlier, processes, now)?);
        // Whoever is not among them is looked at anew when somebody asks.
        let ids: BTreeSet<&SessionId> = listed.iter().map(|status| &status.info.id).collect();
        self.known.retain(|id, _| ids.contains(id));
        Ok(listed)
    }

    /// Of these sessions those that still wait for somebody, as far as is kept of them.
    fn asking(
        &mut self,
        which: &SessionFilter,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let surroundings = HostProbe::look(&environment, processes);
        let mut asking = Vec::new();
        let mut asked = HashMap::new();
        let mut after = None;
        loop {
            let page = self.journal.sessions(which, after.as_deref(), PAGE)?;
            for info in page.items {
                let is_later = which.active_until.is_some_and(|until| info.last_event_at > until);
                if is_later || self.open.contains(&info.id) {
                    continue;
                }
                let is_asking = match self.asked.get(&info.id) {
                    Some((seq, is_asking)) if *seq == info.tail_seq => *is_asking,
                    _ => load_saved::<StatusState>(&self.journal, &info.id)?
                        .is_some_and(|it| it.is_asking()),
                };
                asked.insert(info.id.clone(), (info.tail_seq, is_asking));
                if is_asking {
                    asking.push(self.status(info, &surroundings, now)?);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.asked = asked;
        asking.retain(SessionStatus::needs_you);
        Ok(asking)
    }

    /// Every session there is, newest activity first.
    pub fn all(
        &mut self,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        self.list(None, processes, now)
    }

    /// Whether a session is known up to its last event, or nearly so.
    pub(crate) fn is_near(&self, info: &SessionInfo) -> bool {
        let seq = self.known.get(&info.id).map_or(0, |known| known.state.seq());
        views::is_near(info, seq)
    }

    /// One session.
    pub fn of(
        &mut self,
        info: SessionInfo,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<SessionStatus, ReadError> {
        let environment = Arc::clone(&self.environment);
        let surroundings = HostProbe::look(&environment, processes);
        self.find_files(std::slice::from_ref(&info))?;
        self.status(info, &surroundings, now)
    }

    /// These sessions, of which something was just recorded. Costs what is new and no more: where
    /// their files are is known from the last look at all, and whoever records them reads them.
    pub(crate) fn of_recorded<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a SessionId>,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let surroundings = HostProbe::look(&environment, processes);
        let mut statuses = Vec::new();
        for id in ids {
            match self.journal.stat(id) {
                // Deleted meanwhile.
                Err(ReadError::SessionNotFound(_)) => {}
                info => {
                    let status = self.status(info?, &surroundings, now)?;
                    statuses.push(SessionStatus { is_behind: false, ..status });
                }
            }
        }
        Ok(statuses)
    }

    /// Those of these sessions that may be doing something else by now although nothing of them
    /// was recorded, as somebody has ended or time has passed; `None` if agents have others open
    /// than at the last look at all.
    pub(crate) fn changed(
        &mut self,
        ids: &BTreeSet<SessionId>,
        which: Again,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Option<Vec<SessionStatus>>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let surroundings = HostProbe::look(&environment, processes);
        if open(&surroundings) != self.open {
            return Ok(None);
        }
        let mut statuses = Vec::new();
        for id in ids {
            let weighed = self.known.get(id).and_then(|known| known.weighed.as_ref());
            if weighed.is_none_or(|weighed| weighed.stands(which, &surroundings, now)) {
                continue;
            }
            match self.journal.stat(id) {
                // Deleted meanwhile.
                Err(ReadError::SessionNotFound(_)) => return Ok(None),
                info => statuses.push(self.status(info?, &surroundings, now)?),
            }
        }
        Ok(Some(statuses))
    }

    fn list(
        &mut self,
        active_since: Option<Time>,
        processes: &dyn ProcessTable,
        now: Time,
    ) -> Result<Vec<SessionStatus>, ReadError> {
        let environment = Arc::clone(&self.environment);
        let surroundings = HostProbe::look(&environment, processes);
        let filter = SessionFilter { active_since, ..SessionFilter::default() };
        let mut statuses = Vec::new();
        let mut listed = BTreeSet::new();
        let mut after = None;
        loop {
            let page = self.journal.sessions(&filter, after.as_deref(), PAGE)?;
            self.find_files(&page.items)?;
            for info in page.items {
                listed.insert(info.id.clone());
                statuses.push(self.status(info, &surroundings, now)?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.open = open(&surroundings);
        for id in self.open.difference(&listed).cloned().collect::<Vec<_>>() {
            match self.journal.stat(&id) {
                // Opened, and nothing said in it yet.
                Err(ReadError::SessionNotFound(_)) => {}
                info => statuses.push(self.status(info?, &surroundings, now)?),
            }
        }
        Ok(statuses)
    }

    fn status(
        &mut self,
        info: SessionInfo,
        surroundings: &HostProbe<'_>,
        now: Time,
    ) -> Result<SessionStatus, ReadError> {
        let mut known = self.take(&info)?;
        let is_child = known.state.is_child() || info.mode() == Some(&SessionMode::Child);
        let root = if is_child { self.root_of(&info)? } else { None };
        let file = self.files.as_ref().and_then(|files| files.get(&info.id));
        let sought = info.provider_session_id.as_ref().map(|session| ProbeTarget {
            provider: info.provider.clone(),
            session: session.clone(),
            agent_version: known.facts.about().agent_version.clone(),
            file: file.map(|file| file.path.clone()),
            is_child,
            root: root.clone(),
        });
        let outside = sought.as_ref().map(|sought| surroundings.of(sought)).unwrap_or_default();
        let verdict = verdict(&known.state, &outside, now);
        let until = stands_until(&known.state, &outside, now);
        let mut redactor = Redactor::new();
        let status = SessionStatus {
            title: known.facts.title().map(|title| redactor.redact(title).into_owned()),
            title_origin: known.facts.title_origin(),
            project: known.facts.about().project.clone().or_else(|| info.project.clone()),
            summary: summary(&known.state, &verdict, &mut |text| redactor.redact(text)),
            attention: attention(&known.state, &outside, &verdict, now),
            verdict,
            state: known.state.clone(),
            is_behind: file.is_some_and(has_news),
            info: info.clone(),
        };
        known.weighed = Some(Weighed { sought, outside, until });
        self.known.insert(info.id, known);
        Ok(status)
    }

    /// What the provider calls the session that a child works for in the end.
    fn root_of(&self, child: &SessionInfo) -> Result<Option<String>, ReadError> {
        let mut parent = child.ancestry.parent_session_id.clone();
        let mut root = None;
        for _ in 0..GENERATIONS_MAX {
            let Some(id) = parent else { break };
            match self.journal.stat(&id) {
                // It was never seen, or is deleted.
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

    /// Finds the files of these sessions. How far a file was read changes with the events of its
    /// session, and is asked of that one file; all there are, only for one that is new here.
    fn find_files(&mut self, sessions: &[SessionInfo]) -> Result<(), ReadError> {
        let Some(files) = &mut self.files else { return self.find_all_files(sessions) };
        for info in sessions {
            let known = self.known.get(&info.id);
            let is_current = known.is_some_and(|known| known.state.seq() == info.tail_seq);
            match files.get(&info.id).map(|file| file.source.clone()) {
                Some(_) if is_current => {}
                Some(source) => {
                    files.remove(&info.id);
                    let position = self.journal.source_position(&source)?;
                    files.extend(position.and_then(|it| file_of_session(&source, &it)));
                }
                None if self.without_file.contains(&info.id) => {}
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

    /// What is known of a session, brought up to date.
    fn take(&mut self, info: &SessionInfo) -> Result<Known, ReadError> {
        let known = self.known.remove(&info.id);
        let is_current = |known: &Known| known.state.seq() == info.tail_seq;
        if known.as_ref().is_some_and(is_current) {
            return Ok(known.expect("it was just looked at"));
        }
        let (state, facts) = match known {
            Some(known) => {
                let state = catch_up(&self.journal, info, Some(known.state))?;
                (state, catch_up(&self.journal, info, Some(known.facts))?)
            }
            None => (current(&self.journal, info)?, current(&self.journal, info)?),
        };
        Ok(Known { state, facts, weighed: None })
    }
}

impl Weighed {
    /// Whether everything is as it was when it was weighed.
    fn stands(&self, which: Again, surroundings: &HostProbe<'_>, now: Time) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            return false;
        }
        let is_looked_at = which == Again::Every || self.is_open();
        let Some(sought) = self.sought.as_ref().filter(|_| is_looked_at) else { return true };
        surroundings.of(sought) == self.outside
    }

    /// Whether somebody may have it open.
    fn is_open(&self) -> bool {
        let ProcessEvidence { process, lock, missing, .. } = &self.outside;
        let lives = [process.map(|process| process.life), lock.as_ref().map(|lock| lock.life)];
        let mut told = lives.into_iter().flatten().peekable();
        match told.peek() {
            Some(_) => told.any(|life| life != Life::Gone),
            None => missing.is_none(),
        }
    }
}

/// Sessions that agents say they have open.
fn open(surroundings: &HostProbe<'_>) -> BTreeSet<SessionId> {
    let open = surroundings.open();
    open.filter_map(|(provider, session)| SessionId::new(format!("{provider}:{session}")).ok())
        .collect()
}

/// Whether a file is longer than it was when it was read.
fn has_news(file: &SessionFile) -> bool {
    std::fs::metadata(&file.path).is_ok_and(|there| there.len() > file.size)
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw};
    use journal::Batch;
    use projection::status::Status as Doing;
    use serde_json::{Value, json};

    use super::*;
    use host::Processes;
    use views::{prepare, save_current};

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
    fn saved_states_are_continued() {
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
        let mut statuses = Statuses::new(journal.clone(), environment.clone());
        let look = |statuses: &mut Statuses| {
            let listed = statuses.lately(&Processes::default(), now).unwrap();
            listed.iter().map(|status| status.verdict.status).collect::<Vec<_>>()
        };
        assert_eq!(look(&mut statuses), [Doing::Running]);
        add(&journal, 2, "turn.completed", json!({"stop_reason": "completed"}));
        assert_eq!(look(&mut statuses), [Doing::Waiting]);
        let of_new = Statuses::new(journal.clone(), environment).lately(&Processes::default(), now);
        assert_eq!(of_new.unwrap()[0].state, statuses.known[&id].state);
    }

    #[test]
    fn a_long_log_is_folded_once_and_before_others_wait() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("made-up:s").unwrap();
        add(&journal, 0, "user.prompt", json!({"content": "go"}));
        prepare::<StatusState>(&journal, &journal.stat(&id).unwrap()).unwrap();
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
        let mut statuses = Statuses::new(journal.clone(), Environment::new(dir.path(), []));
        assert!(!statuses.is_near(&info));
        prepare::<StatusState>(&journal, &info).unwrap();
        assert_eq!(load_saved::<StatusState>(&journal, &id).unwrap().unwrap().seq(), info.tail_seq);
        statuses.of(info.clone(), &Processes::default(), Time::from_millis(BEGUN)).unwrap();
        assert!(statuses.is_near(&info));
    }

    /// Everybody lives until they are told to be gone; counts how often it is asked.
    #[derive(Default)]
    struct Counting {
        asked: std::cell::Cell<usize>,
        is_gone: std::cell::Cell<bool>,
    }

    impl ProcessTable for Counting {
        fn life(&self, _: u32, _: host::Started<'_>) -> (Life, bool) {
            (self.runs(""), true)
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
    fn only_what_may_have_changed_is_weighed_again() {
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
        let mut statuses = Statuses::new(journal.clone(), Environment::new(dir.path(), []));
        let processes = Counting::default();
        statuses.lately(&processes, at(5)).unwrap();
        let ids = BTreeSet::from([id.clone()]);
        let mut changed = |secs, which| {
            let changed = statuses.changed(&ids, which, &processes, at(secs)).unwrap().unwrap();
            changed.iter().map(|status| status.verdict.status).collect::<Vec<_>>()
        };
        assert_eq!(changed(6, Again::Open), []);
        // The clock alone makes it idle.
        assert_eq!(changed(122, Again::Open), [Doing::Idle]);
        assert_eq!(changed(123, Again::Open), []);
        processes.is_gone.set(true);
        assert_eq!(changed(124, Again::Open), [Doing::Exited]);
        // Nobody asks after one who has ended, but now and then.
        processes.is_gone.set(false);
        let asked = processes.asked.get();
        assert_eq!(changed(125, Again::Open), []);
        assert_eq!(processes.asked.get(), asked);
        assert_eq!(changed(126, Again::Every), [Doing::Idle]);
    }

    #[test]
    fn who_asked_days_ago_still_needs_somebody() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("journal");
        let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
        let id = SessionId::new("made-up:s").unwrap();
        add(&journal, 0, "user.prompt", json!({"content": "go"}));
        add(&journal, 1, "approval.requested", json!({"approval_id": "a", "tool": "Bash"}));
        save_current::<StatusState>(&journal, [(id.clone(), None)], |_| true).unwrap();
        let mut statuses = Statuses::new(journal.clone(), Environment::new(dir.path(), []));
        let mut listed = |days: i64| {
            let now = Time::from_millis(BEGUN + days * 24 * 60 * 60 * 1_000);
            statuses.lately(&Processes::default(), now).unwrap().len()
        };
        assert_eq!((listed(3), listed(8)), (1, 0));
        add(&journal, 2, "approval.resolved", json!({"approval_id": "a", "decision": "allow"}));
        save_current::<StatusState>(&journal, [(id.clone(), None)], |_| true).unwrap();
        assert_eq!(listed(3), 0);
        assert!(statuses.known.is_empty(), "nobody is remembered who is not listed");
    }

    #[test]
    fn a_child_does_not_outlive_the_session_it_works_for() {
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
        let mut statuses = Statuses::new(journal.clone(), Environment::new(dir.path(), []));
        let processes = Counting::default();
        let mut needs = || {
            let now = Time::from_millis(BEGUN + 5_000);
            let listed = statuses.lately(&processes, now).unwrap();
            listed.iter().filter(|status| status.needs_you()).count()
        };
        assert_eq!(needs(), 1);
        processes.is_gone.set(true);
        assert_eq!(needs(), 0);
    }
}
