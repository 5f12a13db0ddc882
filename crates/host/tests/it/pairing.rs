//! Which process has which session open.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use event::{ProcessStart, Time};
use host::{
    AgentProcess, AgentScan, PairMemory, Pairing, ProcessKey, SessionClaim, SessionKey,
    SessionLock, pair_processes, remember_pairings,
};
use proptest::prelude::{ProptestConfig, proptest};

const SCANNED: i64 = 100;

fn at(secs: i64) -> Time {
    Time::from_millis(secs * 1_000)
}

fn key(pid: u32) -> ProcessKey {
    (pid, ProcessStart::Ticks(u64::from(pid)))
}

/// A process of an agent that started in a folder.
fn process(pid: u32, started: i64, cwd: &str, arguments: &str) -> AgentProcess {
    AgentProcess {
        program: "gemini",
        key: key(pid),
        started_at: Some(at(started)),
        parent: None,
        cwd: Some(PathBuf::from(cwd)).filter(|_| !cwd.is_empty()),
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        open_files: BTreeSet::new(),
    }
}

/// A session that began and was last written to in a folder.
fn session(name: &str, began: i64, written: i64, folder: &str) -> SessionClaim {
    SessionClaim {
        key: ("gemini".to_owned(), name.to_owned()),
        folders: Some(PathBuf::from(folder)).filter(|_| !folder.is_empty()).into_iter().collect(),
        file: Some(PathBuf::from(format!("/home/dev/{name}.jsonl"))),
        began_at: at(began),
        written_at: at(written),
        has_exited: false,
        named: None,
        lock: SessionLock::None,
        memory: None,
    }
}

fn show(pairing: &Pairing) -> String {
    match pairing {
        Pairing::Open { process, .. } => format!("open {}", process.0),
        Pairing::Ended { process } => format!("ended {}", process.0),
        Pairing::Left { process } => format!("left {}", process.0),
        Pairing::Gone { .. } => "gone".to_owned(),
        Pairing::Doubt { .. } => "doubt".to_owned(),
        Pairing::Pending => "pending".to_owned(),
    }
}

fn pair(processes: &[AgentProcess], claims: &[SessionClaim]) -> BTreeMap<SessionKey, Pairing> {
    let scan = AgentScan { scanned_at: at(SCANNED), processes: processes.to_vec() };
    pair_processes(&scan, claims)
}

#[track_caller]
fn check<const P: usize, const S: usize>(
    processes: [AgentProcess; P],
    claims: [SessionClaim; S],
    expected: [&str; S],
) {
    let found = pair(&processes, &claims);
    let found: Vec<String> = claims
        .iter()
        .map(|claim| found.get(&claim.key).map_or("nothing".to_owned(), show))
        .collect();
    assert_eq!(found, expected, "{processes:#?}");
}

#[test]
fn process_of_the_folder_has_it() {
    let session_a = session("aaaaaaaa", 10, 20, "/x");
    check([process(1, 5, "/x", "")], [session_a.clone()], ["open 1"]);
    check([process(1, 5, "/y", "")], [session_a.clone()], ["gone"]);
    check([], [session_a.clone()], ["gone"]);
    // It began before the process did, and was written since.
    check([process(1, 15, "/x", "")], [session_a.clone()], ["open 1"]);
    // The process has never written to it.
    check([process(1, 30, "/x", "")], [session_a.clone()], ["gone"]);
    // A folder on the command line counts, too.
    check([process(1, 5, "/", "-C x")], [session_a.clone()], ["open 1"]);
    check([process(1, 5, "/y", "--cwd /x")], [session_a.clone()], ["open 1"]);
    // What is not known proves nothing.
    check([process(1, 5, "", "")], [session_a.clone()], ["doubt"]);
    check([process(1, 5, "/y", "")], [session("aaaaaaaa", 10, 20, "")], ["doubt"]);
    check([process(1, 5, "/y", "serve --port 1")], [session_a.clone()], ["doubt"]);
    check([process(1, 5, "/x", "--acp")], [session_a.clone()], ["doubt"]);
    check([process(1, 30, "", "")], [session_a.clone()], ["gone"]);
    // It was written after the scan.
    check([], [session("aaaaaaaa", 10, SCANNED + 1, "/x")], ["pending"]);
    let other = AgentProcess { program: "qwen", ..process(1, 5, "/x", "") };
    check([other], [session_a.clone()], ["gone"]);
    check([process(1, 5, "/x", "")], [SessionClaim { has_exited: true, ..session_a }], ["nothing"]);
}

