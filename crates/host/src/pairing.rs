//! Which process has which session open, where the agent itself does not tell.
//!
//! A registry entry, a held lock or a hook names the process of a session; such a process is
//! *taken* and has no other one. What is left is concluded here, from facts alone:
//!
//! | a session | the answer |
//! |---|---|
//! | whose named process has let go of its lock and holds that of another one | ended, unless the process may serve many |
//! | whose remembered process runs | open in it |
//! | whose remembered process ended, or went on to another session, and nothing was written since, nor by a process that started since | ended |
//! | of which one free process has the file open | open in it |
//! | that the command line of a process names | open in it, unless a session began in its folder since |
//! | that began in a folder where one free process worked by then | open in it |
//! | that began before the one free process which works in its folder, and was written since | open in it |
//! | of several that one process alone can have, one after another | the newest is open, it has left the others; in doubt, if the agent works on in them |
//! | of several that one process alone can have, at the same time | in doubt |
//! | that several free processes can have | in doubt |
//! | that only processes with another session can have, of which one has not written to its own since | in doubt |
//! | that only a process with a remembered, older session can have | in doubt; open in it once it is written again while no other process can have it, and the older one too, if the agent works on in it |
//! | without all that, written after the scan: its process may have started since | pending |
//! | that only a process without a known folder, or a server, can have | in doubt |
//! | that no process can have | gone |
//!
//! A process can have a session if it is of the session's agent, works in one of its folders, and
//! started before the session was last written. A free process is not taken and in none of the rows
//! above. Processes of other users are not among the facts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use event::Time;

use crate::agent_process::{AgentProcess, AgentScan, ProcessKey};
use crate::candidates::{Candidates, find_candidates};

/// Agents that work on in a session which their user has left for another one of the same process.
const KEEPS_SESSIONS: &[&str] = &["opencode"];

/// A session by its provider and the provider's id.
pub type SessionKey = (String, String);

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
    pub lock: SessionLock,
    pub memory: Option<PairMemory>,
}

/// What the named process of a session does with its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionLock {
    Held,
    /// It held the lock at an earlier look, and may take it again.
    LetGo,
    /// It has none, or that is not known.
    None,
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
    /// It was written after the scan, maybe by a process that has started since: the next scan tells.
    Pending,
}

/// Decides which process has each session open. A process that is not named by its agent has one
/// session at most, and each session one process.
pub fn pair_processes(scan: &AgentScan, claims: &[SessionClaim]) -> BTreeMap<SessionKey, Pairing> {
    let providers: BTreeSet<&str> = claims.iter().map(|claim| claim.key.0.as_str()).collect();
    let groups = providers.into_iter().map(|provider| PairingGroup::new(provider, scan, claims));
    groups.flat_map(PairingGroup::pair).chain(find_left(scan, claims)).collect()
}

/// Sessions whose process has let go of their lock and holds that of another one. A process that
/// serves many may take the lock again, and one that was not scanned may serve many.
fn find_left(scan: &AgentScan, claims: &[SessionClaim]) -> Vec<(SessionKey, Pairing)> {
    let holding = claims.iter().filter(|claim| claim.lock == SessionLock::Held);
    let holding: BTreeSet<u32> = holding.filter_map(|claim| claim.named).collect();
    let let_go = claims.iter().filter(|claim| claim.lock == SessionLock::LetGo);
    let left = let_go.filter_map(|claim| {
        let pid = claim.named.filter(|pid| holding.contains(pid))?;
        let is_holder = |it: &&AgentProcess| it.key.0 == pid && it.program == claim.key.0;
        let process = scan.processes.iter().find(is_holder).filter(|it| !it.may_be_server())?;
        Some((claim.key.clone(), Pairing::Left { process: process.key }))
    });
    left.collect()
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
            // What was seen before is compared with the next scan.
            Some(Pairing::Pending) => before,
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

/// The processes and sessions of one agent.
struct PairingGroup<'a> {
    provider: &'a str,
    scanned_at: Time,
    /// All that run, and those of them that their agent names for a session.
    running: BTreeSet<ProcessKey>,
    taken: BTreeSet<ProcessKey>,
    /// Those that no agent names.
    processes: Vec<&'a AgentProcess>,
    /// The place of each of them, in the order of their starts.
    places: HashMap<ProcessKey, usize>,
    /// Sessions without a named process.
    claims: Vec<&'a SessionClaim>,
    /// The processes that can have each session.
    candidates: Vec<Candidates>,
    /// The sessions that each process can have, by their places among the claims.
    sessions_of: Vec<Vec<usize>>,
    /// The session of each process.
    holds: Vec<Option<usize>>,
    pairings: Vec<Option<Pairing>>,
}

