//! What a session is doing, and why we think so.

use event::{Confidence, Event, Source, Time};
use projection::Projection;
use projection::status::{
    Life, Lock, Missing, Process, ProcessEvidence, Reason, Registry, RegistryWord, RunningCommand,
    Status, StatusState, Verdict, summarize, verdict,
};
use serde_json::{Value, json};

use crate::given::Log;

/// A log, and what is seen beside it.
pub(crate) struct Case {
    pub(crate) log: Log,
    pub(crate) observed: ProcessEvidence,
}

impl Case {
    /// A person at a terminal has asked for something.
    pub(crate) fn prompted() -> Case {
        let mut log = Log::new();
        log.add("session.started", json!({"agent": "claude", "entry_point": "cli"}));
        log.prompt("Build it.");
        Case { log, observed: ProcessEvidence::default() }
    }

    pub(crate) fn add(mut self, kind: &str, data: Value) -> Case {
        self.log.add(kind, data);
        self
    }

    /// The last event, as somebody else told it.
    fn by(mut self, source: Source, confidence: Confidence) -> Case {
        let event = self.log.events.last_mut().unwrap();
        event.draft.source = source;
        event.draft.confidence = confidence;
        self
    }

    pub(crate) fn call(mut self, tool: &str, input: Value) -> Case {
        self.log.call(tool, input);
        self
    }

    pub(crate) fn ask(self, id: &str) -> Case {
        self.add("approval.requested", json!({"approval_id": id, "tool": "Bash"}))
    }

    fn answer(self, id: &str) -> Case {
        self.add("approval.resolved", json!({"approval_id": id, "decision": "allow"}))
    }

    pub(crate) fn end(self, stop_reason: &str) -> Case {
        self.add("turn.completed", json!({"agent_id": "", "stop_reason": stop_reason}))
    }

    /// All events are of this agent.
    pub(crate) fn of(mut self, provider: &str) -> Case {
        for event in &mut self.log.events {
            event.draft.provider = provider.to_owned();
        }
        self
    }

    /// The agent's own list says this of it, since `secs` after the last event.
    pub(crate) fn registry(mut self, word: Option<RegistryWord>, secs: i64) -> Case {
        let (path, updated_at) = ("sessions/7.json".to_owned(), self.later(secs));
        self.observed.registry = Some(Registry { path, word, updated_at });
        self
    }

    pub(crate) fn process(mut self, life: Life) -> Case {
        self.observed.process = Some(Process { pid: 7, life, is_certain: true, started_at: None });
        self
    }

    /// A process that started so many seconds after the last event has it open.
    pub(crate) fn process_since(mut self, secs: i64) -> Case {
        let started_at = Some(self.later(secs));
        let process = Process { pid: 8, life: Life::Alive, is_certain: true, started_at };
        self.observed.process = Some(process);
        self
    }

    /// A hook names the process that has it open, and when that started.
    pub(crate) fn opened_by(self, pid: u32, secs: i64) -> Case {
        let started_at = self.later(secs);
        let process = json!({"pid": pid, "start": {"ticks": pid}, "started_at": started_at});
        self.add("settings.changed", json!({"process": process}))
    }

    fn lock(mut self, life: Life) -> Case {
        self.observed.lock = Some(Lock { path: "s.lock".to_owned(), life });
        self
    }

    fn missing(mut self) -> Case {
        self.observed.missing = Some(Missing { source: "lock", what: "no lock".to_owned() });
        self
    }

    pub(crate) fn later(&self, secs: i64) -> Time {
        Time::from_nanos(self.log.at.nanos() + i128::from(secs) * 1_000_000_000)
    }

    pub(crate) fn state(&self) -> StatusState {
        folded(&self.log.events)
    }

    /// The verdict so many seconds after the last event.
    pub(crate) fn verdict(&self, secs: i64) -> Verdict {
        verdict(&self.state(), &self.observed, self.later(secs))
    }