#[test]
fn command_line_names_a_session() {
    let yesterday = session("aaaaaaaa-1", 10, 20, "/x");
    for line in [
        "--resume aaaaaaaa-1",
        "--resume=aaaaaaaa-1",
        "-s aaaaaaaa",
        "--session /home/dev/aaaaaaaa-1.jsonl",
    ] {
        check([process(1, 30, "/y", line)], [yesterday.clone()], ["open 1"]);
    }
    check([process(1, 30, "/x", "--resume latest")], [yesterday.clone()], ["gone"]);
    check([process(1, 30, "/x", "--resume aaaa")], [yesterday.clone()], ["gone"]);
    // Of two in the folder the other one is free for the other session.
    let both = [yesterday.clone(), session("bbbbbbbb", 40, 50, "/x")];
    let named = process(1, 30, "/x", "--resume aaaaaaaa-1");
    check([named.clone(), process(2, 35, "/x", "")], both.clone(), ["open 1", "open 2"]);
    // It has begun another session since.
    check([named], both.clone(), ["left 1", "open 1"]);
    // The id of one is the beginning of another.
    let alike = [yesterday.clone(), session("aaaaaaaa-12", 12, 22, "/x")];
    check([process(1, 30, "/y", "--resume aaaaaaaa-1")], alike, ["open 1", "gone"]);
    let exited = SessionClaim { has_exited: true, ..yesterday };
    check([process(1, 30, "/x", "resume aaaaaaaa-1")], [exited], ["open 1"]);
}

#[test]
fn several_in_a_folder_are_paired_by_order() {
    let (first, second) = (process(1, 5, "/x", ""), process(2, 15, "/x", ""));
    let (a, b) = (session("a", 10, 50, "/x"), session("b", 20, 60, "/x"));
    check([first.clone(), second.clone()], [a.clone(), b.clone()], ["open 1", "open 2"]);
    // Both ran before the first session began.
    let early = process(2, 6, "/x", "");
    check([first.clone(), early], [a.clone(), b.clone()], ["doubt", "doubt"]);
    // One process, and both are written to by turns: one of them is another's.
    check([first.clone()], [a.clone(), b.clone()], ["doubt", "doubt"]);
    // One after another.
    check([first.clone()], [session("a", 10, 15, "/x"), b.clone()], ["left 1", "open 1"]);
    // A named process has no other session.
    let named = SessionClaim { named: Some(1), ..a.clone() };
    check([first.clone()], [named.clone(), b.clone()], ["nothing", "gone"]);
    check([first.clone(), second], [named, b.clone()], ["nothing", "open 2"]);
    // The process that started itself again with the same words is its launcher.
    let inner =
        |started, words| AgentProcess { parent: Some(1), ..process(2, started, "/x", words) };
    check([first.clone(), inner(40, "")], [a.clone()], ["open 2"]);
    check([first.clone(), inner(6, "--no-update")], [a.clone()], ["open 2"]);
    // One that the agent has started later is a command.
    check([first, inner(30, "-p hello")], [a], ["open 1"]);
}

#[test]
fn open_file_tells_the_session() {
    let has = |pid: u32, name: &str| AgentProcess {
        open_files: BTreeSet::from([PathBuf::from(format!("/home/dev/{name}.jsonl"))]),
        ..process(pid, 5, "/x", "")
    };
    let (a, b) = (session("a", 10, 50, "/x"), session("b", 20, 60, "/x"));
    check([has(1, "b"), has(2, "a")], [a, b], ["open 2", "open 1"]);
}

#[test]
fn remembered_process_ends_its_session() {
    let open = |claim: SessionClaim, pid: u32| SessionClaim {
        memory: Some(PairMemory::Open { process: key(pid), seen_at: at(SCANNED) }),
        ..claim
    };
    let (a, b) = (session("a", 10, 50, "/x"), session("b", 20, 60, "/x"));
    let claims = [open(a.clone(), 1), open(b.clone(), 2)];
    let (first, second) = (process(1, 5, "/x", ""), process(2, 6, "/x", ""));
    check([first.clone(), second.clone()], claims.clone(), ["open 1", "open 2"]);
    check([first.clone()], claims.clone(), ["open 1", "ended 2"]);
    check([second], claims.clone(), ["ended 1", "open 2"]);
    // The same pid, and another start.
    let again = AgentProcess { key: (1, ProcessStart::Ticks(9)), ..first.clone() };
    check([again.clone()], [open(a.clone(), 1)], ["ended 1"]);
    // Written since by another process.
    let ended =
        |has_left| PairMemory::Ended { process: key(7), seen_at: at(39), at: at(40), has_left };
    let since = SessionClaim { memory: Some(ended(false)), ..a.clone() };
    check([again.clone()], [since], ["open 1"]);
    let left = SessionClaim { memory: Some(ended(true)), written_at: at(30), ..a.clone() };
    check([again], [left], ["left 7"]);
    // A second session of a process with a remembered one: first in doubt, then proven.
    let second = |memory| SessionClaim { memory, ..b.clone() };
    check([first.clone()], [open(a.clone(), 1), second(None)], ["open 1", "doubt"]);
    let seen = |secs| Some(PairMemory::OnlyOne { process: key(1), at: at(secs) });
    check([first.clone()], [open(a.clone(), 1), second(seen(70))], ["open 1", "doubt"]);
    check([first], [open(a, 1), second(seen(55))], ["left 1", "open 1"]);
}