impl<'a> PairingGroup<'a> {
    fn new(provider: &'a str, scan: &'a AgentScan, claims: &'a [SessionClaim]) -> PairingGroup<'a> {
        let own = claims.iter().filter(|claim| claim.key.0 == provider);
        let ids = own.clone().map(|claim| claim.key.1.as_str());
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
        let candidates = find_candidates(&processes, &claims, ids);
        let mut sessions_of = vec![Vec::new(); processes.len()];
        for (at, found) in candidates.iter().enumerate() {
            found.able.iter().for_each(|place| sessions_of[*place].push(at));
        }
        let places = processes.iter().enumerate().map(|(place, it)| (it.key, place)).collect();
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
            places,
            claims,
            candidates,
            sessions_of,
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
                    Some(place) if self.keeps_sessions() => self.open_beside(place, at),
                    Some(_) => {}
                    None if self.is_resumed(at) => {}
                    // Its agent names it for another session.
                    None if self.taken.contains(&process) => {
                        self.pairings[at] = Some(self.leave(process));
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
        let mut having: HashMap<&Path, Vec<usize>> = HashMap::new();
        for (place, process) in self.processes.iter().enumerate() {
            let files = process.open_files.iter();
            files.for_each(|file| having.entry(file).or_default().push(place));
        }
        for at in 0..self.claims.len() {
            let Some(file) = self.claims[at].file.as_deref() else { continue };
            if let Some(&[place]) = having.get(file).map(Vec::as_slice)
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
            let mut sessions = self.sessions_of[place].clone();
            sessions.retain(|at| self.only_process(*at) == Some(place));
            let newest = sessions.iter().copied().max_by_key(|at| self.claims[*at].began_at);
            let Some(newest) = newest else { continue };
            let begun = self.claims[newest].began_at;
            let mut others = sessions.iter().filter(|at| **at != newest);
            // One after another: the process went on from each to the next.
            if others.all(|at| self.claims[*at].written_at <= begun) {
                let process = self.processes[place].key;
                for at in sessions {
                    self.pairings[at] = Some(self.leave(process));
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
        let Candidates { naming, able, .. } = &self.candidates[at];
        let able = if self.is_unseen(at) { &[][..] } else { able };
        let only = |places: &[usize], has: &dyn Fn(usize) -> bool| {
            let free = places.iter().copied().filter(|place| self.holds[*place].is_none());
            let mut found = free.filter(|place| has(*place));
            match (found.next(), found.next()) {
                (None, _) => None,
                (first, None) => Some(first),
                (Some(_), Some(_)) => Some(None),
            }
        };
        let has_begun = |place: usize| self.processes[place].started_at <= Some(claim.began_at);
        let any = |_| true;
        only(naming, &any).or_else(|| only(able, &has_begun)).or_else(|| only(able, &any)).flatten()
    }

    /// Sessions that only a process with a remembered session can have: it went on to them if they
    /// were written while there was no other.
    fn weigh_second_sessions(&mut self) {
        for at in 0..self.claims.len() {
            if self.pairings[at].is_some() || self.is_unseen(at) {
                continue;
            }
            let &[place] = &self.candidates[at].able[..] else {
                self.pairings[at] = self.weigh_several(at);
                continue;
            };
            let Some(first) = self.holds[place] else { continue };
            let (claim, process) = (self.claims[at], self.processes[place].key);
            if claim.written_at <= self.claims[first].written_at {
                if self.keeps_sessions() && !claim.has_exited {
                    self.pairings[at] = Some(in_doubt_beside(process));
                }
                continue;
            }
            let is_proven = matches!(claim.memory, Some(PairMemory::OnlyOne { process: known, at })
                if known == process && claim.written_at > at);
            if is_proven && self.keeps_sessions() {
                self.open_beside(place, at);
            } else if is_proven {
                self.pairings[first] = Some(Pairing::Left { process });
                self.open(place, at);
            } else {
                self.pairings[at] = Some(in_doubt_beside(process));
            }
        }
    }

    /// A session that several processes can have, each of which has another one: one of them may have
    /// gone on to it, if it has not written to its own since.
    fn weigh_several(&self, at: usize) -> Option<Pairing> {
        let (claim, able) = (self.claims[at], &self.candidates[at].able);
        let first_of = |place: &usize| self.holds[*place].map(|first| self.claims[first]);
        if claim.has_exited || able.iter().any(|place| first_of(place).is_none()) {
            return None;
        }
        let is_quiet = |first: &SessionClaim| claim.written_at > first.written_at;
        let may_have = |first: &&SessionClaim| self.keeps_sessions() || is_quiet(first);
        let count = able.iter().filter_map(first_of).filter(may_have).count();
        let what = format!("{count} processes of {} may have gone on to it", self.provider);
        (count > 0).then_some(Pairing::Doubt { what, only_one: None })
    }

    /// What holds of a session that no process could be found for.
    fn weigh_rest(&self, at: usize) -> Option<Pairing> {
        let (claim, provider) = (self.claims[at], self.provider);
        // Its own word is enough.
        if claim.has_exited {
            return None;
        }
        if self.is_unseen(at) {
            return Some(Pairing::Pending);
        }
        let doubt = |what: String| Some(Pairing::Doubt { what, only_one: None });
        let is_free = |place: &&usize| self.holds[**place].is_none();
        let Candidates { able, unsure, is_worked_in, .. } = &self.candidates[at];
        let count = able.iter().filter(is_free).count();
        if count > 0 {
            return doubt(format!("{count} processes of {provider} may have it open"));
        }
        if unsure.iter().any(|place| is_free(&place)) {
            return doubt(format!("a process of {provider} may have it open from another folder"));
        }
        let what = match claim.folders.last() {
            _ if self.processes.is_empty() => format!("no process called {provider} runs"),
            Some(folder) if !is_worked_in => {
                format!("no {provider} process works in {}", folder.display())
            }
            _ => format!("no {provider} process in its folder can have it open"),
        };
        Some(Pairing::Gone { what })
    }

    /// Whether a process can have it that started after the one before was last seen: it may have
    /// written to the session before the end of that one was noticed.
    fn has_successor(&self, at: usize, seen_at: Time) -> bool {
        let able = self.candidates[at].able.iter();
        able.map(|place| self.processes[*place].started_at).any(|start| start > Some(seen_at))
    }

    /// Whether it was written after the scan, maybe by a process that has started since.
    fn is_unseen(&self, at: usize) -> bool {
        self.scanned_at < self.claims[at].written_at
    }

    fn place_of(&self, key: ProcessKey) -> Option<usize> {
        self.places.get(&key).copied()
    }

    fn is_resumed(&self, at: usize) -> bool {
        !self.candidates[at].naming.is_empty()
    }

    /// Whether the agent works on in a session that its user has left for another one.
    fn keeps_sessions(&self) -> bool {
        KEEPS_SESSIONS.contains(&self.provider)
    }

    /// What a session is whose process has another one open.
    fn leave(&self, process: ProcessKey) -> Pairing {
        match self.keeps_sessions() {
            true => in_doubt_beside(process),
            false => Pairing::Left { process },
        }
    }

    fn open(&mut self, place: usize, at: usize) {
        self.holds[place] = Some(at);
        self.open_beside(place, at);
    }

    /// Pairs a session with a process that may have another one open, too.
    fn open_beside(&mut self, place: usize, at: usize) {
        let process = self.processes[place];
        self.pairings[at] = Some(Pairing::Open {
            process: process.key,
            started_at: process.started_at,
            is_named: self.candidates[at].naming.contains(&place),
        });
    }
}

fn in_doubt_beside(process: ProcessKey) -> Pairing {
    let what = format!("process {} has another session open, or this one", process.0);
    Pairing::Doubt { what, only_one: Some(process) }
}
