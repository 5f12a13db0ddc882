//! Statuses of sessions beside processes that a test lists.

use event::{Draft, EventId, Kind, Raw};
use journal::Batch;
use projection::status::{Process, Reason, Status as Doing};
use serde_json::{Value, json};

use super::*;
use host::{AgentProcess, AgentScan, LockHolder, Processes};
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
fn look_saves_what_it_folded() {
    let dir = tempfile::TempDir::new().unwrap();
    let folder = dir.path().join("journal");
    let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
    let id = SessionId::new("made-up:s").unwrap();
    let saved_seq = || {
        let environment = Environment::new(dir.path(), []);
        let mut statuses = StatusTracker::new(journal.clone(), environment);
        let now = Time::from_millis(BEGUN + 5_000);
        assert_eq!(statuses.all(&Processes::default(), now).unwrap().len(), 1);
        load_saved::<StatusState>(&journal, &id).unwrap().map(|state| state.seq())
    };
    add(&journal, 0, "user.prompt", json!({"content": "go"}));
    assert_eq!(saved_seq(), None, "a short one is folded again");
    let answers = (0..SAVED_FROM_EVENTS).map(|number| {
        let at = Time::from_millis(BEGUN + 1_000);
        let event_id = EventId::derived(at, "made up", "s", &number.to_be_bytes());
        let data = Raw::from_value(&json!({"content": "more"})).unwrap();
        Draft::with_data(event_id, id.clone(), at, Kind::AssistantMessage, data)
    });
    journal.append(answers.fold(Batch::observed(), Batch::with)).unwrap();
    let whole = Some(SAVED_FROM_EVENTS + 1);
    assert_eq!(saved_seq(), whole);
    add(&journal, 2, "turn.completed", json!({"stop_reason": "completed"}));
    assert_eq!(saved_seq(), whole, "what is new is folded again");
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
    statuses.for_session(info.clone(), &Processes::default(), Time::from_millis(BEGUN)).unwrap();
    assert!(statuses.is_near(&info));
}

/// The processes of agents that a test lists. Counts the scans that were asked for.
#[derive(Default)]
struct Listed {
    asked: std::cell::Cell<usize>,
    agents: std::cell::RefCell<Vec<AgentProcess>>,
}

impl Listed {
    fn new(agents: impl IntoIterator<Item = AgentProcess>) -> Listed {
        Listed { agents: agents.into_iter().collect::<Vec<_>>().into(), ..Listed::default() }
    }

    fn end(&self, pid: u32) {
        self.agents.borrow_mut().retain(|agent| agent.key.0 != pid);
    }
}

impl ProcessTable for Listed {
    fn find(&self, pid: u32, _: host::Started<'_>) -> Process {
        let runs = self.agents.borrow().iter().any(|agent| agent.key.0 == pid);
        let life = if runs { Life::Alive } else { Life::Gone };
        Process { pid, life, is_certain: true, started_at: None }
    }

    fn agents(&self, since: Time) -> Option<Arc<AgentScan>> {
        self.asked.set(self.asked.get() + usize::from(since > Time::MIN));
        let processes = self.agents.borrow().clone();
        Some(Arc::new(AgentScan { scanned_at: Time::MAX, processes }))
    }

    fn lock_holder(&self, _: &std::path::Path) -> LockHolder {
        LockHolder::Unknown
    }
}

/// Processes that must not be asked for.
struct Unasked;

impl ProcessTable for Unasked {
    fn find(&self, _: u32, _: host::Started<'_>) -> Process {
        panic!("no process is looked for")
    }

    fn agents(&self, _: Time) -> Option<Arc<AgentScan>> {
        panic!("no processes are scanned")
    }

    fn lock_holder(&self, _: &std::path::Path) -> LockHolder {
        panic!("no lock is looked at")
    }
}

#[test]
fn processes_are_not_scanned_without_sessions() {
    let mut tracker = StatusTracker::new(Journal::in_memory(), Environment::new("/nowhere", []));
    let now = Time::from_millis(BEGUN);
    assert!(tracker.recent(&Unasked, now).unwrap().is_empty());
    assert!(tracker.all(&Unasked, now).unwrap().is_empty());
}