#[test]
fn session_that_one_of_several_went_on_to_is_not_gone() {
    let open = |claim: SessionClaim, pid: u32| SessionClaim {
        memory: Some(PairMemory::Open { process: key(pid), seen_at: at(SCANNED) }),
        ..claim
    };
    let both = || [process(1, 5, "/x", ""), process(2, 6, "/x", "")];
    let (a, b) = (open(session("a", 10, 30, "/x"), 1), open(session("b", 20, 60, "/x"), 2));
    let c = |written| session("c", 25, written, "/x");
    check(both(), [a.clone(), b.clone(), c(70)], ["open 1", "open 2", "doubt"]);
    // Both have worked on in their own sessions since.
    check(both(), [a.clone(), b.clone(), c(28)], ["open 1", "open 2", "gone"]);
    // One that works on in what was left may have it all the same.
    let work_on = both().map(|process| AgentProcess { program: "opencode", ..process });
    let claims = [a, b, c(28)]
        .map(|claim| SessionClaim { key: ("opencode".to_owned(), claim.key.1.clone()), ..claim });
    check(work_on, claims, ["open 1", "open 2", "doubt"]);
}

#[test]
fn sessions_that_work_on_are_never_left() {
    let own = |claim: SessionClaim, memory| SessionClaim {
        key: ("opencode".to_owned(), claim.key.1.clone()),
        memory,
        ..claim
    };
    let process = AgentProcess { program: "opencode", ..process(1, 5, "/x", "") };
    let open = Some(PairMemory::Open { process: key(1), seen_at: at(SCANNED) });
    let seen = |secs| Some(PairMemory::OnlyOne { process: key(1), at: at(secs) });
    let (a, b) = (session("a", 10, 50, "/x"), session("b", 20, 60, "/x"));
    let both = |first, second| [own(a.clone(), first), own(b.clone(), second)];
    check([process.clone()], both(open, None), ["open 1", "doubt"]);
    // Both are written by the one process.
    check([process.clone()], both(open, seen(55)), ["open 1", "open 1"]);
    check([process.clone()], both(open, open), ["open 1", "open 1"]);
    check([], both(open, open), ["ended 1", "ended 1"]);
    // After a restart of the daemon.
    let before = own(session("a", 10, 15, "/x"), None);
    check([process.clone()], [before.clone(), own(b.clone(), None)], ["doubt", "open 1"]);
    let before = SessionClaim { memory: seen(SCANNED), ..before };
    check([process], [before, own(b, open)], ["doubt", "open 1"]);
}

#[test]
fn many_sessions_and_processes_are_paired_at_once() {
    let folder = |number: u32| format!("/x/{number}");
    let processes: Vec<AgentProcess> =
        (0..3_000).map(|pid| process(pid, 5, &folder(pid), "")).collect();
    let claims: Vec<SessionClaim> =
        (0..3_000).map(|it| session(&format!("session-{it}"), 10, 20, &folder(it))).collect();
    let found = pair(&processes, &claims);
    for (claim, process) in claims.iter().zip(&processes) {
        assert_eq!(show(&found[&claim.key]), format!("open {}", process.key.0));
    }
}

/// Looks at session `a`, and at `b` once it was written, as a daemon does one after another.
#[derive(Default)]
struct Looks(BTreeMap<SessionKey, PairMemory>);

impl Looks {
    fn look(&mut self, processes: &[AgentProcess], scanned: i64, b_written: Option<i64>) -> String {
        let claims = [Some(("a", 10, 20)), b_written.map(|written| ("b", 101, written))];
        let claims = claims.into_iter().flatten().map(|(name, began, written)| {
            let claim = session(name, began, written, "/x");
            SessionClaim { memory: self.0.get(&claim.key).copied(), ..claim }
        });
        let claims: Vec<SessionClaim> = claims.collect();
        let scan = AgentScan { scanned_at: at(scanned), processes: processes.to_vec() };
        let found = pair_processes(&scan, &claims);
        remember_pairings(&mut self.0, &claims, &found, at(scanned), at(SCANNED + 10));
        found.values().map(show).collect::<Vec<String>>().join(", ")
    }
}

