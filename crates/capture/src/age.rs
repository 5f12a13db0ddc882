//! Which of several sources that share a beginning was begun first.

use std::fs::Metadata;

use event::Time;

use crate::agent::LineageHint;
use crate::checkpoint::{changed, made};

/// When a source was begun, as far as anybody can tell. The older one is the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Age {
    /// What its own first bytes say counts most.
    pub since: Option<Time>,
    file: i64,
}

/// How old the members of a family are.
///
/// One that repeats another begins with the same record, but its file is the younger one, also if
/// somebody went on in the older. Where all are copies that kept their times, when the copies were
/// made says nothing.
pub(crate) fn ages(family: &[(&LineageHint, &Metadata)]) -> Vec<Age> {
    let is_copy = |metadata: &Metadata| changed(metadata) < made(metadata);
    let begun = if family.iter().all(|(_, file)| is_copy(file)) { changed } else { made };
    family.iter().map(|(hint, file)| Age { since: hint.since, file: begun(file) }).collect()
}
