//! Which process has which session open, where the agent itself does not tell.
//!
//! A registry entry, a held lock or a hook names the process of a session; such a process is
//! *taken* and has no other one. What is left is concluded here, from facts alone:
//!
//! | a session | the answer |
//! |---|---|
//! | whose remembered process runs | open in it |
//! | whose remembered process ended, or went on to another session, and nothing was written since, nor by a process that started since | ended |
//! | of which one free process has the file open | open in it |
//! | that the command line of a process names | open in it, unless a session began in its folder since |
//! | that began in a folder where one free process worked by then | open in it |
//! | that began before the one free process which works in its folder, and was written since | open in it |
//! | of several that one process alone can have, one after another | the newest is open, it has left the others |
//! | of several that one process alone can have, at the same time | in doubt |
//! | that several free processes can have | in doubt |
//! | that only a process with a remembered, older session can have | in doubt; open in it once it is written again while no other process can have it |
//! | that only a process without a known folder, or a server, can have | in doubt |
//! | that no process can have, in a scan from after its last write | gone |
//! | that no process can have, in an older scan | in doubt |
//!
//! A process can have a session if it is of the session's agent, works in one of its folders, and
//! started before the session was last written. A free process is not taken and in none of the rows
//! above. Processes of other users are not among the facts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use event::{ProcessStart, Time};

/// First arguments, and options, with which an agent serves many sessions in any folder.
const SERVER_WORDS: &[&str] =
    &["serve", "server", "web", "acp", "app-server", "mcp", "--acp", "--experimental-acp"];

/// Letters of an id that may stand for it on a command line.
const ID_LETTERS_MIN: usize = 8;

/// How long after its own start an agent starts the process that does its work. One that is started
/// later, with other words, is a command of its own.
const LAUNCH_NANOS_MAX: i128 = 5_000_000_000;

/// A process by pid and start: no other process has both.
pub type ProcessKey = (u32, ProcessStart);

/// A session by its provider and the provider's id.
pub type SessionKey = (String, String);

/// A running process of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentProcess {
    /// The agent, by the name of its provider.
    pub program: &'static str,
    pub key: ProcessKey,
    /// The start by the clock of this machine; unknown if the system does not tell it.
    pub started_at: Option<Time>,
    pub parent: Option<u32>,
    /// The working directory, if the system tells it.
    pub cwd: Option<PathBuf>,
    /// The words behind the program.
    pub arguments: Vec<String>,
    /// The files it has open, as far as the system tells them.
    pub open_files: BTreeSet<PathBuf>,
}

/// All running processes of agents, as of one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentScan {
    pub scanned_at: Time,
    pub processes: Vec<AgentProcess>,
}

/// What is known of a session that a process may have open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionClaim {
    pub key: SessionKey,
    /// The folders it worked in.
    pub folders: Vec<PathBuf>,
    /// Its transcript, if no other session writes to it.
    pub file: Option<PathBuf>,
    pub began_at: Time,
    pub written_at: Time,
    /// It said that it ended.
    pub has_exited: bool,
    /// The live process that its agent names.
    pub named: Option<u32>,
    pub memory: Option<PairMemory>,
}

/// What earlier looks showed of the process of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairMemory {
    /// The process was last seen at this time.
    Open { process: ProcessKey, seen_at: Time },
    /// The process had ended at this time, or gone on to another session.
    Ended { process: ProcessKey, seen_at: Time, at: Time, has_left: bool },
    /// The only process that could have the session at this time, while it had another one.
    OnlyOne { process: ProcessKey, at: Time },
}

/// The process of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pairing {
    Open {
        process: ProcessKey,
        started_at: Option<Time>,
        /// The command line names the session.
        is_named: bool,
    },
    /// The remembered process has ended.
    Ended { process: ProcessKey },
    /// The process has gone on to another session.
    Left { process: ProcessKey },
    /// No process has it open, in words.
    Gone { what: String },
    /// A process may have it open, in words, and the only one if there is only one.
    Doubt { what: String, only_one: Option<ProcessKey> },
}

/// Decides which process has each session open. A process that is not named by its agent has one
/// session at most, and each session one process.
pub fn pair_processes(scan: &AgentScan, claims: &[SessionClaim]) -> BTreeMap<SessionKey, Pairing> {
    let providers: BTreeSet<&str> = claims.iter().map(|claim| claim.key.0.as_str()).collect();
    let groups = providers.into_iter().map(|provider| PairingGroup::new(provider, scan, claims));
    groups.flat_map(PairingGroup::pair).collect()
}

