//! A recording, played at virtual time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::{DatabaseGuard, Environment, StopFlag};
use event::payload::SessionMode;
use event::{Event, ProcessStart, Time};
use host::{
    AgentProcess, AgentScan, HostProbe, LockHolder, Pairings, ProbeTarget, ProcessTable, Started,
};
use ingest::{Ingest, RecordingPolicy};
use journal::{Journal, Selection, SessionFilter, SessionInfo};
use projection::Projection;
use projection::status::{Life, Process, ProcessEvidence, StatusState};
use serde::Deserialize;
use tempfile::TempDir;

use super::hooks;
use super::timeline::{Timeline, time};

/// Long after everything was written.
const NOW: i64 = 1_800_000_000_000;

/// What is looked for in a folder ten times a second is seen a little after it was written.
const POLL_SECS: f64 = 0.15;

pub(crate) struct Recording {
    pub(crate) tool: String,
    pub(crate) scenario: String,
    sessions: Vec<Played>,
    files: Vec<FileChange>,
    /// What hooks told, by the time they did.
    hooks: Option<Vec<Event>>,
}

/// A session, and when each of its events could be seen.
struct Played {
    info: SessionInfo,
    events: Vec<(Time, Event)>,
}

/// A change of a file of the agent.
#[derive(Deserialize)]
struct FileChange {
    t: f64,
    ev: String,
    path: String,
    #[serde(default)]
    content: Option<String>,
}

impl Recording {
    pub(crate) fn read(dir: &Path) -> Recording {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(dir.join("lab/fs_events.jsonl")).unwrap();
        let files: Vec<FileChange> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let journal = Journal::in_memory();
        // Of some databases only the rows were kept.
        let made = TempDir::new().unwrap();
        testkit::tables::build_databases(&dir.join("home"), made.path());
        let is_made = fs::read_dir(made.path()).unwrap().next().is_some();
        let home = if is_made { made.path().to_owned() } else { dir.join("home") };
        let environment = Environment::new(home, []);
        let clock = || Time::from_millis(NOW);
        let policy = RecordingPolicy::default();
        let guard = DatabaseGuard::default();
        let (journal, environment, clock) = (&journal, &environment, &clock);
        let ingest = Ingest { journal, environment, clock, policy, guard };
        ingest.ingest_all(&StopFlag::default(), &mut |_| {}).unwrap();
        let listed = journal.sessions(&SessionFilter::default(), None, 100).unwrap();
        let own = listed.items.into_iter().filter(|info| info.mode() != Some(&SessionMode::Child));
        let sessions = own.map(|info| Played::new(journal, info, &files)).collect();
        let tool = name(dir.parent().unwrap());
        let hooks = hooks::read(dir, &tool);
        Recording { tool, scenario: name(dir), sessions, files, hooks }
    }

    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.is_some()
    }

    /// What events say that could be seen by then, of the session that was written last.
    pub(crate) fn state(&self, at: Time, with_hooks: bool) -> Option<StatusState> {
        let mut events: Vec<&Event> = self.current(at)?.seen(at).collect();
        if with_hooks {
            events.extend(self.hooks.iter().flatten().filter(|event| event.observed_at <= at));
            events.sort_by_key(|event| event.observed_at);
        }
        let mut state = StatusState::default();
        for (seq, event) in (1..).zip(events) {
            state.apply(&event.draft.clone().with_seq(seq));
        }
        Some(state)
    }

    pub(crate) fn grown_at(&self, at: Time) -> Option<Time> {
        let played = self.current(at)?;
        played.events.iter().map(|(seen, _)| *seen).filter(|seen| *seen <= at).max()
    }

    /// What could be seen around that session.
    pub(crate) fn outside(&self, timeline: &Timeline, at: Time) -> ProcessEvidence {
        let home = TempDir::new().unwrap();
        self.lay_out(home.path(), at);
        let environment = Environment::new(home.path(), []);
        let since = timeline.alive_since(at);
        let played = self.current(at).unwrap();
        let provider = played.info.provider.as_str();
        let folder = played.info.cwd.as_deref().map(PathBuf::from);
        let mut agents = capture::AGENTS.iter().map(|agent| agent.provider());
        let program = agents.find(|agent| *agent == provider).unwrap();
        let processes = AsRecorded { program, folder: folder.clone(), since };
        let sought = ProbeTarget {
            provider: provider.to_owned(),
            session: played.info.provider_session_id.clone().unwrap(),
            folders: folder.into_iter().collect(),
            began_at: Some(played.info.started_at),
            last_at: played.seen(at).map(|event| event.created_at).max(),
            ..ProbeTarget::default()
        };
        let probe = HostProbe::look(&environment, &processes);
        let mut pairings = Pairings::default();
        probe.pair(&mut pairings, [&sought], Time::MIN, at);
        let outside = probe.evidence_for(&sought, &pairings);
        ProcessEvidence { grown_at: self.grown_at(at), ..outside }
    }

    /// The session something was seen of last.
    fn current(&self, at: Time) -> Option<&Played> {
        let last = |played: &&Played| played.seen(at).map(|event| event.created_at).max();
        self.sessions.iter().filter(|played| last(played).is_some()).max_by_key(last)
    }

    /// Writes the registry and the locks as they were.
    fn lay_out(&self, home: &Path, at: Time) {
        for change in self.files.iter().filter(|change| time(change.t) <= at) {
            let path = home.join(&change.path);
            if change.ev == "deleted" {
                let _ = fs::remove_file(path);
            } else if let Some(content) = &change.content {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            } else if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).unwrap();
            }
        }
    }
}

