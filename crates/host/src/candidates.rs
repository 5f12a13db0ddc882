//! Which processes can have which session open, before it is decided which of them has it.
//!
//! Processes are found by their folders and by what their command lines name, so that the work grows
//! with the number of sessions and of processes, and not with their product.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::agent_process::AgentProcess;
use crate::pairing::SessionClaim;

/// Letters of an id that may stand for it on a command line.
const ID_LETTERS_MIN: usize = 8;

/// The processes that can have a session open, by their places in the order of their starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Candidates {
    /// Those whose command line names it.
    pub(crate) naming: Vec<usize>,
    /// Those that can have it: they name it, or work in one of its folders and started before it was
    /// last written.
    pub(crate) able: Vec<usize>,
    /// Those of which that is not known.
    pub(crate) unsure: Vec<usize>,
    /// Whether a process works in one of its folders, whenever it started.
    pub(crate) is_worked_in: bool,
}

/// Finds the candidates of each session. `ids` has the ids of all sessions of the agent.
pub(crate) fn find_candidates(
    processes: &[&AgentProcess],
    claims: &[&SessionClaim],
    ids: impl IntoIterator<Item = impl AsRef<str>>,
) -> Vec<Candidates> {
    let naming = find_named(processes, claims, ids);
    let mut by_folder: HashMap<PathBuf, Vec<usize>> = HashMap::new();
    let mut anywhere = Vec::new();
    for (place, process) in processes.iter().enumerate() {
        match process.folders() {
            Some(folders) => {
                folders.for_each(|folder| by_folder.entry(folder).or_default().push(place))
            }
            None => anywhere.push(place),
        }
    }
    let all: Vec<usize> = (0..processes.len()).collect();
    let found = claims.iter().zip(naming).map(|(claim, naming)| {
        let mut working: Vec<usize> = claim
            .folders
            .iter()
            .flat_map(|folder| by_folder.get(folder))
            .flatten()
            .copied()
            .collect();
        working.sort_unstable();
        working.dedup();
        let is_worked_in = !working.is_empty();
        // Its own word is enough: only a process that names it has opened it again.
        if claim.has_exited {
            return Candidates { able: naming.clone(), naming, unsure: Vec::new(), is_worked_in };
        }
        // What a process has never written to, it has not open.
        let has_written = |place: &usize| {
            processes[*place].started_at.is_none_or(|started_at| started_at <= claim.written_at)
        };
        let is_other = |place: &usize| !naming.contains(place) && has_written(place);
        let (mut able, mut unsure): (Vec<usize>, Vec<usize>) = working
            .into_iter()
            .filter(is_other)
            .partition(|place| processes[*place].started_at.is_some());
        let unknown = if claim.folders.is_empty() { &all } else { &anywhere };
        unsure.extend(unknown.iter().copied().filter(is_other));
        able.extend(&naming);
        able.sort_unstable();
        Candidates { naming, able, unsure, is_worked_in }
    });
    found.collect()
}

/// For each session the processes whose command line names it. What is the whole id of one session is
/// no beginning of another: Goose has `20260101_1` and `20260101_12`.
fn find_named(
    processes: &[&AgentProcess],
    claims: &[&SessionClaim],
    ids: impl IntoIterator<Item = impl AsRef<str>>,
) -> Vec<Vec<usize>> {
    let whole: std::collections::BTreeSet<String> =
        ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
    let mut by_id: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut by_file: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, claim) in claims.iter().enumerate() {
        if claim.key.1.len() >= ID_LETTERS_MIN {
            by_id.entry(claim.key.1.as_str()).or_default().push(at);
        }
        if let Some(file) = claim.file.as_deref().and_then(Path::to_str) {
            by_file.entry(file).or_default().push(at);
        }
    }
    let mut named = vec![Vec::new(); claims.len()];
    for (place, process) in processes.iter().enumerate() {
        for value in process.named_values() {
            let from = (Bound::Included(value), Bound::Unbounded);
            let beginning = by_id.range::<str, _>(from).take_while(|(id, _)| id.starts_with(value));
            let is_whole = whole.contains(value);
            let by_id = beginning.filter(|(id, _)| **id == value || !is_whole);
            let by_id = by_id.filter(|_| value.len() >= ID_LETTERS_MIN).flat_map(|(_, ats)| ats);
            for at in by_id.chain(by_file.get(value).into_iter().flatten()) {
                if named[*at].last() != Some(&place) {
                    named[*at].push(place);
                }
            }
        }
    }
    named
}