/// Takes over what a look has shown. Sessions that are not among the claims are forgotten.
pub fn remember_pairings(
    memory: &mut BTreeMap<SessionKey, PairMemory>,
    claims: &[SessionClaim],
    pairings: &BTreeMap<SessionKey, Pairing>,
    scanned_at: Time,
    now: Time,
) {
    let known = std::mem::take(memory);
    for claim in claims {
        let before = known.get(&claim.key).copied();
        let seen_at = match claim.memory {
            Some(PairMemory::Open { seen_at, .. }) => seen_at,
            _ => now,
        };
        let learnt = match pairings.get(&claim.key) {
            Some(Pairing::Open { process, .. }) => {
                Some(PairMemory::Open { process: *process, seen_at: now })
            }
            Some(Pairing::Ended { process }) => {
                before.filter(PairMemory::is_ended).or(Some(PairMemory::Ended {
                    process: *process,
                    seen_at,
                    at: now,
                    has_left: false,
                }))
            }
            Some(Pairing::Left { process }) => {
                before.filter(PairMemory::is_ended).or(Some(PairMemory::Ended {
                    process: *process,
                    seen_at,
                    at: now,
                    has_left: true,
                }))
            }
            Some(Pairing::Doubt { only_one: Some(process), .. }) => match before {
                Some(PairMemory::OnlyOne { process: known, .. }) if known == *process => before,
                _ => Some(PairMemory::OnlyOne { process: *process, at: scanned_at }),
            },
            Some(Pairing::Doubt { .. } | Pairing::Gone { .. }) | None => None,
        };
        memory.extend(learnt.map(|learnt| (claim.key.clone(), learnt)));
    }
}

impl PairMemory {
    fn is_ended(&self) -> bool {
        matches!(self, PairMemory::Ended { .. })
    }
}

impl AgentProcess {
    /// Whether it serves sessions of any folder.
    fn is_server(&self) -> bool {
        let mut words = self.arguments.iter().map(String::as_str);
        let first = words.clone().find(|word| !word.starts_with('-'));
        let is_option = |word: &str| word.starts_with('-') && SERVER_WORDS.contains(&word);
        first.is_some_and(|first| SERVER_WORDS.contains(&first)) || words.any(is_option)
    }

    /// Whether another process started it as itself: with the same words, as some agents do to give
    /// their interpreter other options, or at its own start with more of them. The one that was
    /// started does the work.
    fn is_launched_by(&self, other: &AgentProcess) -> bool {
        let is_soon = match (other.started_at, self.started_at) {
            (Some(first), Some(then)) => then.nanos() - first.nanos() <= LAUNCH_NANOS_MAX,
            _ => false,
        };
        let has_all = || other.arguments.iter().all(|word| self.arguments.contains(word));
        self.parent == Some(other.key.0)
            && self.cwd == other.cwd
            && (self.arguments == other.arguments || is_soon && has_all())
    }

    /// Whether its command line names a session: its id, the beginning of it, or its file. What is
    /// the whole id of one session is no beginning of another: Goose has `20260101_1` and
    /// `20260101_12`.
    fn names(&self, claim: &SessionClaim, ids: &BTreeSet<&str>) -> bool {
        let id = claim.key.1.as_str();
        let file = claim.file.as_deref().and_then(Path::to_str);
        self.arguments.iter().any(|word| {
            let value = match word.split_once('=') {
                Some((option, value)) if option.starts_with('-') => value,
                _ => word.as_str(),
            };
            let is_beginning = value.len() >= ID_LETTERS_MIN
                && id.starts_with(value)
                && (value == id || !ids.contains(value));
            id.len() >= ID_LETTERS_MIN && is_beginning || file.is_some_and(|file| file == value)
        })
    }

    /// Whether it works in one of these folders: by its own, or by one on its command line. `None`
    /// if that is not known.
    fn works_in(&self, folders: &[PathBuf]) -> Option<bool> {
        let cwd = self.cwd.as_ref().filter(|_| !folders.is_empty() && !self.is_server())?;
        let is_told = |word: &String| folders.contains(&cwd.join(word));
        Some(folders.contains(cwd) || self.arguments.iter().any(is_told))
    }
}

/// The processes and sessions of one agent.
struct PairingGroup<'a> {
    provider: &'a str,
    scanned_at: Time,
    /// All that run, and those of them that their agent names for a session.
    running: BTreeSet<ProcessKey>,
    taken: BTreeSet<ProcessKey>,
    /// Those that no agent names.
    processes: Vec<&'a AgentProcess>,
    /// Sessions without a named process.
    claims: Vec<&'a SessionClaim>,
    /// The ids of all sessions of the agent.
    ids: BTreeSet<&'a str>,
    /// The session of each process, by its place among the claims.
    holds: Vec<Option<usize>>,
    pairings: Vec<Option<Pairing>>,
}