impl Played {
    fn new(journal: &Journal, info: SessionInfo, files: &[FileChange]) -> Played {
        let id = info.provider_session_id.clone().unwrap();
        let short: String = id.chars().take(8).collect();
        let is_its = |change: &&FileChange| {
            let is_talk = change.path.ends_with(".jsonl") && change.path.contains(&short);
            is_talk || change.path.ends_with("opencode.db-wal")
        };
        let grown: Vec<f64> = files.iter().filter(is_its).map(|change| change.t).collect();
        let mut seen_at = Time::MIN;
        let mut events = Vec::new();
        for event in journal.events(&info.id, Selection::all()).unwrap() {
            let mut event = event.unwrap();
            let created = event.created_at.nanos() as f64 / 1e9;
            let seen = grown.iter().find(|grown| **grown >= created - POLL_SECS);
            seen_at = seen_at.max(event.created_at).max(time(*seen.unwrap_or(&created)));
            event.draft.observed_at = seen_at;
            events.push((seen_at, event));
        }
        Played { info, events }
    }

    fn seen(&self, at: Time) -> impl Iterator<Item = &Event> {
        self.events.iter().take_while(move |(seen, _)| *seen <= at).map(|(_, event)| event)
    }
}

/// All pids in a recording are those of its one agent.
struct AsRecorded {
    program: &'static str,
    folder: Option<PathBuf>,
    /// When the process that runs began.
    since: Option<Time>,
}

impl AsRecorded {
    fn life(&self) -> Life {
        if self.since.is_some() { Life::Alive } else { Life::Gone }
    }
}

impl ProcessTable for AsRecorded {
    fn find(&self, pid: u32, _started: Started<'_>) -> Process {
        Process { pid, life: self.life(), is_certain: true, started_at: self.since }
    }

    fn agents(&self, _since: Time) -> Option<Arc<AgentScan>> {
        let process = self.since.map(|since| AgentProcess {
            program: self.program,
            key: (1, ProcessStart::Ticks(1)),
            started_at: Some(since),
            parent: None,
            cwd: self.folder.clone(),
            arguments: Vec::new(),
            open_files: BTreeSet::new(),
        });
        let processes = process.into_iter().collect();
        Some(Arc::new(AgentScan { scanned_at: Time::MAX, processes }))
    }

    fn lock_holder(&self, _path: &Path) -> LockHolder {
        if self.since.is_some() { LockHolder::Process(Some(1)) } else { LockHolder::Nothing }
    }
}