#[test]
fn session_of_an_unseen_process_is_of_no_other() {
    let (mut looks, first) = (Looks::default(), process(1, 5, "/x", ""));
    let one = std::slice::from_ref(&first);
    assert_eq!(looks.look(one, 99, None), "open 1");
    // Its process started after the scan, which is looked at twice before the next one.
    assert_eq!(looks.look(one, 99, Some(102)), "open 1, pending");
    assert_eq!(looks.look(one, 99, Some(103)), "open 1, pending");
    let second = process(2, 100, "/x", "");
    assert_eq!(looks.look(&[first.clone(), second], 104, Some(103)), "open 1, open 2");
}

#[test]
fn session_without_another_process_is_of_the_one() {
    let (mut looks, first) = (Looks::default(), process(1, 5, "/x", ""));
    let one = std::slice::from_ref(&first);
    assert_eq!(looks.look(one, 99, None), "open 1");
    assert_eq!(looks.look(one, 104, Some(103)), "open 1, doubt");
    assert_eq!(looks.look(one, 104, Some(105)), "open 1, pending");
    assert_eq!(looks.look(one, 106, Some(105)), "left 1, open 1");
}

#[test]
fn death_is_remembered_until_a_write() {
    let mut memory = BTreeMap::new();
    let mut look = |process: AgentProcess, written: i64, now: i64| {
        let mut claim = session("a", 10, written, "/x");
        claim.memory = memory.get(&claim.key).copied();
        let claims = [claim];
        let found = pair(&[process], &claims);
        remember_pairings(&mut memory, &claims, &found, at(SCANNED), at(now));
        found.values().map(show).collect::<String>()
    };
    let other = process(2, 6, "/x", "");
    assert_eq!(look(process(1, 5, "/x", ""), 20, 30), "open 1");
    assert_eq!(look(other.clone(), 20, 40), "ended 1");
    assert_eq!(look(other.clone(), 35, 50), "ended 1");
    // One that started since the last look wrote before the end was noticed.
    assert_eq!(look(process(3, 36, "/x", ""), 38, 55), "open 3");
    assert_eq!(look(other.clone(), 38, 60), "ended 3");
    assert_eq!(look(other, 65, 70), "open 2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever runs and whatever was written: one process for a session, one session for a
    /// process, and none that ends before it began.
    #[test]
    fn each_has_one_other_at_most(
        processes in proptest::collection::vec((0i64..60, 0usize..3, 0usize..5), 0..5),
        sessions in proptest::collection::vec((0i64..60, 0i64..60, 0usize..3, 0u32..8), 0..6),
    ) {
        let folders = ["/x", "/y", ""];
        let lines = ["", "--resume aaaaaaaa-0", "--resume aaaaaaaa-1", "serve", "-c"];
        let processes: Vec<AgentProcess> = (1..)
            .zip(&processes)
            .map(|(pid, (started, cwd, line))| process(pid, *started, folders[*cwd], lines[*line]))
            .collect();
        let claims: Vec<SessionClaim> = sessions
            .iter()
            .enumerate()
            .map(|(number, (began, lasted, folder, known))| SessionClaim {
                memory: known.checked_sub(4).filter(|pid| *pid > 0).map(|pid| PairMemory::Open { process: key(pid), seen_at: at(SCANNED) }),
                named: Some(*known).filter(|known| (3..5).contains(known)),
                ..session(&format!("aaaaaaaa-{number}"), *began, began + lasted, folders[*folder])
            })
            .collect();
        let found = pair(&processes, &claims);
        let open = found.values().filter_map(|pairing| match pairing {
            Pairing::Open { process, .. } => Some(*process),
            _ => None,
        });
        let open: Vec<ProcessKey> = open.collect();
        assert_eq!(open.iter().collect::<BTreeSet<_>>().len(), open.len(), "{found:#?}");
        for claim in &claims {
            assert_eq!(found.contains_key(&claim.key), claim.named.is_none());
            let Some(Pairing::Open { process, .. }) = found.get(&claim.key) else { continue };
            assert!(claims.iter().all(|other| other.named != Some(process.0)));
            let process = processes.iter().find(|it| it.key == *process).expect("it runs");
            let is_told = !process.arguments.is_empty() || claim.memory.is_some();
            assert!(is_told || process.started_at <= Some(claim.written_at), "{found:#?}");
        }
        // The order of the facts decides nothing.
        let mut turned = (processes.clone(), claims.clone());
        turned.0.reverse();
        turned.1.reverse();
        assert_eq!(pair(&turned.0, &turned.1), found);
    }
}