/// A process of Gemini CLI that started so many seconds after the session began.
fn gemini(pid: u32, secs: i64, cwd: Option<&str>) -> AgentProcess {
    AgentProcess {
        program: "gemini",
        key: (pid, event::ProcessStart::Ticks(u64::from(pid))),
        started_at: Some(Time::from_millis(BEGUN + secs * 1_000)),
        parent: None,
        cwd: cwd.map(std::path::PathBuf::from),
        arguments: Vec::new(),
        open_files: BTreeSet::new(),
    }
}

/// Adds an event of Gemini CLI, so many seconds after the first session began.
fn add_gemini(journal: &Journal, id: &str, secs: i64, kind: &str, data: Value) {
    add_of(journal, "gemini", id, secs, kind, data);
}

fn add_of(journal: &Journal, agent: &str, id: &str, secs: i64, kind: &str, data: Value) {
    let at = Time::from_millis(BEGUN + secs * 1_000);
    let event_id = EventId::derived(at, agent, id, format!("{kind} {secs}").as_bytes());
    let session = SessionId::new(format!("{agent}:{id}")).unwrap();
    let data = Raw::from_value(&data).unwrap();
    let mut draft = Draft::with_data(event_id, session, at, Kind::from(kind), data);
    draft.provider = agent.to_owned();
    draft.provider_session_id = Some(id.to_owned());
    journal.append(Batch::observed().with(draft)).unwrap();
}

/// Two sessions of Gemini CLI in these folders, each in the middle of a turn.
fn two_sessions(folders: [&str; 2]) -> Journal {
    let journal = Journal::in_memory();
    for (id, secs, cwd) in [("one", 0, folders[0]), ("two", 2, folders[1])] {
        let begun = json!({"entry_point": "cli", "cwd": cwd});
        add_gemini(&journal, id, secs, "session.started", begun);
        add_gemini(&journal, id, secs + 1, "user.prompt", json!({"content": "go"}));
    }
    journal
}

/// The statuses of `one` and `two` after so many seconds.
fn look(tracker: &mut StatusTracker, processes: &Listed, secs: i64) -> Vec<(Doing, Reason)> {
    let now = Time::from_millis(BEGUN + secs * 1_000);
    let mut listed = tracker.recent(processes, now).unwrap();
    listed.sort_by_key(|status| status.info.id.clone());
    listed.iter().map(|status| (status.verdict.status, status.verdict.reason)).collect()
}

const RUNNING: (Doing, Reason) = (Doing::Running, Reason::Turn);
const GONE: (Doing, Reason) = (Doing::Exited, Reason::Gone);

#[test]
fn killed_agent_ends_beside_another() {
    let journal = two_sessions(["/x", "/y"]);
    let environment = Environment::new("/nowhere", []);
    let mut tracker = StatusTracker::new(journal, environment);
    let processes = Listed::new([gemini(1, -1, Some("/x")), gemini(2, -1, Some("/y"))]);
    assert_eq!(look(&mut tracker, &processes, 9), [RUNNING, RUNNING]);
    processes.end(1);
    assert_eq!(look(&mut tracker, &processes, 9), [GONE, RUNNING]);
}

#[test]
fn killed_agent_ends_beside_another_in_its_folder() {
    let journal = two_sessions(["/x", "/x"]);
    add_gemini(&journal, "one", 4, "settings.changed", json!({"model": "m"}));
    let mut tracker = StatusTracker::new(journal.clone(), Environment::new("/nowhere", []));
    let processes = Listed::new([gemini(1, -1, Some("/x")), gemini(2, 1, Some("/x"))]);
    assert_eq!(look(&mut tracker, &processes, 9), [RUNNING, RUNNING]);
    processes.end(1);
    assert_eq!(look(&mut tracker, &processes, 9), [GONE, RUNNING]);
    // A tracker that has not seen the first process cannot tell whose session is left.
    let mut fresh = StatusTracker::new(journal, Environment::new("/nowhere", []));
    let processes = Listed::new([gemini(2, -1, Some("/x"))]);
    let now = Time::from_millis(BEGUN + 9_000);
    for status in fresh.recent(&processes, now).unwrap() {
        assert_eq!(status.verdict.status, Doing::Running);
        assert_ne!(status.verdict.confidence, event::Confidence::High);
    }
}

