//! Which source of a pass is read before which.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::age::{FileTimes, file_ages};
use crate::agent::LineageHint;

/// What the place of a source in the order depends on.
pub(crate) struct OrderFacts<'a> {
    pub provider: &'a str,
    /// The provider's id of its session.
    pub session: &'a str,
    pub file_name: &'a str,
    pub hint: &'a LineageHint,
    pub times: FileTimes,
}

/// The turn of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadTurn {
    /// Its number in what was given.
    pub source: usize,
    /// A relative is read in the same pass: what that one recorded has to be durable first.
    pub has_relatives: bool,
    /// Another source of the pass names it as its parent.
    pub is_named_parent: bool,
}

/// Newest first, because that is what the user looks for; but a parent before its forks.
pub(crate) fn reading_order(sources: &[OrderFacts<'_>]) -> Vec<ReadTurn> {
    let mut newest_first: Vec<usize> = (0..sources.len()).collect();
    newest_first.sort_by_key(|number| Reverse(sources[*number].times.changed));
    let sorted: Vec<&OrderFacts<'_>> =
        newest_first.iter().map(|number| &sources[*number]).collect();

    let mut families: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let mut sessions: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (number, source) in sorted.iter().enumerate() {
        sessions.entry((source.provider, source.session)).or_default().push(number);
        if let Some(family) = &source.hint.family {
            families.entry((source.provider, family)).or_default().push(number);
        }
    }

    // The source that each one waits for. Later rules overwrite earlier ones.
    let mut waits_for: Vec<Option<usize>> = vec![None; sorted.len()];
    let mut has_family = BTreeSet::new();
    // In a family every source waits for the next older one.
    for family in families.values() {
        let times: Vec<FileTimes> = family.iter().map(|number| sorted[*number].times).collect();
        let mut by_age: Vec<_> = file_ages(&times).into_iter().zip(family).collect();
        // What the first bytes say of the time counts more than the file.
        by_age.sort_by_key(|(age, number)| Reverse((sorted[**number].hint.since, *age)));
        for pair in by_age.windows(2) {
            waits_for[*pair[0].1] = Some(*pair[1].1);
            has_family.extend([*pair[0].1, *pair[1].1]);
        }
    }
    // The files of one session are read in the order they were written, unless they are numbered.
    let is_numbered = |number: &usize| sorted[*number].hint.begins_at.is_some();
    for files in sessions.values().filter(|files| !files.iter().any(is_numbered)) {
        for pair in files.windows(2) {
            waits_for[pair[0]] = Some(pair[1]);
        }
    }
    // A named parent counts most. Of several files of the parent the last is waited for; within
    // its own session a numbered file waits for the one before it.
    for (number, source) in sorted.iter().enumerate() {
        if source.hint.parent.is_none() && source.hint.begins_at.is_none() {
            continue;
        }
        let parent = source.hint.parent.as_deref().unwrap_or(source.session);
        let files = sessions.get(&(source.provider, parent)).into_iter().flatten().copied();
        let before = files.filter(|other| {
            parent != source.session || sorted[*other].file_name < source.file_name
        });
        let before = before.max_by_key(|other| sorted[*other].file_name);
        waits_for[number] = before.or(waits_for[number]);
    }

    let mut named_parents: BTreeSet<usize> = BTreeSet::new();
    for source in &sorted {
        let parent = source.hint.fork_parent(source.session);
        let parent = parent.and_then(|parent| sessions.get(&(source.provider, parent.as_str())));
        named_parents.extend(parent.into_iter().flatten());
    }
    let turn = |number: usize| ReadTurn {
        source: newest_first[number],
        // Forks of one parent need not wait for each other, but what one of them recorded has to
        // be there for the next. The eldest may be read after a source that names its parent.
        has_relatives: waits_for[number].is_some()
            || has_family.contains(&number)
            || sorted[number].hint.fork_parent(sorted[number].session).is_some(),
        is_named_parent: named_parents.contains(&number),
    };
    let mut is_taken = vec![false; sorted.len()];
    let mut turns = Vec::with_capacity(sorted.len());
    for number in 0..sorted.len() {
        // Everything it waits for comes first; a cycle ends where it closes.
        let mut chain = vec![number];
        while let Some(next) = waits_for[chain[chain.len() - 1]] {
            if is_taken[next] || chain.contains(&next) {
                break;
            }
            chain.push(next);
        }
        for number in chain.into_iter().rev() {
            if !std::mem::replace(&mut is_taken[number], true) {
                turns.push(turn(number));
            }
        }
    }
    turns
}