    #[track_caller]
    pub(crate) fn check(self, secs: i64, status: Status, reason: Reason) -> Case {
        let verdict = self.verdict(secs);
        assert_eq!((verdict.status, verdict.reason), (status, reason), "{verdict:#?}");
        if verdict.status != Status::Unknown {
            assert!(!verdict.evidence.is_empty(), "{verdict:#?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn current(self, secs: i64, line: &str) -> Case {
        let summary = summarize(&self.state(), &self.verdict(secs), &mut |text| text.into());
        assert_eq!(summary.current, line);
        self
    }
}

fn folded(events: &[Event]) -> StatusState {
    let mut state = StatusState::default();
    events.iter().for_each(|event| state.apply(event));
    state
}

pub(crate) const MINUTE: i64 = 60;

#[test]
fn a_long_build_without_output_runs_throughout() {
    let case = Case::prompted().call("Bash", json!({"command": "make"})).process(Life::Alive);
    for minutes in 0..20 {
        let verdict = case.verdict(minutes * MINUTE);
        assert_eq!(verdict.status, Status::Running);
        assert_eq!(verdict.confidence, Confidence::High);
    }
    case.current(5 * MINUTE, "runs make");
}

#[test]
fn an_open_turn_of_unknown_life_is_doubted_and_then_unknown() {
    let case = Case::prompted()
        .check(9 * MINUTE, Status::Running, Reason::Turn)
        .check(11 * MINUTE, Status::Running, Reason::Turn)
        .check(61 * MINUTE, Status::Unknown, Reason::Silent);
    assert_eq!(case.verdict(9 * MINUTE).confidence, Confidence::High);
    assert_eq!(case.verdict(11 * MINUTE).confidence, Confidence::Low);
}

#[test]
fn an_interrupt_or_a_denial_closes_turn_and_approval() {
    Case::prompted()
        .ask("a1")
        .check(0, Status::WaitingApproval, Reason::Permission)
        .end("interrupted")
        .check(0, Status::Waiting, Reason::Prompt);
    Case::prompted()
        .ask("a1")
        .add("approval.resolved", json!({"approval_id": "a1", "decision": "deny"}))
        .check(0, Status::Running, Reason::Turn);
}

#[test]
fn background_work_outlives_the_turn() {
    let case = Case::prompted()
        .add("child.started", json!({"child_id": "c", "child_session_id": "s"}))
        .end("completed")
        .check(5 * MINUTE, Status::Running, Reason::Background)
        .current(0, "works in the background");
    case.add("child.completed", json!({"child_id": "c", "child_session_id": "s"})).check(
        0,
        Status::Waiting,
        Reason::Prompt,
    );
    // As a hook counts it.
    let left = json!({"agent_id": "", "stop_reason": "completed", "background": 1});
    let case = Case::prompted()
        .add("turn.completed", left)
        .by(Source::Hook, Confidence::High)
        .check(0, Status::Running, Reason::Background)
        .check(61 * MINUTE, Status::Idle, Reason::Quiet);
    case.registry(Some(RegistryWord::Shell), 0).process(Life::Alive).check(
        61 * MINUTE,
        Status::Running,
        Reason::Background,
    );
}

#[test]
fn background_command_runs_until_amended() {
    let mut case = Case::prompted().call("exec_command", json!({"cmd": "npm start"}));
    let call_id = format!("c{}", case.log.events.len());
    let result = json!({"call_id": call_id, "outcome": "ok", "background": true});
    let first = case.log.add("tool.result", result).id;
    let mut case = case.end("completed").check(MINUTE, Status::Running, Reason::Background);
    case.log.add("tool.result", json!({"call_id": call_id, "outcome": "ok"})).draft.amend(first);
    case.check(0, Status::Waiting, Reason::Prompt);
}

#[test]
fn of_two_approvals_one_answer_leaves_one() {
    let case = Case::prompted().ask("a1").ask("a2").answer("a1");
    let verdict = case.verdict(0);
    assert_eq!(verdict.status, Status::WaitingApproval);
    assert_eq!(verdict.pending_approvals, ["a2"]);
    case.answer("a2").check(0, Status::Running, Reason::Turn);
}

#[test]
fn a_call_without_a_result_is_no_approval() {
    Case::prompted().call("Bash", json!({"command": "rm -r /"})).check(
        30 * MINUTE,
        Status::Running,
        Reason::Turn,
    );
}

#[test]
fn escalated_call_waits_for_approval() {
    let escalated = json!({"cmd": "touch x", "sandbox_permissions": "require_escalated"});
    let case = |mode: &str| {
        let mode = json!({"permission_mode": mode});
        Case::prompted().add("settings.changed", mode).call("exec_command", escalated.clone())
    };
    let asks = case("on-request").of("codex").process(Life::Alive);
    let asks = asks.check(5, Status::WaitingApproval, Reason::Permission);
    assert_eq!(asks.verdict(5).confidence, Confidence::Medium);
    let result = json!({"call_id": "c4", "outcome": "ok"});
    asks.add("tool.result", result).of("codex").check(5, Status::Running, Reason::Turn);
    case("never").of("codex").check(5, Status::Running, Reason::Turn);
    let program = format!("await tools.exec_command({escalated});");
    let program = Case::prompted().call("exec", json!(program)).of("codex");
    program.check(5, Status::WaitingApproval, Reason::Permission);
    // Hooks would have told that the user is asked.
    let hooked = case("on-request").add("tool.started", json!({"call_id": "c0", "tool": "x"}));
    let hooked = hooked.by(Source::Hook, Confidence::High);
    hooked.of("codex").check(5, Status::Running, Reason::Turn);
}

#[test]
fn approval_is_given_once_its_command_runs() {
    let asks = |command: &str| {
        let input = json!({"command": command});
        let asked = json!({"approval_id": "a1", "tool": "Bash", "input": input});
        Case::prompted().add("approval.requested", asked).process(Life::Alive)
    };
    let running = |case: Case, words: &[&str], secs: i64| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let started_at = case.later(secs);
        let commands = vec![RunningCommand { words, is_cut: false, started_at }];
        let observed = ProcessEvidence { commands, ..case.observed };
        Case { observed, ..case }.verdict(20).status
    };
    let make = "make -j 'a b' && rm x";
    let wrapped = format!("trap x EXIT\n{make}\nexit $?");
    assert_eq!(running(asks(make), &["/bin/bash", "-lc", make], 5), Status::Running);
    assert_eq!(running(asks(make), &["/bin/bash", "-c", &wrapped], 5), Status::Running);
    assert_eq!(running(asks("make 'a b'"), &["make", "a b"], 5), Status::Running);
    let grouped = format!("{{ {make}; }}; __code=$?; exit $__code;");
    assert_eq!(running(asks(make), &["/bin/bash", "-c", &grouped], 5), Status::Running);
    // Another command, a word that only has it inside, one of several commands in a line, fewer or
    // more words, and one that runs since before.
    for (command, words, secs) in [
        (make, &["/bin/bash", "-c", "ls"] as &[&str], 5),
        ("ls", &["/bin/bash", "-c", "false"], 5),
        ("ls", &["/bin/bash", "-c", "cd x && ls -l"], 5),
        ("ls", &["/bin/bash", "-c", "sleep 9; ls; sleep 9"], 5),
        ("make 'a b' c", &["make", "a b"], 5),
        ("make", &["make", "a b"], 5),
        (make, &["/bin/bash", "-c", make], -60),
    ] {
        assert_eq!(running(asks(command), words, secs), Status::WaitingApproval, "{words:?}");
    }
    // A line of the script of another call, which needs no approval.
    let script = "npm test\nls\nnpm run lint";
    let beside = asks("ls").call("Bash", json!({"command": script}));
    assert_eq!(running(beside, &["/bin/bash", "-c", script], 5), Status::WaitingApproval);
}

#[test]
fn open_call_in_an_asking_mode_is_never_sure() {
    let case = |provider: &str, mode: &str| {
        let mode = json!({"permission_mode": mode});
        let case = Case::prompted().add("settings.changed", mode);
        case.call("Bash", json!({"command": "make"})).of(provider).process(Life::Alive)
    };
    let confidence = |case: Case| {
        let verdict = case.check(5, Status::Running, Reason::Turn).verdict(5);
        let all = verdict.evidence.iter().map(|evidence| &evidence.confidence);
        assert!(all.clone().all(|confidence| *confidence == verdict.confidence), "{verdict:#?}");
        verdict.confidence
    };
    assert_eq!(confidence(case("claude", "default")), Confidence::Medium);
    assert_eq!(confidence(case("claude", "bypassPermissions")), Confidence::High);
    // Its records have every request.
    assert_eq!(confidence(case("copilot", "default")), Confidence::High);
    // The agent itself says that it is busy.
    let busy = case("claude", "default").registry(Some(RegistryWord::Busy), 1);
    assert_eq!(busy.verdict(5).confidence, Confidence::High);
    let hooked = case("claude", "default").add("compaction.started", json!({}));
    let hooked = hooked.by(Source::Hook, Confidence::High).add("compaction", json!({}));
    assert_eq!(hooked.of("claude").verdict(5).confidence, Confidence::High);
    // An agent that tells no ends may be ready since long.
    let silent = Case::prompted().of("gemini").process(Life::Alive);
    assert_eq!(confidence(silent), Confidence::Medium);
}

#[test]
fn permission_prompt_of_a_question_is_a_question() {
    let asked = json!({"request_id": "c3", "prompt": "Which?", "status": "pending"});
    let question = || {
        let case = Case::prompted().call("AskUserQuestion", json!({"questions": []}));
        case.add("external.input", asked.clone()).process(Life::Alive)
    };
    let dialog = question().registry(Some(RegistryWord::Permission), 1);
    dialog.check(5, Status::Waiting, Reason::Question).current(5, "asks: Which?");
    let beside = question().call("Bash", json!({"command": "make"}));
    let beside = beside.registry(Some(RegistryWord::Permission), 1);
    beside.check(5, Status::WaitingApproval, Reason::Permission);
}

#[test]
fn prompt_that_is_written_late_settles_nothing_newer() {
    let asked = json!({"request_id": "c2", "prompt": "Which?", "status": "pending"});
    let mut log = Log::new();
    let prompted_at = log.at;
    log.add("session.started", json!({"agent": "claude", "entry_point": "cli"}));
    let case = Case { log, observed: ProcessEvidence::default() };
    let case = case.call("AskUserQuestion", json!({"questions": []}));
    let mut case = case.add("external.input", asked);
    case.log.prompt("Paint it.").draft.created_at = prompted_at;
    let case = case.process(Life::Alive).registry(Some(RegistryWord::Permission), 1);
    case.check(5, Status::Waiting, Reason::Question).current(5, "asks: Which?");
}

#[test]
fn compaction_that_was_given_up_is_over() {
    let given_up = json!({"text": "not compressed", "about": "compaction_given_up"});
    let case = Case::prompted().end("completed").add("compaction.started", json!({}));
    assert_eq!(case.process(Life::Alive).verdict(5).confidence, Confidence::Medium);
    let case = Case::prompted().end("completed").add("compaction.started", json!({}));
    case.add("note", given_up).check(5, Status::Waiting, Reason::Prompt);
}

#[test]
fn unended_compaction_is_doubted() {
    let begun = Case::prompted().end("completed").add("compaction.started", json!({}));
    let begun = begun.process(Life::Alive).check(MINUTE, Status::Running, Reason::Compaction);
    begun.check(10 * MINUTE, Status::Idle, Reason::Quiet);
}

#[test]
fn calls_of_a_turn_that_goes_on_are_open() {
    let mut case = Case::prompted().end("completed");
    case.log.queued("And one more thing.");
    let mut case = case.call("Bash", json!({"command": "make"}));
    for event in &mut case.log.events[1..] {
        event.draft.turn_id = Some("t1".to_owned());
    }
    case.check(0, Status::Running, Reason::Turn).current(0, "runs make");
}

#[test]
fn another_call_does_not_hide_a_pending_approval() {
    let case = Case::prompted()
        .call("Bash", json!({"command": "rm x"}))
        .add(
            "approval.requested",
            json!({"approval_id": "a", "tool": "Bash", "input": {"command": "rm x"}}),
        )
        .by(Source::Hook, Confidence::High)
        .call("Bash", json!({"command": "ls"}));
    let (first, second) = ("c3", "c5");
    // The other call comes back, and the approval still stands.
    let case = case
        .add("tool.result", json!({"call_id": second, "outcome": "ok"}))
        .check(0, Status::WaitingApproval, Reason::Permission)
        .current(0, "waits for approval to run rm x");
    case.add("tool.result", json!({"call_id": first, "outcome": "ok"})).check(
        0,
        Status::Running,
        Reason::Turn,
    );
}

#[test]
fn an_approval_finds_its_call_by_what_would_be_done() {
    // The hook calls the tool by another name and adds words of its own.
    let input = json!({"command": "rm x", "description": "May I?"});
    let asked = json!({"approval_id": "a", "tool": "Bash", "input": input});
    let shell = |command| json!({"command": ["/bin/bash", "-lc", command]});
    let case = Case::prompted()
        .add("approval.requested", asked)
        .by(Source::Hook, Confidence::High)
        .call("exec_command", shell("ls"))
        .add("tool.result", json!({"call_id": "c4", "outcome": "ok"}))
        .check(0, Status::WaitingApproval, Reason::Permission)
        .call("exec_command", shell("rm x"));
    case.add("tool.result", json!({"call_id": "c6", "outcome": "ok"})).check(
        0,
        Status::Running,
        Reason::Turn,
    );
    // One that says nothing of its call is about the last one.
    Case::prompted()
        .call("replace", json!({"file_path": "a.rs"}))
        .add("approval.requested", json!({"approval_id": "a"}))
        .current(0, "waits for approval to edit a.rs")
        .add("tool.result", json!({"call_id": "c3", "outcome": "ok"}))
        .check(0, Status::Running, Reason::Turn);
}

#[test]
fn late_transcript_keeps_turn_closed() {
    let mut case = Case::prompted().end("completed").by(Source::Hook, Confidence::High);
    let before = case.log.events[1].created_at;
    let event = case.log.say("m1", "Done.");
    event.draft.created_at = before;
    event.draft.turn_id = Some("t1".to_owned());
    case.check(0, Status::Waiting, Reason::Prompt);
}

#[test]
fn earlier_speech_keeps_approval_open() {
    let mut case = Case::prompted().ask("a1").by(Source::Hook, Confidence::High);
    let before = case.log.events[1].created_at;
    case.log.say("m1", "I need to run a command.").draft.created_at = before;
    case.check(0, Status::WaitingApproval, Reason::Permission);
    // What is said after it, with nothing left to decide, does.
    let mut case = Case::prompted().ask("a1");
    case.log.say("m1", "Done.");
    case.check(0, Status::Running, Reason::Turn);
}

#[test]
fn any_later_sign_closes_a_waiting_state() {
    let later: &[(&str, Value)] = &[
        ("approval.resolved", json!({"approval_id": "a1", "decision": "allow"})),
        ("approval.canceled", json!({"approval_id": "a1", "reason": "withdrawn"})),
        ("tool.result", json!({"call_id": "call", "outcome": "ok"})),
        ("user.prompt", json!({"content": "leave it"})),
        ("turn.completed", json!({"agent_id": "", "stop_reason": "interrupted"})),
        ("session.exited", json!({})),
        ("session.started", json!({"resumed": true})),
    ];
    for (kind, data) in later {
        let asked = json!({"approval_id": "a1", "tool": "Bash", "call_id": "call"});
        let case = Case::prompted().add("approval.requested", asked);
        let verdict = case.add(kind, data.clone()).verdict(0);
        assert_ne!(verdict.status, Status::WaitingApproval, "{kind}");
        let question = json!({"request_id": "call", "prompt": "Which?", "status": "pending"});
        let case = Case::prompted().add("external.input", question);
        assert_eq!(case.verdict(0).reason, Reason::Question);
        if *kind != "approval.resolved" && *kind != "approval.canceled" {
            let verdict = case.add(kind, data.clone()).verdict(0);
            assert_ne!(verdict.reason, Reason::Question, "{kind}");
        }
    }
    Case::prompted().ask("a1").registry(Some(RegistryWord::Busy), 1).process(Life::Alive).check(
        2,
        Status::Running,
        Reason::Turn,
    );
}

#[test]
fn a_question_waits_until_it_is_answered() {
    let case = Case::prompted()
        .add(
            "external.input",
            json!({"request_id": "q", "prompt": "Which one?", "status": "pending"}),
        )
        .check(0, Status::Waiting, Reason::Question)
        .check(30 * MINUTE, Status::Waiting, Reason::Question)
        .current(0, "asks: Which one?");
    case.add("external.input", json!({"request_id": "q", "status": "received"})).check(
        0,
        Status::Running,
        Reason::Turn,
    );
    Case::prompted().registry(Some(RegistryWord::Question), 0).process(Life::Alive).check(
        30 * MINUTE,
        Status::Waiting,
        Reason::Question,
    );
}

#[test]
fn a_run_without_a_person_runs_and_then_has_exited() {
    let mut log = Log::new();
    log.add("session.started", json!({"agent": "claude", "entry_point": "sdk-cli"}));
    log.prompt("Build it.");
    let case = Case { log, observed: ProcessEvidence::default() }
        .check(0, Status::Running, Reason::Turn)
        // Nobody can answer, though a hook says that somebody is asked.
        .ask("a1")
        .check(0, Status::Running, Reason::Turn)
        .end("completed")
        .check(0, Status::Running, Reason::Turn)
        .check(5, Status::Exited, Reason::RunOver);
    let mut case = case.process(Life::Alive).registry(Some(RegistryWord::Idle), 0);
    for secs in [0, 5, MINUTE, 10 * MINUTE] {
        assert_ne!(case.verdict(secs).status, Status::Waiting, "{secs}");
    }
    case.observed = ProcessEvidence::default();
    case.process(Life::Gone).check(5, Status::Exited, Reason::Gone);
}

#[test]
fn a_busy_registry_of_a_dead_process_is_left_behind() {
    let case = Case::prompted().registry(Some(RegistryWord::Busy), 0).process(Life::Gone);
    let verdict = case.verdict(1);
    assert_eq!((verdict.status, verdict.confidence), (Status::Exited, Confidence::High));
    assert!(verdict.overruled.iter().any(|other| other.evidence.says == Status::Running));
    assert_eq!(verdict.pid, None);
}

#[test]
fn unheld_lock_means_ended() {
    Case::prompted().lock(Life::Gone).check(0, Status::Exited, Reason::Gone);
    Case::prompted().lock(Life::Alive).check(61 * MINUTE, Status::Running, Reason::Turn);
    Case::prompted().lock(Life::Unknown).check(61 * MINUTE, Status::Unknown, Reason::Silent);
    // What was written a moment ago may not have its lock yet.
    Case::prompted().missing().check(0, Status::Running, Reason::Turn).check(
        5,
        Status::Exited,
        Reason::Gone,
    );
}

#[test]
fn signs_that_begin_in_mid_session_count_from_there() {
    let mut log = Log::new();
    log.add("tool.result", json!({"call_id": "unheard", "outcome": "ok"}));
    let case = Case { log, observed: ProcessEvidence::default() };
    let case = case.ask("a1").by(Source::Hook, Confidence::High);
    case.check(0, Status::WaitingApproval, Reason::Permission)
        .end("completed")
        .by(Source::Hook, Confidence::High)
        .check(0, Status::Waiting, Reason::Prompt);
}

#[test]
fn newer_contradicting_source_wins() {
    // Escape left no record, but the agent says that it is ready.
    let case = Case::prompted().registry(Some(RegistryWord::Idle), 1).process(Life::Alive);
    let verdict = case.verdict(2);
    assert_eq!((verdict.status, verdict.reason), (Status::Waiting, Reason::Prompt));
    assert!(verdict.overruled.iter().any(|other| other.evidence.says == Status::Running));
    // The turn has ended, and the list does not know it yet.
    Case::prompted()
        .end("completed")
        .registry(Some(RegistryWord::Busy), -1)
        .process(Life::Alive)
        .check(0, Status::Waiting, Reason::Prompt);
    // The next prompt is there, and the list does not know it yet.
    Case::prompted().registry(Some(RegistryWord::Idle), -1).process(Life::Alive).check(
        0,
        Status::Running,
        Reason::Turn,
    );
}

#[test]
fn a_guess_from_the_screen_yields_to_the_agent_itself() {
    let guess = || Case::prompted().ask("screen").by(Source::Pty, Confidence::Low);
    let verdict = guess().verdict(0);
    assert_eq!((verdict.status, verdict.confidence), (Status::WaitingApproval, Confidence::Low));
    guess().registry(Some(RegistryWord::Busy), -60).process(Life::Alive).check(
        0,
        Status::Running,
        Reason::Turn,
    );
}

#[test]
fn a_clock_that_is_ahead_makes_nothing_younger() {
    let mut case = Case::prompted().end("completed");
    for event in &mut case.log.events {
        let ahead = Time::from_nanos(event.created_at.nanos() + 3_600_000_000_000);
        event.draft.created_at = ahead;
    }
    case.check(MINUTE, Status::Waiting, Reason::Prompt).check(
        3 * MINUTE,
        Status::Idle,
        Reason::Quiet,
    );
}

#[test]
fn history_that_is_read_late_is_as_old_as_it_is() {
    let mut case = Case::prompted().end("completed");
    for event in &mut case.log.events {
        let late = Time::from_nanos(event.created_at.nanos() + 86_400_000_000_000);
        event.draft.observed_at = late;
    }
    case.check(86_400, Status::Idle, Reason::Quiet);
}

#[test]
fn growth_by_our_clock_counts_as_fresh() {
    let mut case = Case::prompted().end("completed");
    case.observed.grown_at = Some(case.later(10 * MINUTE));
    case.check(11 * MINUTE, Status::Waiting, Reason::Prompt).check(
        13 * MINUTE,
        Status::Idle,
        Reason::Quiet,
    );
}

#[test]
fn ready_becomes_idle_after_two_minutes() {
    Case::prompted()
        .end("completed")
        .check(119, Status::Waiting, Reason::Prompt)
        .current(0, "is ready for the next prompt")
        .check(120, Status::Idle, Reason::Quiet)
        .process(Life::Alive)
        .check(86_400, Status::Idle, Reason::Quiet)
        .add("user.prompt", json!({"content": "more"}))
        .check(0, Status::Running, Reason::Turn);
}

#[test]
fn status_is_as_sure_as_its_process() {
    let question = json!({"request_id": "q1", "prompt": "Which port?", "status": "pending"});
    for mut case in [
        Case::prompted().end("completed"),
        Case::prompted(),
        Case::prompted().add("external.input", question),
    ] {
        case = case.process(Life::Alive);
        assert_eq!(case.verdict(5).confidence, Confidence::High);
        // Found by its folder: another session may have it.
        if let Some(process) = &mut case.observed.process {
            process.is_certain = false;
        }
        assert_eq!(case.verdict(5).confidence, Confidence::Medium);
        assert_eq!(case.verdict(3 * MINUTE).confidence, Confidence::Medium);
        // A lock whose holder cannot be read names no process.
        case = case.lock(Life::Unknown);
        assert_eq!(case.verdict(5).confidence, Confidence::Medium);
        assert_eq!(case.lock(Life::Alive).verdict(5).confidence, Confidence::High);
    }
}

#[test]
fn an_exit_ends_with_newer_content_or_a_newer_process() {
    let exited = || Case::prompted().end("completed").add("session.exited", json!({}));
    exited().check(0, Status::Exited, Reason::Shutdown);
    exited().add("epoch.closed", json!({"epoch": 0, "cause": "exit"})).check(
        0,
        Status::Exited,
        Reason::Shutdown,
    );
    exited().add("user.prompt", json!({"content": "again"})).check(
        0,
        Status::Running,
        Reason::Turn,
    );
    exited().registry(Some(RegistryWord::Idle), 5).process(Life::Alive).check(
        6,
        Status::Waiting,
        Reason::Prompt,
    );
}

#[test]
fn missing_turn_ends_leave_answer_open() {
    let answered = |provider| {
        let mut case = Case::prompted();
        case.log.say("m1", "The answer.");
        case.of(provider)
    };
    answered("gemini")
        .check(0, Status::Running, Reason::Growth)
        .check(30, Status::Unknown, Reason::Answered)
        .check(3 * MINUTE, Status::Idle, Reason::Quiet);
    // Its calls stand in the record of the answer, so there are none.
    answered("qwen").check(0, Status::Waiting, Reason::Prompt);
    // It says when the turn is over.
    answered("codex").check(5 * MINUTE, Status::Running, Reason::Turn);
}

#[test]
fn what_is_told_late_about_a_turn_opens_nothing() {
    let mut case = Case::prompted();
    let turn = |event: &mut Event| event.draft.turn_id = Some("t1".to_owned());
    case.log.events.iter_mut().for_each(turn);
    let mut case = case.end("completed");
    turn(case.log.events.last_mut().unwrap());
    let call = json!({"call_id": "late", "tool": "Bash", "input": {}, "message_id": "m"});
    turn(case.log.add("tool.call", call));
    turn(case.log.add("tool.result", json!({"call_id": "late", "outcome": "canceled"})));
    let mut case = case.check(0, Status::Waiting, Reason::Prompt);
    // A hook of the user may send the agent back to work in the same turn.
    turn(case.log.say("m2", "I go on."));
    case.check(0, Status::Running, Reason::Turn);
}

#[test]
fn straggler_of_an_older_turn_ends_nothing() {
    let fatal = json!({"message": "overloaded", "recoverable": false});
    let answer = json!({"message_id": "m", "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn"});
    for (kind, data) in [("assistant.message", answer), ("error", fatal)] {
        let mut case = Case::prompted();
        let turn = |event: &mut Event, id: &str| event.draft.turn_id = Some(id.to_owned());
        case.log.events.iter_mut().for_each(|event| turn(event, "t1"));
        let mut case = case.end("completed");
        turn(case.log.events.last_mut().unwrap(), "t1");
        turn(case.log.prompt("And now?"), "t2");
        turn(case.log.add(kind, data), "t1");
        case.check(0, Status::Running, Reason::Turn);
    }
}

#[test]
fn end_without_an_id_ends_the_open_turn() {
    let mut case = Case::prompted();
    let turn = |event: &mut Event| event.draft.turn_id = Some("t1".to_owned());
    case.log.events.iter_mut().for_each(turn);
    let mut case = case.end("completed");
    let call = json!({"call_id": "late", "tool": "Bash", "input": {}, "message_id": "m"});
    turn(case.log.add("tool.call", call));
    case.check(0, Status::Waiting, Reason::Prompt);
}

#[test]
fn a_failed_turn_says_why() {
    Case::prompted()
        .add("turn.completed", json!({"agent_id": "", "error": "overloaded"}))
        .check(0, Status::Waiting, Reason::Prompt)
        .current(0, "failed: overloaded");
}

#[test]
fn retries_and_compactions_are_work() {
    Case::prompted()
        .add("retry", json!({"agent_id": "", "scope": "model", "attempt": 1, "error": "529"}))
        .check(5 * MINUTE, Status::Running, Reason::Retry);
    Case::prompted()
        .end("completed")
        .add("compaction.started", json!({"strategy": "captured"}))
        .check(0, Status::Running, Reason::Compaction)
        .add("compaction", json!({"strategy": "captured"}))
        .check(0, Status::Waiting, Reason::Prompt);
}

#[test]
fn a_summary_has_three_short_lines_without_secrets() {
    let mut case = Case::prompted();
    case.log.use_tool("Write", json!({"file_path": "/home/dev/app/src/parser.rs"}));
    let call = case.log.call("Bash", json!({"command": "cargo test"}));
    case.log.fail(&call, "1 failed");
    case.log.prompt(&format!("Use the key hunter2 {}", "and so on ".repeat(40)));
    let summary = summarize(&case.state(), &case.verdict(0), &mut |text| {
        text.replace("hunter2", "[redacted]").into()
    });
    assert_eq!(summary.current, "works on the last prompt");
    assert_eq!(summary.recent.as_deref(), Some("ran cargo test (failed), wrote parser.rs"));
    let last_prompt = summary.last_prompt.unwrap();
    assert!(last_prompt.starts_with("Use the key [redacted] and so on"), "{last_prompt}");
    assert!(last_prompt.chars().count() <= 120 && last_prompt.ends_with('…'));
}

#[test]
fn history_tells_each_change_once() {
    let case =
        Case::prompted().ask("a1").answer("a1").end("completed").add("session.exited", json!({}));
    let state = case.state();
    let history: Vec<_> = state.history().map(|change| change.status).collect();
    let expected = [
        Status::Running,
        Status::WaitingApproval,
        Status::Running,
        Status::Waiting,
        Status::Exited,
    ];
    assert_eq!(history, expected);
}