#[test]
fn turn_of_an_ended_process_is_over_for_the_next() {
    let journal = two_sessions(["/x", "/y"]);
    let mut tracker = StatusTracker::new(journal.clone(), Environment::new("/nowhere", []));
    let processes = Listed::new([gemini(2, -1, Some("/y"))]);
    assert_eq!(look(&mut tracker, &processes, 9), [GONE, RUNNING]);
    let mut resumed = gemini(3, 10, Some("/x"));
    processes.agents.borrow_mut().push(resumed.clone());
    assert_eq!(look(&mut tracker, &processes, 11), [GONE, RUNNING], "it has not written to it");
    processes.end(3);
    resumed.arguments = vec!["--resume".to_owned(), "one-12345".to_owned()];
    processes.agents.borrow_mut().push(resumed);
    assert_eq!(look(&mut tracker, &processes, 12), [GONE, RUNNING], "another session");
    add_gemini(&journal, "one", 13, "settings.changed", json!({"model": "m"}));
    let ready = (Doing::Waiting, Reason::Resumed);
    assert_eq!(look(&mut tracker, &processes, 14), [ready, RUNNING]);
}

#[test]
fn one_session_is_paired_beside_its_siblings() {
    let journal = two_sessions(["/x", "/x"]);
    let processes = Listed::new([gemini(1, -1, Some("/x")), gemini(2, 1, Some("/x"))]);
    let now = Time::from_millis(BEGUN + 9_000);
    for (id, pid) in [("gemini:one", 1), ("gemini:two", 2)] {
        let info = journal.stat(&SessionId::new(id).unwrap()).unwrap();
        let mut tracker = StatusTracker::new(journal.clone(), Environment::new("/nowhere", []));
        let status = tracker.for_session(info, &processes, now).unwrap();
        assert_eq!(status.verdict.pid, Some(pid), "{id}");
    }
}

#[test]
fn only_changed_sessions_are_assessed_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let folder = dir.path().join("journal");
    let journal = Journal::open_or_create(&folder, &journal::Options::default()).unwrap();
    let id = SessionId::new("gemini:s").unwrap();
    let add = |secs, kind, data| add_gemini(&journal, "s", secs, kind, data);
    add(0, "session.started", json!({"entry_point": "cli"}));
    add(1, "user.prompt", json!({"content": "go"}));
    add(2, "turn.completed", json!({"stop_reason": "completed"}));
    let at = |secs: i64| Time::from_millis(BEGUN + secs * 1_000);
    let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
    let processes = Listed::new([gemini(1, -1, None)]);
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
    processes.end(1);
    assert_eq!(changed(124, Recheck::Open), [Doing::Exited]);
    // All processes are scanned only now and then while nothing is written.
    let asked = processes.asked.get();
    assert_eq!(changed(125, Recheck::Open), []);
    assert_eq!(processes.asked.get(), asked);
    processes.agents.borrow_mut().push(gemini(1, -1, None));
    assert_eq!(changed(126, Recheck::Every), [Doing::Idle]);
    assert_eq!(processes.asked.get(), asked + 1);
}

#[test]
fn session_that_a_new_process_opens_is_looked_at() {
    let home = tempfile::TempDir::new().unwrap();
    let journal = Journal::in_memory();
    add_of(&journal, "copilot", "s", 0, "session.started", json!({"entry_point": "cli"}));
    add_of(&journal, "copilot", "s", 1, "user.prompt", json!({"content": "go"}));
    add_of(&journal, "copilot", "s", 2, "turn.completed", json!({"stop_reason": "completed"}));
    let mut statuses = StatusTracker::new(journal, Environment::new(home.path(), []));
    let processes = Listed::new([]);
    let at = |secs: i64| Time::from_millis(BEGUN + secs * 1_000);
    let listed = statuses.recent_to_show(&processes, at(5)).unwrap();
    assert_eq!(listed[0].verdict.status, Doing::Exited);
    let ids = BTreeSet::from([listed[0].info.id.clone()]);
    let mut changed = |secs, which| {
        let changed = statuses.changed(&ids, which, &processes, at(secs)).unwrap().unwrap();
        changed.iter().map(|status| status.verdict.status).collect::<Vec<_>>()
    };
    let copilot = AgentProcess { program: "copilot", ..gemini(7, 6, Some("/elsewhere")) };
    processes.agents.borrow_mut().push(copilot);
    assert_eq!(changed(7, Recheck::Started), [Doing::Exited]);
    // It locks the session some seconds after its start, and starts nothing else.
    let folder = home.path().join(".copilot/session-state/s");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("inuse.7.lock"), "").unwrap();
    assert_eq!(changed(9, Recheck::Open), [Doing::Waiting]);
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
    let processes = Listed::new([gemini(1, -1, None)]);
    let now = Time::from_millis(BEGUN + 5_000);
    statuses.recent_to_show(&processes, now).unwrap();
    processes.end(1);
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
        add_gemini(&journal, id, i64::from(kind != "session.started"), kind, data);
    };
    add("main", "session.started", json!({"entry_point": "cli"}));
    add("main", "user.prompt", json!({"content": "go"}));
    let parent = json!({"session_id": "gemini:main"});
    let begun = json!({"entry_point": "cli", "mode": "child", "parent": parent});
    add("child", "session.started", begun);
    let asked = json!({"approval_id": "a", "tool": "Bash"});
    add("child", "approval.requested", asked);
    let mut statuses = StatusTracker::new(journal.clone(), Environment::new(dir.path(), []));
    let processes = Listed::new([gemini(1, -1, None)]);
    let mut needs = || {
        let now = Time::from_millis(BEGUN + 5_000);
        let listed = statuses.recent(&processes, now).unwrap();
        listed.iter().filter(|status| status.needs_you()).count()
    };
    assert_eq!(needs(), 1);
    processes.end(1);
    assert_eq!(needs(), 0);
}