impl<'a> PairingGroup<'a> {
    fn new(provider: &'a str, scan: &'a AgentScan, claims: &'a [SessionClaim]) -> PairingGroup<'a> {
        let own = claims.iter().filter(|claim| claim.key.0 == provider);
        let ids = own.clone().map(|claim| claim.key.1.as_str()).collect();
        let taken: BTreeSet<u32> = own.clone().filter_map(|claim| claim.named).collect();
        let all: Vec<&AgentProcess> =
            scan.processes.iter().filter(|process| process.program == provider).collect();
        let is_launcher = |process: &AgentProcess| all.iter().any(|it| it.is_launched_by(process));
        // A launcher of a process that is named has no session of its own either.
        let free = all.iter().filter(|process| !taken.contains(&process.key.0));
        let mut processes: Vec<_> = free.filter(|process| !is_launcher(process)).copied().collect();
        let mut claims: Vec<_> = own.filter(|claim| claim.named.is_none()).collect();
        // In the order of starts and beginnings, whatever the order of the facts.
        processes.sort_by_key(|process| (process.started_at, process.key));
        claims.sort_by_key(|claim| (claim.began_at, &claim.key));
        let (holds, pairings) = (vec![None; processes.len()], vec![None; claims.len()]);
        let keys_of = |is_taken: bool| {
            let keys = all.iter().map(|process| process.key);
            keys.filter(|key| !is_taken || taken.contains(&key.0)).collect()
        };
        PairingGroup {
            provider,
            scanned_at: scan.scanned_at,
            running: keys_of(false),
            taken: keys_of(true),
            processes,
            claims,
            ids,
            holds,
            pairings,
        }
    }

    fn pair(mut self) -> Vec<(SessionKey, Pairing)> {
        self.apply_memory();
        self.apply_open_files();
        while self.pair_next() {}
        self.weigh_second_sessions();
        for at in 0..self.claims.len() {
            if self.pairings[at].is_none() {
                self.pairings[at] = self.weigh_rest(at);
            }
        }
        let keys = self.claims.iter().map(|claim| claim.key.clone());
        keys.zip(self.pairings).filter_map(|(key, pairing)| Some((key, pairing?))).collect()
    }

    fn apply_memory(&mut self) {
        for at in 0..self.claims.len() {
            let claim = self.claims[at];
            // Its own word is newer than what was seen before.
            if claim.has_exited {
                continue;
            }
            match claim.memory {
                Some(PairMemory::Open { process, seen_at }) => match self.place_of(process) {
                    Some(place) if self.holds[place].is_none() => self.open(place, at),
                    Some(_) => {}
                    None if self.is_resumed(at) => {}
                    // Its agent names it for another session.
                    None if self.taken.contains(&process) => {
                        self.pairings[at] = Some(Pairing::Left { process });
                    }
                    // It has started itself again.
                    None if self.running.contains(&process) => {}
                    None if self.has_successor(at, seen_at) => {}
                    None => self.pairings[at] = Some(Pairing::Ended { process }),
                },
                Some(PairMemory::Ended { process, seen_at, at: ended_at, has_left })
                    if claim.written_at <= ended_at
                        && !self.is_resumed(at)
                        && !self.has_successor(at, seen_at) =>
                {
                    self.pairings[at] = Some(match has_left {
                        true => Pairing::Left { process },
                        false => Pairing::Ended { process },
                    });
                }
                _ => {}
            }
        }
    }

    fn apply_open_files(&mut self) {
        for at in 0..self.claims.len() {
            let Some(file) = self.claims[at].file.as_ref() else { continue };
            let mut having = (0..self.processes.len())
                .filter(|place| self.processes[*place].open_files.contains(file));
            if let (Some(place), None) = (having.next(), having.next())
                && self.holds[place].is_none()
                && self.pairings[at].is_none()
            {
                self.open(place, at);
            }
        }
    }

    /// Pairs a process with one of the sessions that no other process can have; `false` if there is
    /// none left.
    fn pair_next(&mut self) -> bool {
        for place in 0..self.processes.len() {
            if self.holds[place].is_some() {
                continue;
            }
            let sessions: Vec<usize> =
                (0..self.claims.len()).filter(|at| self.only_process(*at) == Some(place)).collect();
            let newest = sessions.iter().copied().max_by_key(|at| self.claims[*at].began_at);
            let Some(newest) = newest else { continue };
            let begun = self.claims[newest].began_at;
            let mut others = sessions.iter().filter(|at| **at != newest);
            // One after another: the process went on from each to the next.
            if others.all(|at| self.claims[*at].written_at <= begun) {
                let process = self.processes[place].key;
                for at in sessions {
                    self.pairings[at] = Some(Pairing::Left { process });
                }
                self.open(place, newest);
                return true;
            }
        }
        false
    }

    /// The one process that can have a session: the one that its command line says so of, else the
    /// one that can have begun it, else the one that can have resumed it.
    fn only_process(&self, at: usize) -> Option<usize> {
        if self.pairings[at].is_some() {
            return None;
        }
        let claim = self.claims[at];
        let free = |place: &usize| self.holds[*place].is_none();
        let only = |places: Vec<usize>| match places[..] {
            [place] => Some(Some(place)),
            [] => None,
            _ => Some(None),
        };
        let all = 0..self.processes.len();
        let naming =
            all.clone().filter(free).filter(|it| self.processes[*it].names(claim, &self.ids));
        if let Some(naming) = only(naming.collect()) {
            return naming;
        }
        let able = all.filter(free).filter(|place| self.can_have(*place, at) == Some(true));
        let able: Vec<usize> = able.collect();
        let has_begun = |place: &usize| self.processes[*place].started_at <= Some(claim.began_at);
        let begun = able.iter().copied().filter(has_begun).collect();
        only(begun).or_else(|| only(able)).flatten()
    }

    /// Sessions that only a process with a remembered session can have: it went on to them if they
    /// were written while there was no other.
    fn weigh_second_sessions(&mut self) {
        for at in 0..self.claims.len() {
            let able: Vec<usize> = (0..self.processes.len())
                .filter(|place| self.can_have(*place, at) == Some(true))
                .collect();
            let ([place], None) = (&able[..], &self.pairings[at]) else { continue };
            let Some(first) = self.holds[*place] else { continue };
            let (claim, process) = (self.claims[at], self.processes[*place].key);
            if claim.written_at <= self.claims[first].written_at {
                continue;
            }
            let is_proven = matches!(claim.memory, Some(PairMemory::OnlyOne { process: known, at })
                if known == process && claim.written_at > at);
            if is_proven {
                self.pairings[first] = Some(Pairing::Left { process });
                self.open(*place, at);
            } else {
                let what = format!("process {} has another session open, or this one", process.0);
                self.pairings[at] = Some(Pairing::Doubt { what, only_one: Some(process) });
            }
        }
    }

    /// What holds of a session that no process could be found for.
    fn weigh_rest(&self, at: usize) -> Option<Pairing> {
        let (claim, provider) = (self.claims[at], self.provider);
        // Its own word is enough.
        if claim.has_exited {
            return None;
        }
        let doubt = |what: String| Some(Pairing::Doubt { what, only_one: None });
        let free = (0..self.processes.len()).filter(|place| self.holds[*place].is_none());
        let able: Vec<Option<bool>> = free.map(|place| self.can_have(place, at)).collect();
        let count = able.iter().filter(|able| **able == Some(true)).count();
        if count > 0 {
            return doubt(format!("{count} processes of {provider} may have it open"));
        }
        if able.contains(&None) {
            return doubt(format!("a process of {provider} may have it open from another folder"));
        }
        if self.scanned_at < claim.written_at {
            return doubt("it was written after the last look at processes".to_owned());
        }
        let what = match claim.folders.last() {
            _ if self.processes.is_empty() => format!("no process called {provider} runs"),
            Some(folder) if !self.is_worked_in(claim) => {
                format!("no {provider} process works in {}", folder.display())
            }
            _ => format!("no {provider} process in its folder can have it open"),
        };
        Some(Pairing::Gone { what })
    }

    fn is_worked_in(&self, claim: &SessionClaim) -> bool {
        self.processes.iter().any(|process| process.works_in(&claim.folders) == Some(true))
    }

    /// Whether a process can have a session open, by its folder and its start. `None` if that is not
    /// known.
    fn can_have(&self, place: usize, at: usize) -> Option<bool> {
        let (process, claim) = (self.processes[place], self.claims[at]);
        if process.names(claim, &self.ids) {
            return Some(true);
        }
        if claim.has_exited {
            return Some(false);
        }
        // What a process has never written to, it has not open.
        if process.started_at.is_some_and(|started_at| started_at > claim.written_at) {
            return Some(false);
        }
        process.works_in(&claim.folders).filter(|works| !works || process.started_at.is_some())
    }

    /// Whether a process can have it that started after the one before was last seen: it may have
    /// written to the session before the end of that one was noticed.
    fn has_successor(&self, at: usize, seen_at: Time) -> bool {
        (0..self.processes.len()).any(|place| {
            let is_later = self.processes[place].started_at > Some(seen_at);
            is_later && self.can_have(place, at) == Some(true)
        })
    }

    fn is_resumed(&self, at: usize) -> bool {
        self.processes.iter().any(|process| process.names(self.claims[at], &self.ids))
    }

    fn place_of(&self, key: ProcessKey) -> Option<usize> {
        self.processes.iter().position(|process| process.key == key)
    }

    fn open(&mut self, place: usize, at: usize) {
        let process = self.processes[place];
        self.holds[place] = Some(at);
        self.pairings[at] = Some(Pairing::Open {
            process: process.key,
            started_at: process.started_at,
            is_named: process.names(self.claims[at], &self.ids),
        });
    }
}