#[test]
fn killed_session_stays_ended_without_its_entry() {
    let home = tempfile::TempDir::new().unwrap();
    let journal = Journal::in_memory();
    // It begins after the last change of the agent's list: only an earlier look knows of its entry.
    add_of(&journal, "claude", "s", 0, "session.started", json!({"entry_point": "cli"}));
    add_of(&journal, "claude", "s", 1, "user.prompt", json!({"content": "go"}));
    let folder = home.path().join(".claude/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    let entry = json!({"pid": 7, "sessionId": "s", "status": "busy", "statusUpdatedAt": BEGUN});
    std::fs::write(folder.join("7.json"), entry.to_string()).unwrap();
    let claude = |pid| AgentProcess { program: "claude", ..gemini(pid, -1, Some("/elsewhere")) };
    let processes = Listed::new([claude(7), claude(8)]);
    let mut tracker = StatusTracker::new(journal.clone(), Environment::new(home.path(), []));
    assert_eq!(look(&mut tracker, &processes, 5), [RUNNING]);
    processes.end(7);
    assert_eq!(look(&mut tracker, &processes, 6), [GONE]);
    // Another Claude, which runs on, removes the entry of the dead one.
    std::fs::remove_file(folder.join("7.json")).unwrap();
    assert_eq!(look(&mut tracker, &processes, 7), [GONE]);
    // What it wrote before its end is read late.
    add_of(&journal, "claude", "s", 3, "settings.changed", json!({"model": "m"}));
    assert_eq!(look(&mut tracker, &processes, 8), [GONE]);
}

#[test]
fn loop_is_told_with_count_and_cost() {
    let journal = Journal::in_memory();
    add_of(&journal, "claude", "s", 0, "session.started", json!({"entry_point": "cli"}));
    add_of(&journal, "claude", "s", 1, "user.prompt", json!({"content": "go"}));
    for (run, secs) in (0..5).zip((2..).step_by(3)) {
        let call = json!({"call_id": format!("c{run}"), "tool": "Bash",
            "input": {"command": "cargo test"}});
        let failed =
            json!({"call_id": format!("c{run}"), "outcome": "error", "output": "2 failed"});
        // Each costs a cent for what goes in and one for what comes out.
        let used = json!({"agent_id": "", "model": "claude-opus-4-5",
            "usage": {"input_tokens": 2_000, "output_tokens": 400}});
        add_of(&journal, "claude", "s", secs, "tool.call", call);
        add_of(&journal, "claude", "s", secs + 1, "tool.result", failed);
        add_of(&journal, "claude", "s", secs + 2, "step.completed", used);
    }
    let mut tracker = StatusTracker::new(journal, Environment::new("/nowhere", []));
    let claude = AgentProcess { program: "claude", ..gemini(1, -1, None) };
    let processes = Listed::new([claude]);
    let now = Time::from_millis(BEGUN + 20_000);
    let told = tracker.recent(&processes, now).unwrap().remove(0).loop_line.unwrap();
    let expected = "5 times with the same failure and no edit between (12000 tokens, $0.10): ran \
                    cargo test";
    assert_eq!(told, expected);
}
